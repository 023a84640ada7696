//! No prompt, output, secret or tenant name is where it does not belong.

use std::path::Path;

use integration::server::Home;
use serde_json::json;

const PROMPT: &str = "xylophone marker of the prompt 7193";
const TENANT: &str = "tenant marker 5521";

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

#[test]
fn markers_stay_out_of_logs_metrics_audit_and_database() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let key = home.key(TENANT);
    let secret = &key["bh_live_".len() + 13..];
    let mut server = home.up(&["--pool-tokens", "2048"]);
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
    let metrics = integration::http::get(server.admin, "/metrics", None);
    assert_eq!(metrics.status(), 200);
    let status = server.status().to_string();
    server.process.terminate();
    let (code, said) = server.process.wait();
    assert_eq!(code, Some(0), "{said}");

    let mut places: Vec<(String, Vec<u8>)> = vec![
        ("standard output and error".to_owned(), said.into_bytes()),
        ("metrics".to_owned(), metrics.body),
        ("status".to_owned(), status.into_bytes()),
    ];
    for file in files_below(home.path()) {
        let name = file.strip_prefix(home.path()).unwrap().display().to_string();
        if !name.starts_with("models") {
            places.push((name, std::fs::read(&file).unwrap()));
        }
    }
    assert!(
        places.iter().any(|(name, bytes)| name.starts_with("audit") && !bytes.is_empty()),
        "no audit log"
    );
    assert!(places.iter().any(|(name, _)| name.starts_with("tenants.db")), "no database");
    for (name, bytes) in &places {
        assert!(!holds(bytes, PROMPT), "the prompt is in {name}");
        assert!(!holds(bytes, &output), "the output {output:?} is in {name}");
        assert!(!holds(bytes, secret), "the key's secret is in {name}");
        if !name.starts_with("tenants.db") {
            assert!(!holds(bytes, TENANT), "the tenant's name is in {name}");
        }
    }
    // The positive control: the search finds what is there.
    let database = places.iter().filter(|(name, _)| name.starts_with("tenants.db"));
    assert!(database.into_iter().any(|(_, bytes)| holds(bytes, TENANT)), "the search is blind");
    let verified = home.json(&["audit", "verify", "--json"]);
    assert!(verified["records"].as_u64().unwrap() >= 1, "{verified}");
    // And one digit that is changed is found.
    let segments = files_below(&home.path().join("audit"));
    let segment = segments.iter().find(|file| file.extension().is_some_and(|end| end == "jsonl")).unwrap();
    let log = std::fs::read_to_string(segment).unwrap();
    std::fs::write(segment, log.replacen("\"time_ms\":1", "\"time_ms\":2", 1)).unwrap();
    let tampered = home.run(&["audit", "verify"]);
    assert_eq!(tampered.status.code(), Some(10), "{}", String::from_utf8_lossy(&tampered.stdout));
}
