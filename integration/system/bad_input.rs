//! What bad input gets: the right status, code and `param`, numbers in the message, and a connection that still works.

use integration::http::{Answer, Connection};
use integration::server::{Home, Server};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

/// One bad body, and what its answer must be.
struct Row {
    name: &'static str,
    body: Vec<u8>,
    status: u16,
    code: Option<&'static str>,
    param: Option<&'static str>,
    /// Parts that the message must have: what was asked, what is allowed.
    told: &'static [&'static str],
}

fn good() -> Value {
    json!({
        "model": "smollm2-135m-instruct",
        "messages": [{ "role": "user", "content": "Say hello." }],
        "max_tokens": 2,
        "temperature": 0,
    })
}

/// A good body with one field set otherwise.
fn with(field: &str, value: Value) -> Vec<u8> {
    let mut body = good();
    body[field] = value;
    body.to_string().into_bytes()
}

/// A good body with raw JSON for one field.
fn raw(field: &str, value: &str) -> Vec<u8> {
    let mut body = good().to_string();
    assert_eq!(body.pop(), Some('}'));
    format!("{body},\"{field}\":{value}}}").into_bytes()
}

fn row(name: &'static str, body: Vec<u8>, param: Option<&'static str>, told: &'static [&'static str]) -> Row {
    Row { name, body, status: 400, code: None, param, told }
}

fn broken_bodies() -> Vec<Row> {
    let whole = good().to_string().into_bytes();
    let mut not_utf8 = with("user", json!("MARK"));
    let mark = not_utf8.windows(4).position(|window| window == b"MARK").unwrap();
    not_utf8[mark] = 0xff;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    vec![
        row("nothing", vec![], None, &[]),
        row("no JSON", b"hello".to_vec(), None, &[]),
        row("half of a body", whole[..whole.len() / 2].to_vec(), None, &[]),
        row("two bodies", [whole.clone(), whole].concat(), None, &[]),
        row("an array", b"[]".to_vec(), None, &[]),
        row("not UTF-8", not_utf8, None, &[]),
        row("deep nesting", raw("metadata", &deep), None, &["64"]),
        row("a field twice", raw("max_tokens", "3"), Some("max_tokens"), &[]),
        row("NaN", raw("top_p", "NaN"), None, &[]),
        row("a number that no float holds", raw("top_p", "1e999"), None, &[]),
    ]
}

fn wrong_fields() -> Vec<Row> {
    let message = |message: Value| with("messages", json!([message]));
    vec![
        row("no messages", with("messages", json!([])), Some("messages"), &[]),
        row("messages of the wrong type", with("messages", json!("hello")), Some("messages"), &[]),
        row("a message that is none", message(json!(1)), Some("messages"), &[]),
        row("an unknown role", message(json!({ "role": "root", "content": "x" })), Some("messages"), &[]),
        row("no content", message(json!({ "role": "user" })), Some("messages"), &[]),
        row(
            "content of the wrong type",
            message(json!({ "role": "user", "content": 1 })),
            Some("messages"),
            &[],
        ),
        row("a model of the wrong type", with("model", json!(1)), Some("model"), &[]),
        row("nine choices", with("n", json!(9)), Some("n"), &["9", "8"]),
        row("no choice", with("n", json!(0)), Some("n"), &["0"]),
        row("half a choice", with("n", json!(1.5)), Some("n"), &[]),
        row("negative tokens", with("max_tokens", json!(-1)), Some("max_tokens"), &["-1"]),
        row("no tokens", with("max_tokens", json!(0)), Some("max_tokens"), &["0"]),
        row("tokens as text", with("max_tokens", json!("2")), Some("max_tokens"), &[]),
        row("hot", with("temperature", json!(2.1)), Some("temperature"), &["2.1", "2"]),
        row("cold", with("temperature", json!(-0.1)), Some("temperature"), &["-0.1", "0"]),
        row("more than all", with("top_p", json!(1.1)), Some("top_p"), &["1.1", "1"]),
        row("a steep penalty", with("frequency_penalty", json!(3)), Some("frequency_penalty"), &["3", "2"]),
        row("many likeliest", with("top_logprobs", json!(21)), Some("top_logprobs"), &["21", "20"]),
        row("a heavy bias", with("logit_bias", json!({ "1": 101 })), Some("logit_bias"), &["101", "100"]),
        row("a bias on no token", with("logit_bias", json!({ "x": 1 })), Some("logit_bias"), &[]),
        row("five stops", with("stop", json!(["a", "b", "c", "d", "e"])), Some("stop"), &["5", "4"]),
        row("a stream of the wrong type", with("stream", json!("yes")), Some("stream"), &[]),
        row("a huge seed", raw("seed", "99999999999999999999999"), Some("seed"), &[]),
        row("an unknown field", with("reasoning", json!({ "effort": "high" })), Some("reasoning"), &[]),
        row("tools", with("tools", json!([{ "type": "function" }])), Some("tools"), &[]),
        row(
            "a format",
            with("response_format", json!({ "type": "json_object" })),
            Some("response_format"),
            &[],
        ),
    ]
}

fn unfit() -> Vec<Row> {
    let long = "many words ".repeat(20_000);
    vec![
        Row {
            name: "an unknown model",
            body: with("model", json!("gpt-4o")),
            status: 404,
            code: Some("model_not_found"),
            param: Some("model"),
            told: &[],
        },
        Row {
            name: "too long",
            body: with("messages", json!([{ "role": "user", "content": long }])),
            status: 400,
            code: Some("context_length_exceeded"),
            param: Some("messages"),
            told: &["1024"],
        },
        Row {
            name: "huge max_tokens",
            body: with("max_tokens", json!(4_000_000_000_u64)),
            status: 400,
            code: Some("context_length_exceeded"),
            param: Some("max_tokens"),
            told: &["1024", "4000000"],
        },
    ]
}

fn check(row: &Row, answer: &Answer) {
    let body = answer.json();
    let error = &body["error"];
    let seen = format!("{}: {} {body}", row.name, answer.status());
    assert_eq!(answer.status(), row.status, "{seen}");
    assert_eq!(error["type"], "invalid_request_error", "{seen}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(!message.is_empty(), "{seen}");
    if let Some(code) = row.code {
        assert_eq!(error["code"], code, "{seen}");
    }
    match (row.param, error["param"].as_str()) {
        // `messages.0.role` says more than `messages`.
        (Some(wanted), Some(param)) => assert!(param.starts_with(wanted), "{seen}"),
        (wanted, param) => assert_eq!(wanted, param, "{seen}"),
    }
    for part in row.told {
        assert!(message.contains(part), "no {part} in {seen}");
    }
    assert!(answer.head.header("x-request-id").is_some(), "{seen}");
}

/// One request with `body` on `client`, which must then still be of use.
fn refused(client: &mut Connection, server: &Server, path: &str, body: &[u8]) -> Answer {
    client.post(path, &server.key, body);
    let answer = client.answer();
    client.get("/v1/models", Some(&server.key));
    let models = client.try_answer();
    assert!(models.is_ok_and(|models| models.status() == 200), "the connection is of no use: {answer:?}");
    answer
}

#[test]
fn every_bad_body_gets_its_answer_and_the_connection_lives() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "1024"]);
    let steps = server.status()["engine"]["steps"].clone();
    let mut client = Connection::open(server.address);
    let mut wrong = vec![];
    for row in broken_bodies().into_iter().chain(wrong_fields()).chain(unfit()) {
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check(&row, &refused(&mut client, &server, CHAT, &row.body));
        }));
        if let Err(cause) = checked {
            wrong.push(cause.downcast_ref::<String>().cloned().unwrap_or_else(|| row.name.to_owned()));
            client = Connection::open(server.address);
        }
    }
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(server.status()["engine"]["steps"], steps, "a bad body reached the engine");
    assert_eq!(server.chat(&good()).status(), 200);
    assert!(!server.process.said().contains("panicked"), "{}", server.process.said());
}

#[test]
fn keys_that_do_not_work_look_alike() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let revoked = home.key("acme");
    let id = home.json(&["key", "list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let server = home.up(&["--pool-tokens", "1024"]);
    server.knows(&revoked);
    assert!(home.run(&["key", "revoke", &id]).status.success());
    let ask = |key: &str| integration::http::post(server.address, CHAT, key, &good());
    integration::wait::until("refusal of a revoked key", std::time::Duration::from_secs(20), || {
        (ask(&revoked).status() == 401).then_some(())
    });
    let mut flipped = server.key.clone();
    let last = flipped.pop().unwrap();
    flipped.push(if last == 'a' { 'b' } else { 'a' });
    let mut answers = vec![];
    for key in [revoked.as_str(), "garbage", "", flipped.as_str(), &"x".repeat(5000), "bh_live_\u{e9}"] {
        let answer = ask(key);
        assert_eq!((answer.status(), answer.code().as_str()), (401, "invalid_api_key"), "{key:?}");
        answers.push(answer.json()["error"].clone());
    }
    assert!(answers.iter().all(|answer| answer == &answers[0]), "they can be told apart: {answers:?}");

    // No header at all, and another scheme.
    for header in ["", "authorization: Basic dTpw\r\n"] {
        let mut client = Connection::open(server.address);
        let body = good().to_string();
        let head =
            format!("POST {CHAT} HTTP/1.1\r\nhost: b\r\n{header}content-length: {}\r\n\r\n", body.len());
        client.send(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
        assert_eq!(client.answer().status(), 401, "{header:?}");
    }
}

#[test]
fn a_body_over_its_bound_is_refused_before_it_has_come() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "1024"]);
    let head = |length: &str| {
        format!("POST {CHAT} HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {}\r\n{length}\r\n\r\n", server.key)
    };
    // 100 MB that are announced: the answer comes though nothing of them was sent.
    let mut client = Connection::open(server.address);
    client.send(head("content-length: 100000000").as_bytes()).unwrap();
    let answer = client.answer();
    assert_eq!((answer.status(), answer.code().as_str()), (413, "request_too_large"), "{}", answer.json());
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("100000000") && message.contains("4194304"), "{message}");

    // 100 MB that are not announced: cut off at the bound.
    let mut client = Connection::open(server.address);
    client.send(head("transfer-encoding: chunked").as_bytes()).unwrap();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    let sent = (0..1600).take_while(|_| client.send(&chunk).is_ok()).count();
    assert!(sent < 1600, "all 100 MB were taken");
    if let Ok(answer) = client.try_answer() {
        assert_eq!(answer.status(), 413, "{}", answer.json());
    }
    assert_eq!(server.chat(&good()).status(), 200, "the server suffered");
}
