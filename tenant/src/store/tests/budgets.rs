//! Budgets, prices and usage, on each database.

use super::*;
use crate::directory::{Caller, Directory, Principal};
use crate::key::KeyId;
use crate::ledger::{
    Amounts, Batch, Budget, BudgetKind, Payer, Period, Price, Prices, Pricing, Thresholds, Unit, UsageRow,
};
use crate::level::{Level, ModelName, Models, ProjectId};
use crate::purpose::Reach;

on_both!(
    budgets_are_kept_changed_lifted_and_followed,
    budgets_are_refused_by_name,
    budgets_change_only_as_they_are_expected_to_look,
    budgets_come_in_pages,
    prices_are_one_list,
    usage_is_added_once_and_summed_by_its_parts,
    usage_that_is_too_much_for_an_answer_is_refused,
    old_usage_is_forgotten,
);

const HOUR: i64 = 3_600_000;

fn model(name: &str) -> ModelName {
    ModelName::new(name).unwrap()
}

fn budget(level: Level, limit: u64) -> Budget {
    let thresholds = Thresholds::new(&[50, 80]).unwrap();
    let (unit, period, kind) = (Unit::Tokens, Period::Month, BudgetKind::Hard);
    Budget { level, models: Models::All, unit, period, limit, kind, thresholds }
}

async fn principal(bench: &Bench, directory: &Directory, tenant: TenantId) -> Principal {
    let (_, key) = bench.key(tenant).await;
    directory.refresh(&bench.store).await.unwrap();
    let Ok(Caller::Service(principal)) = directory.authenticate(key.expose(), at(NOW)) else {
        panic!("it works")
    };
    principal
}

async fn budgets_are_kept_changed_lifted_and_followed(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let directory = Directory::open(&bench.store).await.unwrap();
    let principal = principal(&bench, &directory, tenant).await;
    let (key, project) = (principal.key, principal.project);
    let seen = async |name: &str| {
        directory.refresh(&bench.store).await.unwrap();
        directory.charges(&principal, &model(name))
    };
    assert_eq!(seen("a").await, (vec![], Pricing::Unpriced));

    let of_key = budget(Level::Key(key), 1);
    let soft = Budget { kind: BudgetKind::Soft, thresholds: Thresholds::NONE, limit: 2, ..of_key.clone() };
    let money = Budget {
        models: Models::One(model("a")),
        unit: Unit::MicroMoney,
        period: Period::Day,
        ..budget(Level::Project(project), 0)
    };
    let most = Budget { period: Period::Total, ..budget(Level::Tenant(tenant), BUDGET_MAX) };
    for budget in [&of_key, &soft, &money, &most] {
        bench.store.set_budget(budget, at(NOW)).await.unwrap();
    }
    let listed = bench.store.list_budgets(tenant).await.unwrap();
    assert_eq!(listed, [of_key.clone(), soft.clone(), money.clone(), most.clone()]);
    let has = |budgets: &[Budget], budget| budgets.contains(budget);
    let (all, _) = seen("a").await;
    assert!(all.len() == 4 && listed.iter().all(|budget| has(&all, budget)), "{all:?}");
    let (others, _) = seen("b").await;
    assert!(others.len() == 3 && !has(&others, &money), "{others:?}");

    let raised = Budget { limit: 9, ..of_key.clone() };
    bench.store.set_budget(&raised, at(NOW)).await.unwrap();
    bench.store.lift_budget(&soft.name(), at(NOW)).await.unwrap();
    let (now, _) = seen("b").await;
    assert!(now.len() == 2 && has(&now, &raised) && has(&now, &most), "{now:?}");
    assert_eq!(bench.store.list_budgets(tenant).await.unwrap(), [raised, money, most]);
    assert_eq!(bench.store.list_budgets(bench.tenant("Other").await.id).await.unwrap(), []);
    let anew = Directory::open(&bench.store).await.unwrap();
    assert_eq!(anew.charges(&principal, &model("b")).0.len(), 2, "what was lifted is not read either");
}

async fn budgets_are_refused_by_name(mut bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let set = async |store: &Store, budget: Budget| store.set_budget(&budget, at(NOW)).await.err();
    let nobody = KeyId::parse("aaaaaaaaaaaa").unwrap();
    let refused = set(&bench.store, budget(Level::Key(nobody), 1)).await;
    assert!(matches!(refused, Some(StoreError::NoSuchKey(id)) if id == nobody));
    let nothing = ProjectId(Uuid::from_u128(1));
    assert!(matches!(
        set(&bench.store, budget(Level::Project(nothing), 1)).await,
        Some(StoreError::NoSuchProject(_))
    ));
    let refused = set(&bench.store, budget(Level::Tenant(tenant), BUDGET_MAX + 1)).await;
    assert!(matches!(refused, Some(StoreError::BudgetTooHigh { asked, .. }) if asked == BUDGET_MAX + 1));
    bench.store.room.budgets = 1;
    assert!(set(&bench.store, budget(Level::Tenant(tenant), 1)).await.is_none());
    assert!(set(&bench.store, budget(Level::Tenant(tenant), 2)).await.is_none(), "it is there already");
    let day = Budget { period: Period::Day, ..budget(Level::Tenant(tenant), 1) };
    assert!(matches!(set(&bench.store, day).await, Some(StoreError::Full { limit: 1 })));
    bench.by_hand("UPDATE budgets SET thresholds = '80,50'").await.unwrap();
    let read = bench.store.list_budgets(tenant).await.err();
    assert!(matches!(read, Some(StoreError::Damaged { table: "budgets", column: "thresholds" })));
}

async fn budgets_change_only_as_they_are_expected_to_look(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let one = budget(Level::Tenant(tenant), 1);
    let (set, lifted) = (BudgetEntry::Set(one.clone()), BudgetEntry::Lifted(one.name()));
    let change = async |entry: &BudgetEntry, seen: &BudgetEntry| {
        bench.store.change_budget(entry, Expect::Version(seen.version()), at(NOW)).await
    };
    let held = async || bench.store.budget_of(&one.name()).await.unwrap();
    assert_eq!(held().await, (tenant, lifted.clone()));
    assert!(matches!(change(&set, &set).await, Err(StoreError::Stale)));
    change(&set, &lifted).await.unwrap();
    assert_eq!(held().await, (tenant, set.clone()));
    assert!(matches!(change(&lifted, &lifted).await, Err(StoreError::Stale)));
    let events = async || bench.store.events(Reach::Installation, None, 100).await.unwrap().len();
    change(&lifted, &set).await.unwrap();
    let (told, revision) = (events().await, bench.store.revision().await.unwrap());
    change(&lifted, &lifted).await.unwrap();
    let after = (events().await, bench.store.revision().await.unwrap());
    assert_eq!((told, revision), after, "what is not set is not lifted");
    assert_eq!(held().await, (tenant, lifted));

    let prices = |part| Prices::new([(model("a"), Price::new(part, part, part).unwrap())]).unwrap();
    let change = async |list: &Prices, seen: &Prices| {
        bench.store.change_prices(list, Expect::Version(seen.version()), at(NOW)).await
    };
    assert!(matches!(change(&prices(1), &prices(2)).await, Err(StoreError::Stale)));
    change(&prices(1), &Prices::default()).await.unwrap();
    change(&prices(2), &prices(1)).await.unwrap();
    assert_eq!(bench.store.prices().await.unwrap(), prices(2));
}

async fn budgets_come_in_pages(bench: Bench) {
    let (tenant, other) = (bench.tenant("Acme").await.id, bench.tenant("Other").await.id);
    let mut all = vec![];
    for period in [Period::Day, Period::Month, Period::Total] {
        for kind in [BudgetKind::Hard, BudgetKind::Soft] {
            for models in [Models::All, Models::One(model("a/b"))] {
                all.push(Budget { period, kind, models, ..budget(Level::Tenant(tenant), 1) });
            }
        }
    }
    for budget in all.iter().chain([&budget(Level::Tenant(other), 1)]) {
        bench.store.set_budget(budget, at(NOW)).await.unwrap();
    }
    bench.store.lift_budget(&all[0].name(), at(NOW)).await.unwrap();
    for most in [1, 4, 11, 12] {
        let mut seen: Vec<Budget> = vec![];
        loop {
            let after = seen.last().map(Budget::name);
            let page = bench.store.budgets_page(tenant, after.as_ref(), most).await.unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= most as usize);
            seen.extend(page);
        }
        assert_eq!(seen, bench.store.list_budgets(tenant).await.unwrap());
        assert_eq!(seen.len(), all.len() - 1);
    }
}

async fn prices_are_one_list(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let directory = Directory::open(&bench.store).await.unwrap();
    let principal = principal(&bench, &directory, tenant).await;
    let price = |part| Price::new(part, 0, part + 1).unwrap();
    let list = |models: &[(&str, u64)]| {
        Prices::new(models.iter().map(|(name, part)| (model(name), price(*part)))).unwrap()
    };
    for prices in [list(&[("a", 1), ("b", 2)]), list(&[("b", 3)]), list(&[])] {
        bench.store.set_prices(&prices, at(NOW)).await.unwrap();
        assert_eq!(bench.store.prices().await.unwrap(), prices);
        directory.refresh(&bench.store).await.unwrap();
        for name in ["a", "b"] {
            assert_eq!(directory.charges(&principal, &model(name)).1, prices.of(&model(name)), "{name}");
        }
    }
}

fn row(hour: u64, payer: Payer, name: &str, tokens: u64) -> UsageRow {
    let amounts = Amounts {
        requests: 1,
        prompt: tokens,
        cached: tokens / 2,
        completion: 10 * tokens,
        cost_micro: 100 * tokens,
        unpriced: 0,
    };
    UsageRow { hour, payer, model: model(name), amounts }
}

fn batch(journal: u128, number: u64, rows: Vec<UsageRow>) -> Batch {
    Batch { journal: Uuid::from_u128(journal), number, rows }
}

fn payer(tenant: TenantId, project: u128, key: &str) -> Payer {
    Payer { tenant, project: ProjectId(Uuid::from_u128(project)), key: KeyId::parse(key).unwrap() }
}

/// Everything of a tenant.
fn all(tenant: TenantId) -> UsageOf {
    UsageOf { tenant, project: None, key: None, model: None, hours: 0..u64::MAX }
}

/// The prompt tokens of each sum.
fn prompts(sums: &[UsageSum]) -> Vec<(u64, u64)> {
    sums.iter().map(|sum| (sum.hour, sum.amounts.prompt)).collect()
}

async fn usage_is_added_once_and_summed_by_its_parts(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let other = bench.tenant("Other").await.id;
    let (one, two) = (payer(tenant, 1, "aaaaaaaaaaaa"), payer(tenant, 2, "bbbbbbbbbbbb"));
    let first = batch(1, 1, vec![row(48, one, "a", 1), row(48, two, "b", 2), row(49, one, "a", 4)]);
    for expected in [Stored::Added, Stored::Before] {
        assert_eq!(bench.store.add_usage(&first, at(73 * HOUR)).await.unwrap(), expected);
    }
    let foreign = payer(other, 1, "aaaaaaaaaaaa");
    let second = batch(1, 2, vec![row(48, one, "a", 8), row(73, two, "a", 16), row(48, foreign, "a", 1_000)]);
    let elsewhere = batch(2, 1, vec![row(48, one, "a", 32)]);
    for more in [&second, &elsewhere] {
        assert_eq!(bench.store.add_usage(more, at(73 * HOUR)).await.unwrap(), Stored::Added);
    }
    assert_eq!(bench.store.add_usage(&first, at(73 * HOUR)).await.unwrap(), Stored::Before, "an old number");

    let sums = async |of: UsageOf, by, parts| bench.store.usage(&of, by, parts).await.unwrap();
    let none = UsageParts::default();
    let hourly = sums(all(tenant), UsageBy::Hour, none).await;
    assert_eq!(prompts(&hourly), [(48, 1 + 2 + 8 + 32), (49, 4), (73, 16)]);
    let daily = sums(all(tenant), UsageBy::Day, none).await;
    assert_eq!(prompts(&daily), [(48, 1 + 2 + 8 + 32 + 4), (72, 16)]);
    let whole = daily[0].amounts;
    assert_eq!((whole.requests, whole.completion, whole.cost_micro), (5, 470, 4_700));
    let by_key = sums(all(tenant), UsageBy::Day, UsageParts { key: true, ..none }).await;
    let keys: Vec<_> = by_key.iter().map(|sum| (sum.key, sum.project, sum.amounts.prompt)).collect();
    assert_eq!(keys, [(Some(one.key), None, 45), (Some(two.key), None, 2), (Some(two.key), None, 16)]);
    let by_both =
        sums(all(tenant), UsageBy::Day, UsageParts { project: true, key: false, model: true }).await;
    assert_eq!(by_both.len(), 3);
    assert_eq!((by_both[0].project, by_both[0].model.clone()), (Some(one.project), Some(model("a"))));

    let only = |of: UsageOf| sums(of, UsageBy::Hour, none);
    assert_eq!(prompts(&only(UsageOf { hours: 49..73, ..all(tenant) }).await), [(49, 4)]);
    let of_two = UsageOf { project: Some(two.project), ..all(tenant) };
    assert_eq!(prompts(&only(of_two).await), [(48, 2), (73, 16)]);
    let of_b = UsageOf { model: Some(model("b")), key: Some(two.key), ..all(tenant) };
    assert_eq!(prompts(&only(of_b).await), [(48, 2)]);
    assert_eq!(prompts(&only(all(other)).await), [(48, 1_000)]);

    let spent = async |budget: Budget, hour: i64| bench.store.spent(&budget, at(hour * HOUR)).await.unwrap();
    let day = |level| Budget { period: Period::Day, ..budget(level, 1) };
    assert_eq!(spent(day(Level::Tenant(tenant)), 50).await, 47 * 11);
    assert_eq!(spent(day(Level::Tenant(tenant)), 73).await, 16 * 11);
    assert_eq!(spent(day(Level::Tenant(tenant)), 96).await, 0);
    let money = Budget {
        unit: Unit::MicroMoney,
        models: Models::One(model("a")),
        ..day(Level::Project(one.project))
    };
    assert_eq!(
        spent(money.clone(), 50).await,
        100 * (1 + 4 + 8 + 32 + 1_000),
        "a project's id is one of all"
    );
    let month = Budget { period: Period::Month, ..day(Level::Key(two.key)) };
    assert_eq!(spent(month, 50).await, 18 * 11);
}

async fn usage_that_is_too_much_for_an_answer_is_refused(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let one = payer(tenant, 1, "aaaaaaaaaaaa");
    let most = u64::from(USAGE_ANSWER_MAX);
    let hours = |range: std::ops::Range<u64>| range.map(|hour| row(hour, one, "a", 1)).collect();
    bench.store.add_usage(&batch(1, 1, hours(0..most)), at(0)).await.unwrap();
    let asked = async || bench.store.usage(&all(tenant), UsageBy::Hour, UsageParts::default()).await;
    assert_eq!(asked().await.unwrap().len(), USAGE_ANSWER_MAX as usize);
    bench.store.add_usage(&batch(1, 2, hours(most..most + 1)), at(0)).await.unwrap();
    assert!(matches!(asked().await, Err(StoreError::UsageTooLong { allowed: USAGE_ANSWER_MAX })));
}

async fn old_usage_is_forgotten(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let one = payer(tenant, 1, "aaaaaaaaaaaa");
    let rows = vec![row(0, one, "a", 1), row(1, one, "a", 2)];
    bench.store.add_usage(&batch(1, 1, rows), at(0)).await.unwrap();
    let later = (USAGE_HOURS_KEPT as i64 + 1) * HOUR;
    bench.store.add_usage(&batch(1, 2, vec![row(2, one, "a", 4)]), at(later)).await.unwrap();
    let left = bench.store.usage(&all(tenant), UsageBy::Hour, UsageParts::default()).await.unwrap();
    assert_eq!(prompts(&left), [(1, 2), (2, 4)]);
}

#[cfg(feature = "seeded-faults")]
#[test]
#[should_panic(expected = "left: Added")]
fn control_a_batch_that_is_added_again_is_noticed() {
    crate::fault::with(crate::fault::Fault::BatchAgain, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { usage_is_added_once_and_summed_by_its_parts(Bench::sqlite().await).await });
    });
}
