use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use super::*;
use crate::chain::verify;
use crate::error::Why;
use crate::hex::{Hex, Word};
use crate::record::{Ended, Endpoint, Finish, KeyId, Outcome, Proof};

pub(crate) const NOW: SystemTime = UNIX_EPOCH;

/// A record that a test tells from others by `mark`.
pub(crate) fn record(mark: u32) -> Record {
    Record::Ended(Ended {
        request: Hex([7; 16]),
        sequence: 0,
        tenant: Hex([9; 16]),
        tag: Word(u64::MAX),
        key: KeyId::new(b"3kTMd0ZyQ9aB").unwrap(),
        endpoint: Endpoint::Chat,
        status: 200,
        outcome: Outcome::Completed { finish: Finish::Stop },
        edge_tokens: mark,
        window: 2_048,
        proof: Proof::Accepted {
            model: Hex([1; 32]),
            epoch: Word(3),
            engine_tokens: mark,
            cached: 0,
            written: mark,
            attended: mark,
            pages: 1,
            generations: Word(5),
        },
        completion: 4,
        first_token_ms: 30,
        total_ms: 70,
    })
}

pub(crate) const SMALL: Bounds = Bounds { queue_max: QUEUE_MAX, segment_bytes_max: 4_000 };

pub(crate) fn small(folder: &Path) -> Result<(AuditLog, Recovered), AuditError> {
    AuditLog::open_on(folder, SMALL, &mut |_| {}, |disk| disk)
}

/// The marks of a log's records, by number, read as a stranger would.
fn marks(folder: &Path) -> BTreeMap<u64, u64> {
    let mut marks = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            for line in fs::read_to_string(path).unwrap().lines() {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                let mark = line["event"]["ended"]["edge_tokens"].as_u64().unwrap();
                assert_eq!(marks.insert(line["seq"].as_u64().unwrap(), mark), None);
            }
        }
    }
    marks
}

#[test]
fn what_is_acknowledged_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (log, recovered) = small(folder.path()).unwrap();
    assert_eq!(recovered, Recovered { records: 0, cut_bytes: 0 });
    for mark in 1..=20 {
        let committed = log.append(&record(mark), NOW).unwrap().wait().unwrap();
        assert_eq!(committed.seq, u64::from(mark));
    }
    assert_eq!(log.ended_by(), None);
    drop(log);
    let verified = verify(folder.path(), &mut |_| {}).unwrap();
    assert_eq!((verified.records, verified.torn_bytes), (20, 0));
    assert!(verified.segments > 2, "it rotates");
    for file in fs::read_dir(folder.path()).unwrap() {
        assert!(file.unwrap().metadata().unwrap().len() <= 4_000);
    }
    let (log, recovered) = small(folder.path()).unwrap();
    assert_eq!(recovered.records, 20);
    assert_eq!(log.append(&record(21), NOW).unwrap().wait().unwrap().seq, 21);
    drop(log);
    assert_eq!(marks(folder.path()), (1..=21).map(|seq| (seq, seq)).collect());
}

#[test]
fn one_process_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    assert!(matches!(small(folder.path()), Err(AuditError::Locked)));
    assert!(verify(folder.path(), &mut |_| {}).is_ok(), "reading needs no lock");
    drop(log);
    assert!(small(folder.path()).is_ok());
}

#[test]
fn it_can_be_verified_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for mark in 0..400 {
                log.append(&record(mark), NOW).unwrap().wait().unwrap();
            }
        });
        let mut last = 0;
        while !writer.is_finished() {
            let verified = verify(folder.path(), &mut |_| {}).unwrap();
            assert!(verified.records >= last);
            last = verified.records;
        }
    });
}

#[test]
fn dropping_it_writes_what_is_queued() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    let tickets: Vec<_> = (0..1_000).map(|mark| log.append(&record(mark), NOW).unwrap()).collect();
    drop(log);
    for (seq, ticket) in (1..).zip(tickets) {
        assert_eq!(ticket.wait().unwrap(), Committed { seq });
    }
    assert_eq!(marks(folder.path()).len(), 1_000);
}

/// Fails at a chosen call, as a real disk does: a write that fails has written half.
struct Faulty {
    disk: Folder,
    calls_left: u32,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Begin,
    FullDisk,
    Sync,
    Mark,
}

impl Faulty {
    fn strikes(&mut self, fault: Fault) -> bool {
        if self.fault != fault {
            return false;
        }
        self.calls_left = self.calls_left.saturating_sub(1);
        self.calls_left == 0
    }
}

impl Disk for Faulty {
    fn begin(&mut self, first: u64) -> io::Result<()> {
        if self.strikes(Fault::Begin) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            self.disk.begin(first)
        }
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.strikes(Fault::FullDisk) {
            self.disk.append(&lines[..lines.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.disk.append(lines)
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.strikes(Fault::Sync) { Err(io::Error::from_raw_os_error(5)) } else { self.disk.sync() }
    }

    fn mark(&mut self, last: Link) -> io::Result<()> {
        if self.strikes(Fault::Mark) { Err(io::Error::from_raw_os_error(5)) } else { self.disk.mark(last) }
    }
}

#[test]
fn a_failed_write_ends_the_log_and_loses_nothing_that_was_acknowledged() {
    for fault in [Fault::Begin, Fault::FullDisk, Fault::Sync, Fault::Mark] {
        for calls in 1..=3 {
            let folder = tempfile::tempdir().unwrap();
            let faulty = |disk| Faulty { disk, calls_left: calls, fault };
            let (log, _) = AuditLog::open_on(folder.path(), SMALL, &mut |_| {}, faulty).unwrap();
            let mut acknowledged = 0;
            let ended = (1..=30).find_map(|mark| {
                let end = log.append(&record(mark), NOW).and_then(Ticket::wait);
                if end.is_ok() {
                    acknowledged = u64::from(mark);
                }
                end.err()
            });
            assert!(matches!(ended, Some(AuditError::Ended)), "{fault:?} {calls}");
            for _ in 0..10 {
                let refused = log.append(&record(0), NOW).and_then(Ticket::wait);
                assert!(
                    matches!(refused, Err(AuditError::Ended)),
                    "{fault:?} {calls}: nothing after a failure"
                );
            }
            assert!(log.ended_by().is_some());
            drop(log);
            let (log, recovered) = small(folder.path()).unwrap();
            assert!(recovered.records >= acknowledged, "{fault:?} {calls}");
            assert_eq!(recovered.cut_bytes > 0, fault == Fault::FullDisk, "{fault:?} {calls}");
            drop(log);
            let marks = marks(folder.path());
            assert!((1..=acknowledged).all(|seq| marks[&seq] == seq), "{fault:?} {calls}");
        }
    }
}

/// Waits at each sync until the test lets it go on.
struct Gated {
    disk: Folder,
    gate: mpsc::Receiver<()>,
}

impl Disk for Gated {
    fn begin(&mut self, first: u64) -> io::Result<()> {
        self.disk.begin(first)
    }
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.disk.append(lines)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.gate.recv().unwrap();
        self.disk.sync()
    }
    fn mark(&mut self, last: Link) -> io::Result<()> {
        self.disk.mark(last)
    }
}

#[test]
fn a_slow_disk_fills_the_queue_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (open, gate) = mpsc::channel();
    let bounds = Bounds { queue_max: 600, ..SMALL };
    let (log, _) =
        AuditLog::open_on(folder.path(), bounds, &mut |_| {}, |disk| Gated { disk, gate }).unwrap();
    let mut tickets = Vec::new();
    // The writer holds a batch, so that the queue takes up to that many more.
    let full = loop {
        match log.append(&record(0), NOW) {
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
    let batches = 2 + tickets.len() / BATCH_MAX + 600;
    for _ in 0..batches {
        open.send(()).unwrap();
    }
    let count = tickets.len();
    for (seq, ticket) in (1..).zip(tickets) {
        assert_eq!(ticket.wait().unwrap(), Committed { seq });
    }
    drop(log);
    assert_eq!(marks(folder.path()).len(), count);
}

/// Runs itself as a process that appends from four threads and prints what was acknowledged; kills it at some
/// point; reads on.
#[test]
fn a_kill_at_any_point_loses_nothing_that_was_acknowledged() {
    const FOLDER: &str = "BULKHEAD_TEST_KILLED_LOG";
    const ROUNDS: u32 = 30;
    if let Some(folder) = std::env::var_os(FOLDER) {
        return append_until_killed(Path::new(&folder));
    }
    let mut folder = tempfile::tempdir().unwrap();
    let itself = std::env::current_exe().unwrap();
    let mut acknowledged = BTreeMap::new();
    let (mut total, mut cut) = (0, 0);
    for round in 0..ROUNDS {
        // Mostly a log that was killed before; now and then a fresh one, or each round would take longer to
        // read.
        if round % 5 == 0 {
            folder = tempfile::tempdir().unwrap();
            total += std::mem::take(&mut acknowledged).len();
        }
        let mut child = Command::new(&itself)
            .args([
                "--exact",
                "log::tests::a_kill_at_any_point_loses_nothing_that_was_acknowledged",
                "--nocapture",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap());
        let mut lines = String::new();
        // Another moment each time: after so many acknowledged records, whatever is under way then.
        for _ in 0..=(round * 7 % 50) {
            assert!(told.read_line(&mut lines).unwrap() > 0, "the child ended by itself");
        }
        child.kill().unwrap();
        told.read_to_string(&mut lines).unwrap();
        child.wait().unwrap();
        // The last line may be torn, as the pipe was.
        for line in
            lines.split_inclusive('\n').filter_map(|line| line.strip_prefix("ok ")?.strip_suffix('\n'))
        {
            let (seq, mark) = line.split_once(' ').unwrap();
            let earlier = acknowledged.insert(seq.parse::<u64>().unwrap(), mark.parse::<u64>().unwrap());
            assert_eq!(earlier, None, "a number is given once");
        }
        let (log, recovered) = small(folder.path()).unwrap();
        drop(log);
        cut += recovered.cut_bytes;
        let found = marks(folder.path());
        assert_eq!(u64::try_from(found.len()).unwrap(), recovered.records);
        for (seq, mark) in &acknowledged {
            assert_eq!(found.get(seq), Some(mark), "round {round}");
        }
    }
    total += acknowledged.len();
    assert!(total > 500, "{total} acknowledged, {cut} bytes cut");
}

fn append_until_killed(folder: &Path) {
    let (log, recovered) = small(folder).unwrap();
    let base = u32::try_from(recovered.records).unwrap();
    thread::scope(|scope| {
        for thread in 0..4_u32 {
            let log = &log;
            scope.spawn(move || {
                for count in 0.. {
                    let mark = (base + count) * 4 + thread;
                    let committed = log.append(&record(mark), NOW).unwrap().wait().unwrap();
                    let told = format!("ok {} {mark}\n", committed.seq);
                    // A closed pipe: the test has gone.
                    if io::stdout()
                        .lock()
                        .write_all(told.as_bytes())
                        .and_then(|()| io::stdout().flush())
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
}

#[test]
fn a_torn_last_line_is_cut_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = AuditLog::open(folder.path()).unwrap();
    for mark in 0..3 {
        log.append(&record(mark), NOW).unwrap().wait().unwrap();
    }
    drop(log);
    let path = folder.path().join("segment-00000000000000000001.jsonl");
    let whole = fs::read(&path).unwrap();
    let mut next = Vec::new();
    let last = verify(folder.path(), &mut |_| {}).unwrap();
    line::write(&mut next, Link { seq: 3, hash: last.hash }, 0, &Event::new(&record(9)).unwrap());
    // Each is an open with its syncs: every 17th place, and the last before the line's end.
    for torn in (1..next.len()).step_by(17).chain([next.len() - 1]) {
        fs::write(&path, [&whole[..], &next[..torn]].concat()).unwrap();
        let (log, recovered) = AuditLog::open(folder.path()).unwrap();
        assert_eq!(recovered, Recovered { records: 3, cut_bytes: torn as u64 });
        drop(log);
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
    // A power cut may leave the file longer than what was written: zeros at its end.
    fs::write(&path, [&whole[..], &next[..100], &vec![0; 100_000]].concat()).unwrap();
    assert_eq!(AuditLog::open(folder.path()).unwrap().1, Recovered { records: 3, cut_bytes: 100_100 });
    // Whole, and synced, but killed before the head was written.
    fs::write(&path, [&whole[..], &next[..]].concat()).unwrap();
    assert_eq!(AuditLog::open(folder.path()).unwrap().1, Recovered { records: 4, cut_bytes: 0 });
    // From now on it is acknowledged: it may not go again.
    fs::write(&path, &whole).unwrap();
    let error = AuditLog::open(folder.path()).err().unwrap();
    let AuditError::Tampered(tampered) = error else { panic!("{error}") };
    assert_eq!(tampered.why, Why::Shorter { acknowledged: 4, holds: 3 });
}
