use super::*;
use crate::sign::{KeyError, LogKey};
use signed_note::{Signature, Verifier as _};

const TEXT: &str = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
const TIME: u64 = 1_679_315_147;
/// The first key of RFC 8032's tests. Hash and signature are another implementation's (OpenSSL's).
const PUBLIC: &str = "witness.example.com/w1+7e6f4aaa+BNdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea";
const PRIVATE: &str =
    "PRIVATE+KEY+witness.example.com/w1+7e6f4aaa+BJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g";
const LINE: &str = "— witness.example.com/w1 fm9KqgAAAABkGFDL+TPmh4BYuAjsYRoqMJCWb/gWJaeRF/kmm5tlCr9sJ57DLErur7K0yDXc2ArN+TIuotuB/HbuL3AJsp3bv/aNCQ==\n";

#[test]
fn a_cosignature_is_the_one_that_another_implementation_makes() {
    let key = LogKey::parse_witness(PRIVATE).unwrap();
    assert_eq!(key.public().to_string(), PUBLIC);
    assert_eq!(*key.private(), *PRIVATE);
    let signature = key.cosign(TEXT.as_bytes(), TIME).unwrap();
    assert_eq!(String::from_utf8(signature.to_bytes()).unwrap(), LINE);
    let public = NoteKey::parse_witness(PUBLIC).unwrap();
    let read = Signature::from_bytes(LINE.trim_end().as_bytes()).unwrap();
    assert_eq!(read.id(), public.key_id());
    assert_eq!(time(&public, TEXT.as_bytes(), read.signature()), Some(TIME));
    assert!(public.verify(TEXT.as_bytes(), read.signature()));
}

#[test]
fn each_bit_of_text_time_and_signature_counts() {
    let public = NoteKey::parse_witness(PUBLIC).unwrap();
    let good = Signature::from_bytes(LINE.trim_end().as_bytes()).unwrap().signature().to_vec();
    for bit in 0..good.len() * 8 {
        let mut wrong = good.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(time(&public, TEXT.as_bytes(), &wrong), None, "bit {bit}");
    }
    for at in 0..TEXT.len() {
        let mut wrong = TEXT.as_bytes().to_vec();
        wrong[at] ^= 1;
        assert_eq!(time(&public, &wrong, &good), None, "byte {at}");
    }
    for short in 0..good.len() {
        assert_eq!(time(&public, TEXT.as_bytes(), &good[..short]), None, "{short}");
    }
}

#[test]
fn a_time_that_no_cosignature_may_have_is_neither_signed_nor_believed() {
    let key = LogKey::parse_witness(PRIVATE).unwrap();
    assert!(key.cosign(TEXT.as_bytes(), TIME_MAX).is_some());
    assert!(key.cosign(TEXT.as_bytes(), TIME_MAX + 1).is_none());
    let late = [format!("cosignature/v1\ntime {}\n", TIME_MAX + 1).as_bytes(), TEXT.as_bytes()].concat();
    let packed = pack(TIME_MAX + 1, key.sign(&late));
    assert_eq!(time(&key.public(), TEXT.as_bytes(), &packed), None);
}

/// One key with two kinds would let a log's signature pass for a witness's word, or the other way round.
#[test]
fn a_key_is_of_one_kind() {
    let (log, witness) =
        (LogKey::generate("a.example").unwrap(), LogKey::generate_witness("a.example").unwrap());
    assert_eq!(LogKey::parse_witness(&log.private()).err(), Some(KeyError::Kind { found: 1, wanted: 4 }));
    assert_eq!(LogKey::parse(&witness.private()).err(), Some(KeyError::Kind { found: 4, wanted: 1 }));
    assert!(NoteKey::parse_witness(&log.public().to_string()).is_err());
    assert!(NoteKey::parse(&witness.public().to_string()).is_err());
    assert!(log.cosign(TEXT.as_bytes(), 1).is_none() && witness.note(TEXT.as_bytes()).is_none());
    // The same seed: what one signs does not verify as the other's.
    let log = LogKey::from_seed("a.example", zeroize::Zeroizing::new([3; 32])).unwrap();
    let witness = LogKey::witness_from_seed("a.example", [3; 32]);
    let (note, cosignature) =
        (log.note(TEXT.as_bytes()).unwrap(), witness.cosign(TEXT.as_bytes(), 1).unwrap());
    assert_ne!(note.id(), cosignature.id());
    assert!(!witness.public().verify(TEXT.as_bytes(), note.signature()));
    assert!(!log.public().verify(TEXT.as_bytes(), cosignature.signature()));
}
