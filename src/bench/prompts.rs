//! Prompts that nobody has sent before, and the order that samples are taken in: all drawn from one printed seed.
//!
//! Architecture invariant: knows letters and chance, no server and no time.

/// What a prompt is made of, one at a time, with a space between two: about one token a letter.
const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Draws without end from one seed: `SplitMix64` (Steele, Lea and Flood, 2014). Nothing secret hangs on it.
#[derive(Debug)]
pub(crate) struct Draws {
    state: u64,
}

impl Draws {
    /// The same seed draws the same.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 where that is 0.
    fn below(&mut self, bound: usize) -> usize {
        // Off from uniform by `bound / 2^64` at most.
        let wide = u128::from(self.next()).saturating_mul(u128::try_from(bound).unwrap_or(0)) >> 64;
        usize::try_from(wide).unwrap_or(0)
    }

    /// So many letters with spaces between them.
    pub(crate) fn prompt(&mut self, letters: u32) -> String {
        let mut prompt = String::new();
        self.extend(&mut prompt, letters);
        prompt
    }

    /// A prompt of `letters` whose first `shared` are those of `prompt`, and the rest new.
    pub(crate) fn sharing(&mut self, prompt: &str, shared: u32, letters: u32) -> String {
        let bytes = usize::try_from(shared).unwrap_or(usize::MAX).saturating_mul(2).saturating_sub(1);
        let mut sharing = prompt.get(..bytes.min(prompt.len())).unwrap_or(prompt).to_owned();
        if shared == 0 {
            sharing.clear();
        }
        self.extend(&mut sharing, letters.saturating_sub(shared));
        sharing
    }

    fn extend(&mut self, prompt: &mut String, letters: u32) {
        for _ in 0..letters {
            if !prompt.is_empty() {
                prompt.push(' ');
            }
            let letter = LETTERS.get(self.below(LETTERS.len()));
            prompt.push(char::from(letter.copied().unwrap_or(b'a')));
        }
    }

    /// Puts `items` in an order that is as likely as any other.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let chosen = self.below(end.saturating_add(1));
            items.swap(end, chosen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn draws_are_those_of_the_published_generator() {
        // The first outputs for the seed 1234567, as the generator's authors and others list them.
        let mut draws = Draws::new(1_234_567);
        let first = [(); 3].map(|()| draws.next());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_prompt_has_its_letters_and_is_new() {
        let mut draws = Draws::new(1);
        let (one, two) = (draws.prompt(5000), draws.prompt(5000));
        assert_eq!(one.split(' ').count(), 5000);
        assert!(one.split(' ').all(|word| word.len() == 1 && word.as_bytes()[0].is_ascii_alphabetic()));
        assert_eq!(one.split(' ').collect::<BTreeSet<_>>().len(), LETTERS.len());
        assert_ne!(one.get(..31), two.get(..31), "two prompts share their first page");
        assert_eq!(Draws::new(1).prompt(5000), one);
        assert_ne!(Draws::new(2).prompt(5000), one);
    }

    #[test]
    fn a_prompt_shares_as_much_as_asked() {
        let mut draws = Draws::new(1);
        let prompt = draws.prompt(100);
        assert_eq!(draws.sharing(&prompt, 100, 100), prompt);
        let most = draws.sharing(&prompt, 95, 100);
        assert_eq!(most.split(' ').count(), 100);
        assert_eq!(most.get(..189), prompt.get(..189));
        assert_ne!(most, prompt);
        let none = draws.sharing(&prompt, 0, 100);
        assert_eq!(none.split(' ').count(), 100);
        assert_ne!(none.get(..31), prompt.get(..31));
    }

    #[test]
    fn an_order_has_all_and_every_place_can_come_first() {
        let mut first = BTreeSet::new();
        for seed in 0..200 {
            let mut items: Vec<usize> = (0..8).collect();
            Draws::new(seed).shuffle(&mut items);
            first.insert(items[0]);
            items.sort_unstable();
            assert!(items.iter().copied().eq(0..8));
        }
        assert_eq!(first.len(), 8);
    }
}
