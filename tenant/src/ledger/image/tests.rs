use proptest::prelude::*;

use super::*;
use crate::ledger::frame::Builder;

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read_and_never_panic(noise in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(Image::read(&noise).is_err());
        // Sound frames around records that make no sense.
        let begin = Record::Begin { journal: Uuid::nil(), last_id: 0, last_batch: 0 };
        let (mut bytes, mut builder) = (Vec::new(), Builder::default());
        builder.add(&begin);
        builder.add(&Record::End { records: 0 });
        builder.seal(0, &mut bytes);
        prop_assert!(Image::read(&bytes).is_ok());
        let whole = bytes.len();
        bytes.extend_from_slice(&noise);
        if let Ok((_, read)) = Image::read(&bytes) {
            prop_assert_eq!(read.torn_bytes, bytes.len() - whole);
        }
    }
}

#[test]
fn records_that_do_not_fit_are_refused() {
    let tenant = TenantId(Uuid::nil());
    let begin = Record::Begin { journal: Uuid::nil(), last_id: 0, last_batch: 0 };
    let end = |records| Record::End { records };
    let book = Record::Book { tenant, months: [0; 3], era: 0 };
    let settle = Record::Settle { tenant, id: 1, used: Used::NONE };
    let cases: [(&[&Record], Damage); 8] = [
        (&[], Damage::NoCheckpoint),
        (&[&end(0)], Damage::NoCheckpoint),
        (&[&begin], Damage::NoCheckpoint),
        (&[&begin, &end(1)], Damage::Form),
        (&[&begin, &begin, &end(1)], Damage::Form),
        (&[&begin, &book, &book, &end(2)], Damage::Form),
        (&[&begin, &end(0), &book], Damage::Form),
        (&[&begin, &end(0), &settle], Damage::Unfit(Unfit::NoSuchReservation)),
    ];
    for (records, why) in cases {
        let (mut bytes, mut builder) = (Vec::new(), Builder::default());
        for record in records {
            builder.add(record);
        }
        if !records.is_empty() {
            builder.seal(0, &mut bytes);
        }
        assert_eq!(Image::read(&bytes).unwrap_err().why, why, "{records:?}");
    }
}

/// A checkpoint of before lives had names: its rows are given under the journal's.
#[test]
fn rows_without_a_life_are_the_journal_s() {
    use crate::ledger::Payer;
    use crate::ledger::usage::{Amounts, Place, Taken, UsageRow};
    use crate::level::ProjectId;

    let journal = Uuid::from_u128(9);
    let payer = Payer {
        tenant: TenantId(Uuid::nil()),
        project: ProjectId(Uuid::nil()),
        key: crate::key::KeyId::parse("aaaaaaaaaaaa").unwrap(),
    };
    let row = |hour| {
        let (model, amounts) = (crate::level::ModelName::new("m").unwrap(), Amounts::default());
        UsageRow { hour, payer, model, amounts }
    };
    let (mut bytes, mut builder) = (Vec::new(), Builder::default());
    for record in [
        Record::Begin { journal, last_id: 0, last_batch: 4 },
        Record::Row { place: Place::Pending, row: row(2) },
        Record::Row { place: Place::Out, row: row(1) },
        Record::End { records: 2 },
    ] {
        builder.add(&record);
    }
    builder.seal(0, &mut bytes);
    let (mut image, _) = Image::read(&bytes).unwrap();
    image.usage.begin_life(Uuid::from_u128(10));
    for (number, hour) in [(4, 1), (5, 2)] {
        let Taken::Batch(batch) = image.usage.given() else { panic!("one is out") };
        assert_eq!((batch.journal, batch.number, batch.rows), (journal, number, vec![row(hour)]));
        image.apply(&Record::Confirm { number }).unwrap();
        image.apply(&Record::Take { number: number + 1 }).unwrap_or_default();
    }
    assert_eq!(image.usage.given(), Taken::Nothing);
}
