//! M: what one tenant's load does to another.

#[cfg(feature = "seeded-faults")]
use crate::stage::Loss;
use crate::{
    common::{PAGE, config, name, no_cache, prompt, submit},
    row,
    stage::{Stage, Wrong, demand},
};
#[cfg(feature = "seeded-faults")]
use engine::fault::Fault as Engine;
use engine::{
    core::{EngineConfig, Preemption},
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

const VICTIM: u64 = 2;

/// Reserves pages for the victim.
fn reserve(stage: &mut Stage, floor: u32, pages: u32) {
    let quota = Quota::new(Pages::new(floor), Pages::new(pages), NonZeroU32::MIN).unwrap();
    stage.session.engine.set_quotas(&[(TenantTag::new(VICTIM), quota)]).unwrap();
}

/// M01: a flood of long prompts with one token of output each does not take the victim's prefix, which lies in its floor.
fn m01(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(24, config(), lie)?;
    reserve(&mut stage, 6, 24);
    let ids = prompt(1, 4 * PAGE + 1);
    stage.cached(submit(1, VICTIM, ids.clone(), 2))?;
    for number in 10..40 {
        stage.send(submit(number, 1, prompt(number, 15 * PAGE), 1))?;
        stage.step()?;
    }
    stage.settle()?;
    let cached = stage.cached(submit(2, VICTIM, ids, 2))?;
    demand(cached == 4 * PAGE, || format!("{cached} tokens of the victim's prefix are left"))?;
    stage.end()
}
row!(
    fault_m01_a_flood_does_not_take_a_reserved_prefix,
    control_m01,
    m01,
    [Loss::Core(Core::FloorReclaimed),]
);

/// M01, in time: beside four tenants that send long prompts all the time, the victim's first token comes after as many steps
/// as when it is alone.
fn m01_first_token(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(256, EngineConfig { step_tokens: Tokens::new(20), ..config() }, lie)?;
    reserve(&mut stage, 6, 256);
    let ids = prompt(1, 4 * PAGE + 1);
    stage.cached(submit(1, VICTIM, ids.clone(), 2))?;
    let alone = stage.steps_to_first(submit(2, VICTIM, ids.clone(), 2))?;
    stage.settle()?;
    for number in 20..60 {
        stage.send(submit(number, 11 + u64::from(number % 4), prompt(number, 15 * PAGE), 1))?;
    }
    stage.steps(2)?;
    for number in 3..13 {
        let beside = stage.steps_to_first(submit(number, VICTIM, ids.clone(), 2))?;
        demand(beside <= alone, || format!("{beside} steps instead of {alone}"))?;
        let running = stage.session.engine.status().running;
        demand(running > 4, || format!("the flood is over: {running} sequences are left"))?;
        while stage.session.of(number).ended.is_none() {
            stage.step()?;
        }
    }
    stage.end()
}
row!(
    fault_m01_a_flood_does_not_delay_a_neighbours_first_token,
    control_m01_first_token,
    m01_first_token,
    [Loss::Engine(Engine::StepUnshared)]
);

/// What a victim's prompt has beside it, at every step.
struct Flood {
    step_tokens: u32,
    /// Tenants that have long prompts to compute all the time.
    tenants: u32,
    /// Of each of them; the victim has 1.
    weight: u32,
    /// Sequences of one more tenant that decode all the time.
    decoding: u32,
    /// Tenants of weight 1 that have a long prompt to compute all the time.
    light: u32,
}

impl Flood {
    /// The tokens of a step that are the victim's, from the numbers alone: its part of what decoding leaves, and one at least.
    fn share(&self) -> u32 {
        ((self.step_tokens - self.decoding) / (self.tenants * self.weight + self.light + 1)).max(1)
    }

    /// Computes prompts of `lengths` without anything cached, one after the other, each within the steps of its share.
    fn beside(&self, lie: Lie, lengths: &[u32]) -> Result<(), Wrong> {
        let config = EngineConfig {
            step_tokens: Tokens::new(self.step_tokens),
            sequences_max: self.decoding + self.light + 3 * self.tenants,
            ..no_cache()
        };
        let mut stage = Stage::new(2_000, config, lie)?;
        let weight = NonZeroU32::new(self.weight).unwrap();
        let heavy = (11..11 + u64::from(self.tenants))
            .map(|tag| (TenantTag::new(tag), Quota::new(Pages::ZERO, Pages::new(2_000), weight).unwrap()));
        stage.session.engine.set_quotas(&heavy.collect::<Vec<_>>()).unwrap();
        for number in 0..self.decoding {
            stage.send(submit(1_000 + number, 10, prompt(number, 2), 250))?;
        }
        for number in 0..self.light {
            stage.send(submit(1_500 + number, 40 + u64::from(number), prompt(number, 250), 1))?;
        }
        stage.steps(self.decoding + self.light)?;
        let mut sent = 2_000;
        for (number, length) in (1..).zip(lengths) {
            for tenant in 0..3 * self.tenants {
                stage.send(submit(sent, 11 + u64::from(tenant % self.tenants), prompt(sent, 60), 1))?;
                sent += 1;
            }
            stage.step()?;
            let steps = stage.steps_to_first(submit(number, VICTIM, prompt(number, *length), 1))?;
            let most = length.div_ceil(self.share());
            demand(steps <= most, || format!("{steps} steps instead of {most} for {length} tokens"))?;
        }
        stage.end()
    }
}

/// M01, in time: a prompt of nothing cached, within its tenant's share and beyond it.
fn m01_uncached(lie: Lie) -> Result<(), Wrong> {
    Flood { step_tokens: 20, tenants: 4, weight: 1, decoding: 0, light: 0 }.beside(lie, &[1, 4, 5, 17])
}
row!(
    fault_m01_an_uncached_prompt_takes_the_steps_of_its_share,
    control_m01_uncached,
    m01_uncached,
    [Loss::Engine(Engine::StepUnshared)]
);

/// M01, in time: what decodes beside it comes first, and the rest is shared.
fn m01_beside_decoding(lie: Lie) -> Result<(), Wrong> {
    Flood { step_tokens: 26, tenants: 3, weight: 1, decoding: 6, light: 0 }.beside(lie, &[5, 6, 16])
}
row!(
    fault_m01_a_prompt_has_its_share_of_what_decoding_leaves,
    control_m01_beside_decoding,
    m01_beside_decoding,
    [Loss::Engine(Engine::StepUnshared)]
);

/// M01, in time: however little a tenant weighs, it has a token of each step.
fn m01_least_weight(lie: Lie) -> Result<(), Wrong> {
    Flood { step_tokens: 8, tenants: 2, weight: 1_000, decoding: 0, light: 1 }.beside(lie, &[1, 9])
}
row!(
    fault_m01_the_least_weight_has_a_token_of_each_step,
    control_m01_least_weight,
    m01_least_weight,
    [Loss::Engine(Engine::StepUnshared), Loss::Engine(Engine::SharesOfNothing)]
);

/// M01, in time: a step of one token, and a prompt that comes in at each: none of them overtakes the victim's.
fn m01_arrivals(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(200, EngineConfig { step_tokens: Tokens::new(1), ..no_cache() }, lie)?;
    stage.send(submit(1, VICTIM, prompt(1, 8), 1))?;
    for number in 10..60 {
        stage.send(submit(number, u64::from(number), prompt(number, 1), 1))?;
        stage.step()?;
    }
    demand(stage.session.of(1).ended.is_some(), || "overtaken by all that came".to_owned())?;
    stage.end()
}
row!(
    fault_m01_who_comes_in_each_step_overtakes_nobody,
    control_m01_arrivals,
    m01_arrivals,
    [Loss::Engine(Engine::ArrivalsFirst)]
);

/// M02: another tenant fills the pool with long decodes; who has a floor is in within two steps, though nobody is preempted.
fn m02(lie: Lie) -> Result<(), Wrong> {
    let patient = EngineConfig { preemption: Preemption::Off, ..no_cache() };
    let mut stage = Stage::new(16, patient, lie)?;
    reserve(&mut stage, 4, 16);
    for number in 10..22 {
        stage.send(submit(number, 1, prompt(number, 3), 13))?;
    }
    stage.steps(3)?;
    for round in 0..4 {
        stage.send(submit(round, VICTIM, prompt(round, 9), 3))?;
        stage.steps(2)?;
        let held = stage.session.engine.held(TenantTag::new(VICTIM));
        demand(held > Pages::ZERO, || "who has a floor waits".to_owned())?;
        while stage.session.of(round).ended.is_none() {
            stage.step()?;
        }
    }
    stage.end()
}
row!(
    fault_m02_who_fills_the_pool_squeezes_nobody_out_of_a_floor,
    control_m02,
    m02,
    [Loss::Core(Core::FloorIgnored),]
);

/// M02, by places: another tenant has all places among those that run, for long; who has none is in after one step, and who had
/// to make room goes on with the same bits.
fn m02_places(lie: Lie) -> Result<(), Wrong> {
    let few = EngineConfig { sequences_max: 4, ..no_cache() };
    let mut stage = Stage::new(64, few, lie)?;
    for number in 20..28 {
        stage.send(submit(number, 1, prompt(number, 3), 60))?;
    }
    stage.steps(3)?;
    for number in 1..10 {
        let steps = stage.steps_to_first(submit(number, VICTIM, prompt(number, 5), 3))?;
        demand(steps <= 1, || format!("{steps} steps for a place"))?;
        let running = stage.session.engine.status().running;
        demand(running <= 4, || format!("{running} sequences run in 4 places"))?;
        while stage.session.of(number).ended.is_none() {
            stage.step()?;
        }
    }
    demand(stage.session.engine.preempted() > 0, || "nobody made room".to_owned())?;
    stage.end()
}
row!(
    fault_m02_who_takes_all_places_keeps_nobody_out,
    control_m02_places,
    m02_places,
    [Loss::Engine(Engine::PlacesUnshared)]
);

/// M02, by the line: another tenant has all that may run and wait; who has nothing is let in nevertheless.
fn m02_line(lie: Lie) -> Result<(), Wrong> {
    let few = EngineConfig { sequences_max: 4, queue_max: 12, ..no_cache() };
    let mut stage = Stage::new(64, few, lie)?;
    for number in 20..36 {
        stage.send(submit(number, 1, prompt(number, 3), 30))?;
    }
    stage.steps(3)?;
    let steps = stage.steps_to_first(submit(1, VICTIM, prompt(1, 5), 3))?;
    demand(steps <= 1, || format!("{steps} steps for a place"))?;
    stage.end()?;
    stage.demand_completed(name(1))
}
row!(
    fault_m02_who_fills_the_line_keeps_nobody_out,
    control_m02_line,
    m02_line,
    [Loss::Engine(Engine::LineUnshared)]
);

/// M04: more long prompts than the pool holds at once: each is admitted with its whole length, so none is sent to and fro.
fn m04(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(18, EngineConfig { step_tokens: Tokens::new(8), ..no_cache() }, lie)?;
    for number in 0..5 {
        stage.send(submit(number, u64::from(number), prompt(number, 3 * PAGE), 4))?;
    }
    let mut steps = 0;
    while (0..5).any(|number| stage.session.of(number).ended.is_none()) {
        stage.step()?;
        steps += 1;
        demand(steps < 60, || "the long prompts do not come to an end".to_owned())?;
    }
    demand(stage.session.engine.preempted() == 0, || "somebody was sent to and fro".to_owned())?;
    // 5 prompts of 12 tokens in steps of 8, and 4 tokens each: every token was computed once.
    let computed = stage.session.engine.status().prefilled;
    demand(computed == 5 * 3 * u64::from(PAGE), || format!("{computed} tokens were prefilled"))?;
    stage.end()?;
    (0..5).try_for_each(|number| stage.demand_completed(name(number)))
}
row!(
    fault_m04_a_long_prompt_is_admitted_whole,
    control_m04,
    m04,
    [Loss::Core(Core::LostPage), Loss::Device(Lie::ReadShort),]
);
