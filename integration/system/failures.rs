//! What a client sees when something ends in the middle: the engine, the client itself, the server.

use std::time::Duration;

use integration::http::Connection;
use integration::process::signal;
use integration::server::{Home, Server};
use integration::wait;
use serde_json::{Value, json};

/// Longest wait for pages to come back after their sequence ended; what is promised is 100 ms, on a machine that is not busy.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// Longest wait for an engine that was killed to be back.
const BACK_MAX: Duration = Duration::from_secs(60);

/// A stream that does not end by itself before a thousand tokens.
fn endless() -> Value {
    json!({
        "model": "smollm2-135m-instruct",
        "messages": [{ "role": "user", "content": "Count from one upwards, for ever." }],
        "max_tokens": 1000,
        "temperature": 0,
        "logit_bias": { "2": -100 },
        "stream": true,
    })
}

fn short() -> Value {
    json!({
        "model": "smollm2-135m-instruct",
        "messages": [{ "role": "user", "content": "Say hello." }],
        "max_tokens": 4,
        "temperature": 0,
    })
}

/// Opens a stream and reads until some events have come.
fn streaming(server: &Server) -> Connection {
    let mut client = Connection::open(server.address);
    client.post("/v1/chat/completions", &server.key, endless().to_string().as_bytes());
    assert_eq!(client.head().unwrap().status, 200);
    for _ in 0..4 {
        client.chunk().unwrap().expect("a stream goes on");
    }
    client
}

/// Reads a stream to its end: its text, and whether the body was ended as HTTP ends one.
fn rest(client: &mut Connection) -> (String, bool) {
    let mut text = String::new();
    loop {
        match client.chunk() {
            Ok(Some(chunk)) => text.push_str(&String::from_utf8_lossy(&chunk)),
            Ok(None) => return (text, true),
            Err(_) => return (text, false),
        }
    }
}

fn number(status: &Value, part: &str, name: &str) -> u64 {
    status[part][name].as_u64().unwrap_or_else(|| panic!("no {part}.{name} in {status}"))
}

#[test]
fn an_engine_that_is_killed_fails_its_streams_and_comes_back() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "4096"]);
    let mut client = streaming(&server);
    let engines = server.process.children();
    assert_eq!(engines.len(), 1, "one engine");
    signal("KILL", engines[0]);

    let (text, _) = rest(&mut client);
    assert!(text.contains("\"error\""), "no error event: {text}");
    assert!(!text.contains("[DONE]"), "a failed stream says it is done: {text}");
    assert_eq!(integration::http::get(server.address, "/livez", None).status(), 200, "the gateway is gone");

    // While it is away a request gets an honest answer; then it is back, as another process.
    wait::until("answer from a new engine", BACK_MAX, || {
        let answer = server.chat(&short());
        assert!([200, 502, 503].contains(&answer.status()), "{}", answer.json());
        (answer.status() == 200).then_some(())
    });
    let back = server.process.children();
    assert_eq!(back.len(), 1);
    assert_ne!(back, engines);
    assert!(number(&server.status(), "requests", "failed") >= 1);
}

#[test]
fn a_client_that_leaves_frees_its_pages() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "4096"]);
    let client = streaming(&server);
    let before = server.status();
    assert!(number(&before, "engine", "leased") > 0, "{before}");
    client.hang_up();
    let (after, took) = wait::until("free pages", SETTLE_MAX, || {
        let status = server.status();
        (number(&status, "engine", "leased") == 0).then_some(status)
    });
    println!("pages free {} ms after the client left", took.as_millis());
    let cancelled = number(&after, "requests", "cancelled") - number(&before, "requests", "cancelled");
    assert_eq!(cancelled, 1, "it ended some other way: {after}");
    assert_eq!(number(&after, "requests", "completed"), number(&before, "requests", "completed"));
    assert_eq!(server.chat(&short()).status(), 200);
}

#[test]
fn a_server_that_is_told_to_end_lets_a_stream_finish() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let mut server = home.up(&["--pool-tokens", "4096"]);
    let mut client = Connection::open(server.address);
    let mut body = endless();
    body["max_tokens"] = json!(60);
    client.post("/v1/chat/completions", &server.key, body.to_string().as_bytes());
    assert_eq!(client.head().unwrap().status, 200);
    client.chunk().unwrap().expect("a stream goes on");
    server.process.terminate();
    let (text, whole) = rest(&mut client);
    assert!(whole && text.contains("[DONE]"), "the stream was cut: {text}");
    let (code, said) = server.process.wait();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_drain_has_an_end() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let policy = home.path().join("limits.toml");
    std::fs::write(&policy, "drain_ms = 200\n").unwrap();
    let mut server = home.up(&["--pool-tokens", "4096", "--policy", policy.to_str().unwrap()]);
    let mut client = streaming(&server);
    server.process.terminate();
    let (text, _) = rest(&mut client);
    assert!(text.contains("\"error\""), "a stream that was cut must say so: {text}");
    assert!(!text.contains("[DONE]"), "a stream that was cut says it is done");
    let (code, said) = server.process.wait();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn an_engine_never_outlives_its_server() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let mut server = home.up(&["--pool-tokens", "1024"]);
    let engine = server.process.children()[0];
    signal("KILL", server.process.pid());
    server.process.wait();
    wait::until("end of the engine", SETTLE_MAX, || {
        let state = std::fs::read_to_string(format!("/proc/{engine}/stat")).unwrap_or_default();
        // A zombie has ended; who inherits it collects it.
        (state.is_empty() || state.contains(") Z")).then_some(())
    });
    // Its stale socket and lock do not keep the next one from starting.
    let server = home.up(&["--pool-tokens", "1024"]);
    assert_eq!(server.chat(&short()).status(), 200);
}
