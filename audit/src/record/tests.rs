use isolation::units::Tokens;

use super::*;
use crate::alarm::{AlarmCause, Unsound};

#[test]
fn a_refusal_keeps_its_numbers_and_is_no_success() {
    let rejection = outcome::Rejection::TooLong { asked: 681_281, window: Tokens::new(681_280) };
    let recorded = Outcome::from(outcome::Outcome::Rejected(rejection));
    assert_eq!(
        serde_json::to_string(&recorded).unwrap(),
        r#"{"rejected":{"reason":"too_long","bound":{"asked":681281,"allowed":681280}}}"#
    );
    let completed = Outcome::from(outcome::Outcome::Completed(outcome::Finish::Length));
    assert_eq!(serde_json::to_string(&completed).unwrap(), r#"{"completed":{"finish":"length"}}"#);
}

#[test]
fn a_key_id_has_no_room_for_text() {
    assert!(KeyId::new(b"3kTMd0ZyQ9aB").is_some());
    for bad in [b"3kTMd0ZyQ9a ", b"3kTMd0ZyQ9a\"", b"3kTMd0ZyQ9\xc3\xa9"] {
        assert_eq!(KeyId::new(bad), None);
    }
}

#[test]
fn the_longest_record_leaves_room_in_a_line() {
    let ended = Ended {
        request: Hex([255; 16]),
        sequence: u16::MAX,
        tenant: Hex([255; 16]),
        tag: Word(u64::MAX),
        key: KeyId([b'z'; 12]),
        endpoint: Endpoint::Completion,
        status: u16::MAX,
        outcome: Outcome::Rejected {
            reason: Reason::NothingToGenerate,
            bound: Some(Bound { asked: u64::MAX, allowed: u64::MAX }),
        },
        edge_tokens: u32::MAX,
        window: u32::MAX,
        proof: Proof::Accepted {
            model: Hex([255; 32]),
            epoch: Word(u64::MAX),
            engine_tokens: u32::MAX,
            cached: u32::MAX,
            written: u32::MAX,
            attended: u32::MAX,
            pages: u32::MAX,
            generations: Word(u64::MAX),
        },
        completion: u32::MAX,
        first_token_ms: u32::MAX,
        total_ms: u32::MAX,
    };
    let text = serde_json::to_string(&Record::Ended(ended)).unwrap();
    assert!(text.len() < 750, "{}: {text}", text.len());
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), Record::Ended(ended));
    let spoken = text.replace("\"sequence\"", "\"prompt\":\"hello\",\"sequence\"");
    assert!(serde_json::from_str::<Record>(&spoken).is_err(), "no other field is read");
}

/// Each kind as it lies in the logs of those who run us: what was written once must be read for ever.
#[test]
fn each_kind_of_record_has_the_form_that_it_always_had() {
    let (model, policy) = ("0a".repeat(32), "0b".repeat(32));
    let id = "0c".repeat(16);
    let who = format!(r#""tenant":"{id}","tag":"0000000000000007","key":"3kTMd0ZyQ9aB","endpoint":"chat""#);
    let forms = [
        format!(r#"{{"boot":{{"version":[0,1,0],"policy":"{policy}","source":"last_known_good"}}}}"#),
        format!(
            r#"{{"engine_seen":{{"model":"{model}","epoch":"0000000000000003","window":8,"capacity":64,"page_tokens":4}}}}"#
        ),
        r#"{"alarm":{"epoch":"0000000000000003","number":0,"cause":{"withdrawn":{"page":5,"generation":9,"last":"0000000000000007"}}}}"#
            .to_owned(),
        r#"{"alarm":{"epoch":"0000000000000003","number":1,"cause":{"withdrawn":{"page":6,"generation":0,"last":null}}}}"#
            .to_owned(),
        format!(
            r#"{{"admitted":{{"request":"{id}","sequence":0,{who},"model":"{model}","epoch":"0000000000000003","policy":"{policy}","edge_tokens":3,"max_tokens":5,"window":8}}}}"#
        ),
        format!(
            r#"{{"ended":{{"request":"{id}","sequence":0,{who},"status":502,"outcome":{{"failed":{{"failure":"isolation"}}}},"edge_tokens":3,"window":8,"proof":"absent","completion":0,"first_token_ms":0,"total_ms":9}}}}"#
        ),
    ];
    for form in forms {
        let record: Record = serde_json::from_str(&form).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), form);
    }
    let whys = [
        (Unsound::Lease, "lease"),
        (Unsound::Read, "read"),
        (Unsound::Prefix, "prefix"),
        (Unsound::Census, "census"),
        (Unsound::Receipt, "receipt"),
        (Unsound::Steps, "steps"),
        (Unsound::Scrub, "scrub"),
        (Unsound::Starved, "starved"),
        (Unsound::WholePrompt, "whole_prompt"),
    ];
    for (why, word) in whys {
        let alarm = EngineAlarm { epoch: Word(3), number: 2, cause: AlarmCause::Unsound { why } };
        let form = format!(
            r#"{{"alarm":{{"epoch":"0000000000000003","number":2,"cause":{{"unsound":{{"why":"{word}"}}}}}}}}"#
        );
        assert_eq!(serde_json::to_string(&Record::Alarm(alarm)).unwrap(), form);
        assert_eq!(serde_json::from_str::<Record>(&form).unwrap(), Record::Alarm(alarm));
    }
}
