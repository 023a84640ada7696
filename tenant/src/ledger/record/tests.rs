use proptest::prelude::*;

use super::*;

fn ids() -> impl Strategy<Value = Payer> {
    (any::<u128>(), any::<u128>(), "[0-9A-Za-z]{12}").prop_map(|(tenant, project, key)| Payer {
        tenant: TenantId(Uuid::from_u128(tenant)),
        project: ProjectId(Uuid::from_u128(project)),
        key: KeyId::parse(&key).unwrap(),
    })
}

fn model() -> impl Strategy<Value = ModelName> {
    "[!-~]{1,128}".prop_map(|name| ModelName::new(&name).unwrap())
}

fn used() -> impl Strategy<Value = Used> {
    any::<[u64; 3]>().prop_map(|[prompt, cached, completion]| Used { prompt, cached, completion })
}

fn open() -> impl Strategy<Value = Open> {
    let pricing = prop_oneof![
        Just(Pricing::Unpriced),
        prop::array::uniform3(0..1_000_000_u64)
            .prop_map(|[a, b, c]| Pricing::Priced(Price::new(a, b, c).unwrap())),
    ];
    let worst = (0..1_u64 << 32, 0..1_u64 << 32).prop_map(|(a, b)| WorstCase::new(a, b, 1).unwrap());
    (0..i64::MAX, ids(), model(), pricing, 0..1_u64 << 36, worst, used()).prop_map(
        |(made, payer, model, pricing, binds, worst, used)| Open {
            made: UnixMillis::new(made).unwrap(),
            payer,
            model,
            pricing,
            binds: Binds::from_bits(binds).unwrap(),
            worst,
            used,
        },
    )
}

fn line() -> impl Strategy<Value = Line> {
    let level = (ids(), 0..3).prop_map(|(payer, level)| match level {
        0 => Level::Key(payer.key),
        1 => Level::Project(payer.project),
        _ => Level::Tenant(payer.tenant),
    });
    let models = prop_oneof![Just(Models::All), model().prop_map(Models::One)];
    let unit = prop_oneof![Just(Unit::Tokens), Just(Unit::MicroMoney)];
    let period = prop_oneof![Just(Period::Day), Just(Period::Month), Just(Period::Total)];
    (level, models, unit, period).prop_map(|(level, models, unit, period)| Line {
        level,
        models,
        unit,
        period,
    })
}

fn highest() -> impl Strategy<Value = Highest> {
    (any::<u64>(), any::<u8>()).prop_map(|(limit, percent)| Highest { limit, percent })
}

fn record() -> impl Strategy<Value = Record> {
    let tenant = || any::<u128>().prop_map(|id| TenantId(Uuid::from_u128(id)));
    let kind = prop_oneof![Just(BudgetKind::Hard), Just(BudgetKind::Soft)];
    let row = (
        prop_oneof![Just(Place::Pending), Just(Place::Out)],
        any::<u64>(),
        ids(),
        model(),
        any::<[u64; 6]>(),
    )
        .prop_map(
            |(place, hour, payer, model, [requests, prompt, cached, completion, cost_micro, unpriced])| {
                let amounts = Amounts { requests, prompt, cached, completion, cost_micro, unpriced };
                Record::Row { place, row: UsageRow { hour, payer, model, amounts } }
            },
        );
    prop_oneof![
        (any::<u64>(), open())
            .prop_map(|(id, open)| Record::Reserve { id, open: Open { used: Used::NONE, ..open } }),
        (any::<u64>(), open()).prop_map(|(id, open)| Record::Open { id, open }),
        (tenant(), any::<u64>(), used()).prop_map(|(tenant, id, used)| Record::Mark { tenant, id, used }),
        (tenant(), any::<u64>(), used()).prop_map(|(tenant, id, used)| Record::Settle { tenant, id, used }),
        (tenant(), line(), any::<u64>(), kind, highest()).prop_map(|(tenant, line, start, kind, highest)| {
            Record::Tell { tenant, line, start, kind, highest }
        }),
        any::<u64>().prop_map(|number| Record::Take { number }),
        any::<u64>().prop_map(|number| Record::Confirm { number }),
        any::<(u128, u64, u64)>().prop_map(|(journal, last_id, last_batch)| {
            Record::Begin { journal: Uuid::from_u128(journal), last_id, last_batch }
        }),
        (tenant(), any::<[u64; 3]>(), any::<u32>()).prop_map(|(tenant, months, era)| Record::Book {
            tenant,
            months,
            era
        }),
        (tenant(), line(), any::<u32>(), any::<[u64; 2]>(), highest(), highest()).prop_map(
            |(tenant, line, era, [start, spent], hard, soft)| {
                let told = Told { hard, soft };
                let part = Part { epoch: start, amount: spent, seen: 7, spent_elsewhere: 8 };
                Record::Sum { tenant, line, era, sum: Sum { start, spent, told, part, ..Sum::default() } }
            }
        ),
        (tenant(), line(), any::<[u64; 6]>()).prop_map(|(tenant, line, numbers)| {
            let [start, epoch, amount, seen, spent_elsewhere, all_spent] = numbers;
            let part = Part { epoch, amount, seen, spent_elsewhere };
            Record::Part { tenant, line, start, part, spent: all_spent }
        }),
        (tenant(), line(), any::<u64>()).prop_map(|(tenant, line, start)| Record::Forget {
            tenant,
            line,
            start
        }),
        row,
        any::<u128>().prop_map(|name| Record::Life { name: Uuid::from_u128(name) }),
        any::<u64>().prop_map(|records| Record::End { records }),
    ]
}

proptest! {
    #[test]
    fn a_record_is_read_as_it_was_written_and_no_other_way(record in record()) {
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        prop_assert!(bytes.len() <= RECORD_BYTES_MAX, "{} bytes", bytes.len());
        prop_assert_eq!(Record::read(&bytes), Some(record));
        for cut in 0..bytes.len() {
            prop_assert_eq!(Record::read(&bytes[..cut]), None);
        }
        bytes.push(0);
        prop_assert_eq!(Record::read(&bytes), None);
    }

    #[test]
    fn noise_is_read_without_a_panic_and_written_back_as_it_was(noise in prop::collection::vec(any::<u8>(), 0..330)) {
        // 7 and 18 are of the form without parts, and are written no more; of 16, the one with parts is.
        for kind in (0..32).chain([255]).filter(|kind| ![7, 16, 18].contains(kind)) {
            let bytes = [&[kind], &noise[..]].concat();
            if let Some(record) = Record::read(&bytes) {
                let mut again = Vec::new();
                record.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
