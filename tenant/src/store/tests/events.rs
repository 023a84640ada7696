//! Each change has an event, and says in it who made it and what became of what; and a request with a name is done once.

use super::*;
use crate::key::KeyId;
use crate::level::{Level, ModelName, Models};
use crate::purpose::{Reach, Role};
use crate::rate::{Limit, Limits, Rule, Scope};
use crate::scopes::Allowed;
use crate::share::MemoryShare;
use crate::store::event_id::Seal;

on_both!(
    each_change_has_its_event,
    a_key_that_ended_meanwhile_changes_nothing,
    a_handle_apart_has_connections_of_its_own,
    what_did_not_happen_has_no_event,
    a_tenant_sees_its_own_events_in_pages,
    old_events_are_forgotten,
    the_largest_key_is_told_whole,
    an_event_of_nobodys_making_is_refused,
    a_change_of_something_else_than_expected_is_refused,
    a_request_with_a_name_is_done_once,
    a_request_that_failed_may_be_tried_again,
    names_of_requests_have_a_bound_and_are_forgotten,
    listings_come_in_pages_that_miss_nothing,
);

async fn all(bench: &Bench) -> Vec<Event> {
    bench.store.events(Reach::Installation, None, EVENTS_PAGE_MAX).await.unwrap()
}

/// The key of an operator.
async fn operator(bench: &Bench) -> KeyId {
    let purpose = Purpose::Person { reach: Reach::Installation, role: Role::Owner };
    let limits = KeyLimits { window_cap: WindowCap::Inherit, concurrency: Concurrency::Inherit };
    let spec = KeySpec { name: name("operator"), purpose, limits, expires: Expiry::Never };
    bench.store.create_key(spec, at(NOW)).await.unwrap().0.id
}

/// Revoked between its authentication and its change, a key changes nothing.
pub(super) async fn a_key_that_ended_meanwhile_changes_nothing(bench: Bench) {
    let by = operator(&bench).await;
    let store = bench.store.acting_as(Actor::Key(by));
    let tenant = store.create_tenant(name("Acme"), at(NOW)).await.unwrap().id;
    let purpose = Purpose::Person { reach: Reach::Tenant(tenant), role: Role::Owner };
    let theirs =
        bench.store.create_key(KeySpec { purpose, ..bench.spec(tenant).await }, at(NOW)).await.unwrap().0;
    let owner = bench.store.acting_as(Actor::Key(theirs.id));
    owner.create_project(tenant, name("one"), at(NOW)).await.unwrap();
    bench.store.set_state(tenant, TenantState::Suspended(at(NOW)), at(NOW)).await.unwrap();
    let refused = owner.create_project(tenant, name("two"), at(NOW)).await.err();
    assert!(matches!(refused, Some(StoreError::ActorEnded)));
    bench.store.revoke_key(by, at(NOW)).await.unwrap();
    let revision = bench.store.revision().await.unwrap();
    let refused = store.create_tenant(name("Other"), at(NOW)).await.err();
    assert!(matches!(refused, Some(StoreError::ActorEnded)));
    assert_eq!(bench.store.revision().await.unwrap(), revision);
}

/// Whoever has taken all connections of one handle holds up nobody who has another's.
async fn a_handle_apart_has_connections_of_its_own(bench: Bench) {
    let apart = bench.store.apart();
    let mut taken = vec![];
    while let Some(connection) = bench.store.pool.try_acquire() {
        taken.push(connection);
    }
    while let Ok(Ok(connection)) =
        tokio::time::timeout(Duration::from_millis(500), bench.store.pool.acquire()).await
    {
        taken.push(connection);
    }
    assert!(!taken.is_empty());
    apart.create_tenant(name("Acme"), at(NOW)).await.unwrap();
    drop(taken);
    assert_eq!(bench.store.list_tenants().await.unwrap().len(), 1);
}

async fn each_change_has_its_event(bench: Bench) {
    let by = operator(&bench).await;
    let store = bench.store.acting_as(Actor::Key(by));
    let tenant = store.create_tenant(name("Acme"), at(NOW)).await.unwrap();
    let (key, secret) = store.create_key(bench.spec(tenant.id).await, at(NOW + 1)).await.unwrap();
    let rotated = store.rotate_key(key.id, Duration::ZERO, at(NOW + 2)).await.unwrap();
    store.acting_as(Actor::System).revoke_key(key.id, at(NOW + 3)).await.unwrap();
    bench.store.revoke_key(key.id, at(NOW + 4)).await.unwrap();
    bench.store.set_state(tenant.id, TenantState::Suspended(at(NOW + 5)), at(NOW + 5)).await.unwrap();
    let scope = Scope { level: Level::Tenant(tenant.id), models: Models::All };
    let limits = Limits { at_once: Limit::AtMost(3.try_into().unwrap()), ..Limits::OPEN };
    bench.store.set_limits(&Rule { scope, limits }, at(NOW + 6)).await.unwrap();

    // After that of the operator's key.
    let events = all(&bench).await.split_off(1);
    let seen: Vec<_> = events.iter().map(|event| (event.action.name(), event.actor, event.at)).collect();
    let key_s = Actor::Key(by);
    let expected = [
        ("tenant.create", key_s, at(NOW)),
        ("project.create", key_s, at(NOW)),
        ("key.create", key_s, at(NOW + 1)),
        ("key.rotate", key_s, at(NOW + 2)),
        ("key.revoke", Actor::System, at(NOW + 3)),
        ("tenant.change", Actor::CommandLine, at(NOW + 5)),
        ("limit.change", Actor::CommandLine, at(NOW + 6)),
    ];
    assert_eq!(seen, expected);
    assert!(events.iter().all(|event| event.tenant == Some(tenant.id)));
    let seal = Seal::of(bench.store.id().unwrap());
    let places = [0, 1].map(|number: usize| seal.open(events[number].id).unwrap());
    assert_eq!(places[0].revision, places[1].revision, "one change");
    assert_eq!((places[0].part, places[1].part), (1, 2));
    assert_eq!((&events[3].subject, &events[4].subject), (&key.id.to_string(), &key.id.to_string()));

    let told = |at: usize| (events[at].before.clone().unwrap(), events[at].after.clone().unwrap());
    assert_eq!(events[2].before, None);
    let (before, after) = told(3);
    assert_eq!(
        (before["secrets"].as_array().unwrap().len(), after["secrets"][1]["serial"].as_i64()),
        (1, Some(2))
    );
    assert_eq!(
        after,
        bench
            .store
            .find_key(key.id)
            .await
            .unwrap()
            .map(|mut key| {
                key.revoked = None;
                key.public()
            })
            .unwrap()
    );
    let (before, after) = told(4);
    assert_eq!((before["revoked_ms"].as_i64(), after["revoked_ms"].as_i64()), (None, Some(NOW + 3)));
    assert_eq!(told(5).1["suspended_ms"].as_i64(), Some(NOW + 5));
    assert_eq!((told(6).0["at_once"].as_i64(), told(6).1["at_once"].as_i64()), (None, Some(3)));

    let text = format!("{events:?}");
    for secret in [secret, rotated.key] {
        let secret = &secret.expose()["bh_live_".len() + 13..];
        assert!(!text.contains(secret) && !text.contains(&secret[..43]), "a secret in an event");
    }
    // As names of fields: three letters alone turn up in an id by chance.
    for field in ["digest", "pepper", "tag"] {
        assert!(!text.contains(&format!("{field}\"")) && !text.contains(&format!("{field}:")), "{text}");
    }
}

async fn what_did_not_happen_has_no_event(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let before = all(&bench).await;
    assert!(bench.store.create_tenant(name("Acme"), at(NOW)).await.is_err());
    assert!(bench.store.create_project(tenant, name("default"), at(NOW)).await.is_err());
    bench.by_hand("DELETE FROM secrets").await.unwrap();
    let spec =
        KeySpec { purpose: Purpose::Auditor { tenant: TenantId(Uuid::nil()) }, ..bench.spec(tenant).await };
    assert!(bench.store.create_key(spec, at(NOW)).await.is_err());
    assert_eq!(all(&bench).await, before);
    bench.by_hand("DROP TABLE events").await.unwrap();
    assert!(bench.store.create_tenant(name("Other"), at(NOW)).await.is_err(), "no change without its event");
    assert_eq!(bench.store.list_tenants().await.unwrap().len(), 1);
}

async fn a_tenant_sees_its_own_events_in_pages(bench: Bench) {
    let acme = bench.tenant("Acme").await.id;
    let other = bench.tenant("Other").await.id;
    let operator = Purpose::Person { reach: Reach::Installation, role: Role::Owner };
    let spec = KeySpec { purpose: operator, ..bench.spec(acme).await };
    bench.store.create_key(spec, at(NOW)).await.unwrap();
    for number in 0..5 {
        let of = if number % 2 == 0 { acme } else { other };
        bench.store.create_project(of, name(&number.to_string()), at(NOW)).await.unwrap();
    }
    let pages = async |of: Reach, most: u32| {
        let (mut seen, mut after) = (vec![], None);
        loop {
            let page = bench.store.events(of, after, most).await.unwrap();
            assert!(page.len() <= usize::try_from(most).unwrap());
            let Some(last) = page.last() else { return seen };
            after = Some(last.id);
            seen.extend(page);
        }
    };
    let whole = all(&bench).await;
    assert_eq!(whole.len(), 2 + 2 + 1 + 5);
    for most in [1, 2, 3, 100] {
        assert_eq!(pages(Reach::Installation, most).await, whole);
        let theirs: Vec<_> = whole.iter().filter(|event| event.tenant == Some(acme)).cloned().collect();
        assert_eq!((pages(Reach::Tenant(acme), most).await, theirs.len()), (theirs, 5));
    }
}

async fn old_events_are_forgotten(mut bench: Bench) {
    bench.store.room.events = 3;
    let tenant = bench.tenant("Acme").await.id;
    for number in 0..5 {
        bench.store.create_project(tenant, name(&number.to_string()), at(NOW)).await.unwrap();
    }
    let names: Vec<_> =
        all(&bench).await.iter().map(|event| event.after.clone().unwrap()["name"].clone()).collect();
    assert_eq!(names, ["2", "3", "4"]);
}

async fn the_largest_key_is_told_whole(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let mut spec = bench.spec(tenant).await;
    let (models, ranges) = (
        |number: usize| format!("{number:02}{}", "\"".repeat(126)),
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/128",
    );
    if let Purpose::Service { scopes, .. } = &mut spec.purpose {
        scopes.models =
            Allowed::Only((0..64).map(|number| ModelName::new(&models(number)).unwrap()).collect());
        scopes.addresses = Allowed::Only(vec![ranges.parse().unwrap(); 64]);
        scopes.endpoints = Allowed::Only(vec![crate::scopes::EndpointScope::ChatCompletions; 64]);
    }
    spec.name = name(&"\"".repeat(Name::CHARS_MAX));
    let (key, _) = bench.store.create_key(spec, at(NOW)).await.unwrap();
    let last = all(&bench).await.pop().unwrap();
    assert_eq!(last.after, Some(key.public()));
    assert!(key.public().to_string().len() > EVENT_BYTES_MAX / 2, "not the largest");
}

async fn an_event_of_nobodys_making_is_refused(bench: Bench) {
    bench.tenant("Acme").await;
    for (sql, damaged) in [
        ("UPDATE events SET actor = 'me'", "actor"),
        ("UPDATE events SET actor = 'system', after = '{'", "after"),
        ("UPDATE events SET after = NULL, action = 'key.eat'", "action"),
    ] {
        bench.by_hand(sql).await.unwrap();
        let error = bench.store.events(Reach::Installation, None, 9).await.err().unwrap();
        assert!(
            matches!(error, StoreError::Damaged { table: "events", column } if column == damaged),
            "{error}"
        );
    }
}

pub(super) async fn a_change_of_something_else_than_expected_is_refused(bench: Bench) {
    let tenant = bench.tenant("Acme").await;
    let asked = TenantChange { name: Some(name("New")), ..TenantChange::default() };
    let like = |version| Expect::Version(version);
    let other = like(bench.tenant("Other").await.version());
    let refused = bench.store.change_tenant(tenant.id, &asked, other, at(NOW)).await;
    assert!(matches!(refused, Err(StoreError::Stale)));
    let changed =
        bench.store.change_tenant(tenant.id, &asked, like(tenant.version()), at(NOW)).await.unwrap();
    assert_eq!((changed.name.as_str(), changed.version() == tenant.version()), ("New", false));
    assert_eq!(bench.store.tenant(tenant.id).await.unwrap().unwrap().version(), changed.version());
    assert_eq!(changed.share, MemoryShare::default());
    let taken = TenantChange { name: Some(name("Other")), ..TenantChange::default() };
    let refused = bench.store.change_tenant(tenant.id, &taken, Expect::Any, at(NOW)).await;
    assert!(matches!(refused, Err(StoreError::NameTaken)));

    let (key, _) = bench.key(tenant.id).await;
    let rotate =
        async |expect| bench.store.rotate_key_if(key.id, Duration::ZERO, expect, at(NOW)).await.map(|_| ());
    rotate(like(key.version())).await.unwrap();
    assert!(matches!(rotate(like(key.version())).await, Err(StoreError::Stale)));

    let scope = Scope { level: Level::Key(key.id), models: Models::All };
    let (of, rule) = bench.store.limits_of(&scope).await.unwrap();
    assert_eq!((of, rule.limits), (tenant.id, Limits::OPEN));
    let asked =
        LimitsChange { at_once: Some(Limit::AtMost(2.try_into().unwrap())), ..LimitsChange::default() };
    bench.store.change_limits(&scope, asked, like(rule.version()), at(NOW)).await.unwrap();
    let refused = bench.store.change_limits(&scope, asked, like(rule.version()), at(NOW)).await;
    assert!(matches!(refused, Err(StoreError::Stale)));
}

fn once(named: &str, request: u8, now: i64) -> Once {
    let actor = KeyId::parse("aaaaaaaaaaaa").unwrap();
    Once { account: Reach::Installation, actor, name: named.to_owned(), request: [request; 32], now: at(now) }
}

pub(super) async fn a_request_with_a_name_is_done_once(bench: Bench) {
    assert_eq!(bench.store.done_before(&once("a", 1, NOW)).await.unwrap(), None);
    let make = async |named, called| {
        bench.store.once(once(named, 1, NOW)).create_tenant(name(called), at(NOW)).await
    };
    let made = make("a", "Acme").await.unwrap();
    let before = Before { is_same: true, subject: Some(made.id.to_string()), answer: None };
    assert_eq!(bench.store.done_before(&once("a", 1, NOW)).await.unwrap(), Some(before.clone()));
    assert!(!bench.store.done_before(&once("a", 2, NOW)).await.unwrap().unwrap().is_same);
    bench.store.keep_answer(&once("a", 1, NOW), 201, "{}").await.unwrap();
    let answered = Before { answer: Some((201, "{}".to_owned())), ..before };
    assert_eq!(bench.store.done_before(&once("a", 1, NOW)).await.unwrap(), Some(answered));
    assert!(matches!(make("a", "Twice").await, Err(StoreError::Repeated)));
    let other = Once { actor: KeyId::parse("bbbbbbbbbbbb").unwrap(), ..once("a", 1, NOW) };
    assert_eq!(bench.store.done_before(&other).await.unwrap(), None, "another key's request");
    bench.store.once(other).create_tenant(name("Other"), at(NOW)).await.unwrap();
    assert_eq!(bench.store.list_tenants().await.unwrap().len(), 2);

    let mut racers = tokio::task::JoinSet::new();
    for racer in 0..6 {
        let store = bench.store.once(once("race", 1, NOW));
        racers.spawn(async move { store.create_tenant(name(&format!("r{racer}")), at(NOW)).await });
    }
    assert_eq!(racers.join_all().await.iter().filter(|end| end.is_ok()).count(), 1);
}

async fn a_request_that_failed_may_be_tried_again(bench: Bench) {
    bench.tenant("Acme").await;
    let store = bench.store.once(once("a", 1, NOW));
    assert!(matches!(store.create_tenant(name("Acme"), at(NOW)).await, Err(StoreError::NameTaken)));
    assert_eq!(bench.store.done_before(&once("a", 1, NOW)).await.unwrap(), None);
    store.create_tenant(name("Other"), at(NOW)).await.unwrap();
}

async fn names_of_requests_have_a_bound_and_are_forgotten(mut bench: Bench) {
    bench.store.room.answers_per_account = 2;
    let make = async |of: &Store, named: &str, now| {
        of.once(once(named, 1, now)).create_tenant(name(named), at(now)).await
    };
    for (named, now) in [("a", NOW), ("b", NOW + 5)] {
        make(&bench.store, named, now).await.unwrap();
    }
    assert!(matches!(make(&bench.store, "c", NOW + 5).await, Err(StoreError::TooManyAnswers { allowed: 2 })));
    let tenant = bench.store.list_tenants().await.unwrap()[0].id;
    let theirs = Once { account: Reach::Tenant(tenant), ..once("x", 1, NOW) };
    bench.store.once(theirs).create_project(tenant, name("x"), at(NOW)).await.unwrap();
    let day = i64::try_from(ANSWERS_KEPT.as_millis()).unwrap();
    assert!(bench.store.done_before(&once("a", 1, NOW + day - 1)).await.unwrap().is_some());
    assert_eq!(bench.store.done_before(&once("a", 1, NOW + day)).await.unwrap(), None);
    make(&bench.store, "c", NOW + day).await.unwrap();
    assert!(make(&bench.store, "d", NOW + day).await.is_err(), "b is known still");
}

async fn listings_come_in_pages_that_miss_nothing(bench: Bench) {
    let acme = bench.tenant("Acme").await.id;
    let other = bench.store.create_tenant(name("Other"), at(NOW + 1)).await.unwrap().id;
    for number in 0..7 {
        let of = if number % 2 == 0 { acme } else { other };
        bench.store.create_project(of, name(&format!("p{number}")), at(NOW + number)).await.unwrap();
        let (key, _) = bench.key(of).await;
        bench.store.rotate_key(key.id, Duration::from_secs(1), at(NOW)).await.unwrap();
        let scope = Scope { level: Level::Key(key.id), models: Models::All };
        let limits = Limits { at_once: Limit::AtMost(3.try_into().unwrap()), ..Limits::OPEN };
        bench.store.set_limits(&Rule { scope, limits }, at(NOW)).await.unwrap();
    }
    macro_rules! walk {
        ($list:ident, $of:expr, $most:expr, $id:expr) => {{
            let (mut seen, mut after) = (vec![], None);
            loop {
                let page = bench.store.$list($of, after.clone(), $most).await.unwrap();
                let Some(last) = page.last() else { break seen };
                after = Some($id(last));
                assert!(page.len() <= usize::try_from($most).unwrap());
                seen.extend(page.iter().map($id));
            }
        }};
    }
    for most in [1_u32, 2, 3, 1_000] {
        assert_eq!(walk!(tenants_page, Reach::Installation, most, |one: &Tenant| one.id), [acme, other]);
        assert_eq!(walk!(tenants_page, Reach::Tenant(other), most, |one: &Tenant| one.id), [other]);
        assert_eq!(walk!(projects_page, Reach::Installation, most, |one: &Project| one.id).len(), 9);
        let listed = bench.store.list_projects(acme).await.unwrap();
        let listed: Vec<_> = listed.iter().map(|one| one.id).collect();
        assert_eq!(walk!(projects_page, Reach::Tenant(acme), most, |one: &Project| one.id), listed);
        let keys = walk!(keys_page, Reach::Installation, most, |one: &KeyRecord| one.id);
        assert_eq!((keys.len(), keys.into_iter().collect::<HashSet<_>>().len()), (7, 7));
        assert_eq!(walk!(keys_page, Reach::Tenant(acme), most, |one: &KeyRecord| one.id).len(), 4);
        let (mut seen, mut after) = (0, None);
        loop {
            let page = bench.store.limits_page(acme, after.as_ref(), most).await.unwrap();
            let Some(last) = page.last() else { break };
            (seen, after) = (seen + page.len(), Some(last.scope.clone()));
        }
        assert_eq!(seen, 4);
    }
    let key = &bench.store.keys_page(Reach::Tenant(acme), None, 1).await.unwrap()[0];
    assert_eq!(key.secrets.len(), 2, "a page counts keys, not secrets");
    let project = bench.store.list_projects(acme).await.unwrap().pop().unwrap();
    assert_eq!(bench.store.project(project.id).await.unwrap().unwrap().name, project.name);
    assert!(bench.store.project(crate::level::ProjectId(Uuid::nil())).await.unwrap().is_none());
}
