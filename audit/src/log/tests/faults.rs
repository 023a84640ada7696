//! Disks that fail, as real ones do: a write that fails has written half.

use std::sync::mpsc;

use super::*;
use crate::disk::{ShelfFolder, WalFolder};
use crate::wal::BATCH_MAX;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Begin,
    FullDisk,
    Sync,
    Put,
    Settle,
    Publish,
    Tidy,
}

/// Fails at a chosen call.
struct Faulty<D> {
    disk: D,
    calls_left: u32,
    fault: Fault,
}

impl<D> Faulty<D> {
    fn strike(&mut self, fault: Fault) -> io::Result<()> {
        if self.fault != fault {
            return Ok(());
        }
        self.calls_left = self.calls_left.saturating_sub(1);
        if self.calls_left > 0 {
            return Ok(());
        }
        match fault {
            Fault::Begin | Fault::FullDisk | Fault::Put => Err(io::ErrorKind::StorageFull.into()),
            Fault::Sync | Fault::Settle | Fault::Publish | Fault::Tidy => {
                Err(io::Error::from_raw_os_error(5))
            }
        }
    }
}

impl Wal for Faulty<WalFolder> {
    fn begin(&mut self, first: u64) -> io::Result<()> {
        self.strike(Fault::Begin)?;
        self.disk.begin(first)
    }

    fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        if let Err(full) = self.strike(Fault::FullDisk) {
            self.disk.append(&batch[..batch.len() / 2])?;
            return Err(full);
        }
        self.disk.append(batch)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.strike(Fault::Sync)?;
        self.disk.sync()
    }
}

impl Shelf for Faulty<ShelfFolder> {
    fn put(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        if let Err(full) = self.strike(Fault::Put) {
            self.disk.put(path, &bytes[..bytes.len() / 2])?;
            return Err(full);
        }
        self.disk.put(path, bytes)
    }

    fn settle(&mut self) -> io::Result<()> {
        self.strike(Fault::Settle)?;
        self.disk.settle()
    }

    fn publish(&mut self, checkpoint: &[u8]) -> io::Result<()> {
        self.strike(Fault::Publish)?;
        self.disk.publish(checkpoint)
    }

    fn tidy(&mut self, folders: &[String], size: u64) -> io::Result<()> {
        self.strike(Fault::Tidy)?;
        self.disk.tidy(folders, size)
    }
}

#[test]
fn a_failed_write_ends_the_log_and_loses_nothing_that_was_acknowledged() {
    use Fault::{Begin, FullDisk, Publish, Put, Settle, Sync, Tidy};
    for fault in [Begin, FullDisk, Sync, Put, Settle, Publish, Tidy] {
        for calls_left in 1..=3 {
            let folder = tempfile::tempdir().unwrap();
            let wal = |disk| Faulty { disk, calls_left, fault };
            let shelf = |disk| Faulty { disk, calls_left, fault };
            let (log, _) = AuditLog::open_on(folder.path(), key(), SMALL, &mut |_| {}, wal, shelf).unwrap();
            let mut acknowledged = 0;
            let ended = (0..10_000).find_map(|mark| {
                let end = log.append_for(ACME, &record(mark), NOW).and_then(Ticket::wait);
                if end.is_ok() {
                    acknowledged = mark + 1;
                }
                end.err()
            });
            assert!(matches!(ended, Some(AuditError::Ended)), "{fault:?} {calls_left}");
            for _ in 0..10 {
                let refused = log.append_for(ACME, &record(0), NOW).and_then(Ticket::wait);
                assert!(matches!(refused, Err(AuditError::Ended)), "{fault:?}: nothing after a failure");
            }
            assert!(log.ended_by().is_some());
            let signed = log.signed().size;
            drop(log);
            // What was signed until then is true, and all that was acknowledged is there after the next opening.
            assert!(checked(folder.path()).leaves >= signed, "{fault:?} {calls_left}");
            let (log, recovered) = small(folder.path()).unwrap();
            assert_eq!(recovered.cut_bytes > 0, fault == FullDisk, "{fault:?} {calls_left}");
            drop(log);
            let marks = marks(folder.path());
            assert!(marks.len() >= acknowledged as usize, "{fault:?} {calls_left}");
            assert!(marks.iter().copied().eq(0..marks.len() as u32), "{fault:?} {calls_left}");
            checked(folder.path());
        }
    }
}

/// Waits at each sync until the test lets it go on.
struct Gated {
    disk: WalFolder,
    gate: mpsc::Receiver<()>,
}

impl Wal for Gated {
    fn begin(&mut self, first: u64) -> io::Result<()> {
        self.disk.begin(first)
    }
    fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        self.disk.append(batch)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.gate.recv().unwrap();
        self.disk.sync()
    }
}

#[test]
fn a_slow_disk_fills_the_queue_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (open, gate) = mpsc::channel();
    let bounds = Bounds { queue_max: 600, ..SLOW };
    let gated = |disk| Gated { disk, gate };
    let (log, _) =
        AuditLog::open_on(folder.path(), key(), bounds, &mut |_| {}, gated, |shelf| shelf).unwrap();
    let mut tickets = Vec::new();
    // The writer holds a batch, so that the queue takes up to that many more.
    let full = loop {
        match log.append_for(ACME, &record(0), NOW) {
            Ok(ticket) => tickets.push(ticket),
            Err(error) => break error,
        }
        assert!(tickets.len() <= 600 + BATCH_MAX);
    };
    assert!(matches!(full, AuditError::Full { limit: 600 }));
    assert!(tickets.len() >= 600);
    for ticket in &mut tickets {
        assert!(ticket.0.try_recv().is_err(), "nothing is acknowledged before it is synced");
    }
    for _ in 0..2 + tickets.len() {
        open.send(()).unwrap();
    }
    let count = tickets.len();
    for (index, ticket) in (0..).zip(tickets) {
        assert_eq!(ticket.wait().unwrap().index, index);
    }
    drop(log);
    assert_eq!(marks(folder.path()).len(), count);
}

/// Waits before each checkpoint until the test lets it go on.
struct Unsigned {
    disk: ShelfFolder,
    gate: mpsc::Receiver<()>,
}

impl Shelf for Unsigned {
    fn put(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.disk.put(path, bytes)
    }
    fn settle(&mut self) -> io::Result<()> {
        self.disk.settle()
    }
    fn publish(&mut self, checkpoint: &[u8]) -> io::Result<()> {
        self.gate.recv().map_err(io::Error::other)?;
        self.disk.publish(checkpoint)
    }
    fn tidy(&mut self, folders: &[String], size: u64) -> io::Result<()> {
        self.disk.tidy(folders, size)
    }
}

/// A publisher that stands still holds nobody up, and what waits for it is signed when it goes on.
#[test]
fn a_slow_publisher_delays_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let (open, gate) = mpsc::channel();
    let shelf = |disk| Unsigned { disk, gate };
    let (log, _) = AuditLog::open_on(folder.path(), key(), SMALL, &mut |_| {}, |wal| wal, shelf).unwrap();
    for mark in 0..300 {
        log.append_for(ACME, &record(mark), NOW).unwrap().wait().unwrap();
    }
    assert_eq!(log.signed().size, 0);
    assert_eq!(checked(folder.path()).leaves, 0, "what is not signed is not claimed");
    assert_eq!(marks(folder.path()).len(), 300, "and yet durable");
    for _ in 0..1_000 {
        open.send(()).unwrap();
    }
    signed(&log, 300);
    drop(log);
    assert_eq!(marks(folder.path()), (0..300).collect::<Vec<_>>());
    checked(folder.path());
}

/// Notices a file that is written again after a checkpoint that may need it, and a checkpoint of files that may not be there.
struct Immutable {
    disk: ShelfFolder,
    put: Vec<String>,
    published: std::collections::HashSet<String>,
}

impl Shelf for Immutable {
    fn put(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        if self.published.contains(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.put.push(path.to_owned());
        self.disk.put(path, bytes)
    }
    fn settle(&mut self) -> io::Result<()> {
        self.published.extend(self.put.drain(..));
        self.disk.settle()
    }
    fn publish(&mut self, checkpoint: &[u8]) -> io::Result<()> {
        if !self.put.is_empty() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.disk.publish(checkpoint)
    }
    fn tidy(&mut self, folders: &[String], size: u64) -> io::Result<()> {
        self.disk.tidy(folders, size)
    }
}

/// A crash tears what is being written: so it must be nothing that the last checkpoint needs.
#[test]
fn what_was_published_is_never_written_again_and_was_there_before() {
    assert_eq!(published_in_order(), None);
}

fn published_in_order() -> Option<io::ErrorKind> {
    let folder = tempfile::tempdir().unwrap();
    let shelf = |disk| Immutable { disk, put: Vec::new(), published: std::collections::HashSet::new() };
    let (log, _) = AuditLog::open_on(folder.path(), key(), SMALL, &mut |_| {}, |wal| wal, shelf).unwrap();
    let mut leaves = 0;
    while leaves < 1_100 {
        let committed = log.append_for(ACME, &record(0), NOW).and_then(Ticket::wait);
        let Ok(committed) = committed else { return log.ended_by() };
        leaves = committed.index + 1;
        if leaves % 50 == 0 {
            signed(&log, leaves);
        }
    }
    let ended = log.ended_by();
    drop(log);
    assert!(checked(folder.path()).epochs > 10);
    ended
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_a_tile_that_is_written_again() {
    crate::fault::seed(crate::fault::Fault::PublishedRewritten);
    assert_eq!(published_in_order(), Some(io::ErrorKind::AlreadyExists));
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_a_checkpoint_of_what_may_not_be_there() {
    crate::fault::seed(crate::fault::Fault::SignedUnsettled);
    assert_eq!(published_in_order(), Some(io::ErrorKind::NotConnected));
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_a_record_that_is_acknowledged_before_it_is_synced() {
    crate::fault::seed(crate::fault::Fault::AcknowledgedUnsynced);
    let folder = tempfile::tempdir().unwrap();
    let (_open, gate) = mpsc::channel();
    let gated = |disk| Gated { disk, gate };
    let (log, _) = AuditLog::open_on(folder.path(), key(), SLOW, &mut |_| {}, gated, |shelf| shelf).unwrap();
    // The gate is shut: what `a_slow_disk_fills_the_queue_and_no_more` asserts would fail.
    assert!(log.append_for(ACME, &record(0), NOW).unwrap().wait().is_ok());
}
