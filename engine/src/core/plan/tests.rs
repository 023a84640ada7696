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

    #[test]
    fn each_party_has_a_token_where_there_are_enough(
        spare in 0_u32..40,
        parties in proptest::collection::vec((1_u32..1_000_000, 1_u32..500, 1_usize..4, 0_u64..6), 1..8),
        decoding in 0_usize..6,
    ) {
        let mut batch = vec![of(99, 1, candidate(1, Phase::Decoding, 3)); decoding];
        for (party, (weight, left, copies, served)) in (0..).zip(&parties) {
            let one = of(party, *weight, candidate(*left, Phase::Prefilling, *served));
            batch.extend(std::iter::repeat_n(one, *copies));
        }
        let budget = u32::try_from(decoding + parties.len()).unwrap() + spare;
        let turns = plan(&View { budget, candidates: &batch }).turns;
        for party in 0..parties.len() as u64 {
            prop_assert!(turns.iter().any(|turn| batch[turn.candidate].party == party), "{party} has nothing");
        }
    }

    /// Each step some end and others come in, as served in the step before: at most `places` run at once.
    #[test]
    fn nobody_is_overtaken_by_those_who_come_in(
        budget in 1_u32..6,
        places in 2_usize..8,
        weights in proptest::collection::vec(1_u32..1_000, 4),
        arrivals in proptest::collection::vec((0_usize..4, 1_u32..9), 60),
    ) {
        let long = of(9, 1, candidate(1_000, Phase::Prefilling, 0));
        let mut batch = vec![long];
        let mut last = 0;
        for (step, arrival) in (1_u64..).zip(arrivals.chunks_exact(1)) {
            let (party, left) = arrival[0];
            if batch.len() < places {
                let new = candidate(left, Phase::Prefilling, step - 1);
                batch.push(of(party as u64, weights[party], new));
            }
            for turn in plan(&View { budget, candidates: &batch }).turns {
                let one = &mut batch[turn.candidate];
                one.served = step;
                one.left -= turn.tokens;
                if turn.candidate == 0 {
                    last = step;
                }
            }
            batch.retain(|one| one.left > 0);
            prop_assert!(step - last <= places as u64, "waited from {last} to {step}");
        }
    }
}
