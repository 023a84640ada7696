//! Opens the database: migrated, and with the right pepper; a file is closed to others as well.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{self, Path, PathBuf};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AnyConnection, AnyPool, AssertSqlSafe, ConnectOptions, Connection, Executor, SqlSafeStr};
use tokio::time::timeout;

use crate::error::{StoreError, is_of_the_line};
use crate::pepper::Pepper;
use crate::secret::Secret;
use crate::store::dialect::Dialect;
use crate::store::patience::{Patience, too_late};
use crate::store::{Revision, StoreId};

/// Connections of one process: one may write while others read.
const CONNECTIONS_MAX: u32 = 4;
/// How long a call waits for one of them.
const CONNECTION_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long an opener waits for another to be done, and how often it looks.
const OPENER_WAIT_MAX: Duration = Duration::from_secs(10);
const OPENER_PAUSE: Duration = Duration::from_millis(5);

pub(super) async fn open(
    path: &Path,
    pepper: &Pepper,
    patience: Patience,
) -> Result<(AnyPool, StoreId), StoreError> {
    // Absolute: SQLite takes a relative `file:...` for an address with options.
    let path = path::absolute(path).map_err(StoreError::File)?;
    let lock = claim(&path).await.map_err(StoreError::File)?;
    let pool = pool(&sqlite_url(&path), Dialect::Sqlite)?;
    let id = prepare(&pool, Dialect::Sqlite, pepper, patience).await?;
    drop(lock);
    Ok((pool, id))
}

pub(super) fn server(address: &Secret<String>) -> Result<AnyPool, StoreError> {
    if !address.expose().starts_with("postgres://") && !address.expose().starts_with("postgresql://") {
        return Err(StoreError::NotPostgres);
    }
    // The driver would log the value of one that it does not know.
    if let Some(name) = parameters(address.expose()).find(|name| !StoreError::is_known_parameter(name)) {
        return Err(StoreError::UnknownParameter(name.to_owned()));
    }
    pool(address.expose(), Dialect::Postgres)
}

/// The names of an address's parameters. What has no value has no name either: it may be part of a secret.
fn parameters(address: &str) -> impl Iterator<Item = &str> {
    let (_, all) = address.split_once('?').unwrap_or_default();
    let all = all.split('#').next().unwrap_or_default();
    all.split('&')
        .filter(|one| !one.is_empty())
        .map(|one| one.split_once('=').map_or("(without a value)", |(name, _)| name))
}

/// Migrates, compares the pepper, and says which store it is.
pub(super) async fn prepare(
    pool: &AnyPool,
    dialect: Dialect,
    pepper: &Pepper,
    patience: Patience,
) -> Result<StoreId, StoreError> {
    // A pool tries again and again, and then says that it waited: this says what is wrong, at once.
    let options = pool.connect_options();
    let mut probe = patience.answer(AnyConnection::connect_with(&options)).await?;
    let prepared = prepare_on(&mut probe, dialect, pepper, patience).await;
    // The migrator's lock is the connection's: one that migrated in vain would hold it on. What is wrong is said above.
    let _closed = patience.answer(probe.close()).await;
    prepared
}

async fn prepare_on(
    probe: &mut AnyConnection,
    dialect: Dialect,
    pepper: &Pepper,
    patience: Patience,
) -> Result<StoreId, StoreError> {
    patience.answer(probe.execute(sqlx::raw_sql(dialect.settings()))).await?;
    let limit = patience.migration_max;
    let migrator = migrations(dialect);
    match timeout(limit, migrator.run_direct(None, probe, false)).await {
        Ok(migrated) => migrated.map_err(schema)?,
        Err(_) => return Err(sqlx::Error::Io(too_late(limit)).into()),
    }
    let recognised = timeout(patience.answer_max, recognise(probe, dialect, pepper)).await;
    recognised.map_err(|_| sqlx::Error::Io(too_late(patience.answer_max)))?
}

/// A line that breaks says nothing of the schema.
fn schema(error: MigrateError) -> StoreError {
    if let MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _) = &error
        && is_of_the_line(cause)
    {
        let (MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _)) = error else {
            return StoreError::Schema(Box::new(error));
        };
        return cause.into();
    }
    StoreError::Schema(Box::new(error))
}

/// Connections that are made when they are needed.
fn pool(url: &str, dialect: Dialect) -> Result<AnyPool, StoreError> {
    // Each call but the first finds them installed.
    sqlx::any::install_default_drivers();
    // An address that cannot be read is not repeated: it holds a password.
    let options: AnyConnectOptions = url.parse().map_err(|_| StoreError::BadAddress)?;
    Ok(pool_of(options.disable_statement_logging(), dialect))
}

/// A pool of its own for what another pool connects to.
pub(super) fn another(pool: &AnyPool, dialect: Dialect) -> AnyPool {
    pool_of(AnyConnectOptions::clone(&pool.connect_options()), dialect)
}

fn pool_of(options: AnyConnectOptions, dialect: Dialect) -> AnyPool {
    AnyPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(CONNECTION_WAIT_MAX)
        .after_connect(move |connection, _| {
            Box::pin(async move { connection.execute(sqlx::raw_sql(dialect.settings())).await.map(|_| ()) })
        })
        .connect_lazy_with(options)
}

/// The address of a file, with all but letters, digits, `/` and `.` encoded.
fn sqlite_url(path: &Path) -> String {
    let mut url = String::from("sqlite://");
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_') {
            url.push(char::from(*byte));
        } else {
            // To write into a text does not fail.
            write!(url, "%{byte:02X}").unwrap_or_default();
        }
    }
    url
}

/// Makes the file when there is none, closes it to others, and takes the lock that one opener holds at a
/// time: two that migrate at once would trip over each other.
async fn claim(path: &Path) -> io::Result<File> {
    let mut beside = PathBuf::from(path).into_os_string();
    beside.push(".lock");
    let lock = closed_to_others(Path::new(&beside))?;
    let taken = async {
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(OPENER_PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    };
    tokio::time::timeout(OPENER_WAIT_MAX, taken)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    closed_to_others(path)?;
    // SQLite gives its side files the mode of the main one.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(lock)
}

fn closed_to_others(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Each is applied once, in its own transaction, and never edited afterwards: its checksum is in the store.
pub(super) fn migrations(dialect: Dialect) -> Migrator {
    let all = [
        ("tenants and keys", include_str!("../../migrations/0001_tenants_and_keys.sql")),
        ("shares", include_str!("../../migrations/0002_shares.sql")),
        ("projects and secrets", include_str!("../../migrations/0003_projects_and_secrets.sql")),
        ("limits", include_str!("../../migrations/0004_limits.sql")),
        ("tokens", include_str!("../../migrations/0005_tokens.sql")),
        ("events and answers", include_str!("../../migrations/0006_events_and_answers.sql")),
        ("budgets", include_str!("../../migrations/0007_budgets.sql")),
        ("budget parts", include_str!("../../migrations/0008_budget_parts.sql")),
        ("leaks and accounts", include_str!("../../migrations/0009_leaks_and_accounts.sql")),
        ("released parts", include_str!("../../migrations/0010_released_parts.sql")),
    ];
    let migration = |(version, (name, sql)): (i64, (&'static str, &'static str))| {
        // Ours alone: no word of anybody's is in it.
        let sql = AssertSqlSafe(dialect.migration(sql).into_owned()).into_sql_str();
        Migration::new(version, name.into(), MigrationType::Simple, sql, false)
    };
    Migrator::with_migrations((1..).zip(all).map(migration).collect())
}

/// Compares the pepper with the one that the store's digests were made with, and notes versions that are new.
async fn recognise(
    connection: &mut AnyConnection,
    dialect: Dialect,
    pepper: &Pepper,
) -> Result<StoreId, StoreError> {
    let mut change = connection.begin_with(dialect.begin_change()).await?;
    // As the only writer: of two that open a new store at once, the second finds what the first noted.
    sqlx::query("UPDATE revision SET value = value WHERE one = 1").execute(&mut *change).await?;
    let noted: Vec<(i64, Vec<u8>)> =
        sqlx::query_as("SELECT version, fingerprint FROM peppers").fetch_all(&mut *change).await?;
    let ours: Vec<(i64, [u8; 32])> =
        pepper.fingerprints().map(|(version, fingerprint)| (i64::from(version), fingerprint)).collect();
    let held = |(version, fingerprint): &(i64, Vec<u8>)| {
        ours.iter().any(|our| our.0 == *version && our.1.as_slice() == fingerprint)
    };
    if !noted.iter().all(held) {
        return Err(StoreError::WrongPepper);
    }
    for (version, fingerprint) in &ours {
        sqlx::query("INSERT INTO peppers (version, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(*version)
            .bind(fingerprint.as_slice())
            .execute(&mut *change)
            .await?;
    }
    let id = name(&mut change).await?;
    change.commit().await?;
    Ok(id)
}

/// The store's id, drawn where it has none yet.
async fn name(change: &mut AnyConnection) -> Result<StoreId, StoreError> {
    let mut id = [0; 16];
    SystemRandom::new().fill(&mut id).map_err(|_| StoreError::NoRandomness)?;
    sqlx::query("INSERT INTO identity (one, id) VALUES (1, $1) ON CONFLICT DO NOTHING")
        .bind(id.as_slice())
        .execute(&mut *change)
        .await?;
    Ok(Revision::read(&sqlx::query(Revision::SELECT).fetch_one(change).await?)?.store)
}
