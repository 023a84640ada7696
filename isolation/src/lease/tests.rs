use super::*;
use crate::{
    pool::Pool,
    testing::{fill, pool, scope},
};

fn leased(pool: &mut Pool, tag: u64, pages: u32) -> Lease {
    pool.lease(&scope(tag), Pages::new(pages)).unwrap()
}

#[test]
fn an_access_reaches_to_its_bound_and_no_further() {
    let mut pool = pool(3, 1);
    let mut lease = leased(&mut pool, 1, 3);
    fill(&mut pool, &mut lease, 3);
    let step = pool.open_step().unwrap();
    let (_write, access) = lease.include(Tokens::new(2), &step).unwrap();
    let facts = (access.start().get(), access.len().get(), access.bound().get());
    assert_eq!(facts, (3, 2, 5));
    // I6: the third page is leased, and not told of.
    assert_eq!(access.pages(), lease.pages().take(2).collect::<Vec<_>>());
    assert_eq!((access.page(1), access.page(2)), (lease.pages().nth(1), None));
    assert_eq!(access.generation(1), lease.generations().nth(1));
    assert_eq!(access.generations(), lease.generations().take(2).collect::<Vec<_>>());
    assert_eq!((access.tag(), access.epoch(), access.step()), (lease.tag(), step.epoch(), step.id()));
}

/// FNV-1a, as its authors give it.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn a_digest_is_of_the_pages_up_to_the_mark() {
    assert_eq!(fnv(b"a".iter().copied()), 0xaf63_dc4c_8601_ec8c, "the published value");
    let mut pool = pool(3, 1);
    let mut lease = leased(&mut pool, 1, 3);
    assert_eq!(lease.generation_digest(), fnv([].into_iter()));
    fill(&mut pool, &mut lease, 5);
    let pages: Vec<_> = lease.table().take(2).collect();
    let bytes = pages.iter().flat_map(|page| {
        let number = u32::try_from(page.id.index()).unwrap();
        let (id, generation) = (number.to_le_bytes(), page.generation.get().to_le_bytes());
        id.into_iter().chain(generation)
    });
    assert_eq!(lease.generation_digest(), fnv(bytes));
}

#[test]
fn a_write_that_does_not_fit_is_refused_with_its_numbers() {
    let mut pool = pool(1, 1);
    let mut lease = leased(&mut pool, 1, 1);
    fill(&mut pool, &mut lease, 3);
    let step = pool.open_step().unwrap();
    let full =
        |len| LeaseError::Full { filled: Tokens::new(3), len: Tokens::new(len), capacity: Tokens::new(4) };
    for len in [2, u32::MAX] {
        assert_eq!(lease.include(Tokens::new(len), &step).unwrap_err(), full(len));
    }
    assert_eq!(lease.include(Tokens::ZERO, &step).unwrap_err(), LeaseError::EmptyWrite);
    assert!(lease.include(Tokens::new(1), &step).is_ok(), "a refusal changes nothing");
}

#[test]
fn a_write_stays_unread_without_the_receipt_of_its_own_step() {
    let mut pool = pool(4, 1);
    let attempt = |pool: &mut Pool, end: &dyn Fn(OpenStep, &mut Pool) -> StepReceipt| {
        let mut lease = leased(pool, 1, 1);
        let step = pool.open_step().unwrap();
        let (write, _) = lease.include(Tokens::new(1), &step).unwrap();
        let id = step.id();
        let receipt = end(step, pool);
        let refused = lease.commit(write, &receipt).unwrap_err();
        let again = pool.open_step().unwrap();
        // I5: nothing is read, and nothing more is written.
        assert_eq!(lease.filled(), Tokens::ZERO);
        assert_eq!(
            lease.include(Tokens::new(1), &again).unwrap_err(),
            LeaseError::WriteOutstanding { step: id }
        );
        (id, receipt.step(), refused)
    };
    let (wrote, _, refused) = attempt(&mut pool, &|step, _| step.fail());
    assert_eq!(refused, LeaseError::StepFailed { step: wrote });
    let (wrote, proved, refused) = attempt(&mut pool, &|_, pool| pool.open_step().unwrap().finish());
    assert_eq!(refused, LeaseError::OtherStep { wrote, proved });
    let other = |_: OpenStep, _: &mut Pool| crate::testing::pool(0, 2).open_step().unwrap().finish();
    let (_, _, refused) = attempt(&mut pool, &other);
    // I4
    assert_eq!(refused, LeaseError::OtherEpoch { lease: Epoch::new(1), step: Epoch::new(2) });
}

#[test]
fn a_write_of_another_sequence_is_refused() {
    let mut pool = pool(2, 1);
    let (mut mine, mut other) = (leased(&mut pool, 1, 1), leased(&mut pool, 1, 1));
    let step = pool.open_step().unwrap();
    let (write, _) = mine.include(Tokens::new(1), &step).unwrap();
    let (others, _) = other.include(Tokens::new(1), &step).unwrap();
    let id = step.id();
    let receipt = step.finish();
    // I5: the same step, place and length, in another page.
    assert_eq!(mine.commit(others, &receipt), Err(LeaseError::OtherWrite { step: id }));
    assert_eq!(mine.commit(write, &receipt), Ok(()));
}

#[test]
fn a_step_of_another_life_is_refused() {
    let (mut before, mut now) = (pool(0, 1), pool(1, 2));
    let mut lease = leased(&mut now, 1, 1);
    let stale = before.open_step().unwrap();
    // I4
    let refused = LeaseError::OtherEpoch { lease: Epoch::new(2), step: Epoch::new(1) };
    assert_eq!(lease.include(Tokens::new(1), &stale).unwrap_err(), refused);
}

#[test]
fn a_prefix_is_adopted_by_an_unused_lease_of_its_tenant_and_pool() {
    let mut pool = pool(8, 1);
    let mut writer = leased(&mut pool, 1, 2);
    fill(&mut pool, &mut writer, 6);
    let run = writer.seal(&[5; 6]).unwrap().unwrap();
    assert_eq!((run.len(), run.tokens()), (Pages::new(1), Tokens::new(4)), "only the full page");

    // I7
    let mut stranger = leased(&mut pool, 2, 1);
    let refused = LeaseError::OtherTenant { lease: TenantTag::new(2), run: TenantTag::new(1) };
    assert_eq!(stranger.adopt(run.clone()), Err(refused));
    let mut elsewhere = crate::testing::pool(1, 1);
    assert_eq!(leased(&mut elsewhere, 1, 1).adopt(run.clone()), Err(LeaseError::OtherPool));
    let in_use = LeaseError::InUse { filled: Tokens::new(6) };
    assert_eq!(writer.adopt(run.clone()), Err(in_use));

    let mut writing = leased(&mut pool, 1, 1);
    let step = pool.open_step().unwrap();
    let _ = writing.include(Tokens::new(1), &step).unwrap();
    assert_eq!(writing.adopt(run.clone()), Err(LeaseError::InUse { filled: Tokens::ZERO }));

    let mut reader = leased(&mut pool, 1, 1);
    reader.adopt(run.clone()).unwrap();
    assert_eq!((reader.filled(), reader.capacity()), (Tokens::new(4), Tokens::new(8)));
    assert_eq!(reader.pages().next(), writer.pages().next());
    assert_eq!(reader.adopt(run), Err(LeaseError::InUse { filled: Tokens::new(4) }), "at most once");
}

#[test]
fn sealing_goes_on_where_it_left_off() {
    let mut pool = pool(4, 1);
    let mut first = leased(&mut pool, 1, 1);
    fill(&mut pool, &mut first, 4);
    let mut lease = leased(&mut pool, 1, 2);
    lease.adopt(first.seal(&[1, 2, 3, 4]).unwrap().unwrap()).unwrap();
    fill(&mut pool, &mut lease, 3);
    let ids = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let sealed = lease.seal(&ids[..7]).unwrap();
    assert_eq!(sealed.map(|run| run.len()), Some(Pages::new(1)), "the second page is not full");
    fill(&mut pool, &mut lease, 2);
    let table: Vec<_> = lease.pages().collect();
    // I7: a page is what it was filled with, all of it.
    let refused = |ids: usize| LeaseError::OtherTokens { filled: Tokens::new(9), ids };
    assert_eq!(
        lease.seal(&ids[..7]).unwrap_err(),
        refused(7),
        "the second page is full, and has four tokens"
    );
    assert_eq!(
        lease.seal(&[9, 2, 3, 4, 5, 6, 7, 8]).unwrap_err(),
        refused(8),
        "the first page was sealed as another"
    );
    let run = lease.seal(&ids).unwrap().unwrap();
    assert_eq!(run.ids().collect::<Vec<_>>(), ids[..8]);
    assert_eq!((run.len(), lease.shared_pages()), (Pages::new(2), Pages::new(2)));
    assert_eq!(lease.pages().collect::<Vec<_>>(), table, "sealing moves no page");
    drop((first, lease));
    assert_eq!(pool.census().shared, Pages::new(2), "the run holds them alone");
    drop(run);
    assert_eq!(pool.census().shared, Pages::ZERO);
}

#[test]
fn the_digest_tells_lives_of_a_page_apart() {
    let mut pool = pool(1, 1);
    let mut digest = || {
        let mut lease = leased(&mut pool, 1, 1);
        assert_eq!(lease.generation_digest(), FNV_BASIS, "nothing is filled");
        fill(&mut pool, &mut lease, 1);
        let digest = lease.generation_digest();
        drop(lease);
        pool.scrub(Pages::new(1), crate::page::Verify::ReadBack, &mut crate::testing::Blank).unwrap();
        digest
    };
    // I4
    assert_ne!(digest(), digest());
}

#[test]
fn a_lease_that_unwinds_gives_its_pages_back() {
    let mut pool = pool(3, 1);
    let lease = leased(&mut pool, 1, 3);
    let unwound = std::panic::catch_unwind(core::panic::AssertUnwindSafe(move || {
        let _held = lease;
        panic!("on purpose");
    }));
    assert!(unwound.is_err());
    let census = pool.census();
    // I10
    assert_eq!((census.leased, census.dirty, census.adds_up()), (Pages::ZERO, Pages::new(3), true));
}
