//! Pre-tokenizers: hand-written scanners that cut text into the words that merges stay within.
//!
//! Each scanner does what llama.cpp does for the pre-tokenizer of that name, in one pass: a regex engine would be
//! slower, and would bound nothing. All are linear in the text, whatever it holds.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Which scanner a file asks for, by its `tokenizer.ggml.pre`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Splitter {
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    Gpt2,
    /// Each `\p{N}` is cut out first, then [`Gpt2`](Splitter::Gpt2) runs on what lies between.
    SmolLm,
    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    Llama3,
    /// As [`Llama3`](Splitter::Llama3), but each `\p{N}` is a word.
    Qwen2,
}

impl Splitter {
    /// The scanner of that name, if we have it.
    pub(super) fn named(name: &str) -> Option<Splitter> {
        Some(match name {
            "gpt-2" => Splitter::Gpt2,
            "smollm" => Splitter::SmolLm,
            "llama-bpe" | "llama3" | "llama-v3" => Splitter::Llama3,
            "qwen2" => Splitter::Qwen2,
            _ => return None,
        })
    }

    /// Length in bytes of the first word of `text`; at least one character, 0 only for empty text.
    pub(super) fn first_word(self, text: &str) -> usize {
        match self {
            Splitter::Gpt2 => gpt2(text, Digits::InRuns),
            Splitter::SmolLm => gpt2(text, Digits::CutOut),
            Splitter::Llama3 => llama3(text, 3),
            Splitter::Qwen2 => llama3(text, 1),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Digits {
    InRuns,
    CutOut,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Number,
    Space,
    Other,
}

fn class(letter: char) -> Class {
    if letter.is_ascii() {
        return match letter {
            'a'..='z' | 'A'..='Z' => Class::Letter,
            '0'..='9' => Class::Number,
            ' ' | '\t'..='\r' => Class::Space,
            _ => Class::Other,
        };
    }
    if letter.is_whitespace() {
        return Class::Space;
    }
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the enum is Unicode's, and what is left has one meaning"
    )]
    match get_general_category(letter) {
        GeneralCategory::UppercaseLetter
        | GeneralCategory::LowercaseLetter
        | GeneralCategory::TitlecaseLetter
        | GeneralCategory::ModifierLetter
        | GeneralCategory::OtherLetter => Class::Letter,
        GeneralCategory::DecimalNumber | GeneralCategory::LetterNumber | GeneralCategory::OtherNumber => {
            Class::Number
        }
        _ => Class::Other,
    }
}

fn char_at(text: &str, at: usize) -> Option<char> {
    text.get(at..).and_then(|rest| rest.chars().next())
}

fn class_at(text: &str, at: usize) -> Option<Class> {
    char_at(text, at).map(class)
}

/// Where the run of `wanted` characters that starts at `from` ends, after at most `most` of them.
fn run_end(text: &str, from: usize, most: usize, wanted: Class) -> usize {
    let rest = text.get(from..).unwrap_or("");
    let length =
        rest.char_indices().take(most).find(|(_, letter)| class(*letter) != wanted).map(|(at, _)| at);
    let length = length.unwrap_or_else(|| rest.char_indices().nth(most).map_or(rest.len(), |(at, _)| at));
    from.saturating_add(length)
}

fn gpt2(text: &str, digits: Digits) -> usize {
    let contraction = contraction(text, |text, ending| text.starts_with(ending));
    if contraction > 0 {
        return contraction;
    }
    let body = usize::from(text.starts_with(' '));
    match class_at(text, body) {
        Some(Class::Number) if digits == Digits::CutOut => {
            if body == 0 {
                run_end(text, 0, 1, Class::Number)
            } else {
                body
            }
        }
        Some(class @ (Class::Letter | Class::Number | Class::Other)) => {
            run_end(text, body, usize::MAX, class)
        }
        Some(Class::Space) | None => {
            let end = run_end(text, 0, usize::MAX, Class::Space);
            let next_is_cut_out = digits == Digits::CutOut && class_at(text, end) == Some(Class::Number);
            if next_is_cut_out { end } else { leave_one_space(text, end) }
        }
    }
}

fn llama3(text: &str, digits_max: usize) -> usize {
    let contraction = contraction(text, |text, ending| {
        text.get(..ending.len()).is_some_and(|start| start.eq_ignore_ascii_case(ending))
    });
    if contraction > 0 {
        return contraction;
    }
    let Some(first) = text.chars().next() else { return 0 };
    let first_class = class(first);
    if first_class == Class::Letter {
        return run_end(text, 0, usize::MAX, Class::Letter);
    }
    if first_class == Class::Number {
        return run_end(text, 0, digits_max, Class::Number);
    }
    if !matches!(first, '\r' | '\n') && class_at(text, first.len_utf8()) == Some(Class::Letter) {
        return run_end(text, first.len_utf8(), usize::MAX, Class::Letter);
    }
    let body = usize::from(first == ' ');
    if class_at(text, body) == Some(Class::Other) {
        let end = run_end(text, body, usize::MAX, Class::Other);
        let rest = text.get(end..).unwrap_or("");
        let after = rest.trim_start_matches(['\r', '\n']);
        return end.saturating_add(rest.len().saturating_sub(after.len()));
    }
    let end = run_end(text, 0, usize::MAX, Class::Space);
    let run = text.get(..end).unwrap_or("");
    match run.rfind(['\r', '\n']) {
        Some(newline) => newline.saturating_add(1),
        None => leave_one_space(text, end),
    }
}

/// `\s+(?!\S)|\s+` for a run of spaces that ends at `end`: before a word, the last space is left to it.
fn leave_one_space(text: &str, end: usize) -> usize {
    if end == text.len() {
        return end;
    }
    let last = text.get(..end).and_then(|run| run.char_indices().next_back()).map_or(0, |(at, _)| at);
    if last > 0 { last } else { end }
}

/// Length of the English contraction that `text` starts with, or 0.
fn contraction(text: &str, starts: impl Fn(&str, &str) -> bool) -> usize {
    if !text.starts_with('\'') {
        return 0;
    }
    let endings = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
    endings.iter().find(|ending| starts(text, ending)).map_or(0, |ending| ending.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;
    use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
    use tokenizers::{
        OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, SplitDelimiterBehavior,
    };

    use super::*;

    const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

    /// A pattern, compiled once: that takes far longer than a case.
    fn compiled(pattern: &str) -> Split {
        let pattern = SplitPattern::Regex(pattern.to_owned());
        Split::new(pattern, SplitDelimiterBehavior::Isolated, false).unwrap()
    }

    fn by_regex(split: &Split, text: &str) -> Vec<String> {
        let mut pieces = PreTokenizedString::from(text);
        split.pre_tokenize(&mut pieces).unwrap();
        pieces
            .get_splits(OffsetReferential::Original, OffsetType::Byte)
            .into_iter()
            .map(|(piece, _, _)| piece.to_owned())
            .collect()
    }

    fn by_scanner(splitter: Splitter, text: &str) -> Vec<String> {
        let mut rest = text;
        let mut words = Vec::new();
        while !rest.is_empty() {
            let (word, after) = rest.split_at(splitter.first_word(rest));
            assert!(!word.is_empty());
            words.push(word.to_owned());
            rest = after;
        }
        words
    }

    /// Few characters of each class, so that all borders between classes come up.
    fn text() -> impl Strategy<Value = String> {
        prop::collection::vec(
            prop_oneof![
                "[ab\u{e9}\u{4f34}]{1,3}",
                "[0-9\u{b2}\u{2167}]{1,5}",
                "[ \t\r\n\u{a0}\u{3000}]{1,4}",
                "['.,#\u{1f600}]{1,3}",
                "'([sStTmMdD]|re|vE|Ll|LL)",
                " ",
                "\n",
            ],
            0..12,
        )
        .prop_map(|pieces| pieces.concat())
    }

    #[test]
    fn scanners_cut_where_the_patterns_do() {
        let patterns = [
            (Splitter::Gpt2, compiled(GPT2)),
            (Splitter::Llama3, compiled(LLAMA3)),
            (Splitter::Qwen2, compiled(QWEN2)),
        ];
        let mut runner = TestRunner::new(ProptestConfig::with_cases(400));
        runner
            .run(&text(), |text| {
                for (splitter, split) in &patterns {
                    prop_assert_eq!(by_scanner(*splitter, &text), by_regex(split, &text));
                }
                Ok(())
            })
            .unwrap();
    }
}
