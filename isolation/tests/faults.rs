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

use isolation::fault::{Fault, with};
use world::{Prompt, Scale, search::explore};

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

const FLIGHTS: Scale =
    Scale { pages: 3, seats: &[0, 1], prompts: Prompt::ALL, flights: 2, chunks: &[1, 2], losses: 0 };
const LOSSES: Scale =
    Scale { pages: 3, seats: &[0, 1], prompts: Prompt::ALL, flights: 2, chunks: &[2], losses: 1 };
const BOTH: Scale =
    Scale { pages: 4, seats: &[0, 1], prompts: &[Prompt::Short], flights: 1, chunks: &[2], losses: 0 };

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
    evict_in_use: EvictInUse in FLIGHTS;
    admit_off_by_one: AdmitOffByOne in FLIGHTS;
}
