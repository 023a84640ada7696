//! Keeps the copy on disk, in a task of its own: a disk that hangs holds no revocation up.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};

use super::snapshot::Snapshot;
use super::{Directory, disk};
use crate::store::Revision;
use crate::time::UnixMillis;

/// Between two copies on disk, while no key and no secret is taken away. A key that was made less than this before the store and all gateways
/// died does not work until the store is back; one that was revoked, or a secret that rotation stopped, is out of the copy at once.
const KEEP_EVERY: Duration = Duration::from_secs(10);
/// The pause after a copy that could not be written; it doubles with each that follows, up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest pause.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Where a copy of a directory is kept, for a start without its store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Keep {
    /// Nowhere.
    Nowhere,
    /// In this file, of mode 0600. It holds what the store holds of keys: no secret, but what the pepper made of secrets.
    At(PathBuf),
}

/// What a copy is written with.
pub(super) trait Medium: Clone + Send + 'static {
    /// Writes a whole copy, which the store confirmed then.
    fn save(&self, snapshot: &Snapshot, path: &Path, confirmed: UnixMillis) -> io::Result<()>;
    /// Says when the store confirmed the copy that is there.
    fn confirm(&self, path: &Path, confirmed: UnixMillis) -> io::Result<()>;
}

/// The disk.
#[derive(Clone)]
pub(super) struct Disk;

impl Medium for Disk {
    fn save(&self, snapshot: &Snapshot, path: &Path, confirmed: UnixMillis) -> io::Result<()> {
        snapshot.save(path, confirmed)
    }

    fn confirm(&self, path: &Path, confirmed: UnixMillis) -> io::Result<()> {
        disk::confirm(path, confirmed)
    }
}

/// Looks after the copy. What comes while one is written is in the next: there is one wake-up at most that waits.
pub(super) struct Keeper<M> {
    path: PathBuf,
    medium: M,
    /// Of the copy on disk.
    kept: Option<Kept>,
    /// Copies in a row that could not be written.
    failures: u32,
}

/// What is known of the copy on disk.
struct Kept {
    revision: Revision,
    /// Those that are in it.
    removals: u64,
    /// When it was made or confirmed.
    at: Instant,
}

impl<M: Medium> Keeper<M> {
    /// Looks, at each wake-up, whether it is time for a copy; until the task is aborted.
    pub(super) fn spawn(
        path: PathBuf,
        medium: M,
        directory: Arc<Directory>,
        wake: Arc<Notify>,
    ) -> JoinHandle<()> {
        let mut keeper = Self { path, medium, kept: None, failures: 0 };
        tokio::spawn(async move {
            loop {
                wake.notified().await;
                keeper.keep(&directory).await;
                if keeper.failures > 0 {
                    tokio::time::sleep(pause_after(keeper.failures)).await;
                }
            }
        })
    }

    /// Makes a copy if it is time, after a refresh that succeeded.
    async fn keep(&mut self, directory: &Directory) {
        // First the time and the removals: one that comes in between is in the snapshot, and is looked at again.
        let confirmed = directory.confirmed_at();
        let removals = directory.removals.load(Ordering::Relaxed);
        let snapshot = directory.snapshot.load_full();
        let (at, revision) = (Instant::now(), snapshot.revision());
        if self.kept.as_ref().is_some_and(|kept| !kept.is_stale(at, removals)) {
            return;
        }
        let is_same = self.kept.as_ref().is_some_and(|kept| kept.revision == revision);
        let (path, medium) = (self.path.clone(), self.medium.clone());
        let work = move || {
            if is_same { medium.confirm(&path, confirmed) } else { medium.save(&snapshot, &path, confirmed) }
        };
        match spawn_blocking(work).await {
            Ok(Ok(())) => {
                self.kept = Some(Kept { revision, removals, at });
                self.failures = 0;
            }
            // Until it is tried again a start without the store finds an older copy, or none. A copy that cannot be confirmed is
            // written anew: nobody knows what became of it.
            Ok(Err(error)) => self.failed(&error),
            Err(panic) => self.failed(&io::Error::other(panic)),
        }
    }

    fn failed(&mut self, error: &io::Error) {
        self.kept = None;
        self.failures = self.failures.saturating_add(1);
        let retry_s = pause_after(self.failures).as_secs();
        tracing::warn!(%error, retry_s, "no copy of the keys is kept");
    }
}

impl Kept {
    /// Whether it is time for another.
    fn is_stale(&self, now: Instant, removals: u64) -> bool {
        self.removals != removals || now.saturating_duration_since(self.at) >= KEEP_EVERY
    }
}

fn pause_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    RETRY_MIN.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(RETRY_MAX)
}

#[cfg(test)]
mod tests;
