//! What the words of one text have taught: which tokens stay apart, and what followed one after a dead end.
//!
//! Only ever faster: an entry that was overwritten is asked for again, and a hint is a guess. Never kept between texts,
//! so that how long a text takes says nothing about texts before it.

use super::merges::Merges;

/// Places for answers and for hints; powers of two.
const ANSWERS: usize = 1 << ANSWER_BITS;
const ANSWER_BITS: u32 = 13;
const HINTS: usize = 1 << HINT_BITS;
const HINT_BITS: u32 = 10;
/// Bytes ahead that a hint is for.
const AHEAD: usize = 8;

/// One place for each few keys; the last one wins.
pub(super) struct Recall {
    /// A pair's two ids, whether they stay apart, and a one: ids have 21 bits (`VOCAB_MAX`), and 0 is no entry.
    answers: Vec<u64>,
    /// A key and a token; the key 0 is no entry.
    hints: Vec<(u64, u32)>,
}

impl Recall {
    pub(super) fn new() -> Recall {
        Recall { answers: vec![0; ANSWERS], hints: vec![(0, 0); HINTS] }
    }

    /// [`Merges::apart`].
    pub(super) fn apart(&mut self, merges: &Merges, left: u32, right: u32) -> bool {
        let key = u64::from(left) << 32 | u64::from(right) << 2;
        let Some(entry) = self.answers.get_mut(place(mix(key), ANSWER_BITS)) else {
            return merges.apart(left, right);
        };
        if *entry | 2 != key | 3 {
            *entry = key | 1 | u64::from(merges.apart(left, right)) << 1;
        }
        *entry & 2 != 0
    }

    /// After `last`, with `rest` ahead, others led nowhere and `token` did not, so far.
    pub(super) fn learn(&mut self, last: u32, rest: &[u8], token: u32) {
        let key = key(last, rest);
        if let Some(hint) = self.hints.get_mut(place(key, HINT_BITS)) {
            *hint = (key, token);
        }
    }

    /// What was learnt for this place.
    pub(super) fn hint(&self, last: u32, rest: &[u8]) -> Option<u32> {
        let key = key(last, rest);
        self.hints.get(place(key, HINT_BITS)).filter(|hint| hint.0 == key && key != 0).map(|hint| hint.1)
    }
}

fn key(last: u32, rest: &[u8]) -> u64 {
    let ahead = rest.iter().take(AHEAD).fold(0_u64, |ahead, byte| ahead << 8 | u64::from(*byte));
    mix(ahead ^ mix(last.into()))
}

fn mix(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The upper `bits` bits.
fn place(mixed: u64, bits: u32) -> usize {
    usize::try_from(mixed >> 64_u32.saturating_sub(bits)).unwrap_or(0)
}
