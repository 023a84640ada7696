//! Several gateways, one count that they share, answers that are late, lost or come twice, gateways that die: whatever
//! happens, a limit is passed by at most what each gateway may be ahead.

use proptest::prelude::*;

use super::super::bucket::{Bucket, units};
use super::count::Count;
use super::*;
#[cfg(feature = "seeded-faults")]
use crate::fault::{self, Fault};

/// One life of a gateway.
struct Gateway {
    name: usize,
    limiter: Limiter,
    /// A round without an answer.
    held: Vec<Report>,
    running: Vec<(Grant, u64, Ask)>,
    told_at: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request at a gateway.
    Ask { gateway: usize, tokens: u32 },
    /// One of a gateway's requests ends, having used so many percent.
    End { gateway: usize, which: usize, percent: u64 },
    /// A gateway tells what it has; the way there or back may fail.
    Tell { gateway: usize, fate: Fate },
    /// Milliseconds pass.
    Wait(u64),
    /// A gateway is killed, with all that runs there, and starts again.
    Kill { gateway: usize },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Answered,
    LostThere,
    LostBack,
}

const TOKENS: u32 = 6_000;
const REQUESTS: u32 = 60;
const AT_ONCE: u32 = 20;
const LARGEST: u32 = 700;

struct World {
    count: Count,
    gateways: Vec<Gateway>,
    lives: usize,
    /// When gateways were killed that were ahead: it matters until it has run out.
    died_ahead: Vec<u64>,
    now_ms: u64,
    /// What is true of each rate, whoever knows it.
    requests: Bucket,
    tokens: Bucket,
    numbers: u64,
    admitted: u64,
    /// By how much each limit was passed at the last admission: requests, tokens, places.
    over: [u64; 3],
}

fn together() -> Limiter {
    Limiter::together(Bounds::default(), false)
}

fn limits() -> Chain {
    let limits = Limits {
        requests_per_minute: at_most(REQUESTS),
        tokens_per_minute: at_most(TOKENS),
        at_once: at_most(AT_ONCE),
        ..Limits::OPEN
    };
    chain(&[rule(Level::Tenant(tenant(1)), Models::All, limits)])
}

impl World {
    fn new(gateways: usize) -> Self {
        let gateway = |name| Gateway { name, limiter: together(), held: vec![], running: vec![], told_at: 0 };
        let (requests, tokens) = (Bucket::default(), Bucket::default());
        Self {
            count: Count::default(),
            gateways: (0..gateways).map(gateway).collect(),
            lives: gateways,
            died_ahead: vec![],
            now_ms: 0,
            requests,
            tokens,
            numbers: 0,
            admitted: 0,
            over: [0; 3],
        }
    }

    fn now(&self) -> MonoNanos {
        at(self.now_ms * 1_000_000)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Ask { gateway, tokens } => self.ask(gateway, ask(tokens, 0)),
            Step::End { gateway, which, percent } => self.end(gateway, which, percent),
            Step::Tell { gateway, fate } => self.tell(gateway, fate),
            Step::Wait(ms) => {
                self.now_ms += ms;
                for gateway in 0..self.gateways.len() {
                    // What it has in flight must not be taken for lost: that is said of a gateway that answers.
                    if self.now_ms - self.gateways[gateway].told_at > 6_000 {
                        self.gateways[gateway].limiter.refresh();
                        self.tell(gateway, Fate::Answered);
                    }
                }
            }
            Step::Kill { gateway } => {
                self.lives += 1;
                let (name, told_at, now_ms) = (self.lives, self.now_ms, self.now_ms);
                let fresh = Gateway { name, limiter: together(), held: vec![], running: vec![], told_at };
                let dead = core::mem::replace(&mut self.gateways[gateway], fresh);
                if !dead.held.is_empty() || !dead.limiter.reports(9).is_empty() {
                    self.died_ahead.push(now_ms);
                }
                for (_, number, _) in &dead.running {
                    self.tokens.close(*number);
                }
            }
        }
    }

    fn ask(&mut self, gateway: usize, ask: Ask) {
        let now = self.now();
        let one = &mut self.gateways[gateway];
        let Ok(grant) = one.limiter.admit(&limits(), ask, now) else { return };
        self.numbers += 1;
        self.admitted += 1;
        one.running.push((grant, self.numbers, ask));
        self.requests.follow(NonZeroU32::new(REQUESTS).unwrap(), now);
        self.tokens.follow(NonZeroU32::new(TOKENS).unwrap(), now);
        self.requests.take(1);
        self.tokens.take_open(ask.worst_tokens(), self.numbers);
        let over = |bucket: &Bucket, limit: u32| {
            u64::try_from(bucket.used().saturating_sub(units(limit.into())).div_ceil(units(1))).unwrap()
        };
        let places: usize = self.gateways.iter().map(|one| one.running.len()).sum();
        let places = u64::try_from(places).unwrap().saturating_sub(AT_ONCE.into());
        let seen = [over(&self.requests, REQUESTS), over(&self.tokens, TOKENS), places];
        self.over = seen;
    }

    fn end(&mut self, gateway: usize, which: usize, percent: u64) {
        let now = self.now();
        let running = &mut self.gateways[gateway].running;
        if running.is_empty() {
            return;
        }
        let (grant, number, ask) = running.swap_remove(which % running.len());
        let used = ask.worst_tokens() * percent / 100;
        grant.settle(used, now);
        self.tokens.drain(now);
        self.tokens.give_back(ask.worst_tokens() - used, number);
        self.tokens.close(number);
    }

    fn tell(&mut self, gateway: usize, fate: Fate) {
        let (now, now_ms) = (self.now(), self.now_ms);
        let one = &mut self.gateways[gateway];
        if one.held.is_empty() {
            one.held = one.limiter.reports(usize::MAX);
        }
        if fate == Fate::LostThere {
            return one.limiter.is_left_alone();
        }
        let (count, name) = (&mut self.count, one.name);
        let answers: Vec<_> = one.held.iter().map(|report| count.tell(name, report, now_ms)).collect();
        if fate == Fate::LostBack {
            return one.limiter.is_left_alone();
        }
        one.told_at = now_ms;
        one.limiter.answer(one.held.drain(..).zip(answers), now);
    }

    /// The first bound that is passed now, if one is.
    fn passed(&self) -> Option<&'static str> {
        let lately = self.died_ahead.iter().filter(|died| **died + 90_000 > self.now_ms).count();
        let ahead = u64::try_from(self.gateways.len() + lately).unwrap();
        let bounds = [
            ("requests", ahead * u64::from(REQUESTS / SLICES)),
            ("tokens", ahead * u64::from((TOKENS / SLICES).max(LARGEST))),
            ("places", ahead * u64::from((AT_ONCE / SLICES).max(1))),
        ];
        bounds.into_iter().zip(self.over).find(|((_, bound), over)| over > bound).map(|((name, _), _)| name)
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gateway = 0..3_usize;
    let fate = prop_oneof![6 => Just(Fate::Answered), 1 => Just(Fate::LostThere), 1 => Just(Fate::LostBack)];
    let step = prop_oneof![
        12 => (gateway.clone(), prop_oneof![4 => 1..100_u32, 1 => 1..=LARGEST])
            .prop_map(|(gateway, tokens)| Step::Ask { gateway, tokens }),
        6 => (gateway.clone(), any::<usize>(), 0..=110_u64)
            .prop_map(|(gateway, which, percent)| Step::End { gateway, which, percent: percent.min(100) }),
        8 => (gateway.clone(), fate).prop_map(|(gateway, fate)| Step::Tell { gateway, fate }),
        3 => prop_oneof![3 => 1..50_u64, 1 => 50..3_000_u64].prop_map(Step::Wait),
        1 => gateway.prop_map(|gateway| Step::Kill { gateway }),
    ];
    proptest::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_limit_is_passed_by_no_more_than_each_gateway_may_be_ahead(steps in steps()) {
        let mut world = World::new(3);
        for step in steps {
            world.step(step);
            prop_assert_eq!(world.passed(), None, "{:?} over, {:?} died ahead", world.over, world.died_ahead);
        }
    }
}

/// Three gateways that are asked as fast as they can, and told each `tell` requests of each.
fn flood(tell: u32) -> (World, Option<&'static str>) {
    let (mut world, mut worst) = (World::new(3), None);
    for turn in 0..600 {
        for gateway in 0..3 {
            world.step(Step::Ask { gateway, tokens: 90 });
            worst = worst.or(world.passed());
            world.step(Step::End { gateway, which: 0, percent: 100 });
            if turn % tell == 0 {
                world.step(Step::Tell { gateway, fate: Fate::Answered });
            }
        }
    }
    (world, worst)
}

#[test]
fn a_flood_gets_all_of_a_limit_and_little_more() {
    let (world, passed) = flood(1);
    assert_eq!(passed, None, "{:?}", world.over);
    assert!(world.admitted >= u64::from(REQUESTS), "{}", world.admitted);
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_without_a_slice_each_gateway_takes_the_whole_limit() {
    let (world, passed) = fault::with(Fault::SliceUnbounded, || flood(600));
    assert!(passed.is_some(), "{:?}", world.over);
    assert_eq!(flood(600).1, None);
}

#[test]
fn control_a_report_that_counts_twice_is_seen() {
    let limiter = together();
    drop(limiter.admit(&limits(), ask(100, 0), at(0)).unwrap());
    let [report] = limiter.reports(9).try_into().unwrap();
    let mut count = Count::default();
    let once = count.tell(1, &report, 0);
    assert_eq!(once.tokens.level, 100 * 60_000);
    assert_eq!(count.tell(1, &report, 0).tokens.level, once.tokens.level);
    let again = Report { sequence: report.sequence + 1, ..report };
    assert_eq!(count.tell(1, &again, 0).tokens.level, 2 * once.tokens.level, "the control");
}

/// A gateway that is answered after each step decides as one that is alone.
#[test]
fn one_gateway_decides_as_if_it_were_alone() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(300));
    let step = (0..4_u8, 1..2_000_u32, any::<usize>(), 0..=100_u64, 1..2_000_u64);
    let checked = runner.run(&proptest::collection::vec(step, 1..200), |steps| {
        let mut world = World::new(1);
        let alone = Limiter::default();
        let mut running = Vec::new();
        for (kind, tokens, which, percent, ms) in steps {
            match kind {
                0 | 1 => {
                    let before = world.admitted;
                    world.step(Step::Ask { gateway: 0, tokens });
                    let grant = alone.admit(&limits(), ask(tokens, 0), world.now());
                    prop_assert_eq!(world.admitted > before, grant.is_ok(), "{:?}", grant);
                    running.extend(grant.ok().map(|grant| (grant, tokens)));
                }
                2 if !running.is_empty() => {
                    world.step(Step::End { gateway: 0, which, percent });
                    let (grant, tokens) = running.swap_remove(which % running.len());
                    grant.settle(u64::from(tokens) * percent / 100, world.now());
                }
                _ => world.step(Step::Wait(ms)),
            }
            world.step(Step::Tell { gateway: 0, fate: Fate::Answered });
        }
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn what_is_told_is_forgotten_when_it_has_run_out() {
    let mut world = World::new(2);
    for gateway in 0..2 {
        world.step(Step::Ask { gateway, tokens: 100 });
        world.step(Step::End { gateway, which: 0, percent: 50 });
    }
    for gateway in 0..2 {
        assert_eq!(world.gateways[gateway].limiter.counters(tenant(1)), 1);
        world.step(Step::Tell { gateway, fate: Fate::Answered });
    }
    world.step(Step::Wait(120_000));
    for gateway in &world.gateways {
        gateway.limiter.sweep(at(world.now_ms * 1_000_000));
        assert_eq!((gateway.limiter.tenants(), gateway.limiter.counters(tenant(1))), (0, 0));
    }
}

#[test]
fn what_nobody_takes_over_is_forgotten_too() {
    let limiter = together();
    limiter.is_left_alone();
    drop(limiter.admit(&limits(), ask(100, 0), at(0)).unwrap());
    limiter.sweep(at(MINUTE));
    assert_eq!((limiter.tenants(), limiter.counters(tenant(1))), (0, 0));
    assert!(limiter.reports(9).is_empty());
}

#[test]
fn closed_stops_at_a_slice_and_says_so_while_open_goes_on() {
    for alone in [false, true] {
        let limiter = Limiter::together(Bounds::default(), alone);
        limiter.is_left_alone();
        let refused: Vec<_> = (0..REQUESTS)
            .filter_map(|_| limiter.admit(&limits(), ask(1, 0), at(0)).map(drop).err())
            .map(|refusal| refusal.to_string())
            .collect();
        if alone {
            assert!(refused.is_empty(), "{refused:?}");
            let full = over(limiter.admit(&limits(), ask(1, 0), at(0)));
            assert_eq!(full.quota, Quota::RequestsPerMinute);
        } else {
            // A slice of requests is 3 of 60.
            assert_eq!(refused.len(), 57);
            let said = format!(
                "requests_per_minute of tenant {}, all models: this gateway may be 3 ahead of what all gateways count together, that is used up, and the shared count has not answered in time",
                tenant(1)
            );
            assert!(refused.iter().all(|refusal| *refusal == said), "{}", refused[0]);
        }
    }
}

/// Whoever had told the count of its charges has them counted, when the count has lost everything.
#[test]
fn a_count_that_lost_everything_begins_with_what_gateways_know() {
    let mut world = World::new(2);
    for _ in 0..30 {
        world.step(Step::Ask { gateway: 0, tokens: 100 });
        world.step(Step::End { gateway: 0, which: 0, percent: 100 });
        world.step(Step::Tell { gateway: 0, fate: Fate::Answered });
    }
    world.count = Count::default();
    for gateway in [0, 1] {
        world.step(Step::Ask { gateway, tokens: 1 });
        world.step(Step::Tell { gateway, fate: Fate::Answered });
    }
    let standing = world.gateways[1].limiter.standing(&limits(), world.now());
    let Meter::Tightest(requests) = standing.requests else { panic!("{standing:?}") };
    assert_eq!(requests.remaining, REQUESTS - 32);
}
