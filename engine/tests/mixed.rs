//! Non-interference on the real model (P1): 40 mixed requests of 4 tenants run together, and each alone on a fresh engine,
//! give the same tokens and the same log-probabilities, bit for bit.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "tests compute freely"
)]

use engine::{
    core::{Ended, Engine, EngineConfig, PrefixCache, Transcript, run_to_end},
    device::cpu::{CpuDevice, CpuOptions, Weights},
};
use isolation::{
    keyed::Secrets,
    units::{Epoch, Tokens},
};
use std::sync::Arc;
use wire::{Ending, Logprobs, Sampling, Submit};

const EPOCH: u64 = 5;
const REQUESTS: u32 = 40;

fn weights() -> Arc<Weights> {
    let path = std::env::var_os("BULKHEAD_TEST_MODEL")
        .expect("BULKHEAD_TEST_MODEL must name the demo model's file; ./check sets it");
    Arc::new(Weights::read(path.as_ref(), &mut |_| ()).unwrap())
}

fn engine(weights: &Arc<Weights>, pool: u32, threads: usize, config: EngineConfig) -> Engine<CpuDevice> {
    let options = CpuOptions { pool_tokens: Tokens::new(pool), threads, isa: None };
    let device = CpuDevice::with_weights(Arc::clone(weights), options).unwrap();
    Engine::new(device, config, Epoch::new(EPOCH), Secrets::new([4; 16])).unwrap()
}

/// Prompts that share prefixes within and across tenants, of lengths about whole pages, with every way to sample.
fn request(number: u32) -> Submit {
    let length = [7, 16, 17, 33, 48][number as usize % 5] + number % 2;
    let base = number % 3;
    let mut prompt: Vec<u32> = (0..length).map(|i| 1000 + (base * 7919 + i * 104_729) % 40_000).collect();
    if number.is_multiple_of(4) {
        *prompt.last_mut().unwrap() = 500 + number;
    }
    let plain = Sampling {
        temperature: 0.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
        seed: u64::from(number % 5),
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        logit_bias: vec![],
        logprobs: Logprobs::Top(5),
    };
    let sampling = match number / 5 % 5 {
        0 | 1 => plain,
        2 => Sampling { temperature: 1.0, top_p: 0.9, ..plain },
        3 => Sampling { temperature: 0.7, top_k: 40, frequency_penalty: 0.5, ..plain },
        _ => Sampling { temperature: 1.5, min_p: 0.05, logit_bias: vec![(number, 5.0)], ..plain },
    };
    let mut request = [0; 16];
    request[0] = number as u8;
    Submit {
        request,
        tag: 1 + u64::from(number % 4),
        epoch: EPOCH,
        serial: 0,
        prompt,
        max_tokens: 2 + number % 6,
        stop_tokens: vec![2],
        sampling,
        ticket: [0; 32],
    }
}

/// A token, the bits of its log-probability, and those of its likeliest rivals.
type Bits = (u32, u32, Vec<(u32, u32)>);

fn bits(transcript: &Transcript) -> Vec<Bits> {
    assert!(
        matches!(transcript.ended, Some(Ended::Admitted(Ending::Completed(_)))),
        "{:?}",
        transcript.ended
    );
    let top = |top: &[(u32, f32)]| top.iter().map(|(id, logprob)| (*id, logprob.to_bits())).collect();
    transcript.tokens.iter().map(|token| (token.id, token.logprob.to_bits(), top(&token.top))).collect()
}

/// The first request whose bits in company are not those that it has alone on a fresh engine.
fn first_difference(requests: &[Submit]) -> Option<u8> {
    let weights = weights();
    // A pool that holds some of them at once, and chunks that cut prompts within pages.
    let config = EngineConfig { step_tokens: Tokens::new(37), sequences_max: 12, ..EngineConfig::default() };
    let together = run_to_end(&mut engine(&weights, 640, 2, config), requests.to_vec()).unwrap();
    let cached: u32 =
        together.values().filter_map(|t| t.evidence.as_ref()).map(|evidence| evidence.cached).sum();
    assert!(cached > 0, "nothing came from a prefix cache");
    let differs = |submit: &&Submit| {
        let alone = EngineConfig { prefix_cache: PrefixCache::Off, ..EngineConfig::default() };
        let mut fresh = engine(&weights, 128, 1, alone);
        let solo = run_to_end(&mut fresh, vec![(*submit).clone()]).unwrap();
        bits(&together[&submit.request]) != bits(&solo[&submit.request])
    };
    requests.iter().find(differs).map(|submit| submit.request[0])
}

#[test]
fn forty_requests_of_four_tenants_get_what_they_get_alone() {
    let requests: Vec<Submit> = (0..REQUESTS).map(request).collect();
    assert_eq!(first_difference(&requests), None);
}

/// The positive control: the same comparison on kernels whose sums follow the batch, or whose rows meet.
#[cfg(feature = "seeded-faults")]
#[test]
fn kernels_that_let_requests_meet_are_noticed() {
    use kernels::fault::{Fault, with};
    let requests: Vec<Submit> = (0..REQUESTS).map(request).collect();
    for fault in [Fault::SplitByBatch, Fault::RowsMeet, Fault::SumByChunk, Fault::ForeignPages] {
        assert!(with(fault, || first_difference(&requests)).is_some(), "{fault:?} was not noticed");
    }
}
