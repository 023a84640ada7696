use std::fs;

use super::*;
use crate::directory::Caller;
use crate::store::tests::{Bench, NOW, at, on_both};

on_both!(
    the_last_use_of_each_secret_is_stored,
    a_secret_is_hashed_anew_under_a_newer_pepper,
    what_the_store_does_not_take_stays_noted,
);

async fn used(bench: &Bench, id: KeyId) -> Vec<Option<UnixMillis>> {
    let record = bench.store.find_key(id).await.unwrap().unwrap();
    record.secrets.iter().map(|secret| secret.used).collect()
}

async fn the_last_use_of_each_secret_is_stored(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let (record, first) = bench.key(tenant).await;
    let (other, _) = bench.key(tenant).await;
    let second = bench.store.rotate_key(record.id, Duration::from_secs(60), at(NOW)).await.unwrap().key;
    let directory = Directory::open(&bench.store).await.unwrap();
    let revision = bench.store.revision().await.unwrap();
    let ask = |key: &str, later: i64| directory.authenticate(key, at(NOW + later)).is_ok();
    assert!(ask(first.expose(), 1) && ask(first.expose(), 3) && ask(first.expose(), 2));
    assert!(!ask(&first.expose().replace(record.id.as_str(), other.id.as_str()), 9), "not theirs");
    directory.store_uses(&bench.store).await.unwrap();
    assert_eq!(used(&bench, record.id).await, [Some(at(NOW + 3)), None]);
    assert!(ask(second.expose(), 5));
    directory.store_uses(&bench.store).await.unwrap();
    assert_eq!(used(&bench, record.id).await, [Some(at(NOW + 3)), Some(at(NOW + 5))]);
    assert_eq!(used(&bench, other.id).await, [None]);
    assert_eq!(bench.store.revision().await.unwrap(), revision, "nobody has to follow that");
    // Another gateway, that was late.
    let late = Arc::new(Directory::open(&bench.store).await.unwrap());
    assert!(late.authenticate(second.expose(), at(NOW + 4)).is_ok());
    late.note_uses(bench.store.clone(), Duration::from_secs(3_600)).finish().await;
    assert_eq!(used(&bench, record.id).await, [Some(at(NOW + 3)), Some(at(NOW + 5))], "never back");
}

async fn a_secret_is_hashed_anew_under_a_newer_pepper(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let ((record, key), (_, unused)) = (bench.key(tenant).await, bench.key(tenant).await);
    let file = bench.folder.path().join("pepper.key");
    let grown = fs::read_to_string(&file).unwrap() + &format!("2 {}\n", "5a".repeat(32));
    fs::write(&file, grown).unwrap();
    let store = bench.again().await.unwrap();
    let directory = Arc::new(Directory::open(&store).await.unwrap());
    let works = |directory: &Directory, key: &str| {
        matches!(directory.authenticate(key, at(NOW)), Ok(Caller::Service(_)))
    };
    let versions = async || -> Vec<i64> {
        let rows = sqlx::query_scalar("SELECT pepper_version FROM secrets ORDER BY pepper_version");
        rows.fetch_all(bench.pool()).await.unwrap()
    };
    assert!(works(&directory, key.expose()));
    assert_eq!(versions().await, [1, 1]);
    directory.store_uses(&store).await.unwrap();
    assert_eq!(versions().await, [1, 2], "the one that was used");
    assert!(works(&directory, key.expose()), "before it follows");
    directory.refresh(&store).await.unwrap();
    assert!(works(&directory, key.expose()) && works(&directory, unused.expose()), "and after");
    directory.store_uses(&store).await.unwrap();
    assert_eq!(versions().await, [2, 2]);
    directory.refresh(&store).await.unwrap();
    assert!(works(&Directory::open(&store).await.unwrap(), unused.expose()));
    assert_eq!(used(&bench, record.id).await, [Some(at(NOW))]);
}

async fn what_the_store_does_not_take_stays_noted(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let (record, key) = bench.key(tenant).await;
    let directory = Directory::open(&bench.store).await.unwrap();
    directory.authenticate(key.expose(), at(NOW)).unwrap();
    bench.by_hand("ALTER TABLE secrets RENAME TO away").await.unwrap();
    assert!(directory.store_uses(&bench.store).await.is_err());
    bench.by_hand("ALTER TABLE away RENAME TO secrets").await.unwrap();
    directory.store_uses(&bench.store).await.unwrap();
    assert_eq!(used(&bench, record.id).await, [Some(at(NOW))]);
}

#[test]
fn there_are_as_many_as_may_be_and_no_more() {
    let uses = Uses::default();
    let key = KeyId::parse("aaaaaaaaaaaa").unwrap();
    let noted = |number: usize| {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_le_bytes());
        Use { key, digest, at: at(NOW), renewed: None }
    };
    for number in 0..USES_MAX {
        uses.put(noted(number));
    }
    let folder = tempfile::tempdir().unwrap();
    let pepper = Pepper::load_or_create(&folder.path().join("pepper.key")).unwrap();
    let api_key = ApiKey::generate(crate::key::KeyKind::Live, &ring::rand::SystemRandom::new()).unwrap();
    let secret = |number| Digested {
        pepper_version: 1,
        digest: noted(number).digest,
        ends: crate::limits::Expiry::Never,
    };
    uses.note(&pepper, &api_key, &secret(USES_MAX), at(NOW));
    assert_eq!(uses.0.len(), USES_MAX);
    uses.note(&pepper, &api_key, &secret(7), at(NOW + 1));
    assert_eq!(uses.0.get(&noted(7).digest).unwrap().at, at(NOW + 1), "one that has a place keeps it");
    assert_eq!((uses.take().len(), uses.0.len()), (USES_MAX, 0));
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_use_taken_back() {
    crate::store::tests::faults::control(Fault::UseTakenBack, the_last_use_of_each_secret_is_stored);
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_uses_forgotten() {
    crate::store::tests::faults::control(Fault::UsesForgotten, what_the_store_does_not_take_stays_noted);
}
