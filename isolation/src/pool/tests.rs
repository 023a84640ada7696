use super::*;
use crate::{
    page::PageId,
    testing::{Blank, SIZE, fill, pool, scope},
    units::Tokens,
};

fn quarantined(pool: &mut Pool) -> u32 {
    pool.census().quarantined.get()
}

#[test]
fn a_home_says_what_is_where_and_changes_nothing_by_it() {
    let mut pool = pool(4, 1);
    let kept = pool.lease(&scope(1), Pages::new(2)).unwrap();
    drop(pool.lease(&scope(1), Pages::new(1)).unwrap());
    let said = alloc::format!("{:?}", pool.home);
    assert!(said.starts_with("Home(1 waiting, 2 leased, 0 shared){") && said.contains('2'), "{said}");
    assert_eq!(alloc::format!("{:?}", pool.home), said);
    drop(kept);
}

#[test]
fn a_page_waits_for_every_step_that_named_it_in_any_order() {
    let mut pool = pool(2, 1);
    let scope = scope(1);
    let mut first = pool.lease(&scope, Pages::new(1)).unwrap();
    let mut second = pool.lease(&scope, Pages::new(1)).unwrap();
    let one = pool.open_step().unwrap();
    let two = pool.open_step().unwrap();
    let _ = first.include(Tokens::new(1), &one).unwrap();
    let _ = second.include(Tokens::new(1), &two).unwrap();
    drop((first, second));
    // I3: step 2 says nothing of step 1, and a page that only step 2 named waits for both.
    assert_eq!(pool.settle(&two.finish()), Ok(Pages::ZERO));
    assert_eq!(quarantined(&mut pool), 2);
    assert_eq!(pool.settle(&one.finish()), Ok(Pages::new(2)));
    assert_eq!(quarantined(&mut pool), 0);
}

#[test]
fn a_page_that_only_an_older_step_named_need_not_wait_for_a_newer_one() {
    let mut pool = pool(1, 1);
    let scope = scope(1);
    let mut lease = pool.lease(&scope, Pages::new(1)).unwrap();
    let one = pool.open_step().unwrap();
    let _ = lease.include(Tokens::new(1), &one).unwrap();
    let _two = pool.open_step().unwrap();
    drop(lease);
    assert_eq!(pool.settle(&one.finish()), Ok(Pages::new(1)));
}

#[test]
fn a_step_that_never_ends_keeps_its_pages_for_good() {
    let mut pool = pool(1, 1);
    let scope = scope(1);
    let mut lease = pool.lease(&scope, Pages::new(1)).unwrap();
    let lost = pool.open_step().unwrap();
    let _ = lease.include(Tokens::new(1), &lost).unwrap();
    drop((lost, lease));
    for _ in 0..3 {
        let step = pool.open_step().unwrap();
        pool.settle(&step.finish()).unwrap();
        assert_eq!(quarantined(&mut pool), 1, "I3: there is no proof");
    }
}

#[test]
fn steps_in_flight_are_bounded() {
    let mut pool = pool(1, 1);
    let mut steps: Vec<OpenStep> = (0..STEPS_OPEN_MAX).map(|_| pool.open_step().unwrap()).collect();
    assert_eq!(pool.open_step().unwrap_err(), StepsExhausted { open: STEPS_OPEN_MAX });
    pool.settle(&steps.swap_remove(5).finish()).unwrap();
    let next = pool.open_step().unwrap();
    // I4
    assert_eq!(next.id().get(), STEPS_OPEN_MAX as u64 + 1, "a number that was used is not used again");
}

#[test]
fn a_receipt_of_another_pool_moves_nothing() {
    let (mut pool, mut other) = (pool(1, 1), pool(1, 2));
    let scope = scope(1);
    let mut lease = pool.lease(&scope, Pages::new(1)).unwrap();
    let step = pool.open_step().unwrap();
    let _ = lease.include(Tokens::new(1), &step).unwrap();
    drop(lease);
    let foreign = other.open_step().unwrap().finish();
    // I4
    let refused = ForeignReceipt { pool: Epoch::new(1), receipt: Epoch::new(2), step: foreign.step() };
    assert_eq!(pool.settle(&foreign), Err(refused));
    assert_eq!(quarantined(&mut pool), 1);
    let mut namesake = crate::testing::pool(0, 1);
    let _ = namesake.open_step().unwrap();
    assert!(pool.settle(&namesake.open_step().unwrap().finish()).is_err(), "no step of ours has this number");
    assert_eq!(pool.settle(&step.fail()), Ok(Pages::new(1)), "a failed step is over as well");
}

/// Memory with one page that cannot be wiped.
struct Stubborn(usize);

impl Erase for Stubborn {
    type Error = PageId;

    fn erase(&mut self, page: PageId) -> Result<(), PageId> {
        if page.index() == self.0 { Err(page) } else { Ok(()) }
    }

    fn is_blank(&mut self, _: PageId) -> Result<bool, PageId> {
        Ok(true)
    }
}

#[test]
fn a_page_that_cannot_be_wiped_stays_dirty_and_lets_others_pass() {
    let mut pool = Pool::new(Pages::new(3), SIZE, Epoch::new(1));
    let mut memory = Stubborn(0);
    let all = Pages::new(3);
    assert_eq!(pool.scrub(all, Verify::ReadBack, &mut memory).map_err(PageId::index), Err(0));
    assert_eq!(pool.scrub(all, Verify::ReadBack, &mut memory).map_err(PageId::index), Err(0));
    let census = pool.census();
    // I2, I10
    assert_eq!((census.clean, census.dirty, census.adds_up()), (Pages::new(2), Pages::new(1), true));
}

#[test]
fn what_is_not_clean_is_not_granted() {
    let mut pool = pool(3, 1);
    drop(pool.lease(&scope(1), Pages::new(2)).unwrap());
    let refused = NotGranted::Exhausted { wanted: Pages::new(2), clean: Pages::new(1) };
    assert_eq!(pool.lease(&scope(1), Pages::new(2)).unwrap_err(), refused);
    assert!(pool.lease(&scope(1), Pages::new(1)).is_ok());
}

/// Memory that keeps what it held.
struct Stained;

impl Erase for Stained {
    type Error = core::convert::Infallible;

    fn erase(&mut self, _: PageId) -> Result<(), Self::Error> {
        Ok(())
    }

    fn is_blank(&mut self, _: PageId) -> Result<bool, Self::Error> {
        Ok(false)
    }
}

#[test]
fn a_page_that_stays_stained_is_withdrawn_and_says_whose_it_was() {
    let mut pool = pool(2, 1);
    let lease = pool.lease(&scope(7), Pages::new(1)).unwrap();
    let (page, generation) = (lease.pages().next().unwrap(), lease.generations().next().unwrap());
    drop(lease);
    let done = pool.scrub(Pages::new(2), Verify::ReadBack, &mut Stained).unwrap();
    assert_eq!(done, Scrubbed { pages: Pages::ZERO, withdrawn: Pages::new(1) });
    // I2
    assert_eq!(pool.take_unfit(), [Lineage { page, generation, last: Some(TenantTag::new(7)) }]);
    assert_eq!(pool.take_unfit(), []);
    assert_eq!((pool.capacity(), pool.census().adds_up()), (Pages::new(1), true));
    let mut fresh = Pool::new(Pages::new(1), SIZE, Epoch::new(1));
    fresh.scrub(Pages::new(1), Verify::ReadBack, &mut Stained).unwrap();
    let never = fresh.take_unfit();
    assert_eq!((never.len(), never[0].last, never[0].generation.get()), (1, None, 0));
}

#[test]
fn a_shrunk_pool_takes_what_nobody_holds_and_stays_shrunk() {
    let mut pool = pool(4, 1);
    let scope = scope(1);
    let lease = pool.lease(&scope, Pages::new(2)).unwrap();
    pool.shrink(Pages::new(3));
    assert_eq!((pool.capacity(), pool.owed()), (Pages::new(1), Pages::new(1)), "two are leased");
    assert_eq!(pool.census().withdrawn, Pages::new(2));
    drop(lease);
    assert_eq!((pool.census().withdrawn, pool.owed()), (Pages::new(3), Pages::ZERO));
    pool.scrub(Pages::new(4), Verify::ReadBack, &mut Blank).unwrap();
    let refused = NotGranted::NoRoom { wanted: Pages::new(2), room: Pages::new(1) };
    assert_eq!(pool.lease(&scope, Pages::new(2)).unwrap_err(), refused);
    pool.shrink(Pages::new(u32::MAX));
    assert_eq!((pool.capacity(), pool.census().withdrawn), (Pages::ZERO, Pages::new(4)));
    assert!(pool.census().adds_up());
}

#[test]
fn the_census_follows_a_page_through_all_its_states() {
    let mut pool = Pool::new(Pages::new(2), SIZE, Epoch::new(1));
    let scope = scope(1);
    let states = |pool: &mut Pool| {
        let census = pool.census();
        assert!(census.adds_up());
        [census.dirty, census.clean, census.leased, census.shared, census.quarantined].map(Pages::get)
    };
    // I10
    assert_eq!(states(&mut pool), [2, 0, 0, 0, 0]);
    pool.scrub(Pages::new(2), Verify::ReadBack, &mut Blank).unwrap();
    assert_eq!(states(&mut pool), [0, 2, 0, 0, 0]);
    let mut lease = pool.lease(&scope, Pages::new(2)).unwrap();
    assert_eq!(states(&mut pool), [0, 0, 2, 0, 0]);
    fill(&mut pool, &mut lease, 5);
    let run = lease.seal(&[7; 5]).unwrap().unwrap();
    assert_eq!(states(&mut pool), [0, 0, 1, 1, 0]);
    let step = pool.open_step().unwrap();
    let _ = lease.include(Tokens::new(1), &step).unwrap();
    drop((lease, run));
    assert_eq!(states(&mut pool), [0, 0, 0, 0, 2]);
    pool.settle(&step.finish()).unwrap();
    assert_eq!(states(&mut pool), [2, 0, 0, 0, 0]);
}
