//! What a tenant's prefix cache gives its own tenant, and that it tells no other: by the page, and by the published audit.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use integration::http;
use integration::process::signal;
use integration::server::{Home, Server};
use serde_json::{Value, json};

/// Tokens of a page.
const PAGE: usize = 16;

/// Sends token ids, and returns how many of them the server took from a cache.
fn cached(server: &Server, key: &str, prompt: &[usize]) -> usize {
    let body =
        json!({ "model": "smollm2-135m-instruct", "prompt": prompt, "max_tokens": 1, "temperature": 0 });
    let answer = http::post(server.address, "/v1/completions", key, &body);
    assert_eq!(answer.status(), 200, "{}", answer.json());
    let usage = &answer.json()["usage"];
    assert_eq!(usage["prompt_tokens"], prompt.len());
    usize::try_from(usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()).unwrap()
}

#[test]
fn a_shared_prefix_is_found_by_whole_pages_and_by_its_own_tenant_alone() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let (one, two) = (home.key("one"), home.key("two"));
    let server = home.up(&["--pool-tokens", "4096"]);
    server.knows(&one);
    server.knows(&two);
    let mut found_any = 0;
    for (case, prefix) in
        [PAGE - 1, PAGE, PAGE + 1, 2 * PAGE - 1, 2 * PAGE, 2 * PAGE + 1, 8 * PAGE].into_iter().enumerate()
    {
        // A prefix that no other case shares, and a tail of its own for each request.
        let prompt = |tail: usize| -> Vec<usize> {
            (0..prefix)
                .map(|at| 1000 + case * 100 + at)
                .chain((0..4).map(|at| 9000 + tail * 10 + at))
                .collect()
        };
        assert_eq!(cached(&server, &one, &prompt(1)), 0, "a prefix of {prefix} is not new");
        let found = cached(&server, &one, &prompt(2));
        assert_eq!(found, prefix / PAGE * PAGE, "a prefix of {prefix}");
        assert_eq!(cached(&server, &two, &prompt(2)), 0, "another tenant found a prefix of {prefix}");
        found_any += found;
    }
    assert!(found_any > 0);
}

#[test]
fn the_last_token_of_a_prompt_is_always_computed() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let (one, two) = (home.key("one"), home.key("two"));
    let server = home.up(&["--pool-tokens", "4096"]);
    server.knows(&one);
    server.knows(&two);
    for (case, length) in [PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 2 * PAGE + 1].into_iter().enumerate() {
        let prompt: Vec<usize> = (0..length).map(|at| 1000 + case * 100 + at).collect();
        assert_eq!(cached(&server, &one, &prompt), 0, "a prompt of {length} is not new");
        assert_eq!(cached(&server, &one, &prompt), (length - 1) / PAGE * PAGE, "a prompt of {length}");
        assert_eq!(cached(&server, &two, &prompt), 0, "another tenant found a prompt of {length}");
    }
}

/// An audit of seconds. A level is rejected where hits lead by 11 of 14 or more, so that three answers may be late for reasons of
/// their own; where nothing leaks, that happens once in twelve thousand times.
const SMALL: [&str; 9] =
    ["bench", "prefix-audit", "--samples", "14", "--warm-ups", "1", "--alpha", "1e-4", "--json"];

fn audit(home: &Home, more: &[&str]) -> (Option<i32>, Value, String) {
    let output: Output = home.run(&[&SMALL, more].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), errors)
}

/// The level's part of a report.
fn level<'a>(report: &'a Value, name: &str) -> &'a Value {
    let audits = report["audits"].as_array().expect("a list of audits");
    audits.iter().find(|audit| audit["level"] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// Keys as files that only their user reads, as options.
fn key_options(home: &Home, keys: [&str; 3]) -> Vec<String> {
    let names = ["victim", "same-tenant", "cross-tenant"];
    names
        .iter()
        .zip(keys)
        .flat_map(|(name, key)| {
            let file = home.path().join(format!("{name}.key"));
            std::fs::write(&file, format!("{key}\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            [format!("--{name}-key-file"), file.to_str().unwrap().to_owned()]
        })
        .collect()
}

#[test]
fn the_audit_sees_its_control_and_nothing_across_tenants() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    home.place_model();
    let (code, report, errors) = audit(&home, &["--letters", "33", "--seed", "9"]);
    assert_eq!((code, &report["verdict"]), (Some(0), &json!("pass")), "{report} {errors}");
    assert_eq!(report["prompt_tokens"], 33, "a letter is a token: {report}");
    assert_eq!((&report["seed"], &report["samples"]), (&json!(9), &json!(14)));
    assert_eq!(report["audits"].as_array().unwrap().len(), 3);
    for name in ["same-tenant", "same-key"] {
        let seen = level(&report, name);
        assert_eq!((&seen["rejected"], &seen["warm_ups"]), (&json!(true), &json!(1)), "{report}");
        assert_eq!(
            (&seen["hit"]["cached_samples"], &seen["hit"]["cached_tokens_max"]),
            (&json!(14), &json!(32))
        );
        assert_eq!(seen["miss"]["cached_samples"], 0, "{report}");
        assert!(seen["d"].as_f64().unwrap() > 0.7 && seen["p"].as_f64().unwrap() < 1e-4, "{report}");
        assert!(seen["hit"]["median_ms"].is_f64() && seen["miss"]["median_ms"].is_f64());
    }
    let crossed = level(&report, "cross-tenant");
    assert_eq!(crossed["rejected"], false, "{report}");
    assert_eq!(
        (&crossed["hit"]["cached_samples"], &crossed["miss"]["cached_samples"]),
        (&json!(0), &json!(0))
    );
    assert!(crossed["advantage_max"].as_f64().unwrap() <= 1.0);
    assert!(errors.contains("about") && errors.contains("seed 9"), "no estimate up front: {errors}");
    // Nothing of the server is left in the data folder: it had one of its own.
    assert!(!home.path().join("tenants.db").exists());
}

/// The control of the audit itself: with a key of the victim's own tenant in the place of another tenant's, it must find the
/// leak, by the clock and by the count; and with prompts that no page of a cache can hold, it must not pass.
#[test]
fn the_audit_finds_a_leak_where_there_is_one_and_is_void_where_it_is_blind() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let one = home.key("victim");
    let of_victim =
        || home.json(&["key", "create", "--tenant", "victim", "--json"])["key"].as_str().unwrap().to_owned();
    let (two, three, other) = (of_victim(), of_victim(), home.key("other"));
    let server = home.up(&["--pool-tokens", "2048"]);
    for key in [&one, &two, &three, &other] {
        server.knows(key);
    }
    let url = format!("http://{}/v1", server.address);
    let run = |keys: [&str; 3], more: &[&str]| {
        let options = key_options(&home, keys);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        audit(&home, &[&["--url", &url], &options[..], more].concat())
    };

    let (code, report, errors) = run([&one, &two, &three], &["--letters", "33"]);
    assert_eq!((code, &report["verdict"]), (Some(12), &json!("leak")), "{report} {errors}");
    let crossed = level(&report, "cross-tenant");
    assert_eq!(
        (&crossed["rejected"], &crossed["hit"]["cached_samples"]),
        (&json!(true), &json!(14)),
        "{report}"
    );
    assert!(errors.contains("leak:"), "{errors}");

    let (code, report, errors) = run([&one, &two, &other], &["--letters", "8"]);
    assert_eq!((code, &report["verdict"]), (Some(11), &json!("void")), "{report} {errors}");
    assert_eq!(level(&report, "same-tenant")["rejected"], false);
    assert!(errors.contains("void:"), "{errors}");

    // What cannot be audited is refused with its numbers, before it takes any time.
    let (code, _, errors) = run([&one, &two, &other], &["--letters", "2048"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(
        errors.contains("2049") && errors.contains("2048") && errors.contains("--letters 2047"),
        "{errors}"
    );
    let (code, _, errors) = run([&one, &two, "bh_live_unknown"], &["--letters", "33"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("401") && errors.contains("other tenant's key"), "{errors}");
    for (name, key) in [("victim", &one), ("same tenant", &two)] {
        assert!(!errors.contains(key.as_str()), "the {name}'s key is shown");
    }
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let options = key_options(&home, ["a", "b", "c"]);
    let file = home.path().join("same-tenant.key");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (code, _, errors) = audit(&home, &[&["--url", "http://127.0.0.1:1/v1"], &options[..]].concat());
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("644") && errors.contains("same-tenant.key"), "{errors}");
    let (code, _, errors) = audit(&home, &["--url", "http://127.0.0.1:1/v1"]);
    assert_eq!(code, Some(2), "a URL without keys: {errors}");
}

#[test]
fn so_few_samples_that_nothing_could_be_seen_are_refused() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let output = home.run(&["bench", "prefix-audit", "--samples", "7", "--alpha", "1e-4"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("7 samples") && errors.contains("--samples 8") && errors.contains("1e-4"),
        "{errors}"
    );
    assert_eq!(home.run(&["bench", "prefix-audit", "--alpha", "1"]).status.code(), Some(2));
}

/// An audit that was cut short says so: its end must not look like a pass, and nothing of its server stays behind.
#[test]
fn an_audit_that_is_cut_short_is_no_pass() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    home.place_model();
    let folder = home.path().join("tmp");
    std::fs::create_dir(&folder).unwrap();
    let mut command = home.command(&["bench", "prefix-audit", "--letters", "33"]);
    let child = command.env("TMPDIR", &folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the binary runs");
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let begun = errors.by_ref().map(Result::unwrap).any(|line| line.contains("3 levels"));
    assert!(begun, "it ended before it began: {:?}", child.wait());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "the server has no folder of its own");
    signal("TERM", child.id());
    let rest: Vec<String> = errors.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("ended before it was done")), "{rest:?}");
    assert!(output.stdout.is_empty(), "a report of half an audit");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "the folder is left behind");
}
