//! Encodes one word, however long, in time linear in it, and stops early when it surely has too many tokens.
//!
//! The walk lays tokens one after another, the longest first, each apart from the one before ([`Merges::apart`]). By
//! the argument in `merges.rs` the row laid so far *is* the encoding of the bytes it covers, and there is only one
//! such row for each place. So a place from which no row leads on is dead for good: each is left at most once.

use super::merges::Merges;
use super::recall::Recall;
use super::trie::Trie;
use super::vocabulary::Vocabulary;

/// Tokens above the limit before the first early check: less often than this is cheap, and rarely in vain.
/// Tests check after every token, so that wrong checks show.
const CHECK_AFTER: usize = if cfg!(test) { 1 } else { 64 };
/// Marks a token of a row that was laid by a guess: no other was tried in its place yet. Ids have 21 bits.
const GUESS: u32 = 1 << 31;

/// Buffers that the words of one text use one after another.
pub(super) struct Scratch {
    main: Buffers,
    probe: Buffers,
    recall: Recall,
}

#[derive(Default)]
struct Buffers {
    row: Vec<u32>,
    /// For each place of the word, the last walk for which it was dead.
    dead: Vec<u32>,
    walk: u32,
}

/// The word has more tokens than the limit: at least this many.
pub(super) struct Over {
    pub(super) at_least: usize,
}

/// Encodes the words of one vocabulary.
#[derive(Clone, Copy)]
pub(super) struct Encoder<'v> {
    pub(super) merges: &'v Merges,
    pub(super) trie: &'v Trie,
    pub(super) vocabulary: &'v Vocabulary,
}

/// A row of tokens under way.
struct Walk<'s> {
    row: &'s mut Vec<u32>,
    dead: &'s mut Vec<u32>,
    walk: u32,
    at: usize,
    candidate: Option<u32>,
    /// The candidate is tried before those in order, the longest first.
    is_guess: bool,
    /// A place was found dead since the last token was laid: the next one is worth remembering.
    is_learning: bool,
}

impl Encoder<'_> {
    /// Appends the tokens of `word`, each byte of which has a token, to `out`, or says that there are more than `limit`.
    pub(super) fn encode(
        self,
        word: &[u8],
        limit: usize,
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
    ) -> Result<(), Over> {
        let Some(first) = self.trie.longest(word) else { return Ok(()) };
        if self.vocabulary.length(first) == word.len() {
            out.push(first);
            return if limit == 0 { Err(Over { at_least: 1 }) } else { Ok(()) };
        }
        let Scratch { main, probe, recall } = scratch;
        let mut walk = main.start(word.len(), &[], 0);
        walk.candidate = Some(first);
        let mut check_at = limit.saturating_add(CHECK_AFTER);
        while !self.advance(&mut walk, word, check_at, recall) {
            if let Some(at_least) = self.surely_over(&walk, word, limit, probe, recall) {
                return Err(Over { at_least });
            }
            // In vain: look again when the excess has doubled, so that all checks together stay cheap.
            check_at = check_at.saturating_add(check_at.saturating_sub(limit));
        }
        if walk.row.len() > limit {
            return Err(Over { at_least: walk.row.len() });
        }
        out.extend(walk.row.iter().map(|laid| laid & !GUESS));
        Ok(())
    }

    /// Lays tokens until the word is covered (true) or the row is longer than `pause_above` (false).
    fn advance(self, walk: &mut Walk<'_>, word: &[u8], pause_above: usize, recall: &mut Recall) -> bool {
        while walk.at < word.len() {
            if walk.row.len() > pause_above {
                return false;
            }
            let Some(token) = walk.candidate else {
                if !self.step_back(walk, word) {
                    self.lay_bytes(walk, word);
                }
                continue;
            };
            let to = walk.at.saturating_add(self.vocabulary.length(token));
            let last = walk.row.last().map(|laid| laid & !GUESS);
            let is_dead = walk.dead.get(to) == Some(&walk.walk);
            if !is_dead && last.is_none_or(|last| recall.apart(self.merges, last, token)) {
                if let (true, Some(last)) = (walk.is_learning, last) {
                    recall.learn(last, word.get(walk.at..).unwrap_or(&[]), token);
                }
                walk.row.push(if walk.is_guess { token | GUESS } else { token });
                walk.at = to;
                walk.is_learning = false;
                self.guess(walk, word, token, recall);
            } else if walk.is_guess {
                self.try_longest(walk, word);
            } else {
                walk.candidate = self.trie.shorter(token);
            }
        }
        true
    }

    /// Where the last token's bytes come again, so does the token, mostly; and what followed it after a dead end will
    /// follow again. In a long run of one character the longest token is often a dead end that is only known after
    /// trying all that could follow it.
    fn guess(self, walk: &mut Walk<'_>, word: &[u8], last: u32, recall: &Recall) {
        let rest = word.get(walk.at..).unwrap_or(&[]);
        let fits = |token: u32| self.vocabulary.bytes(token).is_some_and(|bytes| rest.starts_with(bytes));
        let guess = Some(last)
            .filter(|last| fits(*last))
            .or_else(|| recall.hint(last, rest).filter(|hint| fits(*hint)));
        walk.is_guess = guess.is_some();
        walk.candidate = guess.or_else(|| self.trie.longest(rest));
    }

    fn try_longest(self, walk: &mut Walk<'_>, word: &[u8]) {
        walk.is_guess = false;
        walk.candidate = self.trie.longest(word.get(walk.at..).unwrap_or(&[]));
    }

    /// No token leads on from here: marks the place and takes the last token back. False when there is none.
    fn step_back(self, walk: &mut Walk<'_>, word: &[u8]) -> bool {
        if let Some(dead) = walk.dead.get_mut(walk.at) {
            *dead = walk.walk;
        }
        let Some(laid) = walk.row.pop() else { return false };
        let last = laid & !GUESS;
        walk.at = walk.at.saturating_sub(self.vocabulary.length(last));
        walk.is_learning = true;
        if laid == last {
            walk.is_guess = false;
            walk.candidate = self.trie.shorter(last);
        } else {
            self.try_longest(walk, word);
        }
        true
    }

    /// A word always has an encoding and the walk finds it; were that ever wrong, its bytes are a safe answer: no
    /// panic, nothing lost, never fewer tokens than there are.
    fn lay_bytes(self, walk: &mut Walk<'_>, word: &[u8]) {
        if cfg!(test) {
            unreachable!("a word has an encoding");
        }
        walk.row.clear();
        walk.row.extend(word.iter().filter_map(|byte| self.vocabulary.byte_token(*byte)));
        walk.at = word.len();
    }

    /// Fewest tokens that any word with this beginning has, if that is more than `limit`.
    ///
    /// A longer word's own row has a border within a longest token's length before `walk.at`, and up to that border it
    /// is the encoding of the bytes before it. So the least count over the encodings of all those beginnings holds for
    /// every continuation. Each differs from the row laid by a few tokens at its end, and is found from there.
    fn surely_over(
        self,
        walk: &Walk<'_>,
        word: &[u8],
        limit: usize,
        probe: &mut Buffers,
        recall: &mut Recall,
    ) -> Option<usize> {
        let mut least = walk.row.len();
        let (mut kept, mut at) = (walk.row.as_slice(), walk.at);
        for back in 1..self.vocabulary.longest_plain() {
            let beginning = word.get(..walk.at.checked_sub(back)?)?;
            while at > beginning.len() {
                let (last, before) = kept.split_last()?;
                at = at.saturating_sub(self.vocabulary.length(last & !GUESS));
                kept = before;
            }
            let mut again = probe.start(beginning.len(), kept, at);
            self.try_longest(&mut again, beginning);
            self.advance(&mut again, beginning, usize::MAX, recall);
            least = least.min(again.row.len());
            if least <= limit {
                return None;
            }
        }
        Some(least)
    }
}

impl Buffers {
    /// Starts a walk over a word of `length` bytes, with `row` laid up to `at` by another walk: to this one, guesses.
    fn start(&mut self, length: usize, row: &[u32], at: usize) -> Walk<'_> {
        self.row.clear();
        self.row.extend(row.iter().map(|laid| laid | GUESS));
        if self.dead.len() <= length {
            self.dead.resize(length.saturating_add(1), 0);
        }
        self.walk = self.walk.checked_add(1).unwrap_or_else(|| {
            self.dead.fill(0);
            1
        });
        Walk {
            row: &mut self.row,
            dead: &mut self.dead,
            walk: self.walk,
            at,
            candidate: None,
            is_guess: false,
            is_learning: false,
        }
    }
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch { main: Buffers::default(), probe: Buffers::default(), recall: Recall::new() }
    }
}
