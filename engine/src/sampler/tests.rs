use super::*;
use proptest::prelude::*;

fn greedy() -> Sampling {
    Sampling {
        temperature: 0.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
        seed: 1,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        logit_bias: vec![],
        logprobs: Logprobs::Omit,
    }
}

/// All filters by a full sort, in plain words.
fn naive_kept(sampling: &Sampling, adjusted: &[f64]) -> Vec<(u32, f64)> {
    let top = adjusted.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut ranked: Vec<(u32, f64)> = (0..).zip(adjusted.iter().copied()).collect();
    ranked.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
    let mut weights: Vec<(u32, f64)> =
        ranked.iter().map(|&(id, v)| (id, exp((v - top) / f64::from(sampling.temperature)))).collect();
    if sampling.top_k > 0 {
        weights.truncate(sampling.top_k as usize);
    }
    if sampling.top_p < 1.0 {
        let mut by_id = weights.clone();
        by_id.sort_by_key(|w| w.0);
        let wanted = by_id.iter().map(|w| w.1).sum::<f64>() * f64::from(sampling.top_p);
        let mut reached = 0.0;
        let end = weights.iter().position(|w| {
            reached += w.1;
            reached >= wanted
        });
        weights.truncate(end.map_or(weights.len(), |end| end + 1));
    }
    weights.retain(|w| w.1 >= f64::from(sampling.min_p));
    weights.sort_by_key(|w| w.0);
    weights
}

fn naive_draw(sampling: &Sampling, adjusted: &[f64], position: u32) -> u32 {
    let kept = naive_kept(sampling, adjusted);
    let target = uniform(sampling.seed, Tokens::new(position)) * kept.iter().map(|w| w.1).sum::<f64>();
    let mut reached = 0.0;
    for &(id, weight) in &kept {
        reached += weight;
        if reached > target {
            return id;
        }
    }
    kept.iter().rfind(|w| w.1 > 0.0).unwrap().0
}

fn any_sampling() -> impl Strategy<Value = Sampling> {
    let filters = (
        prop_oneof![Just(0.0_f32), 0.01_f32..2.0],
        prop_oneof![Just(1.0_f32), 0.01_f32..1.0, Just(0.999_99)],
        prop_oneof![Just(0_u32), 1_u32..400],
        prop_oneof![Just(0.0_f32), 0.0_f32..1.0, Just(1.0)],
    );
    let penalties = (
        prop_oneof![Just(0.0_f32), -2.0_f32..2.0],
        prop_oneof![Just(0.0_f32), -2.0_f32..2.0],
        proptest::collection::btree_map(0_u32..300, -100.0_f32..100.0, 0..5),
    );
    (filters, any::<u64>(), penalties).prop_map(|((temperature, top_p, top_k, min_p), seed, penalties)| {
        let (frequency_penalty, presence_penalty, bias) = penalties;
        let logit_bias = bias.into_iter().collect();
        let logprobs = Logprobs::Top(20);
        Sampling {
            temperature,
            top_p,
            top_k,
            min_p,
            seed,
            frequency_penalty,
            presence_penalty,
            logit_bias,
            logprobs,
        }
    })
}

/// Few distinct values, so that ties are common.
fn any_logits() -> impl Strategy<Value = Vec<f32>> {
    let coarse = (-20_i8..20).prop_map(|v| f32::from(v) / 2.0);
    proptest::collection::vec(prop_oneof![coarse, -30.0_f32..30.0, Just(-0.0)], 300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn three_choices_equal_the_naive_ones(sampling in any_sampling(), logits in any_logits()) {
        let mut sampler = Sampler::new(sampling.clone(), 300).unwrap();
        let mut scratch = Scratch::default();
        let mut counts = BTreeMap::<u32, u32>::new();
        for position in 10..13 {
            let mut adjusted: Vec<f64> = logits.iter().map(|&l| f64::from(l)).collect();
            for (&id, &n) in &counts {
                adjusted[id as usize] -=
                    f64::from(n) * f64::from(sampling.frequency_penalty) + f64::from(sampling.presence_penalty);
            }
            for &(id, bias) in &sampling.logit_bias {
                adjusted[id as usize] += f64::from(bias);
            }
            let expected = if sampling.temperature == 0.0 {
                let top = adjusted.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                adjusted.iter().position(|v| *v == top).unwrap() as u32
            } else {
                naive_draw(&sampling, &adjusted, position)
            };
            let out = sampler.choose(&logits, Tokens::new(position), &mut scratch).unwrap();
            prop_assert_eq!(out.id, expected);
            *counts.entry(expected).or_default() += 1;

            let most = logits.iter().copied().fold(f32::MIN, f32::max);
            let whole: f64 = logits.iter().map(|&l| (f64::from(l) - f64::from(most)).exp()).sum();
            let logprob = |id: u32| f64::from(logits[id as usize]) - f64::from(most) - whole.ln();
            let mut ranked: Vec<u32> = (0..300).collect();
            ranked.sort_by(|a, b| {
                logits[*b as usize].partial_cmp(&logits[*a as usize]).unwrap().then(a.cmp(b))
            });
            prop_assert_eq!(out.top.iter().map(|t| t.0).collect::<Vec<_>>(), &ranked[..20]);
            for (id, got) in out.top.iter().copied().chain([(out.id, out.logprob)]) {
                prop_assert!((f64::from(got) - logprob(id)).abs() < 1e-5);
            }
        }
    }
}

#[test]
fn draws_follow_the_probabilities() {
    let logits = [0.0_f32, 1.0, 2.0, -1.0];
    let whole: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
    let mut counts = [0.0; 4];
    for seed in 0..20_000 {
        let sampling = Sampling { temperature: 1.0, seed, ..greedy() };
        let mut sampler = Sampler::new(sampling, 4).unwrap();
        counts[sampler.choose(&logits, Tokens::new(3), &mut Scratch::default()).unwrap().id as usize] += 1.0;
    }
    let chi: f64 = counts
        .iter()
        .zip(logits)
        .map(|(n, l): (&f64, f32)| (n, 20_000.0 * f64::from(l).exp() / whole))
        .map(|(n, expected)| (n - expected).powi(2) / expected)
        .sum();
    // 3 degrees of freedom: under 16.27 in 999 of 1,000 cases.
    assert!(chi < 16.27, "{chi}");
}

#[test]
fn anything_not_finite_is_no_token() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in 0..9 {
            let mut logits = [0.0_f32; 9];
            logits[at] = bad;
            for temperature in [0.0, 1.0] {
                let mut sampler = Sampler::new(Sampling { temperature, ..greedy() }, 9).unwrap();
                let chosen = sampler.choose(&logits, Tokens::new(1), &mut Scratch::default());
                assert_eq!(chosen, Err(NotANumber));
            }
        }
    }
    let mut sampler = Sampler::new(greedy(), 9).unwrap();
    assert_eq!(sampler.choose(&[], Tokens::new(1), &mut Scratch::default()), Err(NotANumber));
}

#[test]
fn each_value_has_its_range() {
    type Change = fn(&mut Sampling);
    let bad: [Change; 15] = [
        |s| s.temperature = -0.1,
        |s| s.temperature = 2.1,
        |s| s.temperature = f32::NAN,
        |s| s.top_p = 0.0,
        |s| s.top_p = 1.1,
        |s| s.top_p = f32::NAN,
        |s| s.min_p = -0.1,
        |s| s.min_p = 1.1,
        |s| s.frequency_penalty = 2.1,
        |s| s.presence_penalty = -2.1,
        |s| s.logit_bias = vec![(1, 101.0)],
        |s| s.logit_bias = vec![(1, f32::INFINITY)],
        |s| s.logit_bias = vec![(1, 1.0), (1, 2.0)],
        |s| s.logit_bias = (0..1025).map(|id| (id, 0.0)).collect(),
        |s| s.logprobs = Logprobs::Top(21),
    ];
    for (i, change) in bad.iter().enumerate() {
        let mut sampling = greedy();
        change(&mut sampling);
        assert!(matches!(Sampler::new(sampling, 5000), Err(Refusal::BadSampling)), "change {i} passed");
    }
    let good: [Change; 6] = [
        |s| s.temperature = 2.0,
        |s| s.top_p = f32::MIN_POSITIVE,
        |s| s.min_p = 1.0,
        |s| s.frequency_penalty = -2.0,
        |s| s.logit_bias = (0..1024).map(|id| (id, -100.0)).collect(),
        |s| s.logprobs = Logprobs::Top(20),
    ];
    for (i, change) in good.iter().enumerate() {
        let mut sampling = greedy();
        change(&mut sampling);
        assert!(Sampler::new(sampling, 5000).is_ok(), "change {i} was refused");
    }
    let stray = Sampling { logit_bias: vec![(7, 1.0)], ..greedy() };
    assert_eq!(Sampler::new(stray, 7).err(), Some(Refusal::UnknownToken { id: 7, vocab: 7 }));
}

#[test]
fn what_a_scratch_held_changes_nothing() {
    let sampling = Sampling { temperature: 0.8, top_p: 0.9, logprobs: Logprobs::Top(3), ..greedy() };
    let logits: Vec<f32> = (0..100_u16).map(|i| f32::from(i * 37 % 101) / 9.0).collect();
    let choose = |scratch: &mut Scratch| {
        Sampler::new(sampling.clone(), 100).unwrap().choose(&logits, Tokens::new(4), scratch).unwrap()
    };
    let mut used = Scratch::default();
    let first = choose(&mut used);
    Sampler::new(greedy(), 500).unwrap().choose(&[1.0; 500], Tokens::new(9), &mut used).unwrap();
    assert_eq!(choose(&mut used), first);
}
