use super::*;
use crate::store::tests::{Bench, NOW, at, name, open_in, plain_key};
use crate::store::{KeyRecord, KeySpec, Revoked};

struct Door {
    bench: Bench,
    tenant: crate::store::Tenant,
    directory: Arc<Directory>,
}

impl Door {
    async fn new() -> Self {
        let bench = Bench::new().await;
        let tenant = bench.store.create_tenant(name("Acme"), at(NOW)).await.unwrap();
        let directory = Arc::new(Directory::open(&bench.store).await.unwrap());
        Self { bench, tenant, directory }
    }

    async fn key(&self, spec: KeySpec) -> (KeyRecord, String) {
        let (record, secret) = self.bench.store.create_key(self.tenant.id, spec, at(NOW)).await.unwrap();
        self.directory.refresh(&self.bench.store).await.unwrap();
        (record, secret.expose().clone())
    }

    fn refuses(&self, presented: &str) {
        assert_eq!(self.directory.authenticate(presented, at(NOW)), Err(NotAuthenticated), "{presented}");
    }
}

/// `text` with its checksum made right again.
fn resummed(text: &str) -> String {
    let rest = &text[..text.len() - 6];
    let sum = crate::base62::encode_u32(crc32fast::hash(rest.as_bytes()));
    format!("{rest}{}", std::str::from_utf8(&sum).unwrap())
}

#[tokio::test]
async fn a_good_key_says_whose_it_is() {
    let door = Door::new().await;
    let (record, key) = door.key(plain_key()).await;
    let principal = door.directory.authenticate(&key, at(NOW)).unwrap();
    assert_eq!(
        principal,
        Principal { tenant: door.tenant.id, key: record.id, tag: door.tenant.tag, limits: record.limits }
    );
    assert_eq!(door.directory.keys(), 1);
}

#[tokio::test]
async fn whatever_does_not_work_gets_one_answer() {
    let door = Door::new().await;
    let (_, one) = door.key(plain_key()).await;
    let (_, two) = door.key(plain_key()).await;
    for malformed in
        ["", "Bearer", &one[1..], &one[..69], &one.to_uppercase(), &"é".repeat(35), &"x".repeat(1 << 20)]
    {
        door.refuses(malformed);
    }
    door.refuses(&format!("{one} "));
    // The id of one, the secret of the other: good in itself, and nobody's.
    door.refuses(&resummed(&format!("{}{}", &one[..21], &two[21..])));
    // One letter of the secret, then of the id.
    for at in [8, 21, 63] {
        let mut bytes = one.clone().into_bytes();
        bytes[at] = if bytes[at] == b'a' { b'b' } else { b'a' };
        let near = resummed(std::str::from_utf8(&bytes).unwrap());
        assert!(ApiKey::parse(&near).is_ok(), "it is turned away for its secret, not its form");
        door.refuses(&near);
    }
    // The two that the directory itself compares with.
    door.refuses(door.directory.stand_in.reveal().expose());
    assert!(
        door.directory.authenticate(&one, at(NOW)).is_ok()
            && door.directory.authenticate(&two, at(NOW)).is_ok()
    );
}

#[tokio::test]
async fn a_revoked_key_is_refused_from_the_next_refresh() {
    let door = Door::new().await;
    let (record, key) = door.key(plain_key()).await;
    assert_eq!(door.bench.store.revoke_key(record.id, at(NOW)).await.unwrap(), Revoked::Now);
    assert!(door.directory.authenticate(&key, at(NOW)).is_ok(), "the snapshot is still the old one");
    door.directory.refresh(&door.bench.store).await.unwrap();
    door.refuses(&key);
}

#[tokio::test]
async fn a_key_expires_at_its_millisecond() {
    let door = Door::new().await;
    let (_, key) = door.key(KeySpec { expires: Expiry::At(at(NOW + 1)), ..plain_key() }).await;
    assert!(door.directory.authenticate(&key, at(NOW)).is_ok());
    assert_eq!(door.directory.authenticate(&key, at(NOW + 1)), Err(NotAuthenticated));
}

#[tokio::test]
async fn a_store_that_fails_changes_nobodys_answer() {
    let door = Door::new().await;
    let (_, key) = door.key(plain_key()).await;
    let before = door.directory.health(Instant::now());
    assert_eq!(before.failures, 0);
    door.bench.by_hand("ALTER TABLE revision RENAME TO gone").await.unwrap();
    for failures in 1..=3 {
        assert!(door.directory.refresh(&door.bench.store).await.is_err());
        assert_eq!(door.directory.health(Instant::now()).failures, failures);
    }
    assert!(door.directory.authenticate(&key, at(NOW)).is_ok());
    let later = Instant::now() + Duration::from_secs(3_600);
    assert!(door.directory.health(later).age >= Duration::from_secs(3_600), "the age shows it");
    door.bench.by_hand("ALTER TABLE gone RENAME TO revision").await.unwrap();
    let began = Instant::now();
    door.directory.refresh(&door.bench.store).await.unwrap();
    let healed = door.directory.health(Instant::now());
    assert!(healed.failures == 0 && healed.age <= began.elapsed());
}

#[tokio::test]
async fn what_another_handle_does_is_followed() {
    let door = Door::new().await;
    let other = open_in(door.bench.folder.path()).await.unwrap();
    let follower = door.directory.follow(door.bench.store.clone(), Duration::from_millis(2));
    let (record, secret) = other.create_key(door.tenant.id, plain_key(), at(NOW)).await.unwrap();
    until(|| door.directory.authenticate(secret.expose(), at(NOW)).is_ok()).await;
    other.revoke_key(record.id, at(NOW)).await.unwrap();
    until(|| door.directory.authenticate(secret.expose(), at(NOW)).is_err()).await;
    drop(follower);
    tokio::task::yield_now().await;
    other.create_key(door.tenant.id, plain_key(), at(NOW)).await.unwrap();
    // One refresh may have been under way; after it, nobody looks any more.
    until(|| Arc::strong_count(&door.directory) == 1).await;
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

#[test]
fn a_key_takes_little_memory() {
    // A hash map of the standard library holds at least 7 of 16 places: twice this and a byte, in the worst
    // case 16/7.
    assert!(size_of::<(KeyId, Entry)>() <= 128, "{}", size_of::<(KeyId, Entry)>());
}
