//! The log, open for writing: a bounded queue, a writer that commits groups, a publisher that signs.
//!
//! ```text
//! append ──► queue ──► writer: place, batch, sync ──► tickets
//!                         └─ epoch: seal ──► publisher: tiles, sync, checkpoint signed
//! ```
//! A record that comes alone is synced alone, and under load a sync carries as many as came during the one before it.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use crate::checkpoint::TreeHead;
use crate::disk::{Folder, Shelf, Wal};
use crate::error::AuditError;
use crate::hex::Hex;
use crate::open::{self, Opened};
use crate::publish::Publisher;
use crate::record::Record;
use crate::sign::LogKey;
use crate::wal::{Batch, SEGMENT_BYTES_MAX};
use crate::writer::{NoPlace, Pace, Pending, Writer};

/// Records that may wait for the writer.
pub const QUEUE_MAX: usize = 4_096;
/// How long after its first leaf an epoch is sealed and signed.
pub const EPOCH: Duration = Duration::from_secs(2);

/// A log that this process, and no other, may append to. Dropping it writes what is queued, seals, and signs.
pub struct AuditLog {
    queue: Option<SyncSender<Pending>>,
    queue_max: usize,
    ended_by: Arc<OnceLock<io::ErrorKind>>,
    signed: Arc<Mutex<TreeHead>>,
    threads: Vec<JoinHandle<()>>,
}

/// How far a reading has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Progress {
    /// Leaves read and found good, counted from the log's first.
    pub leaves: u64,
    /// Where the reading began.
    pub from: u64,
    /// Where it ends.
    pub until: u64,
}

/// What was found when a log was opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Recovered {
    /// Leaves that it holds.
    pub leaves: u64,
    /// Of those, leaves that no checkpoint had covered yet.
    pub unsigned: u64,
    /// Bytes of a torn last batch that were cut off; nobody had been told that it is safe.
    pub cut_bytes: u64,
}

/// A record that is on disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Committed {
    /// Its leaf's index in the log; the first is 0.
    pub index: u64,
    /// Hash of its leaf.
    pub leaf: Hex<32>,
    /// Its number among its tenant's; 0 for what concerns no tenant.
    pub tenant_seq: u64,
}

/// Resolves when its record is on disk, or never will be.
#[must_use = "a record is not on disk before its ticket says so"]
#[derive(Debug)]
pub struct Ticket(oneshot::Receiver<Result<Committed, NoPlace>>);

impl Future for Ticket {
    type Output = Result<Committed, AuditError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(answered)
    }
}

impl Ticket {
    /// Waits on this thread; not to be called from a task.
    ///
    /// # Errors
    /// [`AuditError::Ended`], [`AuditError::TooManyTenants`].
    pub fn wait(self) -> Result<Committed, AuditError> {
        answered(self.0.blocking_recv())
    }
}

fn answered(
    answer: Result<Result<Committed, NoPlace>, oneshot::error::RecvError>,
) -> Result<Committed, AuditError> {
    match answer {
        Ok(Ok(committed)) => Ok(committed),
        Ok(Err(NoPlace)) => Err(AuditError::TooManyTenants),
        // The writer lets go of a ticket without an answer only when the log has ended.
        Err(_) => Err(AuditError::Ended),
    }
}

/// What a test makes smaller.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) queue_max: usize,
    pub(crate) pace: Pace,
}

impl Bounds {
    pub(crate) const SHIPPED: Self =
        Self { queue_max: QUEUE_MAX, pace: Pace { segment_bytes_max: SEGMENT_BYTES_MAX, epoch: EPOCH } };
}

impl AuditLog {
    /// Opens the log in `folder`, or begins one; checks that it holds what was signed, cuts a torn last batch, and starts to write.
    ///
    /// # Errors
    /// [`AuditError::Locked`], [`AuditError::Broken`], [`AuditError::Disk`].
    pub fn open(folder: &Path, key: LogKey) -> Result<(Self, Recovered), AuditError> {
        Self::open_reporting(folder, key, &mut |_| {})
    }

    /// As [`AuditLog::open`], and says how far the reading has come.
    ///
    /// # Errors
    /// As [`AuditLog::open`].
    pub fn open_reporting(
        folder: &Path,
        key: LogKey,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, Recovered), AuditError> {
        Self::open_on(folder, key, Bounds::SHIPPED, progress, |wal| wal, |shelf| shelf)
    }

    /// Opens the log with something around the disk that it uses.
    pub(crate) fn open_on<W: Wal, S: Shelf>(
        path: &Path,
        key: LogKey,
        bounds: Bounds,
        progress: &mut dyn FnMut(Progress),
        wal: impl FnOnce(crate::disk::WalFolder) -> W,
        shelf: impl FnOnce(crate::disk::ShelfFolder) -> S,
    ) -> Result<(Self, Recovered), AuditError> {
        let folder = Folder::claim(path)?;
        let opened = open::open(path, &folder, &key, progress)?;
        let recovered = Recovered {
            leaves: opened.size,
            unsigned: opened.size.saturating_sub(opened.edge.size()),
            cut_bytes: opened.cut_bytes,
        };
        let head = TreeHead { size: opened.edge.size(), root: opened.edge.root() };
        let (wal, shelf) = (wal(folder.wal()?), shelf(folder.shelf()));
        let Opened { edge, bundle, heads, epoch, size, chapter, is_sealed, .. } = opened;
        let mut publisher = Publisher { shelf, key: Arc::new(key), edge, bundle };
        let (chapters, to_publish) = sync_channel(1);
        let unsealed_since = (!is_sealed).then(Instant::now);
        let (batch, within, pace) = (Batch::default(), None, bounds.pace);
        let mut writer =
            Writer { wal, heads, size, epoch, unsealed_since, chapter, chapters, pace, within, batch };
        let (queue, pending) = sync_channel(bounds.queue_max);
        let ended_by = Arc::new(OnceLock::new());
        let signed = Arc::new(Mutex::new(head));
        // Either's failure ends the log: set once, and the queue goes with the writer, so that every ticket in it learns of it.
        let (ends, path, told) = (Arc::clone(&ended_by), path.to_owned(), Arc::clone(&signed));
        let publishing = spawn("audit-publish", move || {
            let told = |head| *told.lock().unwrap_or_else(PoisonError::into_inner) = head;
            if let Err(error) = publisher.run(&to_publish, &path, &told) {
                ends.get_or_init(|| error.kind());
            }
        })?;
        let ends = Arc::clone(&ended_by);
        let writing = spawn("audit", move || {
            if let Err(error) = writer.run(&pending) {
                ends.get_or_init(|| error.kind());
            }
        })?;
        let threads = vec![writing, publishing];
        Ok((Self { queue: Some(queue), queue_max: bounds.queue_max, ended_by, signed, threads }, recovered))
    }

    /// Queues what concerns no tenant; it is on disk when the ticket resolves, and not before.
    ///
    /// # Errors
    /// As [`AuditLog::append_for`].
    pub fn append(&self, record: &Record, now: SystemTime) -> Result<Ticket, AuditError> {
        self.queue(None, record, now)
    }

    /// Queues what concerns a tenant.
    ///
    /// # Errors
    /// [`AuditError::Full`] when the disk does not keep up, [`AuditError::Ended`] after a failed write, [`AuditError::Unwritable`] for a
    /// record that concerns a tenant without one, or the other way round. Whoever needs the record must refuse then.
    pub fn append_for(
        &self,
        tenant: Hex<16>,
        record: &Record,
        now: SystemTime,
    ) -> Result<Ticket, AuditError> {
        self.queue(Some(tenant), record, now)
    }

    fn queue(&self, tenant: Option<Hex<16>>, record: &Record, now: SystemTime) -> Result<Ticket, AuditError> {
        if record.concerns_a_tenant() != tenant.is_some() || matches!(record, Record::Seal(_)) {
            return Err(AuditError::Unwritable);
        }
        let millis = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let time_ms = u64::try_from(millis).unwrap_or(u64::MAX);
        let (ticket, answer) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or(AuditError::Ended)?;
        match queue.try_send(Pending { time_ms, tenant, record: *record, ticket }) {
            Ok(()) => Ok(Ticket(answer)),
            Err(TrySendError::Full(_)) => Err(AuditError::Full { limit: self.queue_max }),
            Err(TrySendError::Disconnected(_)) => Err(AuditError::Ended),
        }
    }

    /// What ended the log; none while it can be appended to. For readiness.
    pub fn ended_by(&self) -> Option<io::ErrorKind> {
        let is_gone = self.threads.iter().any(JoinHandle::is_finished);
        self.ended_by.get().copied().or_else(|| is_gone.then_some(io::ErrorKind::Other))
    }

    /// What the last checkpoint says.
    pub fn signed(&self) -> TreeHead {
        *self.signed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        drop(self.queue.take());
        // The writer goes first, and the publisher with what it was given last.
        for thread in self.threads.drain(..) {
            // One that panicked let go of what waited for it, and so has told already.
            thread.join().unwrap_or_default();
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, AuditError> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(AuditError::Disk)
}

#[cfg(test)]
pub(crate) mod tests;
