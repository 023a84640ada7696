//! Right files read back whole; each kind of wrong file is refused by its own error; no mutation panics.

use proptest::prelude::*;

use super::*;
use crate::testing::Writer;

fn parse(bytes: &[u8]) -> Result<Gguf, GgufError> {
    Gguf::parse(&mut &*bytes, bytes.len() as u64)
}

fn sample() -> Writer {
    Writer::new()
        .text("general.architecture", "llama")
        .number("llama.block_count", 30)
        .entry("signed", Value::Signed(-3))
        .entry("float", Value::Float32(1.5))
        .entry("double", Value::Float64(-2.5))
        .entry("flag", Value::Flag(true))
        .texts("tokenizer.ggml.tokens", &["a", "", "Ġt"])
        .entry("types", Value::Array(Array::Signed(vec![1, 3, -1])))
        .entry("nested", Value::Array(Array::Nested(vec![Array::Flag(vec![true]), Array::Float64(vec![])])))
        .tensor("a", &[32, 2], 3, 0)
        .tensor("b", &[4], 0, 64)
        .data(80)
}

#[test]
fn what_was_written_is_read() {
    for version in [2, 3] {
        let writer = Writer { version, ..sample() };
        let bytes = writer.bytes();
        let gguf = parse(&bytes).unwrap();
        assert_eq!(gguf.version(), version);
        let read: Vec<(String, Value)> =
            gguf.metadata().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut written = writer.entries.clone();
        written.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(read, written);
        let data = bytes.len() as u64 - 80;
        let [a, b] = gguf.tensors() else { panic!("two tensors were written") };
        assert_eq!(
            (a.kind, a.dims.as_slice(), a.offset, a.bytes),
            (TensorKind::Q4_1, &[32, 2][..], data, 40)
        );
        assert_eq!(
            (b.kind, b.dims.as_slice(), b.offset, b.bytes),
            (TensorKind::F32, &[4][..], data + 64, 16)
        );
        assert_eq!(gguf.tensor("b"), Some(b));
    }
}

#[test]
fn typed_look_ups_tell_absent_from_wrong() {
    let gguf = parse(&sample().bytes()).unwrap();
    assert_eq!(gguf.text("general.architecture").unwrap(), Some("llama"));
    assert_eq!(gguf.unsigned("absent").unwrap(), None);
    assert_eq!(gguf.float32("float").unwrap(), Some(1.5));
    assert_eq!(gguf.flag("flag").unwrap(), Some(true));
    assert_eq!(gguf.integers("types").unwrap(), Some(&[1, 3, -1][..]));
    assert_eq!(gguf.texts("tokenizer.ggml.tokens").unwrap().map(<[String]>::len), Some(3));
    assert!(matches!(gguf.unsigned("signed"), Err(GgufError::WrongType { key: "signed" })));
    assert!(matches!(gguf.text("flag"), Err(GgufError::WrongType { key: "flag" })));
    assert!(matches!(gguf.texts("types"), Err(GgufError::WrongType { key: "types" })));
}

#[test]
fn every_cut_is_refused() {
    let bytes = sample().bytes();
    for cut in 0..bytes.len() {
        assert!(parse(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    // A file that shrank after its length was taken: the header still ends in an error, not in a short read.
    let header = Writer { data_bytes: 0, tensors: Vec::new(), ..sample() }.bytes().len();
    for cut in 0..header {
        assert!(Gguf::parse(&mut &bytes[..cut], bytes.len() as u64).is_err(), "cut at {cut}");
    }
}

#[test]
fn foreign_files_and_versions_are_refused() {
    assert!(matches!(parse(b""), Err(GgufError::NotGguf)));
    assert!(matches!(parse(b"GGM"), Err(GgufError::NotGguf)));
    assert!(matches!(parse(b"PK\x03\x04\0\0\0\0"), Err(GgufError::NotGguf)));
    for version in [0, 1, 4, 0x0300_0000] {
        let bytes = Writer { version, ..sample() }.bytes();
        assert!(matches!(parse(&bytes), Err(GgufError::Version { version: seen }) if seen == version));
    }
}

/// A header that claims `tensors` and `entries`, and then has `rest`; the file itself is said to be 1 TB long, so that
/// only the bounds stand between a claim and our memory.
fn claim(tensors: u64, entries: u64, rest: &[u8]) -> Result<Gguf, GgufError> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(tensors.to_le_bytes());
    bytes.extend(entries.to_le_bytes());
    bytes.extend(rest);
    Gguf::parse(&mut bytes.as_slice(), 1 << 40)
}

fn key_and(kind: u32, rest: &[&[u8]]) -> Vec<u8> {
    let mut bytes = [&1_u64.to_le_bytes()[..], b"k", &kind.to_le_bytes()].concat();
    rest.iter().for_each(|part| bytes.extend(*part));
    bytes
}

fn refused_count(result: Result<Gguf, GgufError>) -> (&'static str, u64) {
    match result {
        Err(GgufError::TooMany { what, claimed, bound }) => {
            assert!(claimed > bound);
            (what, bound)
        }
        other => panic!("not refused by a bound: {other:?}"),
    }
}

#[test]
fn hostile_counts_are_refused_before_anything_is_allocated() {
    assert_eq!(refused_count(claim(u64::MAX, 0, b"")), ("tensors", TENSORS_MAX));
    assert_eq!(refused_count(claim(TENSORS_MAX + 1, 0, b"")), ("tensors", TENSORS_MAX));
    assert_eq!(refused_count(claim(0, METADATA_MAX + 1, b"")), ("metadata entries", METADATA_MAX));
    let key = (KEY_BYTES_MAX + 1).to_le_bytes();
    assert_eq!(refused_count(claim(0, 1, &key)), ("bytes of a metadata key", KEY_BYTES_MAX));
    let text = key_and(8, &[&(STRING_BYTES_MAX + 1).to_le_bytes()]);
    assert_eq!(refused_count(claim(0, 1, &text)), ("bytes of a string", STRING_BYTES_MAX));
    let array = key_and(9, &[&0_u32.to_le_bytes(), &u64::MAX.to_le_bytes()]);
    assert_eq!(refused_count(claim(0, 1, &array)), ("elements of an array", ARRAY_LEN_MAX));
    let name = (TENSOR_NAME_BYTES_MAX + 1).to_le_bytes();
    assert_eq!(refused_count(claim(1, 0, &name)), ("bytes of a tensor's name", TENSOR_NAME_BYTES_MAX));
    let dims = [&1_u64.to_le_bytes()[..], b"t", &(DIMS_MAX + 1).to_le_bytes()].concat();
    assert_eq!(refused_count(claim(1, 0, &dims)), ("dimensions of a tensor", DIMS_MAX.into()));
}

#[test]
fn nesting_ends_at_its_bound() {
    let of_one_array = [9_u32.to_le_bytes().as_slice(), &1_u64.to_le_bytes()].concat();
    let deep = key_and(9, &[&of_one_array.repeat(1_000)]);
    assert_eq!(refused_count(claim(0, 1, &deep)), ("nested arrays", ARRAY_DEPTH_MAX.into()));
}

#[test]
fn what_a_header_may_hold_is_bounded_over_all_its_arrays() {
    // Eleven arrays of the most bytes allowed: 8 bytes of memory for each byte of file, 16 MiB each.
    let array =
        [&0_u32.to_le_bytes()[..], &ARRAY_LEN_MAX.to_le_bytes(), &vec![0; ARRAY_LEN_MAX as usize]].concat();
    let mut bytes = Vec::new();
    for name in 0..11_u8 {
        bytes.extend([&1_u64.to_le_bytes()[..], &[b'a' + name], &9_u32.to_le_bytes(), &array].concat());
    }
    assert_eq!(refused_count(claim(0, 11, &bytes)), ("bytes held for the header", HELD_BYTES_MAX));
}

#[test]
fn values_without_meaning_are_refused() {
    assert!(matches!(claim(0, 1, &key_and(13, &[])), Err(GgufError::Meaningless { number: 13, .. })));
    assert!(matches!(claim(0, 1, &key_and(7, &[&[2]])), Err(GgufError::Meaningless { number: 2, .. })));
    let bad = key_and(8, &[&2_u64.to_le_bytes(), &[0xc3, 0x28]]);
    assert!(matches!(claim(0, 1, &bad), Err(GgufError::NotUtf8 { at: 45 })));
}

#[test]
fn two_of_a_name_are_refused() {
    let keys = sample().number("llama.block_count", 31);
    assert!(
        matches!(parse(&keys.bytes()), Err(GgufError::Duplicate { name }) if name == "llama.block_count")
    );
    let tensors = sample().tensor("a", &[1], 0, 96).data(128);
    assert!(matches!(parse(&tensors.bytes()), Err(GgufError::Duplicate { name }) if name == "a"));
}

#[test]
fn tensors_lie_apart_aligned_and_inside() {
    let place = |offset_b: u64, data: usize| {
        parse(&Writer::new().tensor("a", &[16], 0, 32).tensor("b", &[8], 0, offset_b).data(data).bytes())
    };
    assert!(place(96, 128).is_ok());
    assert!(place(0, 128).is_ok()); // b lies before a: order in the table is free
    for (offset, data) in [(96, 127), (64, 128), (32, 128), (97, 256), (u64::MAX - 31, 128), (1 << 62, 128)] {
        assert!(
            matches!(place(offset, data), Err(GgufError::TensorPlace { .. })),
            "b at {offset} of {data} bytes"
        );
    }
}

#[test]
fn dimensions_that_cannot_be_are_refused() {
    let dims = |dims: &[u64], number| parse(&Writer::new().tensor("t", dims, number, 0).data(4096).bytes());
    assert!(dims(&[33], 3).is_err());
    assert!(dims(&[128], 12).is_err());
    for wrong in [&[0_u64, 4][..], &[32, 0], &[1 << 32, 1 << 32], &[u64::MAX], &[1 << 62, 4, 1, 1]] {
        assert!(matches!(dims(wrong, 0), Err(GgufError::TensorDims { .. })), "{wrong:?}");
    }
    assert!(matches!(dims(&[32], 6), Err(GgufError::TensorKind { number: 6, .. })));
    assert_eq!(dims(&[], 0).unwrap().tensors()[0].bytes, 4); // a scalar
}

#[test]
fn alignment_is_a_power_of_two() {
    for alignment in [0, 3, 48, ALIGNMENT_MAX * 2, u64::MAX] {
        let bytes = sample().number("general.alignment", alignment).bytes();
        assert!(matches!(parse(&bytes), Err(GgufError::Alignment { claimed }) if claimed == alignment));
    }
    let writer = Writer { alignment: 128, ..Writer::new() };
    let bytes = writer.number("general.alignment", 128).tensor("a", &[4], 0, 128).data(256).bytes();
    assert_eq!(parse(&bytes).unwrap().tensors()[0].offset % 128, 0);
}

proptest! {
    /// Any bytes changed, the header is read or refused: no panic, no overflow, nothing above the bound.
    #[test]
    fn no_mutation_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        cut_at_all in any::<bool>(),
        length in prop_oneof![Just(None), any::<u64>().prop_map(Some)],
    ) {
        let mut bytes = sample().bytes();
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if cut_at_all {
            bytes.truncate(cut.index(bytes.len()));
        }
        let length = length.unwrap_or(bytes.len() as u64);
        if let Ok(gguf) = Gguf::parse(&mut bytes.as_slice(), length) {
            for tensor in gguf.tensors() {
                prop_assert!(tensor.offset + tensor.bytes <= length);
            }
        }
    }

    /// Eight-byte fields replaced by numbers at the edges: where counts and offsets go wrong.
    #[test]
    fn no_edge_number_panics(
        at in any::<prop::sample::Index>(),
        number in prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 31), Just(1 << 63), Just(u32::MAX as u64), any::<u64>()],
    ) {
        let mut bytes = sample().bytes();
        let at = at.index(bytes.len() - 8);
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        let length = bytes.len() as u64;
        if let Ok(gguf) = Gguf::parse(&mut bytes.as_slice(), length) {
            for tensor in gguf.tensors() {
                prop_assert!(tensor.offset + tensor.bytes <= length);
            }
        }
    }
}
