//! Gateways that count limits together in a Redis server, and what happens while it, and the database, are away.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use integration::http;
use integration::postgres::{by_line, database};
use integration::redis::Redis;
use integration::server::{Home, MODEL, Services};
use integration::wait;
use serde_json::{Value, json};

/// The longest wait for anything; reached only when something is broken.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Requests a minute of the tenant; a gateway may be 2 of them ahead.
const REQUESTS: usize = 40;
const SLICE: usize = 2;
const GATEWAYS: usize = 3;

fn ask(home: &Home, line: &str) -> Value {
    home.json(&line.split(' ').chain(["--json"]).collect::<Vec<_>>())
}

fn chat() -> Value {
    json!({ "model": MODEL, "max_tokens": 1, "messages": [{ "role": "user", "content": "Hi." }] })
}

/// Three homes over one store and one Redis server, with a tenant, its limit and its key.
fn homes(store: &str, redis: &Redis) -> ([Home; GATEWAYS], String) {
    let home =
        || Home::new(env!("CARGO_BIN_EXE_bulkhead")).with_store(store.to_owned()).with_limits(redis.url());
    let homes = [home(), home(), home()];
    let [first, rest @ ..] = &homes;
    ask(first, "tenant create acme");
    ask(first, &format!("limit set --tenant acme --requests-per-minute {REQUESTS}"));
    for other in rest {
        std::fs::copy(first.path().join("pepper.key"), other.path().join("pepper.key")).unwrap();
    }
    let key = ask(first, "key create --tenant acme")["key"].as_str().unwrap().to_owned();
    (homes, key)
}

/// The most that may be admitted in `time` by gateways of which each counts all.
fn most(time: Duration) -> usize {
    let more = time.as_millis() * u128::try_from(REQUESTS).unwrap() / 60_000 + 1;
    REQUESTS + usize::try_from(more).unwrap() + GATEWAYS * SLICE
}

#[test]
fn three_gateways_keep_a_limit_together() {
    let redis = Redis::start();
    let (homes, key) = homes(&database(), &redis);
    let gateways: Vec<_> = homes.iter().map(Services::gateway).collect();
    let _engines: Vec<_> = gateways.iter().map(|gateway| gateway.engine(&["--pool-tokens", "512"])).collect();
    gateways.iter().for_each(|gateway| gateway.knows(&key));
    let (admitted, began) = (AtomicUsize::new(0), Instant::now());
    thread::scope(|scope| {
        for gateway in gateways.iter().cycle().take(2 * GATEWAYS) {
            let (admitted, key) = (&admitted, &key);
            scope.spawn(move || {
                let mut refused = 0;
                while refused < 5 {
                    let answer = gateway.chat(key, &chat());
                    match answer.status() {
                        200 => _ = admitted.fetch_add(1, Ordering::SeqCst),
                        429 => {
                            assert_eq!(
                                answer.head.header("x-bulkhead-reason"),
                                Some("tenant.requests_per_minute")
                            );
                            refused += 1;
                        }
                        other => panic!("{other}: {}", answer.json()),
                    }
                }
            });
        }
    });
    let (admitted, time) = (admitted.into_inner(), began.elapsed());
    assert!(admitted >= REQUESTS && admitted <= most(time), "{admitted} in {time:?}");
    for gateway in &gateways {
        let limits = gateway.status()["limits"].clone();
        assert_eq!((&limits["shared"], &limits["away"]), (&json!(true), &json!(false)), "{limits}");
    }
}

#[test]
fn with_database_and_redis_gone_under_load_nobody_gets_an_error_and_no_usage_is_lost() {
    outage(Duration::from_secs(4));
}

#[test]
#[ignore = "more than a minute: ./check --soak"]
fn the_same_for_a_minute() {
    outage(Duration::from_secs(60));
}

#[expect(clippy::disallowed_methods, reason = "load, and a time to be away, are a matter of time")]
fn pause(time: Duration) {
    thread::sleep(time);
}

/// Load on three gateways, while database and Redis are away for so long.
fn outage(away: Duration) {
    let mut redis = Redis::start();
    let (store, line) = by_line(&database());
    let (homes, key) = homes(&store, &redis);
    let gateways: Vec<_> = homes.iter().map(Services::gateway).collect();
    let _engines: Vec<_> = gateways.iter().map(|gateway| gateway.engine(&["--pool-tokens", "512"])).collect();
    gateways.iter().for_each(|gateway| gateway.knows(&key));
    let (end, served, began) = (AtomicBool::new(false), AtomicUsize::new(0), Instant::now());
    thread::scope(|scope| {
        for gateway in &gateways {
            let (end, served, key) = (&end, &served, &key);
            scope.spawn(move || {
                while !end.load(Ordering::SeqCst) {
                    let answer = gateway.chat(key, &chat());
                    match answer.status() {
                        200 => _ = served.fetch_add(1, Ordering::SeqCst),
                        429 => pause(Duration::from_millis(100)),
                        other => panic!("{other}: {}", answer.json()),
                    }
                }
            });
        }
        pause(Duration::from_secs(1));
        redis.kill();
        line.cut();
        let is_away = |gateway: &Services<'_>| gateway.status()["limits"]["away"] == true;
        for gateway in &gateways {
            wait::until("to see that nobody counts", WAIT_MAX, || is_away(gateway).then_some(()));
        }
        pause(away);
        line.heal();
        redis.again();
        for gateway in &gateways {
            wait::until("to count together", WAIT_MAX, || (!is_away(gateway)).then_some(()));
        }
        pause(Duration::from_secs(1));
        end.store(true, Ordering::SeqCst);
    });
    let (served, time) = (served.into_inner(), began.elapsed());
    // By itself each gateway keeps the limit whole.
    assert!(served >= 3 && served <= GATEWAYS * most(time), "{served} in {time:?}");
    let requests = || {
        let rows = ask(&homes[0], "usage --tenant acme --by hour");
        rows.as_array().unwrap().iter().map(|row| row["requests"].as_u64().unwrap()).sum::<u64>()
    };
    wait::until("all usage", WAIT_MAX, || (requests() >= u64::try_from(served).unwrap()).then_some(()));
    assert_eq!(requests(), u64::try_from(served).unwrap());
}

#[test]
fn a_closed_policy_refuses_without_redis_and_says_what_is_away() {
    let mut redis = Redis::start();
    let (homes, key) = homes(&database(), &redis);
    let gateway = Services::gateway_with_api(&homes[0], "shared_limits_away = \"closed\"\n");
    let _engine = gateway.engine(&["--pool-tokens", "512"]);
    gateway.knows(&key);
    redis.kill();
    for _ in 0..SLICE {
        assert_eq!(gateway.chat(&key, &chat()).status(), 200, "what it may be ahead");
    }
    let refused = gateway.chat(&key, &chat());
    assert_eq!((refused.status(), refused.code().as_str()), (503, "limits_unavailable"));
    assert_eq!(refused.head.header("x-bulkhead-reason"), Some("gateway.shared_limits"));
    assert_eq!(refused.head.header("retry-after"), Some("1"));
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("Limits cannot be counted now: requests_per_minute of tenant "), "{message}");
    let metrics = http::get(gateway.admin(), "/metrics", None);
    let text = String::from_utf8(metrics.body.clone()).unwrap();
    for line in ["bulkhead_shared_limits_up 0", "bulkhead_limits_unavailable_total 1"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    redis.again();
    wait::until("to be let in", WAIT_MAX, || (gateway.chat(&key, &chat()).status() == 200).then_some(()));
}
