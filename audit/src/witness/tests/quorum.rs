//! A real log, witnesses of it, and an auditor who wants enough of them.

use std::fs;
use std::path::Path;

use super::*;
use crate::error::{AuditError, Place};
use crate::log::tests::{ACME, NOW as BEGAN, key, record, small, trust};
use crate::verify::{Trust, verify};

fn witness(number: u8) -> LogKey {
    LogKey::witness_from_seed(&format!("witness.example/{number}"), [number; 32])
}

fn grow(folder: &Path, marks: core::ops::Range<u32>) {
    let (log, _) = small(folder).unwrap();
    for mark in marks {
        log.append_for(ACME, &record(mark), BEGAN).unwrap().wait().unwrap();
    }
}

/// What these witnesses have cosigned of the log in a folder.
fn cosigned(folder: &Path, by: &[LogKey]) -> Vec<u8> {
    let mut submission = Submission::read(folder, &key().public()).unwrap();
    let text = Note::from_bytes(&submission.cosigned()).unwrap().text().to_vec();
    for witness in by {
        let line = witness.cosign(&text, 77).unwrap().to_bytes();
        assert_eq!(submission.take(&line, &witness.public()).unwrap(), 77);
    }
    submission.cosigned()
}

fn asking(by: &[LogKey], quorum: usize, cosigned: Vec<u8>) -> Trust {
    let witnesses = by.iter().map(LogKey::public).collect();
    Trust { witnesses, quorum, cosigned: Some(cosigned), ..trust() }
}

fn why(folder: &Path, trust: &Trust) -> Why {
    match verify(folder, trust, &mut |_| {}) {
        Err(AuditError::Broken(broken)) => {
            assert_eq!(broken.place, Place::Cosigned);
            broken.why
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_real_log_is_cosigned_over_its_own_tiles() {
    let (folder, states) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let witness = Witness::open(states.path(), witness(1), vec![key().public()]).unwrap();
    let mut old = 0;
    for leaves in [1, 3, 254, 300, 700] {
        grow(folder.path(), 0..leaves);
        let mut submission = Submission::read(folder.path(), &key().public()).unwrap();
        assert!(submission.size() > old && submission.request(submission.size() + 1).is_err());
        let answer = witness.add_checkpoint(&submission.request(old).unwrap(), UNIX_EPOCH);
        assert_eq!(answer.status, 200, "{old} to {}: {answer:?}", submission.size());
        submission.take(answer.body.as_bytes(), &witness.key.public()).unwrap();
        fs::write(folder.path().join("cosigned"), submission.cosigned()).unwrap();
        old = submission.size();
        let trust = Trust { witnesses: vec![witness.key.public()], quorum: 1, ..trust() };
        let verified = verify(folder.path(), &trust, &mut |_| {}).unwrap();
        assert_eq!((verified.witnesses, verified.cosigned, verified.leaves), (1, old, old));
    }
    // A tile that was changed makes no proof.
    let tile = folder.path().join("tile/0/000");
    let mut bytes = fs::read(&tile).unwrap();
    bytes[40] ^= 1;
    fs::write(&tile, bytes).unwrap();
    assert!(Submission::read(folder.path(), &key().public()).unwrap().request(3).is_err());
}

#[test]
fn what_a_witness_answers_is_taken_only_when_it_is_its_own() {
    use crate::submission::{ANSWER_BYTES_MAX, NotCosigned};
    let folder = tempfile::tempdir().unwrap();
    grow(folder.path(), 0..3);
    let mut submission = Submission::read(folder.path(), &key().public()).unwrap();
    let text = Note::from_bytes(&submission.cosigned()).unwrap().text().to_vec();
    let [one, two] = [witness(1), witness(2)];
    let line = one.cosign(&text, 5).unwrap().to_bytes();
    let other = one.cosign(b"log.example/2\n1\nAAAA\n", 5).unwrap().to_bytes();
    assert_eq!(submission.take(&line, &two.public()), Err(NotCosigned::Missing));
    assert_eq!(submission.take(&other, &one.public()), Err(NotCosigned::Wrong));
    let long = vec![b'x'; ANSWER_BYTES_MAX + 1];
    for wrong in [&b""[..], b"\n", b"20\n", &line[..line.len() - 1], &long, &line.repeat(33)] {
        assert_eq!(submission.take(wrong, &one.public()), Err(NotCosigned::Form));
    }
    assert_eq!(submission.take(&line, &key().public()), Err(NotCosigned::Form), "a log is no witness");
    let both = [two.cosign(&text, 6).unwrap().to_bytes(), line.clone()].concat();
    assert_eq!(submission.take(&both, &one.public()), Ok(5), "others' lines are left out");
    assert_eq!(submission.take(&line, &one.public()), Ok(5));
    let lines = String::from_utf8(submission.cosigned()).unwrap().matches("witness.example").count();
    assert_eq!(lines, 1, "once");
}

fn enough_different_witnesses() {
    let folder = tempfile::tempdir().unwrap();
    grow(folder.path(), 0..20);
    let folder = folder.path();
    let by_two = cosigned(folder, &[witness(1), witness(2)]);
    let all = [witness(1), witness(2), witness(3)];
    for quorum in [1, 2] {
        let verified = verify(folder, &asking(&all, quorum, by_two.clone()), &mut |_| {}).unwrap();
        assert_eq!(verified.witnesses, 2);
    }
    assert_eq!(why(folder, &asking(&all, 3, by_two.clone())), Why::Quorum { has: 2, needs: 3 });
    assert_eq!(why(folder, &asking(&[], 1, by_two.clone())), Why::Quorum { has: 0, needs: 1 });
    // One key under two names is one witness.
    let one_twice = || [witness(1), LogKey::witness_from_seed("witness.example/alias", [1; 32])];
    let twice = cosigned(folder, &one_twice());
    assert_eq!(why(folder, &asking(&one_twice(), 2, twice)), Why::Quorum { has: 1, needs: 2 });
    // A line that bears a witness's name, and is not its own.
    let mut wrong = by_two;
    let at = wrong.len() - 10;
    wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
    assert_eq!(
        why(folder, &asking(&all, 1, wrong.clone())),
        Why::Cosignature("witness.example/2".to_owned())
    );
    let stranger = verify(folder, &asking(&[witness(1)], 1, wrong), &mut |_| {});
    assert!(stranger.is_ok(), "a stranger's line is nothing");
    let missing = Trust { cosigned: None, ..asking(&all, 1, vec![]) };
    assert_eq!(why(folder, &missing), Why::Missing);
}

#[test]
fn a_quorum_is_of_different_witnesses_who_have_cosigned() {
    enough_different_witnesses();
}

#[test]
fn control_each_guard_of_a_quorum_is_missed_when_it_is_gone() {
    for fault in [Fault::WitnessTwice, Fault::CosignatureUnchecked] {
        assert!(fault::is_noticed(fault, enough_different_witnesses), "{fault:?}");
    }
}

#[test]
fn a_cosigned_checkpoint_must_be_the_beginning_of_the_log() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    grow(folder.path(), 0..20);
    let few = cosigned(folder.path(), &[witness(1)]);
    grow(folder.path(), 20..320);
    let many = cosigned(folder.path(), &[witness(1)]);
    let asked = |bytes: &Vec<u8>| asking(&[witness(1)], 1, bytes.clone());
    let verified = verify(folder.path(), &asked(&few), &mut |_| {}).unwrap();
    assert!(verified.cosigned < verified.leaves);
    verify(folder.path(), &asked(&many), &mut |_| {}).unwrap();
    // The same key, other leaves: a log that was written anew, shorter and longer.
    grow(other.path(), 5_000..5_003);
    let shorter = verify(other.path(), &trust(), &mut |_| {}).unwrap().leaves;
    assert_eq!(why(other.path(), &asked(&many)), Why::RolledBack { holds: shorter });
    grow(other.path(), 6_000..7_000);
    assert_eq!(why(other.path(), &asked(&few)), Why::Forked);
    assert_eq!(why(other.path(), &asked(&many)), Why::Forked);
    // Another log's checkpoint.
    let head = TreeHead { size: 1, root: tlog_tiles::EMPTY_HASH };
    let foreign = checkpoint::sign(&LogKey::generate("log.example/2").unwrap(), head).unwrap();
    assert_eq!(why(folder.path(), &asked(&foreign)), Why::Signature);
}
