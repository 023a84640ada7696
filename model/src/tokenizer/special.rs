//! Special tokens in trusted text: found by their text, the leftmost first, of several there the longest.

use super::vocabulary::{Kind, Vocabulary};

/// The special tokens of a vocabulary.
pub(super) struct Specials {
    /// Longest text first.
    all: Vec<(Vec<u8>, u32)>,
    starts: Vec<bool>,
}

/// Where a special token stands in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) at: usize,
    pub(super) length: usize,
    pub(super) token: u32,
}

impl Specials {
    pub(super) fn new(vocabulary: &Vocabulary) -> Specials {
        let mut all: Vec<(Vec<u8>, u32)> = (0..super::token(vocabulary.len()))
            .filter(|token| matches!(vocabulary.kind(*token), Some(Kind::Control | Kind::Marked)))
            .filter_map(|token| vocabulary.bytes(token).map(|bytes| (bytes.to_vec(), token)))
            .collect();
        all.sort_by_key(|(text, token)| (std::cmp::Reverse(text.len()), *token));
        let mut starts = vec![false; 256];
        for (text, _) in &all {
            if let Some(place) = text.first().and_then(|first| starts.get_mut(usize::from(*first))) {
                *place = true;
            }
        }
        Specials { all, starts }
    }

    /// The first special token in `text`.
    pub(super) fn first(&self, text: &str) -> Option<Found> {
        let bytes = text.as_bytes();
        bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| self.starts.get(usize::from(**byte)) == Some(&true))
            .find_map(|(at, _)| {
                let rest = bytes.get(at..)?;
                let (text, token) = self.all.iter().find(|(text, _)| rest.starts_with(text))?;
                Some(Found { at, length: text.len(), token: *token })
            })
    }

    /// The token of exactly this text.
    pub(super) fn named(&self, text: &str) -> Option<u32> {
        self.all.iter().find(|(special, _)| special == text.as_bytes()).map(|(_, token)| *token)
    }
}
