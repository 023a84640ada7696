//! H: prefixes that are published too early, changed later, or come from a request that died.

#[cfg(feature = "seeded-faults")]
use crate::stage::Loss;
use crate::{
    common::{PAGE, config, name, prompt, submit},
    row,
    stage::{Stage, Wrong, demand},
};
use engine::{core::EngineConfig, device::stamp::Lie};
#[cfg(feature = "seeded-faults")]
use isolation::fault::Fault as Core;
use isolation::units::Tokens;

/// H01: one is kept, another borrows it and goes its own way, and the first comes again.
fn h01(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(40, config(), lie)?;
    let ids = prompt(1, 3 * PAGE + 2);
    stage.send(submit(1, 1, ids.clone(), 4))?;
    stage.settle()?;
    for fork in 0..3 * PAGE {
        let mut other = ids.clone();
        other[fork as usize] = (other[fork as usize] + 1) % 64;
        stage.send(submit(10 + fork, 1, other, 6))?;
        stage.settle()?;
        stage.send(submit(100 + fork, 1, ids.clone(), 4))?;
    }
    stage.end()
}
row!(
    fault_h01_a_borrower_changes_nothing_that_is_shared,
    control_h01,
    h01,
    [Loss::Core(Core::PrefixNoTokenCompare), Loss::Device(Lie::ReadNeighbour),]
);

/// H02: called off before its first token, at each step: none of its pages is a prefix.
fn h02(lie: Lie) -> Result<(), Wrong> {
    for after in 0..6 {
        let mut stage = Stage::new(40, EngineConfig { step_tokens: Tokens::new(3), ..config() }, lie)?;
        let ids = prompt(1, 5 * PAGE + 1);
        stage.send(submit(1, 1, ids.clone(), 4))?;
        stage.steps(after)?;
        stage.cancel(name(1));
        stage.settle()?;
        let cached = stage.cached(submit(2, 1, ids, 4))?;
        demand(cached == 0, || format!("{cached} tokens of a request that was called off after {after}"))?;
        stage.end()?;
    }
    Ok(())
}
row!(
    fault_h02_what_was_called_off_is_no_prefix,
    control_h02,
    h02,
    [Loss::Engine(engine::fault::Fault::KeepFailed),]
);

/// H04: the same prompt comes at each step of the first one's prefill.
fn h04(lie: Lie) -> Result<(), Wrong> {
    for after in 0..8 {
        let mut stage = Stage::new(40, EngineConfig { step_tokens: Tokens::new(3), ..config() }, lie)?;
        let ids = prompt(1, 4 * PAGE + 1);
        stage.send(submit(1, 1, ids.clone(), 4))?;
        stage.steps(after)?;
        stage.send(submit(2, 1, ids.clone(), 4))?;
        stage.send(submit(3, 2, ids, 4))?;
        stage.end()?;
    }
    Ok(())
}
row!(fault_h04_a_prefix_is_whole_or_not_there, control_h04, h04, [Loss::Device(Lie::DropWrite)]);

/// H06: a shared prefix, clients that leave and ask again, and somebody else beside them.
fn h06(lie: Lie) -> Result<(), Wrong> {
    for round in 0..15 {
        let mut stage = Stage::new(16, EngineConfig { step_tokens: Tokens::new(4), ..config() }, lie)?;
        let ids = prompt(1, 3 * PAGE + 1);
        stage.send(submit(99, 2, prompt(5, 7), 20))?;
        for retry in 0..4 {
            stage.send(submit(2 * retry, 1, ids.clone(), 5))?;
            stage.send(submit(2 * retry + 1, 1, ids.clone(), 5))?;
            stage.steps(round % 5)?;
            stage.cancel(name(2 * retry));
            stage.steps(round / 5)?;
            stage.cancel(name(2 * retry + 1));
        }
        stage.send(submit(50, 1, ids, 5))?;
        stage.end()?;
        stage.demand_completed(name(99))?;
        stage.demand_completed(name(50))?;
    }
    Ok(())
}
row!(
    fault_h06_retries_on_a_shared_prefix_touch_nobody_else,
    control_h06,
    h06,
    [Loss::Core(Core::DoubleGrant), Loss::Core(Core::LostPage),]
);
