//! The log, open for writing: a bounded queue, one writer thread, group commit.
//!
//! ```text
//! append ──► queue (QUEUE_MAX) ──► take what has come (BATCH_MAX) ──► write ──► sync ──► head ──► tickets
//!                                   ▲─────────── what comes meanwhile goes with the next ──────────┘
//! ```
//! Nobody waits for a batch to fill: a record that comes alone is synced alone, and under load a sync carries
//! as many as came during the one before it.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use crate::chain::{Chain, Progress};
use crate::disk::{Disk, Folder};
use crate::error::AuditError;
use crate::line::{self, Event, LINE_BYTES_MAX, Link};
use crate::record::Record;

/// Records that may wait for the writer.
pub const QUEUE_MAX: usize = 4_096;
/// Records that one sync may carry.
pub const BATCH_MAX: usize = 256;
/// Bytes of a segment, beyond which the next begins.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;

// A batch always fits into a segment.
const _: () = assert!(SEGMENT_BYTES_MAX >= 256 * 4_096);

/// A log that this process, and no other, may append to. Dropping it writes what is queued.
pub struct AuditLog {
    queue: Option<SyncSender<Pending>>,
    queue_max: usize,
    ended_by: Arc<OnceLock<io::ErrorKind>>,
    writer: Option<JoinHandle<()>>,
}

/// What was found when a log was opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Recovered {
    /// Records that it holds.
    pub records: u64,
    /// Bytes of a torn last line that were cut off; nobody had been told that it is safe.
    pub cut_bytes: u64,
}

/// A record that is on disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Committed {
    /// Its number in the log; the first is 1.
    pub seq: u64,
}

/// Resolves when its record is on disk, or never will be.
#[must_use = "a record is not on disk before its ticket says so"]
#[derive(Debug)]
pub struct Ticket(oneshot::Receiver<Committed>);

impl Future for Ticket {
    type Output = Result<Committed, AuditError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The writer lets go of a ticket without an answer only when the log has ended.
        Pin::new(&mut self.0).poll(context).map(|answer| answer.map_err(|_| AuditError::Ended))
    }
}

impl Ticket {
    /// Waits on this thread; not to be called from a task.
    ///
    /// # Errors
    /// [`AuditError::Ended`].
    pub fn wait(self) -> Result<Committed, AuditError> {
        self.0.blocking_recv().map_err(|_| AuditError::Ended)
    }
}

struct Pending {
    time_ms: u64,
    event: Event,
    ticket: oneshot::Sender<Committed>,
}

/// What a test makes smaller.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) queue_max: usize,
    pub(crate) segment_bytes_max: u64,
}

impl AuditLog {
    /// Opens the log in `folder`, or begins one; reads it whole, cuts a torn last line, and starts the
    /// writer.
    ///
    /// # Errors
    /// [`AuditError::Locked`], [`AuditError::Tampered`], [`AuditError::Disk`].
    pub fn open(folder: &Path) -> Result<(Self, Recovered), AuditError> {
        Self::open_reporting(folder, &mut |_| {})
    }

    /// As [`AuditLog::open`], and says how far the reading has come.
    ///
    /// # Errors
    /// As [`AuditLog::open`].
    pub fn open_reporting(
        folder: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, Recovered), AuditError> {
        let bounds = Bounds { queue_max: QUEUE_MAX, segment_bytes_max: SEGMENT_BYTES_MAX };
        Self::open_on(folder, bounds, progress, |disk| disk)
    }

    /// Opens the log with `wrap` around the disk that the writer uses.
    pub(crate) fn open_on<D: Disk>(
        folder: &Path,
        bounds: Bounds,
        progress: &mut dyn FnMut(Progress),
        wrap: impl FnOnce(Folder) -> D,
    ) -> Result<(Self, Recovered), AuditError> {
        let mut disk = Folder::claim(folder)?;
        let chain = Chain::read(folder, progress)?;
        let (whole_bytes, cut_bytes) =
            chain.tail.as_ref().map_or((0, 0), |tail| (tail.whole_bytes, tail.torn_bytes));
        if let Some(tail) = &chain.tail {
            disk.resume(&tail.path, whole_bytes).map_err(AuditError::Disk)?;
        }
        disk.settle(chain.last).map_err(AuditError::Disk)?;
        let recovered = Recovered { records: chain.last.seq, cut_bytes };
        let position = match chain.tail {
            Some(_) => Position::Within { bytes: whole_bytes },
            None => Position::NoSegment,
        };
        let (queue, pending) = sync_channel(bounds.queue_max);
        let ended_by = Arc::new(OnceLock::new());
        let mut writer = Writer {
            disk: wrap(disk),
            last: chain.last,
            position,
            segment_bytes_max: bounds.segment_bytes_max,
            lines: Vec::with_capacity(BATCH_MAX.saturating_mul(LINE_BYTES_MAX)),
        };
        let ends = Arc::clone(&ended_by);
        let thread = thread::Builder::new().name("audit".to_owned()).spawn(move || {
            if let Err(error) = writer.run(&pending) {
                // Set once, here. The queue goes with this closure, and every ticket in it learns that the
                // log has ended.
                ends.get_or_init(|| error.kind());
            }
        });
        let writer = Some(thread.map_err(AuditError::Disk)?);
        Ok((Self { queue: Some(queue), queue_max: bounds.queue_max, ended_by, writer }, recovered))
    }

    /// Queues `record`; it is on disk when the ticket resolves, and not before.
    ///
    /// # Errors
    /// [`AuditError::Full`] when the disk does not keep up, [`AuditError::Ended`] after a failed write.
    /// Whoever needs the record must refuse then.
    pub fn append(&self, record: &Record, now: SystemTime) -> Result<Ticket, AuditError> {
        let event = Event::new(record)?;
        let millis = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let time_ms = u64::try_from(millis).unwrap_or(u64::MAX);
        let (ticket, answer) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or(AuditError::Ended)?;
        match queue.try_send(Pending { time_ms, event, ticket }) {
            Ok(()) => Ok(Ticket(answer)),
            Err(TrySendError::Full(_)) => Err(AuditError::Full { limit: self.queue_max }),
            Err(TrySendError::Disconnected(_)) => Err(AuditError::Ended),
        }
    }

    /// What ended the log; none while it can be appended to. For readiness.
    pub fn ended_by(&self) -> Option<io::ErrorKind> {
        let gone = self.writer.as_ref().is_none_or(JoinHandle::is_finished);
        self.ended_by.get().copied().or_else(|| gone.then_some(io::ErrorKind::Other))
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            // A writer that panicked let go of its tickets, and so has told already.
            writer.join().unwrap_or_default();
        }
    }
}

struct Writer<D> {
    disk: D,
    last: Link,
    position: Position,
    segment_bytes_max: u64,
    lines: Vec<u8>,
}

/// Where the next line goes.
enum Position {
    /// No segment has been begun.
    NoSegment,
    /// After this many bytes of the current one.
    Within { bytes: u64 },
}

impl<D: Disk> Writer<D> {
    /// Writes until the queue's other end is dropped, or until a write fails: then its tickets are dropped
    /// unanswered.
    fn run(&mut self, queue: &Receiver<Pending>) -> io::Result<()> {
        let mut tickets = Vec::with_capacity(BATCH_MAX);
        while let Ok(first) = queue.recv() {
            let mut next = Ok(first);
            while let Ok(pending) = next {
                self.last = line::write(&mut self.lines, self.last, pending.time_ms, &pending.event);
                tickets.push((pending.ticket, Committed { seq: self.last.seq }));
                next = if tickets.len() < BATCH_MAX { queue.try_recv() } else { Err(TryRecvError::Empty) };
            }
            self.commit(tickets.len())?;
            for (ticket, committed) in tickets.drain(..) {
                // Whoever does not wait for its ticket any more has lost nothing.
                ticket.send(committed).unwrap_or_default();
            }
        }
        Ok(())
    }

    fn commit(&mut self, records: usize) -> io::Result<()> {
        let bytes = u64::try_from(self.lines.len()).unwrap_or(u64::MAX);
        let within = match self.position {
            Position::Within { bytes: before } => Some(before)
                .filter(|before| *before == 0 || before.saturating_add(bytes) <= self.segment_bytes_max),
            Position::NoSegment => None,
        };
        let before = match within {
            Some(before) => before,
            None => {
                let earlier = u64::try_from(records).unwrap_or(u64::MAX).saturating_sub(1);
                self.disk.begin(self.last.seq.saturating_sub(earlier))?;
                0
            }
        };
        self.disk.append(&self.lines)?;
        self.disk.sync()?;
        self.disk.mark(self.last)?;
        self.position = Position::Within { bytes: before.saturating_add(bytes) };
        self.lines.clear();
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
