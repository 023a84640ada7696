//! P1, from outside: what a tenant gets back is a function of its own requests alone.

use std::collections::BTreeSet;
use std::thread;

use integration::server::{Home, Services};
use serde_json::{Value, json};

const TENANTS: usize = 4;
const REQUESTS: usize = 10;
/// The long request that a tenant sends twice, so that the second finds the first one's pages.
const TWICE: [usize; 2] = [2, 7];

const TOPICS: [&str; 5] = ["rivers", "a lighthouse", "prime numbers", "Größe und Maß", "朝の海 🌊"];

/// Request `index` of tenant `tenant`: long and short, greedy and drawn, penalised and biased, with and without a stop.
fn request(tenant: usize, index: usize) -> Value {
    let topic = TOPICS[(tenant + index) % TOPICS.len()];
    let mut body = json!({
        "model": "smollm2-135m-instruct",
        "messages": [{ "role": "user", "content": format!("Tell me about {topic}, please. Case {tenant}.{index}.") }],
        "max_tokens": 8 + (index * 3) % 13,
        "logprobs": true,
        "top_logprobs": index % 4,
        "temperature": 0,
    });
    match index {
        1 | 6 => {
            body["temperature"] = json!(1.0);
            body["seed"] = json!(1000 * tenant + index);
            body["top_p"] = json!(0.9);
        }
        2 | 7 => {
            let long = format!("Tenant {tenant} asks about {topic}. ").repeat(30);
            body["messages"] =
                json!([{ "role": "system", "content": "Be brief." }, { "role": "user", "content": long }]);
        }
        3 => body["stop"] = json!([" the", "."]),
        4 => {
            body["frequency_penalty"] = json!(1.5);
            body["presence_penalty"] = json!(0.5);
        }
        5 => body["logit_bias"] = json!({ "28": 5, "2": -100 }),
        8 => {
            body["temperature"] = json!(0.7);
            body["seed"] = json!(tenant);
            body["n"] = json!(2);
        }
        _ => {}
    }
    body
}

/// All of an answer that its request decides: texts, tokens, log-probabilities to the last bit, why it ended, how much.
fn decided(answer: &Value) -> String {
    let usage = &answer["usage"];
    json!([answer["choices"], usage["prompt_tokens"], usage["completion_tokens"]]).to_string()
}

#[test]
fn forty_requests_of_four_tenants_get_the_same_bits_together_and_alone() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let keys: Vec<String> = (0..TENANTS).map(|tenant| home.key(&format!("tenant {tenant}"))).collect();
    let services = Services::gateway(&home);

    let engine = services.engine(&["--pool-tokens", "16384"]);
    keys.iter().for_each(|key| services.knows(key));
    let all: Vec<(usize, usize)> = (0..TENANTS * REQUESTS).map(|i| (i % TENANTS, i / TENANTS)).collect();
    let ask = |(tenant, index): (usize, usize)| {
        let answer = services.chat(&keys[tenant], &request(tenant, index));
        assert_eq!(answer.status(), 200, "{tenant}.{index}: {}", answer.json());
        answer.json()
    };
    // The long ones go first once, so that later ones may find their own tenant's pages.
    for tenant in 0..TENANTS {
        ask((tenant, TWICE[0]));
    }
    let (together, most_at_once) = thread::scope(|scope| {
        let asked: Vec<_> = all.iter().map(|at| scope.spawn(|| ask(*at))).collect();
        let mut most: u64 = 0;
        while asked.iter().any(|one| !one.is_finished()) {
            // An engine in the middle of a long step tells nothing.
            most = most.max(services.status()["engine"]["live"].as_u64().unwrap_or(0));
            thread::yield_now();
        }
        (asked.into_iter().map(|one| one.join().unwrap()).collect::<Vec<Value>>(), most)
    });
    engine.stop();
    assert!(most_at_once >= 4, "only {most_at_once} sequences ran together: nothing was mixed");
    let cached = |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    let from_cache = together.iter().filter(|answer| cached(answer) > 0).count();
    assert!(from_cache >= TENANTS, "only {from_cache} answers used their tenant's cache");

    let alone: Vec<Value> = all
        .iter()
        .map(|at| {
            let engine = services.engine(&["--pool-tokens", "1024"]);
            let answer = ask(*at);
            engine.stop();
            assert_eq!(cached(&answer), 0, "the engine was not fresh");
            answer
        })
        .collect();
    for ((at, together), alone) in all.iter().zip(&together).zip(&alone) {
        assert_eq!(decided(together), decided(alone), "{at:?}");
    }

    // The positive controls: the comparison is not blind. Different requests got different bits, and so does another seed.
    let distinct: BTreeSet<String> = alone.iter().map(decided).collect();
    assert!(distinct.len() >= all.len() - TENANTS, "only {} distinct answers", distinct.len());
    let engine = services.engine(&["--pool-tokens", "1024"]);
    let mut other = request(0, 1);
    other["seed"] = json!(424_242);
    let drawn = services.chat(&keys[0], &other).json();
    let place = all.iter().position(|at| *at == (0, 1)).unwrap();
    assert_ne!(decided(&drawn), decided(&alone[place]), "another seed draws the same");
    engine.stop();
}

#[test]
fn a_tenant_never_finds_another_ones_prefix() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let (one, two) = (home.key("one"), home.key("two"));
    let server = home.up(&["--pool-tokens", "4096"]);
    server.knows(&one);
    server.knows(&two);
    let body = request(0, 2);
    let ask = |key: &str| {
        let answer = integration::http::post(server.address, "/v1/chat/completions", key, &body).json();
        (answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap(), decided(&answer))
    };
    let (first, bits) = ask(&one);
    assert_eq!(first, 0);
    let (of_another, same) = ask(&two);
    assert_eq!(of_another, 0, "the second tenant found the first one's pages");
    assert_eq!(same, bits);
    let (again, same) = ask(&one);
    assert!(again > 0, "the first tenant does not find its own pages");
    assert_eq!(same, bits, "a cache hit changes bits");
    let (of_another, same) = ask(&two);
    assert!(of_another > 0, "the second tenant does not find its own pages");
    assert_eq!(same, bits);
}
