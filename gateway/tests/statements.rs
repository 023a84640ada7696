//! An engine whose frames are all true, and whose signed statement is not, in each way there is: its answer never ends well (P5,
//! P6). The honest statement is the positive control; with `--features seeded-faults`, so is a gateway that believes any.
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

use rig::{Lie, MARKER, Peer, Rig, answer, boot_key, hello, ids, stated_as, status};
use tokio::sync::watch;
use wire::{BootKey, Finished, STATEMENT_BYTES_MAX, Statement, ToEngine, ToGateway};

/// What an engine hands over in place of a true statement.
type Say = fn(Statement) -> Option<String>;

fn signed(statement: &Statement) -> String {
    statement.sign(boot_key()).unwrap()
}

/// Signs as it should, but for one claim.
macro_rules! claims {
    ($($name:literal: |$s:ident| $change:expr;)*) => {
        [$(($name, |mut $s: Statement| { $change; Some(signed(&$s)) }),)*]
    };
}

const CLAIMS: [(&str, Say); 23] = claims! {
    "request": |s| s.request[0] ^= 1;
    "epoch": |s| s.epoch ^= 1;
    "model": |s| s.model[0] ^= 1;
    "prompt_sha256": |s| s.prompt_sha256[0] ^= 1;
    "prompt_tokens": |s| s.prompt_tokens += 1;
    "cached": |s| s.cached += 1;
    "written": |s| s.written -= 1;
    "attended": |s| s.attended += 1;
    "pages": |s| s.pages += 1;
    "generations": |s| s.generations ^= 1;
    "max_tokens": |s| s.max_tokens -= 1;
    "temperature": |s| s.temperature = 0.125;
    "top_p": |s| s.top_p = 0.125;
    "top_k": |s| s.top_k += 1;
    "min_p": |s| s.min_p = 0.125;
    "frequency_penalty": |s| s.frequency_penalty = 0.125;
    "presence_penalty": |s| s.presence_penalty = 0.125;
    "logit_bias_sha256": |s| s.logit_bias_sha256[0] ^= 1;
    "stop_sha256": |s| s.stop_sha256[0] ^= 1;
    "seed": |s| s.seed ^= 1;
    "finish": |s| s.finish = Finished::Stop;
    "output_tokens": |s| s.output_tokens -= 1;
    "output_sha256": |s| s.output_sha256[0] ^= 1;
};

const FORMS: [(&str, Say); 9] = [
    ("absent", |_| None),
    ("empty", |_| Some(String::new())),
    ("of another key", |s| s.sign(&BootKey::make(&ring::rand::SystemRandom::new()).unwrap()).ok()),
    ("unsigned", |s| signed(&s).rsplit_once('.').map(|(rest, _)| format!("{rest}."))),
    ("of another header", |s| {
        signed(&s).split_once('.').map(|(_, rest)| format!("eyJhbGciOiJub25lIn0.{rest}"))
    }),
    ("cut", |s| Some(signed(&s)[..100].to_owned())),
    ("with a byte behind it", |s| Some(signed(&s) + "A")),
    ("too long", |s| Some(signed(&s) + &"A".repeat(STATEMENT_BYTES_MAX))),
    ("twice", |s| Some(signed(&s) + "." + &signed(&s))),
];

/// Answers as it should, and states what comes next in its list; at the end of it, it begins again.
struct Scribe {
    says: Vec<Say>,
    next: usize,
}

impl Peer for Scribe {
    fn hear(&mut self, message: ToEngine) -> Option<Vec<ToGateway>> {
        Some(match message {
            ToEngine::Hello(_) => vec![hello()],
            ToEngine::Submit(submit) => {
                let say = self.says[self.next % self.says.len()];
                self.next += 1;
                stated_as(&submit, answer(&submit, Lie::None, &ids(MARKER))?, say)
            }
            ToEngine::Cancel(_) | ToEngine::Quotas(_) => vec![],
            ToEngine::Status => vec![status()],
        })
    }
}

async fn before(says: Vec<Say>) -> Rig {
    let (_, cancelled) = watch::channel(0);
    Rig::with(Scribe { says, next: 0 }, cancelled).await
}

fn lies() -> impl Iterator<Item = (&'static str, Say)> {
    CLAIMS.into_iter().chain(FORMS)
}

/// The lies in spite of which an answer ended well, and how many alarms there were for how many answers.
async fn believed() -> (Vec<&'static str>, u64, u64) {
    // Each is told twice: to a whole answer, and to a stream.
    let rig = before(lies().flat_map(|(_, say)| [say, say]).collect()).await;
    let (mut believed, mut asked) = (vec![], 0);
    for (name, _) in lies() {
        let whole = rig.chat(false).await;
        let stream = rig.chat(true).await;
        asked += 2;
        if whole.status == 200 || whole.body.contains(MARKER) || stream.body.contains("[DONE]") {
            believed.push(name);
            continue;
        }
        assert_eq!(whole.status, 502, "{name}: {}", whole.body);
        // What was verified frame by frame is out by then: the error follows it, and no end does.
        assert_eq!(stream.status, 200, "{name}: the proof was true");
        for answer in [whole, stream] {
            assert!(answer.body.contains("integrity_error"), "{name}: {}", answer.body);
            assert!(!answer.body.contains("finish_reason\":\"length"), "{name}: {}", answer.body);
        }
    }
    (believed, rig.number("integrity_alarms").await, asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_lies_in_its_statement_completes_nothing() {
    let (believed, alarms, asked) = believed().await;
    assert_eq!(believed, [""; 0]);
    assert_eq!(alarms, asked, "each lie raises its alarm");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_statement_is_believed() {
    let rig = before(vec![|statement| Some(signed(&statement))]).await;
    let (whole, stream) = (rig.chat(false).await, rig.chat(true).await);
    assert!(whole.status == 200 && whole.body.contains(MARKER), "{}", whole.body);
    assert!(stream.status == 200 && stream.body.contains("[DONE]"), "{}", stream.body);
    let sampled = serde_json::json!({
        "prompt": [1, 2, 3], "max_tokens": 100, "n": 3, "temperature": 0.7, "top_p": 0.3, "seed": 18446744073709551615_u64,
        "frequency_penalty": -1.1, "presence_penalty": 0.1, "logit_bias": { "5": -3.3 }, "logprobs": 0,
    });
    let answer = rig.ask(0, "completions", "", sampled).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(rig.number("integrity_alarms").await, 0);
    assert_eq!(rig.number("completed").await, 3);
}

/// One of several sequences is enough: what is true of the others does not save the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_lie_of_three_statements_ends_the_answer() {
    let honest: Say = |statement| Some(signed(&statement));
    let rig = before(vec![honest, honest, |_| None]).await;
    let body = serde_json::json!({ "prompt": "a", "max_tokens": 100, "n": 3 });
    let answer = rig.ask(0, "completions", "", body).await;
    assert_eq!(answer.status, 502, "{}", answer.body);
    assert_eq!((rig.number("integrity_alarms").await, rig.number("completed").await), (1, 0));
}

/// The end counts other tokens than came, and the statement is true.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_counts_other_tokens_than_came_completes_nothing() {
    struct Miscounts;
    impl Peer for Miscounts {
        fn hear(&mut self, message: ToEngine) -> Option<Vec<ToGateway>> {
            let mut honest = Scribe { says: vec![|statement| Some(signed(&statement))], next: 0 };
            let mut frames = honest.hear(message)?;
            if let Some(ToGateway::End(end)) = frames.last_mut() {
                end.completion += 1;
            }
            Some(frames)
        }
    }
    let (_, cancelled) = watch::channel(0);
    let rig = Rig::with(Miscounts, cancelled).await;
    assert_eq!(rig.chat(false).await.status, 502);
    assert!(!rig.chat(true).await.body.contains("[DONE]"));
    assert_eq!(rig.number("integrity_alarms").await, 2);
}

#[cfg(feature = "seeded-faults")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_a_gateway_that_believes_any_statement_would_be_noticed() {
    gateway::fault::seed(gateway::fault::Fault::BelieveStatements);
    let (believed, alarms, _) = believed().await;
    let all: Vec<&str> = lies().map(|(name, _)| name).collect();
    assert_eq!((believed, alarms), (all, 0), "the fault does nothing");
}
