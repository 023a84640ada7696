//! A: over-length, rejection. C: a failure that looks like a success.

#[cfg(feature = "seeded-faults")]
use crate::stage::Loss;
use crate::{
    common::{PAGE, config, name, no_cache, prompt, submit, try_engine},
    row,
    stage::{Stage, Wrong, demand},
};
use engine::{
    core::{Ended, EngineConfig, EngineStartError},
    device::stamp::Lie,
};
#[cfg(feature = "seeded-faults")]
use isolation::fault::Fault as Core;
use isolation::{
    quota::Quota,
    tag::TenantTag,
    units::{Pages, Tokens},
};
use std::num::NonZeroU32;
use wire::{Ending, Failed, Refusal, Sampling, Submit};

const WINDOW: u32 = 8 * PAGE;

/// Each length from one above the window to far above it is refused with its numbers, and no page is touched.
fn too_long_is_no_request(stage: &mut Stage, first: u32) -> Result<(), Wrong> {
    let lengths = (WINDOW..WINDOW + 5).chain([100 * WINDOW]);
    for (number, length) in (first..).zip(lengths) {
        let over = submit(number, 2, prompt(3, length), 1);
        let refused = stage.session.submit(&over);
        let expected = Err(Refusal::TooLong { asked: u64::from(length) + 1, window: WINDOW });
        demand(refused == expected, || format!("{} tokens: {refused:?}", length + 1))?;
        let status = stage.session.engine.status();
        demand((status.running, status.queued) == (0, 0), || "a refused request lives".to_owned())?;
    }
    Ok(())
}

/// A01: the pool still holds another tenant's stamps; a prompt longer than the pool must end as a refusal, not as a stub.
fn a01(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(8, no_cache(), lie)?;
    stage.send(submit(1, 1, prompt(0, WINDOW - 4), 4))?;
    stage.settle()?;
    too_long_is_no_request(&mut stage, 10)?;
    stage.send(submit(2, 2, prompt(3, 9), 4))?;
    stage.end()
}
row!(
    fault_a01_an_over_long_prompt_is_refused_before_a_page_is_touched,
    control_a01,
    a01,
    [Loss::Core(Core::AdmitOffByOne),]
);

/// A03: a request larger than the pool is not retried for ever in front of everybody; a window above the pool does not start.
fn a03(lie: Lie) -> Result<(), Wrong> {
    let promised = EngineConfig { advertised_window: Some(Tokens::new(WINDOW + PAGE)), ..no_cache() };
    let started = try_engine(8, promised, lie);
    let is_refused = matches!(started, Err(EngineStartError::Capacity(_)));
    demand(is_refused, || "a window above the pool started".to_owned())?;
    let mut stage = Stage::new(8, no_cache(), lie)?;
    // Admitted or not, it must not stop the others.
    let _ = stage.session.submit(&submit(1, 1, prompt(0, WINDOW), 1));
    for number in 10..30 {
        stage.send(submit(number, 2, prompt(1, 5), 2))?;
    }
    stage.end()?;
    (10..30).try_for_each(|number| stage.demand_completed(name(number)))
}
row!(
    fault_a03_a_request_larger_than_the_pool_blocks_nobody,
    control_a03,
    a03,
    [Loss::Core(Core::AdmitOffByOne),]
);

/// A04: whatever check turns a request away, and whenever it is called off, its pages come back.
fn a04(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(8, EngineConfig { step_tokens: Tokens::new(3), ..no_cache() }, lie)?;
    let good = |number| submit(number, 1, prompt(0, 9), 4);
    let bad: [fn(&mut Submit); 5] = [
        |s| s.prompt.clear(),
        |s| s.max_tokens = 0,
        |s| s.prompt[2] = 64,
        |s| s.epoch += 1,
        |s| s.sampling = Sampling { temperature: f32::NAN, ..s.sampling.clone() },
    ];
    for (number, spoil) in (10..).zip(bad) {
        let mut submit = good(number);
        spoil(&mut submit);
        demand(stage.session.submit(&submit).is_err(), || "a bad request was admitted".to_owned())?;
        let census = stage.session.engine.status().census;
        demand(census.leased == 0, || format!("{} pages are held", census.leased))?;
    }
    for after in 0..9 {
        stage.send(good(20 + after))?;
        stage.steps(after)?;
        stage.cancel(name(20 + after));
        stage.end()?;
    }
    Ok(())
}
row!(
    fault_a04_a_request_turned_away_at_any_check_holds_no_page,
    control_a04,
    a04,
    [Loss::Core(Core::LostPage),]
);

/// A06: one tenant asks for more than its share; only that request fails, and all others, its own too, go on.
fn a06(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(12, no_cache(), lie)?;
    let cap = Quota::new(Pages::new(0), Pages::new(4), NonZeroU32::MIN).unwrap();
    stage.session.engine.set_quotas(&[(TenantTag::new(1), cap)]).unwrap();
    for number in 0..3 {
        stage.send(submit(number, 1, prompt(0, 6), 8))?;
        stage.send(submit(10 + number, 2, prompt(1, 6), 8))?;
    }
    for _ in 0..10 {
        stage.step()?;
        let held = stage.session.engine.held(TenantTag::new(1));
        demand(held <= Pages::new(4), || format!("a tenant capped at 4 pages holds {held}"))?;
    }
    let greedy = stage.session.submit(&submit(20, 1, prompt(0, 4 * PAGE), 1));
    demand(greedy.is_err(), || "a request beyond the cap was admitted".to_owned())?;
    stage.end()?;
    [0, 1, 2, 10, 11, 12].into_iter().try_for_each(|number| stage.demand_completed(name(number)))
}
row!(fault_a06_only_who_is_over_its_share_fails, control_a06, a06, [Loss::Core(Core::CapIgnored)]);

/// A07: a prompt a hundred times the window is turned away by count; nothing of it is kept. (The edge refuses it by its bytes
/// before: `gateway`.)
fn a07(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(8, config(), lie)?;
    too_long_is_no_request(&mut stage, 1)?;
    stage.end()
}
row!(
    fault_a07_a_prompt_far_beyond_the_window_is_turned_away_by_count,
    control_a07,
    a07,
    [Loss::Core(Core::AdmitOffByOne),]
);

/// C03, C07: a step that broke is no success to anybody, and what is asked again afterwards is computed afresh.
fn c03(lie: Lie) -> Result<(), Wrong> {
    let lie = if lie == Lie::None { Lie::BreakStep(3) } else { lie };
    let mut stage = Stage::new(12, EngineConfig { step_tokens: Tokens::new(5), ..config() }, lie)?;
    let mut failed = 0;
    for number in 0..12 {
        let request = submit(number, 1 + u64::from(number % 2), prompt(number % 3, 9), 3);
        stage.send(request)?;
        stage.settle()?;
        let ended = &stage.session.reader.transcripts()[&name(number)].ended;
        failed += u32::from(*ended == Some(Ended::Admitted(Ending::Failed(Failed::Device))));
    }
    stage.end()?;
    demand(failed > 0, || "no broken step was reported".to_owned())
}
row!(fault_c03_a_broken_step_is_no_success, control_c03, c03, [Loss::Device(Lie::DropWrite)]);

/// C04: a write that was skipped must not enter the prefix tree: the first request may be lucky, the next hit is not.
fn c04(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(30, config(), lie)?;
    for number in 0..6 {
        stage.send(submit(number, 1, prompt(0, 3 * PAGE + number), 3))?;
        stage.settle()?;
    }
    stage.end()
}
row!(fault_c04_a_skipped_write_poisons_no_later_hit, control_c04, c04, [Loss::Device(Lie::DropWrite)]);

/// C07: pages are taken back after the scheduler moved on; what is computed again gives the same tokens.
fn c07(lie: Lie) -> Result<(), Wrong> {
    for after in 1..12 {
        let mut stage = Stage::new(12, EngineConfig { step_tokens: Tokens::new(4), ..no_cache() }, lie)?;
        stage.send(submit(1, 1, prompt(0, 9), 6))?;
        stage.send(submit(2, 2, prompt(0, 9), 6))?;
        stage.steps(after)?;
        stage.session.engine.preempt(name(1));
        stage.end()?;
        stage.demand_completed(name(1))?;
    }
    Ok(())
}
row!(
    fault_c07_what_is_computed_again_is_the_same,
    control_c07,
    c07,
    [Loss::Engine(engine::fault::Fault::StampsRestart), Loss::Device(Lie::ReadShort),]
);
