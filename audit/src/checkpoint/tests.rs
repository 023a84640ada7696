use tlog_tiles::EMPTY_HASH;

use super::*;

#[test]
fn a_checkpoint_is_read_as_it_was_signed() {
    let key = LogKey::generate("test.example/log").unwrap();
    let head = TreeHead { size: 4_711, root: Hash([7; 32]) };
    let bytes = sign(&key, head).unwrap();
    assert_eq!(open(&bytes, &key.public()), Ok(head));
    let lines: Vec<_> = std::str::from_utf8(&bytes).unwrap().lines().collect();
    assert_eq!(lines[..2], ["test.example/log", "4711"]);
    // Every bit of it counts, but those of the base64 that no byte depends on.
    for at in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[at / 8] ^= 1 << (at % 8);
        assert!(open(&changed, &key.public()).is_err(), "bit {at}");
    }
    for length in 0..bytes.len() {
        assert!(open(&bytes[..length], &key.public()).is_err(), "{length}");
    }
}

#[test]
fn sizes_that_no_log_has_are_refused() {
    let key = LogKey::generate("test.example/log").unwrap();
    let sized = |size| open(&sign(&key, TreeHead { size, root: EMPTY_HASH }).unwrap(), &key.public());
    assert!(sized(LEAVES_MAX).is_ok());
    assert_eq!(sized(LEAVES_MAX + 1), Err(Why::Form));
}
