//! The demo model's own file: header, shape, tensors, digest.

#![expect(clippy::expect_used, reason = "a test without its model must fail and say so")]

use std::path::PathBuf;

use model::{LlamaShape, ModelFile, TensorKind};

fn path() -> PathBuf {
    std::env::var_os("BULKHEAD_TEST_MODEL")
        .map(PathBuf::from)
        .expect("BULKHEAD_TEST_MODEL must name the demo model's gguf file; ./check sets it")
}

#[test]
fn its_header_shape_and_digest_are_the_known_ones() {
    let file = ModelFile::open(&path()).unwrap();
    let shape = LlamaShape::from_gguf(file.header()).unwrap();
    let expected = LlamaShape {
        layers: 30,
        width: 576,
        ffn: 1_536,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        context: 8_192,
        rope_base: 100_000.0,
        rms_eps: 1e-5,
        vocab: 49_152,
        tied_head: true,
    };
    assert_eq!(shape, expected);
    let of = |kind| file.header().tensors().iter().filter(|tensor| tensor.kind == kind).count();
    assert_eq!((of(TensorKind::Q4_1), of(TensorKind::Q8_0), of(TensorKind::F32)), (210, 1, 61));
    let embedding = file.header().tensor("token_embd.weight").unwrap();
    let mut bytes = Vec::new();
    file.tensor(embedding, &mut bytes).unwrap();
    assert_eq!(bytes.len(), 49_152 * 576 / 32 * 34);
    let digest: String = file.digest(&mut |_| ()).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
}
