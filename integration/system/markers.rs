//! No prompt, output, secret or tenant name is where it does not belong.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use integration::http;
use integration::server::Home;
use serde_json::{Value, json};

const PROMPT: &str = "xylophone marker of the prompt 7193";
/// In the address of a Redis server that is not there: what fails says why, and not this.
const PASSWORD: &str = "password-marker-8842";
const TENANT: &str = "tenant marker 5521";
/// The longest wait for anything; reached only when something is broken.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found
}

fn holds(bytes: &[u8], needle: &str) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

fn json_of(home: &Home, arguments: &[&str]) -> Value {
    home.json(&[arguments, &["--json"]].concat())
}

/// What the Admin API answers, and the key that it made, which it shows once.
fn managed(home: &Home, api: SocketAddr, operator: &str) -> (Vec<(String, Vec<u8>)>, Value) {
    let tenant = json_of(home, &["tenant", "show", "demo"])["id"].clone();
    let project = json_of(home, &["project", "list", "--tenant", "demo"])[0]["id"].clone();
    let asked = json!({ "for": "live", "tenant_id": tenant, "project_id": project, "name": "made" });
    let made = integration::wait::until("the operator's key", WAIT_MAX, || {
        let answer = http::post(api, "/v1/keys", operator, &asked);
        (answer.status() != 401).then_some(answer)
    });
    let made = made.0;
    assert_eq!(made.status(), 201, "{}", made.json());
    let of_demo = format!("?tenant={}", tenant.as_str().unwrap());
    let mut places =
        vec![("api refusal".to_owned(), http::get(api, "/v1/keys", Some("bh_admin_wrong")).body)];
    for (name, path) in [("keys", format!("/v1/keys{of_demo}")), ("events", "/v1/events".to_owned())] {
        let answer = http::get(api, &path, Some(operator));
        assert_eq!(answer.status(), 200, "{}", answer.json());
        places.push((format!("api {name}"), answer.body));
    }
    (places, made.json())
}

/// Every listing of the command line that is about a tenant.
fn listed(home: &Home) -> Vec<(String, Vec<u8>)> {
    let of_tenant = ["project list", "key list", "limit list", "budget list", "usage"];
    let lines = of_tenant.map(|line| format!("{line} --tenant")).into_iter();
    let all = lines.chain(["tenant show".to_owned()]).map(|line| {
        let arguments: Vec<&str> = line.split(' ').chain([TENANT]).collect();
        (format!("listing {line}"), json_of(home, &arguments).to_string().into_bytes())
    });
    all.collect()
}

/// Every file of the data folder but the models.
fn kept(home: &Home) -> Vec<(String, Vec<u8>)> {
    let files = files_below(home.path()).into_iter();
    let named = files.map(|file| (file.strip_prefix(home.path()).unwrap().display().to_string(), file));
    let others = named.filter(|(name, _)| !name.starts_with("models"));
    others.map(|(name, file)| (name, std::fs::read(&file).unwrap())).collect()
}

/// What must be nowhere is nowhere, and a tenant's name only in the store and where its operator looks.
fn search(places: &[(String, Vec<u8>)], output: &str, secrets: [&str; 4]) {
    for (name, bytes) in places {
        assert!(!holds(bytes, PROMPT), "the prompt is in {name}");
        assert!(!holds(bytes, output), "the output {output:?} is in {name}");
        for secret in secrets {
            assert!(!holds(bytes, secret), "a key's secret, or a password, is in {name}");
        }
        if !["tenants.db", "listing", "api"].iter().any(|place| name.starts_with(place)) {
            assert!(!holds(bytes, TENANT), "the tenant's name is in {name}");
        }
    }
    // The positive control: the search finds what is there.
    let database = places.iter().filter(|(name, _)| name.starts_with("tenants.db"));
    assert!(database.into_iter().any(|(_, bytes)| holds(bytes, TENANT)), "the search is blind");
}

fn a_changed_bit_is_found(home: &Home) {
    let verified = home.json(&["audit", "verify", "--json"]);
    assert!(verified["leaves"].as_u64().unwrap() >= 1, "{verified}");
    // And one bit that is changed is found.
    let entries = files_below(&home.path().join("audit/tile/entries"));
    let last = entries.iter().max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(last).unwrap();
    bytes[20] ^= 1;
    std::fs::write(last, bytes).unwrap();
    let tampered = home.run(&["audit", "verify"]);
    assert_eq!(tampered.status.code(), Some(1), "{}", String::from_utf8_lossy(&tampered.stdout));
}

#[test]
fn markers_stay_out_of_logs_metrics_audit_and_database() {
    let limits = format!("redis://:{PASSWORD}@127.0.0.1:1/0");
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead")).with_limits(limits);
    let key = home.key(TENANT);
    let secret = &key["bh_live_".len() + 13..];
    let operator = json_of(&home, &["key", "create", "--for", "owner"]);
    let operator = operator["key"].as_str().unwrap();
    json_of(&home, &["limit", "set", "--tenant", TENANT, "--requests-per-minute", "1000"]);
    let mut server = home.up(&["--pool-tokens", "2048", "--api", "127.0.0.1:0"]);
    let api = server.process.address_after("admin API:");
    server.knows(&key);
    let ask = |key: &str, body: &serde_json::Value| {
        integration::http::post(server.address, "/v1/chat/completions", key, body)
    };
    let mut body = json!({
        "model": "smollm2-135m-instruct",
        "messages": [{ "role": "user", "content": format!("Repeat: {PROMPT}") }],
        "max_tokens": 24,
        "temperature": 0,
        "user": PROMPT,
    });
    let answer = ask(&key, &body);
    assert_eq!(answer.status(), 200, "{}", answer.json());
    let output = answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let output = output.get(..output.len().min(20)).unwrap_or(&output).to_owned();
    // Refusals and errors too: an unknown model and field by that name, too long, a key that is not one.
    body["model"] = json!(PROMPT);
    assert_eq!(ask(&key, &body).status(), 404);
    body["model"] = json!("smollm2-135m-instruct");
    body["messages"][0]["content"] = json!(PROMPT.repeat(1000));
    assert_eq!(ask(&key, &body).status(), 400);
    body["messages"] = json!([{ "role": PROMPT, "content": PROMPT }]);
    assert_eq!(ask(&key, &body).status(), 400);
    assert_eq!(ask(&format!("{key}x"), &body).status(), 401);
    let (mut bodies, made) = managed(&home, api, operator);
    let made = made["secret"].as_str().or(made["key"].as_str()).expect("a key is shown once").to_owned();
    server.knows(&made);
    body["messages"] = json!([{ "role": "user", "content": PROMPT }]);
    json_of(
        &home,
        &["budget", "set", "--tenant", TENANT, "--count", "tokens", "--per", "day", "--limit", "0"],
    );
    let refused = integration::wait::until("the budget", WAIT_MAX, || {
        Some(ask(&key, &body)).filter(|answer| answer.status() == 429)
    });
    bodies.push(("a refusal".to_owned(), refused.0.body));
    let metrics = integration::http::get(server.admin, "/metrics", None);
    assert_eq!(metrics.status(), 200);
    let status = server.status().to_string();
    assert!(status.contains("\"away\":true"), "the shared count was asked: {status}");
    server.process.terminate();
    let (code, said) = server.process.wait();
    assert_eq!(code, Some(0), "{said}");

    let mut places: Vec<(String, Vec<u8>)> = vec![
        ("standard output and error".to_owned(), said.into_bytes()),
        ("metrics".to_owned(), metrics.body),
        ("status".to_owned(), status.into_bytes()),
    ];
    places.extend(bodies);
    places.extend(listed(&home));
    places.extend(kept(&home));
    for place in ["audit", "tenants.db", "ledger", "keys.copy", "listing key list", "api events"] {
        assert!(
            places.iter().any(|(name, bytes)| name.starts_with(place) && !bytes.is_empty()),
            "no {place}"
        );
    }
    let secrets = [secret, &made[made.len() - 49..], &operator[operator.len() - 49..], PASSWORD];
    search(&places, &output, secrets);
    a_changed_bit_is_found(&home);
}
