//! The whole audit against servers of paper: each shares its cache in its own way, and each must get its verdict.

use super::*;
use crate::bench::verdict::{Seen, Verdict, cached_samples, judge};

const ALPHA: f64 = 1e-4;
const SAMPLES: u32 = 20;
/// Letters that a page of the cache holds.
const PAGE: usize = 16;

/// With whom a caller shares what it has sent.
#[derive(Clone, Copy)]
enum Sharing {
    Nobody,
    Tenant,
    Everybody,
}

/// What a server tells of its cache.
#[derive(Clone, Copy)]
enum Tells {
    Nothing,
    CachedTokens,
}

/// A server whose answers take a microsecond a letter that its cache does not have, and some noise; or the same for all.
struct Paper {
    sharing: Sharing,
    tells: Tells,
    /// Whether a hit is any sooner.
    sooner: bool,
    sent: Vec<(Caller, String)>,
    noise: u64,
}

impl Paper {
    fn new(sharing: Sharing) -> Self {
        Self { sharing, tells: Tells::CachedTokens, sooner: true, sent: vec![], noise: 1 }
    }

    fn shares(&self, one: Caller, other: Caller) -> bool {
        let crossed = |caller| caller == Caller::CrossTenant;
        match self.sharing {
            Sharing::Nobody => false,
            Sharing::Tenant => crossed(one) == crossed(other),
            Sharing::Everybody => true,
        }
    }
}

impl Server for Paper {
    fn ask(&mut self, caller: Caller, prompt: &str) -> Result<Reply, Failure> {
        let letters = prompt.split(' ').count();
        let common = |sent: &str| sent.split(' ').zip(prompt.split(' ')).take_while(|(a, b)| a == b).count();
        let known = self.sent.iter().filter(|(sender, _)| self.shares(*sender, caller));
        let cached = known.map(|(_, sent)| common(sent) / PAGE * PAGE).max().unwrap_or(0);
        self.sent.push((caller, prompt.to_owned()));
        self.noise = self.noise * 48_271 % 2_147_483_647;
        let work = if self.sooner { letters - cached } else { letters };
        Ok(Reply {
            first_byte: Duration::from_micros(u64::try_from(work).unwrap() * 1000 + self.noise % 5000),
            prompt_tokens: u64::try_from(letters).unwrap(),
            cached: match self.tells {
                Tells::Nothing => None,
                Tells::CachedTokens => Some(u64::try_from(cached).unwrap()),
            },
        })
    }
}

fn procedure() -> Procedure {
    Procedure {
        letters: 64,
        samples: SAMPLES,
        warm_ups: vec![1, 3],
        prefix_percent: 100,
        before_miss: BeforeMiss::Nothing,
    }
}

fn audited(procedure: &Procedure, server: &mut Paper) -> Vec<Audit> {
    procedure.run(server, &mut Draws::new(7), &mut |_| {}).unwrap()
}

#[test]
fn a_cache_of_each_tenant_passes_and_its_own_tenant_is_seen() {
    for before_miss in [BeforeMiss::Nothing, BeforeMiss::Decoy] {
        let audits = audited(&Procedure { before_miss, ..procedure() }, &mut Paper::new(Sharing::Tenant));
        assert_eq!(judge(&audits, ALPHA), Verdict::Pass);
        assert_eq!(audits.len(), 6);
        for audit in &audits {
            let crossed = audit.level == Level::CrossTenant;
            assert_eq!(audit.compared.d() == 1.0, !crossed, "{:?}", audit.level);
            let seen = if crossed { 0 } else { 20 };
            assert_eq!((cached_samples(&audit.hits), cached_samples(&audit.misses)), (seen, 0));
        }
    }
}

#[test]
fn a_cache_of_all_is_a_leak() {
    let audits = audited(&procedure(), &mut Paper::new(Sharing::Everybody));
    assert_eq!(judge(&audits, ALPHA), Verdict::Leak { warm_ups: 1, seen: Seen::CachedTokens });
    let mut silent = Paper { tells: Tells::Nothing, ..Paper::new(Sharing::Everybody) };
    let audits = audited(&procedure(), &mut silent);
    assert_eq!(judge(&audits, ALPHA), Verdict::Leak { warm_ups: 1, seen: Seen::Sooner });
    let part = Procedure { prefix_percent: 50, ..procedure() };
    let audits = audited(&part, &mut Paper { tells: Tells::Nothing, ..Paper::new(Sharing::Everybody) });
    assert_eq!(judge(&audits, ALPHA), Verdict::Leak { warm_ups: 1, seen: Seen::Sooner });
}

#[test]
fn cached_tokens_are_a_leak_even_where_no_time_tells() {
    let mut even = Paper { sooner: false, ..Paper::new(Sharing::Everybody) };
    let audits = audited(&procedure(), &mut even);
    assert!(audits.iter().all(|audit| audit.compared.p() > ALPHA));
    assert_eq!(judge(&audits, ALPHA), Verdict::Leak { warm_ups: 1, seen: Seen::CachedTokens });
}

#[test]
fn an_audit_that_misses_its_control_is_void() {
    let audits = audited(&procedure(), &mut Paper::new(Sharing::Nobody));
    assert_eq!(judge(&audits, ALPHA), Verdict::Void { warm_ups: 1 });
    let short = Procedure { letters: 8, ..procedure() };
    let audits = audited(&short, &mut Paper::new(Sharing::Tenant));
    assert_eq!(judge(&audits, ALPHA), Verdict::Void { warm_ups: 1 });
    assert_eq!(judge(&[], ALPHA), Verdict::Void { warm_ups: 0 });
    // A number of warm-ups has its own control: one of another number says nothing for it.
    let mut audits = audited(&procedure(), &mut Paper::new(Sharing::Tenant));
    let blind = audited(&short, &mut Paper::new(Sharing::Tenant));
    audits.retain(|audit| (audit.level, audit.warm_ups) != (Level::SameTenant, 3));
    audits.extend(blind.into_iter().filter(|audit| (audit.level, audit.warm_ups) == (Level::SameTenant, 3)));
    assert_eq!(judge(&audits, ALPHA), Verdict::Void { warm_ups: 3 });
}

#[test]
fn hits_are_warmed_as_often_as_asked_and_misses_are_new() {
    let one = Procedure { warm_ups: vec![3], samples: 5, ..procedure() };
    let mut server = Paper::new(Sharing::Tenant);
    let mut steps = vec![];
    let mut audited = vec![];
    let told = &mut |event: Event<'_>| match event {
        Event::Sampled(step) => steps.push((step.level, step.done, step.total)),
        Event::Audited(audit) => audited.push((audit.level, audit.hits.len(), audit.misses.len())),
    };
    one.run(&mut server, &mut Draws::new(7), told).unwrap();
    assert_eq!(audited, Level::ALL.map(|level| (level, 5, 5)));
    // Three levels of five hits with three warm-ups each, and five misses.
    assert_eq!(server.sent.len(), 3 * (5 * 4 + 5));
    assert_eq!(steps.len(), 30);
    assert_eq!(steps[29], (Level::CrossTenant, 10, 10));
    let times_sent = |prompt: &str| server.sent.iter().filter(|(_, sent)| sent == prompt).count();
    let crossed: Vec<usize> = server
        .sent
        .iter()
        .filter(|(caller, _)| *caller == Caller::CrossTenant)
        .map(|(_, prompt)| times_sent(prompt))
        .collect();
    assert_eq!(crossed.iter().filter(|times| **times == 4).count(), 5, "{crossed:?}");
    assert_eq!(crossed.iter().filter(|times| **times == 1).count(), 5, "{crossed:?}");
    assert!(!crossed.is_sorted() && !crossed.iter().rev().is_sorted(), "not shuffled: {crossed:?}");
}

#[test]
fn the_estimate_is_what_the_requests_take() {
    for before_miss in [BeforeMiss::Nothing, BeforeMiss::Decoy] {
        let procedure = Procedure { before_miss, ..procedure() };
        let mut server = Paper::new(Sharing::Tenant);
        let mut draws = Draws::new(7);
        let pace = procedure.pace(&mut server, &mut draws).unwrap();
        assert_eq!((pace.fresh.cached, pace.again.cached), (Some(0), Some(64)));
        struct Sum(Paper, Duration);
        impl Server for Sum {
            fn ask(&mut self, caller: Caller, prompt: &str) -> Result<Reply, Failure> {
                let reply = self.0.ask(caller, prompt)?;
                self.1 += reply.first_byte;
                Ok(reply)
            }
        }
        let mut sum = Sum(server, Duration::ZERO);
        procedure.run(&mut sum, &mut draws, &mut |_| {}).unwrap();
        let share = procedure.estimate(&pace).as_secs_f64() / sum.1.as_secs_f64();
        assert!((0.8..1.25).contains(&share), "{share}");
    }
}
