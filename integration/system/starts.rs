//! What keeps a server from starting: each cause has its own exit code, and a message that says what to do.

use std::net::TcpListener;
use std::process::Output;

use integration::server::{Home, test_model};

fn up(home: &Home, more: &[&str]) -> (Option<i32>, String) {
    let mut command = home.command(&["up"]);
    command.args(["--pool-tokens", "512"]);
    command.args(more);
    ended(command.output().expect("the binary runs"))
}

fn ended(output: Output) -> (Option<i32>, String) {
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(!said.lines().any(|line| line == "ready"), "{said}");
    (output.status.code(), said)
}

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_bulkhead"))
}

#[test]
fn a_port_that_is_taken_ends_with_4_and_names_the_port() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let model = test_model();
    let from = ["--from", model.to_str().unwrap()];
    for (listen, admin) in [(address.as_str(), "127.0.0.1:0"), ("127.0.0.1:0", address.as_str())] {
        let home = home();
        let (code, said) = up(&home, &[&from[..], &["--listen", listen, "--admin", admin]].concat());
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains(&address), "{said}");
    }
}

#[test]
fn a_bad_model_ends_with_5() {
    let home = home();
    let half = home.path().join("half.gguf");
    let whole = std::fs::read(test_model()).unwrap();
    std::fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    let (code, said) = up(&home, &["--from", half.to_str().unwrap()]);
    assert_eq!(code, Some(5), "{said}");

    let mut flipped = whole;
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    std::fs::write(&half, &flipped).unwrap();
    let (code, said) = up(&home, &["--from", half.to_str().unwrap()]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.to_lowercase().contains("sha-256") || said.contains("SHA256"), "{said}");

    let (code, said) = up(&home, &["--model", "no-such-model"]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("smollm2-135m-instruct"), "the catalog is not named: {said}");
    let kept = home.json(&["model", "list", "--json"]);
    assert!(kept[0]["path"].is_null(), "a refused model was kept: {kept}");
}

#[test]
fn without_python_the_code_is_6_and_the_way_around_is_named() {
    let home = home();
    let mut command = home.command(&["model", "pull", "smollm2-135m-instruct"]);
    let (code, said) = ended(command.env("PATH", home.path()).output().unwrap());
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("--from"), "{said}");
}

#[test]
fn a_pool_that_no_memory_holds_ends_with_7_and_both_numbers() {
    let home = home();
    let mut command = home.command(&["up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.arg("--from").arg(test_model()).args(["--pool-tokens", "4294967295"]);
    let (code, said) = ended(command.output().unwrap());
    assert_eq!(code, Some(7), "{said}");
    assert!(said.contains("4294967295"), "{said}");
}

#[test]
fn a_folder_in_use_ends_with_9() {
    let home = home();
    let running = home.up(&["--pool-tokens", "512"]);
    let (code, said) = up(&home, &["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    assert_eq!(code, Some(9), "{said}");
    assert!(said.contains("--data"), "{said}");
    drop(running);
}

#[test]
fn a_policy_that_is_refused_ends_with_3() {
    let home = home();
    let policy = home.path().join("limits.toml");
    std::fs::write(&policy, "messages_max = 0\n").unwrap();
    let model = test_model();
    let (code, said) = up(
        &home,
        &[
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--from",
            model.to_str().unwrap(),
            "--policy",
            policy.to_str().unwrap(),
        ],
    );
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("messages_max"), "{said}");
}

#[test]
fn a_config_that_says_too_much_ends_with_3() {
    let home = home();
    let config = home.path().join("bulkhead.toml");
    std::fs::write(&config, "listn = \"127.0.0.1:0\"\n").unwrap();
    let (code, said) = ended(home.run(&["serve", "--config", config.to_str().unwrap()]));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("listn"), "{said}");
}
