//! The walk against a plain BPE, on random vocabularies and giant words; files that are no tokenizer of ours.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::gguf::{Array, Value};
use crate::testing::Writer;

/// BPE as its definition says: again and again the earliest rule that applies, at its leftmost place.
fn plain_bpe(word: &[u32], rules: &[(u32, u32, u32)]) -> Vec<u32> {
    let mut ranks = HashMap::new();
    for (rank, (left, right, makes)) in rules.iter().enumerate() {
        ranks.entry((*left, *right)).or_insert((rank, *makes));
    }
    let mut row = word.to_vec();
    loop {
        let best = row
            .windows(2)
            .enumerate()
            .filter_map(|(at, pair)| ranks.get(&(pair[0], pair[1])).map(|(rank, makes)| (*rank, at, *makes)))
            .min();
        let Some((_, at, makes)) = best else { return row };
        row[at] = makes;
        row.remove(at + 1);
    }
}

/// Letters of the tests' small alphabet: few, so that runs, overlaps and ambiguities are everywhere.
const LETTERS: usize = 3;

/// Rules over tokens 0..LETTERS and what earlier rules made. Two rules may make the same token, if the letters agree.
fn rules() -> impl Strategy<Value = Vec<(u32, u32, u32)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..24).prop_map(
        |picks| {
            let mut spelt: Vec<Vec<u8>> = (0..LETTERS as u8).map(|letter| vec![b'a' + letter]).collect();
            let mut rules = Vec::new();
            for (left, right) in picks {
                let (left, right) = (left.index(spelt.len()), right.index(spelt.len()));
                let whole = [spelt[left].clone(), spelt[right].clone()].concat();
                let makes = spelt.iter().position(|known| *known == whole).unwrap_or(spelt.len());
                if makes == spelt.len() {
                    spelt.push(whole);
                }
                rules.push((left as u32, right as u32, makes as u32));
            }
            rules
        },
    )
}

fn spell(rules: &[(u32, u32, u32)]) -> Vec<String> {
    let mut spelt: Vec<String> =
        (0..LETTERS as u8).map(|letter| char::from(b'a' + letter).to_string()).collect();
    for (left, right, makes) in rules {
        let whole = format!("{}{}", spelt[*left as usize], spelt[*right as usize]);
        if *makes as usize == spelt.len() {
            spelt.push(whole);
        }
    }
    spelt
}

fn writer(tokens: &[&str], merges: &[&str]) -> Writer {
    Writer::new()
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "gpt-2")
        .texts("tokenizer.ggml.tokens", tokens)
        .texts("tokenizer.ggml.merges", merges)
}

fn built(writer: &Writer) -> Result<Tokenizer, TokenizerError> {
    let bytes = writer.bytes();
    Tokenizer::from_gguf(&Gguf::parse(&mut bytes.as_slice(), bytes.len() as u64).unwrap())
}

fn of_rules(rules: &[(u32, u32, u32)]) -> Result<Tokenizer, TokenizerError> {
    let tokens = spell(rules);
    let merges: Vec<String> = rules
        .iter()
        .map(|(left, right, _)| format!("{} {}", tokens[*left as usize], tokens[*right as usize]))
        .collect();
    let (tokens, merges): (Vec<&str>, Vec<&str>) =
        (tokens.iter().map(String::as_str).collect(), merges.iter().map(String::as_str).collect());
    built(&writer(&tokens, &merges))
}

/// Runs, repetitions and noise over the small alphabet.
fn word(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(0..LETTERS as u8, 1..8),
        (0..LETTERS as u8, 1_usize..40).prop_map(|(letter, times)| vec![letter; times]),
        (prop::collection::vec(0..LETTERS as u8, 1..4), 1_usize..20)
            .prop_map(|(unit, times)| unit.repeat(times)),
    ];
    prop::collection::vec(piece, 1..12).prop_map(move |pieces| {
        let mut word = pieces.concat();
        word.truncate(longest);
        word
    })
}

fn letters(word: &[u8]) -> String {
    word.iter().map(|letter| char::from(b'a' + letter)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_walk_is_bpe(rules in rules(), word in word(300)) {
        match of_rules(&rules) {
            Ok(tokenizer) => {
                let ids: Vec<u32> = word.iter().map(|letter| u32::from(*letter)).collect();
                prop_assert_eq!(
                    tokenizer.encode_plain(&letters(&word), 100_000).unwrap(),
                    plain_bpe(&ids, &rules)
                );
            }
            // A token made by several rules may be born by a later one than a rule that uses it.
            Err(error) => prop_assert!(matches!(error, TokenizerError::MergeOutOfOrder { .. }), "{}", error),
        }
    }

    #[test]
    fn an_early_stop_is_never_wrong(rules in rules(), word in word(400), limit in 0_usize..200) {
        if let Ok(tokenizer) = of_rules(&rules) {
            let text = letters(&word);
            let full = tokenizer.encode_plain(&text, 100_000).unwrap();
            match tokenizer.encode_plain(&text, limit) {
                Ok(ids) => prop_assert_eq!(ids, full),
                Err(over) => {
                    prop_assert!(full.len() > limit, "{} fit {limit}", full.len());
                    prop_assert!((limit + 1..=full.len()).contains(&over.at_least));
                }
            }
        }
    }
}

#[test]
fn random_vocabularies_are_seldom_refused() {
    // Else the properties above would say little.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = rules();
    let mut accepted = 0;
    for _ in 0..200 {
        let tree = strategy.new_tree(&mut runner).unwrap();
        accepted += usize::from(of_rules(&prop::strategy::ValueTree::current(&tree)).is_ok());
    }
    assert!(accepted > 100, "{accepted} of 200");
}

#[test]
fn a_giant_word_stops_long_before_its_end() {
    // Letters alone: as many tokens as bytes. The walk must stop near the limit, and say so.
    let tokenizer = built(&writer(&["a", "b", "aaaaaaaa"], &[])).unwrap();
    let over = tokenizer.encode_plain(&"ab".repeat(1_000), 300).unwrap_err();
    assert!((301..500).contains(&over.at_least), "{over:?}");
}

fn types(writer: Writer, types: &[i64]) -> Writer {
    writer.entry("tokenizer.ggml.token_type", Value::Array(Array::Signed(types.to_vec())))
}

#[test]
fn files_that_are_no_tokenizer_of_ours_are_refused() {
    let refused = |writer: Writer| built(&writer).map(|_| ()).unwrap_err();
    let mut unknown = writer(&["a"], &[]);
    unknown.entries[1].1 = Value::Text("deepseek-v9".to_owned());
    assert!(
        matches!(refused(unknown.clone()), TokenizerError::PreTokenizer { name } if name == "deepseek-v9")
    );
    unknown.entries.remove(1);
    assert!(matches!(refused(unknown), TokenizerError::PreTokenizer { name } if name.is_empty()));
    let mut spm = writer(&["a"], &[]);
    spm.entries[0].1 = Value::Text("llama".to_owned());
    assert!(matches!(refused(spm), TokenizerError::Model { name } if name == "llama"));
    assert!(matches!(refused(writer(&[], &[])), TokenizerError::VocabularyTooLarge { .. }));
    assert!(matches!(refused(writer(&["a", ""], &[])), TokenizerError::EmptyToken { token: 1 }));
    assert!(matches!(refused(writer(&["a", "b", "a"], &[])), TokenizerError::DuplicateToken { token: 0 }));
    for merge in ["a b", "ab", "a", "a  b", "a c"] {
        assert!(
            matches!(refused(writer(&["a", "b"], &[merge])), TokenizerError::BadMerge { merge: 0 }),
            "{merge}"
        );
    }
    let backwards = writer(&["a", "b", "ab", "aba"], &["ab a", "a b"]);
    assert!(matches!(refused(backwards), TokenizerError::MergeOutOfOrder { merge: 0 }));
    assert!(matches!(refused(types(writer(&["a", "b"], &[]), &[1])), TokenizerError::TypesDoNotMatchTokens));
    let outside = writer(&["a"], &[]).number("tokenizer.ggml.eos_token_id", 1);
    assert!(matches!(refused(outside), TokenizerError::NoSuchToken { token: 1, .. }));
    // Merges never make a special token, so that no untrusted text can spell one.
    let special = types(writer(&["a", "b", "ab"], &["a b"]), &[1, 1, 3]);
    assert!(matches!(refused(special), TokenizerError::BadMerge { merge: 0 }));
}

#[test]
fn kinds_of_tokens_are_told_apart() {
    let writer = types(writer(&["a", "<end>", "<mark>", "<pad>", "x y"], &[]), &[1, 3, 4, 5, 1]);
    let tokenizer = built(&writer.number("tokenizer.ggml.eos_token_id", 1)).unwrap();
    let control: Vec<bool> = (0..6).map(|token| tokenizer.is_control(token)).collect();
    assert_eq!(control, [false, true, false, true, false, true]);
    assert_eq!(tokenizer.stop_tokens(), [1]);
    assert_eq!(tokenizer.encode_trusted("a<end>a<mark>x y", 9).unwrap(), [0, 1, 0, 2, 4]);
    assert_eq!(tokenizer.encode_plain("a<end>a<mark>x y", 9).unwrap(), [0, 0, 0]);
}

#[test]
fn llama3_takes_whole_tokens_and_wants_its_bos() {
    let mut llama = writer(&["a", "b", "ab", "<s>"], &[]).number("tokenizer.ggml.bos_token_id", 3);
    llama.entries[1].1 = Value::Text("llama-bpe".to_owned());
    let tokenizer = built(&llama).unwrap();
    assert_eq!(tokenizer.encode_plain("ab", 9).unwrap(), [2]);
    assert_eq!(tokenizer.encode_plain("aba", 9).unwrap(), [0, 1, 0]);
    assert_eq!(tokenizer.add_bos(), Some(3));
    let gpt2 = built(&writer(&["a", "b", "ab"], &[])).unwrap();
    assert_eq!(gpt2.encode_plain("ab", 9).unwrap(), [0, 1]);
    assert_eq!(gpt2.add_bos(), None);
}
