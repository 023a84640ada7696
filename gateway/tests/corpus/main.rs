//! The gateway's rows of the fault corpus: names, routes, lengths, and answers that belong to somebody else. The engine's rows are in
//! `engine/tests/corpus`, the table of all in `docs/incidents.md`.
//!
//! A row is a scenario that gives `Err` with what was violated. Its control takes a guard of the gateway away, or lets the engine lie in
//! a way that the gateway cannot see, and wants `Err`. Each test runs in a process of its own, so a seeded fault stays with it.
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

mod desk;
#[path = "../rig/mod.rs"]
#[allow(dead_code, reason = "each test target uses its part of it")]
mod rig;

use std::collections::BTreeSet;

use desk::{Way, open};
use rig::{Answer, EPOCH};
use serde_json::{Value, json};
use wire::{Submit, TicketCheck, WireKey};

/// What a row's scenario gives: `Err` is the violation, in words.
type Held = Result<(), String>;

/// What no answer to another may hold: each request's prompt is its tenant's and its own.
const MINE: [&str; 2] = ["violet-granite-0417", "copper-walnut-9632"];

fn hold(holds: bool, what: impl FnOnce() -> String) -> Held {
    if holds { Ok(()) } else { Err(what()) }
}

/// A scenario without a guard must break, and for the reason that the guard is there for.
fn caught(broken: Held, reason: &str) {
    match broken {
        Err(found) if found.contains(reason) => {}
        other => panic!("expected a violation with {reason:?}, found {other:?}"),
    }
}

fn text(prompt: &str) -> Value {
    json!({ "prompt": prompt, "max_tokens": 100 })
}

/// All texts of an answer, whole or streamed.
fn said(answer: &Answer) -> String {
    let events = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let whole = std::iter::once(answer.body.as_str());
    let parts = events.chain(whole).filter_map(|part| serde_json::from_str::<Value>(part).ok());
    let choices = parts.flat_map(|part| part["choices"].as_array().cloned().unwrap_or_default());
    choices.map(|choice| choice["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// O1 and O4: nothing of the other's, and all of one's own where it is called a success.
fn own(answer: &Answer, tenant: usize, status: u16) -> Held {
    let said = said(answer);
    hold(!said.contains(MINE[1 - tenant]), || format!("another's text went out: {said}"))?;
    hold(answer.status == status, || format!("status {} and not {status}: {}", answer.status, answer.body))?;
    hold(status != 200 || said.contains(MINE[tenant]), || format!("an answer to nothing: {}", answer.body))
}

/// A hundred windows of prompt, by each way in: turned away before the engine hears of it.
async fn a07() -> Held {
    let (rig, heard) = open(Way::Honest).await;
    let count = 100 * 2048;
    let ids = vec![1_u32; count];
    let words = "a ".repeat(count);
    let asked = [
        ("completions", json!({ "prompt": ids, "max_tokens": 4 })),
        ("completions", json!({ "prompt": [[1], ids], "max_tokens": 4 })),
        ("completions", json!({ "prompt": words, "max_tokens": 4 })),
        ("chat/completions", json!({ "messages": [{ "role": "user", "content": words }] })),
    ];
    for (path, body) in asked {
        let answer = rig.ask(0, path, "", body).await;
        hold(heard.all().is_empty(), || "the engine was asked for a hundred windows".into())?;
        hold([400, 413].contains(&answer.status), || format!("status {}: {}", answer.status, answer.body))?;
    }
    own(&rig.ask(1, "completions", "", text(MINE[1])).await, 1, 200)
}

/// A client names what a cached prefix could be found by: a field that we do not know is refused, and one that we know changes nothing.
async fn g03() -> Held {
    let (rig, heard) = open(Way::Honest).await;
    let keys =
        ["mm_hashes", "cache_salt", "prefix_key", "kv_transfer_params", "bootstrap_room", "tenant", "tag"];
    for key in keys {
        for path in ["completions", "chat/completions"] {
            let mut body = if path == "completions" {
                text(MINE[0])
            } else {
                json!({ "messages": [{ "role": "user", "content": MINE[0] }] })
            };
            body[key] = "as another".into();
            let answer = rig.ask(0, path, "", body).await;
            hold(answer.status == 400, || format!("a client's {key} was taken: {}", answer.status))?;
        }
    }
    hold(heard.all().is_empty(), || "the engine was asked".into())?;
    for value in ["a", "b"] {
        let body = json!({
            "messages": [{ "role": "user", "content": MINE[0] }],
            "seed": 5, "user": value, "prompt_cache_key": value, "safety_identifier": value,
        });
        rig.ask(0, "chat/completions", "", body).await;
    }
    let bare = |submit: &Submit| Submit { request: [0; 16], serial: 0, ticket: [0; 32], ..submit.clone() };
    let [first, second] = &heard.all()[..] else { return Err("not two requests were heard".into()) };
    hold(bare(first) == bare(second), || "what a client calls its cache reaches the engine".into())
}

/// Two tenants give their requests one name.
async fn j06() -> Held {
    let (rig, heard) = open(Way::Honest).await;
    let name = "01890a5d-ac96-774b-bcce-b302099a8057";
    let header = format!("x-request-id: {name}\r\n");
    let mut names = BTreeSet::new();
    for tenant in [0, 1] {
        let answer = rig.ask(tenant, "completions", &header, text(MINE[tenant])).await;
        own(&answer, tenant, 200)?;
        let lines = answer.head.to_lowercase();
        let given = lines.lines().find_map(|line| line.strip_prefix("x-request-id: ").map(str::to_owned));
        names.insert(given.ok_or("an answer has no name")?);
    }
    hold(names.len() == 2 && !names.contains(name), || format!("two requests have one name: {names:?}"))?;
    let theirs = *name.parse::<uuid::Uuid>().unwrap().as_bytes();
    let requests: BTreeSet<[u8; 16]> = heard.all().iter().map(|submit| submit.request).collect();
    hold(requests.len() == 2 && !requests.contains(&theirs), || "the engine heard a client's name".into())
}

/// The first token comes from a slot that an earlier request, of another tenant, left.
async fn l01() -> Held {
    let (rig, _) = open(Way::StaleSlot).await;
    own(&rig.ask(0, "completions", "", text(MINE[0])).await, 0, 200)?;
    own(&rig.ask(1, "completions", "", text(MINE[1])).await, 1, 502)
}

/// Three answers to each of two prompts of different lengths: each is a sequence of its own, with its own name and ticket.
async fn l04() -> Held {
    let (rig, heard) = open(Way::Honest).await;
    let longer = format!("{} and more of it", MINE[0]);
    let body = json!({ "prompt": [MINE[0], longer], "n": 3, "max_tokens": 100 });
    let answer = rig.ask(0, "completions", "", body).await;
    let submits = heard.all();
    let names: BTreeSet<[u8; 16]> = submits.iter().map(|submit| submit.request).collect();
    hold(names.len() == 6, || format!("6 sequences have {} names", names.len()))?;
    let mut check = TicketCheck::new(&WireKey::new([7; 32]), [3; 16], EPOCH);
    for submit in &submits {
        check.accept(submit).map_err(|error| format!("a ticket that is not good: {error}"))?;
    }
    own(&answer, 0, 200)?;
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    for index in 0..6 {
        let choice = &body["choices"][index];
        let wanted = if index < 3 { MINE[0] } else { longer.as_str() };
        hold(choice["index"] == index && choice["text"] == wanted, || format!("choice {index} is {choice}"))?;
    }
    Ok(())
}

/// A client leaves between the sending and the reply. The reply comes all the same, when another's request is next.
async fn l07() -> Held {
    let (rig, heard) = open(Way::Late).await;
    let client = rig.begin(&rig.text_of(0, "completions", "", text(MINE[0]))).await;
    heard.wait(1).await;
    drop(client);
    rig.cancelled().await;
    own(&rig.ask(1, "completions", "", text(MINE[1])).await, 1, 200)?;
    own(&rig.ask(0, "completions", "", text(MINE[0])).await, 0, 200)
}

/// Two requests get what belongs to the other, proof and all: nobody gets a 200.
async fn l10() -> Held {
    let (rig, _) = open(Way::Crossed).await;
    let ask = |tenant: usize| rig.ask(tenant, "completions", "", text(MINE[tenant]));
    let (first, second) = tokio::join!(ask(0), ask(1));
    own(&first, 0, 502)?;
    own(&second, 1, 502)
}

/// Twelve pairs of requests of two tenants side by side, whole and streamed: each has its own prompt back and nothing else.
async fn l11(way: Way) -> Held {
    let (rig, _) = open(way).await;
    for round in 0..12 {
        let ask = |tenant: usize| {
            let mut body = text(MINE[tenant]);
            body["stream"] = (round + tenant).is_multiple_of(2).into();
            rig.ask(tenant, "completions", "", body)
        };
        let (first, second) = tokio::join!(ask(0), ask(1));
        own(&first, 0, 200)?;
        own(&second, 1, 200)?;
    }
    Ok(())
}

macro_rules! rows {
    ($($test:ident: $scenario:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                assert_eq!($scenario.await, Ok(()));
            }
        )*
    };
}

rows! {
    fault_a07_a_hundred_windows_are_turned_away: a07();
    fault_g03_no_part_of_a_key_is_a_client_s: g03();
    fault_j06_a_client_s_name_names_nothing: j06();
    fault_l01_a_stale_slot_cuts_the_answer: l01();
    fault_l04_each_sequence_has_its_own_ticket: l04();
    fault_l07_a_late_reply_goes_to_nobody: l07();
    fault_l10_a_reply_to_another_is_no_200: l10();
    fault_l11_each_tenant_gets_its_own_text: l11(Way::Honest);
}

/// What the gateway cannot see, the search for text does: an engine that swaps tokens behind good proofs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_l11_each_tenant_gets_its_own_text() {
    caught(l11(Way::CrossedTokens).await, "another's text went out");
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::{a07, caught, g03, j06, l01, l04, l07, l10};
    use gateway::fault::{Fault, seed};

    macro_rules! controls {
        ($($test:ident: $fault:ident, $scenario:ident, $reason:literal;)*) => {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    seed(Fault::$fault);
                    caught($scenario().await, $reason);
                }
            )*
        };
    }

    controls! {
        control_a07_a_hundred_windows_are_turned_away: AnyLength, a07, "the engine was asked for a hundred windows";
        control_g03_no_part_of_a_key_is_a_client_s: UnknownFields, g03, "a client's mm_hashes was taken: 200";
        control_j06_a_client_s_name_names_nothing: ClientNames, j06, "two requests have one name";
        control_l01_a_stale_slot_cuts_the_answer: BelieveStamps, l01, "another's text went out";
        control_l04_each_sequence_has_its_own_ticket: OneName, l04, "6 sequences have 1 names";
        control_l07_a_late_reply_goes_to_nobody: AnyRoute, l07, "status 502 and not 200";
        control_l10_a_reply_to_another_is_no_200: BelieveEvidence, l10, "another's text went out";
    }
}
