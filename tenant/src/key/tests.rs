use proptest::prelude::*;
use ring::rand::SystemRandom;

use super::*;

fn rendered(id: &str, secret: &str) -> String {
    let key = ApiKey {
        kind: KeyKind::Live,
        id: KeyId::parse(id).unwrap(),
        secret: Zeroizing::new(secret.as_bytes().try_into().unwrap()),
    };
    key.reveal().expose().clone()
}

#[test]
fn the_format_is_the_documented_one() {
    let text = rendered("3kTMd0ZyQ9aB", &"x".repeat(43));
    assert_eq!(text.len(), 70);
    let rest = text.strip_prefix("bh_live_3kTMd0ZyQ9aB_").unwrap();
    assert!(rest.starts_with(&"x".repeat(43)));
    // CRC-32/ISO-HDLC computed apart (zlib), then written in base 62.
    assert_eq!(&text[64..], "44auZ1");
}

#[test]
fn generated_keys_differ_and_parse() {
    let random = SystemRandom::new();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..200 {
        let key = ApiKey::generate(KeyKind::Live, &random).unwrap();
        let text = key.reveal();
        assert!(ApiKey::parse(text.expose()).unwrap().id() == key.id());
        assert!(seen.insert(text.expose().clone()));
    }
}

#[test]
fn each_kind_has_its_own_prefix_and_parses_as_itself() {
    let random = SystemRandom::new();
    for kind in KeyKind::ALL {
        let text = ApiKey::generate(kind, &random).unwrap().reveal();
        assert!(text.expose().starts_with(&format!("bh_{}_", kind.name())));
        assert!(text.expose().len() <= KEY_CHARS_MAX);
        assert_eq!(ApiKey::parse(text.expose()).unwrap().kind(), kind);
        assert_eq!(KeyKind::parse(kind.name()), Some(kind));
    }
    assert_eq!(KeyKind::parse("root"), None);
    let live = ApiKey::generate(KeyKind::Live, &random).unwrap().reveal();
    let renamed = live.expose().replacen("live", "test", 1);
    assert!(ApiKey::parse(&renamed).is_err(), "the checksum covers the kind");
}

#[test]
fn an_id_prints_as_itself_and_nothing_more() {
    let id = KeyId::parse("3kTMd0ZyQ9aB").unwrap();
    assert_eq!(
        (id.to_string().as_str(), format!("{id:?}").as_str()),
        ("3kTMd0ZyQ9aB", "KeyId(3kTMd0ZyQ9aB)")
    );
    for bad in ["", "3kTMd0ZyQ9a", "3kTMd0ZyQ9aBc", "3kTMd0ZyQ9a_", "3kTMd0ZyQ9é"] {
        assert_eq!(KeyId::parse(bad), None, "{bad}");
    }
}

/// What scanners are told in the docs is what keys look like.
#[test]
fn the_published_pattern_matches_each_kind_and_the_checksum_tells_keys_from_look_alikes() {
    let page = include_str!("../../../docs/admin-api.md");
    assert!(page.contains(&format!("    {KEY_PATTERN}\n")), "docs/admin-api.md does not show KEY_PATTERN");
    let pattern = regex::Regex::new(KEY_PATTERN).unwrap();
    let random = SystemRandom::new();
    for kind in KeyKind::ALL {
        for _ in 0..50 {
            let text = ApiKey::generate(kind, &random).unwrap().reveal();
            let within = format!("key = \"{}\"", text.expose());
            assert_eq!(pattern.find(&within).unwrap().as_str(), text.expose().as_str(), "{kind:?}");
        }
    }
    let example = rendered("3kTMd0ZyQ9aB", &"x".repeat(43));
    assert!(page.contains(&example), "docs/admin-api.md has no line with {example}");
    let wrong = example.replace("44auZ1", "44auZ2");
    assert!(pattern.is_match(&wrong) && ApiKey::parse(&wrong).is_err(), "the checksum is looked at apart");
    for other in ["bh_live_3kTMd0ZyQ9aB", &example[..69], &example.replace("live", "root")] {
        assert!(!pattern.is_match(other), "{other}");
    }
}

/// Every single byte changed to every other printable one: 70 x 94 keys, none accepted.
#[test]
fn any_single_character_changed_is_refused() {
    let text = rendered("3kTMd0ZyQ9aB", "0aZ9bY8cX7dW6eV5fU4gT3hS2iR1jQ0kP9lO8mN7nM6");
    for at in 0..text.len() {
        for other in b' '..=b'~' {
            let mut bytes = text.clone().into_bytes();
            if std::mem::replace(&mut bytes[at], other) != other {
                let changed = String::from_utf8(bytes).unwrap();
                assert!(ApiKey::parse(&changed).is_err(), "{at}: {changed}");
            }
        }
    }
}

proptest! {
    #[test]
    fn a_key_survives_its_own_rendering(id in "[0-9A-Za-z]{12}", secret in "[0-9A-Za-z]{43}") {
        let text = rendered(&id, &secret);
        let key = ApiKey::parse(&text).unwrap();
        prop_assert!(key.id().as_str() == id);
        prop_assert_eq!(&key.secret[..], secret.as_bytes());
        prop_assert!(*key.reveal().expose() == text);
    }

    #[test]
    fn two_characters_swapped_cut_or_added_are_refused(
        id in "[0-9A-Za-z]{12}", secret in "[0-9A-Za-z]{43}", at in 0..69_usize, extra in any::<char>(),
    ) {
        let text = rendered(&id, &secret);
        let mut swapped = text.clone().into_bytes();
        swapped.swap(at, at + 1);
        let swapped = String::from_utf8(swapped).unwrap();
        prop_assert_eq!(ApiKey::parse(&swapped).is_ok(), swapped == text);
        prop_assert!(ApiKey::parse(&text[..at]).is_err());
        let added = format!("{}{extra}{}", &text[..at], &text[at..]);
        prop_assert!(ApiKey::parse(&added).is_err());
    }

    #[test]
    fn any_text_is_refused_without_a_panic(text in "\\PC{0,80}") {
        prop_assert!(ApiKey::parse(&text).is_err());
    }
}
