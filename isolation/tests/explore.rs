//! Every state that two tenants, a late device and an operator can reach in a small world keeps the tenants
//! apart.
//!
//! `EXPLORE=deep` walks larger worlds, for some minutes.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    reason = "a test that breaks may panic, and each test uses a part of the world"
)]

mod world;

use world::{Prompt, Scale, search::explore};

const PAIR: &[usize] = &[0, 1];
const FAMILY: &[usize] = &[0, 0, 1];

/// Walks `small`, or `deep` where the environment asks for it.
fn closes(small: Scale, deep: Scale) {
    let scale = if std::env::var("EXPLORE").is_ok_and(|wish| wish == "deep") { deep } else { small };
    let seen = explore(scale).unwrap_or_else(|found| panic!("{found:#?}"));
    println!("{scale:?}: {seen:?}");
    assert!(seen.reads > 0, "nothing was read, so nothing was tested");
}

/// Two steps at once, in any order; a device that breaks off.
#[test]
fn steps_in_flight() {
    closes(
        Scale {
            pages: 3,
            seats: PAIR,
            prompts: Prompt::ALL,
            flights: 2,
            chunks: &[1, 2],
            losses: 0,
            quotas: &[],
        },
        Scale {
            pages: 4,
            seats: PAIR,
            prompts: &[Prompt::Short],
            flights: 2,
            chunks: &[2],
            losses: 0,
            quotas: &[],
        },
    );
}

/// A wipe that lies or fails, and a pool that shrinks.
#[test]
fn losses() {
    closes(
        Scale {
            pages: 3,
            seats: PAIR,
            prompts: Prompt::ALL,
            flights: 2,
            chunks: &[2],
            losses: 1,
            quotas: &[],
        },
        Scale {
            pages: 3,
            seats: PAIR,
            prompts: Prompt::ALL,
            flights: 2,
            chunks: &[1, 2],
            losses: 1,
            quotas: &[],
        },
    );
}

/// Room for both tenants at once.
#[test]
fn both_live() {
    closes(
        Scale {
            pages: 4,
            seats: PAIR,
            prompts: &[Prompt::Short],
            flights: 1,
            chunks: &[2],
            losses: 0,
            quotas: &[],
        },
        Scale {
            pages: 4,
            seats: PAIR,
            prompts: Prompt::ALL,
            flights: 1,
            chunks: &[2],
            losses: 0,
            quotas: &[],
        },
    );
}

/// A floor for one tenant and a cap for the other, beside prefixes that may be taken back.
#[test]
fn floors_and_caps() {
    closes(
        Scale {
            pages: 4,
            seats: FAMILY,
            prompts: &[Prompt::Short],
            flights: 1,
            chunks: &[2],
            losses: 0,
            quotas: &[(0, 3), (1, 4)],
        },
        Scale {
            pages: 4,
            seats: FAMILY,
            prompts: Prompt::ALL,
            flights: 1,
            chunks: &[2],
            losses: 0,
            quotas: &[(0, 3), (1, 4)],
        },
    );
}

/// Two sequences that share their tenant's prefix, beside another tenant.
#[test]
fn shared_prefix() {
    closes(
        Scale {
            pages: 3,
            seats: FAMILY,
            prompts: Prompt::ALL,
            flights: 2,
            chunks: &[2],
            losses: 0,
            quotas: &[],
        },
        Scale {
            pages: 4,
            seats: FAMILY,
            prompts: &[Prompt::Short],
            flights: 1,
            chunks: &[2],
            losses: 0,
            quotas: &[],
        },
    );
}

/// More than a million states, in minutes: two sequences of one tenant and one of another, two steps in flight, floor and cap.
#[test]
#[ignore = "long: a million states to closure, for ./check --soak"]
fn soak_a_million_states() {
    let scale = Scale {
        pages: 4,
        seats: FAMILY,
        prompts: &[Prompt::Short, Prompt::Whole],
        flights: 2,
        chunks: &[2],
        losses: 0,
        quotas: &[(0, 3), (1, 4)],
    };
    let seen = explore(scale).unwrap_or_else(|found| panic!("{found:#?}"));
    println!("{scale:?}: {seen:?}");
    assert!(seen.states >= 1_000_000 && seen.reads > 0, "{seen:?}");
}
