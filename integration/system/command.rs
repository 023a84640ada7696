//! The command line itself: help, usage errors, exit codes that need no server.

use std::process::{Command, Output};

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
    for wrong in
        [&["fly"][..], &["up", "--listen", "nowhere"], &["up", "--pool-tokens", "0"], &["key", "create"]]
    {
        let output = bulkhead(wrong);
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
