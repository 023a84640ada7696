//! Witnesses of an audit log, as processes: what they cosign, what they refuse, and what an auditor makes of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use audit::{AuditLog, Boot, Hex, LogKey, PolicySource, Record};
use integration::http::Connection;
use integration::process::{Process, signal};
use integration::server::Home;

/// From the start of the process to its first lines, at most.
const START_MAX: Duration = Duration::from_secs(60);

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_bulkhead"))
}

/// Adds leaves to the log of a folder; each `mark` is another history.
fn grow(folder: &Path, key: &LogKey, mark: u8, leaves: usize) {
    let key = LogKey::parse(&key.private()).unwrap();
    let (log, _) = AuditLog::open(folder, key).unwrap();
    for _ in 0..leaves {
        let boot = Boot { version: [0, 1, 0], policy: Hex([mark; 32]), source: PolicySource::Shipped };
        log.append(&Record::Boot(boot), SystemTime::now()).unwrap().wait().unwrap();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A log in a folder, its key, and that key's public file.
struct Log {
    key: LogKey,
    folder: PathBuf,
    public: PathBuf,
}

impl Log {
    fn new(home: &Home) -> Self {
        let key = LogKey::generate("log.example/1").unwrap();
        let public = home.path().join("log.pub");
        fs::write(&public, key.public().to_string()).unwrap();
        let folder = home.path().join("log");
        grow(&folder, &key, 1, 3);
        Self { key, folder, public }
    }
}

/// A witness's process in `home`, on the files of that name.
fn witness(home: &Home, log: &Log, name: &str) -> Process {
    let [key, state] = ["key", "state"].map(|end| home.path().join(format!("{name}.{end}")));
    let mut command = home.command(&["audit", "witness", "--listen", "127.0.0.1:0"]);
    command.args(["--key", text(&key), "--state", text(&state), "--watch", text(&log.public)]);
    Process::start(&mut command, START_MAX, |line| line.starts_with("key:"))
}

fn cosign(home: &Home, log: &Log, folder: &Path, witnesses: &[(&Process, &str)]) -> (Option<i32>, String) {
    let mut args = vec!["audit", "cosign", "--folder", text(folder), "--key", text(&log.public)];
    let named: Vec<(String, PathBuf)> = witnesses
        .iter()
        .map(|(process, name)| (process.after("listening:"), home.path().join(format!("{name}.pub"))))
        .collect();
    for (url, key) in &named {
        args.extend(["--witness", url, "--witness-key", text(key)]);
    }
    let output = home.run(&args);
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn verify(home: &Home, folder: &Path, policy: &str) -> (Option<i32>, String) {
    let path = home.path().join("trust.toml");
    fs::write(&path, policy).unwrap();
    let output = home.run(&["audit", "verify", "--folder", text(folder), "--policy", text(&path)]);
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn policy(log: &Log, witnesses: &[&Process], quorum: usize) -> String {
    let keys: Vec<String> = witnesses.iter().map(|process| process.after("key:")).collect();
    format!("log = \"{}\"\nwitnesses = {keys:?}\nquorum = {quorum}\n", log.key.public())
}

#[test]
fn a_log_is_cosigned_by_two_and_its_fork_by_nobody() {
    let home = home();
    let log = Log::new(&home);
    let (one, two) = (witness(&home, &log, "one"), witness(&home, &log, "two"));
    let (code, said) = verify(&home, &log.folder, &policy(&log, &[&one], 1));
    assert_eq!(code, Some(2), "nobody has cosigned: {said}");

    let (code, said) = cosign(&home, &log, &log.folder, &[(&one, "one")]);
    assert_eq!(code, Some(0), "{said}");
    for (quorum, wanted) in [(1, Some(0)), (2, Some(2))] {
        let (code, said) = verify(&home, &log.folder, &policy(&log, &[&one, &two], quorum));
        assert_eq!(code, wanted, "{said}");
    }
    grow(&log.folder, &log.key, 1, 300);
    let (code, said) = cosign(&home, &log, &log.folder, &[(&one, "one"), (&two, "two")]);
    assert_eq!(code, Some(0), "the first knows what it had, the second nothing: {said}");
    let (code, said) = verify(&home, &log.folder, &policy(&log, &[&one, &two], 2));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 witnesses"), "{said}");

    // Whoever has the log's key writes another history, and nobody cosigns it.
    let fork = home.path().join("fork");
    grow(&fork, &log.key, 2, 400);
    let (code, said) = cosign(&home, &log, &fork, &[(&one, "one")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("422") && !fork.join("cosigned").exists(), "{said}");
    fs::copy(log.folder.join("cosigned"), fork.join("cosigned")).unwrap();
    let (code, said) = verify(&home, &fork, &policy(&log, &[&one, &two], 2));
    assert_eq!(code, Some(1), "the fork is seen: {said}");
    // Without witnesses nobody can tell: this is what they are for.
    let alone = format!("log = \"{}\"\n", log.key.public());
    assert_eq!(verify(&home, &fork, &alone).0, Some(0));

    let wrong = fs::read_to_string(log.folder.join("cosigned")).unwrap().replace("AAAA", "AAAB");
    fs::write(log.folder.join("cosigned"), wrong).unwrap();
    let (code, said) = verify(&home, &log.folder, &policy(&log, &[&one, &two], 1));
    assert_eq!(code, Some(1), "a cosignature of another second: {said}");
    let (code, said) = verify(&home, &log.folder, &policy(&log, &[&one], 2));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("quorum is 2, and it lists 1"), "{said}");
}

#[test]
fn a_killed_witness_forgets_nothing_and_a_lost_state_is_no_beginning() {
    let home = home();
    let log = Log::new(&home);
    for round in 0..4 {
        let mut process = witness(&home, &log, "one");
        grow(&log.folder, &log.key, 1, 2 + round);
        let (code, said) = cosign(&home, &log, &log.folder, &[(&process, "one")]);
        assert_eq!(code, Some(0), "{said}");
        signal("KILL", process.pid());
        process.wait();
    }
    let process = witness(&home, &log, "one");
    let fork = home.path().join("fork");
    grow(&fork, &log.key, 2, 100);
    let (code, said) = cosign(&home, &log, &fork, &[(&process, "one")]);
    assert_eq!(code, Some(1), "{said}");
    drop(process);

    let again = |home: &Home| {
        let [key, state] = ["one.key", "one.state"].map(|name| home.path().join(name));
        let args = ["--key", text(&key), "--state", text(&state), "--watch", text(&log.public)];
        let output = home.run(&[&["audit", "witness", "--listen", "127.0.0.1:0"][..], &args].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let state = home.path().join("one.state");
    for entry in fs::read_dir(&state).unwrap().flatten() {
        if entry.file_name().len() == 64 {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let (code, said) = again(&home);
    assert_eq!(code, Some(10), "{said}");
    assert!(said.contains("was watched"), "{said}");
    fs::remove_dir_all(&state).unwrap();
    let (code, said) = again(&home);
    assert_eq!(code, Some(10), "{said}");
    assert!(said.contains("begin with another key"), "{said}");
}

#[test]
fn what_is_no_request_gets_an_answer_and_costs_little() {
    let home = home();
    let log = Log::new(&home);
    let process = witness(&home, &log, "one");
    let address = process.address_after("listening:");
    let ask = |head: &str, body: &[u8]| {
        let mut connection = Connection::open(address);
        let head = format!("{head} HTTP/1.1\r\nhost: w\r\ncontent-length: {}\r\n\r\n", body.len());
        // It may answer and close before it has taken all.
        drop(connection.send(&[head.as_bytes(), body].concat()));
        connection.head().unwrap().status
    };
    assert_eq!(ask("GET /", b""), 404);
    assert_eq!(ask("GET /add-checkpoint", b""), 405);
    assert_eq!(ask("POST /add-checkpoint", b"old 0\n"), 400);
    assert_eq!(ask("POST /add-checkpoint", &vec![b'x'; 80_000]), 413);
    let checkpoint = fs::read(log.folder.join("checkpoint")).unwrap();
    assert_eq!(ask("POST /add-checkpoint", &[b"old 0\n\n", &checkpoint[..]].concat()), 200);
    process.terminate();
}
