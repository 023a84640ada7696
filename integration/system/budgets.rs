//! Budgets, prices and usage with the real binary: set from the command line, obeyed by a server that runs, and never lost.

use std::time::Duration;

use integration::http;
use integration::postgres::{by_line, database};
use integration::server::{Home, MODEL, Server};
use integration::wait;
use serde_json::{Value, json};

/// The longest wait for anything; reached only when something is broken.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn ask(home: &Home, line: &str) -> Value {
    home.json(&line.split(' ').chain(["--json"]).collect::<Vec<_>>())
}

fn run(home: &Home, line: &str) -> (Option<i32>, String) {
    let output = home.run(&line.split(' ').collect::<Vec<_>>());
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn chat(max_tokens: u32) -> Value {
    json!({ "model": MODEL, "max_tokens": max_tokens, "messages": [{ "role": "user", "content": "Count from one upwards, for ever." }] })
}

/// Prompt and completion tokens of an answer.
fn tokens(answer: &http::Answer) -> (u64, u64) {
    let usage = &answer.json()["usage"];
    (usage["prompt_tokens"].as_u64().unwrap(), usage["completion_tokens"].as_u64().unwrap())
}

/// What is listed of the demo tenant once so many requests are in it: requests, prompt, completion, cost.
fn used(home: &Home, requests: u64) -> [u64; 4] {
    let read = || {
        let rows = ask(home, "usage --tenant demo --by hour");
        ["requests", "prompt_tokens", "completion_tokens", "cost_micro"]
            .map(|name| rows.as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>())
    };
    wait::until("the usage", WAIT_MAX, || Some(read()).filter(|sums| sums[0] >= requests)).0
}

/// The same once the store has all there is.
fn settled(home: &Home, server: &Server) -> [u64; 4] {
    wait::until("all usage", WAIT_MAX, || {
        let budgets = server.status()["budgets"].clone();
        (budgets["outstanding"] == 0 && budgets["usage_backlog"] == 0).then_some(())
    });
    used(home, 1)
}

/// Waits until the server obeys what was set last.
fn obeys(server: &Server, status: u16, body: &Value) {
    wait::until("the server to follow", WAIT_MAX, || (server.chat(body).status() == status).then_some(()));
}

#[test]
fn a_budget_binds_a_running_server_and_usage_says_what_it_cost() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "512"]);
    std::fs::write(
        home.path().join("prices.toml"),
        format!("[models.\"{MODEL}\"]\nprompt = \"2\"\ncompletion = \"5.5\"\n"),
    )
    .unwrap();
    let (code, said) = run(&home, &format!("price apply {}", home.path().join("prices.toml").display()));
    assert_eq!((code, said.contains("1 models have a price")), (Some(0), true), "{said}");
    let price =
        json!([{ "model": MODEL, "prompt": 2_000_000, "cached": 2_000_000, "completion": 5_500_000 }]);
    assert_eq!(ask(&home, "price list"), price);

    let set = ask(&home, "budget set --tenant demo --count tokens --per day --limit 0 --warn-at 50,80");
    assert_eq!((&set[0]["limit"], &set[0]["warn_at"]), (&json!(0), &json!([50, 80])));
    obeys(&server, 429, &chat(2));
    let refused = server.chat(&chat(2));
    assert_eq!(refused.code(), "insufficient_quota");
    assert_eq!(refused.head.header("x-bulkhead-reason"), Some("tenant.budget.tokens.day"));
    let (code, said) = run(&home, "budget lift --tenant demo --count tokens --per day");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run(&home, "budget lift --tenant demo --count tokens --per day");
    assert_eq!((code, said.contains("budget list")), (Some(2), true), "{said}");
    ask(&home, "budget set --tenant demo --count money --per month --limit 100");
    obeys(&server, 200, &chat(2));
    let before = settled(&home, &server);

    let answers: Vec<_> = (1..=4).map(|count| server.chat(&chat(count))).collect();
    let sum = |part: fn((u64, u64)) -> u64| answers.iter().map(|one| part(tokens(one))).sum::<u64>();
    let (prompts, completions) = (sum(|(prompt, _)| prompt), sum(|(_, completion)| completion));
    let after = used(&home, before[0] + 4);
    let cost: u64 = answers.iter().map(|one| (2 * tokens(one).0) + (11 * tokens(one).1).div_ceil(2)).sum();
    let added: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(added, [4, prompts, completions, cost]);
    let listed = ask(&home, "budget list --tenant demo");
    assert_eq!((&listed[0]["count"], &listed[0]["spent"]), (&json!("money"), &json!(after[3])));
    let by_key = ask(&home, "usage --tenant demo --each key,model");
    assert_eq!((&by_key[0]["model"], by_key[0]["key"].is_string()), (&json!(MODEL), true));
    assert_eq!(by_key[0]["project"], Value::Null);
    for (line, told) in [
        ("budget set --tenant demo --count money --per day --limit 1.0000001", "6 decimals"),
        ("budget set --tenant demo --count tokens --per week --limit 1", "day"),
        ("budget set --tenant demo --count tokens --per day --limit 1 --warn-at 80,50", "each above"),
        ("usage --tenant demo --from 2026-13-01", "2026-12-03"),
        ("usage --tenant demo --from 2026-12-03 --to 2026-12-03", "not before"),
    ] {
        let (code, said) = run(&home, line);
        assert_eq!((code, said.contains(told)), (Some(2), true), "{line}: {said}");
    }
}

/// Killed in the midst of answers: what was billed stays billed, nothing stays reserved, and the budget still holds.
#[test]
fn a_server_that_is_killed_forgets_no_usage_and_holds_no_reservation() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "2048"]);
    let first = server.chat(&chat(3));
    let (prompt, completion) = tokens(&first);
    // So that what was used before the budget was there counts in it.
    settled(&home, &server);
    let limit = 2 * prompt + completion + 120;
    ask(&home, &format!("budget set --tenant demo --count tokens --per total --limit {limit}"));
    // A later key is known only together with all before it.
    let later = ask(&home, "key create --tenant demo");
    server.knows(later["key"].as_str().unwrap());
    assert_eq!(used(&home, 1)[..3], [1, prompt, completion]);
    let mut body = chat(120);
    body["stream"] = true.into();
    // The model's end of turn, so that it does not end by itself.
    body["logit_bias"] = json!({ "2": -100 });
    let mut stream = http::Connection::open(server.address);
    stream.post("/v1/chat/completions", &server.key, body.to_string().as_bytes());
    assert_eq!(stream.head().unwrap().status, 200);
    for _ in 0..40 {
        stream.chunk().unwrap().expect("it goes on");
    }
    assert_eq!(server.status()["budgets"]["outstanding"], 1);
    assert_eq!(server.chat(&chat(1)).status(), 429, "all of it is spent or reserved");
    drop(server);

    let server = home.up(&["--pool-tokens", "2048"]);
    assert_eq!(server.status()["budgets"]["outstanding"], 0);
    let after = used(&home, 2);
    assert_eq!(after[..2], [2, 2 * prompt]);
    // At least the last mark that is surely on disk, at most what was sent to the client and a little more.
    let written = after[2] - completion;
    assert!((32..=120).contains(&written), "{written}");
    let left = limit - 2 * prompt - completion - written;
    let fits = u32::try_from(left - prompt).unwrap();
    assert_eq!(server.chat(&chat(fits + 1)).status(), 429, "the sum is what was billed");
    assert_eq!(server.chat(&chat(fits)).status(), 200, "and no more");
}

/// While the database is away requests are served and counted; when it is back it has all of them, once.
#[test]
fn usage_waits_for_a_database_that_is_away() {
    let (store, line) = by_line(&database());
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead")).with_store(store);
    let server = home.up(&["--pool-tokens", "512"]);
    ask(&home, "budget set --tenant demo --count tokens --per month --limit 1000000");
    // A later key is known only together with all before it; and the first request that a budget binds asks the database.
    let later = ask(&home, "key create --tenant demo");
    server.knows(later["key"].as_str().unwrap());
    let mut answers = vec![server.chat(&chat(2))];
    used(&home, 1);
    line.cut();
    for _ in 0..20 {
        answers.push(server.chat(&chat(2)));
    }
    assert!(server.status()["budgets"]["usage_backlog"].as_u64() > Some(0), "{}", server.status());
    assert!(answers.iter().all(|answer| answer.status() == 200));
    line.heal();
    let sum = |part: fn((u64, u64)) -> u64| answers.iter().map(|one| part(tokens(one))).sum::<u64>();
    let all = used(&home, 21);
    assert_eq!(all[..3], [21, sum(|(prompt, _)| prompt), sum(|(_, completion)| completion)]);
    wait::until("the backlog's end", WAIT_MAX, || {
        (server.status()["budgets"]["usage_backlog"] == 0).then_some(())
    });
    assert_eq!(used(&home, 21), all, "once");
}
