//! Keeps a directory fresh, and a copy of it on disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, spawn_blocking};

use super::snapshot::Snapshot;
use super::{Directory, disk};
use crate::store::{Revision, Store};

/// Between two copies on disk, while no key is taken away. A key that was made less than this before the store and all gateways
/// died does not work until the store is back; one that was revoked is out of the copy at once.
const KEEP_EVERY: Duration = Duration::from_secs(10);

/// Where a copy of a directory is kept, for a start without its store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Keep {
    /// Nowhere.
    Nowhere,
    /// In this file, of mode 0600. It holds what the store holds of keys: no secret, but what the pepper made of secrets.
    At(PathBuf),
}

/// Keeps a directory fresh until it is dropped.
#[must_use = "the directory is followed only while this lives"]
pub struct Follower(JoinHandle<()>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Directory {
    /// Refreshes when the store tells of a change, and once each `every`, on the runtime that this is called from. Failures show
    /// in [`Directory::health`].
    pub fn follow(self: &Arc<Self>, store: Store, every: Duration, keep: Keep) -> Follower {
        let directory = Arc::clone(self);
        let mut keeper = Keeper { keep, kept: None };
        Follower(tokio::spawn(async move {
            let mut beat = tokio::time::interval(every);
            beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut watch = store.watch();
            loop {
                tokio::select! {
                    _ = beat.tick() => {}
                    () = watch.changed(&store) => {}
                }
                directory.is_told.store(watch.is_listening(), Ordering::Relaxed);
                // A failure is counted where health can be asked for; there is nobody here to tell.
                if directory.refresh(&store).await.is_ok() {
                    keeper.keep(&directory).await;
                }
            }
        }))
    }
}

/// Looks after the copy.
struct Keeper {
    keep: Keep,
    /// Of the copy on disk: its revision, the removals that are in it, and when it was made or confirmed.
    kept: Option<(Revision, u64, Instant)>,
}

impl Keeper {
    /// Makes a copy if it is time, after a refresh that succeeded.
    async fn keep(&mut self, directory: &Arc<Directory>) {
        let Keep::At(path) = &self.keep else { return };
        // First the removals: one that comes in between is in the snapshot, and is looked at again.
        let removals = directory.removals.load(Ordering::Relaxed);
        let snapshot = directory.snapshot.load_full();
        let now = Instant::now();
        let is_same = match self.kept {
            Some((revision, kept, at)) => {
                let is_time = now.saturating_duration_since(at) >= KEEP_EVERY;
                if !is_time && kept == removals {
                    return;
                }
                revision == snapshot.revision()
            }
            None => false,
        };
        let (path, revision) = (path.clone(), snapshot.revision());
        let work = move || if is_same { disk::confirm(&path) } else { Snapshot::save(&snapshot, &path) };
        match spawn_blocking(work).await {
            Ok(Ok(())) => self.kept = Some((revision, removals, now)),
            // Tried again after the next refresh; until then a start without the store finds an older copy.
            Ok(Err(error)) => tracing::warn!(%error, "no copy of the keys is kept"),
            Err(_) => {}
        }
    }
}
