//! What an engine finds wrong with itself: recorded and counted once, however often it is told.
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

use rig::{EPOCH, Lie, MARKER, Peer, Rig, answer, hello_in, ids, status};
use serde_json::json;
use tokio::sync::watch;
use wire::{Alarm, Cause, ToEngine, ToGateway, Unsound};

const WHOLE: bool = false;

fn alarm(number: u32, cause: Cause) -> Alarm {
    Alarm { number, epoch: EPOCH, cause }
}

/// Tells in each session all alarms of its life, and one more is found at each request.
struct Alarmed {
    known: Vec<Alarm>,
    /// Found at the next requests, the last first.
    next: Vec<Alarm>,
    dies: bool,
    marker: Vec<u32>,
    sessions: u8,
}

impl Alarmed {
    async fn open(known: Vec<Alarm>, next: Alarm, dies: bool) -> Rig {
        let peer = Self { known, next: vec![next], dies, marker: ids(MARKER), sessions: 0 };
        Rig::with(peer, watch::channel(0).1).await
    }
}

impl Peer for Alarmed {
    fn hear(&mut self, message: ToEngine) -> Option<Vec<ToGateway>> {
        match message {
            ToEngine::Hello(_) => {
                let alarms = self.known.iter().map(|alarm| ToGateway::Alarm(*alarm));
                self.sessions += 1;
                Some(std::iter::once(hello_in([self.sessions; 16])).chain(alarms).collect())
            }
            ToEngine::Status => Some(vec![status()]),
            ToEngine::Submit(submit) => {
                let found = self.next.pop();
                self.known.extend(found);
                if self.dies {
                    return None;
                }
                let frames = answer(&submit, Lie::None, &self.marker).unwrap();
                Some(found.map(ToGateway::Alarm).into_iter().chain(frames).collect())
            }
            ToEngine::Cancel(_) | ToEngine::Quotas(_) => Some(vec![]),
        }
    }
}

fn withdrawn(number: u32, page: u32) -> Alarm {
    alarm(number, Cause::Withdrawn { page, generation: 9, last: Some(7) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_is_recorded_and_counted_once_over_all_sessions_of_a_life() {
    let never = alarm(1, Cause::Withdrawn { page: 6, generation: 0, last: None });
    let unsound = alarm(2, Cause::Unsound(Unsound::Read));
    let rig = Alarmed::open(vec![withdrawn(0, 5), never], unsound, true).await;
    rig.alarms(2).await;
    // It dies at the request; in the next session it tells the two again, and then the third.
    assert!([502, 503].contains(&rig.chat(WHOLE).await.status));
    rig.alarms(3).await;
    let epoch = format!("{EPOCH:016x}");
    let page = |page, generation, last| json!({ "withdrawn": { "page": page, "generation": generation, "last": last } });
    let expected = [
        json!({ "epoch": epoch, "number": 0, "cause": page(5, 9, json!("0000000000000007")) }),
        json!({ "epoch": epoch, "number": 1, "cause": page(6, 0, json!(null)) }),
        json!({ "epoch": epoch, "number": 2, "cause": { "unsound": { "why": "read" } } }),
    ];
    assert_eq!(rig.recorded_when("alarm", 3).await, expected);
    let engines = rig.recorded_when("engine_seen", 2).await;
    assert_eq!(engines.len(), 2, "each session is recorded, the first as well: {engines:?}");
}

/// It is about no request: one that runs meanwhile is answered as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_among_the_frames_of_an_answer_is_no_part_of_it() {
    let rig = Alarmed::open(vec![], withdrawn(0, 5), false).await;
    let whole = rig.chat(WHOLE).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    assert!(whole.body.contains(MARKER), "{}", whole.body);
    rig.alarms(1).await;
    assert_eq!(rig.recorded_when("alarm", 1).await.len(), 1);
    assert_eq!(rig.number("integrity_alarms").await, 0);
}

/// An engine speaks for its own life; what it says of another is not believed, and neither is anything after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_of_another_life_ends_the_session() {
    let foreign = Alarm { epoch: EPOCH ^ 1, ..withdrawn(0, 5) };
    let rig = Alarmed::open(vec![], foreign, false).await;
    let answer = rig.chat(WHOLE).await;
    assert!([502, 503].contains(&answer.status), "{}", answer.body);
    assert!(!answer.body.contains(MARKER), "{}", answer.body);
    rig.alarms(0).await;
    assert_eq!(rig.recorded("alarm").len(), 0);
}

#[cfg(feature = "seeded-faults")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_records_what_it_knows_would_be_noticed() {
    gateway::fault::seed(gateway::fault::Fault::AlarmAgain);
    let rig = Alarmed::open(vec![withdrawn(0, 5), withdrawn(1, 6)], withdrawn(2, 7), true).await;
    rig.alarms(2).await;
    assert!([502, 503].contains(&rig.chat(WHOLE).await.status));
    // The two of before as well.
    rig.alarms(5).await;
}
