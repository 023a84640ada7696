//! Any claims, and any bytes in place of a statement.

use super::*;
use proptest::prelude::*;

fn finite() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |number| number.is_finite())
}

prop_compose! {
    fn any_statement()(
        (request, epoch, generations, seed) in any::<([u8; 16], u64, u64, u64)>(),
        digests in any::<[[u8; 32]; 5]>(),
        counts in any::<[u32; 8]>(),
        floats in proptest::array::uniform5(finite()),
        finish in prop_oneof![Just(Finished::Stop), Just(Finished::Length)],
    ) -> Statement {
        let [model, prompt_sha256, logit_bias_sha256, stop_sha256, output_sha256] = digests;
        let [prompt_tokens, cached, written, attended, pages, max_tokens, top_k, output_tokens] = counts;
        let [temperature, top_p, min_p, frequency_penalty, presence_penalty] = floats;
        Statement {
            request, epoch, model, prompt_sha256, prompt_tokens, cached, written, attended, pages, generations,
            max_tokens, temperature, top_p, top_k, min_p, frequency_penalty, presence_penalty, logit_bias_sha256,
            stop_sha256, seed, finish, output_tokens, output_sha256,
        }
    }
}

proptest! {
    #[test]
    fn any_statement_reads_back_within_the_bound(stated in any_statement()) {
        let key = key();
        let jws = stated.sign(&key).unwrap();
        prop_assert!(jws.len() <= STATEMENT_BYTES_MAX, "{} bytes", jws.len());
        let read = Statement::read(&jws, &key.public()).unwrap();
        prop_assert_eq!(stated.differs(&read), None);
    }

    #[test]
    fn no_byte_of_a_statement_can_be_another(at in any::<prop::sample::Index>(), byte in 0_u8..128) {
        let key = key();
        let mut jws = statement().sign(&key).unwrap().into_bytes();
        let at = at.index(jws.len());
        prop_assume!(jws[at] != byte);
        jws[at] = byte;
        prop_assert!(Statement::read(std::str::from_utf8(&jws).unwrap(), &key.public()).is_err());
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in ".{0,200}", payload in "[{}\"v:1,a-f0-9. ]{0,200}") {
        let key = key();
        prop_assert!(Statement::read(&text, &key.public()).is_err());
        prop_assert!(Statement::read(&forged(&key, HEADER, &payload), &key.public()).is_err());
        prop_assert!(Statement::read(&forged(&key, HEADER, &text), &key.public()).is_err());
    }
}
