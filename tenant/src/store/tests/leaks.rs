//! Keys that were found where they should not be.

use super::*;
use crate::leak::FoundAt;
use crate::purpose::Reach;

on_both!(
    a_found_key_is_known_for_what_it_is,
    the_end_of_a_leaked_key_says_so,
    an_event_says_only_what_a_store_writes
);

async fn found(bench: &Bench, text: &str) -> Found {
    bench.store.find_leaked(text, Reach::Installation, at(NOW + 10)).await.unwrap()
}

pub(super) async fn a_found_key_is_known_for_what_it_is(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let other = bench.tenant("Other").await.id;
    let (key, text) = bench.key(tenant).await;
    assert_eq!(found(&bench, text.expose()).await, Found::Works(key.id));
    let reached = async |of| bench.store.find_leaked(text.expose(), of, at(NOW)).await.unwrap();
    assert_eq!(reached(Reach::Tenant(tenant)).await, Found::Works(key.id));
    assert_eq!(reached(Reach::Tenant(other)).await, Found::Nothing, "another tenant's is not there");

    let (_, theirs) = bench.key(other).await;
    let mixed = ApiKey::parse(theirs.expose()).unwrap();
    let mixed = ApiKey::with_id(&mixed, key.id).reveal();
    assert_eq!(found(&bench, mixed.expose()).await, Found::Nothing, "another's secret under this id");
    let cut = text.expose().get(1..).unwrap();
    for junk in ["", "x", cut, &format!("{}x", text.expose()), &"x".repeat(100_000)] {
        assert_eq!(found(&bench, junk).await, Found::Nothing);
    }

    // Of a key with two secrets, the older one works until its time is over.
    let rotated = bench.store.rotate_key(key.id, Duration::from_millis(10), at(NOW)).await.unwrap();
    let older =
        async |now| bench.store.find_leaked(text.expose(), Reach::Installation, at(now)).await.unwrap();
    assert_eq!((older(NOW + 9).await, older(NOW + 10).await), (Found::Works(key.id), Found::Ended));
    assert_eq!(found(&bench, rotated.key.expose()).await, Found::Works(key.id));
    bench.store.revoke_key(key.id, at(NOW)).await.unwrap();
    assert_eq!(found(&bench, rotated.key.expose()).await, Found::Ended);
}

async fn the_end_of_a_leaked_key_says_so(bench: Bench) {
    let (key, text) = bench.key(bench.tenant("Acme").await.id).await;
    let scanner = Actor::Scanner(ScannerId::parse("of-a-test").unwrap());
    let reason = Reason::Leaked(FoundAt::of("https://example.com/a/b?token=1"));
    let store = bench.store.acting_as(scanner);
    let revision = async || bench.store.revision().await.unwrap();
    assert_eq!(store.revoke_key_for(key.id, Some(&reason), at(NOW)).await.unwrap(), Revoked::Now);
    let after = revision().await;
    assert_eq!(
        store.revoke_key_for(key.id, Some(&reason), at(NOW + 1)).await.unwrap(),
        Revoked::Before(at(NOW))
    );
    assert_eq!(revision().await, after, "once more changes nothing");
    let events = bench.store.events(Reach::Installation, None, 100).await.unwrap();
    let last = events.last().unwrap();
    assert_eq!((last.action, last.actor, &last.reason), (Action::KeyRevoke, scanner, &Some(reason)));
    assert!(events.iter().rev().skip(1).all(|event| event.reason.is_none()));
    let secret = text.expose().get(22..).unwrap();
    assert!(!format!("{events:?}").contains(secret), "a secret in an event");
}

async fn an_event_says_only_what_a_store_writes(bench: Bench) {
    bench.tenant("Acme").await;
    for (sql, damaged) in [
        ("UPDATE events SET reason = 'bored'", "reason"),
        ("UPDATE events SET reason = 'leaked', found_at = ''", "found_at"),
    ] {
        bench.by_hand(sql).await.unwrap();
        let error = bench.store.events(Reach::Installation, None, 9).await.err().unwrap();
        assert!(
            matches!(error, StoreError::Damaged { table: "events", column } if column == damaged),
            "{error}"
        );
    }
}
