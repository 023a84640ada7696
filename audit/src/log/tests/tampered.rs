//! Logs that are not what was written, and are not opened.

use super::*;
use crate::error::{Broken, Place, Why};

/// A log of some leaves in tiles, and ten after them in a segment, as a killed process leaves it.
fn killed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = slow(folder.path()).unwrap();
    for mark in 0..300 {
        log.append_for(ACME, &record(mark), NOW).unwrap().wait().unwrap();
    }
    drop(log);
    let (log, _) = slow(folder.path()).unwrap();
    for mark in 300..310 {
        log.append_for(ACME, &record(mark), NOW).unwrap().wait().unwrap();
    }
    let copy = tempfile::tempdir().unwrap();
    copy_all(folder.path(), copy.path());
    copy
}

pub(crate) fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn refused(folder: &Path) -> Broken {
    match slow(folder).err() {
        Some(AuditError::Broken(broken)) => broken,
        other => panic!("{other:?}"),
    }
}

/// The one segment of leaves that are not in tiles.
fn segment(folder: &Path) -> std::path::PathBuf {
    let segments = crate::wal::list(folder).unwrap();
    segments.last().unwrap().1.clone()
}

#[test]
fn what_was_not_signed_is_taken_up() {
    let folder = killed();
    let (log, recovered) = slow(folder.path()).unwrap();
    assert_eq!(recovered, Recovered { leaves: 311, unsigned: 10, cut_bytes: 0 });
    drop(log);
    assert_eq!(marks(folder.path()), (0..310).collect::<Vec<_>>());
    assert_eq!(checked(folder.path()).leaves, 312);
}

#[test]
fn a_torn_last_batch_is_cut_and_reported() {
    let folder = killed();
    let path = segment(folder.path());
    let whole = fs::read(&path).unwrap();
    let mut batch = crate::wal::Batch::default();
    batch.begin(311);
    batch.push(&[1; 90]);
    let next = batch.seal().to_vec();
    for torn in (1..next.len()).step_by(17).chain([next.len() - 1]) {
        let folder = killed();
        let path = segment(folder.path());
        fs::write(&path, [&whole[..], &next[..torn]].concat()).unwrap();
        let (log, recovered) = slow(folder.path()).unwrap();
        assert_eq!(recovered, Recovered { leaves: 311, unsigned: 10, cut_bytes: torn as u64 });
        drop(log);
    }
    // A power cut may leave the file longer than what was written: zeros at its end.
    fs::write(&path, [&whole[..], &next[..40], &vec![0; 100_000]].concat()).unwrap();
    assert_eq!(slow(folder.path()).unwrap().1.cut_bytes, 100_040);
}

/// A batch was begun only after the one before it was safe. So damage before another batch is damage of what was safe.
#[test]
fn damage_within_a_segment_is_not_taken_for_a_torn_end() {
    let folder = killed();
    let path = segment(folder.path());
    let whole = fs::read(&path).unwrap();
    let batches = whole.windows(8).filter(|window| window == b"bulkwal\x01").count();
    assert_eq!(batches, 10);
    let first = whole.windows(8).skip(1).position(|window| window == b"bulkwal\x01").unwrap() + 1;
    for at in 0..first {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, damaged).unwrap();
        let broken = refused(folder.path());
        assert!(matches!(broken.place, Place::Wal { segment: 301, .. }), "{at}: {broken}");
    }
    // A batch that is missing in the middle.
    let second =
        first + whole[first..].windows(8).skip(1).position(|window| window == b"bulkwal\x01").unwrap() + 1;
    fs::write(&path, [&whole[..first], &whole[second..]].concat()).unwrap();
    assert_eq!(refused(folder.path()).why, Why::Gap { expected: 302 });
}

#[test]
fn a_segment_that_is_missing_is_noticed() {
    let folder = killed();
    let path = segment(folder.path());
    fs::rename(&path, path.with_file_name(crate::wal::segment_name(302))).unwrap();
    assert!(matches!(refused(folder.path()).why, Why::Gap { .. }));
}

#[test]
fn a_log_that_is_shorter_than_was_signed_is_not_opened() {
    let folder = killed();
    fs::remove_dir_all(folder.path().join("tile/0")).unwrap();
    assert_eq!(refused(folder.path()).why, Why::Missing);

    // All of an earlier state but the checkpoint, which is the later one's.
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = slow(folder.path()).unwrap();
    log.append_for(ACME, &record(0), NOW).unwrap().wait().unwrap();
    drop(log);
    let earlier = tempfile::tempdir().unwrap();
    copy_all(folder.path(), earlier.path());
    let (log, _) = slow(folder.path()).unwrap();
    log.append_for(ACME, &record(1), NOW).unwrap().wait().unwrap();
    drop(log);
    fs::copy(folder.path().join("checkpoint"), earlier.path().join("checkpoint")).unwrap();
    assert_eq!(refused(earlier.path()).why, Why::Missing);
}

#[test]
fn a_checkpoint_that_is_not_the_logs_is_refused() {
    let folder = killed();
    let path = folder.path().join("checkpoint");
    let good = fs::read_to_string(&path).unwrap();
    let other = LogKey::generate("test.example/log").unwrap();
    let head = TreeHead { size: 0, root: tlog_tiles::EMPTY_HASH };
    let forged = crate::checkpoint::sign(&other, head).unwrap();
    let stranger = LogKey::from_seed("test.example/another", zeroize::Zeroizing::new([7; 32])).unwrap();
    let renamed = crate::checkpoint::sign(&stranger, head).unwrap();
    for wrong in [
        &b""[..],
        b"anything",
        good.replacen("301", "300", 1).as_bytes(),
        good.replacen("test.example/log", "test.example/lag", 1).as_bytes(),
        &forged,
        &renamed,
        &vec![b'a'; crate::checkpoint::CHECKPOINT_BYTES_MAX + 1],
    ] {
        fs::write(&path, wrong).unwrap();
        let broken = refused(folder.path());
        assert_eq!(
            broken.place,
            Place::Checkpoint,
            "{}",
            String::from_utf8_lossy(&wrong[..wrong.len().min(80)])
        );
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(refused(folder.path()), Broken { place: Place::Checkpoint, why: Why::Missing });
    fs::write(&path, good).unwrap();
    slow(folder.path()).unwrap();
}

#[test]
fn a_folder_of_before_the_first_release_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("segment-00000000000000000001.jsonl"), "{}\n").unwrap();
    assert_eq!(refused(folder.path()).why, Why::Unreleased);
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_damage_that_is_taken_for_a_torn_end() {
    crate::fault::seed(crate::fault::Fault::TornBelieved);
    let folder = killed();
    let path = segment(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, bytes).unwrap();
    // Ten leaves that were acknowledged are gone, and nothing is said.
    assert_eq!(slow(folder.path()).unwrap().1.leaves, 301);
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_a_log_that_is_opened_by_anybodys_checkpoint() {
    crate::fault::seed(crate::fault::Fault::OpenedUnsigned);
    let folder = killed();
    let path = folder.path().join("checkpoint");
    let changed =
        fs::read_to_string(&path).unwrap().replacen("— test.example/log ", "— test.example/lag ", 1);
    fs::write(&path, changed).unwrap();
    assert!(slow(folder.path()).is_ok());
}
