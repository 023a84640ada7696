//! Random worlds, against the naive model.

use std::time::Instant;

use proptest::prelude::*;

use super::world::{Plan, Seen, World};

/// Worlds of 64 clients in the normal run: as many as take seconds without optimisation.
const WORLDS: u64 = 1_200;
/// Behind `./check --soak`.
const SOAK_WORLDS: u64 = 100_000;
const PLAN: Plan = Plan { clients: 64, requests_each: 1, kill_one_in: 400 };

/// SplitMix64 (Steele, Lea, Flood 2014): a few lines, and the seed says it all.
pub(crate) fn choices(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |count| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % count as u64) as usize
    }
}

pub(super) fn run(seeds: std::ops::Range<u64>, plan: Plan) -> Seen {
    let mut all = Seen::default();
    for seed in seeds {
        let world = || World::run(plan, &mut choices(seed));
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(world));
        let seen = seen.unwrap_or_else(|_| panic!("world of seed {seed}, {plan:?}"));
        all.steps += seen.steps;
        all.kills += seen.kills;
        all.settled += seen.settled;
        all.dropped += seen.dropped;
        all.over_budget += seen.over_budget;
        all.orphans += seen.orphans;
        all.batches += seen.batches;
        all.torn += seen.torn;
        all.checkpoints += seen.checkpoints;
    }
    all
}

fn explore(seeds: std::ops::Range<u64>, plan: Plan) {
    let (began, worlds) = (Instant::now(), seeds.end - seeds.start);
    let seen = run(seeds, plan);
    println!("{worlds} interleavings of {} clients in {:?}: {seen:?}", plan.clients, began.elapsed());
    for met in [seen.kills, seen.settled, seen.dropped, seen.over_budget, seen.batches, seen.torn] {
        assert!(met > 0, "nothing was seen of something: {seen:?}");
    }
    assert!(seen.orphans > 0 && seen.checkpoints > 0);
}

#[test]
fn no_interleaving_of_64_clients_overshoots_or_loses() {
    explore(0..WORLDS, PLAN);
}

#[test]
#[ignore = "minutes"]
fn soak_no_interleaving_of_64_clients_overshoots_or_loses() {
    explore(WORLDS..WORLDS + SOAK_WORLDS, PLAN);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// The same worlds, chosen by a list that can be made shorter when one fails.
    #[test]
    fn any_list_of_choices_is_what_the_model_says(
        list in prop::collection::vec(any::<u16>(), 0..600),
        clients in 1_usize..12,
    ) {
        let mut list = list.into_iter();
        let mut choose = |count: usize| usize::from(list.next().unwrap_or(0)) % count;
        World::run(Plan { clients, requests_each: 3, kill_one_in: 40 }, &mut choose);
    }
}
