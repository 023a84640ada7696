//! Logs that their own key signed, and that say what cannot be: whoever holds the key does not hold the rules.

use std::sync::Arc;

use super::*;
use crate::disk::Folder;
use crate::error::Why;
use crate::heads::Heads;
use crate::layout::split_entry;
use crate::leaf::{Leaf, TenantLink, leaf_hash};
use crate::meaning::Nonsense;
use crate::publish::{Chapter, Publisher};
use crate::record::Seal;

/// The leaves of a log: two tenants' requests, a seal in the midst and one at the end.
fn leaves() -> Vec<Leaf> {
    let mut heads = Heads::default();
    let mut leaves = Vec::new();
    let mut push = |heads: &mut Heads, tenant: Option<Hex<16>>, event| {
        let link = tenant.map(|tenant| heads.next(tenant).unwrap());
        let leaf = Leaf { time_ms: 0, link, event };
        if let Some(link) = &link {
            heads.follow(link, leaf_hash(&leaf.encode().unwrap())).unwrap();
        }
        leaves.push(leaf);
    };
    let seal = |heads: &mut Heads, epoch| {
        let tenants = heads.len() as u64;
        Record::Seal(Seal { epoch, tenants, heads: heads.root() })
    };
    push(&mut heads, None, boot());
    push(&mut heads, None, engine());
    for number in 0..4 {
        let [admitted, ended] = request(number);
        let tenant = Some(Hex([number as u8 % 2; 16]));
        push(&mut heads, tenant, admitted);
        push(&mut heads, tenant, ended);
        if number == 1 {
            let seal = seal(&mut heads, 1);
            push(&mut heads, None, seal);
        }
    }
    let last = seal(&mut heads, 2);
    push(&mut heads, None, last);
    leaves
}

/// A log of just these leaves, signed by `key`.
fn forge(leaves: &[Leaf]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut chapter = Chapter::default();
    for leaf in leaves {
        let bytes = leaf.encode().unwrap();
        let Hex(hash) = leaf_hash(&bytes);
        chapter.push(&bytes, Hash(hash));
    }
    assert!(split_entry(&chapter.entries).is_some());
    let shelf = Folder::claim(folder.path()).unwrap().shelf();
    let mut publisher = Publisher { shelf, key: Arc::new(key()), edge: Edge::default(), bundle: Vec::new() };
    let (chapters, received) = std::sync::mpsc::sync_channel(1);
    chapters.send(chapter).unwrap();
    drop(chapters);
    publisher.run(&received, folder.path(), &|_| {}).unwrap();
    folder
}

fn why(leaves: &[Leaf]) -> Option<Why> {
    broken(forge(leaves).path()).map(|broken| broken.why)
}

#[test]
fn the_log_without_a_fault_is_good() {
    assert_eq!(why(&leaves()), None);
}

#[test]
fn a_leaf_of_a_tenant_that_was_left_out_is_found() {
    for left_out in [2, 4, 7, 8] {
        let mut leaves = leaves();
        leaves.remove(left_out);
        let found = why(&leaves).unwrap();
        // The tenant's next leaf, or the next seal where it was the tenant's last.
        assert!(matches!(found, Why::TenantSeq { .. } | Why::Seal | Why::Meaning(_)), "{left_out}: {found}");
    }
}

fn without_a_link() -> Vec<Leaf> {
    let mut leaves = leaves();
    // The tenant's numbers go on, and what the next leaf names as the one before is another.
    let link = leaves[7].link.as_mut().unwrap();
    link.prev = Hex([1; 32]);
    leaves
}

#[test]
fn a_leaf_that_does_not_name_the_one_before_is_found() {
    assert_eq!(why(&without_a_link()), Some(Why::TenantPrev));
}

fn another_seal(change: impl FnOnce(&mut Seal)) -> Vec<Leaf> {
    let mut leaves = leaves();
    let Record::Seal(seal) = &mut leaves[6].event else { panic!("a seal") };
    change(seal);
    leaves
}

#[test]
fn a_seal_that_is_not_true_is_found() {
    assert_eq!(why(&another_seal(|seal| seal.epoch = 2)), Some(Why::Seal));
    assert_eq!(why(&another_seal(|seal| seal.tenants = 1)), Some(Why::Seal));
    assert_eq!(why(&another_seal(|seal| seal.heads = Hex([0; 32]))), Some(Why::Seal));
}

#[test]
fn a_tenants_record_has_a_tenant_and_no_other_has() {
    let mut of_nobody = leaves();
    of_nobody[2].link = None;
    assert_eq!(why(&of_nobody), Some(Why::Tenantless));
    let mut of_somebody = leaves();
    of_somebody[1].link = Some(TenantLink { tenant: ACME, seq: 1, prev: Hex([0; 32]) });
    assert_eq!(why(&of_somebody), Some(Why::Tenantless));
}

fn nonsense() -> Vec<Leaf> {
    let mut leaves = leaves();
    let Record::Boot(_) = leaves[0].event else { panic!("a boot") };
    leaves.remove(0);
    leaves
}

#[test]
fn what_cannot_have_happened_is_found_though_it_is_signed() {
    assert!(matches!(why(&nonsense()), Some(Why::Meaning(Nonsense::Policy(0)))));
}

/// Leaves and tiles rewritten without the key, each fitting the others: the signature alone tells.
fn rewritten() -> tempfile::TempDir {
    let folder = forge(&leaves());
    let checkpoint = fs::read(folder.path().join("checkpoint")).unwrap();
    let mut leaves = leaves();
    leaves[0].time_ms = 1;
    let other = forge(&leaves);
    fs::write(other.path().join("checkpoint"), checkpoint).unwrap();
    other
}

#[test]
fn what_fits_itself_and_not_the_signature_is_found() {
    assert_eq!(broken(rewritten().path()).map(|broken| broken.why), Some(Why::Root));
}

#[cfg(feature = "seeded-faults")]
mod controls {
    use super::*;
    use crate::fault::{Fault, seed};

    #[test]
    fn control_a_root_that_is_not_the_signed_one() {
        seed(Fault::RootUnchecked);
        assert_eq!(broken(rewritten().path()), None);
    }

    #[test]
    fn control_a_chain_that_is_broken() {
        seed(Fault::ChainUnchecked);
        assert_eq!(why(&without_a_link()), None);
    }

    #[test]
    fn control_a_seal_that_is_not_true() {
        seed(Fault::SealUnchecked);
        assert_eq!(why(&another_seal(|seal| seal.heads = Hex([0; 32]))), None);
    }

    #[test]
    fn control_records_that_cannot_be() {
        seed(Fault::MeaningUnchecked);
        assert_eq!(why(&nonsense()), None);
    }

    #[test]
    fn control_a_log_that_was_written_anew() {
        seed(Fault::SeenUnchecked);
        let first = fs::read(forge(&leaves()).path().join("checkpoint")).unwrap();
        let mut leaves = leaves();
        leaves[0].time_ms = 1;
        let trust = Trust { seen: Some(first), ..trust() };
        assert!(verify(forge(&leaves).path(), &trust, &mut |_| {}).is_ok());
    }
}
