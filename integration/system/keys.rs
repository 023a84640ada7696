//! Tenants, projects and keys from the command line, on each database, and a server that follows them.

use std::time::{Duration, Instant};

use integration::http;
use integration::postgres::database;
use integration::server::Home;
use serde_json::{Value, json};

fn on_file() -> Home {
    Home::new(env!("CARGO_BIN_EXE_bulkhead"))
}

fn on_server() -> Home {
    on_file().with_store(database())
}

fn ask(home: &Home, line: &str) -> Value {
    home.json(&line.split(' ').chain(["--json"]).collect::<Vec<_>>())
}

fn refused(home: &Home, line: &str, told: &str) {
    let output = home.run(&line.split(' ').collect::<Vec<_>>());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{line}: {errors}");
    assert!(errors.contains(told), "{line}: {errors}");
}

#[test]
fn a_key_for_each_purpose_is_made_and_listed_on_a_file() {
    each_purpose(&on_file());
}

#[test]
fn a_key_for_each_purpose_is_made_and_listed_on_postgres() {
    each_purpose(&on_server());
}

fn each_purpose(home: &Home) {
    ask(home, "tenant create acme");
    let project = ask(home, "project create search --tenant acme");
    let projects = ask(home, "project list --tenant acme");
    assert_eq!(
        projects.as_array().unwrap().iter().map(|one| &one["name"]).collect::<Vec<_>>(),
        ["default", "search"]
    );
    let scoped = ask(
        home,
        "key create --tenant acme --project search --name ci --model smollm2 --endpoint chat_completions --from 10.0.0.0/8 --prompt-max 9 --output-max 7 --expires 90d",
    );
    assert_eq!(scoped["project_id"], project["id"]);
    let scopes = json!({
        "models": { "only": ["smollm2"] }, "endpoints": { "only": ["chat_completions"] },
        "addresses": { "only": ["10.0.0.0/8"] }, "prompt_max": { "tokens": 9 }, "output_max": { "tokens": 7 },
    });
    assert_eq!(scoped["scopes"], scopes);
    assert_eq!(
        scoped["expires_ms"].as_i64().unwrap() - scoped["created_ms"].as_i64().unwrap(),
        90 * 86_400_000
    );
    for (line, prefix) in [
        ("--tenant acme --for test", "bh_test_"),
        ("--tenant acme --for audit", "bh_audit_"),
        ("--tenant acme --for member", "bh_admin_"),
        ("--for owner", "bh_admin_"),
    ] {
        let made = ask(home, &format!("key create {line}"));
        assert!(made["key"].as_str().unwrap().starts_with(prefix), "{line}");
    }
    let listed = ask(home, "key list");
    let purposes: Vec<_> = listed.as_array().unwrap().iter().map(|key| &key["for"]).collect();
    assert_eq!(purposes, ["live", "test", "audit", "member", "owner"]);
    assert!(listed.to_string().find("\"key\"").is_none(), "a listing shows no secret");
    assert_eq!(ask(home, "key list --tenant acme").as_array().unwrap().len(), 4);

    refused(home, "key create", "--tenant NAME is needed");
    refused(home, "key create --tenant acme --project nothing", "project list");
    refused(home, "key create --tenant acme --endpoint embeddings", "chat_completions, completions, models");
    refused(home, "key create --tenant acme --from 10.0.0.0/33", "--from");
    refused(home, "key create --tenant acme --for audit --from 10.0.0.0/8", "--for live or test");
    refused(home, "key create --for owner --prompt-max 9", "--for live or test");
    refused(home, "key create --tenant acme --expires 90", "90s");
    refused(home, "project create search --tenant acme", "another has this name");
}

#[test]
fn a_key_is_rotated_with_an_overlap() {
    let home = on_file();
    let first = home.key("acme");
    let id = ask(&home, "key list")[0]["id"].as_str().unwrap().to_owned();
    let rotated = ask(&home, &format!("key rotate {id} --overlap 1h"));
    let second = rotated["key"].as_str().unwrap();
    assert!(second != first && second.contains(&id));
    let secrets = ask(&home, "key list")[0]["secrets"].clone();
    assert_eq!((&secrets[0]["serial"], &secrets[1]["serial"]), (&json!(1), &json!(2)));
    assert_eq!((&secrets[0]["ends_ms"], &secrets[1]["ends_ms"]), (&rotated["old_ends_ms"], &Value::Null));
    refused(&home, &format!("key rotate {id} --overlap 31d"), "2592000 s");
    refused(&home, "key rotate AAAAAAAAAAAA", "AAAAAAAAAAAA");
}

#[test]
fn a_server_on_postgres_is_told_of_changes() {
    let home = on_server();
    let server = home.up(&["--pool-tokens", "512"]);
    let status = |key: &str| http::get(server.address, "/v1/models", Some(key)).status();
    let until = |key: &str, wanted: u16| {
        let began = Instant::now();
        // Too many refusals from one address, and it is 429.
        let is_so = |status: u16| status == wanted || (wanted, status) == (401, 429);
        while !is_so(status(key)) {
            assert!(began.elapsed() < Duration::from_secs(20), "not {wanted} within 20 s");
        }
        began.elapsed()
    };
    let made = ask(&home, "key create --tenant demo");
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    until(key, 200);
    let rotated = ask(&home, &format!("key rotate {id} --overlap 1h"));
    until(rotated["key"].as_str().unwrap(), 200);
    assert_eq!(status(key), 200, "the secret before it still works");
    ask(&home, &format!("key revoke {id}"));
    until(key, 401);
    ask(&home, "tenant suspend demo");
    until(&server.key, 403);
    assert_eq!(ask(&home, "tenant show demo")["state"], "suspended");
    ask(&home, "tenant resume demo");
    until(&server.key, 200);
}

#[test]
fn the_password_of_a_store_is_in_no_message() {
    for address in [
        "postgres://bulkhead:hunter2@127.0.0.1:1/none",
        "postgres://bulkhead:hunter2@127.0.0.1:port/none",
        "mysql://bulkhead:hunter2@127.0.0.1/none",
    ] {
        let home = on_file().with_store(address.to_owned());
        let output = home.run(&["tenant", "list"]);
        assert_eq!(output.status.code(), Some(10));
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("BULKHEAD_STORE_URL") && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn limits_are_set_listed_lifted_and_obeyed() {
    let home = on_file();
    let server = home.up(&["--pool-tokens", "512"]);
    let id = ask(&home, "key list")[0]["id"].as_str().unwrap().to_owned();
    let set = ask(&home, "limit set --tenant demo --tokens-per-minute 100000");
    assert_eq!((&set[0]["level"], &set[0]["tokens_per_minute"]), (&json!("tenant"), &json!(100_000)));
    ask(&home, "limit set --tenant demo --project default --at-once 8");
    let line =
        format!("limit set --tenant demo --key {id} --model smollm2-135m-instruct --requests-per-minute 3");
    ask(&home, &line);
    let listed = ask(&home, "limit list --tenant demo");
    let levels: Vec<_> = listed.as_array().unwrap().iter().map(|one| &one["level"]).collect();
    assert_eq!(levels, ["key", "project", "tenant"]);
    assert_eq!(listed[0]["model"], "smollm2-135m-instruct");

    let body = json!({ "model": integration::server::MODEL, "prompt": "Hi", "max_tokens": 1 });
    let status = || http::post(server.address, "/v1/completions", &server.key, &body).status();
    let began = Instant::now();
    let mut answered = 0;
    while status() != 429 {
        answered += 1;
        assert!(began.elapsed() < Duration::from_secs(20), "no limit after {answered} requests");
    }
    let lifted = ask(&home, &line.replace("minute 3", "minute open"));
    assert_eq!(lifted[0]["requests_per_minute"], Value::Null);
    while status() != 200 {
        assert!(began.elapsed() < Duration::from_secs(40), "the limit is not lifted");
    }
    assert_eq!(ask(&home, "limit list --tenant demo").as_array().unwrap().len(), 2);

    refused(&home, "limit set --tenant demo --at-once 0", "a number from 1, or `open`");
    refused(&home, "limit set --tenant demo", "--at-once");
    refused(&home, "limit set --tenant demo --key AAAAAAAAAAAA --at-once 1", "no key of this id");
    refused(&home, "limit set --tenant nobody --at-once 1", "no tenant of this name");
}
