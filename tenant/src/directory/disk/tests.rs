use std::num::NonZeroU32;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;
use crate::directory::{Caller, Directory, Keep};
use crate::level::{Level, ModelName, Models};
use crate::limits::Expiry;
use crate::purpose::{Mode, Purpose, Reach, Role};
use crate::rate::{Limit, Limits, Rule, Scope};
use crate::scopes::{Allowed, EndpointScope, Scopes};
use crate::secret::Secret;
use crate::store::tests::{Bench, NOW, at};
use crate::store::{KeySpec, Store, TenantState};

const DAY: Duration = Duration::from_secs(86_400);

/// A store with a key for each purpose, one of them rotated and one revoked, and the secrets of those that work.
async fn bench() -> (Bench, Vec<String>) {
    let bench = Bench::sqlite().await;
    let tenant = bench.tenant("Acme").await.id;
    let plain = bench.spec(tenant).await;
    let project = bench.store.find_project(tenant, "default").await.unwrap().unwrap().id;
    let endpoints = Allowed::Only(vec![EndpointScope::Models]);
    let scopes = Scopes { endpoints, ..Scopes::default() };
    let mut keys = vec![];
    for purpose in [
        Purpose::Service { tenant, project, mode: Mode::Test, scopes },
        Purpose::Auditor { tenant },
        Purpose::Person { reach: Reach::Installation, role: Role::Owner },
        Purpose::Person { reach: Reach::Tenant(tenant), role: Role::Member },
    ] {
        let spec = KeySpec { purpose, expires: Expiry::At(at(NOW + 1_000)), ..plain.clone() };
        keys.push(bench.store.create_key(spec, at(NOW)).await.unwrap().1.expose().clone());
    }
    let (rotated, first) = bench.key(tenant).await;
    let second = bench.store.rotate_key(rotated.id, DAY, at(NOW)).await.unwrap();
    keys.extend([first.expose().clone(), second.key.expose().clone()]);
    let limits = Limits { at_once: Limit::AtMost(NonZeroU32::new(3).unwrap()), ..Limits::OPEN };
    for models in [Models::All, Models::One(ModelName::new("a").unwrap())] {
        let scope = Scope { level: Level::Project(project), models };
        bench.store.set_limits(&Rule { scope, limits }).await.unwrap();
    }
    let (revoked, _) = bench.key(tenant).await;
    bench.store.revoke_key(revoked.id, at(NOW)).await.unwrap();
    (bench, keys)
}

fn callers(directory: &Directory, keys: &[String]) -> Vec<Caller> {
    keys.iter().map(|key| directory.authenticate(key, at(NOW)).unwrap()).collect()
}

async fn saved(bench: &Bench) -> (Directory, std::path::PathBuf) {
    let directory = Directory::open(&bench.store).await.unwrap();
    let copy = bench.folder.path().join("keys");
    directory.snapshot.load().save(&copy, UnixMillis::from_system(SystemTime::now())).unwrap();
    (directory, copy)
}

#[tokio::test]
async fn a_copy_is_what_it_was_made_of() {
    let (bench, keys) = bench().await;
    let (directory, copy) = saved(&bench).await;
    let recalled = Directory::recall(&bench.store, &copy, DAY).unwrap();
    assert_eq!(recalled.keys(), 5);
    assert_eq!(callers(&recalled, &keys), callers(&directory, &keys));
    assert_eq!(recalled.snapshot.load().revision(), directory.snapshot.load().revision());
    let Caller::Service(principal) = &callers(&recalled, &keys)[0] else { panic!("a service key") };
    let chain = |of: &Directory| of.chain(principal, &ModelName::new("a").unwrap()).unwrap();
    assert_eq!((chain(&recalled).rules().len(), chain(&recalled)), (2, chain(&directory)), "limits too");
    let late = at(NOW + 2 * 86_400_000);
    assert!(recalled.authenticate(&keys[0], late).is_err(), "it expires as before");
    assert!(recalled.authenticate(&keys[4], late).is_err() && recalled.authenticate(&keys[5], late).is_ok());
    assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o600);
    for key in &keys {
        let secret = &key.as_bytes()[key.len() - 49..key.len() - 6];
        assert!(!fs::read(&copy).unwrap().windows(secret.len()).any(|part| part == secret));
    }
}

#[tokio::test]
async fn a_copy_that_is_cut_or_changed_is_not_taken() {
    let (bench, _) = bench().await;
    let (_, copy) = saved(&bench).await;
    let whole = fs::read(&copy).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&copy, bytes).unwrap();
        let error = Directory::recall(&bench.store, &copy, DAY).err().unwrap();
        assert!(matches!(error, RecallError::Damaged), "{what}: {error}");
    };
    for length in 0..whole.len() {
        refused(&whole[..length], "cut");
    }
    for place in 0..whole.len() - 24 {
        let mut changed = whole.clone();
        changed[place] ^= 1 << (place % 8);
        refused(&changed, "changed");
    }
    refused(&[whole.as_slice(), b"x"].concat(), "longer");
}

/// A confirmation that a crash cut off leaves the one before it; without any, nobody knows how old a copy is.
#[tokio::test]
async fn one_of_two_confirmations_is_enough() {
    let (bench, _) = bench().await;
    let (directory, copy) = saved(&bench).await;
    let ago = |seconds| UnixMillis::from_system(SystemTime::now() - Duration::from_secs(seconds));
    directory.snapshot.load().save(&copy, ago(2_000)).unwrap();
    confirm(&copy, ago(1_000)).unwrap();
    let whole = fs::read(&copy).unwrap();
    let age = |first: usize, second: usize| {
        let mut changed = whole.clone();
        let start = whole.len() - 24;
        changed[start] ^= u8::try_from(first).unwrap();
        changed[start + 12 + 11] ^= u8::try_from(second).unwrap();
        fs::write(&copy, &changed).unwrap();
        Directory::recall(&bench.store, &copy, DAY)
            .map(|copy| copy.health(std::time::Instant::now()).age.as_secs())
    };
    let near = |age: Result<u64, _>, seconds: u64| (seconds..seconds + 900).contains(&age.unwrap());
    assert!(near(age(0, 0), 1_000) && near(age(0, 1), 1_000), "the first was written over");
    assert!(near(age(1, 0), 2_000), "the other is left");
    assert!(matches!(age(1, 1), Err(RecallError::Damaged)));
}

/// A folder that was another store's.
#[tokio::test]
async fn a_copy_of_another_store_is_not_taken() {
    let (bench, _) = bench().await;
    let (directory, copy) = saved(&bench).await;
    let other = Bench::sqlite().await;
    let error = Directory::recall(&other.store, &copy, DAY).err().unwrap();
    assert!(matches!(error, RecallError::OtherStore { copy, .. } if copy == directory.store()), "{error}");
    // One that is not known yet is found out later, and read whole.
    let there = Bench::postgres().await;
    let followed = Directory::recall(&there.unasked(), &copy, DAY).unwrap();
    assert_eq!(followed.keys(), 5);
    followed.refresh(&there.store).await.unwrap();
    assert_eq!(followed.keys(), 0);
}

#[tokio::test]
async fn a_copy_has_an_age_and_a_bound_for_it() {
    let (bench, keys) = bench().await;
    let (_, copy) = saved(&bench).await;
    let file = || File::options().write(true).open(&copy).unwrap();
    let (directory, hour) = (Directory::open(&bench.store).await.unwrap(), Duration::from_secs(3_600));
    let set = |time| directory.snapshot.load().save(&copy, UnixMillis::from_system(time)).unwrap();
    set(SystemTime::now() - hour);
    file().set_modified(SystemTime::now()).unwrap();
    let recalled = Directory::recall(&bench.store, &copy, DAY).unwrap();
    let age = recalled.health(std::time::Instant::now()).age;
    assert!((3_600..3_700).contains(&age.as_secs()), "{age:?}");
    assert!(recalled.authenticate(&keys[0], at(NOW)).is_ok());
    let short = Duration::from_secs(3_599);
    let error = Directory::recall(&bench.store, &copy, short).err().unwrap();
    assert!(matches!(error, RecallError::TooOld { age_max, .. } if age_max == short), "{error}");
    for _ in 0..3 {
        confirm(&copy, UnixMillis::from_system(SystemTime::now())).unwrap();
    }
    file().set_modified(SystemTime::now() - 2 * hour).unwrap();
    assert!(Directory::recall(&bench.store, &copy, short).is_ok());
    set(SystemTime::now() + hour);
    let error = Directory::recall(&bench.store, &copy, DAY).err().unwrap();
    assert!(matches!(error, RecallError::TooOld { .. }), "nobody knows how old it is");
    let error = Directory::recall(&bench.store, &bench.folder.path().join("none"), DAY).err().unwrap();
    assert!(matches!(error, RecallError::File(_)), "{error}");
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .unwrap_or_else(|_| panic!("{what} within 20 s"));
}

/// Of what is taken away there is a new copy at once; what is added may wait for the next.
#[tokio::test]
async fn a_revoked_key_is_out_of_the_copy_at_once() {
    let (bench, _) = bench().await;
    let copy = bench.folder.path().join("keys");
    let directory = Arc::new(Directory::open(&bench.store).await.unwrap());
    let tenant = bench.store.find_tenant("Acme").await.unwrap().unwrap().id;
    let (record, key) = bench.key(tenant).await;
    let keep = Keep::At(copy.clone());
    let _follower = directory.follow(bench.store.clone(), Duration::from_millis(2), keep);
    let works_in_copy = |key: &str| {
        Directory::recall(&bench.store, &copy, DAY).is_ok_and(|copy| copy.authenticate(key, at(NOW)).is_ok())
    };
    until("the first copy", || works_in_copy(key.expose())).await;
    bench.store.revoke_key(record.id, at(NOW)).await.unwrap();
    until("the revocation", || !works_in_copy(key.expose())).await;
    let (_, other) = bench.key(tenant).await;
    until("the directory", || directory.authenticate(other.expose(), at(NOW)).is_ok()).await;
    assert!(!works_in_copy(other.expose()), "it is not time for another copy");
    bench.store.set_state(tenant, TenantState::Suspended(at(NOW))).await.unwrap();
    until("the suspension", || {
        let copy = Directory::recall(&bench.store, &copy, DAY).unwrap();
        matches!(copy.authenticate(other.expose(), at(NOW)), Err(crate::NotAuthenticated::Suspended))
    })
    .await;
}

/// A start while the server is away: the keys of the copy work, and the directory follows the server once it is there.
#[tokio::test]
async fn a_start_without_the_server_uses_the_copy() {
    let (away, keys) = bench().await;
    let (_, copy) = saved(&away).await;
    let pepper = crate::Pepper::load_or_create(&away.folder.path().join("pepper.key")).unwrap();
    let nobody = Secret::new("postgres://nobody@127.0.0.1:1/none".to_owned());
    let store = Store::connect_later(nobody, pepper).unwrap();
    let directory = Arc::new(Directory::recall(&store, &copy, DAY).unwrap());
    assert_eq!(callers(&directory, &keys).len(), 6);
    assert!(directory.refresh(&store).await.is_err());
    assert_eq!(directory.health(std::time::Instant::now()).failures, 1);
    assert_eq!(callers(&directory, &keys).len(), 6, "as before");
}

#[tokio::test]
async fn a_copy_that_cannot_be_kept_harms_nobody() {
    let (bench, keys) = bench().await;
    let folder = bench.folder.path().join("closed");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    let directory = Arc::new(Directory::open(&bench.store).await.unwrap());
    let nowhere = Keep::At(folder.join("none/keys"));
    let _follower = directory.follow(bench.store.clone(), Duration::from_millis(2), nowhere);
    let tenant = bench.store.find_tenant("Acme").await.unwrap().unwrap().id;
    let (_, key) = bench.key(tenant).await;
    until("the directory", || directory.authenticate(key.expose(), at(NOW)).is_ok()).await;
    assert_eq!(callers(&directory, &keys).len(), 6);
}
