//! What is taken, and what it means.

use model::{Message, Role};
use wire::Logprobs;

use super::*;

fn took(body: &str, call: Result<Call, BadRequest>) -> Call {
    call.unwrap_or_else(|refused| panic!("{body}: {refused}"))
}

fn took_chat(fields: &str) -> Call {
    let body = chat_with(fields);
    took(&body, chat(&body))
}

#[test]
fn a_bare_chat_has_the_defaults() {
    let call = took_chat("");
    assert!(call.endpoint == Endpoint::Chat && call.model == "m" && call.choices == 1);
    assert!(call.prompts == [Prompt::Chat(vec![Message { role: Role::User, content: "PLANTED".into() }])]);
    assert_eq!((call.max_tokens, call.max_tokens_field), (None, "max_tokens"));
    assert_eq!((call.logprobs, call.stream), (Logprobs::Omit, StreamMode::Whole));
    assert!(call.stop.is_empty());
    let defaults = Sampling {
        temperature: 1.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
        seed: None,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        logit_bias: vec![],
    };
    assert_eq!(call.sampling, defaults);
}

#[test]
fn each_field_arrives() {
    let call = took_chat(
        r#","temperature":0.5,"top_p":0.25,"top_k":40,"min_p":0.125,"seed":-1,"frequency_penalty":-2,
        "presence_penalty":2,"logit_bias":{"10":-100,"9":1.5},"n":8,"max_completion_tokens":7,"max_tokens":7,
        "stop":["a","b"],"logprobs":true,"top_logprobs":20,"stream":true,"stream_options":{"include_usage":true}"#,
    );
    let sampling = Sampling {
        temperature: 0.5,
        top_p: 0.25,
        top_k: 40,
        min_p: 0.125,
        seed: Some(u64::MAX),
        frequency_penalty: -2.0,
        presence_penalty: 2.0,
        logit_bias: vec![(9, 1.5), (10, -100.0)],
    };
    assert_eq!(call.sampling, sampling);
    assert_eq!((call.choices, call.max_tokens, call.max_tokens_field), (8, Some(7), "max_completion_tokens"));
    assert_eq!(call.stop, ["a", "b"]);
    assert_eq!(call.logprobs, Logprobs::Top(20));
    assert_eq!(call.stream, StreamMode::Events { usage: true });
    let sent = call.sampling.with_seed(5, call.logprobs);
    assert_eq!((sent.seed, sent.top_k, sent.logit_bias.len()), (5, 40, 2));
    assert_eq!(sent.logprobs, Logprobs::Top(20));
}

#[test]
fn numbers_in_their_forms() {
    assert_eq!(took_chat(r#","max_tokens":2.0"#).max_tokens, Some(2));
    assert_eq!(took_chat(r#","max_tokens":2e1"#).max_tokens, Some(20));
    assert_eq!(took_chat(r#","max_tokens":4294967295"#).max_tokens, Some(u32::MAX));
    assert_eq!(took_chat(r#","seed":18446744073709551615"#).sampling.seed, Some(u64::MAX));
    assert_eq!(
        took_chat(r#","seed":9223372036854775807"#).sampling.seed,
        Some(1 << 63).map(|top: u64| top - 1)
    );
    assert_eq!(took_chat(r#","temperature":-0"#).sampling.temperature, 0.0);
    assert_eq!(took_chat(r#","temperature":2"#).sampling.temperature, 2.0);
    assert_eq!(took_chat(r#","top_p":0"#).sampling.top_p, f32::MIN_POSITIVE);
    assert_eq!(took_chat(r#","top_p":1e-300"#).sampling.top_p, f32::MIN_POSITIVE);
    assert_eq!(took_chat(r#","top_k":-1"#).sampling.top_k, 0);
}

#[test]
fn fields_that_change_nothing_are_left_aside() {
    let plain = took_chat("");
    let null: Vec<String> = [
        "temperature",
        "top_p",
        "seed",
        "stop",
        "n",
        "max_tokens",
        "max_completion_tokens",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "frequency_penalty",
        "presence_penalty",
        "stream",
        "stream_options",
        "user",
        "metadata",
        "store",
        "service_tier",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "response_format",
        "modalities",
        "audio",
        "prediction",
        "web_search_options",
        "reasoning_effort",
        "verbosity",
        "parallel_tool_calls",
    ]
    .map(|name| format!(",\"{name}\":null"))
    .into();
    let same = [
        null.concat().as_str(),
        r#","user":"u","metadata":{"a":"b"},"store":false,"service_tier":"auto","safety_identifier":"s""#,
        r#","prompt_cache_key":"k","prompt_cache_retention":"24h","parallel_tool_calls":true"#,
        r#","tools":[],"tool_choice":"none","functions":[],"function_call":"auto","verbosity":"medium""#,
        r#","response_format":{"type":"text"},"modalities":["text"],"reasoning_effort":"none""#,
        r#","logprobs":false,"top_logprobs":0,"stop":[],"stream":false,"logit_bias":{}"#,
    ]
    .map(|fields| took_chat(fields) == plain);
    assert_eq!(same, [true; 6]);
    let bare = completion_with("");
    let with = completion_with(r#","user":"u","echo":false,"best_of":1,"suffix":"","logprobs":null"#);
    assert!(took(&with, completion(&with)) == took(&bare, completion(&bare)));
}

#[test]
fn messages_of_each_role_and_form() {
    let body = r#"{"model":"m","messages":[
        {"role":"system","content":"a"},
        {"role":"developer","content":"b"},
        {"role":"user","name":"n","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]},
        {"role":"assistant","content":"e","refusal":null,"annotations":[],"tool_calls":null,"audio":null},
        {"role":"tool","content":"","tool_call_id":"t"}]}"#;
    let call = took(body, chat(body));
    let wanted = [
        (Role::System, "a"),
        (Role::Developer, "b"),
        (Role::User, "cd"),
        (Role::Assistant, "e"),
        (Role::Tool, ""),
    ]
    .map(|(role, content)| Message { role, content: content.into() });
    assert!(call.prompts == [Prompt::Chat(wanted.into())]);
}

#[test]
fn prompts_of_each_form() {
    let forms = [
        (r#""a""#, vec![Prompt::Text("a".into())]),
        (r#""""#, vec![Prompt::Text(String::new())]),
        (r#"["a","b"]"#, vec![Prompt::Text("a".into()), Prompt::Text("b".into())]),
        ("[1,2.0,4294967295]", vec![Prompt::Tokens(vec![1, 2, u32::MAX])]),
        ("[[1],[2,3]]", vec![Prompt::Tokens(vec![1]), Prompt::Tokens(vec![2, 3])]),
    ];
    for (prompt, wanted) in forms {
        let body = format!(r#"{{"model":"m","prompt":{prompt},"logprobs":5}}"#);
        let call = took(&body, completion(&body));
        assert!(call.prompts == wanted, "{prompt}");
        assert_eq!(call.logprobs, Logprobs::Top(5));
    }
}

#[test]
fn escapes_and_depth_at_the_bound() {
    let body = r#"{"model":"m\u0041","messages":[{"role":"user","content":"\u0000\ud83d\ude00\n"}]}"#;
    let call = took(body, chat(body));
    assert_eq!(call.model, "mA");
    let content = "\0\u{1f600}\n".to_owned();
    assert!(call.prompts == [Prompt::Chat(vec![Message { role: Role::User, content }])]);
    // The body itself is one level and `metadata` another: 62 are left.
    took_chat(&format!(r#","metadata":{{"a":{}{}}}"#, "[".repeat(62), "]".repeat(62)));
}
