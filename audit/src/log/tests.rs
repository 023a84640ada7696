mod faults;
mod kill;
mod tampered;

pub(crate) use tampered::copy_all;

use std::fs;

use super::*;
use crate::hex::Word;
use crate::outcome::{Finish, Outcome, Reason};
use crate::reader::read_leaves;
use crate::record::{Boot, EngineSeen, PolicySource};
use crate::request::{Admitted, Ended, Endpoint, KeyId, Proof, Refused};
use crate::verify::{Trust, Verified, verify};

pub(crate) const NOW: SystemTime = UNIX_EPOCH;
pub(crate) const ACME: Hex<16> = Hex([9; 16]);

/// A key that is the same in each process of a test.
pub(crate) fn key() -> LogKey {
    LogKey::from_seed("test.example/log", zeroize::Zeroizing::new([7; 32])).unwrap()
}

pub(crate) fn trust() -> Trust {
    Trust::in_log(key().public())
}

/// A record of a tenant that a test tells from others by `mark`.
pub(crate) fn record(mark: u32) -> Record {
    Record::Refused(Refused {
        request: Hex([7; 16]),
        key: KeyId::new(b"3kTMd0ZyQ9aB").unwrap(),
        endpoint: Endpoint::Chat,
        status: 429,
        outcome: Outcome::Rejected { reason: Reason::RateLimit, bound: None },
        total_ms: mark,
    })
}

pub(crate) fn boot() -> Record {
    Record::Boot(Boot { version: [0, 1, 0], policy: Hex([3; 32]), source: PolicySource::Shipped })
}

pub(crate) fn engine() -> Record {
    Record::EngineSeen(EngineSeen {
        model: Hex([1; 32]),
        build: [0, 1, 0],
        epoch: Word(3),
        boot_key: Hex([2; 32]),
        window: 2_048,
        capacity: 4_096,
        page_tokens: 16,
    })
}

/// One request that was let in, and its end.
pub(crate) fn request(number: u32) -> [Record; 2] {
    let mut name = [0; 16];
    name[..4].copy_from_slice(&number.to_be_bytes());
    let admitted = Admitted {
        request: Hex(name),
        sequence: 0,
        tag: Word(77),
        key: KeyId::new(b"3kTMd0ZyQ9aB").unwrap(),
        endpoint: Endpoint::Chat,
        epoch: Word(3),
        policy: 0,
        edge_tokens: 37,
        max_tokens: 16,
        window: 2_048,
    };
    let ended = Ended {
        request: Hex(name),
        sequence: 0,
        status: 200,
        outcome: Outcome::Completed { finish: Finish::Stop },
        proof: Proof::Accepted {
            engine_tokens: 37,
            cached: 16,
            written: 21,
            attended: 37,
            pages: 3,
            generations: Word(5),
        },
        completion: 9,
        first_token_ms: 30,
        total_ms: 70,
    };
    [Record::Admitted(admitted), Record::Ended(ended)]
}

/// Epochs of a few milliseconds, and segments of a few batches.
pub(crate) const SMALL: Bounds =
    Bounds { queue_max: QUEUE_MAX, pace: Pace { segment_bytes_max: 4_000, epoch: Duration::from_millis(5) } };
/// Nothing is sealed before the end.
const SLOW: Bounds = Bounds {
    queue_max: QUEUE_MAX,
    pace: Pace { segment_bytes_max: 4_000, epoch: Duration::from_secs(3_600) },
};

pub(crate) fn small(folder: &Path) -> Result<(AuditLog, Recovered), AuditError> {
    AuditLog::open_on(folder, key(), SMALL, &mut |_| {}, |wal| wal, |shelf| shelf)
}

fn slow(folder: &Path) -> Result<(AuditLog, Recovered), AuditError> {
    AuditLog::open_on(folder, key(), SLOW, &mut |_| {}, |wal| wal, |shelf| shelf)
}

/// The marks of a log's refusals, in their order.
fn marks(folder: &Path) -> Vec<u32> {
    let mut marks = Vec::new();
    read_leaves(folder, 0, &mut |_, leaf| {
        if let Record::Refused(refused) = leaf.event {
            marks.push(refused.total_ms);
        }
    })
    .unwrap();
    marks
}

fn checked(folder: &Path) -> Verified {
    verify(folder, &trust(), &mut |_| {}).unwrap()
}

/// Waits until so many leaves are signed, or the log has ended.
fn signed(log: &AuditLog, leaves: u64) {
    while log.signed().size < leaves && log.ended_by().is_none() {
        pause(Duration::from_millis(1));
    }
}

#[expect(clippy::disallowed_methods, reason = "threads that tell nobody when they are done are waited for")]
fn pause(time: Duration) {
    thread::sleep(time);
}

#[test]
fn what_is_acknowledged_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (log, recovered) = small(folder.path()).unwrap();
    assert_eq!(recovered, Recovered { leaves: 0, unsigned: 0, cut_bytes: 0 });
    let mut last = None;
    for mark in 1..=600 {
        let committed = log.append_for(ACME, &record(mark), NOW).unwrap().wait().unwrap();
        assert_eq!(committed.tenant_seq, u64::from(mark));
        assert!(last.is_none_or(|last| last < committed.index));
        last = Some(committed.index);
    }
    assert_eq!(log.ended_by(), None);
    drop(log);
    let verified = checked(folder.path());
    assert_eq!((verified.tenants, verified.open), (1, 0));
    assert_eq!(verified.leaves, 600 + verified.epochs);
    assert!(verified.epochs > 1, "it seals meanwhile: {verified:?}");
    let (log, recovered) = small(folder.path()).unwrap();
    assert_eq!(recovered, Recovered { leaves: verified.leaves, unsigned: 0, cut_bytes: 0 });
    assert_eq!(log.append_for(ACME, &record(601), NOW).unwrap().wait().unwrap().tenant_seq, 601);
    drop(log);
    assert_eq!(marks(folder.path()), (1..=601).collect::<Vec<_>>());
    assert_eq!(checked(folder.path()).leaves, verified.leaves + 2);
}

/// The tree, its tiles and its proofs, as the library that C2SP's authors wrote reads them.
#[test]
fn a_library_of_others_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    let mut committed = Vec::new();
    for mark in 0..700 {
        committed.push(log.append_for(ACME, &record(mark), NOW).unwrap());
    }
    let committed: Vec<_> = committed.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    drop(log);
    struct Tiles<'a>(&'a Path);
    impl tlog_tiles::TileReader for Tiles<'_> {
        fn height(&self) -> u8 {
            8
        }
        fn read_tiles(&self, tiles: &[tlog_tiles::Tile]) -> Result<Vec<Vec<u8>>, tlog_tiles::Error> {
            let read = |tile: &tlog_tiles::Tile| {
                // Its paths have the height, which C2SP leaves out.
                fs::read(self.0.join(tile.path().replacen("tile/8/", "tile/", 1))).unwrap()
            };
            Ok(tiles.iter().map(read).collect())
        }
        fn save_tiles(&self, _: &[tlog_tiles::Tile], _: &[Vec<u8>]) {}
    }
    let verified = checked(folder.path());
    let root = tlog_tiles::Hash(verified.root.0);
    let tiles = Tiles(folder.path());
    let reader = tlog_tiles::TileHashReader::new(verified.leaves, root, &tiles);
    for Committed { index, leaf, .. } in committed {
        let proof = tlog_tiles::prove_record(verified.leaves, index, &reader).unwrap();
        tlog_tiles::check_record(&proof, verified.leaves, root, index, tlog_tiles::Hash(leaf.0)).unwrap();
    }
}

#[test]
fn one_process_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    assert!(matches!(small(folder.path()), Err(AuditError::Locked)));
    assert!(verify(folder.path(), &trust(), &mut |_| {}).is_ok(), "reading needs no lock");
    drop(log);
    assert!(small(folder.path()).is_ok());
}

#[test]
fn it_can_be_read_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for mark in 0..800 {
                log.append_for(ACME, &record(mark), NOW).unwrap().wait().unwrap();
            }
        });
        let (mut last, mut most) = (0, 0);
        while !writer.is_finished() {
            let verified = checked(folder.path());
            assert!(verified.leaves >= last);
            last = verified.leaves;
            let read = marks(folder.path());
            assert!(read.len() >= most && read.iter().copied().eq(0..read.len() as u32));
            most = read.len();
        }
        assert!(last > 0, "it signs while it is written");
    });
}

#[test]
fn dropping_it_writes_what_is_queued_and_signs_it() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = slow(folder.path()).unwrap();
    let tickets: Vec<_> = (0..1_000).map(|mark| log.append_for(ACME, &record(mark), NOW).unwrap()).collect();
    drop(log);
    for (index, ticket) in (0..).zip(tickets) {
        let committed = ticket.wait().unwrap();
        assert_eq!((committed.index, committed.tenant_seq), (index, index + 1));
    }
    assert_eq!(marks(folder.path()).len(), 1_000);
    assert_eq!(checked(folder.path()).leaves, 1_001, "the seal after them");
}

#[test]
fn each_tenant_has_its_own_numbers_and_others_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    let mut last = std::collections::HashMap::new();
    for mark in 0..300 {
        let tenant = Hex([u8::try_from(mark % 7).unwrap(); 16]);
        let committed = log.append_for(tenant, &record(mark), NOW).unwrap().wait().unwrap();
        let before = last.insert(tenant.0, committed.tenant_seq).unwrap_or(0);
        assert_eq!(committed.tenant_seq, before + 1);
    }
    let booted = log.append(&boot(), NOW).unwrap().wait().unwrap();
    assert_eq!(booted.tenant_seq, 0);
    assert!(matches!(log.append(&record(0), NOW), Err(AuditError::Unwritable)), "of nobody");
    assert!(matches!(log.append_for(ACME, &boot(), NOW), Err(AuditError::Unwritable)), "of somebody");
    let seal = Record::Seal(crate::record::Seal { epoch: 1, tenants: 0, heads: Hex([0; 32]) });
    assert!(matches!(log.append(&seal, NOW), Err(AuditError::Unwritable)), "the log's own");
    drop(log);
    assert_eq!(checked(folder.path()).tenants, 7);
}

#[test]
fn an_idle_log_is_sealed_and_signed_once() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    log.append_for(ACME, &record(1), NOW).unwrap().wait().unwrap();
    signed(&log, 2);
    pause(SMALL.pace.epoch * 5);
    assert_eq!(log.signed().size, 2, "nothing happens where nothing happened");
    assert_eq!(checked(folder.path()).epochs, 1);
}

/// What takes up where a log was left: the snapshot where it is true, the leaves where it is not.
#[test]
fn heads_are_taken_from_a_snapshot_only_where_a_seal_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    for mark in 0..600 {
        let tenant = Hex([u8::try_from(mark % 3).unwrap(); 16]);
        log.append_for(tenant, &record(mark), NOW).unwrap().wait().unwrap();
    }
    drop(log);
    let (heads, bytes) = (folder.path().join("heads"), fs::read(folder.path().join("heads")).unwrap());
    let reopen = || {
        let mut from = None;
        let mut progress = |progress: Progress| from = from.or(Some(progress.from));
        let opened = AuditLog::open_on(folder.path(), key(), SMALL, &mut progress, |wal| wal, |shelf| shelf);
        let (log, recovered) = opened.unwrap();
        let next = log.append_for(Hex([0; 16]), &record(1), NOW).unwrap().wait().unwrap();
        drop(log);
        (from, recovered.leaves, next.tenant_seq)
    };
    let (from, leaves, seq) = reopen();
    assert!(from.is_none_or(|from| from == leaves), "nothing was read again: {from:?}");
    assert_eq!(seq, 201);
    for (round, wrong) in
        [vec![], bytes[1..].to_vec(), vec![0xff; bytes.len()], bytes.clone()].iter().enumerate()
    {
        let mut wrong = wrong.clone();
        if round == 3 {
            // A head's number, one more.
            let at = wrong.len() - 33;
            wrong[at] ^= 1;
        }
        fs::write(&heads, wrong).unwrap();
        let (from, _, seq) = reopen();
        assert_eq!((from, seq), (Some(0), 202 + round as u64), "{round}: the log was read");
    }
    fs::remove_file(&heads).unwrap();
    assert_eq!(reopen().0, Some(0));
    checked(folder.path());
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_a_snapshot_that_no_seal_says() {
    crate::fault::seed(crate::fault::Fault::SnapshotBelieved);
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    log.append_for(ACME, &record(1), NOW).unwrap().wait().unwrap();
    drop(log);
    let heads = folder.path().join("heads");
    let mut bytes = fs::read(&heads).unwrap();
    let at = bytes.len() - 33;
    bytes[at] ^= 2;
    fs::write(&heads, bytes).unwrap();
    let (log, _) = small(folder.path()).unwrap();
    assert_eq!(log.append_for(ACME, &record(2), NOW).unwrap().wait().unwrap().tenant_seq, 4, "2 is left out");
}
