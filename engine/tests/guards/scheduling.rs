//! Class J: what is late when its sequence has moved on, and rows that are used again; with L05, a name that is used again.

use crate::{
    common::{EPOCH, config, greedy, no_cache, prompt, submit},
    pool::Bench,
    rig::{Held, World, hold},
};
use engine::core::{EngineConfig, Preemption, Progress};
use isolation::{
    lease::LeaseError,
    tag::TenantTag,
    units::{Pages, Tokens},
};
use wire::{Refusal, Sampling, Submit, TicketCheck, TicketError, WireKey};

/// Preempted with 1 to 3 steps of run-ahead under way: their late results belong to nothing that the sequence has now.
fn j01() -> Held {
    for depth in 1..=3 {
        let mut bench = Bench::new(8);
        let mut late = Vec::new();
        // Each life of the sequence ends with its step under way.
        for _ in 0..depth {
            let mut life = bench.lease(1, 2)?;
            late.push(bench.launch(&mut life, 4)?);
        }
        let mut now = bench.lease(1, 2)?;
        let (step, write, _) = bench.launch(&mut now, 3)?;
        for (step, write, access) in late {
            bench.memory.write(&access);
            let receipt = step.finish();
            let refused = now.commit(write, &receipt);
            bench.pool.settle(&receipt).map_err(|e| e.to_string())?;
            hold(matches!(refused, Err(LeaseError::OtherWrite { .. })), || {
                format!("a late result was applied: {refused:?}, {} filled", now.filled())
            })?;
        }
        let receipt = step.finish();
        now.commit(write, &receipt).map_err(|e| e.to_string())?;
        bench.pool.settle(&receipt).map_err(|e| e.to_string())?;
        hold(now.filled() == Tokens::new(3), || format!("{} filled", now.filled()))?;
    }
    // And in the engine, by the scheduler's own choice: no token comes twice, and none is missing.
    let mut world = World::new(12, EngineConfig { preemption: Preemption::On, ..no_cache() })?;
    for number in 0..3 {
        world.send(&submit(number, 1, prompt(number, 6), 10))?;
    }
    world.steps(2)?;
    world.send(&submit(9, 2, prompt(5, 6), 10))?;
    while world.step()? == Progress::Worked {}
    hold(world.engine.preempted() > 0, || "nobody was preempted".into())?;
    world.all_complete()
}

/// Rows change hands from step to step: whoever ends makes room for another tenant's in the same step's batch.
fn j03() -> Held {
    let mut world = World::new(40, EngineConfig { sequences_max: 4, ..config() })?;
    for number in 0..24 {
        let tag = 1 + u64::from(number % 3);
        world.send(&submit(number, tag, prompt(number, 3 + number % 7), 1 + number % 5))?;
        if number % 2 == 0 {
            world.step()?;
        }
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

/// The same name twice, while it lives; and the same ticket twice, in a session. The first is answered as if nothing were.
fn l05() -> Held {
    let mut world = World::plain()?;
    let first = submit(1, 1, prompt(1, 9), 5);
    world.send(&first)?;
    world.step()?;
    for tag in [1, 2] {
        let again = world.engine.submit(submit(1, tag, prompt(2, 9), 5));
        hold(again == Err(Refusal::NotAuthentic), || {
            format!("a name that lives was given again: {again:?}")
        })?;
    }
    hold(world.engine.held(TenantTag::new(2)) == Pages::ZERO, || "a replay holds pages".into())?;
    world.all_complete()?;

    let (key, session) = (WireKey::new([1; 32]), [2; 16]);
    let mut check = TicketCheck::new(&key, session, EPOCH);
    let sealed = Submit { serial: 1, ..first }.seal(&key, &session);
    check.accept(&sealed).map_err(|e| e.to_string())?;
    let again = check.accept(&sealed);
    hold(again == Err(TicketError::Replayed { serial: 1, last: 1 }), || {
        format!("a ticket twice: {again:?}")
    })?;
    let forged = check.accept(&Submit { serial: 2, ..sealed });
    hold(forged == Err(TicketError::Forged), || format!("a serial was raised by hand: {forged:?}"))
}

#[test]
fn fault_j01_a_late_result_belongs_to_the_life_that_asked() {
    assert_eq!(j01(), Ok(()));
}

#[test]
fn fault_j03_a_row_is_its_own_step_s() {
    assert_eq!(j03(), Ok(()));
}

#[test]
fn fault_j05_parallel_sequences_keep_their_own_past() {
    assert_eq!(j05(), Ok(()));
}

#[test]
fn fault_l05_a_name_or_a_ticket_is_used_once() {
    assert_eq!(l05(), Ok(()));
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::{j01, j03, j05, l05};
    use crate::rig::caught;
    use engine::fault::{Fault as Engine, with as without};
    use isolation::fault::{Fault, with};

    #[test]
    fn fault_j01_control() {
        caught(with(Fault::ForeignCommit, j01), "a late result was applied");
    }

    #[test]
    fn fault_j03_control() {
        caught(without(Engine::RowsShifted, j03), "got other tokens");
    }

    #[test]
    fn fault_j05_control() {
        caught(without(Engine::ScratchKept, j05), "got other tokens");
    }

    #[test]
    fn fault_l05_control() {
        caught(without(Engine::NameTwice, l05), "a name that lives was given again");
    }
}
