//! What the core says of itself: each refusal with its numbers, and no secret and no page in a `Debug`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops at the first surprise")]

use isolation::{
    admit::{CapacityMismatch, Limits},
    evidence::{Evidence, Expectation, IntegrityError},
    keyed::Secrets,
    lease::LeaseError,
    outcome::Failure,
    pool::{Census, ForeignReceipt, NotGranted, StepsExhausted},
    prefix::PrefixError,
    quota::QuotaError,
    tag::{Registry, TenantTag},
    units::{Epoch, PageSize, Pages, StepId, Tokens},
};
use std::num::NonZeroU32;

const SIZE: PageSize = PageSize::new(NonZeroU32::new(2).unwrap());

#[test]
fn a_refused_prompt_says_what_was_asked_and_what_is_allowed() {
    let limits = Limits::derive(Tokens::new(4), Pages::new(2), SIZE).unwrap();
    let scope = Registry::new().open(TenantTag::new(1));
    // Three tokens and two more: it is the whole prompt that counts, not that there is one.
    let refused = limits.admit(&scope, vec![7, 8, 9], Tokens::new(2)).map(|_| ()).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains('5') && said.contains('4'), "{said}");
    let mismatch = CapacityMismatch { advertised: Tokens::new(9), holds: Tokens::new(8) }.to_string();
    assert!(mismatch.contains('9') && mismatch.contains('8'), "{mismatch}");
}

#[test]
fn evidence_proves_its_own_request_and_a_wrong_one_is_said() {
    let (tag, epoch) = (TenantTag::new(3), Epoch::new(5));
    let expectation = || Expectation::new([9; 16], tag, epoch, [2; 32], Tokens::new(6));
    let evidence = |written| Evidence {
        request: [9; 16],
        tag,
        epoch,
        prompt_digest: [2; 32],
        written: Tokens::new(written),
        attended: Tokens::new(6),
        cached: Tokens::new(0),
        pages: Pages::new(3),
        generations: 0,
    };
    let (first, _) = expectation().judge(&evidence(6)).unwrap();
    assert_eq!(first.request(), [9; 16]);
    let error: IntegrityError = expectation().judge(&evidence(4)).map(|_| ()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains('4') && said.contains('6'), "{said}");
}

#[test]
fn a_lease_says_why_it_refused() {
    let full = LeaseError::Full { filled: Tokens::new(3), len: Tokens::new(21), capacity: Tokens::new(17) };
    assert!(["3", "21", "17"].iter().all(|number| full.to_string().contains(number)), "{full}");
    let other = LeaseError::OtherStep { wrote: StepId::new(5), proved: StepId::new(6) }.to_string();
    assert!(other.contains('5') && other.contains('6'), "{other}");
}

#[test]
fn a_pool_says_why_it_refused() {
    let short = NotGranted::Exhausted { wanted: Pages::new(8), clean: Pages::new(3) }.to_string();
    assert!(short.contains('8') && short.contains('3'), "{short}");
    let full = NotGranted::NoRoom { wanted: Pages::new(7), room: Pages::new(2) }.to_string();
    assert!(full.contains('7') && full.contains('2'), "{full}");
    let steps = StepsExhausted { open: 65 }.to_string();
    assert!(steps.contains("65"), "{steps}");
    let foreign = ForeignReceipt { pool: Epoch::new(4), receipt: Epoch::new(5), step: StepId::new(6) };
    assert!(["4", "5", "6"].iter().all(|number| foreign.to_string().contains(number)), "{foreign}");
}

#[test]
fn a_quota_says_why_it_was_refused() {
    let above = QuotaError::FloorAboveCap { floor: Pages::new(9), cap: Pages::new(4) }.to_string();
    assert!(above.contains('9') && above.contains('4'), "{above}");
    let floors = QuotaError::FloorsAboveCapacity { floors: 80, capacity: Pages::new(64) }.to_string();
    assert!(floors.contains("80") && floors.contains("64"), "{floors}");
    let many = QuotaError::TooMany { quotas: 70_000 }.to_string();
    assert!(many.contains("70000") && many.contains("65536"), "{many}");
    assert_eq!(TenantTag::new(42).to_string(), "42");
}

#[test]
fn a_failure_says_what_failed() {
    assert!(Failure::Deadline { limit_ms: 1_250 }.to_string().contains("1250"));
    let closed = IntegrityError::Closed { sequence: 31 };
    assert_eq!(Failure::Integrity(closed).to_string(), closed.to_string());
    let kinds = [Failure::Device, Failure::NotANumber, Failure::Isolation, Failure::EngineLost];
    let said: std::collections::BTreeSet<String> = kinds.iter().map(ToString::to_string).collect();
    assert!(said.len() == kinds.len() && !said.contains(""), "each in its own words: {said:?}");
}

#[test]
fn a_tree_says_why_it_refused() {
    let other = PrefixError::OtherTenant { tree: TenantTag::new(11), run: TenantTag::new(12) }.to_string();
    assert!(other.contains("11") && other.contains("12"), "{other}");
    let sizes = PrefixError::OtherPageSize { tree: SIZE, run: PageSize::new(NonZeroU32::new(16).unwrap()) };
    assert!(sizes.to_string().contains("16") && sizes.to_string().contains('2'), "{sizes}");
}

/// A page too many or too few, in whichever state it is missed.
#[test]
fn a_census_adds_up_or_does_not() {
    let one = Pages::new(1);
    let sound = Census {
        clean: one,
        dirty: one,
        quarantined: one,
        leased: one,
        shared: one,
        withdrawn: one,
        total: Pages::new(6),
    };
    assert!(sound.adds_up());
    for count in [Pages::ZERO, Pages::new(2), Pages::new(u32::MAX)] {
        let wrong = [
            Census { clean: count, ..sound },
            Census { dirty: count, ..sound },
            Census { quarantined: count, ..sound },
            Census { leased: count, ..sound },
            Census { shared: count, ..sound },
            Census { withdrawn: count, ..sound },
            Census { total: count, ..sound },
        ];
        assert!(wrong.iter().all(|census| !census.adds_up()), "{count}");
    }
}

#[test]
fn no_debug_shows_a_secret() {
    let shown = format!("{:?}", Secrets::new([0xab; 16]));
    assert!(shown.contains("Secrets"), "{shown}");
    assert!(!shown.contains("171") && !shown.to_lowercase().contains("ab"), "{shown}");
}
