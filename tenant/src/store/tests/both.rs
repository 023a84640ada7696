//! What holds of a store on each database.

use std::num::NonZeroU32;

use policies::WINDOW_CAP_MAX;

use super::*;
use crate::directory::Directory;
use crate::key::{ApiKey, KeyId, KeyKind};
use crate::level::{ModelName, ProjectId};
use crate::purpose::{Reach, Role};
use crate::scopes::{Allowed, AtMost, EndpointScope};
use crate::share::{BadShare, MemoryCap, MemoryShare, TenantShare, WEIGHT_MAX};

on_both!(
    tenants_are_found_again_as_they_were_made,
    a_name_is_taken_once_whoever_races,
    projects_are_a_tenants_own,
    a_key_is_listed_without_its_secret,
    each_ceiling_of_a_key_is_exact,
    what_is_not_there_is_said_to_be_not_there,
    each_purpose_is_found_again_as_it_was_said,
    to_revoke_twice_is_to_revoke_once,
    a_rotated_key_has_two_secrets_and_never_three,
    a_tenant_is_suspended_and_taken_back,
    the_store_holds_as_many_as_it_may_and_no_more,
    each_change_is_one_revision_and_says_what_it_touched,
    many_keys_come_in_pages,
    a_tag_outlives_its_tenant,
    another_pepper_is_refused,
    a_schema_that_is_newer_or_edited_is_refused,
    a_row_of_nobodys_making_is_refused_not_guessed_at,
    shares_are_kept_changed_and_followed,
);

async fn tenants_are_found_again_as_they_were_made(bench: Bench) {
    let acme = bench.tenant("Acme 株式会社").await;
    let other = bench.store.create_tenant(name("Other"), at(NOW + 1)).await.unwrap();
    assert_ne!(acme.tag, other.tag);
    let reopened = bench.again().await.unwrap();
    let listed = reopened.list_tenants().await.unwrap();
    let seen: Vec<_> = listed.iter().map(|of| (of.id, of.name.as_str(), of.tag, of.created)).collect();
    assert_eq!(
        seen,
        [(acme.id, "Acme 株式会社", acme.tag, at(NOW)), (other.id, "Other", other.tag, at(NOW + 1))],
        "the oldest first"
    );
    assert_eq!(reopened.find_tenant("Other").await.unwrap().unwrap().id, other.id);
    assert!(reopened.find_tenant("other").await.unwrap().is_none());
    assert_eq!(TenantId::parse(&acme.id.to_string()), Some(acme.id));
    assert_eq!(TenantId::parse("x"), None);
}

async fn a_name_is_taken_once_whoever_races(bench: Bench) {
    let other_handle = bench.again().await.unwrap();
    let mut racers = tokio::task::JoinSet::new();
    for racer in 0..8 {
        let store = if racer % 2 == 0 { bench.store.clone() } else { other_handle.clone() };
        racers.spawn(async move { store.create_tenant(name("Acme"), at(NOW)).await });
    }
    let ends = racers.join_all().await;
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1);
    assert_eq!(ends.iter().filter(|end| matches!(end, Err(StoreError::NameTaken))).count(), 7);
}

async fn projects_are_a_tenants_own(bench: Bench) {
    let (acme, other) = (bench.tenant("Acme").await.id, bench.tenant("Other").await.id);
    let made = bench.store.create_project(acme, name("search"), at(NOW + 1)).await.unwrap();
    let listed = bench.store.list_projects(acme).await.unwrap();
    assert_eq!(listed.iter().map(|project| project.name.as_str()).collect::<Vec<_>>(), ["default", "search"]);
    assert_eq!((listed[1].id, listed[1].tenant, listed[1].created), (made.id, acme, at(NOW + 1)));
    assert_eq!(ProjectId::parse(&made.id.to_string()), Some(made.id));
    let taken = bench.store.create_project(acme, name("search"), at(NOW)).await;
    assert!(matches!(taken, Err(StoreError::NameTaken)));
    assert!(
        bench.store.create_project(other, name("search"), at(NOW)).await.is_ok(),
        "unique within a tenant"
    );
    let nobody = TenantId(Uuid::nil());
    let refused = bench.store.create_project(nobody, name("x"), at(NOW)).await;
    assert!(matches!(refused, Err(StoreError::NoSuchTenant(id)) if id == nobody));

    let mut spec = bench.spec(other).await;
    let Purpose::Service { project, .. } = &mut spec.purpose else { panic!("a service key") };
    *project = made.id;
    let refused = bench.store.create_key(spec, at(NOW)).await.err();
    assert!(matches!(refused, Some(StoreError::NoSuchProject(id)) if id == made.id), "another's project");
}

async fn a_key_is_listed_without_its_secret(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let limits = KeyLimits {
        window_cap: WindowCap::Tokens(NonZeroU32::new(2_048).unwrap()),
        concurrency: Concurrency::AtMost(NonZeroU32::new(3).unwrap()),
    };
    let spec =
        KeySpec { name: name("C-I"), limits, expires: Expiry::At(at(NOW + 1)), ..bench.spec(tenant).await };
    let (record, secret) = bench.store.create_key(spec, at(NOW)).await.unwrap();
    let parsed = ApiKey::parse(secret.expose()).unwrap();
    assert_eq!((parsed.id(), parsed.kind()), (record.id, KeyKind::Live));
    let listed = bench.store.list_keys().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].id, &listed[0].purpose, listed[0].name.as_str()),
        (record.id, &record.purpose, "C-I")
    );
    assert_eq!((listed[0].limits, listed[0].expires), (limits, Expiry::At(at(NOW + 1))));
    assert_eq!((listed[0].created, listed[0].revoked), (at(NOW), None));
    assert_eq!(
        listed[0].secrets,
        [SecretRecord { serial: 1, created: at(NOW), ends: Expiry::Never, used: None }]
    );
    assert!(!format!("{record:?}").contains("Acme") && !format!("{listed:?}").contains("C-I"));
    assert_eq!(bench.store.find_key(record.id).await.unwrap().unwrap().id, record.id);
    assert!(bench.store.find_key(KeyId::parse("aaaaaaaaaaaa").unwrap()).await.unwrap().is_none());
}

async fn each_ceiling_of_a_key_is_exact(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let plain = bench.spec(tenant).await;
    let limited =
        |window_cap, concurrency| KeySpec { limits: KeyLimits { window_cap, concurrency }, ..plain.clone() };
    let cap = |tokens| limited(WindowCap::Tokens(NonZeroU32::new(tokens).unwrap()), Concurrency::Inherit);
    assert!(bench.store.create_key(cap(WINDOW_CAP_MAX), at(NOW)).await.is_ok());
    let refused = bench.store.create_key(cap(WINDOW_CAP_MAX + 1), at(NOW)).await.err();
    assert!(matches!(
        refused,
        Some(StoreError::WindowCapTooHigh { asked: 16_777_217, allowed: WINDOW_CAP_MAX })
    ));
    let at_once = |limit| limited(WindowCap::Inherit, Concurrency::AtMost(NonZeroU32::new(limit).unwrap()));
    assert!(bench.store.create_key(at_once(4_096), at(NOW)).await.is_ok());
    let refused = bench.store.create_key(at_once(4_097), at(NOW)).await.err();
    assert!(matches!(refused, Some(StoreError::ConcurrencyTooHigh { asked: 4_097, allowed: 4_096 })));
    let spec = KeySpec { expires: Expiry::At(at(NOW)), ..plain.clone() };
    assert!(matches!(bench.store.create_key(spec, at(NOW)).await, Err(StoreError::ExpiryPassed)));
    let mut spec = plain.clone();
    let Purpose::Service { scopes, .. } = &mut spec.purpose else { panic!("a service key") };
    scopes.endpoints = Allowed::Only(vec![EndpointScope::Models; 65]);
    assert!(matches!(bench.store.create_key(spec, at(NOW)).await, Err(StoreError::Scopes(_))));
    assert_eq!(bench.store.list_keys().await.unwrap().len(), 2, "a refusal leaves nothing behind");
}

async fn what_is_not_there_is_said_to_be_not_there(bench: Bench) {
    let nobody = TenantId(new_id(at(NOW)));
    let purpose = Purpose::Auditor { tenant: nobody };
    let tenant = bench.tenant("Acme").await.id;
    let spec = KeySpec { purpose, ..bench.spec(tenant).await };
    let refused = bench.store.create_key(spec, at(NOW)).await.err();
    assert!(matches!(refused, Some(StoreError::NoSuchTenant(id)) if id == nobody));
    let unknown = KeyId::parse("aaaaaaaaaaaa").unwrap();
    assert!(matches!(bench.store.revoke_key(unknown, at(NOW)).await, Err(StoreError::NoSuchKey(_))));
    let rotated = bench.store.rotate_key(unknown, Duration::ZERO, at(NOW)).await;
    assert!(matches!(rotated.err(), Some(StoreError::NoSuchKey(_))));
    let refused = bench.store.set_state(nobody, TenantState::Active, at(NOW)).await;
    assert!(matches!(refused, Err(StoreError::NoSuchTenant(_))));
}

async fn each_purpose_is_found_again_as_it_was_said(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let project = bench.store.create_project(tenant, name("search"), at(NOW)).await.unwrap().id;
    let scopes = Scopes {
        models: Allowed::Only(vec![ModelName::new("smollm2").unwrap()]),
        endpoints: Allowed::Only(vec![EndpointScope::ChatCompletions]),
        addresses: Allowed::Only(vec!["10.0.0.0/8".parse().unwrap()]),
        prompt_max: AtMost::Tokens(NonZeroU32::new(9).unwrap()),
        output_max: AtMost::Tokens(NonZeroU32::new(7).unwrap()),
    };
    let mut all = vec![Purpose::Auditor { tenant }];
    for mode in [Mode::Live, Mode::Test] {
        all.push(Purpose::Service { tenant, project, mode, scopes: scopes.clone() });
    }
    for role in Role::ALL {
        all.push(Purpose::Person { reach: Reach::Installation, role });
        all.push(Purpose::Person { reach: Reach::Tenant(tenant), role });
    }
    let plain = bench.spec(tenant).await;
    for (made, purpose) in (0..).zip(&all) {
        let spec = KeySpec { purpose: purpose.clone(), ..plain.clone() };
        let (_, key) = bench.store.create_key(spec, at(NOW + made)).await.unwrap();
        assert_eq!(ApiKey::parse(key.expose()).unwrap().kind(), purpose.kind());
    }
    let listed = bench.store.list_keys().await.unwrap();
    assert_eq!(listed.into_iter().map(|key| key.purpose).collect::<Vec<_>>(), all);
    let followed = bench.store.changes(Revision::NONE).await.unwrap().keys;
    assert_eq!(followed.len(), all.len());
    assert!(followed.iter().all(|key| all.contains(&key.purpose)));
}

async fn to_revoke_twice_is_to_revoke_once(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let (record, _) = bench.key(tenant).await;
    assert_eq!(bench.keys().await, 1);
    assert_eq!(bench.store.revoke_key(record.id, at(NOW + 5)).await.unwrap(), Revoked::Now);
    assert_eq!(bench.store.revoke_key(record.id, at(NOW + 9)).await.unwrap(), Revoked::Before(at(NOW + 5)));
    assert_eq!(bench.store.list_keys().await.unwrap()[0].revoked, Some(at(NOW + 5)));
    assert_eq!(bench.keys().await, 0);
}

async fn a_rotated_key_has_two_secrets_and_never_three(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let (record, first) = bench.key(tenant).await;
    let hour = Duration::from_secs(3_600);
    let second = bench.store.rotate_key(record.id, hour, at(NOW + 1)).await.unwrap();
    assert_eq!(second.old_ends, at(NOW + 3_600_001));
    assert!(first.expose() != second.key.expose());
    assert_eq!(ApiKey::parse(second.key.expose()).unwrap().id(), record.id);
    let secrets = |record: &KeyRecord| record.secrets.iter().map(|s| (s.serial, s.ends)).collect::<Vec<_>>();
    let listed = bench.store.find_key(record.id).await.unwrap().unwrap();
    assert_eq!(secrets(&listed), [(1, Expiry::At(at(NOW + 3_600_001))), (2, Expiry::Never)]);
    let third = bench.store.rotate_key(record.id, hour, at(NOW + 2)).await.unwrap();
    let listed = bench.store.find_key(record.id).await.unwrap().unwrap();
    assert_eq!(secrets(&listed), [(2, Expiry::At(third.old_ends)), (3, Expiry::Never)], "the first is gone");

    let asked = OVERLAP_MAX + Duration::from_secs(1);
    let refused = bench.store.rotate_key(record.id, asked, at(NOW)).await.err();
    assert!(matches!(refused, Some(StoreError::OverlapTooLong { .. })));
    bench.store.revoke_key(record.id, at(NOW)).await.unwrap();
    let refused = bench.store.rotate_key(record.id, hour, at(NOW)).await.err();
    assert!(matches!(refused, Some(StoreError::KeyEnded(_))));
}

async fn a_tenant_is_suspended_and_taken_back(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let state = async || bench.store.find_tenant("Acme").await.unwrap().unwrap().state;
    assert_eq!(state().await, TenantState::Active);
    for later in [0, 5] {
        bench.store.set_state(tenant, TenantState::Suspended(at(NOW + later)), at(NOW)).await.unwrap();
        assert_eq!(state().await, TenantState::Suspended(at(NOW)), "the first moment stays");
    }
    bench.store.set_state(tenant, TenantState::Active, at(NOW)).await.unwrap();
    assert_eq!(state().await, TenantState::Active);
}

async fn the_store_holds_as_many_as_it_may_and_no_more(mut bench: Bench) {
    bench.store.room = Room { tenants: 2, projects: 3, keys: 2, limits: 2, ..bench.store.room };
    let tenant = bench.tenant("a").await.id;
    bench.tenant("b").await;
    let full = |error| matches!(error, Some(StoreError::Full { limit: 2 }));
    assert!(full(bench.store.create_tenant(name("c"), at(NOW)).await.err()));
    bench.store.create_project(tenant, name("c"), at(NOW)).await.unwrap();
    let refused = bench.store.create_project(tenant, name("d"), at(NOW)).await.err();
    assert!(matches!(refused, Some(StoreError::Full { limit: 3 })));
    for _ in 0..2 {
        bench.key(tenant).await;
    }
    assert!(full(bench.store.create_key(bench.spec(tenant).await, at(NOW)).await.err()));
    assert_eq!(bench.keys().await, 2);
    bench.store.room.keys = 1;
    assert!(matches!(bench.store.changes(Revision::NONE).await.err(), Some(StoreError::Full { limit: 1 })));
}

async fn each_change_is_one_revision_and_says_what_it_touched(bench: Bench) {
    let mut last = bench.store.revision().await.unwrap();
    let mut moved = async |what: &str, tenants: usize, keys: usize| {
        let delta = bench.store.changes(last).await.unwrap();
        assert_eq!((delta.tenants.len(), delta.keys.len()), (tenants, keys), "{what}");
        assert_eq!(delta.revision.number, last.number + 1, "{what}");
        last = delta.revision;
    };
    let tenant = bench.tenant("Acme").await.id;
    moved("a tenant", 1, 0).await;
    let (one, _) = bench.key(tenant).await;
    moved("a key", 0, 1).await;
    bench.key(tenant).await;
    moved("another key", 0, 1).await;
    bench.store.rotate_key(one.id, Duration::ZERO, at(NOW)).await.unwrap();
    moved("a rotation", 0, 1).await;
    bench.store.revoke_key(one.id, at(NOW)).await.unwrap();
    moved("a revocation", 0, 1).await;
    bench.store.set_state(tenant, TenantState::Suspended(at(NOW)), at(NOW)).await.unwrap();
    moved("a suspension", 1, 0).await;
    let share = MemoryShare { floor: 1, ..MemoryShare::default() };
    bench.store.set_share(tenant, share, at(NOW)).await.unwrap();
    moved("a share", 1, 0).await;
    bench.store.create_project(tenant, name("x"), at(NOW)).await.unwrap();
    moved("a project", 0, 0).await;
    let before = bench.store.revision().await.unwrap();
    assert!(bench.store.create_tenant(name("Acme"), at(NOW)).await.is_err());
    assert_eq!(bench.store.revoke_key(one.id, at(NOW)).await.unwrap(), Revoked::Before(at(NOW)));
    assert_eq!(bench.store.revision().await.unwrap(), before, "what changes nothing is no revision");
}

/// More keys than are read at once, some of them with two secrets.
async fn many_keys_come_in_pages(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let (record, _) = bench.key(tenant).await;
    let (one, digest) = (record.id.as_str(), "substr(digest, 1)");
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)";
    let columns = "kind, tenant, project, role, name, scopes, window_cap, concurrency, expires_ms, created_ms, revoked_ms, revision";
    bench
        .by_hand(&format!(
            "{numbers} INSERT INTO api_keys (id, {columns}) SELECT 'k' || substr('00000000000' || i, length('' || i) + 1), {columns}
             FROM api_keys CROSS JOIN n WHERE id = '{one}'"
        ))
        .await
        .unwrap();
    for serial in [1, 2] {
        bench
            .by_hand(&format!(
                "INSERT INTO secrets (key, serial, pepper_version, digest, created_ms)
                 SELECT k.id, {serial}, s.pepper_version, {digest}, s.created_ms FROM api_keys k, secrets s
                 WHERE s.key = '{one}' AND k.id <> '{one}'"
            ))
            .await
            .unwrap();
    }
    let keys = bench.store.changes(Revision::NONE).await.unwrap().keys;
    assert_eq!(keys.len(), 12_001);
    assert!(keys.windows(2).all(|pair| pair[0].id < pair[1].id), "each once, in order");
    assert!(keys.iter().all(|key| key.secrets.len() == if key.id == record.id { 1 } else { 2 }));
}

async fn a_tag_outlives_its_tenant(bench: Bench) {
    let tag = bench.tenant("Acme").await.tag.get().cast_signed();
    assert!(bench.by_hand("DELETE FROM tags").await.is_err(), "a tag in use cannot be forgotten");
    bench.by_hand("DELETE FROM projects").await.unwrap();
    bench.by_hand("DELETE FROM tenants").await.unwrap();
    let taken = sqlx::query("INSERT INTO tags (tag) VALUES ($1)").bind(tag).execute(&bench.store.pool).await;
    assert!(taken.is_err());
}

async fn another_pepper_is_refused(bench: Bench) {
    let other = tempfile::tempdir().unwrap();
    assert!(matches!(bench.with(pepper_in(other.path())).await, Err(StoreError::WrongPepper)));
    assert!(bench.again().await.is_ok(), "the right one still opens it");
}

async fn a_schema_that_is_newer_or_edited_is_refused(bench: Bench) {
    bench
        .by_hand(
            "UPDATE _sqlx_migrations SET checksum = success_bytes"
                .replace("success_bytes", "(SELECT fingerprint FROM peppers)")
                .as_str(),
        )
        .await
        .unwrap();
    assert!(matches!(bench.again().await, Err(StoreError::Schema(_))));
    bench.by_hand("UPDATE _sqlx_migrations SET version = 999 WHERE version = 1").await.unwrap();
    assert!(matches!(bench.again().await, Err(StoreError::Schema(_))));
}

async fn a_row_of_nobodys_making_is_refused_not_guessed_at(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    bench.key(tenant).await;
    for refused in [
        "UPDATE api_keys SET window_cap = 0",
        "UPDATE api_keys SET kind = 'root'",
        "UPDATE api_keys SET kind = 'admin'",
        "UPDATE api_keys SET project = NULL",
        "UPDATE api_keys SET role = 'owner'",
        "UPDATE secrets SET serial = 0",
    ] {
        assert!(bench.by_hand(refused).await.is_err(), "the schema itself refuses: {refused}");
    }
    for (sql, table, damaged) in [
        ("UPDATE api_keys SET window_cap = 99999999999", "api_keys", "window_cap"),
        ("UPDATE api_keys SET window_cap = NULL, scopes = '{\"all\": 1}'", "api_keys", "scopes"),
        ("UPDATE api_keys SET scopes = '{}'", "", ""),
        ("UPDATE secrets SET pepper_version = -1", "secrets", "pepper_version"),
    ] {
        bench.by_hand(sql).await.unwrap();
        match bench.store.changes(Revision::NONE).await {
            Err(StoreError::Damaged { table: t, column }) => assert_eq!((t, column), (table, damaged)),
            Ok(_) => assert_eq!(damaged, "", "{sql}"),
            Err(error) => panic!("{error}"),
        }
    }
    bench.by_hand("UPDATE tenants SET name = ' Acme'").await.unwrap();
    let error = bench.store.list_tenants().await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { table: "tenants", column: "name" }));
}

async fn shares_are_kept_changed_and_followed(bench: Bench) {
    let (acme, other) = (bench.tenant("acme").await, bench.tenant("other").await);
    assert_eq!(acme.share, MemoryShare::default());
    let directory = Directory::open(&bench.store).await.unwrap();
    assert!(directory.shares().is_empty());

    let weight = |weight| NonZeroU32::new(weight).unwrap();
    let cap = MemoryCap::Tokens(weight(4096));
    for share in [
        MemoryShare { floor: 1024, cap, weight: weight(3) },
        MemoryShare { floor: 0, cap: MemoryCap::Pool, weight: weight(WEIGHT_MAX) },
    ] {
        bench.store.set_share(acme.id, share, at(NOW)).await.unwrap();
        assert_eq!(bench.store.find_tenant("acme").await.unwrap().unwrap().share, share);
        directory.refresh(&bench.store).await.unwrap();
        assert_eq!(*directory.shares(), [TenantShare { tag: acme.tag, share }], "within one look");
    }
    assert_eq!(bench.store.find_tenant("other").await.unwrap().unwrap().share, other.share);

    let above = MemoryShare { floor: 5000, cap, weight: weight(1) };
    let refused = bench.store.set_share(acme.id, above, at(NOW)).await.unwrap_err();
    assert!(matches!(refused, StoreError::BadShare(BadShare::FloorAboveCap { floor: 5000, cap: 4096 })));
    let heavy = MemoryShare { weight: weight(WEIGHT_MAX + 1), ..MemoryShare::default() };
    assert!(matches!(bench.store.set_share(acme.id, heavy, at(NOW)).await, Err(StoreError::BadShare(_))));
    let nobody = TenantId(Uuid::nil());
    let refused = bench.store.set_share(nobody, MemoryShare::default(), at(NOW)).await;
    assert!(matches!(refused, Err(StoreError::NoSuchTenant(_))));
}
