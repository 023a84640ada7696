//! What is let in: the whole request, or nothing of it (A01, M04).

use crate::{
    common::{PAGE, no_cache, prompt, submit},
    rig::{Held, World, hold, row},
};
use engine::core::{Ended, EngineConfig, Progress};
use isolation::units::{Pages, Tokens};
use wire::{Refusal, Submit};

/// Pages of the pool, a quarter of what is asked for at most.
const POOL: u32 = 64;
const WINDOW: u32 = POOL * PAGE;

row!(
    fault_a01_a_refused_prompt_is_no_prompt_of_one_token,
    control_a01_a_refused_prompt_is_no_prompt_of_one_token,
    a01,
    [Loss::Engine(StubForRejected) => "was admitted", Loss::Core(AdmitOffByOne) => "a prompt of 64 pages was admitted"]
);

row!(
    fault_m04_nothing_is_computed_twice_for_want_of_pages,
    control_m04_nothing_is_computed_twice_for_want_of_pages,
    m04,
    [Loss::Engine(LeaseFirstChunk) => "a lease refused"]
);

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
