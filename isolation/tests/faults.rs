//! Each guard matters: without it, the exploration finds a broken state. Needs the feature `seeded-faults`.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    reason = "a test that breaks may panic, and each test uses a part of the world"
)]

mod world;

use isolation::{
    fault::{Fault, with},
    lease::LeaseError,
    page::Verify,
    pool::Pool,
    tag::{Registry, TenantTag},
    units::{Epoch, PageSize, Pages, Tokens},
};
use std::num::NonZeroU32;
use world::{Prompt, Scale, memory::Memory, search::explore};

fn is_found(fault: Fault, scale: Scale) {
    match with(fault, || explore(scale)) {
        Err(found) => println!("{fault:?}: {found:?}"),
        Ok(seen) => panic!("{fault:?} was not found in {seen:?}"),
    }
}

macro_rules! found {
    ($($test:ident: $fault:ident in $scale:expr;)*) => {
        $(
            #[test]
            fn $test() {
                is_found(Fault::$fault, $scale);
            }
        )*

        #[test]
        fn each_fault_is_sought() {
            let sought = [$(Fault::$fault),*];
            assert_eq!(sought, Fault::ALL);
        }
    };
}

const FLIGHTS: Scale = Scale {
    pages: 3,
    seats: &[0, 1],
    prompts: Prompt::ALL,
    flights: 2,
    chunks: &[1, 2],
    losses: 0,
    quotas: &[],
};
const LOSSES: Scale = Scale {
    pages: 3,
    seats: &[0, 1],
    prompts: Prompt::ALL,
    flights: 2,
    chunks: &[2],
    losses: 1,
    quotas: &[],
};
const BOTH: Scale = Scale {
    pages: 4,
    seats: &[0, 1],
    prompts: &[Prompt::Short],
    flights: 1,
    chunks: &[2],
    losses: 0,
    quotas: &[],
};

const FLOOR: Scale = Scale { seats: &[0, 0, 1], quotas: &[(0, 4), (1, 4)], ..BOTH };
const CAP: Scale = Scale { seats: &[0, 0, 1], quotas: &[(0, 3), (0, 4)], ..BOTH };

found! {
    no_scrub: NoScrub in FLIGHTS;
    no_verify: NoVerify in LOSSES;
    no_fence: NoFence in FLIGHTS;
    no_shared_fence: NoSharedFence in FLIGHTS;
    no_filled_mark: NoFilledMark in FLIGHTS;
    stale_commit: StaleCommit in FLIGHTS;
    failed_commit: FailedCommit in FLIGHTS;
    foreign_commit: ForeignCommit in BOTH;
    write_twice: WriteTwice in FLIGHTS;
    write_beyond: WriteBeyond in FLIGHTS;
    cross_tenant_adopt: CrossTenantAdopt in FLIGHTS;
    lost_page: LostPage in FLIGHTS;
    double_grant: DoubleGrant in FLIGHTS;
    generation_not_bumped: GenerationNotBumped in FLIGHTS;
    prefix_no_token_compare: PrefixNoTokenCompare in FLIGHTS;
    prefix_whole_prompt: PrefixWholePrompt in FLIGHTS;
    adopt_unfilled: AdoptUnfilled in FLIGHTS;
    evict_in_use: EvictInUse in FLIGHTS;
    admit_off_by_one: AdmitOffByOne in FLIGHTS;
    floor_ignored: FloorIgnored in FLOOR;
    cap_ignored: CapIgnored in CAP;
    floor_reclaimed: FloorReclaimed in FLOOR;
    no_lineage: NoLineage in LOSSES;
}

/// Behind the guard that refuses another tenant's prefix stands one that keeps its page numbers in.
#[test]
fn another_tenants_pages_do_not_leave_even_when_adopted() {
    let size = PageSize::new(NonZeroU32::new(1).unwrap());
    let mut pool = Pool::new(Pages::new(3), size, Epoch::new(1));
    let mut registry = Registry::new();
    let (mine, other) = (registry.open(TenantTag::new(1)), registry.open(TenantTag::new(2)));
    pool.scrub(Pages::new(3), Verify::ReadBack, &mut Memory::new(3)).unwrap();
    let mut theirs = pool.lease(&other, Pages::new(1)).unwrap();
    let step = pool.open_step().unwrap();
    let (write, _) = theirs.include(Tokens::new(1), &step).unwrap();
    theirs.commit(write, &step.finish()).unwrap();
    let mut lease = pool.lease(&mine, Pages::new(1)).unwrap();
    with(Fault::CrossTenantAdopt, || lease.adopt(theirs.seal(&[5]).unwrap().unwrap())).unwrap();
    let step = pool.open_step().unwrap();
    let refused = LeaseError::OtherTenant { lease: TenantTag::new(1), run: TenantTag::new(2) };
    assert_eq!(lease.include(Tokens::new(1), &step).unwrap_err(), refused); // I1, I7
}
