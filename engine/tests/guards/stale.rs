//! Class D: bytes that this request did not write.

use crate::{
    common::{PAGE, config, no_cache, prompt, submit},
    kernel::{Cache, POISONS},
    pool::{Bench, scope},
    rig::{Held, World, hold},
    watch::Act,
};
use engine::{
    core::{Ended, EngineConfig},
    device::stamp::Lie,
};
use isolation::{
    lease::LeaseError,
    page::Verify,
    pool::Pool,
    tag::TenantTag,
    units::{Epoch, PageSize, Pages, Tokens},
};
use kernels::kv::PAGE as SLOTS;
use std::num::NonZeroU32;
use wire::{Ending, Failed};

/// The last page's tail is poisoned: `k` pages and one position are read, and not one more.
fn d01() -> Held {
    let pages = [3, 0, 2, 1];
    for (k, poison) in (0..4).flat_map(|k| POISONS.map(|poison| (k, poison))) {
        let last = k * SLOTS;
        let mut cache = Cache::new(4);
        cache.write(&pages, 0..last + 1, 1);
        let clean = cache.one(&pages, last);
        cache.poison(pages[k], 1..SLOTS, poison);
        hold(cache.one(&pages, last) == clean, || format!("{poison} beyond position {last} was read"))?;
        cache.poison(pages[k], 0..1, poison);
        hold(cache.one(&pages, last) != clean, || "poison has no effect, so nothing is tested".into())?;
    }
    Ok(())
}

/// Pages full of one tenant's poison go to another, which reads each of them whole before it writes.
fn d02() -> Held {
    let size = PageSize::new(NonZeroU32::new(SLOTS as u32).unwrap());
    for poison in POISONS {
        let (mut cache, mut pool) = (Cache::new(3), Pool::new(Pages::new(3), size, Epoch::new(1)));
        let scrub = |pool: &mut Pool, cache: &mut Cache| {
            pool.scrub(Pages::new(3), Verify::ReadBack, cache).map(drop).map_err(|e| e.to_string())
        };
        scrub(&mut pool, &mut cache)?;
        let first = pool.lease(&scope(1), Pages::new(3)).map_err(|e| e.to_string())?;
        first.pages().for_each(|page| cache.poison(page.index() as u32, 0..SLOTS, poison));
        drop(first);
        scrub(&mut pool, &mut cache)?;
        let second = pool.lease(&scope(2), Pages::new(3)).map_err(|e| e.to_string())?;
        for page in second.pages() {
            let read = cache.one(&[page.index() as u32], SLOTS - 1);
            hold(read.iter().all(|bits| *bits == 0), || format!("a page still holds {poison}"))?;
        }
    }
    Ok(())
}

/// The next page is leased already, and poisoned: decoding across page ends reads it only when it is written.
fn d04_in_the_kernel() -> Held {
    let pages = [2, 0, 3];
    for poison in POISONS {
        let mut cache = Cache::new(4);
        pages.iter().for_each(|page| cache.poison(*page, 0..SLOTS, poison));
        let mut fresh = Cache::new(4);
        for position in 0..2 * SLOTS + 3 {
            cache.write(&pages, position..position + 1, 1);
            fresh.write(&pages, position..position + 1, 1);
            let exact = &pages[..position / SLOTS + 1];
            hold(cache.one(&pages, position) == fresh.one(exact, position), || {
                format!("at position {position} the page ahead was read")
            })?;
        }
    }
    Ok(())
}

/// The same in the engine, whose leases hold all pages of a request from the start, on pages that others have used.
fn d04_in_the_engine(lie: Lie) -> Held {
    let mut world = World::lying(8, no_cache(), lie)?;
    for number in 0..4 {
        world.send(&submit(number, 1 + u64::from(number % 2), prompt(number, PAGE + number), 5 * PAGE))?;
    }
    world.all_complete()
}

/// One position more than the page table has, at the last moment: by a lease and by a kernel.
fn d06() -> Held {
    let mut bench = Bench::new(2);
    let mut lease = bench.lease(1, 2)?;
    bench.fill(&mut lease, 5)?;
    let step = bench.pool.open_step().map_err(|e| e.to_string())?;
    let refused = lease.include(Tokens::new(4), &step).map(|(_, access)| access);
    let full = LeaseError::Full { filled: Tokens::new(5), len: Tokens::new(4), capacity: Tokens::new(8) };
    match refused {
        Err(error) => hold(error == full, || format!("{error}"))?,
        Ok(access) => {
            return Err(format!("{} places launched on {} pages", access.bound(), access.pages().len()));
        }
    }
    let cache = Cache::new(2);
    hold(cache.read(&[(&[0, 1], 2 * SLOTS)]).is_err(), || "a kernel reads past its table".into())?;
    hold(cache.read(&[(&[0, 2], SLOTS)]).is_err(), || "a kernel reads a page that is not there".into())
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

#[test]
fn fault_d01_the_tail_of_the_last_page_is_not_loaded() {
    assert_eq!(d01(), Ok(()));
}

#[test]
fn fault_d02_a_page_is_blank_for_its_next_tenant() {
    assert_eq!(d02(), Ok(()));
}

#[test]
fn fault_d04_a_page_leased_ahead_is_not_read() {
    assert_eq!(d04_in_the_kernel(), Ok(()));
    assert_eq!(d04_in_the_engine(Lie::None), Ok(()));
}

#[test]
fn fault_d04_control() {
    crate::rig::caught(d04_in_the_engine(Lie::ReadBeyond), "got other tokens");
}

#[test]
fn fault_d06_more_than_the_table_holds_is_not_launched() {
    assert_eq!(d06(), Ok(()));
}

#[test]
fn fault_d07_bad_numbers_go_with_their_prefixes() {
    assert_eq!(d07(), Ok(()));
}

#[test]
fn fault_d08_what_is_not_a_number_is_no_answer() {
    assert_eq!(d08(), Ok(()));
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::{d01, d02, d04_in_the_kernel, d06, d07, d08};
    use crate::rig::caught;
    use engine::fault::{Fault as Engine, with as without};
    use isolation::fault::{Fault, with};
    use kernels::fault::{Fault as Kernel, with as lacking};

    #[test]
    fn fault_d01_control() {
        caught(lacking(Kernel::MaskedNotBounded, d01), "NaN beyond position 0 was read");
    }

    #[test]
    fn fault_d02_control() {
        caught(with(Fault::NoScrub, d02), "a page still holds");
    }

    #[test]
    fn fault_d04_control_in_the_kernel() {
        caught(lacking(Kernel::MaskedNotBounded, d04_in_the_kernel), "the page ahead was read");
    }

    #[test]
    fn fault_d06_control() {
        caught(with(Fault::WriteBeyond, d06), "9 places launched on 2 pages");
    }

    #[test]
    fn fault_d07_control() {
        caught(without(Engine::KeepPoisoned, d07), "a later request of tenant");
    }

    #[test]
    fn fault_d08_control() {
        caught(without(Engine::SanitiseNan, d08), "a row without a number ended as Some(Admitted(Completed");
    }
}
