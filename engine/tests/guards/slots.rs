//! Classes E and K: rows, slots and padding of a batch, and servers that give one slot to one conversation after another.

use crate::{
    common::{PAGE, Rng, config, greedy, no_cache, oracle, prompt, submit},
    kernel::Cache,
    pool::Bench,
    rig::{Held, World, hold, quota},
};
use engine::{
    core::{EngineConfig, PrefixCache, Progress, View, plan},
    device::stamp::Lie,
};
use isolation::{
    lease::LeaseError,
    units::{Pages, Tokens},
};
use kernels::kv::PAGE as SLOTS;
use wire::{Refusal, Sampling, Submit};

/// Another tenant owns the last page. Five rows are padded to eight; a padding row writes where its slot number says.
///
/// No type here has a number that means "nowhere": page numbers are made by the pool alone, and a kernel takes unsigned ones and
/// refuses what lies outside. `wrapped` is the number that an engine with -1 for "nowhere" would come to.
fn e01(wrapped: fn(usize) -> usize) -> Held {
    let (pages, owner) = (6, 5);
    let mut cache = Cache::new(pages);
    cache.write(&[owner], 0..SLOTS, 9);
    let before = cache.one(&[owner], SLOTS - 1);
    for row in 0..5 {
        cache.write(&[row], 0..1, row as usize);
    }
    for _ in 5..8 {
        let _refused = cache.put(wrapped(pages), wrapped(SLOTS), 1.0);
    }
    let after = cache.one(&[owner], SLOTS - 1);
    hold(before == after, || "a padding row wrote into another's last place".into())?;

    // And in the engine: five rows at once, while another tenant holds the rest of the pool to its last page.
    let mut world = World::new(9, no_cache())?;
    world.send(&submit(0, 2, prompt(3, 3 * PAGE), PAGE))?;
    for number in 1..=5 {
        world.send(&submit(number, 1, prompt(number, 2), 2))?;
    }
    world.step()?;
    let running = world.engine.status().running;
    hold(running == 6, || format!("{running} rows at once, so padding is not tested"))?;
    world.all_complete()
}

/// A short prompt on pages that a long one had, padded to four times its length: the tail has no place to go.
fn e02() -> Held {
    let mut bench = Bench::new(6);
    let mut long = bench.lease(1, 6)?;
    bench.fill(&mut long, 24)?;
    drop(long);
    bench.scrub();
    let (mut short, other) = (bench.lease(2, 2)?, bench.lease(3, 4)?);
    let step = bench.pool.open_step().map_err(|e| e.to_string())?;
    match short.include(Tokens::new(16), &step) {
        Err(LeaseError::Full { .. }) => {}
        Err(error) => return Err(error.to_string()),
        Ok((_, access)) => return Err(format!("16 rows go to {} pages", access.pages().len())),
    }
    let (_write, access) = short.include(Tokens::new(5), &step).map_err(|e| e.to_string())?;
    hold(access.pages().len() == 2, || "stale columns are in the table".into())?;
    let is_mine = access.pages().iter().all(|page| other.pages().all(|theirs| theirs != *page));
    hold(is_mine, || "another's page is in the table".into())
}

/// Nothing is run for who has ended: an idle engine does no step, and each page of a batch is in its owner's own life.
fn e03() -> Held {
    let mut world = World::new(6, no_cache())?;
    for round in 0..4 {
        world.send(&submit(round, 1 + u64::from(round % 2), prompt(round, 3 * PAGE), PAGE))?;
        world.settle()?;
        let steps = world.book.borrow().steps;
        for _ in 0..3 {
            hold(world.step()? == Progress::Idle, || "an idle engine works".into())?;
        }
        hold(world.book.borrow().steps == steps, || "a batch was run for nobody".into())?;
    }
    world.all_complete()
}

/// A wide page table, and then a narrow one in the same place; and both at once, in the kernel.
fn e05() -> Held {
    let mut world = World::new(12, EngineConfig { sequences_max: 1, ..no_cache() })?;
    for (number, length) in [10 * PAGE, 2, PAGE, 9 * PAGE, 1].into_iter().enumerate() {
        world.send(&submit(number as u32, 1 + number as u64 % 2, prompt(number as u32, length), PAGE))?;
        world.settle()?;
    }
    world.all_complete()?;

    let (wide, narrow) = ([4, 1, 3, 5], [2]);
    let mut cache = Cache::new(6);
    cache.write(&wide, 0..4 * SLOTS, 1);
    cache.write(&narrow, 0..3, 2);
    let mut alone = Cache::new(6);
    alone.write(&narrow, 0..3, 2);
    let both = cache.read(&[(&wide, 4 * SLOTS - 1), (&narrow, 2)]).map_err(|e| e.to_string())?;
    hold(both[1] == alone.one(&narrow, 2), || "the narrow row read the wide one's columns".into())?;
    hold(cache.one(&narrow, 2) == alone.one(&narrow, 2), || "a wide row left columns behind".into())
}

/// Two slots, many conversations of two tenants that go on where they were: what is cached is each tenant's own, and said.
fn k01() -> Held {
    let mut world = World::new(40, EngineConfig { sequences_max: 2, ..config() })?;
    let mut said: [Vec<u32>; 2] = [prompt(1, 9), prompt(1, 9)];
    let mut number = 0;
    let mut hits = 0;
    for turn in 0..8 {
        for (tag, known) in [1, 2].into_iter().zip(&mut said) {
            let next = submit(number, tag, known.clone(), 3);
            number += 1;
            let chunks = world.book.borrow().chunks.len();
            let cached = world.cached(&next)?;
            let began = world.book.borrow().chunks[chunks].1;
            hold(cached == began, || format!("{cached} tokens are said to be cached, {began} were"))?;
            hold(turn > 0 || cached == 0, || format!("tenant {tag} hit {cached} tokens that it never sent"))?;
            hits += u32::from(cached > 0);
            known.extend(oracle(&next).iter().map(|token| token.id));
            known.push(turn);
        }
    }
    hold(hits == 14, || format!("only {hits} conversations went on from what was kept"))?;
    // And side by side, with a third that only looks on.
    for tag in [1, 2, 3] {
        world.send(&submit(100 + tag as u32, tag, said[tag as usize % 2].clone(), 3))?;
    }
    world.all_complete()
}

/// Nothing, everywhere that a number may be nothing.
fn k03() -> Held {
    let mut world =
        World::new(8, EngineConfig { prefix_cache: PrefixCache::Share { percent: 1 }, ..config() })?;
    let nothing = [
        (submit(1, 1, vec![], 4), Refusal::Empty),
        (submit(2, 1, prompt(0, 3), 0), Refusal::BadSampling),
        (submit(3, 1, vec![], 0), Refusal::Empty),
    ];
    for (submit, refusal) in nothing {
        let refused = world.try_send(&submit);
        hold(refused == Err(refusal), || format!("nothing was asked for: {refused:?}"))?;
    }
    for (number, change) in [0.0, -0.0, f32::MIN_POSITIVE].into_iter().enumerate() {
        let sampling = Sampling { temperature: change, min_p: 0.0, top_p: 1.0, ..greedy() };
        world.send(&Submit { sampling, ..submit(10 + number as u32, 1, prompt(0, 1), 1) })?;
    }
    world.engine.set_quotas(&[quota(3, 0, 0)]).map_err(|e| e.to_string())?;
    let refused = world.try_send(&submit(20, 3, prompt(0, 1), 1));
    hold(refused == Err(Refusal::TooLong { asked: 2, window: 0 }), || {
        format!("a cap of nothing: {refused:?}")
    })?;
    hold(plan(&View { budget: 0, candidates: &[] }).turns.is_empty(), || "a plan of nothing".into())?;
    world.judge()?;
    world.engine.shrink(Pages::ZERO);
    world.engine.shrink(Pages::new(8));
    let refused = world.try_send(&submit(21, 1, prompt(0, 1), 1));
    hold(refused == Err(Refusal::TooLong { asked: 2, window: 0 }), || {
        format!("a pool of nothing: {refused:?}")
    })?;
    let mut bench = Bench::new(1);
    let mut empty = bench.lease(1, 0)?;
    let step = bench.pool.open_step().map_err(|e| e.to_string())?;
    hold(empty.include(Tokens::ZERO, &step).is_err(), || "a lease of nothing takes part".into())?;
    world.judge().map(drop)
}

/// One slot. A is cut off at each point, and B begins at once in its place, on its pages.
fn k04() -> Held {
    for after in 0..12 {
        let mut world =
            World::new(4, EngineConfig { sequences_max: 1, step_tokens: Tokens::new(3), ..config() })?;
        for round in 0..6 {
            let donor = submit(10 * round, 1, prompt(round, 2 * PAGE + 1), PAGE);
            world.send(&donor)?;
            world.steps(after)?;
            world.engine.cancel(donor.request);
            world.send(&submit(10 * round + 1, 2, prompt(40 + round, 3 * PAGE), PAGE))?;
            world.settle()?;
        }
        let tally = world.judge()?;
        hold(tally.completed >= 6 && tally.failed + tally.refused == 0, || format!("{tally:?}"))?;
    }
    Ok(())
}

/// The reset of a page does nothing from the ninth on: such pages are never given to anybody, and all answers are their own.
fn k06() -> Held {
    let mut world = World::lying(8, no_cache(), Lie::SkipWipe(8))?;
    let mut answered = 0;
    for number in 0..8 {
        let next = submit(number, 1 + u64::from(number % 2), prompt(number, PAGE), 3);
        answered += u32::from(world.try_send(&next).is_ok());
        world.settle()?;
    }
    hold(answered == 4, || format!("{answered} requests were let into a pool whose pages do not wipe"))?;
    world.judge()?;
    let withdrawn = world.engine.status().census.withdrawn;
    hold(withdrawn == 8, || format!("{withdrawn} of 8 pages were withdrawn"))
}

/// A choice is made from the sequence's own logits and its own past, whoever chose before.
fn k06_buffers() -> Held {
    let mut world = World::plain()?;
    for number in 0..6 {
        let sampling = Sampling { presence_penalty: 1.0, temperature: 0.5, ..greedy() };
        let tag = 1 + u64::from(number % 3);
        world.send(&Submit { sampling, ..submit(number, tag, prompt(number, 6), 5) })?;
    }
    world.all_complete()
}

/// A long session of A, and then the shortest of B on the same pages; also an empty one, which is none.
fn k07(lie: Lie) -> Held {
    let mut rng = Rng(7);
    let mut world = World::lying(4, no_cache(), lie)?;
    for round in 0..20 {
        world.send(&submit(10 * round, 1, prompt(round, 3 * PAGE), 3))?;
        world.settle()?;
        let refused = world.try_send(&submit(10 * round + 1, 2, vec![], 3));
        hold(refused == Err(Refusal::Empty), || format!("an empty prompt: {refused:?}"))?;
        world.send(&submit(10 * round + 2, 2, vec![rng.below(64) as u32], 2))?;
        world.settle()?;
    }
    let tally = world.judge()?;
    hold((tally.completed, tally.refused) == (40, 20), || format!("{tally:?}"))
}

#[test]
fn fault_e01_a_padding_row_has_no_place_to_write() {
    assert_eq!(e01(|_| usize::MAX), Ok(()));
}

/// What would happen if -1 were counted from the end.
#[test]
fn fault_e01_control() {
    crate::rig::caught(e01(|count| count - 1), "a padding row wrote into another's last place");
}

#[test]
fn fault_e02_a_padded_tail_does_not_fit_its_lease() {
    assert_eq!(e02(), Ok(()));
}

#[test]
fn fault_e03_nothing_runs_for_who_has_ended() {
    assert_eq!(e03(), Ok(()));
}

#[test]
fn fault_e05_a_narrow_table_has_no_columns_of_a_wide_one() {
    assert_eq!(e05(), Ok(()));
}

#[test]
fn fault_k01_a_slot_goes_on_only_with_its_own_tenant() {
    assert_eq!(k01(), Ok(()));
}

#[test]
fn fault_k03_nothing_is_refused_by_name() {
    assert_eq!(k03(), Ok(()));
}

#[test]
fn fault_k04_who_follows_in_a_slot_reads_nothing_of_the_one_before() {
    assert_eq!(k04(), Ok(()));
}

#[test]
fn fault_k06_a_reset_that_does_nothing_is_noticed() {
    assert_eq!(k06(), Ok(()));
    assert_eq!(k06_buffers(), Ok(()));
}

#[test]
fn fault_k07_a_short_session_after_a_long_one_sees_none_of_it() {
    assert_eq!(k07(Lie::None), Ok(()));
}

#[test]
fn fault_k07_control() {
    crate::rig::caught(k07(Lie::ReadBeyond), "got other tokens");
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::{e02, e03, e05, k01, k03, k04, k06, k06_buffers};
    use crate::rig::caught;
    use engine::fault::{Fault as Engine, with as without};
    use isolation::fault::{Fault, with};
    use kernels::fault::{Fault as Kernel, with as lacking};

    #[test]
    fn fault_e02_control() {
        caught(with(Fault::WriteBeyond, e02), "16 rows go to 2 pages");
    }

    #[test]
    fn fault_e03_control() {
        caught(with(Fault::GenerationNotBumped, e03), "two tenants in one life");
    }

    #[test]
    fn fault_e05_control() {
        caught(lacking(Kernel::ForeignPages, e05), "the narrow row read the wide one's columns");
    }

    #[test]
    fn fault_k01_control() {
        caught(without(Engine::OneTreeForAll, k01), "a run of tenant 1 in a lease of tenant 2");
        caught(without(Engine::CachedUnsaid, k01), "cached of");
    }

    #[test]
    fn fault_k03_control() {
        caught(with(Fault::EmptyAdmitted, k03), "nothing was asked for: Ok");
    }

    #[test]
    fn fault_k04_control() {
        caught(with(Fault::NoScrub, k04), "is not blank when its life begins");
    }

    #[test]
    fn fault_k06_control() {
        caught(with(Fault::NoVerify, k06), "is not blank when its life begins");
        caught(without(Engine::ScratchKept, k06_buffers), "got other tokens");
    }
}
