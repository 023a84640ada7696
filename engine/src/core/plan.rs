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
    /// The step that last computed something for it; 0 for none.
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

/// Every decoding sequence gets its token, and the parties share what is left for their prompts, by weight. What one does not
/// use of its share goes to the others (max-min fairness), so that what fits into a share is computed at once (P8).
/// Within a party, the prompt that has waited longest comes first.
///
/// Whoever was served longest ago is served whatever the budget: of `n` sequences, none waits for more than `n` steps,
/// as long as no others arrive.
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

/// Fills all parties alike, by weight, up to what each wants: those that want least come first and leave the rest of their
/// part to those after them.
fn share(budget: u32, seats: &[Seat]) -> Shares {
    let mut wants: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut left = u64::from(budget);
    for seat in seats.iter().filter(|seat| seat.phase == Phase::Prefilling) {
        // Who was first has a token already; it is of its party's share.
        let (has, lacks) = (u64::from(seat.tokens), u64::from(seat.left));
        left = left.saturating_add(has);
        let (wanted, _) = wants.get(&seat.party).copied().unwrap_or_default();
        let wanted = wanted.saturating_add(has).saturating_add(lacks);
        wants.insert(seat.party, (wanted, seat.weight.get().into()));
    }
    let mut order: Vec<(u64, (u64, u64))> = wants.into_iter().collect();
    // `a / weight of a < b / weight of b`, without a division.
    order.sort_by(|(_, a), (_, b)| {
        u128::from(a.0).saturating_mul(b.1.into()).cmp(&u128::from(b.0).saturating_mul(a.1.into()))
    });
    let mut weights: u64 = order.iter().map(|(_, (_, weight))| weight).sum();
    let mut shares = Shares::new();
    for (party, (wanted, weight)) in order {
        let fair = left.saturating_mul(weight).checked_div(weights).unwrap_or(0);
        let granted = wanted.min(fair);
        (left, weights) = (left.saturating_sub(granted), weights.saturating_sub(weight));
        shares.insert(party, u32::try_from(granted).unwrap_or(u32::MAX));
    }
    for seat in seats.iter().filter(|seat| seat.phase == Phase::Prefilling) {
        if let Some(share) = shares.get_mut(&seat.party) {
            *share = share.saturating_sub(seat.tokens);
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(left: u32, phase: Phase, served: u64) -> Candidate {
        Candidate { left, phase, served, party: 0, weight: NonZeroU32::MIN }
    }

    fn of(party: u64, weight: u32, candidate: Candidate) -> Candidate {
        Candidate { party, weight: NonZeroU32::new(weight).unwrap(), ..candidate }
    }

    fn turns(budget: u32, candidates: &[Candidate]) -> Vec<(usize, u32)> {
        plan(&View { budget, candidates }).turns.iter().map(|t| (t.candidate, t.tokens)).collect()
    }

    #[test]
    fn decoding_sequences_come_along_with_a_chunk_of_prefill() {
        use Phase::{Decoding, Prefilling};
        let batch = [candidate(1, Decoding, 3), candidate(100, Prefilling, 0), candidate(1, Decoding, 3)];
        assert_eq!(turns(16, &batch), [(0, 1), (1, 14), (2, 1)]);
        assert_eq!(turns(1, &batch), [(1, 1)]);
        assert_eq!(turns(0, &batch), []);
        assert_eq!(turns(16, &[]), []);
    }

    #[test]
    fn two_prefills_of_one_party_take_turns() {
        use Phase::Prefilling;
        let (first, second) = (candidate(100, Prefilling, 4), candidate(100, Prefilling, 3));
        assert_eq!(turns(8, &[first, second]), [(1, 8)]);
    }

    #[test]
    fn parties_share_a_step_by_weight_and_leave_what_they_do_not_want() {
        let long = candidate(100, Phase::Prefilling, 1);
        let short = candidate(3, Phase::Prefilling, 1);
        assert_eq!(turns(8, &[of(1, 1, long), of(2, 1, long)]), [(0, 4), (1, 4)]);
        assert_eq!(turns(12, &[of(1, 1, long), of(2, 3, long)]), [(0, 3), (1, 9)]);
        // However many a flood sends, it has one share; who comes last with little is done at once.
        let flood = [of(1, 1, long), of(1, 1, long), of(1, 1, long), of(2, 1, short)];
        assert_eq!(turns(16, &flood), [(0, 13), (3, 3)]);
    }

    fn any_candidate() -> impl Strategy<Value = Candidate> {
        (1_u32..50, any::<bool>(), 0_u64..6, 0_u64..4).prop_map(|(left, decoding, served, party)| {
            let weight = u32::try_from(party).unwrap() + 1;
            if decoding {
                of(party, weight, candidate(1, Phase::Decoding, served))
            } else {
                of(party, weight, candidate(left, Phase::Prefilling, served))
            }
        })
    }

    proptest! {
        #[test]
        fn who_wants_no_more_than_its_share_gets_it_all(
            budget in 8_u32..200,
            flood in proptest::collection::vec(1_u32..500, 1..20),
            wanted in 1_u32..100,
        ) {
            // The flood is served first; each of two parties has half of the step, but for one token to who waited longest.
            let mut batch: Vec<_> = flood.iter().map(|left| candidate(*left, Phase::Prefilling, 1)).collect();
            let wanted = wanted.min((budget - 1) / 2);
            batch.push(of(1, 1, candidate(wanted, Phase::Prefilling, 9)));
            let last = plan(&View { budget, candidates: &batch }).turns.pop().unwrap();
            prop_assert_eq!(last, Turn { candidate: flood.len(), tokens: wanted });
        }

        #[test]
        fn a_plan_keeps_its_bounds(budget in 1_u32..40, batch in proptest::collection::vec(any_candidate(), 1..12)) {
            let plan = plan(&View { budget, candidates: &batch });
            let sum: u32 = plan.turns.iter().map(|t| t.tokens).sum();
            prop_assert!(sum <= budget);
            prop_assert!(plan.turns.iter().all(|t| t.tokens >= 1 && t.tokens <= batch[t.candidate].left));
            prop_assert!(plan.turns.windows(2).all(|w| w[0].candidate < w[1].candidate));
            let wanted: u32 = batch.iter().map(|c| c.left).sum();
            prop_assert_eq!(sum, wanted.min(budget), "no budget is left while somebody wants some");
            let decoding = batch.iter().filter(|c| c.phase == Phase::Decoding).count();
            if batch.len() <= budget as usize {
                let served = plan.turns.iter().filter(|t| batch[t.candidate].phase == Phase::Decoding).count();
                prop_assert_eq!(served, decoding);
            }
        }

        #[test]
        fn nobody_waits_for_more_steps_than_there_are_sequences(
            budget in 1_u32..6,
            mut batch in proptest::collection::vec(any_candidate(), 1..12),
        ) {
            let mut last = vec![0_usize; batch.len()];
            for step in 1..60 {
                for turn in plan(&View { budget, candidates: &batch }).turns {
                    batch[turn.candidate].served = 10 + step as u64;
                    last[turn.candidate] = step;
                }
                for at in &last {
                    prop_assert!(step - at <= batch.len(), "waited from {at} to {step}");
                }
            }
        }
    }
}
