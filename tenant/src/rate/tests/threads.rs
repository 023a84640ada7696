//! Eight threads on one tenant.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::*;

const THREADS: u8 = 8;
const TURNS: usize = 3_000;

/// A chain with a key for each two threads, under one tenant.
fn rules(thread: u8, of_tenant: Limits, of_key: Limits) -> Chain {
    let levels = [(key(thread / 2), of_key), (Level::Tenant(tenant(1)), of_tenant)];
    chain(&levels.map(|(level, limits)| rule(level, Models::All, limits)))
}

#[test]
fn concurrency_is_never_passed() {
    let limiter = Limiter::default();
    let at_once = |limit| Limits { at_once: at_most(limit), ..Limits::OPEN };
    let (running, most, admitted) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (limiter, running, most, admitted) = (&limiter, &running, &most, &admitted);
            scope.spawn(move || {
                let rules = rules(thread, at_once(3), at_once(2));
                for _ in 0..TURNS {
                    let Ok(grant) = limiter.admit(&rules, ask(0, 0), at(0)) else { continue };
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    admitted.fetch_add(1, Ordering::SeqCst);
                    std::thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                    drop(grant);
                }
            });
        }
    });
    let most = most.into_inner();
    assert!((1..=3).contains(&most), "{most}");
    assert!(admitted.into_inner() > 0);
    limiter.sweep(at(0));
    assert_eq!((limiter.tenants(), limiter.in_flight(tenant(1)), limiter.counters(tenant(1))), (0, 0, 0));
}

#[test]
fn at_one_moment_exactly_the_minute_s_worth_is_admitted() {
    let limiter = Limiter::default();
    let wide = Limits { requests_per_minute: at_most(5_000), ..Limits::OPEN };
    let narrow = Limits { tokens_per_minute: at_most(20_000), ..Limits::OPEN };
    let admitted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (limiter, admitted) = (&limiter, &admitted);
            scope.spawn(move || {
                let rules = rules(thread, wide, narrow);
                for _ in 0..TURNS {
                    // 14 of 20 tokens come back.
                    if let Ok(grant) = limiter.admit(&rules, ask(0, 20), at(0)) {
                        grant.settle(6, at(0));
                        admitted.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 5_000);
    limiter.sweep(at(MINUTE));
    assert_eq!(limiter.tenants(), 0);
}

#[test]
fn over_time_never_more_than_the_rate_gives() {
    let limiter = Limiter::default();
    let wide = Limits { tokens_per_minute: at_most(600), ..Limits::OPEN };
    let (clock, used) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (limiter, clock, used) = (&limiter, &clock, &used);
            scope.spawn(move || {
                let rules = rules(thread, wide, Limits::OPEN);
                for _ in 0..TURNS {
                    let now = clock.fetch_add(SECOND / 100, Ordering::SeqCst);
                    if let Ok(grant) = limiter.admit(&rules, ask(2, 3), at(now)) {
                        std::thread::yield_now();
                        grant.settle(4, at(clock.load(Ordering::SeqCst)));
                        used.fetch_add(4, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    // 240 s, at 10 tokens a second.
    let (passed, used) = (clock.into_inner(), used.into_inner());
    let most = 600 + passed * 10 / SECOND;
    assert!(used <= most, "{used} of {most}");
    assert!(used >= most - 5, "{used} of {most}: what may be used is not withheld");
    limiter.sweep(at(passed + 2 * MINUTE));
    assert_eq!(limiter.tenants(), 0);
}

#[test]
fn a_tenant_that_comes_and_goes_is_never_counted_twice() {
    let limiter = Limiter::default();
    let at_once = Limits { at_once: at_most(1), ..Limits::OPEN };
    let running = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (limiter, running) = (&limiter, &running);
            scope.spawn(move || {
                let rules = rules(thread, at_once, Limits::OPEN);
                for turn in 0..TURNS {
                    if let Ok(grant) = limiter.admit(&rules, ask(0, 0), at(0)) {
                        assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two ledgers of one tenant");
                        running.fetch_sub(1, Ordering::SeqCst);
                        drop(grant);
                    }
                    if turn % 64 == 0 {
                        limiter.sweep(at(0));
                    }
                }
            });
        }
    });
    limiter.sweep(at(0));
    assert_eq!(limiter.tenants(), 0);
}
