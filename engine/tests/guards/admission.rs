//! Class A: what is too long, refused or over a quota.

use crate::{
    common::{PAGE, config, no_cache, prompt, submit},
    rig::{Held, World, at_rest, hold, quota},
};
use engine::core::{Ended, EngineConfig, Progress, STOP_TOKENS_MAX};
use isolation::{
    tag::TenantTag,
    units::{Pages, Tokens},
};
use wire::{Refusal, Submit};

/// Pages of the pool, a quarter of what is asked for at most.
const POOL: u32 = 64;
const WINDOW: u32 = POOL * PAGE;

/// A fills all pages with its own, then B asks for more than there are: at the door, and again once it waits (the pool shrank).
fn a01() -> Held {
    let advertised = EngineConfig { advertised_window: Some(Tokens::new(4 * WINDOW)), ..no_cache() };
    hold(World::new(POOL, advertised).is_err(), || "a window of 256 pages over a pool of 64 starts".into())?;

    let mut world = World::new(POOL, EngineConfig { sequences_max: 1, ..no_cache() })?;
    world.send(&submit(0, 1, prompt(1, WINDOW - 1), 1))?;
    world.settle()?;
    let before = world.engine.status();
    for (number, pages) in [(1, POOL), (2, POOL + 1), (3, 100), (4, 255)] {
        let length = pages * PAGE;
        let refused = world.try_send(&submit(number, 2, prompt(2, length), 1));
        let wanted = Err(Refusal::TooLong { asked: u64::from(length) + 1, window: WINDOW });
        hold(refused == wanted, || format!("a prompt of {pages} pages was admitted"))?;
    }
    hold(world.step()? == Progress::Idle && world.engine.status() == before, || {
        "a refused prompt left a trace".into()
    })?;

    // Admitted, and waiting behind another, when the pool becomes too small for it.
    let late = submit(6, 2, prompt(2, 40 * PAGE), 4);
    world.send(&submit(5, 1, prompt(1, 20 * PAGE), 4))?;
    world.send(&late)?;
    world.step()?;
    world.engine.shrink(Pages::new(POOL / 2));
    world.settle()?;
    let refusal = Refusal::TooLong { asked: 164, window: WINDOW / 2 };
    hold(world.of(late.request).ended == Some(Ended::Refused(refusal)), || {
        "refused late, and not so called".into()
    })?;
    hold(world.of(late.request).evidence.is_none(), || "a refused prompt was prefilled".into())?;
    world.judge().map(drop)
}

/// A request that can never fit, and then twenty small ones of another tenant.
fn a03() -> Held {
    let beyond = EngineConfig { advertised_window: Some(Tokens::new(WINDOW + PAGE)), ..no_cache() };
    hold(World::new(POOL, beyond).is_err(), || "a window of one page more than the pool starts".into())?;
    let mut world = World::new(POOL, no_cache())?;
    let small: Vec<Submit> = (1..=20).map(|number| submit(number, 2, prompt(number, 5), 3)).collect();
    // Whether it is refused is A01's question; here, that nobody waits for it.
    let _refused = world.try_send(&submit(0, 1, prompt(1, WINDOW), 1));
    for submit in &small {
        world.send(submit)?;
    }
    world.settle()?;
    let answered = small.iter().filter(|submit| world.of(submit.request).tokens.len() == 3).count();
    hold(answered == 20, || format!("{answered} of 20 small requests were answered"))?;
    world.judge().map(drop)
}

/// Turned away at each check there is, and gone at each point after them: nobody keeps a page for it.
fn a04() -> Held {
    let small = EngineConfig { sequences_max: 1, queue_max: 1, step_tokens: Tokens::new(4), ..no_cache() };
    let mut world = World::new(POOL, small)?;
    let good = submit(1, 1, prompt(0, 9), 4);
    let mut number = 100;
    let mut bad = |change: &dyn Fn(&mut Submit)| {
        number += 1;
        let mut bad = submit(number, 2, prompt(1, 9), 4);
        change(&mut bad);
        bad
    };
    let turned_away = [
        bad(&|bad| bad.epoch += 1),
        bad(&|bad| bad.prompt.clear()),
        bad(&|bad| bad.max_tokens = 0),
        bad(&|bad| bad.max_tokens = u32::MAX),
        bad(&|bad| bad.prompt[3] = 64),
        bad(&|bad| bad.stop_tokens = vec![0; STOP_TOKENS_MAX + 1]),
        bad(&|bad| bad.sampling.temperature = f32::INFINITY),
        bad(&|bad| bad.sampling.logit_bias = vec![(1, 0.0), (1, 0.0)]),
    ];
    world.send(&good)?;
    world.step()?;
    let held = world.engine.held(TenantTag::new(1));
    for bad in &turned_away {
        hold(world.try_send(bad).is_err(), || "a bad request was admitted".into())?;
    }
    world.send(&submit(2, 2, prompt(1, 9), 4))?;
    hold(world.try_send(&submit(3, 2, prompt(1, 9), 4)).is_err(), || "a full queue takes one more".into())?;
    hold(world.engine.held(TenantTag::new(2)) == Pages::ZERO, || "who is turned away holds pages".into())?;
    hold(world.engine.held(TenantTag::new(1)) == held, || "who runs lost pages".into())?;
    world.judge()?;
    // Gone after it was admitted: while it waits, in its prefill, after its proof.
    for after in 0..6 {
        let gone = submit(10 + after, 1, prompt(0, 9), 4);
        world.send(&gone)?;
        world.steps(after)?;
        world.engine.cancel(gone.request);
        world.settle()?;
        at_rest(&world.engine.status())?;
    }
    world.judge().map(drop)
}

/// A asks for more and more of a shared pool while B has four streams: only A's own requests wait or are refused.
fn a06() -> Held {
    let mut world = World::new(16, config())?;
    world.engine.set_quotas(&[quota(1, 0, 6)]).map_err(|e| e.to_string())?;
    let refused = world.try_send(&submit(0, 1, prompt(3, 4), 6 * PAGE));
    let asked = u64::from(4 + 6 * PAGE);
    hold(refused == Err(Refusal::TooLong { asked, window: 6 * PAGE }), || {
        format!("over its cap: {refused:?}")
    })?;
    for number in 1..=6 {
        world.send(&submit(number, 1, prompt(3, 4), 5 * PAGE))?;
    }
    for number in 10..14 {
        world.send(&submit(number, 2, prompt(number, 4), PAGE))?;
    }
    let mut most = 0;
    while world.step()? == Progress::Worked {
        most = most.max(world.engine.held(TenantTag::new(1)).get());
    }
    hold(most <= 6, || format!("a tenant of 6 pages held {most}"))?;
    let tally = world.judge_answers()?;
    hold((tally.completed, tally.refused) == (10, 1), || format!("not all others completed: {tally:?}"))
}

#[test]
fn fault_a01_an_over_long_prompt_is_refused_whole() {
    assert_eq!(a01(), Ok(()));
}

#[test]
fn fault_a03_a_request_larger_than_the_pool_blocks_nobody() {
    assert_eq!(a03(), Ok(()));
}

#[test]
fn fault_a04_whoever_is_turned_away_holds_no_page() {
    assert_eq!(a04(), Ok(()));
}

#[test]
fn fault_a06_a_tenant_beyond_its_share_fails_alone() {
    assert_eq!(a06(), Ok(()));
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::{a01, a03, a04, a06};
    use crate::rig::caught;
    use engine::fault::{Fault as Engine, with as without};
    use isolation::fault::{Fault, with};

    /// The incident: marked as rejected, and computed as a prompt of one token.
    #[test]
    fn fault_a01_control() {
        caught(without(Engine::StubForRejected, a01), "was admitted");
        caught(with(Fault::AdmitOffByOne, a01), "a prompt of 64 pages was admitted");
    }

    #[test]
    fn fault_a03_control() {
        caught(with(Fault::AdmitOffByOne, a03), "of 20 small requests were answered");
    }

    #[test]
    fn fault_a04_control() {
        caught(with(Fault::LostPage, a04), "do not add up");
    }

    #[test]
    fn fault_a06_control() {
        caught(with(Fault::CapIgnored, a06), "a tenant of 6 pages held");
    }
}
