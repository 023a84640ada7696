//! One place in a batch, one conversation after another (E03, J05, K01, K03, K04, K06).

use crate::{
    common::{PAGE, config, greedy, no_cache, oracle, prompt, submit},
    pool::Bench,
    rig::{Held, World, hold, row},
};
use engine::{
    core::{EngineConfig, PrefixCache, Progress, View, plan},
    device::stamp::Lie,
};
use isolation::{
    quota::Quota,
    tag::TenantTag,
    units::{Pages, Tokens},
};
use std::num::NonZeroU32;
use wire::{Refusal, Sampling, Submit};

row!(
    fault_e03_nothing_runs_for_who_has_ended,
    control_e03_nothing_runs_for_who_has_ended,
    e03,
    [Loss::Core(GenerationNotBumped) => "two tenants in one life"]
);

row!(
    fault_j05_a_choice_begins_from_its_own_logits,
    control_j05_a_choice_begins_from_its_own_logits,
    j05,
    [Loss::Engine(ScratchKept) => "got other tokens"]
);

row!(
    fault_k01_a_slot_goes_on_only_with_its_own_tenant,
    control_k01_a_slot_goes_on_only_with_its_own_tenant,
    k01,
    [Loss::Engine(OneTreeForAll) => "a run of tenant 1 in a lease of tenant 2", Loss::Engine(CachedUnsaid) => "cached of"]
);

row!(
    fault_k03_nothing_is_refused_by_name,
    control_k03_nothing_is_refused_by_name,
    k03,
    [Loss::Core(EmptyAdmitted) => "nothing was asked for: Ok"]
);

row!(
    fault_k04_who_follows_in_a_slot_finds_blank_pages,
    control_k04_who_follows_in_a_slot_finds_blank_pages,
    k04,
    [Loss::Core(NoScrub) => "is not blank when its life begins"]
);

row!(
    fault_k06_a_reset_that_does_nothing_is_noticed,
    control_k06_a_reset_that_does_nothing_is_noticed,
    k06,
    [Loss::Core(NoVerify) => "is not blank when its life begins"]
);

/// Nothing is run for who has ended: an idle engine does no step, and each page of a batch is in its owner's own life.
fn e03() -> Held {
    let mut world = World::new(6, no_cache())?;
    for round in 0..4 {
        world.send(&submit(round, 1 + u64::from(round % 2), prompt(round, 3 * PAGE), PAGE))?;
        world.settle()?;
        let steps = world.book.borrow().steps;
        for _ in 0..3 {
            hold(world.step()? == Progress::Idle, || "an idle engine works".into())?;
        }
        hold(world.book.borrow().steps == steps, || "a batch was run for nobody".into())?;
    }
    world.all_complete()
}

/// Four in parallel, each with a past of its own in its sampler. There is no draft model here; what a sequence carries from token
/// to token is this.
fn j05() -> Held {
    let mut world = World::new(40, EngineConfig { sequences_max: 4, ..no_cache() })?;
    for number in 0..4 {
        let sampling = Sampling {
            temperature: 1.0,
            presence_penalty: 2.0,
            frequency_penalty: -1.0,
            seed: u64::from(number),
            ..greedy()
        };
        let request = submit(number, 1 + u64::from(number), prompt(1, 7), 12);
        world.send(&Submit { sampling, ..request })?;
    }
    world.all_complete()
}

/// Two slots, many conversations of two tenants that go on where they were: what is cached is each tenant's own, and said.
fn k01() -> Held {
    let mut world = World::new(40, EngineConfig { sequences_max: 2, ..config() })?;
    let mut said: [Vec<u32>; 2] = [prompt(1, 9), prompt(1, 9)];
    let mut number = 0;
    let mut hits = 0;
    for turn in 0..8 {
        for (tag, known) in [1, 2].into_iter().zip(&mut said) {
            let next = submit(number, tag, known.clone(), 3);
            number += 1;
            let chunks = world.book.borrow().chunks.len();
            let cached = world.cached(&next)?;
            let began = world.book.borrow().chunks[chunks].1;
            hold(cached == began, || format!("{cached} tokens are said to be cached, {began} were"))?;
            hold(turn > 0 || cached == 0, || format!("tenant {tag} hit {cached} tokens that it never sent"))?;
            hits += u32::from(cached > 0);
            known.extend(oracle(&next).iter().map(|token| token.id));
            known.push(turn);
        }
    }
    hold(hits == 14, || format!("only {hits} conversations went on from what was kept"))?;
    // And side by side, with a third that only looks on.
    for tag in [1, 2, 3] {
        world.send(&submit(100 + tag as u32, tag, said[tag as usize % 2].clone(), 3))?;
    }
    world.all_complete()
}

/// Nothing, everywhere that a number may be nothing.
fn k03() -> Held {
    let mut world =
        World::new(8, EngineConfig { prefix_cache: PrefixCache::Share { percent: 1 }, ..config() })?;
    let nothing = [
        (submit(1, 1, vec![], 4), Refusal::Empty),
        (submit(2, 1, prompt(0, 3), 0), Refusal::BadSampling),
        (submit(3, 1, vec![], 0), Refusal::Empty),
    ];
    for (submit, refusal) in nothing {
        let refused = world.try_send(&submit);
        hold(refused == Err(refusal), || format!("nothing was asked for: {refused:?}"))?;
    }
    for (number, change) in [0.0, -0.0, f32::MIN_POSITIVE].into_iter().enumerate() {
        let sampling = Sampling { temperature: change, min_p: 0.0, top_p: 1.0, ..greedy() };
        world.send(&Submit { sampling, ..submit(10 + number as u32, 1, prompt(0, 1), 1) })?;
    }
    let nothing = Quota::new(Pages::ZERO, Pages::ZERO, NonZeroU32::MIN).map_err(|e| e.to_string())?;
    world.engine.set_quotas(&[(TenantTag::new(3), nothing)]).map_err(|e| e.to_string())?;
    let refused = world.try_send(&submit(20, 3, prompt(0, 1), 1));
    hold(refused == Err(Refusal::TooLong { asked: 2, window: 0 }), || {
        format!("a cap of nothing: {refused:?}")
    })?;
    hold(plan(&View { budget: 0, candidates: &[] }).turns.is_empty(), || "a plan of nothing".into())?;
    world.judge()?;
    world.engine.shrink(Pages::ZERO);
    world.engine.shrink(Pages::new(8));
    let refused = world.try_send(&submit(21, 1, prompt(0, 1), 1));
    hold(refused == Err(Refusal::TooLong { asked: 2, window: 0 }), || {
        format!("a pool of nothing: {refused:?}")
    })?;
    let mut bench = Bench::new(1);
    let mut empty = bench.lease(1, 0)?;
    let step = bench.pool.open_step().map_err(|e| e.to_string())?;
    hold(empty.include(Tokens::ZERO, &step).is_err(), || "a lease of nothing takes part".into())?;
    world.judge().map(drop)
}

/// One slot. A is cut off at each point, and B begins at once in its place, on its pages.
fn k04() -> Held {
    for after in 0..12 {
        let mut world =
            World::new(4, EngineConfig { sequences_max: 1, step_tokens: Tokens::new(3), ..config() })?;
        for round in 0..6 {
            let donor = submit(10 * round, 1, prompt(round, 2 * PAGE + 1), PAGE);
            world.send(&donor)?;
            world.steps(after)?;
            world.engine.cancel(donor.request);
            world.send(&submit(10 * round + 1, 2, prompt(40 + round, 3 * PAGE), PAGE))?;
            world.settle()?;
        }
        let tally = world.judge()?;
        hold(tally.completed >= 6 && tally.failed + tally.refused == 0, || format!("{tally:?}"))?;
    }
    Ok(())
}

/// The reset of a page does nothing from the ninth on: such pages are never given to anybody, and all answers are their own.
fn k06() -> Held {
    let mut world = World::lying(8, no_cache(), Lie::SkipWipe(8))?;
    let mut answered = 0;
    for number in 0..8 {
        let next = submit(number, 1 + u64::from(number % 2), prompt(number, PAGE), 3);
        answered += u32::from(world.try_send(&next).is_ok());
        world.settle()?;
    }
    hold(answered == 4, || format!("{answered} requests were let into a pool whose pages do not wipe"))?;
    world.judge()?;
    let withdrawn = world.engine.status().census.withdrawn;
    hold(withdrawn == 8, || format!("{withdrawn} of 8 pages were withdrawn"))
}
