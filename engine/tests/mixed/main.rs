//! Non-interference on the real model (P1): requests in random company, on engines of every make, give the same tokens and the
//! same log-probabilities as each alone on a fresh engine, bit for bit.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests compute freely, and print what they counted"
)]

mod mix;
mod requests;

use mix::{Mix, Seen};
use requests::Alone;

/// Runs the mixes of these seeds, or the one that `SEED` names.
fn run_all(seeds: std::ops::Range<u64>) {
    let alone = Alone::compute();
    let seeds = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => seeds.collect(),
    };
    let mut sum = Seen::default();
    for seed in &seeds {
        let mix = Mix::from_seed(*seed);
        match mix.run(&alone) {
            Ok(seen) => sum.add(&seen),
            Err(why) => panic!("SEED={seed}: {why}\n{mix:#?}"),
        }
    }
    println!("{} mixes on the real model: {sum:?}, each bit as alone", seeds.len());
    if seeds.len() > 1 {
        sum.assert_all_was_tried();
    }
}

#[test]
fn a_hundred_mixes_give_each_request_what_it_gets_alone() {
    run_all(0..100);
}

#[test]
#[ignore = "long: a thousand mixes on the real model, for ./check --soak"]
fn soak_a_thousand_mixes_give_each_request_what_it_gets_alone() {
    run_all(1_000..2_000);
}

/// The positive controls: the same mixes on kernels whose sums follow the batch, whose rows or pages meet, and on a core whose
/// prefix trees believe a name. What a request gets alone is computed with all guards on.
#[cfg(feature = "seeded-faults")]
#[test]
fn what_lets_requests_meet_is_noticed() {
    const MIXES: u64 = 12;
    let alone = Alone::compute();
    let is_noticed = || (0..MIXES).any(|seed| Mix::from_seed(seed).run(&alone).is_err());
    assert!(!is_noticed(), "these mixes are sound");
    {
        use kernels::fault::{Fault, with};
        for fault in [Fault::SplitByBatch, Fault::RowsMeet, Fault::SumByChunk, Fault::ForeignPages] {
            assert!(with(fault, is_noticed), "{fault:?} was not noticed");
        }
    }
    use isolation::fault::{Fault, with};
    assert!(with(Fault::PrefixNoTokenCompare, is_noticed), "a name that is believed was not noticed");
}
