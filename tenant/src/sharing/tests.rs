//! The shared count in Redis against its reference; what the task does that tells it is in `telling`.

mod telling;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use uuid::Uuid;

use super::*;
use crate::level::{Level, Models};
use crate::rate::tests::count::Count;
use crate::rate::{Rate, Scope};
use crate::secret::Secret;
use crate::store::TenantId;

fn server() -> RedisCount {
    let address = std::env::var("BULKHEAD_TEST_REDIS")
        .expect("BULKHEAD_TEST_REDIS must name a Redis server, as ./check does");
    RedisCount::new(&Secret::new(address)).unwrap()
}

fn a_scope() -> (TenantId, Scope) {
    let tenant = TenantId(Uuid::now_v7());
    (tenant, Scope { level: Level::Tenant(tenant), models: Models::All })
}

/// One unit runs out each millisecond, so that the clock of the test and that of the server hardly differ.
fn rate(charged: u64, given: u64) -> Rate {
    Rate { per_minute: 1, believed: 0, charged, given }
}

fn reports(tenant: TenantId, scope: &Scope, sequence: u64, rate: Rate, places: u32) -> [Report; 1] {
    [Report { tenant, scope: scope.clone(), sequence, requests: rate, tokens: rate, places }]
}

fn a_rate() -> impl Strategy<Value = Rate> {
    (0..3_u32, 0..9_u64, 0..9_u64, 0..9_u64).prop_map(|(per_minute, believed, charged, given)| Rate {
        per_minute,
        believed: believed * 1_000_000,
        charged: charged * 1_000_000,
        given: given * 1_000_000,
    })
}

#[tokio::test]
async fn redis_counts_as_the_reference_does() {
    let mut runner = TestRunner::deterministic();
    for _ in 0..40 {
        let steps = proptest::collection::vec((0..3_usize, a_rate(), a_rate(), 0..4_u8, 0..5_u32), 1..60)
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let (tenant, scope) = a_scope();
        let (mut servers, mut reference) = ([server(), server(), server()], Count::default());
        let mut sequences = [1; 3];
        let began = Instant::now();
        for (gateway, requests, tokens, kind, places) in steps {
            // Most are new, some come twice, and some late.
            let sequence = match kind {
                0 => sequences[gateway],
                1 => sequences[gateway] - 1,
                _ => sequences[gateway] + 1,
            };
            sequences[gateway] = sequences[gateway].max(sequence);
            let told = [Report { tenant, scope: scope.clone(), sequence, requests, tokens, places }];
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap();
            let expected = reference.tell(gateway, &told[0], ms);
            let [answer] = servers[gateway].tell(&told).await.unwrap().try_into().unwrap();
            let late = 2 * u64::try_from(began.elapsed().as_millis()).unwrap() + 9;
            assert_eq!(answer.others, expected.others);
            for (told, expected) in [(answer.requests, expected.requests), (answer.tokens, expected.tokens)] {
                let pairs = [
                    (told.level, expected.level),
                    (told.lowest, expected.lowest),
                    (told.since, expected.since),
                ];
                for (one, other) in pairs {
                    assert!(one.abs_diff(other) <= late, "{told:?}, {expected:?}, within {late}");
                }
            }
        }
    }
}

#[tokio::test]
async fn what_a_gateway_has_in_flight_counts_for_a_time_and_no_more() {
    let (tenant, scope) = a_scope();
    let (mut dead, mut other) = (server(), server());
    dead.counted = Duration::from_millis(300);
    dead.tell(&reports(tenant, &scope, 1, rate(0, 0), 4)).await.unwrap();
    let began = Instant::now();
    let mut sequence = 0;
    let mut look = async || {
        sequence += 1;
        other.tell(&reports(tenant, &scope, sequence, rate(0, 0), 0)).await.unwrap()[0].others
    };
    assert_eq!(look().await, 4);
    while look().await > 0 {
        assert!(began.elapsed() < Duration::from_secs(5), "it counts for ever");
        sleep(Duration::from_millis(20)).await;
    }
    assert!(began.elapsed() >= Duration::from_millis(250), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_another_version_wrote_is_passed_over() {
    let (tenant, scope) = a_scope();
    let mut count = server();
    let mut raw = count.connected().await.unwrap();
    let key = redis::key(&scope);
    let set = ["g:other", "5:1"];
    let () = ::redis::cmd("HSET").arg(&key).arg(&set).query_async(&mut raw).await.unwrap();
    count.tell(&reports(tenant, &scope, 1, rate(1_000_000, 0), 1)).await.unwrap();
    let left: Option<String> =
        ::redis::cmd("HGET").arg(&key).arg("g:other").query_async(&mut raw).await.unwrap();
    assert_eq!(left, None);
}

#[tokio::test]
async fn redis_lets_a_rate_run_out_by_its_own_clock() {
    let (mut redis, (tenant, scope)) = (server(), a_scope());
    let rate = Rate { per_minute: 60_000, believed: 0, charged: 600_000_000, given: 0 };
    redis.tell(&reports(tenant, &scope, 1, rate, 0)).await.unwrap();
    let began = Instant::now();
    sleep(Duration::from_millis(300)).await;
    let [answer] = redis
        .tell(&reports(tenant, &scope, 2, Rate { charged: 0, ..rate }, 0))
        .await
        .unwrap()
        .try_into()
        .unwrap();
    let most = u64::try_from(began.elapsed().as_millis()).unwrap() + 5;
    let out = 600_000_000 - answer.tokens.level;
    assert!(out >= 295 * 60_000 && out <= most * 60_000, "{out} after {most} ms");
}

#[tokio::test]
async fn a_report_that_comes_twice_counts_once() {
    let (mut redis, (tenant, scope)) = (server(), a_scope());
    let told = reports(tenant, &scope, 7, rate(9_000_000, 0), 1);
    let mut levels = vec![];
    for _ in 0..2 {
        levels.push(redis.tell(&told).await.unwrap()[0].tokens.level);
    }
    levels
        .push(redis.tell(&reports(tenant, &scope, 8, rate(9_000_000, 0), 1)).await.unwrap()[0].tokens.level);
    let near = |level: u64, whole: u64| whole - level < 1_000;
    assert!(
        near(levels[0], 9_000_000) && near(levels[1], 9_000_000) && near(levels[2], 18_000_000),
        "{levels:?}"
    );
}

#[tokio::test]
async fn many_scopes_are_told_in_one_round_in_their_order() {
    let mut redis = server();
    let told: Vec<_> = (1..=200)
        .flat_map(|tokens| {
            let (tenant, scope) = a_scope();
            reports(tenant, &scope, 1, rate(tokens * 1_000_000, 0), 0)
        })
        .collect();
    let answers = redis.tell(&told).await.unwrap();
    assert_eq!(answers.len(), told.len());
    for (report, answer) in told.iter().zip(answers) {
        assert_eq!(answer.tokens.level, report.tokens.charged);
    }
}

#[test]
fn an_address_is_refused_without_being_repeated_and_never_shown() {
    for bad in ["", "localhost", "http://:hunter2@localhost", "redis://"] {
        let said = RedisCount::new(&Secret::new(bad.to_owned())).err().map(|error| error.to_string());
        let said = said.unwrap_or_else(|| panic!("{bad} is taken"));
        assert!(
            said.contains("redis://[user]:[password]@host:6379/0") && !said.contains("hunter2"),
            "{said}"
        );
    }
    let count = RedisCount::new(&Secret::new("redis://:hunter2@localhost:1/0".to_owned())).unwrap();
    assert!(!format!("{count:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_away_and_its_password_is_not_told() {
    let mut count = RedisCount::new(&Secret::new("redis://:hunter2@127.0.0.1:1/0".to_owned())).unwrap();
    let (tenant, scope) = a_scope();
    let away = count.tell(&reports(tenant, &scope, 1, rate(1, 0), 0)).await.unwrap_err();
    assert!(!away.to_string().contains("hunter2"), "{away}");
}
