//! An engine that lies, dies or says too much: whatever it does, no foreign text goes out and no refusal looks like a success
//! (P1, P5). The honest engine is the positive control; with `--features seeded-faults`, so is a gateway that believes all.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    missing_docs,
    unreachable_pub,
    reason = "a test"
)]

#[allow(dead_code, reason = "each test target uses its part of it")]
mod rig;

use rig::{Lie, MARKER, Rig};

const STREAM: bool = true;
const WHOLE: bool = false;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_engine_is_believed() {
    let rig = Rig::start(Lie::None).await;
    let whole = rig.chat(WHOLE).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    assert!(whole.body.contains(MARKER), "{}", whole.body);
    assert!(whole.body.contains("\"finish_reason\":\"length\""), "{}", whole.body);
    let stream = rig.chat(STREAM).await;
    assert_eq!(stream.status, 200);
    assert!(stream.body.contains("[DONE]"), "{}", stream.body);
}

/// Lies about what was prefilled: nothing of the answer goes out, and the status says whose fault it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evidence_that_is_not_what_was_sent_gets_502_and_no_text() {
    for lie in [
        Lie::Digest,
        Lie::Tag,
        Lie::Epoch,
        Lie::ShortWritten,
        Lie::Attended,
        Lie::CachedWhole,
        Lie::NoPages,
        Lie::EvidenceSequence,
        Lie::NoEvidence,
        Lie::TokensFirst,
    ] {
        let rig = Rig::start(lie).await;
        for stream in [WHOLE, STREAM] {
            let answer = rig.chat(stream).await;
            assert_eq!(answer.status, 502, "{lie:?}: {}", answer.body);
            assert!(answer.body.contains("integrity_error"), "{lie:?}: {}", answer.body);
            assert!(
                !answer.body.contains(MARKER) && !answer.body.contains("[DONE]"),
                "{lie:?}: {}",
                answer.body
            );
        }
        assert_eq!(rig.number("integrity_alarms").await, 2, "{lie:?} raised no alarm");
        assert_eq!(rig.number("completed").await, 0, "{lie:?} counts as a success");
    }
}

/// Lies after a true proof: what was verified may be out, nothing after the lie is, and the stream does not end well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_is_not_the_next_one_cuts_the_answer() {
    for lie in [Lie::DeltaTag, Lie::DeltaEpoch, Lie::DeltaSequence, Lie::DeltaRepeated, Lie::RefusedLate] {
        let rig = Rig::start(lie).await;
        let whole = rig.chat(WHOLE).await;
        assert_eq!(whole.status, 502, "{lie:?}: {}", whole.body);
        assert!(!whole.body.contains(MARKER), "{lie:?}: {}", whole.body);
        let stream = rig.chat(STREAM).await;
        assert_eq!(stream.status, 200, "the proof was true");
        assert!(stream.body.contains("integrity_error"), "{lie:?}: {}", stream.body);
        assert!(!stream.body.contains(MARKER), "{lie:?}: a frame after the lie went out: {}", stream.body);
        assert!(!stream.body.contains("[DONE]"), "{lie:?}: {}", stream.body);
        assert_eq!(rig.number("integrity_alarms").await, 2, "{lie:?} raised no alarm");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_dies_is_no_success() {
    let rig = Rig::start(Lie::DiesFirst).await;
    for stream in [WHOLE, STREAM] {
        let answer = rig.chat(stream).await;
        assert!([502, 503].contains(&answer.status), "{}", answer.body);
        assert!(!answer.body.contains("[DONE]"));
    }
    let rig = Rig::start(Lie::DiesLater).await;
    let stream = rig.chat(STREAM).await;
    assert_eq!(stream.status, 200);
    assert!(stream.body.contains("\"error\"") && !stream.body.contains("[DONE]"), "{}", stream.body);
    let whole = rig.chat(WHOLE).await;
    assert!([502, 503].contains(&whole.status), "{}", whole.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_by_the_engine_names_the_numbers_and_is_no_200() {
    let rig = Rig::start(Lie::Refuses).await;
    let answer = rig.chat(STREAM).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("context_length_exceeded") && answer.body.contains("77"), "{}", answer.body);
}

/// A client that leaves is told to the engine at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_is_cancelled_at_the_engine() {
    let rig = Rig::start(Lie::Silent).await;
    rig.leave().await;
    rig.cancelled().await;
    assert_eq!(rig.number("cancelled").await, 1);
}

/// L10: an answer that carries the values of another request is an error at the status line, whichever value it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_l10_an_answer_that_is_not_the_requests_is_no_200() {
    assert_eq!(foreign_answers().await, []);
}

/// The lies whose text went out, or that got a 200.
async fn foreign_answers() -> Vec<Lie> {
    let mut out = vec![];
    for lie in [Lie::Digest, Lie::Tag, Lie::Epoch, Lie::DeltaTag, Lie::DeltaSequence] {
        let answer = Rig::start(lie).await.chat(WHOLE).await;
        if answer.status != 502 || answer.body.contains(MARKER) {
            out.push(lie);
        }
    }
    out
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::*;
    use gateway::fault::{Fault, seed};

    /// Each test runs in a process of its own, so a seeded fault stays with it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_gateway_that_believes_any_evidence_would_be_noticed() {
        seed(Fault::BelieveEvidence);
        let rig = Rig::start(Lie::Digest).await;
        let answer = rig.chat(WHOLE).await;
        assert_eq!(answer.status, 200, "the fault does nothing: {}", answer.body);
        assert!(answer.body.contains(MARKER));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn control_l10() {
        seed(Fault::BelieveEvidence);
        assert!(foreign_answers().await.contains(&Lie::Digest));
        seed(Fault::BelieveStamps);
        assert!(foreign_answers().await.contains(&Lie::DeltaTag));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_gateway_that_believes_any_stamp_would_be_noticed() {
        seed(Fault::BelieveStamps);
        let rig = Rig::start(Lie::DeltaTag).await;
        let answer = rig.chat(WHOLE).await;
        assert_eq!(answer.status, 200, "the fault does nothing: {}", answer.body);
        assert!(answer.body.contains(MARKER));
    }
}
