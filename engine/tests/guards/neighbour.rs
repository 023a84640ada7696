//! Class M: a neighbour that wants everything. Time is counted in steps, which do not depend on the machine.

use crate::{
    common::{PAGE, config, no_cache, prompt, submit},
    rig::{Held, World, hold, quota},
};
use engine::core::{EngineConfig, Preemption, Progress};
use isolation::tag::TenantTag;
use wire::Submit;

const VICTIM: u64 = 9;
/// Sequences that run at once, at most.
const RUNNING: u32 = 8;

/// Steps from sending to the first token.
fn steps_to_first(world: &mut World, submit: &Submit) -> Held<u32> {
    world.send(submit)?;
    for steps in 1..200 {
        world.step()?;
        if !world.of(submit.request).tokens.is_empty() {
            return Ok(steps);
        }
    }
    Err("no first token in 200 steps".into())
}

/// Four flooders with long prompts and one token of output; the victim's prefix lies within its floor.
fn m01() -> Held {
    let ask = |number| submit(number, VICTIM, prompt(1, 3 * PAGE + 1), 3);
    let mut world = World::new(40, config())?;
    world.engine.set_quotas(&[quota(VICTIM, 5, 40)]).map_err(|e| e.to_string())?;
    world.cached(&ask(0))?;
    let alone = steps_to_first(&mut world, &ask(1))?;
    world.settle()?;
    let mut number = 100;
    for round in 0..10 {
        for flooder in 1..=4 {
            number += 1;
            world.send(&submit(number, flooder, prompt(number, 8 * PAGE), 1))?;
        }
        world.steps(3)?;
        let victim = ask(10 + round);
        let steps = steps_to_first(&mut world, &victim)?;
        let cached = world.of(victim.request).evidence.as_ref().map_or(0, |evidence| evidence.cached);
        hold(cached == 3 * PAGE, || format!("the flood left {cached} tokens of the victim's prefix"))?;
        // Each sequence that runs may have its turn before it, once: steps are not shared out by tenant yet.
        hold(steps <= alone + RUNNING, || format!("{steps} steps to the first token, {alone} alone"))?;
    }
    world.all_complete()
}

/// Two attackers fill the pool with long decodes, one of them up to its cap, and squeeze: the victim has its floor at once, and is never
/// sent back to its start.
fn m02() -> Held {
    let mut world = World::new(16, EngineConfig { preemption: Preemption::On, ..no_cache() })?;
    world.engine.set_quotas(&[quota(1, 0, 6), quota(VICTIM, 4, 16)]).map_err(|e| e.to_string())?;
    for number in 0..8 {
        world.send(&submit(number, 1, prompt(number, 4), 2 * PAGE))?;
    }
    world.steps(2)?;
    hold_cap(&world)?;
    for number in 10..18 {
        world.send(&submit(number, 2, prompt(number, 4), 2 * PAGE))?;
    }
    world.step()?;
    for round in 0..6 {
        hold_cap(&world)?;
        let victim = submit(100 + round, VICTIM, prompt(round, 4), 2 * PAGE);
        let mut steps = steps_to_first(&mut world, &victim)?;
        hold(steps <= 2, || format!("the victim waited {steps} steps for its own floor"))?;
        while world.of(victim.request).ended.is_none() {
            world.step()?;
            steps += 1;
        }
        // One step a token: it was never sent back to its start.
        hold(steps <= 2 * PAGE + 2, || format!("the victim was done after {steps} steps"))?;
    }
    world.all_complete()
}

fn hold_cap(world: &World) -> Held {
    let [capped, free] = [1, 2].map(|tag| world.engine.held(TenantTag::new(tag)).get());
    hold(capped <= 6, || format!("an attacker holds {capped} pages of a cap of 6"))?;
    hold(capped + free <= 12, || format!("{} pages are held, the victim's floor among them", capped + free))
}

/// Five prompts on a pool for four and a half: the fifth waits for its full length, and nothing is computed twice.
fn m04() -> Held {
    let mut world = World::new(22, no_cache())?;
    let asked: Vec<Submit> = (0..5).map(|number| submit(number, 1, prompt(number, 4 * PAGE), PAGE)).collect();
    for submit in &asked {
        world.send(submit)?;
    }
    let mut most = 0;
    while world.step()? == Progress::Worked {
        most = most.max(world.engine.status().running);
    }
    world.all_complete()?;
    hold(most == 4, || format!("{most} ran at once"))?;
    let prefilled = world.engine.status().prefilled;
    hold(prefilled == 5 * 4 * u64::from(PAGE), || format!("{prefilled} tokens were prefilled"))?;
    hold(world.engine.preempted() == 0, || "somebody was sent back".into())
}

#[test]
fn fault_m01_a_flood_does_not_reach_into_a_floor() {
    assert_eq!(m01(), Ok(()));
}

#[test]
fn fault_m02_who_has_too_much_is_squeezed_first() {
    assert_eq!(m02(), Ok(()));
}

#[test]
fn fault_m04_a_request_enters_at_its_full_length() {
    assert_eq!(m04(), Ok(()));
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::{m01, m02, m04};
    use crate::rig::caught;
    use engine::fault::{Fault as Engine, with as without};
    use isolation::fault::{Fault, with};

    #[test]
    fn fault_m01_control() {
        caught(with(Fault::FloorReclaimed, m01), "tokens of the victim's prefix");
    }

    #[test]
    fn fault_m02_control() {
        caught(with(Fault::CapIgnored, m02), "of a cap of 6");
        caught(with(Fault::FloorIgnored, m02), "the victim's floor among them");
    }

    #[test]
    fn fault_m04_control() {
        caught(without(Engine::LeaseFirstChunk, m04), "a lease refused");
    }
}
