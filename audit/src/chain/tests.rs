use std::collections::BTreeMap;

use super::*;
use crate::alarm::{AlarmCause, EngineAlarm};
use crate::hex::Word;
use crate::line::Event;
use crate::log::tests::{NOW, record, small};
use crate::record::Record;

type Files = BTreeMap<String, Vec<u8>>;

/// A log of 20 records in several segments, as files.
fn written() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    for mark in 0..20 {
        log.append(&record(mark), NOW).unwrap().wait().unwrap();
    }
    drop(log);
    let files: Files = fs::read_dir(folder.path())
        .unwrap()
        .map(|file| {
            let file = file.unwrap();
            (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())
        })
        .collect();
    assert!(segments(&files).len() >= 4, "{:?}", files.keys());
    files
}

fn segments(files: &Files) -> Vec<String> {
    files.keys().filter(|name| name.starts_with("segment-")).cloned().collect()
}

/// What is said to be wrong, by reading and by opening alike; none when all is well.
fn judged(files: &Files) -> Option<Tampered> {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let tampered = |error: AuditError| match error {
        AuditError::Tampered(tampered) => tampered,
        other @ (AuditError::Locked
        | AuditError::Disk(_)
        | AuditError::Full { .. }
        | AuditError::Ended
        | AuditError::Unwritable) => panic!("{other}"),
    };
    let by_reading = verify(folder.path(), &mut |_| {}).err().map(tampered);
    let by_opening = small(folder.path()).err().map(tampered);
    assert_eq!(by_reading, by_opening);
    by_reading
}

fn caught(files: &Files, what: &str) -> Tampered {
    judged(files).unwrap_or_else(|| panic!("not caught: {what}"))
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Each log that `edit` makes of the lines of one segment, at each line, must be caught.
fn each_line_edited(what: &str, edit: impl Fn(&mut Vec<Vec<u8>>, usize)) {
    let files = written();
    assert_eq!(judged(&files), None);
    let mut edits = 0;
    for segment in segments(&files) {
        for at in 0..lines(&files[&segment]).len() {
            let mut edited = lines(&files[&segment]);
            edit(&mut edited, at);
            let edited = edited.concat();
            if edited != files[&segment] {
                let mut changed = files.clone();
                changed.insert(segment.clone(), edited);
                caught(&changed, &format!("{what}: {segment} line {}", at + 1));
                edits += 1;
            }
        }
    }
    assert!(edits >= 15, "{what}: {edits} edits");
}

#[test]
fn a_line_removed_doubled_moved_or_blank_is_caught() {
    each_line_edited("removed", |lines, at| drop(lines.remove(at)));
    each_line_edited("doubled", |lines, at| lines.insert(at, lines[at].clone()));
    each_line_edited("moved down", |lines, at| {
        if at + 1 < lines.len() {
            lines.swap(at, at + 1);
        }
    });
    each_line_edited("a blank line before", |lines, at| lines.insert(at, b"\n".to_vec()));
    each_line_edited("not ended", |lines, at| {
        let end = lines[at].len() - 1;
        lines[at].truncate(end);
    });
    each_line_edited("halved", |lines, at| {
        let half = lines[at].len() / 2;
        lines[at].truncate(half);
    });
    each_line_edited("cut off from here", |lines, at| lines.truncate(at));
    each_line_edited("too long", |lines, at| lines[at] = vec![b'x'; 2 * LINE_BYTES_MAX]);
}

/// As somebody would who knows how checksums are made: only the chain and the head are left to catch it.
#[test]
fn a_line_changed_with_a_right_checksum_is_caught() {
    let resummed = |line: &mut Vec<u8>, from: &str, to: &str| {
        let text = String::from_utf8(line.clone()).unwrap().replacen(from, to, 1);
        let body = &text[..text.find(",\"crc\"").unwrap()];
        *line = format!("{body},\"crc\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes())).into_bytes();
    };
    for (from, to) in [
        ("\"completion\":4", "\"completion\":5"),
        ("\"time_ms\":0", "\"time_ms\":1"),
        ("\"status\":200", "\"status\":500"),
        ("{\"seq\"", "{ \"seq\""),
        ("\"completion\":4", "\"completion\":4,\"prompt\":\"x\""),
        ("\"completion\":4,", ""),
        ("\"seq\":", "\"seq\":1"),
    ] {
        each_line_edited(&format!("{from} for {to}"), |lines, at| resummed(&mut lines[at], from, to));
    }
}

/// Which bit of a line it is makes no difference: `line` tries each of one line.
#[test]
fn a_flipped_bit_of_any_line_is_caught() {
    for (place, bit) in [(0, 1), (9, 4), (300, 2)] {
        each_line_edited("a bit flipped", |lines, at| lines[at][place] ^= bit);
    }
    each_line_edited("the line's end flipped", |lines, at| {
        let end = lines[at].len() - 1;
        lines[at][end] ^= 32;
    });
}

#[test]
fn a_segment_missing_renamed_or_emptied_is_caught() {
    let files = written();
    let names = segments(&files);
    for name in &names {
        let mut changed = files.clone();
        changed.remove(name);
        caught(&changed, &format!("{name} removed"));
        for other in [segment_name(7_777), "segment-1.jsonl".to_owned(), "segment-x".to_owned()] {
            let mut changed = files.clone();
            let bytes = changed.remove(name).unwrap();
            changed.insert(other.clone(), bytes);
            caught(&changed, &format!("{name} is now {other}"));
        }
        let mut changed = files.clone();
        changed.insert(name.clone(), Vec::new());
        caught(&changed, &format!("{name} emptied"));
    }
    let mut swapped = files.clone();
    swapped.insert(names[0].clone(), files[&names[1]].clone());
    swapped.insert(names[1].clone(), files[&names[0]].clone());
    caught(&swapped, "two segments swapped");
    let mut extra = files.clone();
    extra.insert(segment_name(u64::MAX), Vec::new());
    caught(&extra, "a segment from nowhere");
}

#[test]
fn the_head_catches_what_the_chain_cannot() {
    let files = written();
    let names = segments(&files);
    let (last, before) = (&names[names.len() - 1], &names[names.len() - 2]);
    let mut shorter = files.clone();
    shorter.remove(last);
    let held = u64::try_from(20 - lines(&files[last]).len()).unwrap();
    let shorter = caught(&shorter, "the last segment removed");
    assert_eq!(shorter.why, Why::Shorter { acknowledged: 20, holds: held });

    let mut headless = files.clone();
    headless.remove("head");
    assert_eq!(caught(&headless, "no head").why, Why::NoHead);
    headless.insert("head".to_owned(), vec![0; 607]);
    assert_eq!(caught(&headless, "an empty head").why, Why::NoHead);

    // The last record written anew, chained as it must be: whole in itself, but not what was acknowledged.
    let mut other = files.clone();
    let kept = lines(&files[last]);
    let mut link = Link { seq: held, hash: Hex([0; 32]) };
    let first: serde_json::Value = serde_json::from_slice(&kept[0]).unwrap();
    link.hash = Hex::parse(first["prev"].as_str().unwrap()).unwrap();
    let mut forged = Vec::new();
    for _ in 0..kept.len() {
        link = line::write(&mut forged, link, 0, &Event::new(&record(999)).unwrap());
    }
    other.insert(last.clone(), forged);
    assert_eq!(caught(&other, "the end rewritten").why, Why::OtherRecord { seq: 20 });
    assert_ne!(before, last);
}

#[test]
fn a_log_that_was_never_begun_is_good_and_empty() {
    let folder = tempfile::tempdir().unwrap();
    let verified = verify(folder.path(), &mut |_| {}).unwrap();
    assert_eq!((verified.records, verified.segments), (0, 0));
    assert!(matches!(verify(&folder.path().join("absent"), &mut |_| {}), Err(AuditError::Disk(_))));
    // Opened, and closed before the first record.
    drop(small(folder.path()).unwrap());
    assert_eq!(small(folder.path()).unwrap().1.records, 0);
}

#[test]
fn progress_ends_at_the_whole() {
    let files = written();
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in &files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let mut seen = Vec::new();
    verify(folder.path(), &mut |progress| seen.push(progress)).unwrap();
    let total = segments(&files).iter().map(|name| files[name].len() as u64).sum();
    assert_eq!(seen.last(), Some(&Progress { records: 20, bytes: total, bytes_total: total }));
    assert_eq!(seen.len(), segments(&files).len());
}

#[test]
fn an_alarm_is_a_link_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = small(folder.path()).unwrap();
    let cause = AlarmCause::Withdrawn { page: 5, generation: 9, last: Some(Word(7)) };
    let alarm = Record::Alarm(EngineAlarm { epoch: Word(3), number: 0, cause });
    for record in [record(1), alarm, record(2)] {
        log.append(&record, NOW).unwrap().wait().unwrap();
    }
    drop(log);
    assert_eq!(verify(folder.path(), &mut |_| {}).unwrap().records, 3);
    let path = folder.path().join("segment-00000000000000000001.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"page\":5", "\"page\":6")).unwrap();
    let error = verify(folder.path(), &mut |_| {}).err().unwrap();
    let AuditError::Tampered(tampered) = error else { panic!("{error}") };
    assert_eq!(tampered.why, Why::Checksum);
}
