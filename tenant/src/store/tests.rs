use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use sqlx::AssertSqlSafe;

use super::*;

pub(crate) const NOW: i64 = 1_800_000_000_000;

pub(crate) fn at(millis: i64) -> UnixMillis {
    UnixMillis::new(millis).unwrap()
}

/// A folder with a pepper and a store in it.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open_in(folder.path()).await.unwrap();
        Self { folder, store }
    }

    /// What nobody of ours would do to a store.
    pub(crate) async fn by_hand(&self, sql: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.store.pool).await.map(|_| ())
    }
}

pub(crate) async fn open_in(folder: &Path) -> Result<Store, StoreError> {
    let pepper = Pepper::load_or_create(&folder.join("pepper.key")).unwrap();
    Store::open(&folder.join("tenants.db"), pepper).await
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn plain_key() -> KeySpec {
    let limits = KeyLimits { window_cap: WindowCap::Inherit, concurrency: Concurrency::Inherit };
    KeySpec { name: name("key"), limits, expires: Expiry::Never }
}

#[tokio::test]
async fn tenants_are_found_again_as_they_were_made() {
    let bench = Bench::new().await;
    let acme = bench.store.create_tenant(name("Acme 株式会社"), at(NOW)).await.unwrap();
    let other = bench.store.create_tenant(name("Other"), at(NOW + 1)).await.unwrap();
    assert_ne!(acme.tag, other.tag);
    let reopened = open_in(bench.folder.path()).await.unwrap();
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

#[tokio::test]
async fn a_name_is_taken_once_whoever_races() {
    let bench = Bench::new().await;
    let other_handle = open_in(bench.folder.path()).await.unwrap();
    let mut racers = tokio::task::JoinSet::new();
    for racer in 0..8 {
        let store = if racer % 2 == 0 { bench.store.clone() } else { other_handle.clone() };
        racers.spawn(async move { store.create_tenant(name("Acme"), at(NOW)).await });
    }
    let ends = racers.join_all().await;
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1);
    assert_eq!(ends.iter().filter(|end| matches!(end, Err(StoreError::NameTaken))).count(), 7);
}

#[tokio::test]
async fn a_key_is_listed_without_its_secret_and_nothing_stores_that() {
    let bench = Bench::new().await;
    let tenant = bench.store.create_tenant(name("Acme"), at(NOW)).await.unwrap();
    let limits = KeyLimits {
        window_cap: WindowCap::Tokens(NonZeroU32::new(2_048).unwrap()),
        concurrency: Concurrency::AtMost(NonZeroU32::new(3).unwrap()),
    };
    let spec = KeySpec { name: name("ci"), limits, expires: Expiry::At(at(NOW + 1)) };
    let (record, secret) = bench.store.create_key(tenant.id, spec, at(NOW)).await.unwrap();
    let parsed = ApiKey::parse(secret.expose()).unwrap();
    assert_eq!(parsed.id(), record.id);
    let listed = bench.store.list_keys().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].id, listed[0].tenant, listed[0].name.as_str()), (record.id, tenant.id, "ci"));
    assert_eq!((listed[0].limits, listed[0].expires), (limits, Expiry::At(at(NOW + 1))));
    assert_eq!((listed[0].created, listed[0].revoked), (at(NOW), None));

    let needle = &secret.expose().as_bytes()[21..64];
    assert!(!format!("{record:?}").contains("Acme") && !format!("{listed:?}").contains("ci"));
    let mut searched = 0;
    for file in fs::read_dir(bench.folder.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        searched += bytes.len();
        assert!(!bytes.windows(needle.len()).any(|window| window == needle));
    }
    assert!(searched > 4_096, "the store's own files were searched");
}

#[tokio::test]
async fn each_ceiling_of_a_key_is_exact() {
    let bench = Bench::new().await;
    let tenant = bench.store.create_tenant(name("Acme"), at(NOW)).await.unwrap().id;
    let cap = |tokens| KeySpec {
        limits: KeyLimits {
            window_cap: WindowCap::Tokens(NonZeroU32::new(tokens).unwrap()),
            concurrency: Concurrency::Inherit,
        },
        ..plain_key()
    };
    assert!(bench.store.create_key(tenant, cap(WINDOW_CAP_MAX), at(NOW)).await.is_ok());
    let refused = bench.store.create_key(tenant, cap(WINDOW_CAP_MAX + 1), at(NOW)).await.err();
    assert!(matches!(
        refused,
        Some(StoreError::WindowCapTooHigh { asked: 16_777_217, allowed: WINDOW_CAP_MAX })
    ));
    let at_once = |limit| KeySpec {
        limits: KeyLimits {
            window_cap: WindowCap::Inherit,
            concurrency: Concurrency::AtMost(NonZeroU32::new(limit).unwrap()),
        },
        ..plain_key()
    };
    assert!(bench.store.create_key(tenant, at_once(4_096), at(NOW)).await.is_ok());
    let refused = bench.store.create_key(tenant, at_once(4_097), at(NOW)).await.err();
    assert!(matches!(refused, Some(StoreError::ConcurrencyTooHigh { asked: 4_097, allowed: 4_096 })));
    let spec = KeySpec { expires: Expiry::At(at(NOW)), ..plain_key() };
    assert!(matches!(bench.store.create_key(tenant, spec, at(NOW)).await, Err(StoreError::ExpiryPassed)));
    assert_eq!(bench.store.list_keys().await.unwrap().len(), 2, "a refusal leaves nothing behind");
}

#[tokio::test]
async fn what_is_not_there_is_said_to_be_not_there() {
    let bench = Bench::new().await;
    let nobody = new_tenant_id(at(NOW));
    let refused = bench.store.create_key(nobody, plain_key(), at(NOW)).await.err();
    assert!(matches!(refused, Some(StoreError::NoSuchTenant(id)) if id == nobody));
    let unknown = KeyId::parse("aaaaaaaaaaaa").unwrap();
    assert!(matches!(bench.store.revoke_key(unknown, at(NOW)).await, Err(StoreError::NoSuchKey(_))));
}

#[tokio::test]
async fn to_revoke_twice_is_to_revoke_once() {
    let bench = Bench::new().await;
    let tenant = bench.store.create_tenant(name("Acme"), at(NOW)).await.unwrap().id;
    let (record, _) = bench.store.create_key(tenant, plain_key(), at(NOW)).await.unwrap();
    assert_eq!(bench.store.snapshot().await.unwrap().keys(), 1);
    assert_eq!(bench.store.revoke_key(record.id, at(NOW + 5)).await.unwrap(), Revoked::Now);
    assert_eq!(bench.store.revoke_key(record.id, at(NOW + 9)).await.unwrap(), Revoked::Before(at(NOW + 5)));
    assert_eq!(bench.store.list_keys().await.unwrap()[0].revoked, Some(at(NOW + 5)));
    assert_eq!(bench.store.snapshot().await.unwrap().keys(), 0);
}

#[tokio::test]
async fn the_store_holds_as_many_as_it_may_and_no_more() {
    let mut bench = Bench::new().await;
    bench.store.room = Room { tenants: 2, keys: 2 };
    let tenant = bench.store.create_tenant(name("a"), at(NOW)).await.unwrap().id;
    bench.store.create_tenant(name("b"), at(NOW)).await.unwrap();
    assert!(matches!(
        bench.store.create_tenant(name("c"), at(NOW)).await,
        Err(StoreError::Full { limit: 2 })
    ));
    for _ in 0..2 {
        bench.store.create_key(tenant, plain_key(), at(NOW)).await.unwrap();
    }
    let refused = bench.store.create_key(tenant, plain_key(), at(NOW)).await.err();
    assert!(matches!(refused, Some(StoreError::Full { limit: 2 })));
    assert_eq!(bench.store.snapshot().await.unwrap().keys(), 2);
    bench.store.room = Room { tenants: 2, keys: 1 };
    assert!(matches!(bench.store.snapshot().await, Err(StoreError::Full { limit: 1 })));
}

#[tokio::test]
async fn every_change_moves_the_revision_even_one_by_hand() {
    let bench = Bench::new().await;
    let mut last = bench.store.revision().await.unwrap();
    let tenant = bench.store.create_tenant(name("Acme"), at(NOW)).await.unwrap().id;
    let (record, _) = bench.store.create_key(tenant, plain_key(), at(NOW)).await.unwrap();
    let before = bench.store.revision().await.unwrap();
    assert!(before > last);
    last = before;
    assert_eq!(bench.store.revision().await.unwrap(), last, "reading moves nothing");
    for sql in ["UPDATE keys SET window_cap = 7", "DELETE FROM keys", "DELETE FROM tenants"] {
        bench.by_hand(sql).await.unwrap();
        let now = bench.store.revision().await.unwrap();
        assert!(now > last, "{sql}");
        last = now;
    }
    assert!(matches!(bench.store.revoke_key(record.id, at(NOW)).await, Err(StoreError::NoSuchKey(_))));
}

#[tokio::test]
async fn a_tag_outlives_its_tenant() {
    let bench = Bench::new().await;
    let tag = bench.store.create_tenant(name("Acme"), at(NOW)).await.unwrap().tag.get().cast_signed();
    assert!(bench.by_hand("DELETE FROM tags").await.is_err(), "a tag in use cannot be forgotten");
    bench.by_hand("DELETE FROM tenants").await.unwrap();
    let taken = sqlx::query("INSERT INTO tags (tag) VALUES (?)").bind(tag).execute(&bench.store.pool).await;
    assert!(taken.is_err());
}

#[tokio::test]
async fn the_files_are_closed_to_others() {
    let bench = Bench::new().await;
    bench.store.create_tenant(name("Acme"), at(NOW)).await.unwrap();
    let path = bench.folder.path().join("tenants.db");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let reopened = open_in(bench.folder.path()).await.unwrap();
    let mut names = HashSet::new();
    for file in fs::read_dir(bench.folder.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "{:?}", file.file_name());
        names.insert(file.file_name().into_string().unwrap());
    }
    assert!(names.contains("tenants.db-wal"), "{names:?}");
    drop(reopened);
}

#[tokio::test]
async fn a_commit_is_synced_and_readers_never_block() {
    let bench = Bench::new().await;
    for (pragma, expected) in
        [("PRAGMA synchronous", 2), ("PRAGMA foreign_keys", 1), ("PRAGMA busy_timeout", 5_000)]
    {
        let value: i64 = sqlx::query_scalar(pragma).fetch_one(&bench.store.pool).await.unwrap();
        assert_eq!(value, expected, "{pragma}");
    }
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&bench.store.pool).await.unwrap();
    assert_eq!(mode, "wal");
    let writing = bench.store.change().await.unwrap();
    assert!(bench.store.list_tenants().await.unwrap().is_empty());
    assert_eq!(bench.store.snapshot().await.unwrap().keys(), 0);
    drop(writing);
    bench.store.create_tenant(name("after a change given up"), at(NOW)).await.unwrap();
}

#[tokio::test]
async fn closing_leaves_one_file() {
    let bench = Bench::new().await;
    bench.store.create_tenant(name("Acme"), at(NOW)).await.unwrap();
    let wal = bench.folder.path().join("tenants.db-wal");
    assert!(wal.exists());
    bench.store.clone().close().await;
    assert!(!wal.exists());
    assert!(
        matches!(bench.store.list_tenants().await, Err(StoreError::Database(_))),
        "the clone has ended too"
    );
    assert_eq!(open_in(bench.folder.path()).await.unwrap().list_tenants().await.unwrap().len(), 1);
}

#[tokio::test]
async fn another_pepper_is_refused() {
    let bench = Bench::new().await;
    let other = tempfile::tempdir().unwrap();
    let pepper = Pepper::load_or_create(&other.path().join("pepper.key")).unwrap();
    let opened = Store::open(&bench.folder.path().join("tenants.db"), pepper).await;
    assert!(matches!(opened, Err(StoreError::WrongPepper)));
    assert!(open_in(bench.folder.path()).await.is_ok(), "the right one still opens it");
}

#[tokio::test]
async fn a_schema_that_is_newer_or_edited_is_refused() {
    let bench = Bench::new().await;
    bench.by_hand("UPDATE _sqlx_migrations SET checksum = x'00'").await.unwrap();
    assert!(matches!(open_in(bench.folder.path()).await, Err(StoreError::Schema(_))));
    bench.by_hand("UPDATE _sqlx_migrations SET version = 999 WHERE version = 1").await.unwrap();
    assert!(matches!(open_in(bench.folder.path()).await, Err(StoreError::Schema(_))));
}

#[tokio::test]
async fn what_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tenants.db"), "x".repeat(8_192)).unwrap();
    assert!(matches!(open_in(folder.path()).await, Err(StoreError::Database(_))));
    let pepper = Pepper::load_or_create(&folder.path().join("pepper.key")).unwrap();
    let absent = Store::open(&folder.path().join("absent/tenants.db"), pepper).await;
    assert!(matches!(absent, Err(StoreError::File(_))));
}

#[tokio::test]
async fn a_row_of_nobodys_making_is_refused_not_guessed_at() {
    let bench = Bench::new().await;
    let tenant = bench.store.create_tenant(name("Acme"), at(NOW)).await.unwrap().id;
    bench.store.create_key(tenant, plain_key(), at(NOW)).await.unwrap();
    assert!(bench.by_hand("UPDATE keys SET window_cap = 0").await.is_err(), "the schema itself refuses");
    for (sql, damaged) in [
        ("UPDATE keys SET window_cap = 99999999999", "window_cap"),
        ("UPDATE keys SET window_cap = NULL, pepper_version = -1", "pepper_version"),
        ("UPDATE keys SET pepper_version = 1, id = '!!!!!!!!!!!!'", "id"),
    ] {
        bench.by_hand(sql).await.unwrap();
        let error = bench.store.snapshot().await.err().unwrap();
        assert!(
            matches!(error, StoreError::Damaged { table: "keys", column } if column == damaged),
            "{error}"
        );
    }
    bench.by_hand("UPDATE tenants SET name = ' Acme'").await.unwrap();
    let error = bench.store.list_tenants().await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { table: "tenants", column: "name" }));
}

/// Runs itself four times over, as four processes that open one folder at once: pepper, schema and rows must
/// not be torn.
#[test]
fn processes_share_one_store() {
    const FOLDER: &str = "BULKHEAD_TEST_SHARED_STORE";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Some(folder) = std::env::var_os(FOLDER) {
        let process = std::process::id();
        return runtime.block_on(async {
            let store = open_in(Path::new(&folder)).await.unwrap();
            for round in 0..10 {
                let made = name(&format!("tenant {process} {round}"));
                let tenant = store.create_tenant(made, at(NOW)).await.unwrap();
                store.create_key(tenant.id, plain_key(), at(NOW)).await.unwrap();
            }
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let itself = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut child = Command::new(&itself);
            child.args(["--exact", "store::tests::processes_share_one_store"]).env(FOLDER, folder.path());
            child.spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    runtime.block_on(async {
        let store = open_in(folder.path()).await.unwrap();
        let tenants = store.list_tenants().await.unwrap();
        assert_eq!((tenants.len(), store.list_keys().await.unwrap().len()), (40, 40));
        assert_eq!(tenants.iter().map(|tenant| tenant.tag).collect::<HashSet<_>>().len(), 40);
    });
}

#[tokio::test]
async fn shares_are_kept_changed_and_followed() {
    use crate::directory::Directory;
    use crate::share::{BadShare, MemoryCap, MemoryShare, TenantShare, WEIGHT_MAX};
    let bench = Bench::new().await;
    let acme = bench.store.create_tenant(name("acme"), at(NOW)).await.unwrap();
    let other = bench.store.create_tenant(name("other"), at(NOW)).await.unwrap();
    assert_eq!(acme.share, MemoryShare::default());
    let directory = Directory::open(&bench.store).await.unwrap();
    assert!(directory.shares().is_empty());

    let weight = |weight| NonZeroU32::new(weight).unwrap();
    let cap = MemoryCap::Tokens(weight(4096));
    for share in [
        MemoryShare { floor: 1024, cap, weight: weight(3) },
        MemoryShare { floor: 0, cap: MemoryCap::Pool, weight: weight(WEIGHT_MAX) },
    ] {
        bench.store.set_share(acme.id, share).await.unwrap();
        assert_eq!(bench.store.find_tenant("acme").await.unwrap().unwrap().share, share);
        directory.refresh(&bench.store).await.unwrap();
        assert_eq!(*directory.shares(), [TenantShare { tag: acme.tag, share }], "within one look");
    }
    assert_eq!(bench.store.find_tenant("other").await.unwrap().unwrap().share, other.share);

    let above = MemoryShare { floor: 5000, cap, weight: weight(1) };
    let refused = bench.store.set_share(acme.id, above).await.unwrap_err();
    assert!(matches!(refused, StoreError::BadShare(BadShare::FloorAboveCap { floor: 5000, cap: 4096 })));
    let heavy = MemoryShare { weight: weight(WEIGHT_MAX + 1), ..MemoryShare::default() };
    assert!(matches!(bench.store.set_share(acme.id, heavy).await, Err(StoreError::BadShare(_))));
    let nobody = TenantId(Uuid::nil());
    let refused = bench.store.set_share(nobody, MemoryShare::default()).await;
    assert!(matches!(refused, Err(StoreError::NoSuchTenant(_))));
}
