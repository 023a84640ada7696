//! Everything that is refused: code, param, and the numbers of the message.

use super::*;

type Row = (String, BadCode, Option<&'static str>, &'static [&'static str]);

fn check(name: &str, read: fn(&str) -> Result<Call, BadRequest>, rows: Vec<Row>) {
    for (body, code, param, told) in rows {
        let head: String = body.chars().take(300).collect();
        let refused = read(&body).err().unwrap_or_else(|| panic!("{name} took {head}"));
        assert_eq!((refused.code, refused.param.as_deref()), (code, param), "{head}: {}", refused.message);
        for part in told {
            assert!(refused.message.contains(part), "no {part} in {}", refused.message);
        }
        assert!(!refused.message.contains("PLANTED"), "it quotes the prompt: {}", refused.message);
        assert!(refused.message.len() < 500, "{} bytes of message", refused.message.len());
    }
}

#[test]
fn bodies_that_are_no_json() {
    use BadCode::*;
    let deep = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let rows: Vec<Row> = vec![
        (String::new(), InvalidJson, None, &[]),
        ("hello".into(), InvalidJson, None, &["line 1"]),
        (chat_with("")[..30].into(), InvalidJson, None, &[]),
        (chat_with("") + "{}", InvalidJson, None, &["trailing"]),
        ("\u{feff}{}".into(), InvalidJson, None, &[]),
        (r#"{"model":"\ud800"}"#.into(), InvalidJson, None, &[]),
        ("{\"model\":\"\n\"}".into(), InvalidJson, None, &[]),
        ("[]".into(), InvalidType, None, &["an array"]),
        ("null".into(), InvalidType, None, &["null"]),
        (chat_with(r#","top_p":NaN"#), InvalidJson, None, &[]),
        (chat_with(r#","top_p":-Infinity"#), InvalidJson, None, &[]),
        (chat_with(r#","top_p":1e999"#), InvalidJson, None, &["out of range"]),
        (chat_with(r#","top_p":01"#), InvalidJson, None, &[]),
        (chat_with(&format!(r#","metadata":{}"#, deep(64))), JsonTooDeep, None, &["64"]),
        (chat_with(&format!(r#","metadata":{}"#, deep(100_000))), JsonTooDeep, None, &["64"]),
        ("[".repeat(100_000), JsonTooDeep, None, &["64"]),
        (format!("[{}1]", "1,".repeat(600_000)), JsonTooManyValues, None, &["524288"]),
        (chat_with(r#","n":1,"n":1"#), DuplicateParameter, Some("n"), &[]),
        (chat_with(r#","metadata":{"a":[{"b":1,"b":1}]}"#), DuplicateParameter, Some("metadata.a[0].b"), &[]),
        (
            r#"{"messages":[{"role":"user"},{"role":"user","role":"user"}]}"#.into(),
            DuplicateParameter,
            Some("messages[1].role"),
            &[],
        ),
    ];
    check("chat", chat, rows);
    for body in [b"{\"model\":\"\xff\"}".as_slice(), b"\xff", b"{\"model\":\"\xed\xa0\x80\"}"] {
        let refused = parse(Endpoint::Chat, body, &policy()).err().unwrap();
        assert_eq!((refused.code, refused.param), (InvalidJson, None));
        assert!(refused.message.contains("UTF-8"), "{}", refused.message);
    }
}

#[test]
fn messages_that_are_none() {
    use BadCode::*;
    let one = |message: &str| format!(r#"{{"model":"m","messages":[{message}]}}"#);
    let many = one(&vec![r#"{"role":"user","content":""}"#; 2049].join(","));
    let rows: Vec<Row> = vec![
        (r#"{"messages":[{"role":"user","content":"x"}]}"#.into(), MissingParameter, Some("model"), &[]),
        (r#"{"model":"m"}"#.into(), MissingParameter, Some("messages"), &[]),
        (r#"{"model":"m","messages":null}"#.into(), InvalidType, Some("messages"), &["null"]),
        (r#"{"model":null}"#.into(), InvalidType, Some("model"), &["null"]),
        (r#"{"model":1}"#.into(), InvalidType, Some("model"), &["a string", "an integer"]),
        (r#"{"model":""}"#.into(), EmptyString, Some("model"), &[]),
        (
            format!(r#"{{"model":"{}"}}"#, "m".repeat(257)),
            StringAboveMaxLength,
            Some("model"),
            &["257", "256"],
        ),
        (one(""), EmptyArray, Some("messages"), &[]),
        (r#"{"model":"m","messages":"PLANTED"}"#.into(), InvalidType, Some("messages"), &["a string"]),
        (many, ArrayAboveMaxLength, Some("messages"), &["2049", "2048"]),
        (one("1"), InvalidType, Some("messages[0]"), &["an object", "an integer"]),
        (one(r#"{"content":"PLANTED"}"#), MissingParameter, Some("messages[0].role"), &[]),
        (one(r#"{"role":"PLANTED","content":""}"#), InvalidValue, Some("messages[0].role"), &[]),
        (one(r#"{"role":"function","content":""}"#), UnsupportedValue, Some("messages[0].role"), &[]),
        (one(r#"{"role":7,"content":""}"#), InvalidType, Some("messages[0].role"), &[]),
        (one(r#"{"role":"user"}"#), MissingParameter, Some("messages[0].content"), &[]),
    ];
    check("chat", chat, rows);
}

#[test]
fn contents_that_are_none() {
    use BadCode::*;
    let one = |message: &str| format!(r#"{{"model":"m","messages":[{message}]}}"#);
    let user = |rest: &str| one(&format!(r#"{{"role":"user",{rest}}}"#));
    let rows: Vec<Row> = vec![
        (user(r#""content":null"#), InvalidType, Some("messages[0].content"), &["null"]),
        (one(r#"{"role":"assistant","content":null}"#), InvalidType, Some("messages[0].content"), &["null"]),
        (user(r#""content":1"#), InvalidType, Some("messages[0].content"), &[]),
        (user(r#""content":[]"#), EmptyArray, Some("messages[0].content"), &[]),
        (user(r#""content":["PLANTED"]"#), InvalidType, Some("messages[0].content[0]"), &[]),
        (user(r#""content":[{"text":"x"}]"#), MissingParameter, Some("messages[0].content[0].type"), &[]),
        (
            user(
                r#""content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"PLANTED"}}]"#,
            ),
            UnsupportedValue,
            Some("messages[0].content[1].type"),
            &["image_url"],
        ),
        (user(r#""content":[{"type":"text"}]"#), MissingParameter, Some("messages[0].content[0].text"), &[]),
        (
            user(r#""content":[{"type":"text","text":"x","cache":1}]"#),
            UnknownParameter,
            Some("messages[0].content[0].cache"),
            &[],
        ),
        (user(r#""content":"x","weight":1"#), UnknownParameter, Some("messages[0].weight"), &["weight"]),
        (
            user(r#""content":"x","tool_call_id":"a""#),
            UnknownParameter,
            Some("messages[0].tool_call_id"),
            &[],
        ),
        (user(r#""content":"x","name":1"#), InvalidType, Some("messages[0].name"), &[]),
        (
            one(r#"{"role":"assistant","content":"x","tool_calls":[{"id":"a"}]}"#),
            UnsupportedParameter,
            Some("messages[0].tool_calls"),
            &[],
        ),
        (
            user(r#""content":"x","refusal":"PLANTED""#),
            UnsupportedParameter,
            Some("messages[0].refusal"),
            &[],
        ),
        (
            user(r#""content":"x","a PLANTED key":1"#),
            UnknownParameter,
            Some("messages[0].<a name of 13 bytes>"),
            &[],
        ),
    ];
    check("chat", chat, rows);
}

#[test]
fn fields_that_are_wrong_in_both() {
    use BadCode::*;
    let rows: Vec<(&str, BadCode, &'static str, &'static [&'static str])> = vec![
        (r#""n":9"#, IntegerAboveMax, "n", &["9", "8"]),
        (r#""n":0"#, IntegerBelowMin, "n", &["0", "1"]),
        (r#""n":1.5"#, InvalidType, "n", &["1.5"]),
        (r#""n":"2""#, InvalidType, "n", &["a string"]),
        (r#""max_tokens":-1"#, IntegerBelowMin, "max_tokens", &["-1"]),
        (r#""max_tokens":0"#, IntegerBelowMin, "max_tokens", &["0"]),
        (r#""max_tokens":4294967296"#, IntegerAboveMax, "max_tokens", &["4294967296", "4294967295"]),
        (r#""max_tokens":18446744073709551615"#, IntegerAboveMax, "max_tokens", &["18446744073709551615"]),
        (r#""max_tokens":1e300"#, IntegerAboveMax, "max_tokens", &[]),
        (r#""max_tokens":true"#, InvalidType, "max_tokens", &["a boolean"]),
        (r#""temperature":2.1"#, DecimalAboveMax, "temperature", &["2.1", "2"]),
        (r#""temperature":-0.1"#, DecimalBelowMin, "temperature", &["-0.1", "0"]),
        (r#""temperature":1e300"#, DecimalAboveMax, "temperature", &["1e300"]),
        (r#""temperature":"hot""#, InvalidType, "temperature", &["a number", "a string"]),
        (r#""top_p":1.1"#, DecimalAboveMax, "top_p", &["1.1", "1"]),
        (r#""top_p":-1"#, DecimalBelowMin, "top_p", &["-1", "0"]),
        (r#""min_p":2"#, DecimalAboveMax, "min_p", &[]),
        (r#""top_k":-2"#, IntegerBelowMin, "top_k", &["-2", "-1"]),
        (r#""top_k":1048577"#, IntegerAboveMax, "top_k", &[]),
        (r#""frequency_penalty":3"#, DecimalAboveMax, "frequency_penalty", &["3", "2"]),
        (r#""presence_penalty":-2.5"#, DecimalBelowMin, "presence_penalty", &["-2.5", "-2"]),
        (r#""seed":99999999999999999999999"#, IntegerAboveMax, "seed", &["18446744073709551615"]),
        (r#""seed":-9300000000000000000"#, IntegerBelowMin, "seed", &[]),
        (r#""seed":0.5"#, InvalidType, "seed", &["0.5"]),
        (r#""stop":["a","b","c","d","e"]"#, ArrayAboveMaxLength, "stop", &["5", "4"]),
        (r#""stop":["a",""]"#, EmptyString, "stop[1]", &[]),
        (r#""stop":["a",1]"#, InvalidType, "stop[1]", &[]),
        (r#""stop":"""#, EmptyString, "stop", &[]),
        (r#""stop":7"#, InvalidType, "stop", &[]),
        (r#""logit_bias":{"1":101}"#, DecimalAboveMax, "logit_bias.1", &["101", "100"]),
        (r#""logit_bias":{"1":-100.5}"#, DecimalBelowMin, "logit_bias.1", &[]),
        (r#""logit_bias":{"x":1}"#, InvalidValue, "logit_bias.x", &[]),
        (r#""logit_bias":{"01":1}"#, InvalidValue, "logit_bias.01", &[]),
        (r#""logit_bias":{"+1":1}"#, InvalidValue, "logit_bias.<a name of 2 bytes>", &[]),
        (r#""logit_bias":{"-1":1}"#, InvalidValue, "logit_bias.-1", &[]),
        (r#""logit_bias":{"4294967296":1}"#, InvalidValue, "logit_bias.4294967296", &[]),
        (r#""logit_bias":[]"#, InvalidType, "logit_bias", &[]),
        (r#""stream":"yes""#, InvalidType, "stream", &[]),
        (r#""stream_options":{"include_usage":true}"#, InvalidValue, "stream_options", &["stream"]),
        (
            r#""stream":true,"stream_options":{"include_usage":1}"#,
            InvalidType,
            "stream_options.include_usage",
            &[],
        ),
        (r#""stream":true,"stream_options":{"other":1}"#, UnknownParameter, "stream_options.other", &[]),
        (
            r#""stream":true,"stream_options":{"include_obfuscation":true}"#,
            UnsupportedParameter,
            "stream_options.include_obfuscation",
            &[],
        ),
        (r#""user":1"#, InvalidType, "user", &[]),
        (r#""max_token":1"#, UnknownParameter, "max_token", &["max_token"]),
        (r#""reasoning":{"effort":"high"}"#, UnknownParameter, "reasoning", &[]),
        (r#""aa":1,"ab":1"#, UnknownParameter, "aa", &[]),
    ];
    let row = |with: fn(&str) -> String| {
        let row =
            move |(fields, code, param, told): &(&str, BadCode, &'static str, &'static [&'static str])| {
                (with(&format!(",{fields}")), *code, Some(*param), *told)
            };
        rows.iter().map(row).collect::<Vec<Row>>()
    };
    check("chat", chat, row(chat_with));
    check("completions", completion, row(completion_with));
}

#[test]
fn bounds_that_the_policy_sets() {
    let biases: Vec<_> = (0..301).map(|id| format!("\"{id}\":1")).collect();
    let biases = chat_with(&format!(r#","logit_bias":{{{}}}"#, biases.join(",")));
    let stop = chat_with(&format!(r#","stop":"{}""#, "s".repeat(257)));
    let prompts = format!(r#"{{"model":"m","prompt":[{}]}}"#, ["\"a\""; 9].join(","));
    check(
        "chat",
        chat,
        vec![
            (biases, BadCode::ArrayAboveMaxLength, Some("logit_bias"), &["301", "300"]),
            (stop, BadCode::StringAboveMaxLength, Some("stop"), &["257", "256"]),
        ],
    );
    check(
        "completions",
        completion,
        vec![(prompts, BadCode::ArrayAboveMaxLength, Some("prompt"), &["9", "8"])],
    );
    let narrow = Policy::parse("choices_max = 2\nstop_sequences_max = 0\njson_depth_max = 8").unwrap();
    let refused = |fields: &str| parse(Endpoint::Chat, chat_with(fields).as_bytes(), &narrow).err().unwrap();
    assert_eq!(refused(r#","n":3"#).code, BadCode::IntegerAboveMax);
    assert_eq!(refused(r#","stop":"a""#).code, BadCode::ArrayAboveMaxLength);
    assert!(refused(r#","metadata":{"a":[[[[[[[1]]]]]]]}"#).message.contains('8'));
}

#[test]
fn fields_that_are_wrong_in_a_chat() {
    use BadCode::*;
    let rows: Vec<(&str, BadCode, &'static str)> = vec![
        (r#""logprobs":1"#, InvalidType, "logprobs"),
        (r#""top_logprobs":21"#, IntegerAboveMax, "top_logprobs"),
        (r#""top_logprobs":2"#, InvalidValue, "top_logprobs"),
        (r#""max_tokens":3,"max_completion_tokens":4"#, InvalidValue, "max_tokens"),
        (r#""max_completion_tokens":0"#, IntegerBelowMin, "max_completion_tokens"),
        (r#""tools":[{"type":"function"}]"#, UnsupportedParameter, "tools"),
        (r#""tools":{}"#, InvalidType, "tools"),
        (r#""functions":[{"name":"f"}]"#, UnsupportedParameter, "functions"),
        (r#""tool_choice":"required""#, UnsupportedValue, "tool_choice"),
        (r#""tool_choice":{"type":"function"}"#, UnsupportedValue, "tool_choice"),
        (r#""function_call":{"name":"f"}"#, UnsupportedValue, "function_call"),
        (r#""response_format":{"type":"json_object"}"#, UnsupportedValue, "response_format"),
        (r#""response_format":{"type":"json_schema","json_schema":{}}"#, UnsupportedValue, "response_format"),
        (r#""response_format":{"type":"PLANTED"}"#, InvalidValue, "response_format"),
        (r#""response_format":"text""#, InvalidType, "response_format"),
        (r#""response_format":{}"#, MissingParameter, "response_format.type"),
        (r#""modalities":["text","audio"]"#, UnsupportedValue, "modalities"),
        (r#""audio":{"voice":"x"}"#, UnsupportedParameter, "audio"),
        (r#""prediction":{}"#, UnsupportedParameter, "prediction"),
        (r#""web_search_options":{}"#, UnsupportedParameter, "web_search_options"),
        (r#""reasoning_effort":"high""#, UnsupportedValue, "reasoning_effort"),
        (r#""verbosity":"low""#, UnsupportedValue, "verbosity"),
        (r#""store":true"#, UnsupportedValue, "store"),
        (r#""metadata":[]"#, InvalidType, "metadata"),
        (r#""parallel_tool_calls":"x""#, InvalidType, "parallel_tool_calls"),
        (r#""prompt":"x""#, UnknownParameter, "prompt"),
        (r#""echo":true"#, UnknownParameter, "echo"),
    ];
    let row = |(fields, code, param)| -> Row { (chat_with(&format!(",{fields}")), code, Some(param), &[]) };
    check("chat", chat, rows.into_iter().map(row).collect());
}

#[test]
fn fields_that_are_wrong_in_a_completion() {
    use BadCode::*;
    let prompt = |prompt: &str| format!(r#"{{"model":"m","prompt":{prompt}}}"#);
    let with = |fields: &str| completion_with(&format!(",{fields}"));
    let rows: Vec<Row> = vec![
        (r#"{"model":"m"}"#.into(), MissingParameter, Some("prompt"), &[]),
        (prompt("null"), InvalidType, Some("prompt"), &["null"]),
        (prompt("[]"), EmptyArray, Some("prompt"), &[]),
        (prompt("[[]]"), EmptyArray, Some("prompt[0]"), &[]),
        (prompt("{}"), InvalidType, Some("prompt"), &[]),
        (prompt(r#"["a",1]"#), InvalidType, Some("prompt[1]"), &[]),
        (prompt(r#"[1,"PLANTED"]"#), InvalidType, Some("prompt[1]"), &["a string"]),
        (prompt("[1,-1]"), IntegerBelowMin, Some("prompt[1]"), &["-1"]),
        (prompt("[[1],[2,4294967296]]"), IntegerAboveMax, Some("prompt[1][1]"), &[]),
        (prompt("[1.5]"), InvalidType, Some("prompt[0]"), &[]),
        (with(r#""logprobs":6"#), IntegerAboveMax, Some("logprobs"), &["6", "5"]),
        (with(r#""logprobs":true"#), InvalidType, Some("logprobs"), &[]),
        (with(r#""echo":true"#), UnsupportedValue, Some("echo"), &[]),
        (with(r#""best_of":2"#), UnsupportedValue, Some("best_of"), &["1"]),
        (with(r#""best_of":0"#), IntegerBelowMin, Some("best_of"), &["0"]),
        (with(r#""best_of":"x""#), InvalidType, Some("best_of"), &[]),
        (with(r#""suffix":"PLANTED""#), UnsupportedParameter, Some("suffix"), &[]),
        (with(r#""messages":[]"#), UnknownParameter, Some("messages"), &[]),
        (with(r#""max_completion_tokens":1"#), UnknownParameter, Some("max_completion_tokens"), &[]),
        (with(r#""top_logprobs":1"#), UnknownParameter, Some("top_logprobs"), &[]),
    ];
    check("completions", completion, rows);
}
