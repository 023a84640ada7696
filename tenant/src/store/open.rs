//! Opens the file: closed to others, migrated, and with the right pepper.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{self, Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, SqlSafeStr};

use crate::error::StoreError;
use crate::pepper::Pepper;
use crate::store::BUSY_MAX;

/// Connections of one process: one may write while others read.
const CONNECTIONS_MAX: u32 = 4;
/// How long a call waits for one of them.
const CONNECTION_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long an opener waits for another to be done, and how often it looks.
const OPENER_WAIT_MAX: Duration = Duration::from_secs(10);
const OPENER_PAUSE: Duration = Duration::from_millis(5);

pub(super) async fn open(path: &Path, pepper: &Pepper) -> Result<SqlitePool, StoreError> {
    // Absolute: SQLite takes a relative `file:...` for an address with options.
    let path = path::absolute(path).map_err(StoreError::File)?;
    let lock = claim(&path).await.map_err(StoreError::File)?;
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        // Full: a commit is on disk when it returns; a key that was revoked stays revoked after a power cut.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_MAX)
        .disable_statement_logging();
    let pool = SqlitePoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(CONNECTION_WAIT_MAX)
        .connect_with(options)
        .await?;
    migrations().run(&pool).await.map_err(|error| StoreError::Schema(Box::new(error)))?;
    recognise(&pool, pepper).await?;
    drop(lock);
    Ok(pool)
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
fn migrations() -> Migrator {
    let all = [
        ("tenants and keys", include_str!("../../migrations/0001_tenants_and_keys.sql")),
        ("shares", include_str!("../../migrations/0002_shares.sql")),
    ];
    let migration = |(version, (name, sql)): (i64, (&'static str, &'static str))| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations((1..).zip(all).map(migration).collect())
}

/// Compares the pepper with the one that the store's digests were made with, and notes versions that are new.
async fn recognise(pool: &SqlitePool, pepper: &Pepper) -> Result<(), StoreError> {
    let mut change = pool.begin_with("BEGIN IMMEDIATE").await?;
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
        sqlx::query("INSERT INTO peppers (version, fingerprint) VALUES (?, ?) ON CONFLICT DO NOTHING")
            .bind(version)
            .bind(fingerprint.as_slice())
            .execute(&mut *change)
            .await?;
    }
    change.commit().await?;
    Ok(())
}
