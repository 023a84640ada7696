//! `up`, `serve` and `status` as their users know them.

use std::time::Duration;

use integration::process::Process;
use integration::server::{Home, test_model};
use serde_json::json;

/// From the start of the process to its first lines, at most.
const START_MAX: Duration = Duration::from_secs(120);

#[test]
fn up_shows_the_same_key_again_and_a_new_one_once_that_is_revoked() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let first = home.up(&["--pool-tokens", "512"]).key.clone();
    let second = home.up(&["--pool-tokens", "512"]).key.clone();
    assert_eq!(first, second);
    let keys = home.json(&["key", "list", "--json"]);
    assert_eq!(keys.as_array().unwrap().len(), 1, "{keys}");
    assert!(home.run(&["key", "revoke", keys[0]["id"].as_str().unwrap()]).status.success());
    let server = home.up(&["--pool-tokens", "512"]);
    assert_ne!(server.key, first);
    assert_eq!(integration::http::get(server.address, "/v1/models", Some(&server.key)).status(), 200);
    assert_eq!(integration::http::get(server.address, "/v1/models", Some(&first)).status(), 401);
}

#[test]
fn what_up_prints_can_be_pasted() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "512"]);
    let said = server.process.said();
    let curl = said.split("  curl ").nth(1).unwrap().split("\n\n").next().unwrap();
    let pasted =
        std::process::Command::new("sh").arg("-c").arg(format!("curl -sS --no-buffer {curl}")).output();
    let pasted = pasted.expect("sh runs");
    let answer = String::from_utf8_lossy(&pasted.stdout);
    assert!(answer.contains("data: {") && answer.contains("data: [DONE]"), "{answer}");
}

#[test]
fn serve_obeys_its_config_and_makes_no_tenant() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let key = home.key("acme");
    let config = home.path().join("bulkhead.toml");
    let text = format!(
        "model = {:?}\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\npool_tokens = 512\nwindow = 256\nthreads = 1\n",
        home.place_model().display().to_string()
    );
    std::fs::write(&config, text).unwrap();
    let mut command = home.command(&["serve", "--log", "json", "--config", config.to_str().unwrap()]);
    let mut server = Process::start(&mut command, START_MAX, |line| line.starts_with("admin:"));
    let address = server.address_after("base URL:");
    let admin = server.address_after("admin:");
    integration::wait::until("link to the engine", START_MAX, || {
        (integration::http::get(admin, "/readyz", None).status() == 200).then_some(())
    });
    let models = integration::http::get(address, "/v1/models", Some(&key)).json();
    assert_eq!(models["data"][0]["context_window"], 256, "{models}");

    let status = home.json(&["status", "--admin", &admin.to_string(), "--json"]);
    assert!(status["engine"].is_object(), "{status}");
    let table = home.run(&["status", "--admin", &admin.to_string()]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("engine."));

    server.terminate();
    let (code, said) = server.wait();
    assert_eq!(code, Some(0), "{said}");
    for line in said.lines().filter(|line| line.starts_with('{')) {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "a log line is no JSON: {line}");
    }
    assert_eq!(home.json(&["tenant", "list", "--json"]).as_array().unwrap().len(), 1);
    assert_eq!(
        home.run(&["status", "--admin", &admin.to_string()]).status.code(),
        Some(1),
        "nobody is there"
    );
}

#[test]
fn a_model_is_pulled_listed_and_inspected() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let model = test_model();
    let before = home.json(&["model", "list", "--json"]);
    assert!(before[0]["path"].is_null(), "{before}");
    let pulled = home.run(&["model", "pull", "smollm2-135m-instruct", "--from", model.to_str().unwrap()]);
    assert_eq!(pulled.status.code(), Some(0), "{}", String::from_utf8_lossy(&pulled.stderr));
    let after = home.json(&["model", "list", "--json"]);
    assert!(std::path::Path::new(after[0]["path"].as_str().unwrap()).is_file(), "{after}");
    let inspected = home.json(&["model", "inspect", "smollm2-135m-instruct", "--json"]);
    assert_eq!(inspected["context_window"], json!(8192), "{inspected}");
    assert_eq!(inspected["layers"], json!(30), "{inspected}");
    let not_a_model = home.run(&["model", "inspect", "Cargo.toml"]);
    assert_eq!(not_a_model.status.code(), Some(5));
}
