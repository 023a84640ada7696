use isolation::units::Tokens;

use super::*;

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
