//! The merge rules of a byte-level BPE, and the one question that encoding asks of them: do two tokens stay apart?
//!
//! BPE starts with one token a byte and applies, again and again, the first rule of the list that applies anywhere,
//! leftmost first. Encoding a long word that way needs a queue of all pairs. We use instead that the result is *local*:
//!
//! > A row of tokens is the encoding of its bytes if and only if each token is the encoding of its own bytes, and each
//! > two neighbours are the encoding of theirs.
//!
//! Take the first merge of the whole word that crosses a border of the row. Up to then, what happened on its two
//! sides is, in the same order, what happens when these two neighbours are encoded alone (the choice is always the
//! earliest rule, leftmost, and a choice among more candidates restricted to some of them is the choice among
//! these). So it crosses there too. Conversely a crossing between two neighbours alone would come first in the word
//! as well. `tests.rs` holds this against a plain BPE.

use super::fast::FastMap;
use super::{TokenizerError, index, token};

/// When a token comes to be: 0 for a single byte, else 1 + the place of its rule in the list.
type Birth = u32;

const NEVER: Birth = u32::MAX;

/// How a token is made when its own bytes are encoded.
#[derive(Debug, Clone, Copy)]
struct Making {
    birth: Birth,
    left: u32,
    right: u32,
}

/// All merge rules of a vocabulary.
///
/// # Invariants
/// A token's two halves were born before it.
pub(super) struct Merges {
    /// When a rule for this pair makes its token.
    rules: FastMap<u64, Birth>,
    makings: Vec<Making>,
}

impl Merges {
    /// Takes the rules (left, right, result), first rule first, and the tokens that stand for one byte.
    pub(super) fn new(
        vocab: usize,
        bytes: impl Iterator<Item = u32>,
        list: &[(u32, u32, u32)],
    ) -> Result<Merges, TokenizerError> {
        let unborn = Making { birth: NEVER, left: 0, right: 0 };
        let mut merges = Merges { rules: FastMap::default(), makings: vec![unborn; vocab] };
        for byte in bytes {
            merges.bear(byte, Making { birth: 0, left: byte, right: byte });
        }
        merges.rules.reserve(list.len());
        for (place, (left, right, _)) in list.iter().enumerate() {
            // The first of two rules for a pair hides the second.
            let birth = token(place).saturating_add(1);
            merges.rules.entry(pair(*left, *right)).or_insert(birth);
        }
        for (place, (left, right, makes)) in list.iter().enumerate() {
            let birth = token(place).saturating_add(1);
            let halves_exist = merges.birth(*left) < birth && merges.birth(*right) < birth;
            if halves_exist && merges.birth(*makes) == NEVER && merges.apart_before(*left, *right, birth) {
                merges.bear(*makes, Making { birth, left: *left, right: *right });
            }
        }
        merges.in_order(list)?;
        Ok(merges)
    }

    fn bear(&mut self, token: u32, making: Making) {
        if let Some(place) = self.makings.get_mut(index(token)) {
            *place = making;
        }
    }

    /// The argument above walks back through time by rule numbers, so a half must come before its whole.
    fn in_order(&self, list: &[(u32, u32, u32)]) -> Result<(), TokenizerError> {
        for (place, (left, right, _)) in list.iter().enumerate() {
            let birth = token(place).saturating_add(1);
            let too_late = |half| (birth..NEVER).contains(&self.birth(half));
            if too_late(*left) || too_late(*right) {
                return Err(TokenizerError::MergeOutOfOrder { merge: place });
            }
        }
        Ok(())
    }

    fn birth(&self, token: u32) -> Birth {
        self.makings.get(index(token)).map_or(NEVER, |making| making.birth)
    }

    /// True when encoding the token's own bytes gives the token.
    pub(super) fn is_born(&self, token: u32) -> bool {
        self.birth(token) != NEVER
    }

    /// True when encoding the bytes of `left` and then of `right` gives just these two tokens.
    pub(super) fn apart(&self, left: u32, right: u32) -> bool {
        self.apart_before(left, right, NEVER)
    }

    /// True when no rule before `end` merges across the border between `left` and `right`.
    ///
    /// Walks back in time: undoes whichever of the two was made last, and asks of each pair of neighbours that were
    /// there at once whether a rule would have merged them before either was merged inwards. On one rule the left
    /// place goes first, so a tie with the left token's own merge is lost, and one with the right token's is won.
    fn apart_before(&self, mut left: u32, mut right: u32, end: Birth) -> bool {
        let (mut left_until, mut right_until) = (end, end);
        loop {
            if let Some(birth) = self.rules.get(&pair(left, right))
                && *birth < left_until
                && *birth <= right_until
            {
                return false;
            }
            let (Some(made_left), Some(made_right)) =
                (self.makings.get(index(left)), self.makings.get(index(right)))
            else {
                return true;
            };
            if made_left.birth > made_right.birth {
                left_until = made_left.birth;
                left = made_left.right;
            } else if made_right.birth > 0 {
                right_until = made_right.birth;
                right = made_right.left;
            } else {
                return true;
            }
        }
    }
}

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}
