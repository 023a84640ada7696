//! The mutation corpus: whatever is changed of a log, the verifier says so.

mod forged;

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::error::Broken;
use crate::log::AuditLog;
use crate::log::tests::{ACME, NOW, boot, copy_all, engine, key, record, request, small, trust};
use crate::record::Record;

/// Fills a log with a boot, an engine, and requests of three tenants.
fn fill(log: &AuditLog, requests: u32, status_of_last: u16) {
    log.append(&boot(), NOW).unwrap().wait().unwrap();
    log.append(&engine(), NOW).unwrap().wait().unwrap();
    for number in 0..requests {
        let tenant = Hex([u8::try_from(number % 3).unwrap(); 16]);
        for record in request(number) {
            log.append_for(tenant, &record, NOW).unwrap().wait().unwrap();
        }
    }
    let Record::Refused(mut refused) = record(1) else { panic!("a refusal") };
    refused.status = status_of_last;
    log.append_for(ACME, &Record::Refused(refused), NOW).unwrap().wait().unwrap();
}

fn good() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    fill(&log, 400, 429);
    drop(log);
    verify(folder.path(), &trust(), &mut |_| {}).unwrap();
    folder
}

fn broken(folder: &Path) -> Option<Broken> {
    match verify(folder, &trust(), &mut |_| {}) {
        Ok(_) => None,
        Err(AuditError::Broken(broken)) => Some(broken),
        Err(error) => panic!("{error}"),
    }
}

/// All files that are part of what was signed.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "wal" {
            files.extend(self::files(&path));
        } else if path.is_file() && !["lock", "heads"].contains(&name.as_str()) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// What the verifier does not read: partial tiles of sizes before.
fn is_old_partial(folder: &Path, file: &Path, size: u64) -> bool {
    let path = file.strip_prefix(folder).unwrap().to_str().unwrap();
    let Some((tile, partial)) = path.split_once(".p/") else { return false };
    let level = if tile.starts_with("tile/1/") { 1 } else { 0 };
    partial.parse::<usize>().unwrap() != crate::tree::width(size, level)
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let folder = good();
    let size = verify(folder.path(), &trust(), &mut |_| {}).unwrap().leaves;
    let mut flipped = 0;
    for file in files(folder.path()) {
        if is_old_partial(folder.path(), &file, size) {
            continue;
        }
        let bytes = fs::read(&file).unwrap();
        // Each bit of the checkpoint, and of the others one in so many that it takes seconds.
        let step = if file.ends_with("checkpoint") { 1 } else { 1_499 };
        for bit in (0..bytes.len() * 8).step_by(step) {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, changed).unwrap();
            assert!(broken(folder.path()).is_some(), "bit {bit} of {}", file.display());
            flipped += 1;
        }
        fs::write(&file, bytes).unwrap();
    }
    assert!(flipped > 1_000, "{flipped}");
    assert_eq!(broken(folder.path()), None, "and as it was it is good");
}

#[test]
fn a_file_that_is_missing_cut_or_anothers_is_found() {
    let folder = good();
    let size = verify(folder.path(), &trust(), &mut |_| {}).unwrap().leaves;
    let files: Vec<_> =
        files(folder.path()).into_iter().filter(|file| !is_old_partial(folder.path(), file, size)).collect();
    assert!(files.len() >= 9, "{files:?}");
    for file in &files {
        let bytes = fs::read(file).unwrap();
        fs::remove_file(file).unwrap();
        let found = broken(folder.path()).unwrap();
        assert_eq!(found.why, Why::Missing, "{}: {found}", file.display());
        for length in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            fs::write(file, &bytes[..length]).unwrap();
            assert!(broken(folder.path()).is_some(), "{length} bytes of {}", file.display());
        }
        for other in &files {
            if other != file {
                fs::write(file, fs::read(other).unwrap()).unwrap();
                assert!(broken(folder.path()).is_some(), "{} as {}", other.display(), file.display());
            }
        }
        fs::write(file, bytes).unwrap();
    }
    assert_eq!(broken(folder.path()), None);
}

/// Entries changed, exchanged, left out and doubled, the bundle being in its form all the while.
#[test]
fn leaves_that_are_moved_are_found() {
    let folder = good();
    let path = folder.path().join("tile/entries/001");
    let bytes = fs::read(&path).unwrap();
    let entries = crate::layout::read_entries(folder.path(), 1, 256).unwrap();
    let write = |entries: &[Vec<u8>]| {
        let mut bundle = Vec::new();
        entries.iter().for_each(|entry| crate::layout::push_entry(&mut bundle, entry));
        fs::write(&path, bundle).unwrap();
    };
    for at in 0..255 {
        let mut moved = entries.clone();
        moved.swap(at, at + 1);
        write(&moved);
        assert!(broken(folder.path()).is_some(), "{at} exchanged with the next");
        let mut doubled = entries.clone();
        doubled[at + 1] = doubled[at].clone();
        write(&doubled);
        assert!(broken(folder.path()).is_some(), "{at} twice");
        let mut without = entries.clone();
        without.remove(at);
        write(&without);
        assert!(broken(folder.path()).is_some(), "{at} left out");
    }
    fs::write(&path, bytes).unwrap();
    assert_eq!(broken(folder.path()), None);
}

/// Who holds the key can sign anything. A checkpoint that somebody kept is what finds it.
#[test]
fn a_log_that_was_rolled_back_or_written_anew_is_found_by_who_kept_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    fill(&log, 20, 429);
    drop(log);
    let earlier = tempfile::tempdir().unwrap();
    copy_all(folder.path(), earlier.path());
    let first = fs::read(folder.path().join("checkpoint")).unwrap();
    let (log, _) = small(folder.path()).unwrap();
    fill(&log, 0, 429);
    drop(log);
    let second = fs::read(folder.path().join("checkpoint")).unwrap();
    let seen = |folder: &Path, seen: &[u8]| {
        let trust = Trust { seen: Some(seen.to_vec()), ..trust() };
        match verify(folder, &trust, &mut |_| {}) {
            Ok(verified) => {
                assert!(verified.is_continued);
                None
            }
            Err(AuditError::Broken(broken)) => Some(broken.why),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(seen(folder.path(), &first), None);
    assert_eq!(seen(folder.path(), &second), None);
    assert!(matches!(seen(earlier.path(), &second), Some(Why::RolledBack { .. })));
    let forked = tempfile::tempdir().unwrap();
    let (log, _) = small(forked.path()).unwrap();
    fill(&log, 21, 429);
    fill(&log, 0, 429);
    drop(log);
    assert_eq!(broken(forked.path()), None, "by itself it is a good log");
    assert_eq!(seen(forked.path(), &first), Some(Why::Forked));
    let unsigned = String::from_utf8(first).unwrap().replacen("test.example/log\n", "test.example/log\n1", 1);
    assert!(seen(folder.path(), unsigned.as_bytes()).is_some(), "a checkpoint that nobody signed");
}
