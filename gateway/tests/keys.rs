//! What a key may do, and what becomes of its requests when it may no more.
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

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use rig::{Answer, Liar, Lie, MARKER, Peer, Rig, answer, ids};
use serde_json::{Value, json};
use tenant::{
    Allowed, AtMost, EndpointScope, Mode, ModelName, Purpose, Reach, Role, Scopes, TenantState, UnixMillis,
};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use wire::{ToEngine, ToGateway};

const CHAT: &str = "chat/completions";

fn now() -> UnixMillis {
    UnixMillis::from_system(SystemTime::now())
}

fn hello() -> Value {
    json!({ "messages": [{ "role": "user", "content": "Hello." }], "max_tokens": 100 })
}

/// The status, the code and the reason of a denial.
fn why(answer: &Answer) -> (u16, String, String) {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{}", answer.body));
    let head = answer.head.to_lowercase();
    let reason = head.lines().find_map(|line| line.strip_prefix("x-bulkhead-reason: ")).unwrap_or_default();
    (answer.status, body["error"]["code"].as_str().unwrap().to_owned(), reason.to_owned())
}

fn because(status: u16, code: &str, reason: &str) -> (u16, String, String) {
    (status, code.to_owned(), reason.to_owned())
}

async fn scoped(rig: &Rig, scopes: Scopes) -> String {
    let (_, key) =
        rig.key(|tenant, project| Purpose::Service { tenant, project, mode: Mode::Live, scopes }).await;
    key
}

fn tokens(number: u32) -> AtMost {
    AtMost::Tokens(NonZeroU32::new(number).unwrap())
}

#[tokio::test]
async fn a_key_may_do_what_its_scopes_say_and_nothing_else() {
    let rig = Rig::start(Lie::None).await;
    let all = Scopes::default;
    let completions = Allowed::Only(vec![EndpointScope::Completions]);
    let elsewhere = Allowed::Only(vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()]);
    let other = Allowed::Only(vec![ModelName::new("another-model").unwrap()]);
    for (scopes, body, expected) in [
        (
            Scopes { endpoints: completions, ..all() },
            hello(),
            because(403, "permission_denied", "key.endpoints"),
        ),
        (
            Scopes { addresses: elsewhere, ..all() },
            hello(),
            because(403, "permission_denied", "key.addresses"),
        ),
        (Scopes { models: other, ..all() }, hello(), because(403, "permission_denied", "key.models")),
        (
            Scopes { prompt_max: tokens(2), ..all() },
            hello(),
            because(400, "prompt_limit_exceeded", "key.prompt_max"),
        ),
        (
            Scopes { output_max: tokens(99), ..all() },
            hello(),
            because(400, "output_limit_exceeded", "key.output_max"),
        ),
    ] {
        let key = scoped(&rig, scopes).await;
        let answer = rig.until_known(&key, async || rig.ask_by(&key, CHAT, body.clone()).await).await;
        assert_eq!(why(&answer), expected, "{}", answer.body);
    }
    let here = Allowed::Only(vec!["127.0.0.0/8".parse().unwrap()]);
    let key =
        scoped(&rig, Scopes { addresses: here, prompt_max: tokens(500), output_max: tokens(100), ..all() })
            .await;
    let answer = rig.until_known(&key, async || rig.ask_by(&key, CHAT, hello()).await).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[tokio::test]
async fn a_key_sees_the_models_that_it_may_use() {
    let rig = Rig::start(Lie::None).await;
    let other = Allowed::Only(vec![ModelName::new("another-model").unwrap()]);
    let key = scoped(&rig, Scopes { models: other, ..Scopes::default() }).await;
    rig.answered(&key, 200).await;
    let listed: Value = serde_json::from_str(&rig.get_by(&key, "/v1/models").await.body).unwrap();
    assert_eq!(listed["data"], json!([]));
    let chat = Scopes { endpoints: Allowed::Only(vec![EndpointScope::ChatCompletions]), ..Scopes::default() };
    let key = scoped(&rig, chat).await;
    rig.answered(&key, 403).await;
    assert_eq!(
        why(&rig.get_by(&key, "/v1/models").await),
        because(403, "permission_denied", "key.endpoints")
    );
}

#[tokio::test]
async fn keys_of_persons_and_auditors_ask_no_models() {
    let rig = Rig::start(Lie::None).await;
    let (_, person) =
        rig.key(|tenant, _| Purpose::Person { reach: Reach::Tenant(tenant), role: Role::Owner }).await;
    let (_, auditor) = rig.key(|tenant, _| Purpose::Auditor { tenant }).await;
    // Known once a key that was made after them is.
    rig.answered(&scoped(&rig, Scopes::default()).await, 200).await;
    let unknown = rig.get_by("bh_live_nobody", "/v1/models").await;
    for key in [person, auditor] {
        let answer = rig.get_by(&key, "/v1/models").await;
        assert_eq!(
            (answer.status, answer.body),
            (401, unknown.body.clone()),
            "as for a key that does not exist"
        );
    }
}

#[tokio::test]
async fn a_suspended_tenant_is_told_so_and_comes_back() {
    let rig = Rig::start(Lie::None).await;
    let key = scoped(&rig, Scopes::default()).await;
    rig.answered(&key, 200).await;
    let tenant = rig.store.find_tenant("acme").await.unwrap().unwrap().id;
    rig.store.set_state(tenant, TenantState::Suspended(now()), now()).await.unwrap();
    rig.answered(&key, 403).await;
    let answer = rig.ask_by(&key, CHAT, hello()).await;
    assert_eq!(why(&answer), because(403, "permission_denied", "tenant.suspended"));
    assert_eq!(rig.ask(1, CHAT, "", hello()).await.status, 200, "another tenant is not");
    rig.store.set_state(tenant, TenantState::Active, now()).await.unwrap();
    rig.answered(&key, 200).await;
}

/// Revoked before the engine has said anything: a refusal, and the engine is told to stop.
#[tokio::test]
async fn what_waits_of_a_revoked_key_is_refused() {
    let rig = Rig::start(Lie::Silent).await;
    let (id, key) = rig
        .key(|tenant, project| Purpose::Service {
            tenant,
            project,
            mode: Mode::Live,
            scopes: Scopes::default(),
        })
        .await;
    rig.answered(&key, 200).await;
    let (answer, ()) = tokio::join!(rig.ask_by(&key, CHAT, hello()), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        rig.store.revoke_key(id, now()).await.unwrap();
    });
    assert_eq!(why(&answer), because(401, "invalid_api_key", "invalid_api_key"));
    assert!(answer.body.contains("revoked"), "{}", answer.body);
    rig.cancelled().await;
    let ended = rig.recorded_when("ended", 1).await;
    assert_eq!(ended[0]["outcome"]["failed"]["failure"], "revoked", "{}", ended[0]);
    rig.answered(&key, 401).await;
}

/// Revoked while its answer is streamed: an error event ends it, never `[DONE]`.
#[tokio::test]
async fn a_stream_of_a_revoked_key_is_cut() {
    let rig = Rig::start(Lie::Stalls).await;
    let (id, key) = rig
        .key(|tenant, project| Purpose::Service {
            tenant,
            project,
            mode: Mode::Live,
            scopes: Scopes::default(),
        })
        .await;
    rig.answered(&key, 200).await;
    let mut body = hello();
    body["stream"] = true.into();
    let mut client = rig.begin(&Rig::text_by(&key, CHAT, "", body)).await;
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("\"content\":\"") {
        assert!(client.read_buf(&mut read).await.unwrap() > 0, "{}", String::from_utf8_lossy(&read));
    }
    rig.store.revoke_key(id, now()).await.unwrap();
    client.read_to_end(&mut read).await.unwrap();
    let text = String::from_utf8_lossy(&read).into_owned();
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("\"code\":\"invalid_api_key\""), "{text}");
    assert!(!text.contains("[DONE]"), "{text}");
    rig.cancelled().await;
}

/// Proves, and then says at once more than sockets hold.
struct Flood {
    said: watch::Sender<u32>,
}

impl Peer for Flood {
    fn hear(&mut self, message: ToEngine) -> Option<Vec<ToGateway>> {
        let ToEngine::Submit(submit) = message else {
            let marker = ids(MARKER);
            return Liar { lie: Lie::None, marker, said: self.said.clone() }.hear(message);
        };
        let mut frames = answer(&submit, Lie::Stalls, &ids(MARKER))?;
        if let Some(ToGateway::Delta(delta)) = frames.last_mut() {
            let mut token = delta.tokens[0].clone();
            token.top = vec![(token.id, token.logprob); 20];
            delta.tokens = vec![token; submit.max_tokens as usize];
        }
        Some(frames)
    }
}

/// A client that does not read what is written to it: revoked, it is let go nevertheless, long before a write is given up.
async fn slow_reader_is_cut() -> Value {
    let (said, cancelled) = watch::channel(0);
    let rig = Rig::with(Flood { said }, cancelled).await;
    let (id, key) = rig
        .key(|tenant, project| Purpose::Service {
            tenant,
            project,
            mode: Mode::Live,
            scopes: Scopes::default(),
        })
        .await;
    rig.answered(&key, 200).await;
    let mut body = hello();
    body["max_tokens"] = 1_900.into();
    for (name, value) in
        [("stream", json!(true)), ("n", 8.into()), ("logprobs", true.into()), ("top_logprobs", 20.into())]
    {
        body[name] = value;
    }
    let mut client = rig.begin(&Rig::text_by(&key, CHAT, "", body)).await;
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("\"content\":\"") {
        assert!(client.read_buf(&mut read).await.unwrap() > 0, "{}", String::from_utf8_lossy(&read));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    rig.store.revoke_key(id, now()).await.unwrap();
    let ended = rig.recorded_when("ended", 1).await;
    drop(client);
    ended[0]["outcome"]["failed"]["failure"].clone()
}

#[tokio::test]
async fn a_client_that_does_not_read_outlasts_no_revocation() {
    assert_eq!(slow_reader_is_cut().await, "revoked");
}

#[cfg(feature = "seeded-faults")]
#[tokio::test]
async fn control_writes_that_are_not_cut_are_noticed() {
    gateway::fault::seed(gateway::fault::Fault::WritesUncut);
    let cut = tokio::time::timeout(Duration::from_secs(5), slow_reader_is_cut()).await;
    assert_ne!(cut.ok(), Some("revoked".into()));
}

/// A store that has been away for longer than the policy allows: nobody is let in, and it is said why.
#[tokio::test]
async fn keys_that_are_too_old_let_nobody_in() {
    let rig = Rig::unfollowed("keys_age_max_ms = 1_000").await;
    let wait = async {
        while rig.ask(0, CHAT, "", hello()).await.status == 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap();
    let answer = rig.ask(0, CHAT, "", hello()).await;
    assert_eq!(why(&answer), because(503, "keys_unavailable", "keys_unavailable"));
    assert!(answer.head.to_lowercase().contains("retry-after: 1"), "{}", answer.head);
    assert_eq!(rig.readiness().await.body, "keys too old\n");
}

/// An address that goes on failing is told to stop; a key that works is let in from there nevertheless.
#[tokio::test]
async fn an_address_that_fails_too_often_is_told_so() {
    let rig = Rig::unfollowed("auth_failures_per_minute = 5").await;
    for _ in 0..5 {
        assert_eq!(rig.get_by("bh_live_nobody", "/v1/models").await.status, 401);
    }
    let answer = rig.get_by("bh_live_nobody", "/v1/models").await;
    assert_eq!(why(&answer), because(429, "rate_limit_exceeded", "address.failures"));
    let head = answer.head.to_lowercase();
    let wait = head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
    assert!((1..=12).contains(&wait.parse::<u64>().unwrap()), "{wait}");
    assert_eq!(rig.ask(0, CHAT, "", hello()).await.status, 200);
}
