//! The task that tells a shared count, which is here one that a test takes away.

use core::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use super::*;
use crate::rate::{Ask, Bounds, Chain, Limit, Limits, Refusal, Rule};

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
    let sharing = Sharing::begin(limiter.clone(), fake.clone(), std::time::Instant::now());
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

/// The largest that a minute holds, in one request: it needs nothing to be untold, and small ones come all the time.
#[tokio::test(start_paused = true)]
async fn a_request_larger_than_a_slice_gets_its_turn_among_small_ones() {
    let limiter = Limiter::together(Bounds::default(), false);
    let _sharing = Sharing::begin(limiter.clone(), Fake::default(), std::time::Instant::now());
    let (tenant, scope) = a_scope();
    let most = Limit::AtMost(NonZeroU32::new(1_000_000).unwrap());
    let limits = Limits { tokens_per_minute: most, ..Limits::OPEN };
    let chain = Chain::new(tenant, vec![Rule { scope, limits }]).unwrap();
    let small: Vec<_> = (0..20)
        .map(|_| {
            let (limiter, chain) = (limiter.clone(), chain.clone());
            tokio::spawn(async move {
                loop {
                    let ask = Ask { prompt_tokens: 10, output_tokens_max: 0 };
                    limiter
                        .admit_together(&chain, ask, || MonoNanos::new(0))
                        .await
                        .unwrap()
                        .settle(0, MonoNanos::new(0));
                    sleep(Duration::from_millis(1)).await;
                }
            })
        })
        .collect();
    for _ in 0..5 {
        let ask = Ask { prompt_tokens: 100_000, output_tokens_max: 0 };
        limiter.admit_together(&chain, ask, || MonoNanos::new(0)).await.unwrap().settle(0, MonoNanos::new(0));
        sleep(Duration::from_millis(7)).await;
    }
    small.into_iter().for_each(|task| task.abort());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_has_the_count_asked_so_that_who_waits_for_others_gets_in() {
    let (tenant, scope) = a_scope();
    let limits = Limits { at_once: Limit::AtMost(NonZeroU32::MIN), ..Limits::OPEN };
    let rules = vec![Rule {
        scope: scope.clone(),
        limits: Limits { requests_per_minute: Limit::AtMost(NonZeroU32::MAX), ..limits },
    }];
    let chain = Chain::new(tenant, rules).unwrap();
    let (limiter, fake) = (Limiter::together(Bounds::default(), false), Fake::default());
    let _sharing = Sharing::begin(limiter.clone(), fake.clone(), std::time::Instant::now());
    let ask = async || limiter.admit_together(&chain, ASK, || MonoNanos::new(0)).await;
    // Another gateway has the one place there is.
    let theirs = |sequence, places| {
        let [report] = reports(tenant, &scope, sequence, rate(0, 0), places);
        fake.set(|fake| _ = fake.count.tell(2, &report, 0));
    };
    theirs(1, 1);
    drop(ask().await.unwrap());
    sleep(Duration::from_millis(100)).await;
    assert!(matches!(ask().await, Err(Refusal::Over(_))), "the place is taken");
    theirs(2, 0);
    assert!(matches!(ask().await, Err(Refusal::Over(_))), "it does not know yet that it is free");
    sleep(Duration::from_millis(100)).await;
    drop(ask().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_round_that_nobody_takes_for_a_minute_is_given_up() {
    let bench = bench(true);
    bench.fake.set(|fake| fake.is_away = true);
    assert_eq!(bench.ask(5).await.0, 5);
    sleep(Duration::from_secs(70)).await;
    bench.fake.set(|fake| fake.is_away = false);
    sleep(Duration::from_secs(2)).await;
    assert!(!bench.limiter.shared_health().unwrap().0 || bench.fake.told().is_empty());
    assert_eq!(bench.ask(1).await.0, 1);
    sleep(Duration::from_secs(2)).await;
    let first = bench.fake.told()[0].sequence;
    assert!(first > 1, "the first round was given up: {first}");
}

#[tokio::test(start_paused = true)]
async fn a_limiter_whose_teller_has_ended_counts_as_away() {
    let bench = bench(true);
    drop(bench.sharing);
    sleep(Duration::from_millis(1)).await;
    assert!(bench.limiter.shared_health().unwrap().0);
}
