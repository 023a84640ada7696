//! What one tenant may have of what all have in common, and which events are forgotten.

use super::*;
use crate::ledger::{BudgetKind, BudgetName, Period, Thresholds, Unit};
use crate::level::{Level, ModelName, Models};
use crate::purpose::Reach;
use crate::rate::{Limit, Limits, Rule, Scope};

on_both!(
    a_tenant_has_a_part_of_its_own,
    who_has_most_events_loses_the_oldest,
    events_that_vanish_by_hand_are_counted_anew,
    only_ids_of_this_store_s_events_go_on,
);

fn of_model(tenant: TenantId, model: usize) -> Scope {
    let models = Models::One(ModelName::new(&model.to_string()).unwrap());
    Scope { level: Level::Tenant(tenant), models }
}

pub(super) async fn a_tenant_has_a_part_of_its_own(bench: Bench) {
    let bounds = TenantBounds { keys: 2, projects: 3, limits: 2, budgets: 2 };
    let store = bench.store.bounded(bounds).acting_as(Actor::System);
    let (acme, other) = (bench.tenant("Acme").await.id, bench.tenant("Other").await.id);
    let full = |ended: Result<(), StoreError>, of: Belonging, most: u32| {
        let is_it = matches!(
            ended,
            Err(StoreError::TenantFull { part, held, allowed }) if (part, held, allowed) == (of, most, most)
        );
        assert!(is_it, "{of:?}: {ended:?}");
    };
    let key = async |of| {
        let spec = bench.spec(of).await;
        store.create_key(spec, at(NOW)).await.map(|(key, _)| key.id)
    };
    let first = key(acme).await.unwrap();
    store.revoke_key(first, at(NOW)).await.unwrap();
    key(acme).await.unwrap();
    full(key(acme).await.map(drop), Belonging::Keys, 2);
    let project = async |of, called: &str| store.create_project(of, name(called), at(NOW)).await.map(drop);
    for called in ["a", "b"] {
        project(acme, called).await.unwrap();
    }
    full(project(acme, "c").await, Belonging::Projects, 3);
    let limit = async |of, model, limit| {
        let limits = Limits { at_once: limit, ..Limits::OPEN };
        store.set_limits(&Rule { scope: of_model(of, model), limits }, at(NOW)).await
    };
    let some = Limit::AtMost(3.try_into().unwrap());
    for model in [0, 1] {
        limit(acme, model, some).await.unwrap();
    }
    full(limit(acme, 2, some).await, Belonging::Limits, 2);
    limit(acme, 1, Limit::Open).await.unwrap();
    full(limit(acme, 2, some).await, Belonging::Limits, 2);
    limit(acme, 1, some).await.expect("what is there may be changed");
    let budget = async |of, model| {
        let Scope { level, models } = of_model(of, model);
        let (unit, period, kind) = (Unit::Tokens, Period::Day, BudgetKind::Hard);
        let name = BudgetName { level, models, unit, period, kind };
        store.set_budget(&name.budget(7, Thresholds::new(&[]).unwrap()), at(NOW)).await
    };
    for model in [0, 1] {
        budget(acme, model).await.unwrap();
    }
    full(budget(acme, 2).await, Belonging::Budgets, 2);

    // Another tenant has its own part, and the command line is the operator's.
    key(other).await.unwrap();
    project(other, "a").await.unwrap();
    limit(other, 0, some).await.unwrap();
    budget(other, 0).await.unwrap();
    let by_hand = bench.store.bounded(bounds);
    by_hand.create_key(bench.spec(acme).await, at(NOW)).await.unwrap();
    by_hand.create_project(acme, name("c"), at(NOW)).await.unwrap();
    let shown = format!("{}", key(acme).await.unwrap_err());
    assert!(shown.contains("has 3 keys, and 2 are allowed") && shown.contains("keys_per_tenant"), "{shown}");
}

async fn events(bench: &Bench, of: Reach) -> Vec<Event> {
    bench.store.events(of, None, 1_000).await.unwrap()
}

pub(super) async fn who_has_most_events_loses_the_oldest(mut bench: Bench) {
    bench.store.room.events = 12;
    let quiet = bench.tenant("Quiet").await.id;
    let loud = bench.tenant("Loud").await.id;
    let prices = |part| crate::ledger::Price::new(part, part, part).unwrap();
    let prices = crate::ledger::Prices::new([(ModelName::new("a").unwrap(), prices(1))]).unwrap();
    bench.store.set_prices(&prices, at(NOW)).await.unwrap();
    let whole = events(&bench, Reach::Tenant(quiet)).await;
    for number in 0..40 {
        bench.store.create_project(loud, name(&number.to_string()), at(NOW)).await.unwrap();
    }
    assert_eq!(events(&bench, Reach::Tenant(quiet)).await, whole, "another's many push none of theirs out");
    let all = events(&bench, Reach::Installation).await;
    assert_eq!(all.len(), 12);
    assert_eq!(all.iter().filter(|event| event.tenant.is_none()).count(), 1, "nor what is nobody's");
    let names: Vec<_> = events(&bench, Reach::Tenant(loud)).await;
    let names: Vec<_> = names.iter().map(|event| event.after.as_ref().unwrap()["name"].clone()).collect();
    assert_eq!(
        names,
        (31..40).map(|number: i32| number.to_string()).collect::<Vec<_>>(),
        "its own newest stay"
    );
    // A smaller bound is come down to, two for each that is new.
    bench.store.room.events = 5;
    for number in 40..48 {
        bench.store.create_project(loud, name(&number.to_string()), at(NOW)).await.unwrap();
    }
    assert_eq!(events(&bench, Reach::Installation).await.len(), 5);
    assert_eq!(events(&bench, Reach::Tenant(loud)).await.len(), 2);
}

async fn events_that_vanish_by_hand_are_counted_anew(mut bench: Bench) {
    bench.store.room.events = 4;
    let tenant = bench.tenant("Acme").await.id;
    bench.create_projects(tenant, 0..2).await;
    bench.by_hand("DELETE FROM events").await.unwrap();
    bench.create_projects(tenant, 2..20).await;
    assert_eq!(events(&bench, Reach::Installation).await.len(), 4);
}

async fn only_ids_of_this_store_s_events_go_on(bench: Bench) {
    bench.tenant("Acme").await;
    let last = events(&bench, Reach::Installation).await.pop().unwrap().id;
    assert_eq!(bench.store.events(Reach::Installation, Some(last), 9).await.unwrap(), []);
    let none = EventId::parse(&"0".repeat(32)).unwrap();
    let other = Bench::sqlite().await;
    other.tenant("Acme").await;
    for (store, id) in [(&bench.store, none), (&other.store, last)] {
        let refused = store.events(Reach::Installation, Some(id), 9).await;
        assert!(matches!(refused, Err(StoreError::NoSuchEvent)), "{refused:?}");
    }
}
