//! The name of a state. Two worlds that differ only in how often numbers were used before, or in which page
//! is which, have the same name, so that a search closes although steps and generations rise for ever.

use super::{World, marker};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What is done with the numbers of a type. The core compares them in these ways only.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    /// Taken as it stands.
    Plain,
    /// Left out: above all others of its type, or checked at each grant.
    Rising,
    /// A step that is over is as good as none.
    Fence,
    /// Only the order counts.
    Step,
    Used,
    /// Only being the same counts.
    Page,
}

const POOL: u8 = 0;

/// A stretch of text, and the number after it.
struct Piece<'a> {
    text: &'a str,
    kind: Kind,
    number: u64,
    /// [`POOL`], or what it is part of instead; each tree has its own clock.
    space: u8,
}

impl Piece<'_> {
    /// What its rank is among, if that is all that counts.
    fn ranked(&self) -> Option<(Kind, u8, u64)> {
        match self.kind {
            Kind::Step => Some((self.kind, 0, self.number)),
            Kind::Used => Some((self.kind, self.space, self.number)),
            Kind::Plain | Kind::Rising | Kind::Fence | Kind::Page => None,
        }
    }
}

impl World {
    /// 64 bits: among a million states, two share a name once in 30 million searches.
    pub fn name(&mut self) -> u64 {
        // Takes home what waits, so that the pool shows all it holds.
        self.pool.census();
        let pool = format!("{:?}{}", self.pool, self.limits.window());
        let mut used = format!("{:?}", self.flights);
        for live in self.seats.iter().map(|seat| &seat.live) {
            write!(used, "|{live:?}").unwrap();
        }
        for proof in &self.proofs {
            write!(used, "|{:?}{}", proof.receipt, proof.settled).unwrap();
        }
        let trees = self.tenants.iter().map(|tenant| format!("{:?}", tenant.tree));
        let texts: Vec<String> = [pool, used].into_iter().chain(trees).collect();
        self.hash(texts.iter().zip(0..).flat_map(|(text, space)| split(text, space)).collect())
    }

    fn hash(&self, mut pieces: Vec<Piece<'_>>) -> u64 {
        let oldest_open = self.oldest_open();
        for piece in &mut pieces {
            match piece.kind {
                Kind::Fence if piece.number < oldest_open => piece.number = 0,
                Kind::Fence => piece.kind = Kind::Step,
                Kind::Rising => piece.number = 0,
                Kind::Plain | Kind::Step | Kind::Used | Kind::Page => {}
            }
        }
        let mut ranks: Vec<_> = pieces.iter().filter_map(Piece::ranked).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let mut pages = Vec::new();
        let mut name = DefaultHasher::new();
        for piece in pieces {
            let number = match (piece.kind, piece.ranked()) {
                (_, Some(ranked)) => {
                    let (kind, space, _) = ranked;
                    let below = ranks.partition_point(|rank| *rank < (kind, space, 0));
                    ranks.partition_point(|rank| *rank < ranked) - below
                }
                (Kind::Page, None) => {
                    let page = piece.number as usize;
                    let seen = pages.iter().position(|&(seen, _)| seen == page).unwrap_or(pages.len());
                    if seen == pages.len() {
                        pages.push((page, false));
                    }
                    pages[seen].1 |= piece.space != POOL;
                    seen
                }
                (_, None) => piece.number as usize,
            };
            (piece.text, number).hash(&mut name);
        }
        for (page, in_use) in pages {
            self.granted[page].is_some().hash(&mut name);
            if in_use {
                self.memory.cells_at(page).hash(&mut name);
            } else {
                // Of a page that nobody reads it counts whose marks it bears, not which.
                self.memory
                    .cells_at(page)
                    .iter()
                    .map(|&cell| marker(cell))
                    .collect::<BTreeSet<_>>()
                    .hash(&mut name);
            }
        }
        (self.spoiled, self.memory.next_wipe).hash(&mut name);
        name.finish()
    }

    /// All steps before it are settled.
    fn oldest_open(&self) -> u64 {
        let flying = self.flights.iter().map(|flight| flight.step.id());
        let unsettled = self.proofs.iter().filter(|proof| !proof.settled).map(|proof| proof.receipt.step());
        flying.chain(unsettled).min().map_or(u64::MAX, |oldest| oldest.get())
    }
}

/// Cuts after each `Type(number`.
fn split(text: &str, space: u8) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (open, _) in text.match_indices('(') {
        let digits = text[open + 1..].bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            // Names of prefixes have 128 bits, of which half do.
            let number = text[open + 1..open + 1 + digits].parse::<u128>().unwrap() as u64;
            let before = &text[start..open];
            pieces.push(Piece { text: before, kind: kind(before), number, space });
            start = open + 1 + digits;
        }
    }
    pieces.push(Piece { text: &text[start..], kind: Kind::Plain, number: 0, space });
    pieces
}

fn kind(before: &str) -> Kind {
    const KINDS: [(&str, Kind); 9] = [
        ("fence: StepId", Kind::Fence),
        ("fence: Cell { value: StepId", Kind::Fence),
        ("last_step: StepId", Kind::Rising),
        ("StepId", Kind::Step),
        ("Generation", Kind::Rising),
        ("clock: Used", Kind::Rising),
        // Whose a page was has no effect but on what is said of it.
        ("past: Some(TenantTag", Kind::Rising),
        ("Used", Kind::Used),
        ("PageId", Kind::Page),
    ];
    KINDS.iter().find(|(name, _)| before.ends_with(name)).map_or(Kind::Plain, |(_, kind)| *kind)
}
