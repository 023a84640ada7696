//! The shared count in Redis against its reference, and the task that tells it.

use core::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use uuid::Uuid;

use super::*;
use crate::level::{Level, Models};
use crate::rate::tests::count::Count;
use crate::rate::{Ask, Bounds, Chain, Limit, Limits, Rate, Refusal, Rule, Scope};
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

#[tokio::test]
async fn redis_counts_as_the_reference_does() {
    let gateway = 0..3_usize;
    let step = (gateway, 0..9_u64, 0..9_u64, any::<bool>(), 0..5_u32);
    let mut runner = TestRunner::deterministic();
    for _ in 0..40 {
        let steps = proptest::collection::vec(step.clone(), 1..60).new_tree(&mut runner).unwrap().current();
        let (tenant, scope) = a_scope();
        let (mut servers, mut reference) = ([server(), server(), server()], Count::default());
        let mut sequences = [0; 3];
        let began = Instant::now();
        for (gateway, charged, given, again, places) in steps {
            if !again || sequences[gateway] == 0 {
                sequences[gateway] += 1;
            }
            let rate = rate(charged * 1_000_000, given * 1_000_000);
            let told = reports(tenant, &scope, sequences[gateway], rate, places);
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap();
            let expected = reference.tell(gateway, &told[0], ms);
            let [answer] = servers[gateway].tell(&told).await.unwrap().try_into().unwrap();
            let late = u64::try_from(began.elapsed().as_millis()).unwrap() + 5;
            assert_eq!(answer.others, expected.others);
            for (told, expected) in [(answer.requests, expected.requests), (answer.tokens, expected.tokens)] {
                for (one, other) in [(told.level, expected.level), (told.lowest, expected.lowest)] {
                    assert!(one.abs_diff(other) <= late, "{told:?}, {expected:?}, within {late}");
                }
            }
        }
    }
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

/// A shared count that a test takes away and brings back.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    count: Count,
    is_away: bool,
    /// Counts, and loses the answer.
    loses_answers: bool,
    told: Vec<Report>,
}

impl Fake {
    fn set(&self, set: impl FnOnce(&mut Inner)) {
        set(&mut self.0.lock().unwrap());
    }

    fn told(&self) -> Vec<Report> {
        self.0.lock().unwrap().told.clone()
    }
}

impl SharedCount for Fake {
    async fn tell(&mut self, reports: &[Report]) -> Result<Vec<Answer>, CountAway> {
        let mut inner = self.0.lock().unwrap();
        if inner.is_away {
            return Err(CountAway("the test took it away".into()));
        }
        inner.told.extend_from_slice(reports);
        let answers = reports.iter().map(|report| inner.count.tell(1, report, 0)).collect();
        if inner.loses_answers { Err(CountAway("the test lost the answer".into())) } else { Ok(answers) }
    }
}

const REQUESTS: u32 = 40;

fn limits(tenant: TenantId, scope: &Scope) -> Chain {
    let most = Limit::AtMost(NonZeroU32::new(REQUESTS).unwrap());
    let limits = Limits { requests_per_minute: most, ..Limits::OPEN };
    Chain::new(tenant, vec![Rule { scope: scope.clone(), limits }]).unwrap()
}

const ASK: Ask = Ask { prompt_tokens: 1, output_tokens_max: 1 };

/// A gateway whose clock stands still.
struct Bench {
    limiter: Limiter,
    fake: Fake,
    sharing: Sharing,
    chain: Chain,
}

fn bench(alone: bool) -> Bench {
    let (limiter, fake) = (Limiter::together(Bounds::default(), alone), Fake::default());
    let sharing = Sharing::begin(limiter.clone(), fake.clone(), Instant::now());
    let (tenant, scope) = a_scope();
    Bench { limiter, fake, sharing, chain: limits(tenant, &scope) }
}

impl Bench {
    /// Asks `times`; how many got in.
    async fn ask(&self, times: u32) -> (u32, Option<Refusal>) {
        let (mut admitted, mut refused) = (0, None);
        for _ in 0..times {
            match self.limiter.admit_together(&self.chain, ASK, || MonoNanos::new(0)).await {
                Ok(_grant) => admitted += 1,
                Err(refusal) => refused = Some(refusal),
            }
        }
        (admitted, refused)
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_ahead_waits_for_the_answer_and_gets_the_whole_limit() {
    let bench = bench(false);
    let (admitted, refused) = bench.ask(REQUESTS + 1).await;
    assert_eq!(admitted, REQUESTS);
    assert!(matches!(refused, Some(Refusal::Over(_))), "{refused:?}");
    let (is_away, waits) = bench.limiter.shared_health().unwrap();
    assert!(!is_away && waits > 0, "{waits}");
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_closed_refuses_and_open_goes_on_and_both_come_back() {
    for alone in [false, true] {
        let bench = bench(alone);
        bench.fake.set(|fake| fake.is_away = true);
        let (admitted, refused) = bench.ask(10).await;
        if alone {
            assert_eq!((admitted, refused), (10, None));
        } else {
            assert_eq!(admitted, 2, "a slice of 40");
            assert!(matches!(refused, Some(Refusal::Ahead(_))), "{refused:?}");
        }
        assert!(bench.limiter.shared_health().unwrap().0);
        bench.fake.set(|fake| fake.is_away = false);
        sleep(Duration::from_secs(1)).await;
        assert!(!bench.limiter.shared_health().unwrap().0);
        let (more, _) = bench.ask(REQUESTS).await;
        assert_eq!(admitted + more, REQUESTS, "what was admitted without the count is in it now");
    }
}

#[tokio::test(start_paused = true)]
async fn a_round_whose_answer_is_lost_is_told_again_as_it_was() {
    let bench = bench(false);
    bench.fake.set(|fake| fake.loses_answers = true);
    assert_eq!(bench.ask(1).await.0, 1);
    sleep(Duration::from_secs(2)).await;
    bench.fake.set(|fake| fake.loses_answers = false);
    sleep(Duration::from_secs(1)).await;
    let told = bench.fake.told();
    assert!(told.len() > 2, "{told:?}");
    let first: Vec<_> = told.iter().filter(|report| report.sequence == told[0].sequence).collect();
    assert!(first.len() > 2 && first.iter().all(|report| **report == told[0]), "{told:?}");
    let (admitted, _) = bench.ask(REQUESTS).await;
    assert_eq!(admitted, REQUESTS - 1, "it counted once");
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_is_told_each_second_and_its_end_at_last() {
    let bench = bench(false);
    let running = bench.limiter.admit(&bench.chain, ASK, MonoNanos::new(0)).unwrap();
    sleep(Duration::from_millis(5_500)).await;
    let places: Vec<_> = bench.fake.told().iter().map(|report| report.places).collect();
    assert!(places.len() >= 5 && places.iter().all(|places| *places == 1), "{places:?}");
    drop(running);
    bench.sharing.finish().await;
    assert_eq!(bench.fake.told().last().unwrap().places, 0);
}
