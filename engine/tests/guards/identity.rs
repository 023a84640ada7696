//! Whose a prefix is, and where its borrower writes (G05, G09, G12, H01).
//!
//! That names are whole and depend on the model is tested beside them, in `isolation/src/keyed/tests.rs` (G05, G10).

use crate::{
    common::{EPOCH, PAGE, config, prompt, submit},
    rig::{Held, World, hold, row},
    watch::Watch,
};
use engine::device::stamp::Lie;

row!(
    fault_g05_other_weights_are_another_life,
    control_g05_other_weights_are_another_life,
    g05,
    [Loss::Core(NoScrub) => "is not blank when its life begins"]
);

row!(
    fault_g09_a_tenant_hits_its_own_and_no_other_does,
    control_g09_a_tenant_hits_its_own_and_no_other_does,
    g09,
    [Loss::Engine(OneTreeForAll) => "a run of tenant 1 in a lease of tenant 2"]
);

row!(
    fault_g12_any_tag_is_a_tenant,
    control_g12_any_tag_is_a_tenant,
    g12,
    [Loss::Engine(TagFolded) => "a frame of tenant"]
);

row!(
    fault_h01_who_adopts_a_prefix_writes_behind_it,
    control_h01_who_adopts_a_prefix_writes_behind_it,
    h01,
    [Loss::Core(AdoptUnfilled) => "is written in a place that was filled"]
);

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
