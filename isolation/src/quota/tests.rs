use super::*;
use crate::testing::{fill, pool, scope};

const A: TenantTag = TenantTag::new(1);
const B: TenantTag = TenantTag::new(2);
const C: TenantTag = TenantTag::new(3);

fn quota(floor: u32, cap: u32, weight: u32) -> Quota {
    Quota::new(Pages::new(floor), Pages::new(cap), NonZeroU32::new(weight).unwrap()).unwrap()
}

fn quotas(capacity: u32, own: &[(TenantTag, Quota)]) -> Quotas {
    let mut quotas = Quotas::new(Pages::new(capacity));
    for (tag, quota) in own {
        quotas.set(*tag, *quota).unwrap();
    }
    quotas
}

fn held(pages: &[(TenantTag, u32)]) -> Held {
    pages.iter().copied().filter(|(_, pages)| *pages > 0).collect()
}

#[test]
fn a_floor_is_kept_free_until_it_is_used() {
    let quotas = quotas(10, &[(A, quota(4, 8, 1))]);
    // I13
    let room = |a, b, tag| quotas.room(&held(&[(A, a), (B, b)]), tag).get();
    assert_eq!((room(0, 0, B), room(0, 0, A)), (6, 8));
    assert_eq!((room(0, 6, B), room(0, 6, A)), (0, 4), "B has all that is not reserved");
    assert_eq!((room(4, 0, B), room(4, 6, A)), (6, 0));
    assert_eq!((room(7, 0, B), room(7, 0, A)), (3, 1), "A has borrowed three, and has one to its cap");
    assert_eq!((room(9, 0, A), room(12, 0, B)), (0, 0), "who is above is granted nothing");
    assert_eq!((quotas.reach(A), quotas.reach(B)), (Pages::new(8), Pages::new(6)));
}

#[test]
fn nothing_is_spared_from_within_a_floor() {
    let quotas = quotas(10, &[(A, quota(4, 8, 1))]);
    let spare = |pages| quotas.spare(&held(&[(A, pages)]), A).get();
    // I13
    assert_eq!([0, 3, 4, 5, 8].map(spare), [0, 0, 0, 1, 4]);
    assert_eq!(quotas.spare(&held(&[(B, 5)]), B).get(), 5, "without a floor all of it");
}

#[test]
fn the_burst_is_shared_by_weight_among_those_who_want_some() {
    let quotas = quotas(20, &[(A, quota(2, 20, 3)), (B, quota(4, 9, 2))]);
    let entitled = |tag, contenders: &[TenantTag]| quotas.entitled(tag, contenders.iter().copied()).get();
    assert_eq!(entitled(A, &[]), 2 + 14, "alone");
    assert_eq!(entitled(A, &[A, B]), 2 + 14 * 3 / 5);
    assert_eq!(entitled(B, &[A, B]), 4 + 14 * 2 / 5);
    assert_eq!(entitled(C, &[A, B, C]), 14 / 6);
    assert_eq!(entitled(B, &[]), 9, "its cap");
}

#[test]
fn quotas_that_cannot_be_kept_are_refused_with_their_numbers() {
    let above = Quota::new(Pages::new(5), Pages::new(4), NonZeroU32::MIN);
    assert_eq!(above, Err(QuotaError::FloorAboveCap { floor: Pages::new(5), cap: Pages::new(4) }));
    let mut quotas = quotas(10, &[(A, quota(6, 10, 1))]);
    // I13
    let refused = QuotaError::FloorsAboveCapacity { floors: 11, capacity: Pages::new(10) };
    assert_eq!(quotas.set(B, quota(5, 10, 1)), Err(refused));
    assert_eq!(quotas.of(B), Quota::standard(), "what was in force stays");
    assert_eq!(quotas.set(A, quota(10, 10, 1)), Ok(()), "its own old floor does not count");
    assert_eq!(quotas.set(A, Quota::standard()), Ok(()));
    assert_eq!(quotas.set(B, quota(10, 10, 1)), Ok(()), "what was given back is free again");
}

#[test]
fn quotas_are_bounded() {
    let mut quotas = Quotas::new(Pages::new(1));
    for tag in 0..QUOTAS_MAX {
        quotas.set(TenantTag::new(tag as u64), quota(0, 1, 1)).unwrap();
    }
    let beyond = TenantTag::new(QUOTAS_MAX as u64);
    assert_eq!(quotas.set(beyond, quota(0, 1, 1)), Err(QuotaError::TooMany { quotas: QUOTAS_MAX }));
    assert_eq!(quotas.set(TenantTag::new(0), quota(1, 1, 1)), Ok(()), "one that is there may change");
}

#[test]
fn a_smaller_pool_scales_its_floors() {
    let mut quotas = quotas(10, &[(A, quota(6, 10, 1)), (B, quota(4, 10, 1))]);
    quotas.narrow(Pages::new(5));
    // I13
    assert_eq!((quotas.floor(A), quotas.floor(B)), (Pages::new(3), Pages::new(2)));
    assert_eq!((quotas.reach(A), quotas.reach(C)), (Pages::new(3), Pages::ZERO));
    quotas.narrow(Pages::ZERO);
    assert_eq!((quotas.floor(A), quotas.reach(A)), (Pages::ZERO, Pages::ZERO));
}

/// Whatever is granted and given back: floors can be had at once, caps hold, and room says exactly what is granted.
#[test]
fn any_order_of_grants_keeps_the_floors() {
    let quotas = [(A, quota(3, 6, 1)), (B, quota(2, 9, 1))];
    let mut state = 0x5eed_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut refused, mut granted) = (0, 0);
    let mut pool = pool(10, 1);
    pool.set_quotas(quotas).unwrap();
    let mut leases = alloc::vec::Vec::new();
    for _ in 0..4000 {
        let tag = [A, B, C][random(3) as usize];
        let wanted = Pages::new(random(5) as u32);
        let room = pool.room(tag);
        match pool.lease(&scope(tag.get()), wanted) {
            Ok(lease) => {
                assert!(wanted <= room, "{wanted} granted, room for {room}");
                granted += 1;
                leases.push(lease);
            }
            Err(_) => {
                assert!(wanted > room, "all that is free is clean, {wanted} refused, room for {room}");
                refused += 1;
            }
        }
        // I13
        let of = |tag| pool.held(tag).get();
        let sum: u32 = leases.iter().map(|lease| lease.pages().count() as u32).sum();
        assert_eq!(of(A) + of(B) + of(C), sum, "the ledger follows");
        assert!(of(A) <= 6 && of(B) <= 9, "caps");
        assert!(of(A).max(3) + of(B).max(2) + of(C) <= 10, "floors: {} {} {}", of(A), of(B), of(C));
        while random(3) == 0 && !leases.is_empty() {
            let _given_back = leases.swap_remove(random(leases.len() as u64) as usize);
        }
        pool.scrub(Pages::new(10), crate::page::Verify::ReadBack, &mut crate::testing::Blank).unwrap();
    }
    assert!(refused > 500 && granted > 500, "{refused} refused, {granted} granted");
}

#[test]
fn sealed_pages_count_for_their_tenant_until_the_last_reader_goes() {
    let mut pool = pool(4, 1);
    let mut lease = pool.lease(&scope(1), Pages::new(2)).unwrap();
    fill(&mut pool, &mut lease, 5);
    let run = lease.seal(&[7; 5]).unwrap().unwrap();
    assert_eq!((pool.held(A), pool.holders()), (Pages::new(2), [A].into()));
    drop(lease);
    assert_eq!(pool.held(A), Pages::new(1));
    drop(run);
    assert_eq!((pool.held(A), pool.holders()), (Pages::ZERO, [].into()));
    let nothing = pool.lease(&scope(1), Pages::ZERO).unwrap();
    assert_eq!((nothing.pages().count(), pool.holders()), (0, [].into()), "who holds nothing is no holder");
}
