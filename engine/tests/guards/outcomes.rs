//! Class C, as far as one process has it: part of the work, or none, called a success. Between processes it is open.

use crate::{
    common::{config, greedy, no_cache, prompt, submit},
    rig::{Held, World, hold},
    watch::Act,
};
use engine::{
    core::{Blown, Ended, EngineConfig, Fuse},
    device::{DeviceFault, stamp::Lie},
};
use isolation::{
    lease::LeaseError,
    units::{Pages, StepId, Tokens},
};
use kernels::KernelError;
use wire::{Ending, Failed, Sampling, Submit};

/// Each fault that a device can name. A new one does not compile here until it is in the list.
fn each_device_fault() -> Vec<DeviceFault> {
    let all = [
        DeviceFault::OtherStep { named: StepId::new(1), step: StepId::new(2) },
        DeviceFault::Length { tokens: 1, access: Tokens::new(2) },
        DeviceFault::Table { pages: 1, bound: Tokens::new(9) },
        DeviceFault::Page { page: 9, pages: Pages::new(8) },
        DeviceFault::Token { id: 64, vocab: 64 },
        DeviceFault::Step { tokens: 65, chunk_max: Tokens::new(64) },
        DeviceFault::Kernel(KernelError::NoMemory { bytes: 1 }),
        DeviceFault::Broken,
    ];
    for fault in all {
        match fault {
            DeviceFault::OtherStep { .. }
            | DeviceFault::Length { .. }
            | DeviceFault::Table { .. }
            | DeviceFault::Page { .. }
            | DeviceFault::Token { .. }
            | DeviceFault::Step { .. }
            | DeviceFault::Kernel(_)
            | DeviceFault::Broken => {}
        }
    }
    all.into()
}

/// Whatever a step ends in but success, at each step of a request: the request fails, and what it got is a head of its own.
fn c03() -> Held {
    for fault in each_device_fault() {
        for step in 1..=5 {
            let mut world = World::new(30, EngineConfig { step_tokens: Tokens::new(4), ..no_cache() })?;
            let request = submit(1, 1, prompt(0, 8), 4);
            world.act(step, Act::Deny(fault));
            world.send(&request)?;
            world.settle()?;
            let ended = world.of(request.request).ended.clone();
            let failed = Some(Ended::Admitted(Ending::Failed(Failed::Device)));
            hold(ended == failed, || format!("{fault:?} in step {step} ended as {ended:?}"))?;
            world.judge()?;
        }
    }
    part_as_success(submit(1, 1, prompt(0, 8), 1), submit(2, 1, prompt(1, 8), 1)).map(drop)
}

/// A step writes all pages but one sequence's, and is reported as done: neither may be believed.
fn part_as_success(first: Submit, second: Submit) -> Held<World> {
    let mut world = World::new(30, config())?;
    world.act(1, Act::PartAsSuccess);
    world.send(&first)?;
    world.send(&second)?;
    world.settle()?;
    for submit in [&first, &second] {
        let ended = world.of(submit.request).ended.clone();
        let failed = Some(Ended::Admitted(Ending::Failed(Failed::Isolation)));
        hold(ended == failed, || format!("a step that was not done ended as {ended:?}"))?;
    }
    let is_why = |why| matches!(why, Fuse::Blown(Blown::Lease(LeaseError::StepFailed { .. })));
    hold(is_why(world.engine.fuse()), || format!("the lease believed it: {:?}", world.engine.fuse()))?;
    Ok(world)
}

/// The same, and then somebody asks for the prefix that was never written.
fn c04() -> Held {
    let mut world = World::new(30, config())?;
    world.act(1, Act::PartAsSuccess);
    for submit in [submit(1, 1, prompt(0, 8), 1), submit(2, 1, prompt(1, 8), 1)] {
        world.send(&submit)?;
    }
    world.settle()?;
    let later = submit(3, 1, prompt(1, 9), 4);
    let _refused = world.try_send(&later);
    world.settle()?;
    let cached = world.of(later.request).evidence.as_ref().map_or(0, |evidence| evidence.cached);
    hold(cached == 0, || format!("{cached} tokens that nobody wrote were hit"))?;
    // And where the failure is said, the engine goes on: its later hits are sound.
    for part in [Lie::BreakStep(1), Lie::DropWrite] {
        let mut world = World::new(30, config())?;
        world.act(1, Act::Lie(part));
        if part == Lie::DropWrite {
            world.act(1, Act::Deny(DeviceFault::Broken));
        }
        for number in 1..=4 {
            world.send(&submit(number, 1, prompt(number % 2, 9), 3))?;
            if number % 2 == 0 {
                world.settle()?;
            }
        }
        let tally = world.judge()?;
        hold((tally.failed, tally.completed) == (2, 2), || format!("{tally:?}"))?;
    }
    Ok(())
}

/// Its pages are taken back at each step, and it computes again: with the bits that it had without that.
fn c07() -> Held {
    for (after, twice) in (0..12).flat_map(|after| [(after, false), (after, true)]) {
        let mut world = World::new(30, EngineConfig { step_tokens: Tokens::new(3), ..config() })?;
        let sampling =
            Sampling { temperature: 0.9, presence_penalty: 1.5, frequency_penalty: 0.5, seed: 8, ..greedy() };
        let request = Submit { sampling, ..submit(1, 1, prompt(0, 11), 8) };
        world.send(&request)?;
        world.send(&submit(2, 2, prompt(1, 11), 8))?;
        world.steps(after)?;
        world.engine.preempt(request.request);
        if twice {
            world.steps(2)?;
            world.engine.preempt(request.request);
        }
        world.all_complete()?;
    }
    Ok(())
}

#[test]
fn fault_c03_no_status_but_success_is_success() {
    assert_eq!(c03(), Ok(()));
}

#[test]
fn fault_c04_what_was_written_in_part_is_never_hit() {
    assert_eq!(c04(), Ok(()));
}

#[test]
fn fault_c07_what_is_computed_again_is_the_same() {
    assert_eq!(c07(), Ok(()));
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::{c03, c04, c07};
    use crate::rig::caught;
    use engine::fault::{Fault as Engine, with as without};
    use isolation::fault::{Fault, with};

    #[test]
    fn fault_c03_control() {
        caught(with(Fault::FailedCommit, c03), "a step that was not done ended as Some(Admitted(Completed");
    }

    #[test]
    fn fault_c04_control() {
        caught(with(Fault::FailedCommit, c04), "tokens that nobody wrote were hit");
    }

    #[test]
    fn fault_c07_control() {
        caught(without(Engine::ResumeShifted, c07), "other tokens");
    }
}
