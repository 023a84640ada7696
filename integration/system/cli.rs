//! The command line itself: help, usage errors, exit codes that need no server.

use std::process::{Command, Output};

use integration::server::Home;

fn bulkhead(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(arguments)
        .env_remove("BULKHEAD_DATA")
        .output()
        .expect("the binary runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn help_teaches_and_usage_errors_end_with_2() {
    let help = bulkhead(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for word in ["up", "serve", "Examples:", "Exit codes:", "--data"] {
        assert!(said(&help).contains(word), "{word}");
    }
    // On a folder of its own: that of whoever runs this is none of a test's business.
    let folder = tempfile::tempdir().unwrap();
    for wrong in
        [&["fly"][..], &["up", "--listen", "nowhere"], &["up", "--pool-tokens", "0"], &["key", "create"]]
    {
        let output = bulkhead(&[wrong, &["--data", folder.path().to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", said(&output));
    }
}

#[test]
fn a_policy_is_checked_with_its_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("limits.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "choices_max = 4\n").unwrap();
    let good = bulkhead(&["policy", "check", path, "--json"]);
    assert_eq!(good.status.code(), Some(0), "{}", said(&good));
    let answer: serde_json::Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!(answer["changes"][0]["field"], "choices_max");
    assert_eq!(answer["changes"][0]["new"], "4");
    for (bad, told) in [
        ("choices_max = 4000000000", "4000000000"),
        ("choices_maximum = 4", "choices_maximum"),
        ("choices_max = ", "line 1"),
    ] {
        std::fs::write(&file, bad).unwrap();
        let output = bulkhead(&["policy", "check", path]);
        assert_eq!(output.status.code(), Some(3), "{bad}: {}", said(&output));
        assert!(said(&output).contains(told), "{bad}: {}", said(&output));
    }
    assert_eq!(bulkhead(&["policy", "check", "nowhere.toml"]).status.code(), Some(3));
}

#[test]
fn tenants_and_keys_are_made_listed_and_ended() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let key = home.key("acme");
    assert!(key.starts_with("bh_live_"), "{key}");
    let again = home.run(&["tenant", "create", "acme"]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
    let stranger = home.run(&["key", "create", "--tenant", "nobody"]);
    assert_eq!(stranger.status.code(), Some(2), "{}", said(&stranger));
    let capped = home.json(&["key", "create", "--tenant", "acme", "--window-cap", "128", "--json"]);
    assert_eq!(capped["window_cap"], 128);
    let too_much = home.run(&["key", "create", "--tenant", "acme", "--window-cap", "4000000000"]);
    assert_eq!(too_much.status.code(), Some(2));
    assert!(
        said(&too_much).contains("4000000000") && said(&too_much).contains("16777216"),
        "{}",
        said(&too_much)
    );

    let listed = home.run(&["key", "list", "--tenant", "acme", "--json"]);
    assert!(!said(&listed).contains(&key), "a listing shows a secret");
    let keys: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(keys.as_array().unwrap().len(), 2);
    let id = keys[0]["id"].as_str().unwrap();
    assert!(key.contains(id), "the id stands in the key");
    let revoked = home.json(&["key", "revoke", id, "--json"]);
    assert_eq!(revoked["revoked"], true);
    let keys = home.json(&["key", "list", "--json"]);
    assert!(keys[0]["revoked_ms"].is_i64() && keys[1]["revoked_ms"].is_null(), "{keys}");
    assert_eq!(home.run(&["key", "revoke", "AAAAAAAAAAAA"]).status.code(), Some(2));
    assert_eq!(home.run(&["key", "revoke", &key]).status.code(), Some(2), "a key is not its id");
    assert_eq!(home.json(&["tenant", "list", "--json"])[0]["name"], "acme");
}

#[test]
fn a_store_that_cannot_be_used_ends_with_10() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    std::fs::write(home.path().join("pepper.key"), "not a pepper").unwrap();
    let output = home.run(&["tenant", "list"]);
    assert_eq!(output.status.code(), Some(10), "{}", said(&output));
    assert!(said(&output).contains("pepper"), "{}", said(&output));
}
