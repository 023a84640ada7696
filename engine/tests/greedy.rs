//! The real model against llama.cpp: greedy continuations, token by token, and log-probabilities.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test"
)]

use engine::device::{
    Chunk, Device, Want,
    cpu::{CpuDevice, CpuOptions, Weights},
};
use isolation::{
    lease::Lease,
    page::Verify,
    pool::Pool,
    tag::{Registry, TenantTag},
    units::{Epoch, Tokens},
};
use std::{path::PathBuf, sync::Arc};

/// Logits closer than this are a tie: both sides quantise activations to 8 bits, in another order of sums.
const NEAR_TIE: f32 = 0.15;
/// Log-probabilities of the two likeliest tokens may differ by this on average, in nats.
const MEAN_DISTANCE: f64 = 0.09;

/// Places of each prompt that the oracle is asked about: it reads 4 bytes a weight and is slow.
const ORACLE_PLACES: usize = 12;

fn model() -> PathBuf {
    let path = std::env::var_os("BULKHEAD_TEST_MODEL");
    PathBuf::from(path.expect("BULKHEAD_TEST_MODEL must name the demo model's file; ./check sets it"))
}

struct Reference {
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    top: Vec<Vec<(u32, f64)>>,
}

fn references() -> Vec<Reference> {
    let text = include_str!("data/smollm2_greedy.json");
    let all: serde_json::Value = serde_json::from_str(text).unwrap();
    let ids = |value: &serde_json::Value| -> Vec<u32> {
        value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    };
    let top = |value: &serde_json::Value| -> Vec<(u32, f64)> {
        let pairs = value.as_array().unwrap().iter();
        pairs.map(|pair| (pair[0].as_u64().unwrap() as u32, pair[1].as_f64().unwrap())).collect()
    };
    let one = |value: &serde_json::Value| Reference {
        prompt: ids(&value["prompt_ids"]),
        tokens: ids(&value["tokens"]),
        top: value["top"].as_array().unwrap().iter().map(top).collect(),
    };
    all.as_array().unwrap().iter().map(one).collect()
}

fn argmax(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1));
    best.unwrap().0 as u32
}

/// One device over the weights, with one sequence.
struct Run {
    device: CpuDevice,
    pool: Pool,
    lease: Lease,
    logits: Vec<f32>,
}

impl Run {
    fn new(weights: &Arc<Weights>) -> Self {
        let options = CpuOptions { pool_tokens: Tokens::new(256), threads: 2, isa: None };
        let mut device = CpuDevice::with_weights(Arc::clone(weights), options).unwrap();
        let facts = device.facts();
        let mut pool = Pool::new(facts.pages, facts.page_size, Epoch::new(1));
        pool.scrub(facts.pages, Verify::ReadBack, &mut device).unwrap();
        let scope = Registry::new().open(TenantTag::new(1));
        let lease = pool.lease(&scope, facts.pages).unwrap();
        Self { device, pool, lease, logits: vec![] }
    }

    fn feed(&mut self, tokens: &[u32]) {
        let step = self.pool.open_step().unwrap();
        let (write, access) = self.lease.include(Tokens::new(tokens.len() as u32), &step).unwrap();
        let chunk = Chunk { tokens, access: &access, want: Want::LastLogits };
        let (receipt, result) = self.device.run(step, &[chunk], &mut self.logits);
        result.unwrap();
        self.lease.commit(write, &receipt).unwrap();
    }

    fn logprob(&self, id: u32) -> f64 {
        let best = f64::from(self.logits[argmax(&self.logits) as usize]);
        let sum: f64 = self.logits.iter().map(|x| (f64::from(*x) - best).exp()).sum();
        f64::from(self.logits[id as usize]) - best - sum.ln()
    }
}

/// Distances of log-probabilities, over the two likeliest tokens of each place.
#[derive(Default)]
struct Distances(Vec<f64>);

impl Distances {
    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }
}

/// Three sides: ours, llama.cpp's recorded output, and ours with unquantised activations as the oracle. Greedy tokens are
/// llama.cpp's but for near-ties, and we are no further from the oracle than llama.cpp is.
#[test]
fn greedy_output_and_logprobs_are_llama_cpps() {
    let weights = Arc::new(Weights::read(&model(), &mut |_| ()).unwrap());
    let exact = Arc::new(weights.unquantised().unwrap());
    let (mut places, mut ties) = (0, 0);
    let (mut to_peer, mut to_oracle, mut peer_to_oracle) =
        (Distances::default(), Distances::default(), Distances::default());
    for reference in references() {
        let (mut ours, mut oracle) = (Run::new(&weights), Run::new(&exact));
        let mut feed = reference.prompt.clone();
        for (i, &expected) in reference.tokens.iter().enumerate() {
            ours.feed(&feed);
            if i < ORACLE_PLACES {
                oracle.feed(&feed);
            }
            let best = argmax(&ours.logits);
            if best != expected {
                let gap = ours.logits[best as usize] - ours.logits[expected as usize];
                println!("place {i}: {best} where llama.cpp has {expected}, logit gap {gap}");
                assert!(gap < NEAR_TIE, "place {i}: {best} for {expected}, logit gap {gap}");
                ties += 1;
            }
            for &(id, peer) in &reference.top[i][..2] {
                to_peer.0.push((ours.logprob(id) - peer).abs());
                if i < ORACLE_PLACES {
                    to_oracle.0.push((ours.logprob(id) - oracle.logprob(id)).abs());
                    peer_to_oracle.0.push((peer - oracle.logprob(id)).abs());
                }
            }
            places += 1;
            // Its token, not ours: a tie must not send the rest another way.
            feed = vec![expected];
        }
    }
    let (to_peer, ours, peer) = (to_peer.mean(), to_oracle.mean(), peer_to_oracle.mean());
    println!("{places} places, {ties} near-ties; log-probabilities differ on average:");
    println!(
        "ours and llama.cpp {to_peer:.4}, ours and the oracle {ours:.4}, llama.cpp and the oracle {peer:.4}"
    );
    assert_eq!(places, 48 * 4 + 7);
    assert!(ties <= 8, "{ties} near-ties of {places} places");
    assert!(to_peer < MEAN_DISTANCE && ours < MEAN_DISTANCE, "{to_peer} and {ours}");
    assert!(ours < peer * 1.2, "further from the oracle than llama.cpp: {ours} and {peer}");
}
