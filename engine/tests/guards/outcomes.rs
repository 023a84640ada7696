//! What is called a success: a step that was done, and numbers that are numbers (C03, C04, D07, D08).

use crate::{
    common::{config, no_cache, prompt, submit},
    rig::{Held, World, hold, row},
    watch::Act,
};
use engine::{
    core::{Blown, Ended, EngineConfig, Fuse},
    device::{DeviceFault, stamp::Lie},
};
use isolation::{
    lease::LeaseError,
    tag::TenantTag,
    units::{Pages, StepId, Tokens},
};
use kernels::KernelError;
use wire::{Ending, Failed, Submit};

row!(
    fault_c03_no_status_but_success_is_success,
    control_c03_no_status_but_success_is_success,
    c03,
    [Loss::Core(FailedCommit) => "a step that was not done ended as Some(Admitted(Completed"]
);

row!(
    fault_c04_what_was_written_in_part_is_never_hit,
    control_c04_what_was_written_in_part_is_never_hit,
    c04,
    [Loss::Core(FailedCommit) => "tokens that nobody wrote were hit"]
);

row!(
    fault_d07_bad_numbers_go_with_their_prefixes,
    control_d07_bad_numbers_go_with_their_prefixes,
    d07,
    [Loss::Engine(KeepFailed) => "a later request of tenant"]
);

row!(
    fault_d08_no_constant_stands_for_what_is_not_a_number,
    control_d08_no_constant_stands_for_what_is_not_a_number,
    d08,
    [Loss::Engine(SanitiseNan) => "a row without a number ended as Some(Admitted(Completed"]
);

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
            | DeviceFault::Broken
            // A denied page blows the fuse, and has a test of its own.
            | DeviceFault::Denied(_) => {}
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

/// One page of A goes bad while it is cached: A's own next request is sound again, and B never notices.
fn d07() -> Held {
    let mut world = World::new(30, config())?;
    let ask = |number, tag| submit(number, tag, prompt(1, 9), 3);
    world.cached(&ask(1, 1))?;
    world.cached(&ask(2, 2))?;
    let next = world.book.borrow().steps + 1;
    world.act(next, Act::Spoil(TenantTag::new(1)));
    let spoilt = ask(3, 1);
    world.send(&spoilt)?;
    world.send(&ask(4, 2))?;
    world.settle()?;
    let ended = world.of(spoilt.request).ended.clone();
    let failed = Some(Ended::Admitted(Ending::Failed(Failed::NotANumber)));
    hold(ended == failed, || format!("what is not a number ended as {ended:?}"))?;
    for number in 5..10 {
        world.send(&ask(number, 1 + u64::from(number % 2)))?;
        world.settle()?;
        let ended = world.of(ask(number, 1).request).ended.clone();
        let is_well = matches!(ended, Some(Ended::Admitted(Ending::Completed(_))));
        hold(is_well, || format!("a later request of tenant {} ended as {ended:?}", 1 + number % 2))?;
    }
    let tally = world.judge()?;
    hold((tally.failed, tally.completed) == (1, 8), || format!("{tally:?}"))
}

/// A whole row is not a number, at the first token and later: the request ends there, and nothing of it is kept.
fn d08() -> Held {
    for bad in 1..5 {
        let mut world = World::new(30, EngineConfig { step_tokens: Tokens::new(16), ..config() })?;
        let request = submit(1, 1, prompt(1, 9), 4);
        world.act(bad, Act::Spoil(TenantTag::new(1)));
        world.send(&request)?;
        world.settle()?;
        let (ended, came) = (world.of(request.request).ended.clone(), world.of(request.request).tokens.len());
        let failed = Some(Ended::Admitted(Ending::Failed(Failed::NotANumber)));
        hold(ended == failed, || format!("a row without a number ended as {ended:?}"))?;
        hold(came as u64 == bad - 1, || format!("{came} tokens came, step {bad} was bad"))?;
        let cached = world.cached(&submit(2, 1, prompt(1, 9), 4))?;
        hold(cached == 0, || format!("{cached} tokens of a failed request were kept"))?;
        world.judge()?;
    }
    Ok(())
}
