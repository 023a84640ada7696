//! Decides what one step computes. Pure: it sees counts and gives counts, and knows no tenant, page or token.

/// One sequence, as the plan sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Candidate {
    /// Known tokens that are not computed yet; at least 1. A decoding sequence has one.
    pub left: u32,
    /// Whether its prompt is computed.
    pub phase: Phase,
    /// The step that last computed something for it; 0 for none.
    pub served: u64,
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

/// Every decoding sequence gets its token, and the rest of the budget goes to the prefill that has waited longest.
///
/// All take their turn in the order in which they were served last, so that whoever comes first is served whatever the
/// budget: of `n` sequences, none waits for more than `n` steps.
#[must_use]
pub fn plan(view: &View<'_>) -> Plan {
    let mut order: Vec<(usize, Candidate)> = view.candidates.iter().copied().enumerate().collect();
    // A stable sort: among equals, the earlier arrival.
    order.sort_by_key(|(_, candidate)| candidate.served);
    let mut decoding = order.iter().filter(|(_, candidate)| candidate.phase == Phase::Decoding).count();
    let mut budget = view.budget;
    let mut turns = Vec::with_capacity(order.len());
    for (candidate, Candidate { left, phase, .. }) in order {
        let wanted = match phase {
            Phase::Decoding => {
                decoding = decoding.saturating_sub(1);
                left.min(1)
            }
            Phase::Prefilling => {
                let reserved = u32::try_from(decoding).unwrap_or(u32::MAX);
                // Who comes first is served, even if that costs a decoding sequence its turn.
                let floor = u32::from(turns.is_empty());
                left.min(budget.saturating_sub(reserved).max(floor))
            }
        };
        let tokens = wanted.min(budget);
        if tokens > 0 {
            budget = budget.saturating_sub(tokens);
            turns.push(Turn { candidate, tokens });
        }
    }
    turns.sort_by_key(|turn| turn.candidate);
    Plan { turns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(left: u32, phase: Phase, served: u64) -> Candidate {
        Candidate { left, phase, served }
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
    fn two_prefills_take_turns() {
        use Phase::Prefilling;
        let (first, second) = (candidate(100, Prefilling, 4), candidate(100, Prefilling, 3));
        assert_eq!(turns(8, &[first, second]), [(1, 8)]);
    }

    fn any_candidate() -> impl Strategy<Value = Candidate> {
        (1_u32..50, any::<bool>(), 0_u64..6).prop_map(|(left, decoding, served)| {
            if decoding {
                candidate(1, Phase::Decoding, served)
            } else {
                candidate(left, Phase::Prefilling, served)
            }
        })
    }

    proptest! {
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
