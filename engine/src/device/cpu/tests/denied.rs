//! P3 where the bytes are read: when a guard of the trusted core is lost, the page itself refuses.

use super::*;
use isolation::{
    fault::{Fault, with},
    page::Erase,
};
use kernels::Denied;

impl Rig {
    /// One step of one sequence; what the device says of it, committed if the lease lets it.
    fn try_step(&mut self, lease: &mut Lease, tokens: &[u32], fails: bool) -> Result<(), DeviceFault> {
        let step = self.pages.open_step().unwrap();
        let (write, access) = lease.include(Tokens::new(tokens.len() as u32), &step).unwrap();
        // A token outside the vocabulary breaks the step before a byte is written.
        let broken = vec![VOCAB as u32; tokens.len()];
        let tokens = if fails { &broken } else { tokens };
        let chunk = Chunk { tokens, access: &access, want: Want::LastLogits };
        let mut logits = vec![];
        let (receipt, result) = self.device.run(step, &[chunk], &mut logits);
        assert_eq!(logits.is_empty(), result.is_err(), "a refused step gives no number");
        if let Err(refused) = lease.commit(write, &receipt) {
            assert!(result.is_err(), "{refused}");
        }
        self.pages.settle(&receipt).unwrap();
        result
    }
}

fn rig() -> Rig {
    Rig::new(&tiny(), 2, Cpu::best().isa())
}

/// The page of a tenant, given to another without a wipe.
#[test]
fn a_page_that_was_not_wiped_takes_no_other_tenants_bytes() {
    let mut rig = rig();
    let (mine, other) = (rig.scope(1), rig.scope(2));
    let all = rig.device.facts().pages;
    let theirs: Vec<Lease> = (0..4)
        .map(|seed| {
            let mut lease = rig.lease(&other, 256);
            rig.step(&mut [(&mut lease, &tokens(256, seed))]);
            lease
        })
        .collect();
    drop(theirs);
    with(Fault::NoScrub, || rig.pages.scrub(all, Verify::ReadBack, &mut rig.device)).unwrap();
    let mut lease = rig.lease(&mine, 40);
    let result = rig.try_step(&mut lease, &tokens(40, 1), false);
    assert!(matches!(result, Err(DeviceFault::Denied(Denied::Owner { .. }))), "{result:?}");
}

/// One page in two leases, of two tenants.
#[test]
fn a_page_that_was_granted_twice_is_the_first_writers() {
    let mut rig = rig();
    let (mine, other) = (rig.scope(1), rig.scope(2));
    let mut first = with(Fault::DoubleGrant, || rig.lease(&other, 16));
    let mut second = rig.lease(&mine, 16);
    rig.step(&mut [(&mut first, &tokens(9, 1))]);
    let result = rig.try_step(&mut second, &tokens(9, 2), false);
    assert!(matches!(result, Err(DeviceFault::Denied(Denied::Owner { .. }))), "{result:?}");
}

/// A step that failed counts as done: the next one reads what nobody wrote.
#[test]
fn positions_that_a_failed_step_left_are_not_read() {
    let mut rig = rig();
    let scope = rig.scope(1);
    let mut lease = rig.lease(&scope, 64);
    rig.try_step(&mut lease, &tokens(20, 1), false).unwrap();
    with(Fault::FailedCommit, || rig.try_step(&mut lease, &tokens(16, 2), true)).unwrap_err();
    assert_eq!(lease.filled(), Tokens::new(36), "the fault is on");
    let result = rig.try_step(&mut lease, &tokens(3, 3), false);
    assert!(matches!(result, Err(DeviceFault::Denied(Denied::Unwritten { .. }))), "{result:?}");
}

/// A page wiped under a sequence that still reads it.
#[test]
fn a_page_that_was_wiped_meanwhile_is_not_read() {
    let mut rig = rig();
    let scope = rig.scope(1);
    let mut lease = rig.lease(&scope, 64);
    rig.try_step(&mut lease, &tokens(20, 1), false).unwrap();
    let first = lease.pages().next().unwrap();
    rig.device.erase(first).unwrap();
    let result = rig.try_step(&mut lease, &tokens(3, 3), false);
    assert!(matches!(result, Err(DeviceFault::Denied(Denied::Unwritten { filled: 0, .. }))), "{result:?}");
}
