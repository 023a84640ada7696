use super::*;
use crate::purpose::{Purpose, Reach, Role};
use crate::store::tests::{Bench, NOW, at, on_both};
use crate::store::{KeyRecord, KeySpec, Revoked};

on_both!(
    a_good_key_says_whose_it_is,
    each_kind_of_key_is_a_caller_of_its_own,
    whatever_does_not_work_gets_one_answer,
    a_revoked_key_is_refused_from_the_next_refresh,
    a_key_expires_at_its_millisecond,
    both_secrets_work_until_the_old_one_ends,
    keys_of_a_suspended_tenant_do_not_work,
    a_refresh_reads_what_changed_and_keeps_the_rest,
    a_store_that_went_back_is_read_anew,
    a_store_that_went_back_and_came_as_far_again_is_read_anew,
    a_store_that_fails_changes_nobodys_answer,
    what_another_handle_does_is_followed,
    what_runs_of_a_key_is_cut_when_it_is_revoked,
);

struct Door {
    bench: Bench,
    tenant: crate::store::Tenant,
    directory: Arc<Directory>,
}

impl Door {
    async fn new(bench: Bench) -> Self {
        let tenant = bench.tenant("Acme").await;
        let directory = Arc::new(Directory::open(&bench.store).await.unwrap());
        Self { bench, tenant, directory }
    }

    async fn spec(&self) -> KeySpec {
        self.bench.spec(self.tenant.id).await
    }

    async fn key(&self, spec: KeySpec) -> (KeyRecord, String) {
        let (record, secret) = self.bench.store.create_key(spec, at(NOW)).await.unwrap();
        self.refresh().await;
        (record, secret.expose().clone())
    }

    async fn refresh(&self) {
        self.directory.refresh(&self.bench.store).await.unwrap();
    }

    fn asks(&self, presented: &str, millis: i64) -> Result<Caller, NotAuthenticated> {
        self.directory.authenticate(presented, at(NOW + millis))
    }

    fn refuses(&self, presented: &str) {
        assert_eq!(self.asks(presented, 0), Err(NotAuthenticated::Invalid), "{presented}");
    }
}

/// `text` with its checksum made right again.
fn resummed(text: &str) -> String {
    let rest = &text[..text.len() - 6];
    let sum = crate::base62::encode_u32(crc32fast::hash(rest.as_bytes()));
    format!("{rest}{}", std::str::from_utf8(&sum).unwrap())
}

async fn a_good_key_says_whose_it_is(bench: Bench) {
    let door = Door::new(bench).await;
    let (record, key) = door.key(door.spec().await).await;
    let Ok(Caller::Service(principal)) = door.asks(&key, 0) else { panic!("a service key") };
    assert_eq!(
        (principal.tenant, principal.key, principal.tag),
        (door.tenant.id, record.id, door.tenant.tag)
    );
    let Purpose::Service { project, scopes, .. } = &record.purpose else { panic!("a service key") };
    assert_eq!((principal.project, principal.limits), (*project, record.limits));
    assert_eq!(principal.scopes(), scopes);
    assert_eq!(door.directory.keys(), 1);
}

async fn each_kind_of_key_is_a_caller_of_its_own(bench: Bench) {
    let door = Door::new(bench).await;
    let (tenant, plain) = (door.tenant.id, door.spec().await);
    let of = |purpose| KeySpec { purpose, ..plain.clone() };
    let (record, auditor) = door.key(of(Purpose::Auditor { tenant })).await;
    assert_eq!(door.asks(&auditor, 0), Ok(Caller::Auditor(AuditReader { key: record.id, tenant })));
    for reach in [Reach::Installation, Reach::Tenant(tenant)] {
        let (record, person) = door.key(of(Purpose::Person { reach, role: Role::Member })).await;
        let expected = Administrator { key: record.id, reach, role: Role::Member };
        assert_eq!(door.asks(&person, 0), Ok(Caller::Person(expected)));
        // The same secret under another prefix: well formed, and nobody's.
        let live = resummed(&person.replacen("admin", "live", 1));
        assert!(ApiKey::parse(&live).is_ok());
        door.refuses(&live);
    }
}

async fn whatever_does_not_work_gets_one_answer(bench: Bench) {
    let door = Door::new(bench).await;
    let (_, one) = door.key(door.spec().await).await;
    let (_, two) = door.key(door.spec().await).await;
    for malformed in
        ["", "Bearer", &one[1..], &one[..69], &one.to_uppercase(), &"é".repeat(35), &"x".repeat(1 << 20)]
    {
        door.refuses(malformed);
    }
    door.refuses(&format!("{one} "));
    // The id of one, the secret of the other: good in itself, and nobody's.
    door.refuses(&resummed(&format!("{}{}", &one[..21], &two[21..])));
    // One letter of the secret, then of the id.
    for place in [8, 21, 63] {
        let mut bytes = one.clone().into_bytes();
        bytes[place] = if bytes[place] == b'a' { b'b' } else { b'a' };
        let near = resummed(std::str::from_utf8(&bytes).unwrap());
        assert!(ApiKey::parse(&near).is_ok(), "it is turned away for its secret, not its form");
        door.refuses(&near);
    }
    // The one that the directory itself compares with.
    door.refuses(door.directory.stand_in.reveal().expose());
    assert!(door.asks(&one, 0).is_ok() && door.asks(&two, 0).is_ok());
}

async fn a_revoked_key_is_refused_from_the_next_refresh(bench: Bench) {
    let door = Door::new(bench).await;
    let (record, key) = door.key(door.spec().await).await;
    assert_eq!(door.bench.store.revoke_key(record.id, at(NOW)).await.unwrap(), Revoked::Now);
    assert!(door.asks(&key, 0).is_ok(), "the snapshot is still the old one");
    door.refresh().await;
    door.refuses(&key);
    assert_eq!(door.directory.keys(), 0);
}

async fn a_key_expires_at_its_millisecond(bench: Bench) {
    let door = Door::new(bench).await;
    let (_, key) = door.key(KeySpec { expires: Expiry::At(at(NOW + 1)), ..door.spec().await }).await;
    assert!(door.asks(&key, 0).is_ok());
    assert_eq!(door.asks(&key, 1), Err(NotAuthenticated::Invalid));
}

async fn both_secrets_work_until_the_old_one_ends(bench: Bench) {
    let door = Door::new(bench).await;
    let (record, first) = door.key(door.spec().await).await;
    let rotate = async || {
        let rotated =
            door.bench.store.rotate_key(record.id, Duration::from_millis(10), at(NOW)).await.unwrap();
        door.refresh().await;
        rotated.key.expose().clone()
    };
    let second = rotate().await;
    assert_eq!(door.asks(&first, 9), door.asks(&second, 9));
    assert!(door.asks(&first, 9).is_ok());
    assert_eq!(door.asks(&first, 10), Err(NotAuthenticated::Invalid));
    assert!(door.asks(&second, 1_000).is_ok());
    let third = rotate().await;
    door.refuses(&first);
    assert!(door.asks(&second, 9).is_ok() && door.asks(&third, 9).is_ok());
    assert_eq!(door.directory.keys(), 1);
}

async fn keys_of_a_suspended_tenant_do_not_work(bench: Bench) {
    let door = Door::new(bench).await;
    let tenant = door.tenant.id;
    let (_, service) = door.key(door.spec().await).await;
    let person = Purpose::Person { reach: Reach::Tenant(tenant), role: Role::Owner };
    let (_, person) = door.key(KeySpec { purpose: person, ..door.spec().await }).await;
    let (_, auditor) = door.key(KeySpec { purpose: Purpose::Auditor { tenant }, ..door.spec().await }).await;
    let operator = Purpose::Person { reach: Reach::Installation, role: Role::Owner };
    let (_, operator) = door.key(KeySpec { purpose: operator, ..door.spec().await }).await;
    door.bench.store.set_state(tenant, TenantState::Suspended(at(NOW)), at(NOW)).await.unwrap();
    door.refresh().await;
    for key in [&service, &person, &auditor] {
        assert_eq!(door.asks(key, 0), Err(NotAuthenticated::Suspended));
    }
    assert!(door.asks(&operator, 0).is_ok());
    let wrong = format!("{}{}", &service[..21], &operator[22..]);
    door.refuses(&resummed(&wrong));
    door.bench.store.set_state(tenant, TenantState::Active, at(NOW)).await.unwrap();
    door.refresh().await;
    assert!(door.asks(&service, 0).is_ok());
}

async fn a_refresh_reads_what_changed_and_keeps_the_rest(bench: Bench) {
    let door = Door::new(bench).await;
    let (kept, key) = door.key(door.spec().await).await;
    let before = door.directory.snapshot.load_full();
    let (new, other) = door.key(door.spec().await).await;
    let after = door.directory.snapshot.load_full();
    let place = |snapshot: &Snapshot, id| std::ptr::from_ref(snapshot.find(id).unwrap());
    assert_eq!(place(&before, kept.id), place(&after, kept.id), "its shard is the same memory");
    assert!(before.find(new.id).is_none() && after.find(new.id).is_some());
    assert!(door.asks(&key, 0).is_ok() && door.asks(&other, 0).is_ok());
}

async fn a_store_that_went_back_is_read_anew(bench: Bench) {
    let door = Door::new(bench).await;
    let (record, key) = door.key(door.spec().await).await;
    let id = record.id;
    door.bench.by_hand(&format!("DELETE FROM secrets WHERE key = '{id}'")).await.unwrap();
    door.bench.by_hand(&format!("DELETE FROM api_keys WHERE id = '{id}'")).await.unwrap();
    door.bench.by_hand("UPDATE revision SET value = value - 1").await.unwrap();
    door.refresh().await;
    door.refuses(&key);
}

/// A backup is restored, and the same number of changes, or more, are made once more, others than before.
async fn a_store_that_went_back_and_came_as_far_again_is_read_anew(bench: Bench) {
    let door = Door::new(bench).await;
    for more in [0, 1, 3] {
        let (kept, old) = door.key(door.spec().await).await;
        let backup = door.bench.store.revision().await.unwrap().number;
        let (lost, new) = door.key(door.spec().await).await;
        let id = lost.id;
        for sql in [
            format!("DELETE FROM secrets WHERE key = '{id}'"),
            format!("DELETE FROM api_keys WHERE id = '{id}'"),
            format!("DELETE FROM history WHERE revision > {backup}"),
            format!("UPDATE revision SET value = {backup}"),
        ] {
            door.bench.by_hand(&sql).await.unwrap();
        }
        door.bench.store.revoke_key(kept.id, at(NOW)).await.unwrap();
        for _ in 0..more {
            door.bench.key(door.tenant.id).await;
        }
        door.refresh().await;
        door.refuses(&old);
        door.refuses(&new);
        let keys = door.bench.store.list_keys().await.unwrap();
        let work = keys.iter().filter(|key| key.revoked.is_none()).count();
        assert_eq!(door.directory.keys(), work);
    }
}

async fn a_store_that_fails_changes_nobodys_answer(bench: Bench) {
    let door = Door::new(bench).await;
    let (_, key) = door.key(door.spec().await).await;
    let before = door.directory.health(Instant::now());
    assert_eq!(before.failures, 0);
    door.bench.by_hand("ALTER TABLE revision RENAME TO gone").await.unwrap();
    for failures in 1..=3 {
        assert!(door.directory.refresh(&door.bench.store).await.is_err());
        assert_eq!(door.directory.health(Instant::now()).failures, failures);
    }
    assert!(door.asks(&key, 0).is_ok());
    let later = Instant::now() + Duration::from_secs(3_600);
    assert!(door.directory.health(later).age >= Duration::from_secs(3_600), "the age shows it");
    door.bench.by_hand("ALTER TABLE gone RENAME TO revision").await.unwrap();
    let began = Instant::now();
    door.refresh().await;
    let healed = door.directory.health(Instant::now());
    assert!(healed.failures == 0 && healed.age <= began.elapsed());
}

async fn what_another_handle_does_is_followed(bench: Bench) {
    let door = Door::new(bench).await;
    let other = door.bench.again().await.unwrap();
    let follower = door.directory.follow(door.bench.store.clone(), Duration::from_millis(2), Keep::Nowhere);
    let (record, secret) = other.create_key(door.spec().await, at(NOW)).await.unwrap();
    until(|| door.asks(secret.expose(), 0).is_ok()).await;
    other.revoke_key(record.id, at(NOW)).await.unwrap();
    until(|| door.asks(secret.expose(), 0).is_err()).await;
    drop(follower);
    tokio::task::yield_now().await;
    other.create_key(door.spec().await, at(NOW)).await.unwrap();
    // One refresh may have been under way; after it, nobody looks any more.
    until(|| Arc::strong_count(&door.directory) == 1).await;
}

async fn what_runs_of_a_key_is_cut_when_it_is_revoked(bench: Bench) {
    let door = Door::new(bench).await;
    let (record, key) = door.key(door.spec().await).await;
    let (kept, other) = door.key(door.spec().await).await;
    let principal = |key: &str| match door.asks(key, 0) {
        Ok(Caller::Service(principal)) => principal,
        refused => panic!("{refused:?}"),
    };
    let (revoked, suspended) = (principal(&key), principal(&other));
    let runs = [&revoked, &suspended].map(|of| door.directory.enter(of).unwrap());
    door.bench.store.revoke_key(record.id, at(NOW)).await.unwrap();
    door.refresh().await;
    runs[0].cut().await;
    assert_eq!(
        door.directory.enter(&revoked).err(),
        Some(NotAuthenticated::Invalid),
        "who comes late is not let in"
    );
    assert_eq!(door.directory.present.keys(), [kept.id]);
    let lag = door.directory.revocation_lag();
    assert_eq!(lag.within[8], (None, 1), "one revocation was counted");
    door.bench.store.set_state(door.tenant.id, TenantState::Suspended(at(NOW)), at(NOW)).await.unwrap();
    door.refresh().await;
    runs[1].cut().await;
    drop(runs);
    assert_eq!(door.directory.present.keys(), []);
}

/// On PostgreSQL a change is told: nobody has to look.
#[tokio::test]
async fn a_change_is_told_at_once() {
    let door = Door::new(Bench::postgres().await).await;
    let (record, key) = door.key(door.spec().await).await;
    let never = Duration::from_secs(86_400);
    let _follower = door.directory.follow(door.bench.store.clone(), never, Keep::Nowhere);
    // The first beat, and the first connection, are looks by themselves.
    until(|| door.directory.health(Instant::now()).is_told).await;
    let began = Instant::now();
    door.bench.again().await.unwrap().revoke_key(record.id, at(NOW)).await.unwrap();
    until(|| door.asks(&key, 0).is_err()).await;
    println!("a revocation arrived after {:?}", began.elapsed());
}

/// Waits for `condition`; the test's own time-out ends a wait that is in vain.
async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it must happen within 20 s");
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_token_unseen() {
    let test = a_store_that_went_back_and_came_as_far_again_is_read_anew;
    crate::store::tests::faults::control(crate::fault::Fault::TokenUnseen, test);
}
