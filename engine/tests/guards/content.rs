//! Class H: what a cached prefix holds.

use crate::{
    common::{PAGE, Rng, config, prompt, submit},
    pool::{Bench, SIZE, scope},
    rig::{Held, World, hold},
};
use engine::core::EngineConfig;
use isolation::{
    keyed::{Revision, Secrets},
    prefix::PrefixTree,
    units::{Pages, Tokens},
};

/// One stores, another hits its prefix and goes another way, and the first asks again: nobody wrote where something was.
fn h01() -> Held {
    let mut world = World::new(30, config())?;
    let stored = prompt(1, 2 * PAGE + 2);
    for round in 0..5 {
        world.cached(&submit(10 * round, 1, stored.clone(), 4))?;
        let mut other = stored.clone();
        other[2 * PAGE as usize] = 50 + round;
        other.extend(prompt(round, PAGE));
        let cached = world.cached(&submit(10 * round + 1, 1, other, 4))?;
        hold(cached == 2 * PAGE, || format!("{cached} tokens were hit, so nothing is tested"))?;
        let again = world.cached(&submit(10 * round + 2, 1, stored.clone(), 4))?;
        hold(again == 2 * PAGE, || format!("{again} tokens were hit again"))?;
    }
    world.all_complete()
}

/// Gone at each point of its life; then the same prompt. What never began is never hit.
fn h02() -> Held {
    for after in 0..10 {
        let mut world = World::new(30, EngineConfig { step_tokens: Tokens::new(3), ..config() })?;
        let donor = submit(1, 1, prompt(1, 13), 4);
        world.send(&donor)?;
        world.steps(after)?;
        let has_begun = world.of(donor.request).evidence.is_some();
        world.engine.cancel(donor.request);
        world.settle()?;
        let cached = world.cached(&submit(2, 1, prompt(1, 13), 4))?;
        hold(has_begun || cached == 0, || format!("{cached} tokens of a request that never began were hit"))?;
        hold(!has_begun || cached == 12, || format!("{cached} tokens of one that began were hit"))?;
        let refused = world.try_send(&submit(3, 1, prompt(2, 13), u32::MAX));
        hold(refused.is_err(), || "a refused request was admitted".into())?;
        let cached = world.cached(&submit(4, 1, prompt(2, 13), 4))?;
        hold(cached == 0, || format!("{cached} tokens of a refused request were hit"))?;
        world.judge()?;
    }
    Ok(())
}

/// A slow store: its last page is still being written when a second request asks for the same.
fn h04() -> Held {
    let mut bench = Bench::new(6);
    let mut tree =
        PrefixTree::new(&scope(1), SIZE, Pages::new(6), &Secrets::new([5; 16]), &Revision::default());
    let ids: Vec<u32> = (0..8).collect();
    let mut store = bench.lease(1, 2)?;
    bench.fill(&mut store, 4)?;
    let (step, write, access) = bench.launch(&mut store, 4)?;
    let early = store.seal(&ids[..]);
    let early = early.map_err(|e| e.to_string())?.map_or(Pages::ZERO, |run| run.len());
    hold(early == Pages::new(1), || format!("{early} pages were sealed while the second was being written"))?;
    hold(tree.find(&[&ids[..], &[9]].concat()).is_none(), || "a hit before the store".into())?;
    bench.memory.write(&access);
    let receipt = step.finish();
    store.commit(write, &receipt).map_err(|e| e.to_string())?;
    bench.pool.settle(&receipt).map_err(|e| e.to_string())?;
    let run = store.seal(&ids).map_err(|e| e.to_string())?.ok_or("nothing was sealed")?;
    tree.insert(&run).map_err(|e| e.to_string())?;
    let found = tree.find(&[&ids[..], &[9]].concat()).map_or(Pages::ZERO, |run| run.len());
    hold(found == Pages::new(2), || format!("{found} pages are hit after the store"))?;

    // The same in the engine: the second comes at each step of the first.
    for after in 0..8 {
        let mut world = World::new(30, EngineConfig { step_tokens: Tokens::new(2), ..config() })?;
        world.send(&submit(1, 1, prompt(1, 9), 3))?;
        world.steps(after)?;
        world.send(&submit(2, 1, prompt(1, 9), 3))?;
        world.all_complete()?;
    }
    Ok(())
}

/// A shared prefix, clients that leave after 15 and 19 steps and try again, and one whose prompt has nothing to do with it.
fn h06() -> Held {
    let rng = &mut Rng(23_392);
    for round in 0..15 {
        let mut world = World::new(40, EngineConfig { step_tokens: Tokens::new(4), ..config() })?;
        let shared = prompt(1, 4 * PAGE);
        let with_tail = |rng: &mut Rng| [&shared[..], &prompt(rng.below(50) as u32, 5)].concat();
        let mut number = 0;
        let mut next = |world: &mut World, ids: Vec<u32>, output| {
            number += 1;
            let submit = submit(number, 1, ids, output);
            world.send(&submit).map(|()| submit.request)
        };
        next(&mut world, prompt(20 + round, 18), 12)?;
        for gone_after in [15, 19] {
            let first = next(&mut world, with_tail(rng), 30)?;
            world.steps(gone_after)?;
            world.engine.cancel(first);
            next(&mut world, with_tail(rng), 6)?;
            next(&mut world, prompt(30 + round, 18), 6)?;
        }
        let tally = world.judge()?;
        hold((tally.completed, tally.cancelled) == (5, 2), || format!("{tally:?}"))?;
    }
    Ok(())
}

#[test]
fn fault_h01_who_adopts_a_prefix_writes_behind_it() {
    assert_eq!(h01(), Ok(()));
}

#[test]
fn fault_h02_what_never_began_is_never_hit() {
    assert_eq!(h02(), Ok(()));
}

#[test]
fn fault_h04_a_page_is_sealed_when_it_is_written() {
    assert_eq!(h04(), Ok(()));
}

#[test]
fn fault_h06_cancels_and_retries_spoil_no_other() {
    assert_eq!(h06(), Ok(()));
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::{h01, h02, h04, h06};
    use crate::rig::caught;
    use engine::fault::{Fault as Engine, with as without};
    use isolation::fault::{Fault, with};

    #[test]
    fn fault_h01_control() {
        caught(with(Fault::AdoptUnfilled, h01), "is written in a place that was filled");
    }

    #[test]
    fn fault_h02_control() {
        caught(without(Engine::KeepUnfinished, h02), "tokens of a request that never began were hit");
    }

    #[test]
    fn fault_h04_control() {
        caught(with(Fault::NoFilledMark, h04), "2 pages were sealed while the second was being written");
    }

    #[test]
    fn fault_h06_control() {
        // The engine compares once more before it begins, and that is what stops it.
        caught(with(Fault::PrefixNoTokenCompare, h06), "tokens of a prompt of 21 are cached");
    }
}
