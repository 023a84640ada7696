//! J: preemption and rows that are used again. K: one slot after another. L: names and correlation.

#[cfg(feature = "seeded-faults")]
use crate::stage::Loss;
use crate::{
    common::{PAGE, config, greedy, name, no_cache, prompt, submit},
    row,
    stage::{Stage, Wrong, demand},
};
use engine::{core::EngineConfig, device::stamp::Lie};
#[cfg(feature = "seeded-faults")]
use isolation::fault::Fault as Core;
use isolation::units::Tokens;
use wire::{Refusal, Sampling, Submit};

/// J01: taken off its pages at each step, several times, while frames are on their way.
fn j01(lie: Lie) -> Result<(), Wrong> {
    for after in 1..14 {
        let mut stage = Stage::new(12, EngineConfig { step_tokens: Tokens::new(4), ..config() }, lie)?;
        stage.send(submit(1, 1, prompt(0, 9), 8))?;
        stage.send(submit(2, 2, prompt(0, 9), 8))?;
        for times in 0..3 {
            stage.steps(after)?;
            stage.session.engine.preempt(name(1 + times % 2));
        }
        stage.end()?;
        stage.demand_completed(name(1))?;
        stage.demand_completed(name(2))?;
    }
    Ok(())
}
row!(
    fault_j01_no_frame_of_a_former_turn_counts,
    control_j01,
    j01,
    [Loss::Engine(engine::fault::Fault::StampsRestart),]
);

/// J03, J05: rows of a step change hands all the time, with four of them beside one another.
fn rows(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(24, EngineConfig { sequences_max: 4, ..no_cache() }, lie)?;
    for number in 0..40 {
        let sampling = Sampling { temperature: 0.8, presence_penalty: 1.0, seed: 4, ..greedy() };
        let base =
            submit(number, 1 + u64::from(number % 3), prompt(number % 5, 1 + number % 7), 1 + number % 9);
        stage.send(Submit { sampling, ..base })?;
        stage.steps(1)?;
    }
    stage.end()
}
row!(fault_j03_a_row_that_is_used_again_knows_nobody, control_j03, rows, [Loss::Device(Lie::SwapRows)]);
row!(
    fault_j05_four_in_parallel_do_not_drift_together,
    control_j05,
    rows,
    [Loss::Device(Lie::SwapRows), Loss::Core(Core::DoubleGrant),]
);
row!(fault_l01_the_first_token_is_ones_own, control_l01, rows, [Loss::Device(Lie::SwapRows)]);

/// J06, L05: two tenants send the same name; the second is refused, the first gets its own, and a name that has ended may
/// come again.
fn same_name(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(16, config(), lie)?;
    stage.send(submit(1, 1, prompt(0, 6), 6))?;
    stage.step()?;
    let twin = stage.session.engine.submit(submit(1, 2, prompt(3, 6), 6));
    demand(twin == Err(Refusal::NotAuthentic), || format!("a name was given twice: {twin:?}"))?;
    stage.send(submit(2, 3, prompt(0, 6), 6))?;
    stage.end()?;
    stage.demand_completed(name(1))?;
    stage.demand_completed(name(2))
}
row!(
    fault_j06_a_name_that_lives_is_not_given_again,
    control_j06,
    same_name,
    [Loss::Engine(engine::fault::Fault::SameName),]
);
row!(
    fault_l05_a_replayed_name_harms_nobody,
    control_l05,
    same_name,
    [Loss::Engine(engine::fault::Fault::SameName),]
);

/// K01, K04, K06, K07: conversations one after another in few slots, of several tenants, some left by their clients; what is
/// said to be cached is what the tenant itself had asked.
fn slots(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(12, EngineConfig { sequences_max: 2, ..config() }, lie)?;
    let mut asked: Vec<(u64, u32)> = vec![];
    for number in 0..30 {
        let (tag, base) = (1 + u64::from(number % 3), number % 4);
        let request = submit(number, tag, prompt(base, 2 * PAGE + 1), 4);
        if number % 5 == 4 {
            stage.send(request)?;
            stage.steps(1 + number % 3)?;
            stage.cancel(name(number));
            // The victim starts on the very slot, at once.
            stage.send(submit(100 + number, 1 + tag % 3, prompt(base + 1, 2 * PAGE + 1), 4))?;
            stage.settle()?;
            asked.extend([(tag, base), (1 + tag % 3, base + 1)]);
            continue;
        }
        let cached = stage.cached(request)?;
        let is_own = asked.contains(&(tag, base));
        demand(cached == 0 || is_own, || format!("{cached} tokens that tenant {tag} never asked"))?;
        asked.push((tag, base));
    }
    let nothing = stage.session.submit(&submit(200, 2, vec![], 4));
    demand(nothing == Err(Refusal::Empty), || "an empty prompt was answered".to_owned())?;
    stage.send(submit(201, 2, vec![1], 4))?;
    stage.end()
}
row!(fault_k01_a_fresh_slot_continues_nobody, control_k01, slots, [Loss::Core(Core::PrefixNoTokenCompare)]);
row!(
    fault_k04_a_client_that_left_leaves_nothing,
    control_k04,
    slots,
    [Loss::Core(Core::LostPage), Loss::Device(Lie::ReadNeighbour)]
);
row!(fault_k06_no_state_stays_between_requests, control_k06, slots, [Loss::Device(Lie::ReadBeyond)]);
row!(fault_k07_a_later_session_sees_no_earlier_one, control_k07, slots, [Loss::Device(Lie::ReadBeyond)]);

/// K03: nothing of length zero is computed with.
fn k03(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(8, config(), lie)?;
    let empty = stage.session.submit(&submit(1, 1, vec![], 1));
    demand(empty == Err(Refusal::Empty), || format!("{empty:?}"))?;
    let none = stage.session.submit(&submit(2, 1, prompt(0, 3), 0));
    demand(none.is_err(), || "an answer of nothing was admitted".to_owned())?;
    stage.steps(2)?;
    demand(stage.session.engine.status().steps == 0, || "a step of nothing".to_owned())?;
    // A prompt of whole pages, all cached, still leaves a token to compute.
    for number in 3..6 {
        stage.send(submit(number, 1, prompt(0, 2 * PAGE), 2))?;
        stage.settle()?;
    }
    stage.end()?;
    (3..6).try_for_each(|number| stage.demand_completed(name(number)))
}
row!(fault_k03_nothing_is_divided_by_nothing, control_k03, k03, [Loss::Core(Core::PrefixWholePrompt)]);

/// L02: a slot that was freed says that it is not written, until it is: a page is whole in each of its lives.
fn l02(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(4, no_cache(), lie)?;
    let mut lives = vec![];
    for number in 0..20 {
        stage.send(submit(number, 1 + u64::from(number % 2), prompt(number % 3, 3 * PAGE), 2))?;
        stage.settle()?;
        let proof = stage.session.of(number).evidence.clone();
        lives.push(proof.map(|proof| proof.generations));
    }
    stage.end()?;
    let count = lives.len();
    lives.sort_unstable();
    lives.dedup();
    demand(lives.len() == count, || "a page came back in a life that it had before".to_owned())
}
row!(fault_l02_a_freed_slot_is_in_another_life, control_l02, l02, [Loss::Core(Core::GenerationNotBumped)]);

/// L04: several sequences of one request each have a name, a seed and an end of their own.
fn l04(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(24, config(), lie)?;
    for choice in 0..3 {
        let sampling = Sampling { temperature: 1.0, seed: u64::from(choice), ..greedy() };
        stage.send(Submit { sampling, ..submit(choice, 1, prompt(0, 5 + 4 * choice), 3 + choice) })?;
    }
    stage.steps(2)?;
    stage.cancel(name(1));
    stage.end()?;
    stage.demand_completed(name(0))?;
    stage.demand_completed(name(2))
}
row!(
    fault_l04_each_sequence_of_a_request_ends_alone,
    control_l04,
    l04,
    [Loss::Core(Core::LostPage), Loss::Device(Lie::SwapRows),]
);
