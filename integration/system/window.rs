//! P4, from outside: the window is what the pool holds, and it is exact.

use std::time::Duration;

use integration::server::Home;
use serde_json::{Value, json};

const WINDOW: u64 = 512;

fn words(count: usize, max_tokens: u64) -> Value {
    json!({
        "model": "smollm2-135m-instruct",
        "prompt": vec![" word"; count].concat(),
        "max_tokens": max_tokens,
        "temperature": 0,
    })
}

#[test]
fn a_request_of_exactly_the_window_works_and_one_token_more_does_not() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let window = WINDOW.to_string();
    let server = home.up(&["--pool-tokens", &window]);
    let models = integration::http::get(server.address, "/v1/models", Some(&server.key)).json();
    assert_eq!(models["data"][0]["context_window"], WINDOW, "{models}");
    let ask = |body: &Value| integration::http::post(server.address, "/v1/completions", &server.key, body);

    let counted = ask(&words(100, 1)).json();
    let tokens_a_word = counted["usage"]["prompt_tokens"].as_u64().unwrap();
    assert_eq!(tokens_a_word, 100, "the test counts on one token a word: {counted}");

    let full = ask(&words(500, WINDOW - 500));
    assert_eq!(full.status(), 200, "{}", full.json());
    assert_eq!(full.json()["usage"]["prompt_tokens"], 500);
    let full = ask(&words(511, 1));
    assert_eq!(full.status(), 200, "{}", full.json());

    let before = server.status();
    for (count, max_tokens) in [(500, WINDOW - 500 + 1), (511, 2), (512, 1), (513, 1), (100_000, 1)] {
        let over = ask(&words(count, max_tokens));
        assert_eq!(
            (over.status(), over.code().as_str()),
            (400, "context_length_exceeded"),
            "{}",
            over.json()
        );
        let message = over.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(&window), "no window in {message:?}");
        if count < 1000 {
            let asked = (u64::try_from(count).unwrap() + max_tokens).to_string();
            let told = message.contains(&asked) || message.contains(&count.to_string());
            assert!(told, "neither {count} nor {asked} in {message:?}");
        }
    }
    // Nothing of it reached the engine.
    let after = server.status();
    assert_eq!(after["engine"]["steps"], before["engine"]["steps"], "a refused request took a step");
    assert_eq!(after["engine"]["leased"], 0);
}

#[test]
fn a_window_above_the_pool_refuses_to_start_and_says_both_numbers() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let mut command = home.command(&["up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.arg("--from").arg(integration::server::test_model());
    let output = command.args(["--window", "1024", "--pool-tokens", "512"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("1024") && said.contains("512"), "{said}");
    assert!(!String::from_utf8_lossy(&output.stdout).lines().any(|line| line == "ready"));
}

#[test]
fn a_key_with_a_cap_has_a_narrower_window() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    assert_eq!(home.json(&["tenant", "create", "acme", "--json"])["name"], "acme");
    let capped = home.json(&["key", "create", "--tenant", "acme", "--window-cap", "128", "--json"]);
    let key = capped["key"].as_str().unwrap();
    let server = home.up(&["--pool-tokens", "1024"]);
    server.knows(key);
    let models = integration::http::get(server.address, "/v1/models", Some(key)).json();
    assert_eq!(models["data"][0]["context_window"], 128, "{models}");
    let ask = |body: &Value| integration::http::post(server.address, "/v1/completions", key, body);
    assert_eq!(ask(&words(120, 8)).status(), 200);
    let over = ask(&words(120, 9));
    assert_eq!((over.status(), over.code().as_str()), (400, "context_length_exceeded"), "{}", over.json());
    assert!(over.json()["error"]["message"].as_str().unwrap().contains("128"));
}

/// P8, from outside: what one tenant has reserved, nobody else can ask for, and a cap is its tenant's window.
#[test]
fn floors_and_caps_narrow_the_window_of_whom_they_concern() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "1024"]);
    let (reserved, capped) = (home.key("reserved"), home.key("capped"));
    for key in [&reserved, &capped] {
        server.knows(key);
    }
    let window = |key: &str| {
        let models = integration::http::get(server.address, "/v1/models", Some(key)).json();
        models["data"][0]["context_window"].as_u64().unwrap()
    };
    assert_eq!([&server.key, &reserved, &capped].map(|key| window(key)), [1024, 1024, 1024]);

    let share = home.json(&["tenant", "share", "reserved", "--floor", "600", "--json"]);
    assert_eq!((&share["floor"], &share["cap"], &share["weight"]), (&json!(600), &json!(null), &json!(1)));
    let share = home.json(&["tenant", "share", "capped", "--cap", "100", "--weight", "2", "--json"]);
    assert_eq!((&share["floor"], &share["cap"], &share["weight"]), (&json!(0), &json!(100), &json!(2)));
    // 600 tokens are 38 pages of 16, 100 tokens are 6.
    let known = || (window(&server.key) == 1024 - 608).then_some(());
    let ((), _) = integration::wait::until("shares that are known", Duration::from_secs(5), known);
    assert_eq!((window(&reserved), window(&capped)), (1024, 96));

    let ask =
        |key: &str, count| integration::http::post(server.address, "/v1/completions", key, &words(count, 1));
    assert_eq!(ask(&server.key, 415).status(), 200);
    for (key, count, allowed) in [(&server.key, 416, "416"), (&capped, 96, "96")] {
        let over = ask(key, count);
        assert_eq!((over.status(), over.code().as_str()), (400, "context_length_exceeded"));
        assert!(over.json()["error"]["message"].as_str().unwrap().contains(allowed), "{}", over.json());
    }
    assert_eq!(ask(&capped, 95).status(), 200);
    assert_eq!(ask(&reserved, 700).status(), 200);

    let refused = home.run(&["tenant", "share", "capped", "--floor", "101"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("a floor of 101 tokens is above the cap of 100")
    );
}
