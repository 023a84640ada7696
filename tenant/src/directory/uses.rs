//! Which secrets were used, and when: noted in memory where they are proven, and brought to the store from time to time.
//!
//! A secret that was proven under an older pepper is hashed anew under the current one: nobody has it at another moment.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Directory;
use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::key::{ApiKey, KeyId};
use crate::pepper::Pepper;
use crate::store::{Digested, Store};
use crate::time::UnixMillis;

/// Secrets whose use is noted and not stored. One that finds no place is noted when it is used again.
pub const USES_MAX: usize = 65_536;

/// A use of a secret.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct Use {
    pub(crate) key: KeyId,
    /// What the store knows the secret by.
    pub(crate) digest: [u8; 32],
    /// The last time.
    pub(crate) at: UnixMillis,
    /// What it is to know it by, with the pepper's version; none where that is so already.
    pub(crate) renewed: Option<(u32, [u8; 32])>,
}

/// What was used since it was stored last; by digest.
#[derive(Default)]
pub(super) struct Uses(DashMap<[u8; 32], Use>);

impl Uses {
    /// Notes that `secret` of `key` was proven.
    pub(super) fn note(&self, pepper: &Pepper, key: &ApiKey, secret: &Digested, now: UnixMillis) {
        if let Some(mut noted) = self.0.get_mut(&secret.digest) {
            noted.at = noted.at.max(now);
            return;
        }
        if self.0.len() >= USES_MAX {
            return;
        }
        let renewed = (!pepper.is_current(secret.pepper_version)).then(|| {
            let fresh = pepper.digest(key);
            (fresh.version, fresh.tag)
        });
        self.put(Use { key: key.id(), digest: secret.digest, at: now, renewed });
    }

    fn put(&self, noted: Use) {
        let mut entry = self.0.entry(noted.digest).or_insert(noted);
        entry.at = entry.at.max(noted.at);
    }

    fn take(&self) -> Vec<Use> {
        let digests: Vec<[u8; 32]> = self.0.iter().map(|entry| *entry.key()).collect();
        digests.iter().filter_map(|digest| self.0.remove(digest).map(|(_, noted)| noted)).collect()
    }
}

/// Brings uses to the store until it is dropped; those of the last moments are lost then, unless it is finished.
#[must_use = "uses are stored only while this lives"]
pub struct Noting {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Noting {
    /// Stores once more what there is, and ends.
    pub async fn finish(mut self) {
        self.stop.send_replace(true);
        // A task that panicked has stored what it could.
        drop((&mut self.task).await);
    }
}

impl Directory {
    /// Brings the times of last use to `store` each time that `every` has passed, on the runtime that this is called from.
    pub fn note_uses(self: &Arc<Self>, store: Store, every: Duration) -> Noting {
        let (stop, mut stopped) = watch::channel(false);
        let directory = Arc::clone(self);
        let task = tokio::spawn(async move {
            loop {
                let is_last = *stopped.borrow();
                if let Err(error) = directory.store_uses(&store).await {
                    tracing::warn!(%error, "when secrets were used is not stored; it is tried again");
                }
                if is_last {
                    return;
                }
                tokio::select! {
                    () = sleep(every) => {}
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                }
            }
        });
        Noting { task, stop }
    }

    /// Stores what was noted; what the store does not take stays noted.
    pub(crate) async fn store_uses(&self, store: &Store) -> Result<(), StoreError> {
        let uses = self.uses.take();
        if uses.is_empty() {
            return Ok(());
        }
        let result = store.note_uses(&uses).await;
        if result.is_err() && !seeded(Fault::UsesForgotten) {
            uses.into_iter().for_each(|noted| self.uses.put(noted));
        }
        result
    }
}

#[cfg(test)]
mod tests;
