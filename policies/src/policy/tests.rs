use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::field::Bounds;

fn refusal(text: &str) -> String {
    Policy::parse(text).expect_err("must be refused").to_string()
}

#[test]
fn the_shipped_policy_is_the_documented_one() {
    let policy = Policy::shipped().unwrap();
    let documented = [
        (Field::HeadBytesMax, 32_768),
        (Field::HeadTimeoutMs, 5_000),
        (Field::BodyBytesMax, 4_194_304),
        (Field::BodyTimeoutMs, 30_000),
        (Field::BodyIdleMs, 10_000),
        (Field::JsonDepthMax, 64),
        (Field::ConnectionsMax, 1_024),
        (Field::ConnectionsPerAddressMax, 256),
        (Field::IdleTimeoutMs, 75_000),
        (Field::WriteTimeoutMs, 30_000),
        (Field::DrainMs, 20_000),
        (Field::RequestTimeoutMs, 600_000),
        (Field::FirstTokenTimeoutMs, 120_000),
        (Field::MessagesMax, 2_048),
        (Field::ChoicesMax, 8),
        (Field::PromptsPerRequestMax, 8),
        (Field::StopSequencesMax, 4),
        (Field::StopBytesMax, 256),
        (Field::LogitBiasMax, 300),
        (Field::OutputTokensDefault, 1_024),
        (Field::CompletionTokensDefault, 16),
        (Field::AuthFailuresPerMinute, 60),
        (Field::KeysAgeMaxMs, 86_400_000),
        (Field::ConcurrencyPerKey, 64),
        (Field::KeysPerTenant, 100_000),
        (Field::ProjectsPerTenant, 10_000),
        (Field::LimitsPerTenant, 100_000),
        (Field::BudgetsPerTenant, 100_000),
    ];
    assert_eq!(documented.len(), Field::ALL.len());
    for (field, number) in documented {
        assert_eq!(policy.number(field), number, "{}", field.name());
    }
    assert_eq!(policy.window_cap(), WindowCap::Inherit);
    assert_eq!(policy.shared_limits_away(), SharedLimitsAway::Open);
    assert_eq!(policy.head_bytes_max(), 32_768_usize);
    assert_eq!(policy.drain_ms(), Duration::from_secs(20));
    assert_eq!(policy.output_tokens_default(), 1_024_u32);
}

#[test]
fn the_shipped_file_names_every_field_and_every_bound() {
    let table = toml_table(SHIPPED).unwrap();
    assert_eq!(table.len(), Field::ALL.len() + 2);
    let mut chunk = String::new();
    for line in SHIPPED.lines() {
        chunk.push_str(line);
        let Some(field) =
            Field::ALL.into_iter().find(|field| line.starts_with(&format!("{} =", field.name())))
        else {
            continue;
        };
        // The two fields of `stop` share one comment, and so one chunk.
        if field != Field::StopSequencesMax {
            assert!(chunk.contains(&thousands(field.bounds().ceiling)), "{}: {chunk}", field.name());
            chunk.clear();
        }
    }
}

fn thousands(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn a_field_left_out_keeps_its_shipped_value() {
    let policy = Policy::parse("body_bytes_max = 2_048\nwindow_cap = 4096").unwrap();
    assert_eq!(policy.body_bytes_max(), 2_048);
    assert_eq!(policy.head_bytes_max(), 32_768);
    assert_eq!(policy.window_cap().narrow(8_192), 4_096);
    assert_eq!(policy.window_cap().narrow(2_048), 2_048);
    assert_eq!(WindowCap::Inherit.narrow(2_048), 2_048);
}

#[test]
fn each_bound_is_exact_and_its_refusal_says_the_numbers() {
    for field in Field::ALL {
        let Bounds { floor, ceiling } = field.bounds();
        for value in [floor, ceiling] {
            let companions = format!("{} = {value}\n{}", field.name(), companion(field));
            let policy = Policy::parse(&companions).unwrap_or_else(|error| panic!("{companions}: {error}"));
            assert_eq!(policy.number(field), value);
        }
        for value in [i64::from(floor) - 1, i64::from(ceiling) + 1, i64::MAX, i64::MIN] {
            let said = refusal(&format!("{} = {value}", field.name()));
            let expected = format!(
                "field `{}` is {value}; it must be at least {floor} and at most {ceiling}",
                field.name()
            );
            assert_eq!(said, expected);
        }
    }
}

/// What must stand beside `field` at its bounds, so that only its own bound is tried.
fn companion(field: Field) -> String {
    let pairs = [
        (Field::ConnectionsMax, "connections_per_address_max = 1"),
        (Field::ConnectionsPerAddressMax, "connections_max = 65536"),
        (Field::RequestTimeoutMs, "first_token_timeout_ms = 100"),
        (Field::FirstTokenTimeoutMs, "request_timeout_ms = 3600000"),
    ];
    pairs.into_iter().find(|(of, _)| *of == field).map(|(_, line)| line.to_owned()).unwrap_or_default()
}

#[test]
fn a_contradiction_is_refused_with_both_numbers() {
    assert_eq!(
        refusal("connections_max = 10"),
        "field `connections_per_address_max` is 256; it must not be above `connections_max`, which is 10"
    );
    assert_eq!(
        refusal("request_timeout_ms = 1_000"),
        "field `first_token_timeout_ms` is 120000; it must not be above `request_timeout_ms`, which is 1000"
    );
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    assert_eq!(refusal("body_byte_max = 1024"), "field `body_byte_max` is not known");
    assert_eq!(refusal("[limits]\nhead_bytes_max = 4096"), "field `limits` is not known");
    let long = format!("\"\\u001b{}\" = 1", "x".repeat(1_000));
    assert_eq!(refusal(&long), format!("field `\u{fffd}{}` is not known", "x".repeat(63)));
}

#[test]
fn what_is_no_number_is_refused_by_type() {
    for (value, found) in
        [("\"64\"", "string"), ("1.5", "float"), ("nan", "float"), ("true", "boolean"), ("[1]", "array")]
    {
        assert_eq!(
            refusal(&format!("choices_max = {value}")),
            format!("field `choices_max` must be a whole number, not {found}")
        );
    }
    assert_eq!(refusal("window_cap = \"none\""), "field `window_cap` must be a whole number, not string");
    assert_eq!(
        refusal("window_cap = 0"),
        "field `window_cap` is 0; it must be at least 1 and at most 16777216"
    );
    assert_eq!(
        refusal("window_cap = 16777217"),
        "field `window_cap` is 16777217; it must be at least 1 and at most 16777216"
    );
}

#[test]
fn what_is_not_toml_is_refused_by_line() {
    assert!(
        refusal("choices_max = 8\nchoices_max = 8").starts_with("line 2: is not TOML"),
        "a field set twice"
    );
    assert!(refusal("# one\n# two\nchoices_max 8").starts_with("line 3: is not TOML"));
    let deep = format!("x = {}", "[".repeat(FILE_BYTES_MAX / 2));
    assert!(matches!(Policy::parse(&deep), Err(Unusable::NotToml { .. })));
}

#[test]
fn the_length_of_a_file_is_bounded_exactly() {
    let comment = |bytes: usize| format!("#{}", "x".repeat(bytes - 1));
    assert!(Policy::parse(&comment(FILE_BYTES_MAX)).is_ok());
    assert!(matches!(Policy::parse(&comment(FILE_BYTES_MAX + 1)), Err(Unusable::FileTooLong)));
}

#[test]
fn a_version_names_the_effect_and_nothing_else() {
    let shipped = Policy::shipped().unwrap();
    let same = Policy::parse("# a comment\nchoices_max = 8").unwrap();
    let other = Policy::parse("choices_max = 7").unwrap();
    assert_eq!(shipped.version(), same.version());
    assert_ne!(shipped.version(), other.version());
    assert_eq!(shipped.version().to_string().len(), 64);
    assert_eq!(Policy::parse(&other.canonical()).unwrap(), other);
}

#[test]
fn compare_lists_what_changes_and_only_that() {
    let old = Policy::shipped().unwrap();
    let new = Policy::parse("choices_max = 2\nwindow_cap = 512\nmessages_max = 2048").unwrap();
    let said: Vec<String> = old.compare(&new).iter().map(ToString::to_string).collect();
    assert_eq!(said, ["choices_max: 8 -> 2", "window_cap: inherit -> 512"]);
    assert!(new.compare(&new).is_empty());
}

proptest! {
    #[test]
    fn any_text_is_refused_or_within_bounds(text in "\\PC{0,200}") {
        if let Ok(policy) = Policy::parse(&text) {
            prop_assert!(Field::ALL.into_iter().all(|field| field.bounds().admits(policy.number(field))));
        }
    }

    #[test]
    fn every_accepted_policy_survives_its_own_rendering(
        values in proptest::collection::vec((0..Field::ALL.len(), any::<i64>(), any::<u32>()), 0..6),
    ) {
        let mut text = String::new();
        let mut seen = [false; Field::ALL.len()];
        for (index, wild, near) in values {
            if std::mem::replace(&mut seen[index], true) {
                continue;
            }
            let field = Field::ALL[index];
            let Bounds { floor, ceiling } = field.bounds();
            // Half the values lie near the bounds, where a mistake would show.
            let value = if near % 2 == 0 { wild } else { i64::from(floor + near % (ceiling - floor + 1)) };
            text.push_str(&format!("{} = {value}\n", field.name()));
        }
        if let Ok(policy) = Policy::parse(&text) {
            prop_assert!(Field::ALL.into_iter().all(|field| field.bounds().admits(policy.number(field))));
            prop_assert_eq!(Policy::parse(&policy.canonical()).unwrap(), policy);
        }
    }
}

#[test]
fn the_word_for_shared_limits_is_one_of_two() {
    let closed = Policy::parse("shared_limits_away = \"closed\"").unwrap();
    assert_eq!(closed.shared_limits_away(), SharedLimitsAway::Closed);
    assert_eq!(Policy::parse(&closed.canonical()).unwrap(), closed);
    let changes = Policy::shipped().unwrap().compare(&closed);
    let said: Vec<_> = changes.iter().map(|c| format!("{}: {} -> {}", c.field, c.old, c.new)).collect();
    assert_eq!(said, ["shared_limits_away: open -> closed"]);
    for bad in ["\"ajar\"", "1", "true"] {
        let said = refusal(&format!("shared_limits_away = {bad}"));
        assert_eq!(said, "field `shared_limits_away` must be \"open\" or \"closed\"");
    }
}
