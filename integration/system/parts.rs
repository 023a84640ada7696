//! Hard budgets over three gateways and one PostgreSQL: together they spend what there is and no more, whoever is killed, and while
//! the database is away each spends what it holds.

use std::time::Duration;

use integration::http;
use integration::postgres::{by_line, database};
use integration::server::{Home, MODEL, Services};
use integration::wait;
use serde_json::{Value, json};

/// The longest wait for anything; reached only when something is broken.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn ask(home: &Home, line: &str) -> Value {
    home.json(&line.split(' ').chain(["--json"]).collect::<Vec<_>>())
}

fn chat(max_tokens: u64) -> Value {
    json!({ "model": MODEL, "max_tokens": max_tokens, "messages": [{ "role": "user", "content": "Hi." }] })
}

fn total(answer: &http::Answer) -> u64 {
    answer.json()["usage"]["total_tokens"].as_u64().unwrap()
}

/// Another folder for the same store: its pepper is the same.
fn another(home: &Home, store: &str) -> Home {
    let other = Home::new(env!("CARGO_BIN_EXE_bulkhead")).with_store(store.to_owned());
    std::fs::copy(home.path().join("pepper.key"), other.path().join("pepper.key")).unwrap();
    other
}

/// What gateways hold of the tenant's budgets: in all, and of that spent.
fn held(home: &Home) -> (u64, u64) {
    let parts = ask(home, "budget parts --tenant acme");
    let sum = |name: &str| parts.as_array().unwrap().iter().map(|part| part[name].as_u64().unwrap()).sum();
    (sum("part"), sum("spent"))
}

/// What is stored of the tenant's usage, once it is so much.
fn stored(home: &Home, tokens: u64) {
    wait::until("the usage", WAIT_MAX, || {
        let rows = ask(home, "usage --tenant acme --by hour");
        let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
        let sum = |row: &Value| number(row, "prompt_tokens") + number(row, "completion_tokens");
        let all: u64 = rows.as_array().unwrap().iter().map(sum).sum();
        assert!(all <= tokens, "{all} are stored, and {tokens} were used");
        (all == tokens).then_some(())
    });
}

fn start<'a>(home: &'a Home, key: &str) -> (Services<'a>, integration::server::EngineService) {
    let gateway = Services::gateway(home);
    let engine = gateway.engine(&["--pool-tokens", "512"]);
    gateway.knows(key);
    (gateway, engine)
}

#[test]
fn three_gateways_spend_one_budget_and_no_more() {
    let store = database();
    let first = Home::new(env!("CARGO_BIN_EXE_bulkhead")).with_store(store.clone());
    let key = first.key("acme");
    let homes = [another(&first, &store), another(&first, &store), another(&first, &store)];
    let mut gateways: Vec<_> = homes.iter().map(|home| start(home, &key)).collect();
    let used = total(&gateways[0].0.chat(&key, &chat(2)));
    stored(&first, used);
    let limit = 40 * used;
    ask(&first, &format!("budget set --tenant acme --count tokens --per total --limit {limit}"));
    let later = ask(&first, "key create --tenant acme");
    for (gateway, _) in &gateways {
        gateway.knows(later["key"].as_str().unwrap());
    }
    let (mut spent, mut served, mut refused) = (used, [0; 3], 0);
    for round in 0..200 {
        if round == 15 {
            // Killed: it keeps its part, and what it has journalled.
            drop(gateways.remove(1));
            gateways.insert(1, start(&homes[1], &key));
        }
        let at = round % 3;
        let answer = gateways[at].0.chat(&key, &chat(2));
        match answer.status() {
            200 => {
                spent += total(&answer);
                served[at] += 1;
                refused = 0;
            }
            429 => {
                assert_eq!(answer.code(), "insufficient_quota");
                assert_eq!(answer.head.header("x-bulkhead-reason"), Some("tenant.budget.tokens.total"));
                refused += 1;
            }
            status => panic!("{status}: {}", answer.json()),
        }
        assert!(spent <= limit, "{spent} of {limit}");
        assert!(
            held(&first).0 + used <= limit,
            "{:?} are handed out of {limit}, {used} before",
            held(&first)
        );
        if refused == 3 {
            break;
        }
    }
    assert!(refused == 3 && served.iter().all(|count| *count > 5), "{refused} {served:?}");
    assert!(limit - spent < used, "what is left would do for one more: {spent} of {limit}");
    stored(&first, spent);
    // At their end they give back what they did not use.
    for (gateway, _engine) in gateways {
        gateway.stop();
    }
    let spent_of_parts = spent - used;
    assert_eq!(held(&first), (spent_of_parts, spent_of_parts));
}

#[test]
fn without_its_database_a_gateway_spends_what_it_holds() {
    let (store, line) = by_line(&database());
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead")).with_store(store);
    let server = home.up(&["--pool-tokens", "512"]);
    let used = total(&server.chat(&chat(2)));
    let limit = 100 * used;
    ask(&home, &format!("budget set --tenant demo --count tokens --per month --limit {limit}"));
    let later = ask(&home, "key create --tenant demo");
    server.knows(later["key"].as_str().unwrap());
    assert_eq!(server.chat(&chat(2)).status(), 200);
    let parts = || ask(&home, "budget parts --tenant demo");
    let (part, _) = wait::until("a part", WAIT_MAX, || parts()[0]["part"].as_u64());
    assert!(part > 5 * used && part < limit, "{part} of {limit}");
    line.cut();
    // What no part of it could hold: refused for now, by name, and to be tried again.
    let large = wait::until("the refusal", WAIT_MAX, || {
        let answer = server.chat(&chat(2));
        (answer.status() != 200).then_some(answer)
    });
    let (refused, _) = large;
    assert_eq!(
        (refused.status(), refused.code().as_str()),
        (503, "budget_store_unavailable"),
        "{}",
        refused.json()
    );
    assert_eq!(refused.head.header("x-bulkhead-reason"), Some("tenant.budget.tokens.month"));
    assert_eq!(refused.head.header("retry-after"), Some("1"));
    assert_eq!(refused.head.header("x-should-retry"), None);
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&limit.to_string()) && message.contains("does not answer"), "{message}");
    let status = server.status();
    assert!(status["budgets"]["parts"]["unanswered"].as_u64() >= Some(1), "{status}");
    line.heal();
    wait::until("the next answer", WAIT_MAX, || (server.chat(&chat(2)).status() == 200).then_some(()));
    assert_eq!(server.status()["budgets"]["parts"]["away"], false);
}
