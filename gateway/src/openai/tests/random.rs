//! No body makes the reader panic, and none is quoted.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

const NAMES: [&str; 24] = [
    "model",
    "messages",
    "prompt",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "stop",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "stream",
    "stream_options",
    "role",
    "content",
    "type",
    "text",
    "tools",
    "response_format",
    "best_of",
    "7",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-3_i64..30).prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "[a-z]{0,6}".prop_map(Value::from),
        Just(json!("user")),
        Just(json!("text")),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let name = proptest::sample::select(NAMES.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(name, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// What holds of every answer, whatever came.
fn sound(body: &[u8]) -> Result<(), TestCaseError> {
    for endpoint in [Endpoint::Chat, Endpoint::Completions] {
        match parse(endpoint, body, &policy()) {
            Ok(call) => {
                prop_assert!((1..=8).contains(&call.choices) && !call.prompts.is_empty());
                prop_assert!(call.max_tokens != Some(0) && !call.model.is_empty());
                let sampling = call.sampling;
                prop_assert!((0.0..=2.0).contains(&sampling.temperature));
                prop_assert!(sampling.top_p > 0.0 && sampling.top_p <= 1.0);
                prop_assert!(sampling.logit_bias.is_sorted_by(|one, other| one.0 < other.0));
            }
            Err(refused) => {
                prop_assert!(!refused.message.is_empty() && refused.message.len() < 600);
                let read: Value = serde_json::from_slice(&error_json(&refused.body())).unwrap();
                prop_assert_eq!(&read["error"]["code"], refused.code.as_str());
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn bytes(body in vec(any::<u8>(), 0..200)) {
        sound(&body)?;
    }

    #[test]
    fn letters_of_json(body in "[\\[\\]{}:,\"0-9eE.+\\-a-z \\\\]{0,80}") {
        sound(body.as_bytes())?;
    }

    #[test]
    fn any_tree(body in any_json()) {
        sound(body.to_string().as_bytes())?;
    }

    #[test]
    fn a_good_body_with_any_field(name in proptest::sample::select(NAMES.to_vec()), value in any_json()) {
        for body in [chat_with(""), completion_with("")] {
            let mut body: Value = serde_json::from_str(&body).unwrap();
            body[name] = value.clone();
            sound(body.to_string().as_bytes())?;
        }
    }

    #[test]
    fn a_good_body_cut_anywhere_is_refused(cut in 0..54_usize) {
        let body = chat_with("");
        prop_assert!(cut < body.len());
        prop_assert!(chat(&body[..cut]).is_err_and(|refused| refused.code == BadCode::InvalidJson));
    }

    #[test]
    fn floats_of_logprobs_read_back_the_same(logprob in -9999.0_f32..=0.0) {
        let token = TokenLogprob { token: "t".into(), bytes: vec![116], logprob, top: vec![], text_offset: 0 };
        let shape = super::answers::shape(Endpoint::Chat, StreamMode::Events { usage: false });
        let event = shape.piece_event(&Piece { index: 0, text: "t", logprobs: Some(&[token]) });
        let read: Value = serde_json::from_slice(&event["data: ".len()..]).unwrap();
        let told = read["choices"][0]["logprobs"]["content"][0]["logprob"].to_string();
        prop_assert_eq!(told.parse::<f32>().unwrap(), logprob);
    }
}
