//! What is remembered, for how long, and what happens when there is no room.

use super::*;

fn of(number: u128, level: Level) -> Chain {
    let limits = Limits { requests_per_minute: at_most(60), ..Limits::OPEN };
    Chain::new(tenant(number), vec![rule(level, Models::All, limits)]).unwrap()
}

fn small() -> Limiter {
    Limiter::new(Bounds { tenants: 3, counters: 3, in_flight: 4 })
}

fn no_room(refused: Result<Grant, Refusal>) -> NoRoom {
    match refused.expect_err("admitted") {
        Refusal::NoRoom(bound) => bound,
        refusal @ (Refusal::Over(_) | Refusal::Ahead(_)) => panic!("{refusal}"),
    }
}

#[test]
fn the_bounds_are_those_of_the_store() {
    assert_eq!(u32::try_from(TRACKED_TENANTS_MAX), Ok(crate::TENANTS_MAX));
    let Bounds { tenants, counters, in_flight } = Bounds::default();
    assert_eq!((tenants, counters, in_flight), (TRACKED_TENANTS_MAX, COUNTERS_MAX, IN_FLIGHT_MAX));
}

#[test]
fn a_tenant_beyond_the_bound_is_refused_until_one_is_forgotten() {
    let limiter = small();
    for number in 1..=3 {
        drop(limiter.admit(&of(number, key(1)), ask(0, 0), at(0)).unwrap());
    }
    let fourth = of(4, key(1));
    assert_eq!(no_room(limiter.admit(&fourth, ask(0, 0), at(0))), NoRoom::Tenants { max: 3 });
    assert_eq!(limiter.tenants(), 3);
    // Those that are there are served, and one request a second runs out in a second.
    let running = limiter.admit(&of(1, key(1)), ask(0, 0), at(SECOND)).unwrap();
    let fourth_runs = limiter.admit(&fourth, ask(0, 0), at(SECOND)).unwrap();
    assert_eq!(limiter.tenants(), 2, "one that runs, and the new one");
    drop((running, fourth_runs));
    limiter.sweep(at(10 * SECOND));
    assert_eq!(limiter.tenants(), 0);
}

#[test]
fn a_counter_beyond_the_bound_is_refused_until_one_is_forgotten() {
    let limiter = small();
    for number in 1..=3 {
        drop(limiter.admit(&of(1, key(number)), ask(0, 0), at(0)).unwrap());
    }
    assert_eq!(no_room(limiter.admit(&of(1, key(4)), ask(0, 0), at(0))), NoRoom::Counters { max: 3 });
    assert_eq!((limiter.counters(tenant(1)), limiter.in_flight(tenant(1))), (3, 0));
    let other = limiter.admit(&of(2, key(9)), ask(0, 0), at(0)).unwrap();
    let running = limiter.admit(&of(1, key(1)), ask(0, 0), at(SECOND)).unwrap();
    let fourth = limiter.admit(&of(1, key(4)), ask(0, 0), at(SECOND)).unwrap();
    assert_eq!(limiter.counters(tenant(1)), 2);
    drop((other, running, fourth));
}

#[test]
fn at_a_bound_the_search_is_not_repeated_for_each_request() {
    let limiter = small();
    // A fiftieth of a second before a request has run out.
    let tick = 49 * SECOND / 50;
    for number in 1..=3 {
        drop(limiter.admit(&of(1, key(number)), ask(0, 0), at(0)).unwrap());
    }
    // A search finds nothing; a moment later all has run out, but no other search is due.
    no_room(limiter.admit(&of(1, key(4)), ask(0, 0), at(tick)));
    no_room(limiter.admit(&of(1, key(4)), ask(0, 0), at(SECOND)));
    let due = at(tick).after(SWEEP_EVERY);
    drop(limiter.admit(&of(1, key(4)), ask(0, 0), due).unwrap());

    // Among tenants likewise.
    let limiter = small();
    for number in 1..=3 {
        drop(limiter.admit(&of(number, key(1)), ask(0, 0), at(0)).unwrap());
    }
    no_room(limiter.admit(&of(4, key(1)), ask(0, 0), at(tick)));
    no_room(limiter.admit(&of(4, key(1)), ask(0, 0), at(SECOND)));
    drop(limiter.admit(&of(4, key(1)), ask(0, 0), due).unwrap());
}

#[test]
fn requests_in_flight_are_bounded_even_without_a_rule() {
    let limiter = small();
    let open = Chain::new(tenant(1), Vec::new()).unwrap();
    let running: Vec<_> = (0..4).map(|_| limiter.admit(&open, ask(0, 0), at(0)).unwrap()).collect();
    assert_eq!(no_room(limiter.admit(&open, ask(0, 0), at(0))), NoRoom::InFlight { max: 4 });
    drop(running);
    assert_eq!((limiter.in_flight(tenant(1)), limiter.tenants()), (0, 0));
}

#[test]
fn what_counts_only_what_runs_is_forgotten_at_its_end() {
    let limiter = Limiter::default();
    let rules = only(0, Limits { at_once: at_most(2), ..Limits::OPEN });
    let first = limiter.admit(&rules, ask(0, 0), at(0)).unwrap();
    let second = limiter.admit(&rules, ask(0, 0), at(0)).unwrap();
    let said = over(limiter.admit(&rules, ask(0, 0), at(0)));
    assert_eq!((said.quota, said.clears), (Quota::AtOnce, Clears::WhenOneEnds));
    assert_eq!(
        said.to_string(),
        "at_once of key key000000001, all models: 1 asked, 0 of 2 left; it clears when one of the requests in \
         flight ends"
    );
    drop(first);
    assert_eq!((limiter.tenants(), limiter.counters(tenant(1))), (1, 6));
    drop(second);
    assert_eq!((limiter.tenants(), limiter.counters(tenant(1))), (0, 0));
}

/// Each uses a request that runs out in a second, and a hundred come in a second: a hundred are live at any time.
const LIVE: core::ops::RangeInclusive<usize> = 100..=210;

#[test]
fn many_keys_do_not_pile_up() {
    let limiter = Limiter::default();
    let mut most = 0;
    for turn in 0..20_000_u64 {
        let level = Level::Key(crate::key::KeyId::parse(&format!("k{turn:011}")).unwrap());
        drop(limiter.admit(&of(1, level), ask(0, 0), at(turn * SECOND / 100)).unwrap());
        most = most.max(limiter.counters(tenant(1)));
    }
    assert!(LIVE.contains(&most), "{most}");
}

#[test]
fn many_tenants_do_not_pile_up() {
    let limiter = Limiter::default();
    let mut most = 0;
    for turn in 0..20_000_u64 {
        drop(limiter.admit(&of(u128::from(turn), key(1)), ask(0, 0), at(turn * SECOND / 100)).unwrap());
        most = most.max(limiter.tenants());
    }
    assert!(LIVE.contains(&most), "{most}");
}

#[test]
fn a_panic_elsewhere_leaves_the_counts_usable() {
    let limiter = Limiter::default();
    let rules = only(0, Limits { at_once: at_most(1), ..Limits::OPEN });
    let inside = limiter.clone();
    let chain = rules.clone();
    let gone = std::thread::spawn(move || {
        let _running = inside.admit(&chain, ask(0, 0), at(0)).unwrap();
        panic!("the request's task dies");
    });
    assert!(gone.join().is_err());
    drop(limiter.admit(&rules, ask(0, 0), at(0)).unwrap());
    assert_eq!(limiter.tenants(), 0);
}
