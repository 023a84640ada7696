//! What a key, a project and a tenant may take in a minute and at once: what is told of it, and to whom it counts.
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
use std::time::Duration;

use rig::{Answer, Lie, MARKER, Rig, ids};
use serde_json::{Value, json};
use tenant::{
    KeyId, Level, Limit, Limits, Mode, Models, ProjectId, Purpose, Rule, Scope, Scopes, TenantId, UnixMillis,
};

const CHAT: &str = "chat/completions";

fn hello(max_tokens: u32) -> Value {
    json!({ "messages": [{ "role": "user", "content": "Hello." }], "max_tokens": max_tokens })
}

fn most(number: u32) -> Limit {
    Limit::AtMost(NonZeroU32::new(number).unwrap())
}

/// Sets limits of a level, and makes a key that is known when they are.
async fn limited(rig: &Rig, level: impl Fn(KeyId, ProjectId, TenantId) -> Level, limits: Limits) -> String {
    let mut ids = None;
    let (key, secret) = rig
        .key(|tenant, project| {
            ids = Some((project, tenant));
            Purpose::Service { tenant, project, mode: Mode::Live, scopes: Scopes::default() }
        })
        .await;
    let (project, tenant) = ids.unwrap();
    let scope = Scope { level: level(key, project, tenant), models: Models::All };
    let now = UnixMillis::from_system(std::time::SystemTime::now());
    rig.store.set_limits(&Rule { scope, limits }, now).await.unwrap();
    // A later key is known only together with all before it.
    let (_, later) = rig
        .key(|tenant, _| Purpose::Service { tenant, project, mode: Mode::Live, scopes: Scopes::default() })
        .await;
    rig.answered(&later, 200).await;
    secret
}

fn header(answer: &Answer, name: &str) -> Option<String> {
    let head = answer.head.to_lowercase();
    head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).map(str::to_owned)
}

fn error(answer: &Answer) -> Value {
    serde_json::from_str::<Value>(&answer.body).unwrap()["error"].clone()
}

#[tokio::test]
async fn requests_of_a_minute_are_counted_told_and_refused() {
    let rig = Rig::start(Lie::None).await;
    let limits = Limits { requests_per_minute: most(2), ..Limits::OPEN };
    let key = limited(&rig, |key, _, _| Level::Key(key), limits).await;
    for remaining in ["1", "0"] {
        let answer = rig.ask_by(&key, CHAT, hello(100)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(header(&answer, "x-ratelimit-limit-requests").as_deref(), Some("2"));
        assert_eq!(header(&answer, "x-ratelimit-remaining-requests").as_deref(), Some(remaining));
        assert!(header(&answer, "x-ratelimit-reset-requests").unwrap().ends_with('s'));
        assert_eq!(header(&answer, "x-ratelimit-limit-tokens"), None, "no rule limits them");
    }
    let refused = rig.ask_by(&key, CHAT, hello(100)).await;
    assert_eq!(refused.status, 429);
    let told = error(&refused);
    assert_eq!(
        (told["code"].as_str(), told["type"].as_str()),
        (Some("rate_limit_exceeded"), Some("rate_limit_error"))
    );
    let message = told["message"].as_str().unwrap();
    for part in ["requests_per_minute", "key ", "1 asked", "0 of 2 left", "clears in "] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(header(&refused, "x-bulkhead-reason").as_deref(), Some("key.requests_per_minute"));
    assert_eq!(header(&refused, "x-ratelimit-remaining-requests").as_deref(), Some("0"));
    let seconds: u64 = header(&refused, "retry-after").unwrap().parse().unwrap();
    let millis: u64 = header(&refused, "retry-after-ms").unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds) && millis.div_ceil(1_000) == seconds, "{seconds} s, {millis} ms");
    assert_eq!(header(&refused, "x-should-retry"), None);
    let other = rig.ask(0, CHAT, "", hello(100)).await;
    assert_eq!((other.status, header(&other, "x-ratelimit-limit-requests")), (200, None), "another key");
    let refused = rig.recorded_when("refused", 1).await;
    let rejected: Vec<_> = refused.iter().map(|one| &one["outcome"]["rejected"]).collect();
    assert_eq!(rejected, [&json!({ "reason": "rate_limit", "bound": { "asked": 1, "allowed": 2 } })]);
}

/// A request takes the most that it can cost, and gives back what it did not use.
#[tokio::test]
async fn tokens_of_a_minute_are_settled_to_what_was_used() {
    let rig = Rig::start(Lie::None).await;
    let limits = Limits { tokens_per_minute: most(1_000), ..Limits::OPEN };
    let key = limited(&rig, |_, _, tenant| Level::Tenant(tenant), limits).await;
    let left =
        |answer: &Answer| header(answer, "x-ratelimit-remaining-tokens").unwrap().parse::<u32>().unwrap();
    let first = rig.ask_by(&key, CHAT, hello(100)).await;
    assert_eq!(first.status, 200, "{}", first.body);
    let usage = serde_json::from_str::<Value>(&first.body).unwrap()["usage"].clone();
    let (prompt, used) = (usage["prompt_tokens"].as_u64().unwrap(), usage["total_tokens"].as_u64().unwrap());
    assert_eq!(used - prompt, ids(MARKER).len() as u64);
    assert_eq!(u64::from(left(&first)), 1_000 - prompt - 100, "the head goes out before the end");
    let second = rig.ask(0, CHAT, "", hello(100)).await;
    let lasts = 1_000 - used - prompt - 100;
    // The minute goes on between the two: some tokens have run out since.
    assert!((lasts..lasts + 100).contains(&u64::from(left(&second))), "{lasts}: {}", left(&second));

    let never = rig.ask_by(&key, CHAT, hello(1_001)).await;
    assert_eq!(
        (never.status, header(&never, "x-should-retry").as_deref()),
        (429, Some("false")),
        "{}",
        never.body
    );
    assert_eq!((header(&never, "retry-after"), header(&never, "retry-after-ms")), (None, None));
    assert_eq!(header(&never, "x-bulkhead-reason").as_deref(), Some("tenant.tokens_per_minute"));
    assert!(error(&never)["message"].as_str().unwrap().contains("never clears"), "{}", never.body);
    assert_eq!(rig.ask(1, CHAT, "", hello(100)).await.status, 200, "another tenant");
}

#[tokio::test]
async fn requests_at_once_are_counted_until_they_end() {
    let rig = Rig::start(Lie::Silent).await;
    let key =
        limited(&rig, |_, project, _| Level::Project(project), Limits { at_once: most(1), ..Limits::OPEN })
            .await;
    let running = rig.begin(&Rig::text_by(&key, CHAT, "", hello(100))).await;
    let refused = async || {
        loop {
            let text = Rig::text_by(&key, CHAT, "", hello(100));
            let asked = tokio::time::timeout(Duration::from_millis(300), rig.exchange(&text)).await;
            if let Ok(answer) = asked {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(20), refused()).await.unwrap();
    assert_eq!(
        (answer.status, header(&answer, "retry-after").as_deref()),
        (429, Some("1")),
        "{}",
        answer.body
    );
    assert_eq!(header(&answer, "x-bulkhead-reason").as_deref(), Some("project.at_once"));
    drop(running);
    rig.cancelled().await;
    let free = async {
        // With the place given back, a request waits for the engine, which says nothing.
        while tokio::time::timeout(Duration::from_millis(300), rig.ask(0, CHAT, "", hello(100))).await.is_ok()
        {
        }
    };
    tokio::time::timeout(Duration::from_secs(20), free).await.unwrap();
}

#[tokio::test]
async fn a_request_that_is_too_long_for_its_level_is_told_so() {
    let rig = Rig::start(Lie::None).await;
    let limits = Limits { prompt_tokens: most(2), output_tokens: most(50), ..Limits::OPEN };
    let key = limited(&rig, |_, project, _| Level::Project(project), limits).await;
    let prompt = rig.ask_by(&key, CHAT, hello(10)).await;
    assert_eq!((prompt.status, error(&prompt)["code"].as_str()), (400, Some("prompt_limit_exceeded")));
    assert_eq!(header(&prompt, "x-bulkhead-reason").as_deref(), Some("project.prompt_tokens"));
    let short = json!({ "prompt": "Hi", "max_tokens": 51 });
    let output = rig.ask_by(&key, "completions", short).await;
    assert_eq!((output.status, error(&output)["code"].as_str()), (400, Some("output_limit_exceeded")));
    let all = json!({ "prompt": "Hi", "max_tokens": 26, "n": 2 });
    let output = rig.ask_by(&key, "completions", all).await;
    assert_eq!(output.status, 400, "each choice counts");
}
