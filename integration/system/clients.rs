//! Official clients, as their users run them.

use std::path::Path;
use std::process::Command;

use integration::server::{Home, Server};

/// The Python that has the pinned official client, as `./check` sets it.
fn python() -> String {
    std::env::var("BULKHEAD_TEST_PYTHON").expect(
        "BULKHEAD_TEST_PYTHON must name a Python that has the official openai client; ./check makes one and sets this",
    )
}

/// The folder in which npm put the pinned official client, as `./check` sets it.
fn node_folder() -> String {
    std::env::var("BULKHEAD_TEST_NODE").expect(
        "BULKHEAD_TEST_NODE must name a folder with the official openai client for Node; ./check makes one and sets this",
    )
}

/// A server, a key whose budget is spent, and keys that reach a limit of which one request comes free each two seconds.
fn refusing() -> (Home, Server, String, [String; 2]) {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "8192"]);
    let key = || {
        let made = home.json(&["key", "create", "--tenant", "demo", "--json"]);
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("id"), text("key"))
    };
    let set = |line: &str| drop(home.json(&line.split(' ').chain(["--json"]).collect::<Vec<_>>()));
    let (id, poor) = key();
    set(&format!("budget set --tenant demo --key {id} --count tokens --per month --limit 0"));
    let limited = [(); 2].map(|()| {
        let (id, key) = key();
        set(&format!("limit set --tenant demo --key {id} --requests-per-minute 30"));
        key
    });
    // A later key is known only together with all before it.
    server.knows(&key().1);
    (home, server, poor, limited)
}

fn content(mut command: Command, last: &str) {
    let output = command.output().expect("the client runs");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(last), "not every check ran: {said}");
}

#[test]
fn the_official_clients_try_again_when_that_is_of_use_and_only_then() {
    let (_home, server, poor, [python_key, node_key]) = refusing();
    let url = format!("http://{}/v1", server.address);
    let script = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("integration/clients").join(name);
    let mut command = Command::new(python());
    command.arg(script("retries.py")).args([&url, &poor, &python_key]);
    content(command, "waits_for_a_limit_and_is_answered");
    let mut command = Command::new("node");
    command.arg(script("retries.mjs")).args([&node_folder(), &url, &poor, &node_key]);
    content(command, "waits_for_a_limit_and_is_answered");
}

#[test]
fn the_official_openai_client_is_content() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "8192"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("integration/clients/openai_client.py");
    let mut command = Command::new(python());
    command.arg(script).arg(format!("http://{}/v1", server.address)).arg(&server.key);
    command.arg(format!("http://{}", server.admin));
    content(command, "cancels_mid_stream");
}
