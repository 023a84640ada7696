use super::*;
use crate::{
    Evidence, Logprobs, OutputDigest, Sampling, Submit, TokenOut, Witness, digest_bias, digest_tokens,
};
use ring::rand::SystemRandom;
use std::collections::BTreeSet;

mod random;

fn key() -> BootKey {
    BootKey::make(&SystemRandom::new()).unwrap()
}

fn submit() -> Submit {
    Submit {
        request: [1; 16],
        tag: 2,
        epoch: 3,
        serial: 4,
        prompt: vec![5, 6, 7],
        max_tokens: 8,
        stop_tokens: vec![9],
        sampling: Sampling {
            temperature: 0.7,
            top_p: 0.95,
            top_k: 40,
            min_p: 0.0,
            seed: u64::MAX,
            frequency_penalty: -0.5,
            presence_penalty: 1e-7,
            logit_bias: vec![(10, -100.0)],
            logprobs: Logprobs::Omit,
        },
        ticket: [0; 32],
    }
}

fn evidence() -> Evidence {
    let prompt_digest = digest_tokens(&[5, 6, 7]);
    Evidence { prompt_digest, written: 2, attended: 3, cached: 1, pages: 1, generations: 0xab }
}

fn token(id: u32) -> TokenOut {
    TokenOut { id, logprob: 0.0, top: vec![] }
}

fn statement() -> Statement {
    let mut witness = Witness::of(&submit(), [11; 32]);
    witness.proved(&evidence());
    witness.sent(&[token(12), token(13)]);
    witness.sent(&[token(14)]);
    witness.stated(Finished::Length).unwrap()
}

/// Signs any header and payload, as an engine that lies would.
fn forged(key: &BootKey, header: &str, payload: &str) -> String {
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
    let signature = URL_SAFE_NO_PAD.encode(key.0.sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn refused(key: &BootKey, header: &str, payload: &str) -> StatementError {
    Statement::read(&forged(key, header, payload), &key.public()).unwrap_err()
}

/// One change of each claim.
const CHANGES: [fn(&mut Statement); 23] = [
    |s| s.request[15] ^= 1,
    |s| s.epoch ^= 1,
    |s| s.model[0] ^= 1,
    |s| s.prompt_sha256[31] ^= 1,
    |s| s.prompt_tokens += 1,
    |s| s.cached += 1,
    |s| s.written += 1,
    |s| s.attended += 1,
    |s| s.pages += 1,
    |s| s.generations ^= 1 << 63,
    |s| s.max_tokens += 1,
    |s| s.temperature = f32::from_bits(s.temperature.to_bits() + 1),
    |s| s.top_p = f32::from_bits(s.top_p.to_bits() + 1),
    |s| s.top_k += 1,
    |s| s.min_p = -0.0,
    |s| s.frequency_penalty = -s.frequency_penalty,
    |s| s.presence_penalty = 0.0,
    |s| s.logit_bias_sha256[0] ^= 1,
    |s| s.stop_sha256[0] ^= 1,
    |s| s.seed ^= 1,
    |s| s.finish = Finished::Stop,
    |s| s.output_tokens += 1,
    |s| s.output_sha256[0] ^= 1,
];

#[test]
fn a_statement_is_what_was_seen_and_reads_back() {
    let (key, stated) = (key(), statement());
    let jws = stated.sign(&key).unwrap();
    assert_eq!(Statement::read(&jws, &key.public()), Ok(stated.clone()));
    assert_eq!(stated.differs(&stated.clone()), None);
    let expected = [
        r#"{"v":1,"request":"01010101010101010101010101010101","epoch":"0000000000000003","model":""#,
        &"0b".repeat(32),
        r#"","prompt_sha256":""#,
        &hex(&digest_tokens(&[5, 6, 7])),
        r#"","prompt_tokens":3,"cached":1,"written":2,"attended":3,"pages":1,"generations":"00000000000000ab","#,
        r#""max_tokens":8,"temperature":0.7,"top_p":0.95,"top_k":40,"min_p":0.0,"frequency_penalty":-0.5,"#,
        r#""presence_penalty":1e-7,"logit_bias_sha256":""#,
        &hex(&digest_bias(&[(10, -100.0)])),
        r#"","stop_sha256":""#,
        &hex(&digest_tokens(&[9])),
        r#"","seed":"18446744073709551615","finish":"length","output_tokens":3,"output_sha256":""#,
        &hex(&output(&[12, 13, 14])),
        r#""}"#,
    ];
    assert_eq!(stated.payload(), expected.concat());
}

/// The key of RFC 8032's first test, whose seed everybody knows, and the signature of a statement that OpenSSL verified by it.
#[test]
fn the_signature_is_the_one_of_the_standard() {
    let seed: Vec<u8> = (0..32)
        .map(|at| {
            let text = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
            u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()
        })
        .collect();
    let key = BootKey(Ed25519KeyPair::from_seed_unchecked(&seed).unwrap());
    assert_eq!(hex(&key.public()), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    assert!(hex(key.0.sign(b"").as_ref()).starts_with("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974"));
    let jws = statement().sign(&key).unwrap();
    let signature = "FWk_IuiMWT7f3v5kPfNc3bMzj6ZXAxk9SPfSllnufNPN0Dua8en9SYIcAhWnk1RoA8TSO-0RAL1pA3svlg-hAw";
    assert_eq!(jws.rsplit_once('.').unwrap().1, signature);
}

#[test]
fn each_claim_is_signed_and_compared() {
    let (key, stated) = (key(), statement());
    let jws = stated.sign(&key).unwrap();
    let (signed, signature) = jws.rsplit_once('.').unwrap();
    let (header, _) = signed.split_once('.').unwrap();
    let mut named = BTreeSet::new();
    for (index, change) in CHANGES.iter().enumerate() {
        let mut other = stated.clone();
        change(&mut other);
        let payload = URL_SAFE_NO_PAD.encode(other.payload());
        let moved = format!("{header}.{payload}.{signature}");
        assert_eq!(Statement::read(&moved, &key.public()), Err(StatementError::Signature), "change {index}");
        let claim = stated.differs(&other).unwrap_or_else(|| panic!("change {index} is not noticed"));
        named.insert(claim);
        // Signed by the engine itself, it reads back, and is another statement all the same.
        let read = Statement::read(&other.sign(&key).unwrap(), &key.public()).unwrap();
        assert_eq!(stated.differs(&read), Some(claim));
    }
    let all: BTreeSet<&str> = stated.claims().iter().map(|(claim, _)| *claim).filter(|c| *c != "v").collect();
    assert_eq!(named, all);
}

#[test]
fn no_other_header_is_taken() {
    let (key, payload) = (key(), statement().payload());
    for header in [
        r#"{"alg":"none","typ":"bulkhead-engine-statement"}"#,
        r#"{"alg":"HS256","typ":"bulkhead-engine-statement"}"#,
        r#"{"alg":"EdDSA","typ":"JWT"}"#,
        r#"{"alg":"EdDSA"}"#,
        r#"{"typ":"bulkhead-engine-statement","alg":"EdDSA"}"#,
        r#"{"alg":"EdDSA","typ":"bulkhead-engine-statement","kid":"1"}"#,
        r#"{"alg":"EdDSA","typ":"bulkhead-engine-statement","crit":["b64"],"b64":false}"#,
        r#"{"alg":"EdDSA", "typ":"bulkhead-engine-statement"}"#,
        r#"{"alg":"EdDSA","typ":"bulkhead-engine-statement"} "#,
        r#"{"alg":"EdDSA","typ":"bulkhead-engine-statement""#,
        "{}",
        "",
    ] {
        assert_eq!(refused(&key, header, &payload), StatementError::Header, "{header}");
    }
    // The claims as an unsigned JWS.
    let bare = format!("{}.{}.", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(&payload));
    assert_eq!(Statement::read(&bare, &key.public()), Err(StatementError::Signature));
}

#[test]
fn no_other_form_of_a_payload_is_taken() {
    let (key, payload) = (key(), statement().payload());
    let of = |from: &str, to: &str| {
        assert!(payload.contains(from), "{from} is not in it");
        payload.replacen(from, to, 1)
    };
    for (payload, claim) in [
        (of(r#""v":1,"#, ""), "v"),
        (of(r#""v":1"#, r#""v":2"#), "v"),
        (of(r#""v":1"#, r#""v":"1""#), "v"),
        (of(r#""v":1,"#, r#""v":1, "#), "request"),
        (of(r#""pages":1,"#, ""), "pages"),
        (of(r#""cached":1,"written":2"#, r#""written":2,"cached":1"#), "cached"),
        (of(r#""cached":1"#, r#""cached":-1"#), "cached"),
        (of(r#""cached":1"#, r#""cached":4294967296"#), "cached"),
        (of(r#""cached":1"#, r#""cached":1.0"#), "cached"),
        (of(r#""cached":1"#, r#""cached":null"#), "cached"),
        (of(r#""cached":1"#, r#""cached":"1""#), "cached"),
        (of(r#""temperature":0.7"#, r#""temperature":"0.7""#), "temperature"),
        (of(r#""epoch":"00"#, r#""epoch":""#), "epoch"),
        (of(r#""epoch":"0"#, r#""epoch":"g"#), "epoch"),
        (of(r#""seed":"18446744073709551615""#, r#""seed":18446744073709551615"#), "seed"),
        (of(r#""seed":"1"#, r#""seed":"9"#), "seed"),
        (of(r#""finish":"length""#, r#""finish":"cancelled""#), "finish"),
        (of(r#""pages":1"#, r#""cached":1"#), "pages"),
        (format!("{payload}{{}}"), "output_sha256"),
    ] {
        assert_eq!(refused(&key, HEADER, &payload), StatementError::Claim { claim }, "{payload}");
    }
    for payload in [
        of(r#""cached":1"#, r#""cached":01"#),
        of(r#""cached":1"#, r#""cached":+1"#),
        of(r#""temperature":0.7"#, r#""temperature":0.70"#),
        of(r#""temperature":0.7"#, r#""temperature":7e-1"#),
        of(r#""temperature":0.7"#, r#""temperature":0.70000001"#),
        of(r#""temperature":0.7"#, r#""temperature":inf"#),
        of(r#""temperature":0.7"#, r#""temperature":NaN"#),
        of(r#""generations":"00000000000000ab""#, r#""generations":"00000000000000AB""#),
        of(r#""generations":"00"#, r#""generations":"+0"#),
        of(r#""seed":"1"#, r#""seed":"01"#),
        of(r#""}"#, r#"","tag":2}"#),
        of(r#""}"#, r#"","v":1}"#),
        format!("{payload} "),
        format!("{payload}\0"),
        format!(" {payload}"),
        payload[..payload.len() - 1].to_owned(),
        String::new(),
        "{".to_owned(),
        "[]".to_owned(),
    ] {
        assert_eq!(refused(&key, HEADER, &payload), StatementError::Payload, "{payload}");
    }
}

#[test]
fn what_is_no_compact_jws_of_this_key_is_refused() {
    let (key, other, jws) = (key(), key(), statement().sign(&key()).unwrap());
    assert_eq!(Statement::read(&jws, &key.public()), Err(StatementError::Signature));
    let jws = statement().sign(&key).unwrap();
    for public in [other.public(), [0; 32], [0xff; 32]] {
        assert_eq!(Statement::read(&jws, &public), Err(StatementError::Signature));
    }
    for cut in 0..jws.len() {
        assert!(Statement::read(&jws[..cut], &key.public()).is_err(), "cut to {cut} bytes");
    }
    for more in ["=", ".", "A", "AA", "\n", " ", ".e30"] {
        assert!(Statement::read(&format!("{jws}{more}"), &key.public()).is_err(), "{more:?} behind it");
        assert!(Statement::read(&format!("{more}{jws}"), &key.public()).is_err(), "{more:?} before it");
    }
    // The same signature by other letters: the last has four bits that say nothing.
    let last = jws.chars().last().unwrap();
    for letter in ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['-', '_']).filter(|c| *c != last) {
        let twin = format!("{}{letter}", &jws[..jws.len() - 1]);
        assert!(Statement::read(&twin, &key.public()).is_err(), "{letter}");
    }
    let long = "A".repeat(STATEMENT_BYTES_MAX + 1);
    let too_long = StatementError::TooLong { bytes: STATEMENT_BYTES_MAX + 1 };
    assert_eq!(Statement::read(&long, &key.public()), Err(too_long));
    assert_eq!(too_long.to_string(), "a statement of 1537 bytes is over the limit of 1536");
    assert_eq!(Statement::read(&long[1..], &key.public()), Err(StatementError::Form));
}

#[test]
fn what_has_no_proof_is_not_stated_and_what_json_cannot_hold_is_not_signed() {
    let mut witness = Witness::of(&submit(), [11; 32]);
    witness.sent(&[token(12)]);
    assert_eq!(witness.stated(Finished::Stop), None);
    for (index, claim) in
        ["temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty"].into_iter().enumerate()
    {
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut other = statement();
            let set: [fn(&mut Statement, f32); 5] = [
                |s, n| s.temperature = n,
                |s, n| s.top_p = n,
                |s, n| s.min_p = n,
                |s, n| s.frequency_penalty = n,
                |s, n| s.presence_penalty = n,
            ];
            set[index](&mut other, number);
            assert_eq!(other.sign(&key()), Err(StatementError::NotFinite { claim }));
        }
    }
}

/// Each field that decides the output is in the statement, as the gateway sent it.
#[test]
fn a_witness_tells_what_was_asked_and_sent_apart() {
    type Change = fn(&mut Submit);
    let changes: [(Change, &str); 13] = [
        (|s| s.request[0] ^= 1, "request"),
        (|s| s.epoch += 1, "epoch"),
        (|s| s.prompt.push(0), "prompt_tokens"),
        (|s| s.max_tokens += 1, "max_tokens"),
        (|s| s.stop_tokens.push(0), "stop_sha256"),
        (|s| s.sampling.temperature = 0.0, "temperature"),
        (|s| s.sampling.top_p = 1.0, "top_p"),
        (|s| s.sampling.top_k = 0, "top_k"),
        (|s| s.sampling.min_p = 0.5, "min_p"),
        (|s| s.sampling.seed = 0, "seed"),
        (|s| s.sampling.frequency_penalty = 0.0, "frequency_penalty"),
        (|s| s.sampling.presence_penalty = 0.0, "presence_penalty"),
        (|s| s.sampling.logit_bias[0].1 = 1.0, "logit_bias_sha256"),
    ];
    let of = |submit: &Submit, model, ids: &[u32]| {
        let mut witness = Witness::of(submit, model);
        witness.proved(&evidence());
        ids.iter().for_each(|id| witness.sent(&[token(*id)]));
        witness.stated(Finished::Length).unwrap()
    };
    let stated = statement();
    assert_eq!(of(&submit(), [11; 32], &[12, 13, 14]), stated, "however the tokens are cut into frames");
    for (change, claim) in changes {
        let mut other = submit();
        change(&mut other);
        assert_eq!(stated.differs(&of(&other, [11; 32], &[12, 13, 14])), Some(claim));
    }
    assert_eq!(stated.differs(&of(&submit(), [12; 32], &[12, 13, 14])), Some("model"));
    assert_eq!(stated.differs(&of(&submit(), [11; 32], &[12, 13])), Some("output_tokens"));
    for ids in [[13, 12, 14], [12, 13, 15]] {
        assert_eq!(stated.differs(&of(&submit(), [11; 32], &ids)), Some("output_sha256"));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn output(ids: &[u32]) -> [u8; 32] {
    let mut digest = OutputDigest::default();
    ids.iter().for_each(|id| digest.push(*id));
    digest.finish()
}

/// The longest form of each claim at once.
#[test]
fn the_longest_statement_is_within_the_bound() {
    let number = -f32::MIN_POSITIVE;
    let longest = Statement {
        prompt_tokens: u32::MAX,
        cached: u32::MAX,
        written: u32::MAX,
        attended: u32::MAX,
        pages: u32::MAX,
        max_tokens: u32::MAX,
        top_k: u32::MAX,
        output_tokens: u32::MAX,
        temperature: number,
        top_p: number,
        min_p: number,
        frequency_penalty: number,
        presence_penalty: number,
        ..statement()
    };
    let bytes = longest.sign(&key()).unwrap().len();
    assert!((1_300..=STATEMENT_BYTES_MAX).contains(&bytes), "{bytes}");
}
