use proptest::prelude::*;

use super::*;
use crate::log::tests::{boot, engine, record, request};
use crate::record::Seal;

fn all() -> Vec<Leaf> {
    let link = Some(TenantLink { tenant: Hex([9; 16]), seq: u64::MAX, prev: Hex([8; 32]) });
    let seal = Record::Seal(Seal { epoch: u64::MAX, tenants: u64::MAX, heads: Hex([7; 32]) });
    let [admitted, ended] = request(1);
    let with = |link, event| Leaf { time_ms: 1_796_000_000_000, link, event };
    vec![
        with(None, boot()),
        with(None, engine()),
        with(link, admitted),
        with(link, ended),
        with(link, record(5)),
        with(None, seal),
    ]
}

#[test]
fn a_leaf_is_read_as_it_was_written_and_in_no_other_form() {
    for leaf in all() {
        let bytes = leaf.encode().unwrap();
        assert_eq!(Leaf::decode(&bytes), Ok(leaf));
        assert_eq!(Leaf::decode(&[&bytes[..], &[0]].concat()), Err(LeafError::Content), "with more after it");
        assert_eq!(Leaf::decode(&bytes[..bytes.len() - 1]), Err(LeafError::Content));
        assert_eq!(Leaf::decode(&[&[2], &bytes[1..]].concat()), Err(LeafError::Form));
        // A longer way to write the same time: the number's last byte is continued, and then nothing.
        let mut longer = bytes.clone();
        longer[6] |= 0x80;
        longer.insert(7, 0);
        assert_eq!(Leaf::decode(&longer), Err(LeafError::Content), "{leaf:?}");
    }
    assert_eq!(Leaf::decode(&[]), Err(LeafError::Form));
    assert_eq!(Leaf::decode(&[1; LEAF_BYTES_MAX + 1]), Err(LeafError::Form));
}

/// What a request costs in the log, in bytes: its two leaves, their lengths in the bundle, their hashes in the tile.
#[test]
fn a_request_has_at_most_450_bytes() {
    let link = Some(TenantLink { tenant: Hex([9; 16]), seq: 1 << 40, prev: Hex([8; 32]) });
    let leaves = request(1).map(|event| Leaf { time_ms: 1_796_000_000_000, link, event });
    let bytes: usize = leaves.iter().map(|leaf| leaf.encode().unwrap().len() + 2 + 32).sum();
    println!("{bytes} bytes");
    assert!(bytes <= 450, "{bytes}");
}

/// An auditor who has no tool of ours reads a leaf by the form that the documentation gives.
#[test]
fn the_form_is_the_documented_one() {
    let leaf = Leaf { time_ms: 300, link: None, event: boot() };
    let mut bytes = vec![1, 0xac, 0x02, 0, 0, 0, 1, 0];
    bytes.extend([3; 32]);
    bytes.push(2);
    assert_eq!(leaf.encode().unwrap(), bytes);
    assert_eq!(serde_json::to_value(leaf).unwrap()["event"]["boot"]["source"], "shipped");
}

proptest! {
    #[test]
    fn any_bytes_are_a_leaf_in_its_one_form_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(leaf) = Leaf::decode(&bytes) {
            prop_assert_eq!(leaf.encode().unwrap(), bytes);
        }
    }

    #[test]
    fn a_changed_bit_is_another_leaf_or_none(which in 0_usize..6, at in 0_usize..4_000) {
        let leaf = all()[which];
        let mut bytes = leaf.encode().unwrap();
        let at = at % (bytes.len() * 8);
        bytes[at / 8] ^= 1 << (at % 8);
        prop_assert!(Leaf::decode(&bytes) != Ok(leaf));
    }
}
