//! Class G: by what a cached prefix is found.
//!
//! The names themselves are the trusted core's own business: that they are whole and depend on the model is tested beside them, in
//! `isolation/src/keyed/tests.rs` (G05, G10).

use crate::{
    common::{EPOCH, PAGE, Rng, config, prompt, submit},
    pool::{Bench, SIZE, scope},
    rig::{Held, World, hold},
    watch::Watch,
};
use engine::device::stamp::Lie;
use isolation::{
    keyed::{Revision, Secrets},
    prefix::PrefixTree,
    units::Pages,
};
use std::collections::BTreeSet;

/// Prompts of two tenants that differ in one token of one page, by the hundred: each is answered as alone, and hits only its own.
fn g01() -> Held {
    let mut world = World::new(60, config())?;
    let mut own: BTreeSet<(u64, Vec<u32>)> = BTreeSet::new();
    let rng = &mut Rng(25_183);
    for number in 0..150 {
        let tag = 1 + rng.below(2);
        let mut ids = prompt(1, 2 * PAGE + 1);
        ids[rng.below(8) as usize] = rng.below(3) as u32;
        let next = submit(number, tag, ids.clone(), 2);
        let cached = world.cached(&next)? as usize;
        let has = |length: usize| length == 0 || own.contains(&(tag, ids[..length].to_vec()));
        hold(has(cached), || format!("{cached} tokens of another prompt were hit"))?;
        hold(world.of(next.request).tokens.len() == 2, || "no answer".into())?;
        own.extend([4, 8].map(|length| (tag, ids[..length].to_vec())));
        world.judge_answers()?;
    }
    world.judge().map(drop)
}

/// The same tokens framed otherwise: swapped pages, a page under another prefix, a prompt that ends within a page.
fn g02() -> Held {
    let mut bench = Bench::new(12);
    let mut tree =
        PrefixTree::new(&scope(1), SIZE, Pages::new(12), &Secrets::new([5; 16]), &Revision::default());
    let [a, b, c] = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]];
    for known in [[a, b].concat(), [c, a].concat()] {
        let mut lease = bench.lease(1, 2)?;
        bench.fill(&mut lease, 8)?;
        let run = lease.seal(&known).map_err(|e| e.to_string())?.ok_or("nothing was sealed")?;
        tree.insert(&run).map_err(|e| e.to_string())?;
    }
    let asked: [(&[[u32; 4]], u32); 6] =
        [(&[a, b], 2), (&[c, a], 2), (&[b, a], 0), (&[a, a], 1), (&[c, b], 1), (&[[2, 3, 4, 5], b], 0)];
    for (pages, hits) in asked {
        let found = tree.find(&[&pages.concat()[..], &[0]].concat());
        let found = found.map_or(Pages::ZERO, |run| run.len()).get();
        hold(found == hits, || format!("{found} pages hit of {pages:?}, {hits} are known"))?;
    }
    Ok(())
}

/// The weights are swapped under the same name: a new life on the same memory, the same secrets. Nothing of the old is hit or read.
fn g05() -> Held {
    let ask = |number, epoch| wire::Submit { epoch, ..submit(number, 1, prompt(1, 9), 3) };
    let mut before = World::begin(Watch::new(6, Lie::None), config(), EPOCH)?;
    hold(before.cached(&ask(1, EPOCH))? == 0, || "hit at the first request".into())?;
    hold(before.cached(&ask(2, EPOCH))? == 8, || "no hit at the second".into())?;
    let mut after = World::begin(before.engine.into_device(), config(), EPOCH + 1)?;
    let cached = after.cached(&ask(3, EPOCH + 1))?;
    hold(cached == 0, || format!("{cached} tokens of other weights were hit"))?;
    hold(after.cached(&ask(4, EPOCH + 1))? == 8, || "no hit in the new life".into())?;
    after.all_complete()
}

/// Five tenants, one prompt, twice over: the second time each hits its own, and the first time none hits anybody's.
fn g09() -> Held {
    let mut world = World::new(60, config())?;
    for (round, expected) in [(0, 0), (1, 2 * PAGE)] {
        for tag in 1..=5 {
            let cached = world.cached(&submit(10 * round + tag, u64::from(tag), prompt(1, 9), 2))?;
            hold(cached == expected, || format!("tenant {tag} hit {cached} tokens, not {expected}"))?;
        }
    }
    world.all_complete()
}

/// Tags that are equal in their low bits, and at the ends of their range: each is a tenant of its own, and nobody dies of one.
fn g12() -> Held {
    let mut world = World::new(60, config())?;
    let tags = [0, 5, 5 | 1 << 16, 5 | 1 << 32, 5 | 1 << 63, u64::MAX, u64::MAX - 1, 0x2f40_005c_0a00];
    for (number, tag) in tags.into_iter().enumerate() {
        let cached = world.cached(&submit(number as u32, tag, prompt(1, 9), 2))?;
        hold(cached == 0, || format!("tenant {tag:#x} hit {cached} tokens of another"))?;
    }
    world.all_complete()
}

/// Against a set of page-aligned heads: after random inserts and evictions, a hit is what the set has, and its longest.
fn g13() -> Held {
    let rng = &mut Rng(3067);
    for _ in 0..20 {
        let mut bench = Bench::new(64);
        let secrets = Secrets::new([rng.next() as u8; 16]);
        let mut tree = PrefixTree::new(&scope(1), SIZE, Pages::new(64), &secrets, &Revision::default());
        let mut model: BTreeSet<Vec<u32>> = BTreeSet::new();
        for _ in 0..40 {
            let ids: Vec<u32> = (0..1 + rng.below(20)).map(|_| rng.below(2) as u32).collect();
            let known = (1..=ids.len().saturating_sub(1) / 4).take_while(|n| model.contains(&ids[..n * 4]));
            let expected = known.count() as u32;
            let found = tree.find(&ids).map_or(Pages::ZERO, |run| run.len()).get();
            hold(found == expected, || format!("{found} pages hit of {ids:?}, {expected} are known"))?;
            let full = ids.len() / 4;
            if full > 0 && model.len() + full < 60 {
                let mut lease = bench.lease(1, full as u32)?;
                bench.fill(&mut lease, full as u32 * 4)?;
                let run = lease.seal(&ids[..full * 4]).map_err(|e| e.to_string())?.ok_or("nothing")?;
                tree.insert(&run).map_err(|e| e.to_string())?;
                model.extend((1..=full).map(|n| ids[..n * 4].to_vec()));
                drop((lease, run));
                bench.scrub();
            }
            hold(tree.held().get() as usize == model.len(), || "the tree keeps another number".into())?;
        }
    }
    Ok(())
}

#[test]
fn fault_g01_a_name_alone_is_no_hit() {
    assert_eq!(g01(), Ok(()));
}

#[test]
fn fault_g02_what_is_framed_otherwise_is_another_prefix() {
    assert_eq!(g02(), Ok(()));
}

#[test]
fn fault_g05_other_weights_are_another_life() {
    assert_eq!(g05(), Ok(()));
}

#[test]
fn fault_g09_a_tenant_hits_its_own_and_no_other_does() {
    assert_eq!(g09(), Ok(()));
}

#[test]
fn fault_g12_any_tag_is_a_tenant() {
    assert_eq!(g12(), Ok(()));
}

#[test]
fn fault_g13_the_tree_is_a_set_of_heads() {
    assert_eq!(g13(), Ok(()));
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::{g01, g02, g05, g09, g12, g13};
    use crate::rig::caught;
    use engine::fault::{Fault as Engine, with as without};
    use isolation::fault::{Fault, with};

    /// With names of one bit nearly all collide: a miss, and no leak, as long as tokens are compared.
    #[test]
    fn fault_g01_with_names_of_one_bit() {
        assert_eq!(with(Fault::PrefixShortKey, g01), Ok(()));
    }

    #[test]
    fn fault_g01_control() {
        // The engine compares once more before it begins, and that is what stops it.
        caught(with(Fault::PrefixNoTokenCompare, g01), "8 tokens of a prompt of 9 are cached");
    }

    #[test]
    fn fault_g02_control() {
        caught(with(Fault::PrefixNoTokenCompare, g02), "pages hit of");
    }

    #[test]
    fn fault_g05_control() {
        caught(with(Fault::NoScrub, g05), "is not blank when its life begins");
    }

    #[test]
    fn fault_g09_control() {
        caught(without(Engine::OneTreeForAll, g09), "a run of tenant 1 in a lease of tenant 2");
    }

    #[test]
    fn fault_g12_control() {
        caught(without(Engine::TagFolded, g12), "a frame of tenant");
    }

    #[test]
    fn fault_g13_control() {
        caught(with(Fault::PrefixNoTokenCompare, g13), "the tree keeps another number");
        caught(with(Fault::PrefixWholePrompt, g13), "pages hit of");
    }
}
