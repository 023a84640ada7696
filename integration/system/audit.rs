//! The audit log of a real server: what it holds, who agrees, and what becomes of it.

use std::path::Path;
use std::process::Command;

use integration::server::{Home, Server};
use integration::{http, wait};
use serde_json::json;

const WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(30);

fn ask(server: &Server, key: &str, times: u32) {
    for _ in 0..times {
        let body = json!({ "model": "smollm2-135m-instruct", "prompt": "Once", "max_tokens": 2 });
        assert_eq!(http::post(server.address, "/v1/completions", key, &body).status(), 200);
    }
}

fn stop(mut server: Server) {
    server.process.terminate();
    assert_eq!(server.process.wait().0, Some(0));
}

/// Leaves that the log's checkpoint covers.
fn signed(home: &Home) -> u64 {
    home.json(&["audit", "verify", "--json"])["leaves"].as_u64().unwrap()
}

#[test]
fn others_verify_the_log_and_it_goes_on_after_a_kill() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "8192"]);
    let key = server.key.clone();
    ask(&server, &key, 3);
    wait::until("a signed request", WAIT_MAX, || (signed(&home) >= 8).then_some(()));
    let folder = home.path().join("audit");
    let seen = home.path().join("seen");
    std::fs::copy(folder.join("checkpoint"), &seen).unwrap();
    ask(&server, &key, 1);
    // Killed with what no checkpoint covers yet.
    drop(server);
    let before = signed(&home);

    let server = home.up(&["--pool-tokens", "8192"]);
    ask(&server, &key, 1);
    stop(server);
    let seen = seen.to_str().unwrap();
    let verified = home.json(&["audit", "verify", "--seen", seen, "--json"]);
    assert!(verified["leaves"].as_u64().unwrap() >= before + 4, "{verified}");
    assert_eq!((&verified["continues_seen"], &verified["tenants"]), (&json!(true), &json!(1)));

    let shown = |arguments: &[&str]| {
        let output = home.run(&[&["audit", "show"], arguments].concat());
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<serde_json::Value>>()
    };
    let boots = shown(&["--kind", "boot"]);
    assert_eq!(boots.len(), 2, "{boots:?}");
    let ended = shown(&["--kind", "ended", "--from", "4"]);
    // The one that was answered right before the kill may have no end.
    assert!(ended.len() >= 3 && ended.iter().all(|leaf| leaf["index"].as_u64().unwrap() >= 4), "{ended:?}");
    let numbers: Vec<_> = shown(&[]).iter().filter_map(|leaf| leaf["link"]["seq"].as_u64()).collect();
    let count = u64::try_from(numbers.len()).unwrap();
    assert!(
        count >= 9 && numbers.iter().copied().eq(1..=count),
        "the tenant's numbers have no gap: {numbers:?}"
    );

    let public = home.run(&["audit", "key"]);
    let public = String::from_utf8(public.stdout).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("integration/clients/audit_log.py");
    let python = std::env::var("BULKHEAD_TEST_PYTHON").expect("./check sets BULKHEAD_TEST_PYTHON");
    let run = || Command::new(&python).arg(&script).arg(&folder).arg(public.trim()).output().unwrap();
    let agreed = run();
    let said =
        String::from_utf8_lossy(&agreed.stdout).into_owned() + &String::from_utf8_lossy(&agreed.stderr);
    assert_eq!(said.trim(), format!("{} {}", verified["leaves"], verified["root"].as_str().unwrap()));

    // The control: it sees what is changed.
    let bundle =
        std::fs::read_dir(folder.join("tile/entries/000.p")).unwrap().map(|file| file.unwrap().path());
    let last = bundle.max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&last).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&last, bytes).unwrap();
    assert!(!run().status.success(), "it believes anything");
    let tampered = home.run(&["audit", "verify"]);
    let errors = String::from_utf8_lossy(&tampered.stderr).into_owned();
    assert_eq!(tampered.status.code(), Some(1), "{errors}");
}

#[test]
fn what_cannot_be_told_or_is_missing_has_a_code_of_its_own() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let code = |arguments: &[&str]| {
        let output = home.run(arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (none, said) = code(&["audit", "verify"]);
    assert!(none == Some(3) && said.contains("there is no audit log in"), "{said}");
    let server = home.up(&["--pool-tokens", "8192"]);
    stop(server);
    assert_eq!(code(&["audit", "verify"]).0, Some(0));
    let at = |name: &str| home.path().join(name);
    let (public, log) = (at("audit.pub"), at("audit"));
    let key = std::fs::read_to_string(&public).unwrap();

    std::fs::write(&public, "anything").unwrap();
    let (unknown, said) = code(&["audit", "verify"]);
    assert!(unknown == Some(3) && said.contains("NAME+HASH+BASE64"), "{said}");
    std::fs::write(&public, key).unwrap();

    std::fs::rename(log.join("tile/entries"), log.join("elsewhere")).unwrap();
    let (incomplete, said) = code(&["audit", "verify"]);
    assert!(incomplete == Some(2) && said.contains("tile/entries/000"), "{said}");
    std::fs::rename(log.join("elsewhere"), log.join("tile/entries")).unwrap();

    // Neither is another key made for a log that has one, nor a log begun anew where one was signed.
    std::fs::rename(at("audit.key"), at("away")).unwrap();
    let (refused, said) = code(&["up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    assert!(refused == Some(10) && said.contains("is missing"), "{said}");
    std::fs::rename(at("away"), at("audit.key")).unwrap();
    std::fs::remove_file(log.join("checkpoint")).unwrap();
    let (refused, said) = code(&["up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    assert!(refused == Some(10) && said.contains("file checkpoint: it is missing"), "{said}");
}
