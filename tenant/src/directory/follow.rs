//! Keeps a directory fresh.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::Directory;
use super::keep::{Disk, Keep, Keeper, Medium};
use crate::store::Store;

/// Keeps a directory fresh, and a copy of it on disk, until it is dropped.
#[must_use = "the directory is followed only while this lives"]
pub struct Follower {
    following: JoinHandle<()>,
    keeping: Option<JoinHandle<()>>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.following.abort();
        if let Some(keeping) = &self.keeping {
            keeping.abort();
        }
    }
}

impl Directory {
    /// Refreshes when the store tells of a change, and once each `every`, on the runtime that this is called from. Failures show
    /// in [`Directory::health`].
    pub fn follow(self: &Arc<Self>, store: Store, every: Duration, keep: Keep) -> Follower {
        self.follow_on(store, every, keep, Disk)
    }

    pub(super) fn follow_on(
        self: &Arc<Self>,
        store: Store,
        every: Duration,
        keep: Keep,
        medium: impl Medium,
    ) -> Follower {
        let (directory, wake) = (Arc::clone(self), Arc::new(Notify::new()));
        let keeping = match keep {
            Keep::Nowhere => None,
            Keep::At(path) => Some(Keeper::spawn(path, medium, Arc::clone(self), Arc::clone(&wake))),
        };
        let following = tokio::spawn(async move {
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
                    wake.notify_one();
                }
            }
        });
        Follower { following, keeping }
    }
}
