//! The writer: a thread that gives each record its place, makes batches durable, and seals epochs.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tlog_tiles::Hash;
use tokio::sync::oneshot;

use crate::disk::Wal;
use crate::fault::{Fault, seeded};
use crate::heads::Heads;
use crate::hex::Hex;
use crate::leaf::{Leaf, leaf_hash};
use crate::log::Committed;
use crate::publish::Chapter;
use crate::record::{Record, Seal};
use crate::snapshot::Snapshot;
use crate::wal::{BATCH_MAX, Batch};

/// Bytes of leaves that wait for the publisher, beyond which the writer waits for it too: 40 epochs' worth of 5,000 records a second.
const BACKLOG_BYTES_MAX: usize = 64 << 20;
/// Epochs after which all heads are kept once more.
const SNAPSHOT_EPOCHS: u64 = 64;
/// While nothing is unsealed there is nothing to wake up for.
const IDLE: Duration = Duration::from_secs(3_600);
/// After this a publisher that was busy is asked again.
const BUSY: Duration = Duration::from_millis(20);

/// A record that waits for the disk.
pub(crate) struct Pending {
    pub(crate) time_ms: u64,
    pub(crate) tenant: Option<Hex<16>>,
    pub(crate) record: Record,
    pub(crate) ticket: oneshot::Sender<Result<Committed, NoPlace>>,
}

/// The log has as many tenants as it may.
#[derive(Debug)]
pub(crate) struct NoPlace;

/// How a log is written.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// Bytes of a segment, beyond which the next begins.
    pub(crate) segment_bytes_max: u64,
    /// How long after its first leaf an epoch is sealed.
    pub(crate) epoch: Duration,
}

/// What a writer goes on with.
pub(crate) struct Writer<W> {
    pub(crate) wal: W,
    pub(crate) heads: Heads,
    /// Leaves there are.
    pub(crate) size: u64,
    /// The last seal's number.
    pub(crate) epoch: u64,
    /// When the first leaf after the last seal came.
    pub(crate) unsealed_since: Option<Instant>,
    /// Leaves that wait for the publisher.
    pub(crate) chapter: Chapter,
    pub(crate) chapters: SyncSender<Chapter>,
    pub(crate) pace: Pace,
    /// Bytes of the current segment; none before the first is begun.
    pub(crate) within: Option<u64>,
    pub(crate) batch: Batch,
}

impl<W: Wal> Writer<W> {
    /// Writes until the queue's other end is dropped, or until a write fails: then its tickets are dropped unanswered.
    pub(crate) fn run(&mut self, queue: &Receiver<Pending>) -> io::Result<()> {
        self.hand_over(false)?;
        loop {
            match queue.recv_timeout(self.patience()) {
                Ok(first) => self.write(first, queue)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.until_seal().is_zero() {
                self.seal()?;
            }
            self.hand_over(false)?;
        }
        if self.unsealed_since.is_some() {
            self.seal()?;
        }
        self.keep_heads();
        self.hand_over(true)
    }

    /// How long to wait for a record before there is something else to do.
    fn patience(&self) -> Duration {
        if self.unsealed_since.is_none() && !self.chapter.hashes.is_empty() {
            return BUSY;
        }
        self.until_seal()
    }

    fn until_seal(&self) -> Duration {
        let since = self.unsealed_since.map(|since| since.elapsed());
        since.map_or(IDLE, |since| self.pace.epoch.saturating_sub(since))
    }

    /// Writes a batch: `first`, and what has come meanwhile. Nobody waits for a batch to fill.
    fn write(&mut self, first: Pending, queue: &Receiver<Pending>) -> io::Result<()> {
        self.batch.begin(self.size);
        let mut tickets = Vec::with_capacity(BATCH_MAX);
        let mut next = Ok(first);
        while let Ok(pending) = next {
            match self.place(pending.time_ms, pending.tenant, pending.record)? {
                Some(committed) => tickets.push((pending.ticket, committed)),
                // Whoever does not wait for its ticket any more has lost nothing.
                None => pending.ticket.send(Err(NoPlace)).unwrap_or_default(),
            }
            next = if tickets.len() < BATCH_MAX { queue.try_recv() } else { Err(TryRecvError::Empty) };
        }
        self.commit()?;
        for (ticket, committed) in tickets {
            ticket.send(Ok(committed)).unwrap_or_default();
        }
        Ok(())
    }

    /// Gives a record its place in the log and among its tenant's; none if there is none for its tenant.
    fn place(
        &mut self,
        time_ms: u64,
        tenant: Option<Hex<16>>,
        event: Record,
    ) -> io::Result<Option<Committed>> {
        let link = match tenant {
            None => None,
            Some(tenant) => match self.heads.next(tenant) {
                Some(link) => Some(link),
                None => return Ok(None),
            },
        };
        let bytes = Leaf { time_ms, link, event }
            .encode()
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let leaf = leaf_hash(&bytes);
        if let Some(link) = &link {
            self.heads.follow(link, leaf).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        }
        let committed = Committed { index: self.size, leaf, tenant_seq: link.map_or(0, |link| link.seq) };
        self.batch.push(&bytes);
        let Hex(hash) = leaf;
        self.chapter.push(&bytes, Hash(hash));
        self.size = self.size.saturating_add(1);
        self.unsealed_since.get_or_insert_with(Instant::now);
        Ok(Some(committed))
    }

    /// Makes the batch durable.
    fn commit(&mut self) -> io::Result<()> {
        if self.batch.count() == 0 {
            return Ok(());
        }
        let first = self.batch.first();
        let batch = self.batch.seal();
        let bytes = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let within = match self.within.filter(|within| *within < self.pace.segment_bytes_max) {
            Some(within) => within,
            None => {
                self.wal.begin(first)?;
                0
            }
        };
        self.wal.append(batch)?;
        if !seeded(Fault::AcknowledgedUnsynced) {
            self.wal.sync()?;
        }
        self.within = Some(within.saturating_add(bytes));
        Ok(())
    }

    /// Ends the epoch: a leaf that says every tenant's head.
    fn seal(&mut self) -> io::Result<()> {
        self.epoch = self.epoch.saturating_add(1);
        let tenants = u64::try_from(self.heads.len()).unwrap_or(u64::MAX);
        let seal = Record::Seal(Seal { epoch: self.epoch, tenants, heads: self.heads.root() });
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        self.batch.begin(self.size);
        self.place(u64::try_from(millis).unwrap_or(u64::MAX), None, seal)?;
        self.commit()?;
        self.unsealed_since = None;
        if self.epoch.is_multiple_of(SNAPSHOT_EPOCHS) {
            self.keep_heads();
        }
        Ok(())
    }

    /// All heads go with the next chapter. Called right after a seal, and at the end.
    fn keep_heads(&mut self) {
        let (size, epoch, heads) = (self.size, self.epoch, self.heads.all().to_vec());
        self.chapter.heads = Some(Snapshot { size, epoch, heads });
    }

    /// Gives what is sealed to the publisher, if it is free; if too much waits, or at the end, waits until it is.
    fn hand_over(&mut self, is_last: bool) -> io::Result<()> {
        let is_due = self.unsealed_since.is_none() && (!self.chapter.hashes.is_empty() || is_last);
        let is_too_much = self.chapter.entries.len() > BACKLOG_BYTES_MAX;
        if !is_due && !is_too_much {
            return Ok(());
        }
        let chapter = core::mem::take(&mut self.chapter);
        let gone = |_| io::Error::other("the publisher ended");
        if is_last || is_too_much {
            return self.chapters.send(chapter).map_err(|_| io::Error::other("the publisher ended"));
        }
        match self.chapters.try_send(chapter) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(chapter)) => {
                self.chapter = chapter;
                Ok(())
            }
            Err(TrySendError::Disconnected(chapter)) => Err(gone(chapter)),
        }
    }
}
