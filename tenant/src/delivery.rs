//! Brings usage from a gateway's ledger to the store, for as long as the gateway lives.
//!
//! A batch is numbered in the journal before it is sent, and sent again as it is until the store has it: the store adds each
//! number once. So usage is neither lost nor counted twice, whoever crashes, and whenever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::error::StoreError;
use crate::ledger::{Ledger, LedgerError, Taken};
use crate::store::Store;
use crate::time::UnixMillis;

/// Longest pause after a failure.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Delivers until it is dropped. What is not delivered then stays in the journal.
pub struct Delivery {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
    health: Arc<Counts>,
}

/// How delivery goes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DeliveryHealth {
    /// Batches that the store has taken over.
    pub batches: u64,
    /// Tries that failed since the last one that did not.
    pub failures: u32,
}

#[derive(Default)]
struct Counts {
    batches: AtomicU64,
    failures: AtomicU32,
}

/// Why a batch was not delivered.
#[derive(Debug, thiserror::Error)]
enum Undelivered {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Delivery {
    /// Begins to bring the usage of `ledger` to `store`, each time that `every` has passed.
    pub fn begin(ledger: Arc<Ledger>, store: Store, every: Duration) -> Self {
        let (stop, stopped) = watch::channel(false);
        let health = Arc::<Counts>::default();
        let task = tokio::spawn(deliver(ledger, store, every, stopped, Arc::clone(&health)));
        Self { task, stop, health }
    }

    /// How it goes; a clone of the handle that this returns outlives the delivery.
    pub fn health(&self) -> impl Fn() -> DeliveryHealth + Clone + Send + Sync + use<> {
        let health = Arc::clone(&self.health);
        move || DeliveryHealth {
            batches: health.batches.load(Ordering::Relaxed),
            failures: health.failures.load(Ordering::Relaxed),
        }
    }

    /// Delivers once more what there is, and ends.
    pub async fn finish(mut self) {
        self.stop.send_replace(true);
        // A task that panicked has delivered what it could.
        drop((&mut self.task).await);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn deliver(
    ledger: Arc<Ledger>,
    store: Store,
    every: Duration,
    mut stopped: watch::Receiver<bool>,
    health: Arc<Counts>,
) {
    let mut pause = every;
    loop {
        let is_last = *stopped.borrow();
        match all(&ledger, &store, &health).await {
            Ok(()) => {
                if health.failures.swap(0, Ordering::Relaxed) > 0 {
                    tracing::info!("the store takes usage again");
                }
                pause = every;
            }
            Err(error) => {
                if health.failures.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::error!(%error, backlog = ledger.usage_backlog(), "usage is not stored; it is kept, and tried again");
                }
                pause = pause.saturating_mul(2).min(PAUSE_MAX.max(every));
            }
        }
        if is_last {
            return;
        }
        tokio::select! {
            () = sleep(pause) => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    }
}

/// Delivers batch after batch until there is none.
async fn all(ledger: &Ledger, store: &Store, health: &Counts) -> Result<(), Undelivered> {
    loop {
        let Taken::Batch(batch) = ledger.take_batch().await? else { return Ok(()) };
        let now = UnixMillis::from_system(SystemTime::now());
        store.prepare().await?;
        store.add_usage(&batch, now).await?;
        ledger.confirm(batch.number).await?;
        health.batches.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
