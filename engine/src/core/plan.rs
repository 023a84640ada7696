//! Decides what one step computes. Pure: it sees counts and gives counts, and knows no tenant, page or token.

use crate::fault::{Fault, seeded};
use std::{collections::BTreeMap, num::NonZeroU32};

/// One sequence, as the plan sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Candidate {
    /// Known tokens that are not computed yet; at least 1. A decoding sequence has one.
    pub left: u32,
    /// Whether its prompt is computed.
    pub phase: Phase,
    /// The step that last computed something for it; before that, the last step before it came in. So who comes in is behind those
    /// that wait already.
    pub served: u64,
    /// Whose it is: the candidates of one party have one share of the step together.
    pub party: u64,
    /// The party's part in the sharing, against the others'.
    pub weight: NonZeroU32,
}

/// What a sequence is doing. A sequence that waits for pages, and one that has ended, is of another type.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Its prompt is being computed.
    Prefilling,
    /// It computes one token after the other.
    Decoding,
}

/// What there is to plan for.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Tokens of the step at most.
    pub budget: u32,
    /// In order of arrival.
    pub candidates: &'a [Candidate],
}

/// What one step computes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    /// For each sequence that takes part: its place in the view, and its next tokens to compute, at least 1.
    pub turns: Vec<Turn>,
}

/// One sequence's part of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Turn {
    /// Its place in the view.
    pub candidate: usize,
    /// How many tokens.
    pub tokens: u32,
}

/// Every decoding sequence gets its token, and the parties share what is left for their prompts, by weight, each at least one
/// token. What one does not use of its share goes to the others (max-min fairness), so that what fits into a share is computed
/// at once (P8). Within a party, the prompt that has waited longest comes first.
///
/// Where the budget is smaller than the number of sequences, whoever was served longest ago is served: where `n` run at once, none
/// waits for more than `n` steps, whoever comes in meanwhile.
#[must_use]
pub fn plan(view: &View<'_>) -> Plan {
    let mut seats: Vec<Seat> = view.candidates.iter().enumerate().map(Seat::new).collect();
    // A stable sort: among equals, the earlier arrival.
    seats.sort_by_key(|seat| seat.served);
    let mut budget = view.budget;
    if let Some(first) = seats.first_mut() {
        first.take(1, &mut budget);
    }
    for seat in seats.iter_mut().filter(|seat| seat.phase == Phase::Decoding) {
        seat.take(1, &mut budget);
    }
    let mut shares = if seeded(Fault::StepUnshared) { Shares::new() } else { share(budget, &seats) };
    for seat in &mut seats {
        if let Some(share) = shares.get_mut(&seat.party) {
            *share = share.saturating_sub(seat.take(*share, &mut budget));
        }
    }
    // What rounding left over.
    for seat in &mut seats {
        seat.take(u32::MAX, &mut budget);
    }
    let took_part = seats.into_iter().filter(|seat| seat.tokens > 0);
    let mut turns: Vec<Turn> =
        took_part.map(|seat| Turn { candidate: seat.candidate, tokens: seat.tokens }).collect();
    turns.sort_by_key(|turn| turn.candidate);
    Plan { turns }
}

/// Tokens that each party may compute.
type Shares = BTreeMap<u64, u32>;

/// One candidate while its part is found.
struct Seat {
    candidate: usize,
    phase: Phase,
    served: u64,
    party: u64,
    weight: NonZeroU32,
    /// Tokens that it has no part for yet.
    left: u32,
    tokens: u32,
}

impl Seat {
    fn new((candidate, seen): (usize, &Candidate)) -> Self {
        let left = match seen.phase {
            Phase::Decoding => seen.left.min(1),
            Phase::Prefilling => seen.left,
        };
        let Candidate { phase, served, party, weight, .. } = *seen;
        Self { candidate, phase, served, party, weight, left, tokens: 0 }
    }

    /// Takes up to `most` tokens of the budget, and says how many.
    fn take(&mut self, most: u32, budget: &mut u32) -> u32 {
        let taken = most.min(self.left).min(*budget);
        self.tokens = self.tokens.saturating_add(taken);
        self.left = self.left.saturating_sub(taken);
        *budget = budget.saturating_sub(taken);
        taken
    }
}

/// What a party wants, and its weight.
#[derive(Clone, Copy)]
struct Claim {
    wanted: u64,
    weight: u64,
}

/// Fills all parties alike, by weight, up to what each wants: those that want least come first and leave the rest of their
/// part to those after them. Where there are fewer tokens than parties, those that have waited longest have one each.
fn share(budget: u32, seats: &[Seat]) -> Shares {
    let prefilling = || seats.iter().filter(|seat| seat.phase == Phase::Prefilling);
    let mut claims: BTreeMap<u64, Claim> = BTreeMap::new();
    let mut order: Vec<u64> = Vec::new();
    let mut left = u64::from(budget);
    for seat in prefilling() {
        // Who was first has a token already; it is of its party's share.
        let (has, lacks) = (u64::from(seat.tokens), u64::from(seat.left));
        left = left.saturating_add(has);
        let claim = claims.entry(seat.party).or_insert_with(|| {
            order.push(seat.party);
            Claim { wanted: 0, weight: seat.weight.get().into() }
        });
        claim.wanted = claim.wanted.saturating_add(has).saturating_add(lacks);
    }
    let mut shares = if left < count(order.len()) {
        order.into_iter().zip(0..left).map(|(party, _)| (party, 1)).collect()
    } else {
        fill(left, claims)
    };
    for seat in prefilling() {
        if let Some(share) = shares.get_mut(&seat.party) {
            *share = share.saturating_sub(seat.tokens);
        }
    }
    shares
}
/// The same, of at least one token for each.
fn fill(mut left: u64, claims: BTreeMap<u64, Claim>) -> Shares {
    let mut order: Vec<(u64, Claim)> = claims.into_iter().collect();
    // `a.wanted / a.weight < b.wanted / b.weight`, without a division.
    let crosswise = |a: &Claim, b: &Claim| u128::from(a.wanted).saturating_mul(b.weight.into());
    order.sort_by(|(_, a), (_, b)| crosswise(a, b).cmp(&crosswise(b, a)));
    let mut weights: u64 = order.iter().map(|(_, claim)| claim.weight).sum();
    let mut others = count(order.len());
    let mut shares = Shares::new();
    for (party, Claim { wanted, weight }) in order {
        others = others.saturating_sub(1);
        let fair = left.saturating_mul(weight).checked_div(weights).unwrap_or(0);
        let granted = if seeded(Fault::SharesOfNothing) {
            wanted.min(fair)
        } else {
            wanted.min(fair.max(1)).min(left.saturating_sub(others))
        };
        (left, weights) = (left.saturating_sub(granted), weights.saturating_sub(weight));
        shares.insert(party, u32::try_from(granted).unwrap_or(u32::MAX));
    }
    shares
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
