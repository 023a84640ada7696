mod quorum;
mod rig;
mod state;

use proptest::prelude::*;

use self::rig::*;
use super::*;
use crate::submission::Submission;

#[test]
fn a_log_that_grows_is_cosigned_each_time() {
    let rig = Rig::new();
    let mut old = 0;
    for size in [0, 1, 2, 3, 7, 8, 255, 256, 257, 300] {
        let answer = rig.add(&rig.log.request(old, size));
        assert_eq!(answer.status, 200, "{old} to {size}: {answer:?}");
        let mut note = rig.log.checkpoint(size);
        note.extend(answer.body.as_bytes());
        let witness = signed_note::VerifierList::new(vec![Box::new(rig.witness().public())]);
        Note::from_bytes(&note).unwrap().verify(&witness).unwrap();
        assert_eq!(rig.add(&rig.log.request(size, size)).status, 200, "the same once more");
        old = size;
    }
}

/// Who asks for less than is known, for another tree, or by a proof of something else gets nothing: neither a cosignature, nor is
/// anything forgotten.
fn nothing_but_growth() {
    let rig = Rig::new();
    let fork = Log::new(2, 64);
    assert_eq!(rig.add(&rig.log.request(0, 20)).status, 200);
    let known = (409, "text/x.tlog.size", "20\n".to_owned());
    // Rolled back, replayed, begun anew.
    for (old, size) in [(0, 10), (0, 20), (0, 30), (10, 15), (10, 20), (10, 30), (19, 30), (21, 30)] {
        let answer = rig.add(&rig.log.request(old, size));
        assert_eq!((answer.status, answer.content_type, answer.body), known, "{old} to {size}");
        assert_eq!(rig.add(&fork.request(old, size)).status, 409, "{old} to {size}");
    }
    assert_eq!(rig.add(&rig.log.request(20, 10)).status, 400, "less than is said to be known");
    assert_eq!(rig.add(&fork.request(20, 20)).status, 409, "another tree of the size");
    for size in 21..40 {
        assert_eq!(rig.add(&fork.request(20, size)).status, 422, "a fork's own proof, {size}");
        let mixed = request::write(20, &rig.log.proof(20, size), &fork.checkpoint(size));
        assert_eq!(rig.add(&mixed).status, 422, "another's proof, {size}");
    }
    assert_eq!(rig.add(&rig.log.request(20, 64)).status, 200, "the log itself goes on");
}

#[test]
fn a_log_that_rolls_back_or_forks_is_refused() {
    nothing_but_growth();
}

#[test]
fn control_each_guard_of_growth_is_missed_when_it_is_gone() {
    for fault in [Fault::OldUnchecked, Fault::RootUnchecked, Fault::ProofUnchecked] {
        assert!(fault::is_noticed(fault, nothing_but_growth), "{fault:?}");
    }
}

fn only_the_log_itself() {
    let rig = Rig::new();
    let checkpoint = rig.log.checkpoint(5);
    let stranger = Log::signed_by(LogKey::generate("log.example/1").unwrap(), 1, 64);
    assert_eq!(rig.add(&stranger.request(0, 5)).status, 403, "its name, another key");
    let other = Log::signed_by(LogKey::generate("log.example/2").unwrap(), 1, 64);
    assert_eq!(rig.add(&other.request(0, 5)).status, 404, "a log that is not watched");
    // A witness's cosignature alone is not the log's signature.
    let note = Note::from_bytes(&checkpoint).unwrap();
    let line = rig.witness().cosign(note.text(), 1).unwrap();
    let foreign = Note::new(note.text(), &[line]).unwrap().to_bytes();
    assert_eq!(rig.add(&request::write(0, &[], &foreign)).status, 403);
    // Each letter of the text that is signed.
    for at in 0..note.text().len() {
        let mut wrong = checkpoint.clone();
        wrong[at] ^= 1;
        let answer = rig.add(&request::write(0, &[], &wrong));
        assert!([400, 403, 404].contains(&answer.status), "byte {at}: {answer:?}");
    }
    assert_eq!(rig.add(&request::write(0, &[], &checkpoint)).status, 200);
}

#[test]
fn what_the_log_has_not_signed_is_refused() {
    only_the_log_itself();
}

#[test]
fn control_a_witness_that_believes_everybody_is_seen() {
    assert!(fault::is_noticed(Fault::SignatureUnchecked, only_the_log_itself));
}

fn only_requests() {
    let rig = Rig::new();
    let checkpoint = String::from_utf8(rig.log.checkpoint(9)).unwrap();
    let line = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
    let refused = |body: String, status: u16| {
        let answer = rig.add(body.as_bytes());
        assert_eq!(answer.status, status, "{:?} of {:.80}", answer.body, body);
    };
    for old in [
        "",
        "old",
        "old ",
        "old  0",
        "old 00",
        "old 01",
        "old +0",
        "old -0",
        "old 0 ",
        "OLD 0",
        "old 0\r",
        "old 18446744073709551616",
    ] {
        refused(format!("{old}\n\n{checkpoint}"), 400);
    }
    refused(format!("old 0\n{checkpoint}"), 400);
    refused(format!("old 0\n\n\n{checkpoint}"), 400);
    refused(format!("\nold 0\n\n{checkpoint}"), 400);
    refused(format!("old 0\n{line}\n{checkpoint}"), 422);
    refused(format!("old 0\n{}\n{checkpoint}", line.repeat(PROOF_LINES_MAX)), 422);
    refused(format!("old 0\n{}\n{checkpoint}", line.repeat(PROOF_LINES_MAX + 1)), 400);
    for wrong in [
        "AAAA",
        "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I",
        "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2J=",
        "!sUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=",
        " CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=",
    ] {
        refused(format!("old 0\n{wrong}\n\n{checkpoint}"), 400);
    }
    refused(format!("old 0\n\n{checkpoint}\n"), 400);
    refused(format!("old 0\n\n{}", checkpoint.trim_end()), 400);
    refused(format!("old 0\n\n{}", "x".repeat(REQUEST_BYTES_MAX)), 413);
    let mut large = format!("old {}\n\n", u64::MAX).into_bytes();
    large.extend(rig.log.signed(u64::MAX, 9));
    assert_eq!(rig.add(&large).status, 400, "larger than any log");
    let whole = format!("old 0\n\n{checkpoint}");
    for end in 0..whole.len() {
        assert_eq!(rig.add(&whole.as_bytes()[..end]).status, 400, "cut at {end}");
    }
    refused(whole, 200);
}

#[test]
fn what_is_no_request_is_refused() {
    only_requests();
}

#[test]
fn control_a_proof_without_a_bound_is_seen() {
    assert!(fault::is_noticed(Fault::ProofUnbounded, only_requests));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is asked in whatever order, of all that one witness cosigned each is the beginning of the next.
    #[test]
    fn no_two_histories_are_cosigned(
        steps in proptest::collection::vec((0_u64..64, 0_u64..64, 0_usize..3, any::<bool>()), 1..40),
        split in 0_u64..64,
    ) {
        let rig = Rig::new();
        let logs = [&rig.log, &rig.log.forked_after(split), &Log::new(9, 64)];
        let mut cosigned = vec![TreeHead { size: 0, root: tlog_tiles::EMPTY_HASH }];
        for (old, size, which, is_told) in steps {
            let last = *cosigned.last().unwrap();
            let old = if is_told { last.size } else { old };
            let answer = rig.add(&logs[which].request(old, size));
            prop_assert!([200, 400, 409, 422].contains(&answer.status), "{answer:?}");
            let head = logs[which].head(size);
            let follows = old == last.size && old <= size && logs[which].head(old) == last;
            prop_assert_eq!(answer.status == 200, follows, "{} to {} of {}", old, size, which);
            if answer.status == 200 {
                cosigned.push(head);
            }
        }
    }

    #[test]
    fn a_request_is_written_in_one_way(old in any::<u64>(), proof in proptest::collection::vec(any::<[u8; 32]>(), 0..64), end in any::<Vec<u8>>()) {
        let proof: Vec<_> = proof.into_iter().map(tlog_tiles::Hash).collect();
        let body = request::write(old, &proof, &end);
        let read = request::parse(&body).unwrap();
        prop_assert_eq!((read.old, &read.proof, read.checkpoint), (old, &proof, &end[..]));
    }

    #[test]
    fn nothing_that_is_sent_makes_it_panic(body in any::<Vec<u8>>(), old in any::<u64>(), size in any::<u64>(), lines in 0_usize..63) {
        let rig = Rig::new();
        rig.add(&body);
        rig.add(&rig.log.request(0, 40));
        let proof = vec![tlog_tiles::Hash([7; 32]); lines];
        for old in [old, 40, 41, size, size / 2] {
            let answer = rig.add(&request::write(old, &proof, &rig.log.signed(size, 9)));
            prop_assert!(answer.status != 200 || (old, size) == (40, 40));
        }
    }
}
