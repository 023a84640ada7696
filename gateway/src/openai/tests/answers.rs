//! The exact bytes of what goes out.

use serde_json::Value;

use super::*;

pub(super) fn shape(endpoint: Endpoint, stream: StreamMode) -> Shape {
    Shape {
        endpoint,
        id: "id-1".into(),
        created: 1700,
        model: "m".into(),
        fingerprint: "fp_1".into(),
        stream,
    }
}

const USAGE: Usage = Usage { prompt: 9, cached: 4, completion: 2 };
const USAGE_JSON: &str = r#"{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":0}}"#;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn token(token: &str, logprob: f32, top: &[(&str, f32)]) -> TokenLogprob {
    let top = top.iter().map(|(text, logprob)| ((*text).to_owned(), text.as_bytes().to_vec(), *logprob));
    TokenLogprob {
        token: token.into(),
        bytes: token.as_bytes().to_vec(),
        logprob,
        top: top.collect(),
        text_offset: 3,
    }
}

fn chunk(choices: &str, usage: &str) -> String {
    format!(
        "data: {{\"id\":\"id-1\",\"object\":\"chat.completion.chunk\",\"created\":1700,\"model\":\"m\",\
         \"system_fingerprint\":\"fp_1\",\"choices\":[{choices}]{usage}}}\n\n"
    )
}

#[test]
fn a_chat_as_events() {
    let tokens = [token("a\n", -0.1, &[("a\n", -0.1)])];
    for (usage, tail) in [(false, ""), (true, ",\"usage\":null")] {
        let shape = shape(Endpoint::Chat, StreamMode::Events { usage });
        assert_eq!(
            text(shape.first_event(1)),
            chunk(
                r#"{"index":1,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}"#,
                tail
            )
        );
        assert_eq!(
            text(shape.piece_event(&Piece { index: 0, text: "é\"\n", logprobs: None })),
            chunk(r#"{"index":0,"delta":{"content":"é\"\n"},"logprobs":null,"finish_reason":null}"#, tail)
        );
        assert_eq!(
            text(shape.piece_event(&Piece { index: 0, text: "a\n", logprobs: Some(&tokens) })),
            chunk(
                r#"{"index":0,"delta":{"content":"a\n"},"logprobs":{"content":[{"token":"a\n","logprob":-0.1,"bytes":[97,10],"top_logprobs":[{"token":"a\n","logprob":-0.1,"bytes":[97,10]}]}],"refusal":null},"finish_reason":null}"#,
                tail
            )
        );
        assert_eq!(
            text(shape.finish_event(0, Finish::Length)),
            chunk(r#"{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}"#, tail)
        );
        let last = if usage { chunk("", &format!(",\"usage\":{USAGE_JSON}")) } else { String::new() };
        assert_eq!(text(shape.usage_event(&USAGE)), last);
    }
    assert_eq!(DONE, b"data: [DONE]\n\n");
}

#[test]
fn a_chat_whole() {
    let shape = shape(Endpoint::Chat, StreamMode::Whole);
    let tokens = [token("b", -2.5, &[])];
    let choices = [
        Choice { text: "a", finish: Finish::Stop, logprobs: None },
        Choice { text: "b", finish: Finish::Length, logprobs: Some(&tokens) },
    ];
    let wanted = format!(
        r#"{{"id":"id-1","object":"chat.completion","created":1700,"model":"m","system_fingerprint":"fp_1","choices":[{},{}],"usage":{USAGE_JSON}}}"#,
        r#"{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"stop"}"#,
        r#"{"index":1,"message":{"role":"assistant","content":"b","refusal":null},"logprobs":{"content":[{"token":"b","logprob":-2.5,"bytes":[98],"top_logprobs":[]}],"refusal":null},"finish_reason":"length"}"#,
    );
    assert_eq!(text(shape.whole(&choices, &USAGE)), wanted);
    assert!(shape.usage_event(&USAGE).is_empty());
}

#[test]
fn a_completion_whole_and_as_events() {
    let tokens = [token("b", -2.5, &[("a", -0.5), ("a", -7.0)])];
    let choice = |finish: &str| {
        format!(
            r#"{{"text":"b","index":0,"logprobs":{{"tokens":["b"],"token_logprobs":[-2.5],"top_logprobs":[{{"a":-0.5,"b":-2.5}}],"text_offset":[3]}},"finish_reason":{finish}}}"#
        )
    };
    let head =
        r#"{"id":"id-1","object":"text_completion","created":1700,"model":"m","system_fingerprint":"fp_1""#;
    let whole = shape(Endpoint::Completions, StreamMode::Whole);
    let choices = [Choice { text: "b", finish: Finish::Stop, logprobs: Some(&tokens) }];
    assert_eq!(
        text(whole.whole(&choices, &USAGE)),
        format!(r#"{head},"choices":[{}],"usage":{USAGE_JSON}}}"#, choice("\"stop\""))
    );
    let events = shape(Endpoint::Completions, StreamMode::Events { usage: true });
    assert!(events.first_event(0).is_empty());
    assert_eq!(
        text(events.piece_event(&Piece { index: 0, text: "b", logprobs: Some(&tokens) })),
        format!("data: {head},\"choices\":[{}],\"usage\":null}}\n\n", choice("null"))
    );
    assert_eq!(
        text(events.finish_event(2, Finish::Stop)),
        format!(
            "data: {head},\"choices\":[{{\"text\":\"\",\"index\":2,\"logprobs\":null,\"finish_reason\":\"stop\"}}],\"usage\":null}}\n\n"
        )
    );
    assert_eq!(
        text(events.usage_event(&USAGE)),
        format!("data: {head},\"choices\":[],\"usage\":{USAGE_JSON}}}\n\n")
    );
}

#[test]
fn logprobs_are_always_numbers_and_bytes_always_named() {
    let shape = shape(Endpoint::Completions, StreamMode::Whole);
    let mut broken = token("\u{fffd}", f32::NEG_INFINITY, &[]);
    broken.bytes = vec![0xe2, 0x80];
    broken.top = vec![("\u{fffd}".into(), vec![0xff], f32::NAN), ("x".into(), vec![120], -0.0)];
    let tokens = [broken, token("y", 1e-9, &[("y", f32::MIN_POSITIVE)])];
    let choices = [Choice { text: "", finish: Finish::Length, logprobs: Some(&tokens) }];
    let body = text(shape.whole(&choices, &USAGE));
    let wanted = r#""logprobs":{"tokens":["bytes:\\xe2\\x80","y"],"token_logprobs":[-9999.0,0.0],"top_logprobs":[{"bytes:\\xff":-9999.0,"x":0.0,"bytes:\\xe2\\x80":-9999.0},{"y":0.0}],"text_offset":[3,3]}"#;
    assert!(body.contains(wanted), "{body}");
}

#[test]
fn errors_and_models() {
    let error =
        ErrorBody { message: "a \"b\"", kind: "server_error", param: None, code: Some("integrity_error") };
    let wanted =
        r#"{"error":{"message":"a \"b\"","type":"server_error","param":null,"code":"integrity_error"}}"#;
    assert_eq!(text(error_json(&error)), wanted);
    assert_eq!(text(error_event(&error)), format!("data: {wanted}\n\n"));
    let refused = chat(&chat_with(r#","n":9"#)).err().unwrap();
    assert_eq!(
        text(error_json(&refused.body())),
        r#"{"error":{"message":"Invalid 'n': 9 is over the most, 8.","type":"invalid_request_error","param":"n","code":"integer_above_max_value"}}"#
    );
    let model = ModelEntry { id: "m".into(), created: 5, window: 2048 };
    let entry = r#"{"id":"m","object":"model","created":5,"owned_by":"bulkhead","context_window":2048}"#;
    assert_eq!(text(model_json(&model)), entry);
    let both = format!(r#"{{"object":"list","data":[{entry},{entry}]}}"#);
    assert_eq!(text(models_json(&[model.clone(), model])), both);
    assert_eq!(text(models_json(&[])), r#"{"object":"list","data":[]}"#);
}

#[test]
fn every_event_is_one_json_of_the_promised_fields() {
    for endpoint in [Endpoint::Chat, Endpoint::Completions] {
        let shape = shape(endpoint, StreamMode::Events { usage: true });
        let piece = Piece { index: 3, text: "line\u{2028}\r\ndata: x", logprobs: None };
        for event in
            [shape.piece_event(&piece), shape.finish_event(3, Finish::Stop), shape.usage_event(&USAGE)]
        {
            let event = text(event);
            let line = event.strip_prefix("data: ").and_then(|event| event.strip_suffix("\n\n")).unwrap();
            assert!(!line.contains(['\n', '\r']), "{line:?}");
            let read: Value = serde_json::from_str(line).unwrap();
            for field in ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"] {
                assert!(read.get(field).is_some(), "no {field} in {line}");
            }
        }
    }
}
