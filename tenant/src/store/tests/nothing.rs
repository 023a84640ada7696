//! What changes nothing: no event, no revision.

use super::*;
use crate::ledger::{Budget, BudgetKind, BudgetName, Period, Prices, Thresholds, Unit};
use crate::level::{Level, ModelName, Models};
use crate::purpose::Reach;
use crate::rate::{Limit, Limits, Rule, Scope};
use crate::share::MemoryShare;

on_both!(what_changes_nothing_has_neither_event_nor_revision);

async fn what_changes_nothing_has_neither_event_nor_revision(bench: Bench) {
    let store = &bench.store;
    let tenant = bench.tenant("Acme").await.id;
    let suspended = bench.tenant("Other").await.id;
    store.set_state(suspended, TenantState::Suspended(at(NOW)), at(NOW)).await.unwrap();
    let scope = Scope { level: Level::Tenant(tenant), models: Models::All };
    let limits = Limits { at_once: Limit::AtMost(3.try_into().unwrap()), ..Limits::OPEN };
    store.set_limits(&Rule { scope: scope.clone(), limits }, at(NOW)).await.unwrap();
    let [set, lifted] = [Period::Day, Period::Month].map(|period| BudgetName {
        level: Level::Tenant(tenant),
        models: Models::All,
        unit: Unit::Tokens,
        period,
        kind: BudgetKind::Hard,
    });
    let budget: Budget = set.budget(7, Thresholds::new(&[50]).unwrap());
    store.set_budget(&budget, at(NOW)).await.unwrap();
    let price = crate::ledger::Price::new(1, 2, 3).unwrap();
    let prices = Prices::new([(ModelName::new("a").unwrap(), price)]).unwrap();
    store.set_prices(&prices, at(NOW)).await.unwrap();

    let seen = async || {
        let events = store.events(Reach::Installation, None, 100).await.unwrap().len();
        (store.revision().await.unwrap(), events)
    };
    let before = seen().await;
    store.set_share(tenant, MemoryShare::default(), at(NOW + 1)).await.unwrap();
    store.set_state(tenant, TenantState::Active, at(NOW + 1)).await.unwrap();
    store.set_state(suspended, TenantState::Suspended(at(NOW + 1)), at(NOW + 1)).await.unwrap();
    let asked = TenantChange { name: Some(name("Acme")), ..TenantChange::default() };
    for asked in [asked, TenantChange::default()] {
        let shown = store.change_tenant(tenant, &asked, Expect::Any, at(NOW + 1)).await.unwrap();
        assert_eq!((shown.id, shown.name.as_str()), (tenant, "Acme"));
    }
    store.set_limits(&Rule { scope: scope.clone(), limits }, at(NOW + 1)).await.unwrap();
    let shown = store.change_limits(&scope, LimitsChange::default(), Expect::Any, at(NOW + 1)).await.unwrap();
    assert_eq!(shown.limits, limits);
    let never = Scope { level: Level::Tenant(suspended), models: Models::All };
    store.set_limits(&Rule { scope: never, limits: Limits::OPEN }, at(NOW + 1)).await.unwrap();
    store.set_budget(&budget, at(NOW + 1)).await.unwrap();
    store.lift_budget(&lifted, at(NOW + 1)).await.unwrap();
    store.set_prices(&prices, at(NOW + 1)).await.unwrap();
    assert_eq!(seen().await, before);

    // What was seen before is demanded all the same.
    let other = Expect::Version(store.tenant(suspended).await.unwrap().unwrap().version());
    let refused = store.change_tenant(tenant, &TenantChange::default(), other, at(NOW + 1)).await;
    assert!(matches!(refused, Err(StoreError::Stale)));
    // The control: what differs in the least is a change.
    let asked = TenantChange { name: Some(name("acme")), ..TenantChange::default() };
    store.change_tenant(tenant, &asked, Expect::Any, at(NOW + 1)).await.unwrap();
    assert_eq!(seen().await.1, before.1 + 1);
}
