//! Gateways over one PostgreSQL: what a revocation takes, and what happens while the database is away.

use std::os::unix::fs::MetadataExt;
use std::process::Output;
use std::time::{Duration, Instant};

use integration::http;
use integration::postgres::{by_line, database};
use integration::server::{Home, Services};
use integration::wait;
use serde_json::{Value, json};

/// The longest wait for anything; reached only when something is broken.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn home_on(store: &str) -> Home {
    Home::new(env!("CARGO_BIN_EXE_bulkhead")).with_store(store.to_owned())
}

fn ask(home: &Home, line: &str) -> Value {
    home.json(&line.split(' ').chain(["--json"]).collect::<Vec<_>>())
}

fn made_key(home: &Home) -> (String, String) {
    let made = ask(home, "key create --tenant acme");
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("key"))
}

fn chat() -> Value {
    json!({ "model": integration::server::MODEL, "max_tokens": 2, "messages": [{ "role": "user", "content": "Hi." }] })
}

/// Another folder for the same store: its pepper is the same.
fn another(home: &Home, store: &str) -> Home {
    let other = home_on(store);
    std::fs::copy(home.path().join("pepper.key"), other.path().join("pepper.key")).unwrap();
    other
}

#[test]
fn three_gateways_refuse_a_revoked_key_within_a_second() {
    const KEYS: usize = 34;
    let store = database();
    let first = home_on(&store);
    ask(&first, "tenant create acme");
    let homes = [another(&first, &store), another(&first, &store), another(&first, &store)];
    let gateways: Vec<_> = homes.iter().map(Services::gateway).collect();
    // There is no engine: a key that works gets 503, one that does not 401.
    let status =
        |gateway: &Services<'_>, key: &str| http::get(gateway.address(), "/v1/models", Some(key)).status();
    let keys: Vec<_> = (0..KEYS).map(|_| made_key(&first)).collect();
    for gateway in &gateways {
        for (_, key) in &keys {
            wait::until("the key", WAIT_MAX, || (status(gateway, key) == 503).then_some(()));
        }
    }
    let mut lags = vec![];
    for (id, key) in &keys {
        ask(&first, &format!("key revoke {id}"));
        // From the end of the command on, which is later than the commit.
        let revoked = Instant::now();
        for gateway in &gateways {
            // 401, or 429 once too many were refused from this address.
            wait::until("the refusal", WAIT_MAX, || (status(gateway, key) != 503).then_some(()));
            lags.push(revoked.elapsed());
        }
    }
    lags.sort();
    let (median, p99) = (lags[lags.len() / 2], lags[lags.len() * 99 / 100]);
    println!("{} refusals: median {median:?}, p99 {p99:?}, worst {:?}", lags.len(), lags[lags.len() - 1]);
    assert!(p99 <= Duration::from_secs(1), "{lags:?}");
    for gateway in &gateways {
        assert_eq!(gateway.status()["keys"]["pushed"], true);
    }
}

#[test]
fn a_server_goes_on_while_its_database_is_away() {
    let (store, line) = by_line(&database());
    let home = home_on(&store);
    let server = home.up(&["--pool-tokens", "512"]);
    let keys = || server.status()["keys"].clone();
    wait::until("to be told of changes", WAIT_MAX, || (keys()["pushed"] == true).then_some(()));
    assert_eq!(server.chat(&chat()).status(), 200);
    line.cut();
    wait::until("a failure", WAIT_MAX, || (keys()["failures"].as_u64() > Some(2)).then_some(()));
    for _ in 0..5 {
        assert_eq!(server.chat(&chat()).status(), 200);
    }
    assert!(keys()["pushed"] == false && keys()["age_ms"].as_u64() > Some(100), "{}", keys());
    line.heal();
    wait::until("to be told again", WAIT_MAX, || {
        (keys()["pushed"] == true && keys()["failures"] == 0).then_some(())
    });
    let made = ask(&home, "key create --tenant demo");
    server.knows(made["key"].as_str().unwrap());
}

/// The process that is this one's child.
fn child_of(parent: u32) -> u32 {
    let all =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut processes = all.filter_map(|name| name.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which may hold anything: the state, and then the parent.
        let rest = stat.rsplit(") ").next().unwrap_or_default();
        rest.split(' ').nth(1) == Some(parent.to_string().as_str())
    };
    processes.find(is_child).expect("a child")
}

/// The engine talks to no store and counts no limits, and the addresses hold passwords.
#[test]
fn the_engine_is_not_told_the_addresses_of_servers() {
    let home = home_on(&database()).with_limits("redis://:a-password@127.0.0.1:1/0".to_owned());
    let server = home.up(&["--pool-tokens", "512"]);
    let knows = |pid: u32, name: &str| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        String::from_utf8_lossy(&environment).contains(&format!("{name}="))
    };
    let server_pid = server.process.pid();
    for name in ["BULKHEAD_STORE_URL", "BULKHEAD_LIMITS_URL"] {
        assert!(knows(server_pid, name), "the control: the server itself is told {name}");
        assert!(!knows(child_of(server_pid), name), "{name}");
    }
}

#[test]
fn a_gateway_starts_while_its_database_is_away() {
    let (store, line) = by_line(&database());
    let home = home_on(&store);
    ask(&home, "tenant create acme");
    let ((_, key), (revoked_id, revoked)) = (made_key(&home), made_key(&home));
    let copy = home.path().join("keys.copy");
    {
        let gateway = Services::gateway(&home);
        let _engine = gateway.engine(&["--pool-tokens", "512"]);
        gateway.knows(&key);
        gateway.knows(&revoked);
        wait::until("a copy", WAIT_MAX, || copy.exists().then_some(()));
        // Another file: a confirmation is written into the one that is there.
        let file = || std::fs::metadata(&copy).unwrap().ino();
        let before = file();
        ask(&home, &format!("key revoke {revoked_id}"));
        wait::until("another copy", WAIT_MAX, || (file() != before).then_some(()));
    }
    line.cut();
    let gateway = Services::gateway(&home);
    let _engine = gateway.engine(&["--pool-tokens", "512"]);
    assert_eq!(gateway.chat(&key, &chat()).status(), 200);
    assert_eq!(gateway.chat(&revoked, &chat()).status(), 401, "it was revoked before");
    line.heal();
    let (_, later) = made_key(&home);
    gateway.knows(&later);

    line.cut();
    drop(gateway);
    std::fs::remove_file(&copy).unwrap();
    let output = refused_start(&home);
    assert_eq!(output.status.code(), Some(10), "without store and copy there is nobody to let in");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot read the keys") && said.contains("no copy"), "{said}");
}

/// The output of a gateway that does not start.
fn refused_start(home: &Home) -> Output {
    let mut command = home.command(&["gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.arg("--model").arg(home.place_model()).arg("--engine-socket").arg(home.path().join("none.sock"));
    command.arg("--wire-key-file").arg(home.path().join("run/wire.key"));
    command.output().unwrap()
}

#[test]
fn what_the_store_itself_says_is_not_covered_up_by_the_copy() {
    let store = database();
    let home = home_on(&store);
    ask(&home, "tenant create acme");
    let (_, key) = made_key(&home);
    let copy = home.path().join("keys.copy");
    {
        let gateway = Services::gateway(&home);
        wait::until("a copy", WAIT_MAX, || copy.exists().then_some(()));
        let status = || http::get(gateway.address(), "/v1/models", Some(&key)).status();
        wait::until("the key", WAIT_MAX, || (status() == 503).then_some(()));
    }
    let other = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    ask(&other, "tenant create acme");
    std::fs::copy(other.path().join("pepper.key"), home.path().join("pepper.key")).unwrap();
    let output = refused_start(&home);
    assert_eq!(output.status.code(), Some(10), "the store was made with another pepper");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("pepper") && !said.contains("copy"), "{said}");
}
