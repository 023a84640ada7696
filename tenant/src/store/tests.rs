use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use policies::WindowCap;
use sqlx::{AssertSqlSafe, Connection};

use super::*;
use crate::key::ApiKey;
use crate::limits::{Concurrency, Expiry, KeyLimits};
use crate::name::Name;
use crate::purpose::{Mode, Purpose};
use crate::scopes::Scopes;

mod both;
mod budgets;
mod events;
pub(crate) mod faults;
mod history;
mod leaks;
mod limits;
mod nothing;
mod opening;
mod room;
mod silence;

pub(crate) const NOW: i64 = 1_800_000_000_000;

pub(crate) fn at(millis: i64) -> UnixMillis {
    UnixMillis::new(millis).unwrap()
}

/// A pepper and a store, in a folder or on a server.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
    url: Option<String>,
}

impl Bench {
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open_in(folder.path()).await.unwrap();
        Self { folder, store, url: None }
    }

    /// A database of its own on the server that `./check` starts.
    pub(crate) async fn postgres() -> Self {
        let server = std::env::var("BULKHEAD_TEST_POSTGRES")
            .expect("BULKHEAD_TEST_POSTGRES must name a PostgreSQL server, as ./check does");
        sqlx::any::install_default_drivers();
        let name = format!("test_{}", Uuid::now_v7().simple());
        let mut admin = sqlx::AnyConnection::connect(&server).await.unwrap();
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(&mut admin).await.unwrap();
        let (address, _) = server.rsplit_once('/').unwrap();
        let url = format!("{address}/{name}");
        let folder = tempfile::tempdir().unwrap();
        let store = Store::connect(Secret::new(url.clone()), pepper_in(folder.path())).await.unwrap();
        Self { folder, store, url: Some(url) }
    }

    /// Another handle, as another process would have it.
    pub(crate) async fn again(&self) -> Result<Store, StoreError> {
        self.with(pepper_in(self.folder.path())).await
    }

    /// A handle on the server's database that has not asked it anything.
    pub(crate) fn unasked(&self) -> Store {
        let url = self.url.clone().unwrap();
        Store::connect_later(Secret::new(url), pepper_in(self.folder.path())).unwrap()
    }

    async fn with(&self, pepper: Pepper) -> Result<Store, StoreError> {
        match &self.url {
            Some(url) => Store::connect(Secret::new(url.clone()), pepper).await,
            None => Store::open(&self.folder.path().join("tenants.db"), pepper).await,
        }
    }

    /// What nobody of ours would do to a store.
    pub(crate) async fn by_hand(&self, sql: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.store.pool).await.map(|_| ())
    }

    pub(crate) fn pool(&self) -> &AnyPool {
        &self.store.pool
    }

    pub(crate) async fn tenant(&self, called: &str) -> Tenant {
        self.store.create_tenant(name(called), at(NOW)).await.unwrap()
    }

    /// A live key of the tenant's first project that may do all.
    pub(crate) async fn spec(&self, tenant: TenantId) -> KeySpec {
        spec_in(&self.store, tenant).await
    }

    pub(crate) async fn key(&self, tenant: TenantId) -> (KeyRecord, Secret<String>) {
        self.store.create_key(self.spec(tenant).await, at(NOW)).await.unwrap()
    }

    async fn create_projects(&self, of: TenantId, numbers: std::ops::Range<usize>) {
        for number in numbers {
            self.store.create_project(of, name(&number.to_string()), at(NOW)).await.unwrap();
        }
    }

    async fn keys(&self) -> usize {
        self.store
            .changes(Revision::NONE)
            .await
            .unwrap()
            .keys
            .iter()
            .filter(|key| key.revoked.is_none())
            .count()
    }
}

/// Runs each of these on both databases.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            use crate::store::tests::Bench;

            #[tokio::test]
            async fn sqlite() {
                super::$name(Bench::sqlite().await).await;
            }

            #[tokio::test]
            async fn postgres() {
                super::$name(Bench::postgres().await).await;
            }
        }
    )*};
}
pub(crate) use on_both;

async fn spec_in(store: &Store, tenant: TenantId) -> KeySpec {
    let project = store.find_project(tenant, Project::DEFAULT).await.unwrap().unwrap().id;
    let purpose = Purpose::Service { tenant, project, mode: Mode::Live, scopes: Scopes::default() };
    let limits = KeyLimits { window_cap: WindowCap::Inherit, concurrency: Concurrency::Inherit };
    KeySpec { name: name("key"), purpose, limits, expires: Expiry::Never }
}

fn pepper_in(folder: &Path) -> Pepper {
    Pepper::load_or_create(&folder.join("pepper.key")).unwrap()
}

pub(crate) async fn open_in(folder: &Path) -> Result<Store, StoreError> {
    Store::open(&folder.join("tenants.db"), pepper_in(folder)).await
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

#[tokio::test]
async fn the_files_are_closed_to_others() {
    let bench = Bench::sqlite().await;
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
    let bench = Bench::sqlite().await;
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
    assert_eq!(bench.keys().await, 0);
    drop(writing);
    bench.store.create_tenant(name("after a change given up"), at(NOW)).await.unwrap();
}

#[tokio::test]
async fn closing_leaves_one_file() {
    let bench = Bench::sqlite().await;
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
async fn what_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tenants.db"), "x".repeat(8_192)).unwrap();
    assert!(matches!(open_in(folder.path()).await, Err(StoreError::Database(_))));
    let pepper = Pepper::load_or_create(&folder.path().join("pepper.key")).unwrap();
    let absent = Store::open(&folder.path().join("absent/tenants.db"), pepper).await;
    assert!(matches!(absent, Err(StoreError::File(_))));
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
                store.create_key(spec_in(&store, tenant.id).await, at(NOW)).await.unwrap();
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

/// A file with events that nobody counted yet: they are, when it is opened.
#[tokio::test]
async fn events_of_before_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenants.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut file = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let before = open::migrations(Dialect::Sqlite).iter().take(7).cloned().collect();
    sqlx::migrate::Migrator::with_migrations(before).run_direct(None, &mut file, false).await.unwrap();
    let acme = TenantId(new_id(at(NOW)));
    for (revision, tenant) in [(2, Some(acme)), (3, None), (4, Some(acme)), (5, Some(acme))] {
        let sql = "INSERT INTO events VALUES ($1, 1, 5, 'system', 'tenant.create', 'x', $2, NULL, NULL)";
        let tenant = tenant.map(|tenant| tenant.bytes().to_vec());
        sqlx::query(sql).bind(revision).bind(tenant).execute(&mut file).await.unwrap();
    }
    file.close().await.unwrap();
    let store = open_in(folder.path()).await.unwrap();
    let held: Vec<(Vec<u8>, i64)> =
        sqlx::query_as("SELECT account, held FROM event_accounts ORDER BY account")
            .fetch_all(&store.pool)
            .await
            .unwrap();
    assert_eq!(held, [(vec![], 1), (acme.bytes().to_vec(), 3)]);
    let all: i64 = sqlx::query_scalar("SELECT value FROM events_held").fetch_one(&store.pool).await.unwrap();
    assert_eq!(all, 4);
}

/// A file as the program made it before there were projects: its tenants, keys and shares go on as they were.
#[tokio::test]
async fn a_store_of_before_goes_on() {
    use crate::directory::{Caller, Directory};
    use crate::key::{ApiKey, KeyKind};

    let folder = tempfile::tempdir().unwrap();
    let (path, pepper) = (folder.path().join("tenants.db"), pepper_in(folder.path()));
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut file = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let first_two: Vec<_> = open::migrations(Dialect::Sqlite).iter().take(2).cloned().collect();
    sqlx::migrate::Migrator::with_migrations(first_two).run_direct(None, &mut file, false).await.unwrap();
    let key = ApiKey::generate(KeyKind::Live, &SystemRandom::new()).unwrap();
    let digest = pepper.digest(&key);
    let tenant = TenantId(new_id(at(NOW)));
    for sql in [
        "INSERT INTO tags VALUES (7)",
        "INSERT INTO tenants VALUES ($1, 'Acme', 7, 5)",
        "INSERT INTO shares VALUES ($1, 64, NULL, 3)",
        "INSERT INTO keys VALUES ($2, $1, 'ci', $3, $4, 128, NULL, NULL, 6, NULL)",
        "INSERT INTO keys VALUES ('aaaaaaaaaaaa', $1, 'gone', $3, $4, NULL, NULL, NULL, 7, 8)",
    ] {
        let query = sqlx::query(sql).bind(tenant.bytes().as_slice()).bind(key.id().as_str());
        query.bind(digest.version).bind(digest.tag.as_slice()).execute(&mut file).await.unwrap();
    }
    file.close().await.unwrap();

    let store = Store::open(&path, pepper).await.unwrap();
    let found = store.find_tenant("Acme").await.unwrap().unwrap();
    assert_eq!(
        (found.id, found.tag.get(), found.created, found.state),
        (tenant, 7, at(5), TenantState::Active)
    );
    assert_eq!((found.share.floor, found.share.weight.get()), (64, 3));
    let project = store.find_project(tenant, Project::DEFAULT).await.unwrap().unwrap().id;
    let keys = store.list_keys().await.unwrap();
    assert_eq!(keys.iter().map(|key| key.revoked).collect::<Vec<_>>(), [None, Some(at(8))]);
    let directory = Directory::open(&store).await.unwrap();
    let Ok(Caller::Service(principal)) = directory.authenticate(key.reveal().expose(), at(NOW)) else {
        panic!("the key works as before")
    };
    assert_eq!((principal.tenant, principal.project, principal.tag.get()), (tenant, project, 7));
    assert_eq!(principal.limits.window_cap, WindowCap::Tokens(std::num::NonZeroU32::new(128).unwrap()));
    assert_eq!(directory.keys(), 1, "the other was revoked");
}
