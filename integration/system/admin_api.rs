//! The Admin API of the real binary, against its own OpenAPI document and against the command line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use integration::http;
use integration::server::{Home, Services};
use integration::wait;
use serde_json::Value;

/// A new key is known within a second; twenty times that, for a busy machine.
const KEY_MAX: Duration = Duration::from_secs(20);

/// schemathesis, which `./check` installs beside the official clients.
fn schemathesis() -> PathBuf {
    let python = std::env::var_os("BULKHEAD_TEST_PYTHON").expect(
        "BULKHEAD_TEST_PYTHON must name a Python that has schemathesis; ./check makes one and sets this",
    );
    let tool = Path::new(&python).with_file_name("schemathesis");
    assert!(tool.is_file(), "{} is missing: ./check installs it", tool.display());
    tool
}

/// The shipped limits, but that one address may fail as often as schemathesis tries what must be refused.
fn policy() -> String {
    let shipped = include_str!("../../policies/default/limits.toml");
    let (few, many) = ("auth_failures_per_minute = 60", "auth_failures_per_minute = 100000");
    assert!(shipped.contains(few), "the shipped limits have changed");
    shipped.replace(few, many)
}

fn ask(home: &Home, line: &str) -> Value {
    home.json(&line.split(' ').chain(["--json"]).collect::<Vec<_>>())
}

fn person(home: &Home, api: SocketAddr, line: &str) -> String {
    let key = ask(home, &format!("key create {line}"))["key"].as_str().unwrap().to_owned();
    wait::until("answer to a new key", KEY_MAX, || {
        (http::get(api, "/v1/tenants", Some(&key)).status() == 200).then_some(())
    });
    key
}

/// One run: with this key, of these operations, with these parts of paths where a real one is needed. Whether all was well, and
/// what it said.
fn run(api: SocketAddr, key: &str, arguments: &[&str], more: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("schemathesis.toml");
    std::fs::write(&config, include_str!("../clients/schemathesis.toml").to_owned() + more).unwrap();
    let output = Command::new(schemathesis())
        .current_dir(folder.path())
        .arg("--no-color")
        .arg("--config-file")
        .arg(&config)
        .args(["run", "--url", &format!("http://{api}"), "--header", &format!("Authorization: Bearer {key}")])
        .args(arguments)
        .output()
        .expect("schemathesis runs");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Test cases:"), "it asked nothing: {said}");
    (output.status.success(), said)
}

fn is_content(api: SocketAddr, key: &str, arguments: &[&str], more: &str) {
    let document = format!("http://{api}/openapi.json");
    let (is_content, said) = run(api, key, &[&[document.as_str()], arguments].concat(), more);
    assert!(is_content, "{said}");
}

/// The operations that the document describes.
fn operations(api: SocketAddr) -> Vec<(String, String)> {
    let document = http::get(api, "/openapi.json", None).json();
    let paths = document["paths"].as_object().unwrap().clone();
    let of = |(path, methods): (String, Value)| {
        let methods: Vec<_> =
            methods.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        methods.into_iter().map(move |method| (method, path.clone()))
    };
    paths.into_iter().flat_map(of).collect()
}

#[test]
fn every_answer_is_one_that_the_document_describes() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    ask(&home, "tenant create acme");
    let live = ask(&home, "key create --tenant acme");
    ask(&home, "budget set --tenant acme --count tokens --per month --limit 1000000 --warn-at 50,80");
    let prices = home.path().join("prices.toml");
    std::fs::write(&prices, "[models.a]\nprompt = \"1\"\ncompletion = \"2\"\n").unwrap();
    assert!(home.run(&["price", "apply", prices.to_str().unwrap()]).status.success());
    let services = Services::gateway_with_api(&home, &policy());
    let api = services.api();
    let operator = person(&home, api, "--for owner");
    let owner = person(&home, api, "--for owner --tenant acme");
    let admin = person(&home, api, "--for admin --tenant acme");
    let text = |name: &str| live[name].as_str().unwrap().to_owned();
    let (id, project, tenant) = (text("id"), text("project_id"), text("tenant_id"));

    // Given parts stand also where a wrong one was to be tried, and so what fits no schema is not looked at in these runs.
    let real = format!(
        "negative_data_rejection.enabled = false\n[parameters]\n\"path.id\" = \"{id}\"\n\"path.level\" = \"key\"\n\"header.if-match\" = \"*\"\n
[[operations]]\ninclude-operation-id = [\"get_tenant\", \"change_tenant\"]\nparameters = {{ \"path.id\" = \"{tenant}\" }}\n
[[operations]]\ninclude-operation-id = \"get_project\"\nparameters = {{ \"path.id\" = \"{project}\" }}\n"
    );
    // Whoever may revoke its own key, or suspend its tenant, would do so, and learn nothing more: who may neither revokes, and the
    // operator comes last.
    is_content(api, &owner, &["--max-examples", "10", "--exclude-operation-id", "revoke_key"], &real);
    is_content(api, &admin, &["--max-examples", "10", "--include-operation-id", "revoke_key"], &real);
    is_content(api, &operator, &["--max-examples", "20", "--exclude-operation-id", "revoke_key"], "");

    let key = ask(&home, "key list");
    let key = key.as_array().unwrap().iter().find(|key| key["id"] == id.as_str()).unwrap();
    assert!(key["revoked_ms"].is_i64() && key["secrets"][1]["serial"].as_i64() > Some(1), "{key}");
    let said = services.said();
    for (method, path) in operations(api) {
        let line = format!("method={method} path={path:?} status=2");
        assert!(said.contains(&line), "nothing was ever answered well: {method} {path}");
    }
    for secret in [operator, owner, admin, text("key")] {
        assert!(!said.contains(&secret[22..]), "a secret in the log");
    }
}

#[test]
fn an_answer_that_the_document_does_not_describe_is_noticed() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let services = Services::gateway_with_api(&home, &policy());
    let operator = person(&home, services.api(), "--for owner");
    let mut document = http::get(services.api(), "/openapi.json", None).json();
    let responses = &mut document["paths"]["/v1/keys/{id}"]["get"]["responses"];
    assert!(responses.as_object_mut().unwrap().remove("404").is_some());
    let file = home.path().join("document.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let arguments = [file.to_str().unwrap(), "--max-examples", "5", "--include-operation-id", "get_key"];
    let (is_content, said) = run(services.api(), &operator, &arguments, "");
    assert!(!is_content && said.contains("Undocumented status code"), "{said}");
}

#[test]
fn the_command_line_and_the_api_tell_of_each_other() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let services = Services::gateway_with_api(&home, &policy());
    let api = services.api();
    let operator = person(&home, api, "--for owner");
    let made = http::post(api, "/v1/tenants", &operator, &serde_json::json!({ "name": "acme" }));
    assert_eq!(made.status(), 201);
    ask(&home, "tenant suspend acme");
    let tenant = made.json()["id"].as_str().unwrap().to_owned();
    let events = http::get(api, &format!("/v1/events?tenant={tenant}"), Some(&operator)).json();
    let told = |event: &Value| format!("{}: {}", event["actor"]["kind"], event["action"]).replace('"', "");
    let seen: Vec<_> = events["data"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(seen, ["key: tenant.create", "key: project.create", "command_line: tenant.change"]);
    assert_eq!(ask(&home, "tenant show acme")["id"], tenant);
}

#[test]
fn it_is_served_only_where_that_is_asked_for() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let services = Services::gateway(&home);
    assert!(!services.said().contains("admin API:"));
    assert_eq!(http::get(services.address(), "/openapi.json", None).status(), 404);
}

/// It has no TLS of its own: whoever opens it to the network is told that keys cross it as they are.
#[test]
fn an_address_that_is_no_loopback_is_warned_of() {
    const WARNING: &str = "the Admin API is open to the network, and has no TLS of its own";
    for (listen, is_warned) in [("127.0.0.1:0", false), ("127.9.9.9:0", false), ("0.0.0.0:0", true)] {
        let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
        let services = Services::gateway_with(&home, &["--api", listen]);
        let said = services.said();
        let is_said = said.lines().any(|line| line.contains("WARN") && line.contains(WARNING));
        assert_eq!(is_said, is_warned, "{listen}: {said}");
    }
}
