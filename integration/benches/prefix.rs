//! What a prefix cache gives its own tenant, and does not give another: time to the first byte of a streamed answer to a prompt
//! with a prefix of 2,000 tokens, the first time, the second time, and the first time for another tenant.
//!
//! Run it with `BULKHEAD_TEST_MODEL=… cargo bench --bench prefix`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench: to fail is its right"
)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use integration::http::Connection;
use integration::server::Home;
use serde_json::{Value, json};

/// Prefixes that are measured, after one to warm up.
const PREFIXES: usize = 5;
/// Tokens of a prefix.
const PREFIX: usize = 2000;
/// Tokens behind it, other ones in each request.
const TAIL: usize = 8;

fn main() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let (one, two) = (home.key("one"), home.key("two"));
    let server = home.up(&["--pool-tokens", "16384"]);
    server.knows(&one);
    server.knows(&two);
    let (mut first, mut second, mut other) = (vec![], vec![], vec![]);
    for place in 0..=PREFIXES {
        let ask = |key: &str, tail| first_byte(server.address, key, &prompt(place, tail));
        let (taken, cached) = ask(&one, 1);
        assert_eq!(cached, 0, "the prefix is not new");
        let (again, found) = ask(&one, 2);
        assert_eq!(found, PREFIX as u64, "the tenant does not find its own prefix");
        let (of_another, cached) = ask(&two, 3);
        assert_eq!(cached, 0, "another tenant found the prefix");
        if place > 0 {
            first.push(taken);
            second.push(again);
            other.push(of_another);
        }
    }
    println!("{PREFIXES} prefixes of {PREFIX} tokens, {TAIL} more behind each; time to the first byte");
    for (whose, times) in
        [("tenant A, first", &first), ("tenant A, second", &second), ("tenant B, first", &other)]
    {
        let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        println!("{whose}: median {}, from {} to {}", ms(median(times)), ms(*least), ms(*most));
    }
    let ratio = |times: &[Duration]| median(&first).as_secs_f64() / median(times).as_secs_f64();
    println!("A's second request is {:.1} times sooner than its first", ratio(&second));
    println!("B's first request is {:.3} times sooner than A's first", ratio(&other));
}

/// Token ids: a prefix of its own for each `place`, and a tail of its own for each request.
fn prompt(place: usize, tail: usize) -> Vec<usize> {
    let id = |mixed: usize| 1000 + mixed % 40_000;
    let prefix = (0..PREFIX).map(|at| id(place * 7919 + at * 104_729));
    prefix.chain((0..TAIL).map(|at| id(place * 6007 + tail * 30_011 + at * 1_299_709))).collect()
}

/// Time to the first byte of the answer's body, and the tokens that were cached.
fn first_byte(address: SocketAddr, key: &str, prompt: &[usize]) -> (Duration, u64) {
    let body = json!({
        "model": "smollm2-135m-instruct", "prompt": prompt, "max_tokens": 1, "temperature": 0,
        "stream": true, "stream_options": { "include_usage": true },
    });
    let mut connection = Connection::open(address);
    let start = Instant::now();
    connection.post("/v1/completions", key, body.to_string().as_bytes());
    let head = connection.head().expect("an answer");
    let mut text = connection.chunk().expect("a body").expect("not an empty one");
    let took = start.elapsed();
    while let Some(chunk) = connection.chunk().expect("a whole body") {
        text.extend(chunk);
    }
    let text = String::from_utf8_lossy(&text);
    assert_eq!(head.status, 200, "{text}");
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter_map(|event| serde_json::from_str::<Value>(event).ok());
    let usage = events.map(|event| event["usage"].clone()).find(Value::is_object).expect("the usage");
    (took, usage["prompt_tokens_details"]["cached_tokens"].as_u64().expect("cached tokens"))
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
