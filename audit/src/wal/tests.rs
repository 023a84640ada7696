use proptest::prelude::*;

use super::*;

fn batch(first: u64, leaves: &[&[u8]]) -> Vec<u8> {
    let mut batch = Batch::default();
    batch.begin(first);
    leaves.iter().for_each(|leaf| batch.push(leaf));
    batch.seal().to_vec()
}

fn read_bytes(bytes: &[u8], is_last: bool) -> Result<Segment, AuditError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segment");
    std::fs::write(&path, bytes).unwrap();
    read(7, path, is_last)
}

#[test]
fn batches_are_read_as_they_were_written() {
    let bytes = [batch(7, &[b"one", b"two"]), batch(9, &[b""])].concat();
    let segment = read_bytes(&bytes, false).unwrap();
    assert_eq!(segment.leaves, [b"one".to_vec(), b"two".to_vec(), Vec::new()]);
    assert_eq!((segment.whole_bytes, segment.torn_bytes), (bytes.len() as u64, 0));
    assert!(read_bytes(&bytes[..bytes.len() - 1], false).is_err(), "only the last segment may be torn");
    assert_eq!(read_bytes(&bytes[..bytes.len() - 1], true).unwrap().leaves.len(), 2);
}

#[test]
fn a_batch_out_of_its_place_is_refused() {
    for wrong in [8, 6, 10] {
        let bytes = [batch(7, &[b"one", b"two"]), batch(wrong, &[b"three"])].concat();
        assert!(read_bytes(&bytes, true).is_err(), "{wrong}");
    }
}

proptest! {
    /// Whatever one bit is changed to: what is read are the batches before it, or nothing is.
    #[test]
    fn a_changed_bit_is_noticed(at in 0_usize..10_000) {
        let bytes = [batch(7, &[b"one", b"two"]), batch(9, &[b"three"]), batch(10, &[b"four", b"five"])].concat();
        let last = batch(10, &[b"four", b"five"]).len();
        let at = at % (bytes.len() * 8);
        let mut changed = bytes.clone();
        changed[at / 8] ^= 1 << (at % 8);
        match read_bytes(&changed, true) {
            // In the last one, of which nobody can tell whether it was ever whole.
            Ok(segment) => {
                prop_assert!(at / 8 >= bytes.len() - last);
                prop_assert_eq!(segment.leaves.len(), 3);
            }
            Err(_) => prop_assert!(at / 8 < bytes.len() - last),
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_bytes(&bytes, true);
    }
}
