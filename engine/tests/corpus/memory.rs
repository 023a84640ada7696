//! D: positions that this request never wrote. E: rows, slots, padding. F: who owns a page.

#[cfg(feature = "seeded-faults")]
use crate::stage::Loss;
use crate::{
    common::{PAGE, config, name, no_cache, prompt, submit},
    row,
    stage::{Stage, Wrong, demand},
};
use engine::{
    core::EngineConfig,
    device::stamp::{Lie, StampDevice},
};
#[cfg(feature = "seeded-faults")]
use isolation::fault::Fault as Core;
use isolation::{
    page::{Erase, PageId, Verify},
    pool::Pool,
    units::{Epoch, PageSize, Pages, Tokens},
};
use std::num::NonZeroU32;

/// D01, D04: lengths about every page boundary, on pages that another tenant filled before.
fn boundaries(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(8, no_cache(), lie)?;
    stage.send(submit(0, 1, prompt(0, 8 * PAGE - 1), 1))?;
    stage.settle()?;
    for length in 1..4 * PAGE {
        stage.send(submit(length, 2, prompt(1, length), PAGE + 1))?;
        stage.settle()?;
    }
    stage.end()
}
row!(fault_d01_nothing_past_the_length_is_read, control_d01, boundaries, [Loss::Device(Lie::ReadBeyond)]);
row!(
    fault_d04_no_page_too_many_is_read_at_a_boundary,
    control_d04,
    boundaries,
    [Loss::Device(Lie::ReadBeyond), Loss::Device(Lie::ReadNeighbour),]
);

/// D02: after a tenant is gone, no page bears a mark of it: the whole memory is blank.
fn d02(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(8, no_cache(), lie)?;
    stage.send(submit(1, 1, prompt(0, 8 * PAGE - 2), 2))?;
    stage.end()?;
    let census = stage.session.engine.status().census;
    demand(census.clean == 8, || format!("{census:?}"))?;
    let mut device = stage.session.engine.into_device();
    // On a thread of its own, which lacks no guard: what is asked is what the memory holds.
    std::thread::scope(|scope| scope.spawn(|| every_page_is_blank(&mut device)).join())
        .map_err(|_| "the look stopped".to_owned())?
}

fn every_page_is_blank(device: &mut StampDevice) -> Result<(), Wrong> {
    let size = PageSize::new(NonZeroU32::new(PAGE).unwrap());
    let mut all = Pool::new(Pages::new(8), size, Epoch::new(1));
    let looked = all.scrub(Pages::new(8), Verify::TrustWipe, &mut Look(device));
    looked.map(|_| ()).map_err(|_| "a page bears a mark".to_owned())
}

/// Looks at pages instead of wiping them.
struct Look<'a>(&'a mut StampDevice);

impl Erase for Look<'_> {
    type Error = ();

    fn erase(&mut self, page: PageId) -> Result<(), ()> {
        match self.0.is_blank(page) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(()),
        }
    }

    fn is_blank(&mut self, _: PageId) -> Result<bool, ()> {
        Ok(true)
    }
}
row!(fault_d02_a_page_has_no_past, control_d02, d02, [Loss::Core(Core::NoScrub)]);

/// D06: not a token more than the pages hold is written, at the very end of a request that fills its lease.
fn d06(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(8, EngineConfig { step_tokens: Tokens::new(64), ..no_cache() }, lie)?;
    for number in 0..4 {
        stage.send(submit(number, 1, prompt(0, 3 * PAGE), PAGE))?;
    }
    let over = stage.session.submit(&submit(9, 1, prompt(0, 8 * PAGE), 1));
    demand(over.is_err(), || "a request beyond the table was admitted".to_owned())?;
    stage.end()?;
    (0..4).try_for_each(|number| stage.demand_completed(name(number)))
}
row!(fault_d06_no_length_passes_the_table, control_d06, d06, [Loss::Core(Core::AdmitOffByOne)]);

/// D07, D08: a bad number ends its own request without a token, enters no cache, and touches nobody else.
fn d07(lie: Lie) -> Result<(), Wrong> {
    let lie = if lie == Lie::None { Lie::NotANumber(3) } else { lie };
    let mut stage = Stage::new(30, EngineConfig { sequences_max: 1, ..config() }, lie)?;
    let (mut failed, mut after_failure) = (0, 0);
    let mut had_failed = false;
    for number in 0..12 {
        // One token each, so that every third request meets the bad step at its first token.
        let cached = stage.cached(submit(number, 1, prompt(0, 2 * PAGE + 1), 1))?;
        if had_failed {
            after_failure += 1;
            demand(cached == 0, || format!("{cached} tokens of a poisoned prefix"))?;
        }
        let ended = &stage.session.reader.transcripts()[&name(number)].ended;
        had_failed = matches!(ended, Some(engine::core::Ended::Admitted(wire::Ending::Failed(_))));
        failed += u32::from(had_failed);
    }
    demand(failed > 1 && after_failure > 1, || "no bad number was met".to_owned())?;
    stage.end()
}
row!(
    fault_d07_a_bad_number_enters_no_cache,
    control_d07,
    d07,
    [Loss::Engine(engine::fault::Fault::KeepFailed),]
);
row!(fault_d08_a_bad_row_is_no_token, control_d08, d07, [Loss::Engine(engine::fault::Fault::KeepFailed),]);

/// Many widths of batch, one after another, in a pool that is full to its last page.
fn widths(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(12, EngineConfig { step_tokens: Tokens::new(7), ..no_cache() }, lie)?;
    let mut number = 0;
    let widths = [(1, 6 * PAGE), (3, 5), (5, 3), (2, 4 * PAGE + 1), (4, 6), (1, 2), (6, 2)];
    let full = [(1, 10 * PAGE), (2, 4 * PAGE), (3, 2 * PAGE), (6, 2), (1, 10 * PAGE + 1)];
    for (count, length) in widths.into_iter().chain(full) {
        for _ in 0..count {
            stage.send(submit(number, 1 + u64::from(number % 3), prompt(number % 4, length), 6))?;
            number += 1;
        }
        stage.steps(4)?;
        stage.cancel(name(number - 1));
    }
    stage.end()
}
row!(fault_e01_padding_writes_nobodys_slot, control_e01, widths, [Loss::Device(Lie::PadWrite)]);
row!(fault_e02_a_padded_prefill_writes_no_stale_column, control_e02, widths, [Loss::Device(Lie::StaleRow)]);

/// E03: between two requests the engine is idle, and idle it computes nothing.
fn e03(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(8, no_cache(), lie)?;
    for number in 0..6 {
        stage.send(submit(number, 1 + u64::from(number % 2), prompt(number, 6 * PAGE - 3 * number), 5))?;
        stage.send(submit(10 + number, 2, prompt(number, 3), 5))?;
        stage.settle()?;
        let before = stage.session.engine.status();
        stage.steps(3)?;
        demand(stage.session.engine.status() == before, || "an idle engine worked".to_owned())?;
    }
    stage.end()
}
row!(fault_e03_an_idle_engine_computes_nothing, control_e03, e03, [Loss::Device(Lie::PadWrite)]);

/// E05: a wide table, then a narrow one in the same row.
fn e05(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(16, no_cache(), lie)?;
    for round in 0..4 {
        stage.send(submit(10 * round, 1, prompt(round, 12 * PAGE), 3))?;
        stage.settle()?;
        for number in 1..5 {
            stage.send(submit(10 * round + number, 2, prompt(number, 3), 3 * PAGE))?;
        }
        stage.settle()?;
    }
    stage.end()
}
row!(fault_e05_a_narrow_table_has_no_columns_of_a_wide_one, control_e05, e05, [Loss::Device(Lie::StaleRow)]);

/// F01: a cached prefix is looked up and, in the same step, another tenant needs every page that is left.
fn f01(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(10, config(), lie)?;
    for round in 0..4 {
        stage.send(submit(10 * round, 1, prompt(round, 4 * PAGE + 1), 2))?;
        stage.settle()?;
        stage.send(submit(10 * round + 1, 1, prompt(round, 4 * PAGE + 1), 5))?;
        stage.send(submit(10 * round + 2, 2, prompt(9, 7 * PAGE), PAGE))?;
        stage.send(submit(10 * round + 3, 1, prompt(round, 4 * PAGE + 2), 5))?;
        stage.settle()?;
    }
    stage.end()
}
row!(fault_f01_a_prefix_that_was_looked_up_is_not_taken, control_f01, f01, [Loss::Core(Core::DoubleGrant)]);

/// F02: two prompts alike in flight, and both would be kept.
fn f02(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(20, config(), lie)?;
    for round in 0..5 {
        for twin in 0..2 {
            stage.send(submit(10 * round + twin, 1, prompt(round, 3 * PAGE + 1), 6))?;
        }
        stage.send(submit(10 * round + 5, 2, prompt(round, 3 * PAGE + 1), 6))?;
        stage.steps(3)?;
    }
    stage.end()
}
row!(fault_f02_twins_in_flight_share_no_freed_page, control_f02, f02, [Loss::Core(Core::DoubleGrant)]);

/// F03, F05, F09: a sequence ends twice over, before its pages are registered, and between two chunks.
fn ends(lie: Lie) -> Result<(), Wrong> {
    for after in 0..10 {
        let mut stage = Stage::new(8, EngineConfig { step_tokens: Tokens::new(3), ..config() }, lie)?;
        stage.send(submit(1, 1, prompt(0, 3 * PAGE), 3))?;
        stage.send(submit(2, 2, prompt(0, 3 * PAGE), 3))?;
        stage.steps(after)?;
        stage.cancel(name(1));
        stage.cancel(name(1));
        stage.step()?;
        stage.cancel(name(1));
        stage.send(submit(3, 3, prompt(2, 4 * PAGE), 3))?;
        stage.end()?;
        stage.demand_completed(name(2))?;
        stage.demand_completed(name(3))?;
    }
    Ok(())
}
row!(fault_f03_pages_are_given_back_once, control_f03, ends, [Loss::Core(Core::DoubleGrant)]);
row!(fault_f05_pages_of_an_early_end_are_not_lost, control_f05, ends, [Loss::Core(Core::LostPage)]);
row!(fault_f09_an_abort_between_two_chunks_loses_no_page, control_f09, ends, [Loss::Core(Core::LostPage)]);

/// F07: short ones, a long one, and clients that leave, under page pressure.
fn f07(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(14, EngineConfig { step_tokens: Tokens::new(8), ..config() }, lie)?;
    for round in 0..6 {
        for number in 0..5 {
            stage.send(submit(10 * round + number, 1 + u64::from(number % 3), prompt(number, 5), 4))?;
        }
        stage.send(submit(10 * round + 9, 4, prompt(7, 10 * PAGE), 4))?;
        stage.steps(3)?;
        stage.cancel(name(10 * round + 2));
        stage.steps(2)?;
        stage.cancel(name(10 * round + 9));
    }
    stage.end()
}
row!(
    fault_f07_pressure_and_cancels_change_no_token,
    control_f07,
    f07,
    [Loss::Core(Core::DoubleGrant), Loss::Device(Lie::ReadNeighbour),]
);
