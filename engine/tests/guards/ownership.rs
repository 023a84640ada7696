//! Class F: who owns a page, and who gives it back. B15, the device's own late steps, stands here too.

use crate::{
    common::{PAGE, Rng, config, prompt, submit},
    pool::{Bench, SIZE, scope},
    rig::{Held, World, at_rest, hold},
};
use engine::{
    core::{EngineConfig, PrefixCache},
    device::stamp::Lie,
};
use isolation::{
    keyed::{Revision, Secrets},
    prefix::PrefixTree,
    tag::TenantTag,
    units::{Pages, Tokens},
};

fn tree(tag: u64) -> PrefixTree {
    PrefixTree::new(&scope(tag), SIZE, Pages::new(8), &Secrets::new([3; 16]), &Revision::default())
}

/// A's first run of `tokens` tokens, in its tree; the lease is gone, so that the tree alone holds the pages.
fn cached_run(bench: &mut Bench, tree: &mut PrefixTree, ids: &[u32]) -> Held {
    let mut lease = bench.lease(tree.tag().get(), ids.len() as u32 / 4)?;
    bench.fill(&mut lease, ids.len() as u32)?;
    let run = lease.seal(ids).map_err(|e| e.to_string())?.ok_or("nothing was sealed")?;
    tree.insert(&run).map(drop).map_err(|e| e.to_string())
}

/// A run-ahead device still writes A's pages when A ends; B must not have them before that step is over.
fn b15() -> Held {
    let mut bench = Bench::new(4);
    let mut first = bench.lease(1, 4)?;
    bench.fill(&mut first, 6)?;
    // Steps N and N+1 are both under way; A ends by N.
    let (now, write, _) = bench.launch(&mut first, 1)?;
    let receipt = now.finish();
    first.commit(write, &receipt).map_err(|e| e.to_string())?;
    let (ahead, _unread, late) = bench.launch(&mut first, 1)?;
    bench.pool.settle(&receipt).map_err(|e| e.to_string())?;
    drop(first);
    bench.scrub();
    let early = bench.lease(2, 2);
    bench.memory.write(&late);
    hold(early.is_err(), || "pages went on while a step could still write them".into())?;
    bench.pool.settle(&ahead.finish()).map_err(|e| e.to_string())?;
    bench.scrub();
    let second = bench.lease(2, 4)?;
    hold(bench.memory.is_free_of_others(&second), || "B's pages bear A's mark".into())
}

/// One step, the pool exactly full: A finds its prefix, B takes all that can be had, then A goes on.
fn f01() -> Held {
    let mut bench = Bench::new(4);
    let mut tree = tree(1);
    let ids: Vec<u32> = (0..12).collect();
    cached_run(&mut bench, &mut tree, &ids)?;
    let found = tree.find(&[ids.as_slice(), &[99]].concat()).ok_or("no hit, so nothing is tested")?;
    // B wants the whole pool: what A found is pinned.
    let evicted = tree.evict(Pages::new(4));
    hold(evicted == Pages::ZERO, || format!("{evicted} pages were evicted while A reads them"))?;
    bench.scrub();
    hold(bench.lease(2, 4).is_err(), || "B got the pages that A has found".into())?;
    let other = bench.lease(2, 1)?;
    let mut mine = bench.pool.lease(&scope(1), Pages::ZERO).map_err(|e| e.to_string())?;
    mine.adopt(found).map_err(|e| e.to_string())?;
    let is_apart = mine.pages().all(|page| other.pages().all(|theirs| theirs != page));
    hold(is_apart && bench.memory.is_free_of_others(&mine), || "A reads B's pages".into())?;
    bench.adds_up()
}

/// Two identical prompts at once, both kept, while others want pages: the duplicate goes, and who reads it goes on.
fn f02() -> Held {
    let mut world = World::new(14, config())?;
    for round in 0..6 {
        let base = 10 * round;
        world.send(&submit(base, 1, prompt(round, 9), 6))?;
        world.send(&submit(base + 1, 1, prompt(round, 9), 6))?;
        world.steps(2)?;
        world.send(&submit(base + 2, 2, prompt(round, 9), 3))?;
        world.send(&submit(base + 3, 1, prompt(round, 9), 3))?;
    }
    world.all_complete()
}

/// A page has two who might give it back, the tree and the sequence that reads it, in either order: it comes home once.
///
/// That a lease or a token is given back twice does not compile: see `isolation::lease::Lease`.
fn f03() -> Held {
    for tree_first in [true, false] {
        let mut bench = Bench::new(3);
        let mut tree = tree(1);
        let ids: Vec<u32> = (0..8).collect();
        cached_run(&mut bench, &mut tree, &ids)?;
        let found = tree.find(&[ids.as_slice(), &[99]].concat()).ok_or("no hit")?;
        let mut reader = bench.lease(1, 1)?;
        reader.adopt(found).map_err(|e| e.to_string())?;
        if tree_first {
            drop(tree);
            bench.adds_up()?;
            drop(reader);
        } else {
            drop(reader);
            bench.adds_up()?;
            tree.evict(Pages::new(9));
        }
        bench.adds_up()?;
        bench.scrub();
        let clean = bench.pool.census().clean;
        hold(clean == Pages::new(3), || format!("{clean} of 3 pages came home"))?;
    }
    Ok(())
}

/// Cut off at each point between its lease and its place in the tree: no page is forgotten, and none comes back by the tree.
fn f05() -> Held {
    for after in 0..8 {
        let mut world = World::new(12, EngineConfig { step_tokens: Tokens::new(3), ..config() })?;
        for round in 0..4 {
            let gone = submit(10 * round, 1, prompt(1, 9), 3);
            world.send(&gone)?;
            world.steps(after)?;
            world.engine.cancel(gone.request);
            world.send(&submit(10 * round + 1, 1, prompt(1, 10), 3))?;
            world.settle()?;
            at_rest(&world.engine.status())?;
        }
        let tally = world.judge()?;
        hold(tally.completed >= 4 && tally.failed == 0, || format!("{tally:?}"))?;
    }
    Ok(())
}

/// Five short ones, one that takes most of the pool, and clients that leave: under block pressure, on hashes instead of floats.
fn f07(lie: Lie) -> Held {
    let rng = &mut Rng(39_146);
    for _ in 0..12 {
        let cache = PrefixCache::Share { percent: rng.pick(&[25, 100]) };
        let mut world = World::lying(40, EngineConfig { prefix_cache: cache, ..config() }, lie)?;
        world.send(&submit(0, 1, prompt(rng.below(9) as u32, 33 * PAGE), PAGE))?;
        for number in 1..=30 {
            let tag = 1 + rng.below(3);
            let short = submit(number, tag, prompt(rng.below(3) as u32, 5 + rng.below(12) as u32), 6);
            world.send(&short)?;
            world.steps(rng.below(3) as u32)?;
            if rng.below(4) == 0 {
                world.engine.cancel(short.request);
            }
        }
        let tally = world.judge()?;
        hold(tally.failed + tally.refused == 0, || format!("{tally:?}"))?;
    }
    Ok(())
}

/// Gone between the launch of a chunk and its result, of the middle chunk and of the last: all pages come home, and not before.
fn f09() -> Held {
    for chunks in 1..=3 {
        let mut bench = Bench::new(4);
        let mut lease = bench.lease(1, 4)?;
        for _ in 1..chunks {
            bench.fill(&mut lease, 5)?;
        }
        let (step, _unread, late) = bench.launch(&mut lease, 5)?;
        drop(lease);
        bench.adds_up()?;
        bench.scrub();
        let clean = bench.pool.census().clean;
        hold(clean == Pages::ZERO, || format!("{clean} pages are clean while a chunk is under way"))?;
        bench.memory.write(&late);
        bench.pool.settle(&step.finish()).map_err(|e| e.to_string())?;
        bench.scrub();
        bench.adds_up()?;
        let all = bench.lease(2, 4)?;
        hold(bench.memory.is_free_of_others(&all), || "B's pages bear A's mark".into())?;
        hold(bench.pool.held(TenantTag::new(1)) == Pages::ZERO, || "A holds pages for ever".into())?;
    }
    Ok(())
}

#[test]
fn fault_b15_pages_wait_for_the_device_s_own_steps() {
    assert_eq!(b15(), Ok(()));
}

#[test]
fn fault_f01_what_was_found_is_pinned_at_once() {
    assert_eq!(f01(), Ok(()));
}

#[test]
fn fault_f02_a_duplicate_goes_when_nobody_reads_it() {
    assert_eq!(f02(), Ok(()));
}

#[test]
fn fault_f03_a_page_comes_home_once() {
    assert_eq!(f03(), Ok(()));
}

#[test]
fn fault_f05_no_page_is_forgotten_between_lease_and_tree() {
    assert_eq!(f05(), Ok(()));
}

#[test]
fn fault_f07_pressure_and_cancels_change_no_token() {
    assert_eq!(f07(Lie::None), Ok(()));
}

#[test]
fn fault_f07_control() {
    crate::rig::caught(f07(Lie::ReadNeighbour), "got other tokens");
}

#[test]
fn fault_f09_a_chunk_under_way_keeps_its_pages() {
    assert_eq!(f09(), Ok(()));
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::{b15, f01, f02, f03, f05, f09};
    use crate::rig::caught;
    use isolation::fault::{Fault, with};

    #[test]
    fn fault_b15_control() {
        caught(with(Fault::NoFence, b15), "pages went on while a step could still write them");
    }

    #[test]
    fn fault_f01_control() {
        caught(with(Fault::EvictInUse, f01), "pages were evicted while A reads them");
    }

    #[test]
    fn fault_f02_control() {
        caught(with(Fault::DoubleGrant, f02), "do not add up");
    }

    #[test]
    fn fault_f03_control() {
        caught(with(Fault::DoubleGrant, f03), "do not add up");
    }

    #[test]
    fn fault_f05_control() {
        caught(with(Fault::LostPage, f05), "missing at rest");
    }

    #[test]
    fn fault_f09_control() {
        caught(with(Fault::LostPage, f09), "do not add up");
        caught(with(Fault::NoFence, f09), "pages are clean while a chunk is under way");
    }
}
