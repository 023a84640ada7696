//! Pages, leases and trees without an engine, with a device that acts late and several steps under way (B15, D06, E02, F01, F09, H04, J01).

use crate::{
    pool::{Bench, SIZE, scope},
    rig::{Held, hold, row},
};
use isolation::{
    keyed::{Revision, Secrets},
    lease::LeaseError,
    prefix::PrefixTree,
    tag::TenantTag,
    units::{Pages, Tokens},
};

row!(
    fault_b15_pages_wait_for_the_devices_own_steps,
    control_b15_pages_wait_for_the_devices_own_steps,
    b15,
    [Loss::Core(NoFence) => "pages went on while a step could still write them"]
);

row!(
    fault_d06_more_than_the_table_holds_is_not_launched,
    control_d06_more_than_the_table_holds_is_not_launched,
    d06,
    [Loss::Core(WriteBeyond) => "9 places launched on 2 pages"]
);

row!(
    fault_e02_a_padded_tail_does_not_fit_its_lease,
    control_e02_a_padded_tail_does_not_fit_its_lease,
    e02,
    [Loss::Core(WriteBeyond) => "16 rows go to 2 pages"]
);

row!(
    fault_f01_what_was_found_is_pinned_at_once,
    control_f01_what_was_found_is_pinned_at_once,
    f01,
    [Loss::Core(EvictInUse) => "pages were evicted while A reads them"]
);

row!(
    fault_f09_a_chunk_under_way_keeps_its_pages,
    control_f09_a_chunk_under_way_keeps_its_pages,
    f09,
    [Loss::Core(LostPage) => "do not add up", Loss::Core(NoFence) => "pages are clean while a chunk is under way"]
);

row!(
    fault_h04_a_page_is_sealed_when_it_is_written,
    control_h04_a_page_is_sealed_when_it_is_written,
    h04,
    [Loss::Core(NoFilledMark) => "2 pages were sealed while the second was being written"]
);

row!(
    fault_j01_a_late_result_belongs_to_the_life_that_asked,
    control_j01_a_late_result_belongs_to_the_life_that_asked,
    j01,
    [Loss::Core(ForeignCommit) => "a late result was applied"]
);

fn tree(tag: u64) -> PrefixTree {
    PrefixTree::new(&scope(tag), SIZE, Pages::new(8), &Secrets::new([3; 16]), &Revision::default())
}

/// A's first run of `tokens` tokens, in its tree; the lease is gone, so that the tree alone holds the pages.
fn cached_run(bench: &mut Bench, tree: &mut PrefixTree, ids: &[u32]) -> Held {
    let mut lease = bench.lease(tree.tag().get(), ids.len() as u32 / 4)?;
    bench.fill(&mut lease, ids.len() as u32)?;
    let run = lease.seal(ids).map_err(|e| e.to_string())?.ok_or("nothing was sealed")?;
    tree.insert(&run).map(drop).map_err(|e| e.to_string())
}

/// A run-ahead device still writes A's pages when A ends; B must not have them before that step is over.
fn b15() -> Held {
    let mut bench = Bench::new(4);
    let mut first = bench.lease(1, 4)?;
    bench.fill(&mut first, 6)?;
    // Step N+1 is launched before anybody has taken note of N, by which A ends.
    let (now, write, _) = bench.launch(&mut first, 1)?;
    let receipt = now.finish();
    first.commit(write, &receipt).map_err(|e| e.to_string())?;
    let (ahead, _unread, late) = bench.launch(&mut first, 1)?;
    bench.pool.settle(&receipt).map_err(|e| e.to_string())?;
    drop(first);
    bench.scrub();
    let early = bench.lease(2, 2);
    bench.memory.write(&late);
    hold(early.is_err(), || "pages went on while a step could still write them".into())?;
    bench.pool.settle(&ahead.finish()).map_err(|e| e.to_string())?;
    bench.scrub();
    let second = bench.lease(2, 4)?;
    hold(bench.memory.is_free_of_others(&second), || "B's pages bear A's mark".into())
}

/// One position more than the page table has, at the last moment.
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
    Ok(())
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

/// One step, the pool exactly full: A finds its prefix, B takes all that can be had, then A goes on.
fn f01() -> Held {
    let mut bench = Bench::new(4);
    let mut tree = tree(1);
    let ids: Vec<u32> = (0..12).collect();
    cached_run(&mut bench, &mut tree, &ids)?;
    let found = tree.find(&[ids.as_slice(), &[99]].concat()).ok_or("no hit, so nothing is tested")?;
    // B wants the whole pool: what A found is pinned.
    let evicted = tree.evict(Pages::new(4));
    hold(evicted == Pages::ZERO, || format!("{evicted} pages were evicted while A reads them"))?;
    bench.scrub();
    hold(bench.lease(2, 4).is_err(), || "B got the pages that A has found".into())?;
    let other = bench.lease(2, 1)?;
    let mut mine = bench.pool.lease(&scope(1), Pages::ZERO).map_err(|e| e.to_string())?;
    mine.adopt(found).map_err(|e| e.to_string())?;
    let is_apart = mine.pages().all(|page| other.pages().all(|theirs| theirs != page));
    hold(is_apart && bench.memory.is_free_of_others(&mine), || "A reads B's pages".into())?;
    bench.adds_up()
}

/// Gone between the launch of a chunk and its result, of the middle chunk and of the last: all pages come home, and not before.
fn f09() -> Held {
    for chunks in 1..=3 {
        let mut bench = Bench::new(4);
        let mut lease = bench.lease(1, 4)?;
        for _ in 1..chunks {
            bench.fill(&mut lease, 5)?;
        }
        let (step, _unread, late) = bench.launch(&mut lease, 5)?;
        drop(lease);
        bench.adds_up()?;
        bench.scrub();
        let clean = bench.pool.census().clean;
        hold(clean == Pages::ZERO, || format!("{clean} pages are clean while a chunk is under way"))?;
        bench.memory.write(&late);
        bench.pool.settle(&step.finish()).map_err(|e| e.to_string())?;
        bench.scrub();
        bench.adds_up()?;
        let all = bench.lease(2, 4)?;
        hold(bench.memory.is_free_of_others(&all), || "B's pages bear A's mark".into())?;
        hold(bench.pool.held(TenantTag::new(1)) == Pages::ZERO, || "A holds pages for ever".into())?;
    }
    Ok(())
}

/// A slow store: its last page is still being written when a second request asks for the same.
fn h04() -> Held {
    let mut bench = Bench::new(6);
    let mut tree =
        PrefixTree::new(&scope(1), SIZE, Pages::new(6), &Secrets::new([5; 16]), &Revision::default());
    let ids: Vec<u32> = (0..8).collect();
    let mut store = bench.lease(1, 2)?;
    bench.fill(&mut store, 4)?;
    let (step, write, access) = bench.launch(&mut store, 4)?;
    let early = store.seal(&ids[..]);
    let early = early.map_err(|e| e.to_string())?.map_or(Pages::ZERO, |run| run.len());
    hold(early == Pages::new(1), || format!("{early} pages were sealed while the second was being written"))?;
    hold(tree.find(&[&ids[..], &[9]].concat()).is_none(), || "a hit before the store".into())?;
    bench.memory.write(&access);
    let receipt = step.finish();
    store.commit(write, &receipt).map_err(|e| e.to_string())?;
    bench.pool.settle(&receipt).map_err(|e| e.to_string())?;
    let run = store.seal(&ids).map_err(|e| e.to_string())?.ok_or("nothing was sealed")?;
    tree.insert(&run).map_err(|e| e.to_string())?;
    let found = tree.find(&[&ids[..], &[9]].concat()).map_or(Pages::ZERO, |run| run.len());
    hold(found == Pages::new(2), || format!("{found} pages are hit after the store"))?;

    Ok(())
}

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
    Ok(())
}
