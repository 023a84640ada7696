//! A family of requests, and what each of them gets alone.

use engine::{
    core::{Ended, Engine, EngineConfig, PrefixCache, Transcript, run_to_end},
    device::cpu::{CpuDevice, CpuOptions, Weights},
};
use isolation::{
    keyed::Secrets,
    units::{Epoch, Tokens},
};
use kernels::Isa;
use std::sync::Arc;
use wire::{Ending, Logprobs, Sampling, Submit, TokenOut};

pub(crate) const EPOCH: u64 = 5;
/// How many requests the family has.
pub(crate) const KINDS: u32 = 48;
pub(crate) const TENANTS: u64 = 4;

/// A token, the bits of its log-probability, and those of its likeliest rivals.
pub(crate) type Bits = (u32, u32, Vec<(u32, u32)>);

pub(crate) fn bits(tokens: &[TokenOut]) -> Vec<Bits> {
    let top = |top: &[(u32, f32)]| top.iter().map(|(id, logprob)| (*id, logprob.to_bits())).collect();
    tokens.iter().map(|token| (token.id, token.logprob.to_bits(), top(&token.top))).collect()
}

pub(crate) fn engine(
    weights: &Arc<Weights>,
    pool: u32,
    (threads, isa): (usize, Option<Isa>),
    config: EngineConfig,
) -> Engine<CpuDevice> {
    let options = CpuOptions { pool_tokens: Tokens::new(pool), threads, isa };
    let device = CpuDevice::with_weights(Arc::clone(weights), options).unwrap();
    Engine::new(device, config, Epoch::new(EPOCH), Secrets::new([4; 16])).unwrap()
}

/// Prompts that share prefixes within and across tenants, of lengths about whole pages, with every way to sample.
pub(crate) fn request(kind: u32) -> Submit {
    let length = [7, 16, 17, 33, 48][kind as usize % 5] + kind % 2;
    let base = kind % 3;
    let mut prompt: Vec<u32> = (0..length).map(|i| 1000 + (base * 7919 + i * 104_729) % 40_000).collect();
    if kind.is_multiple_of(4) {
        *prompt.last_mut().unwrap() = 500 + kind;
    }
    let plain = Sampling {
        temperature: 0.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
        seed: u64::from(kind % 5),
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        logit_bias: vec![],
        logprobs: Logprobs::Top(5),
    };
    let sampling = match kind / 5 % 5 {
        0 | 1 => plain,
        2 => Sampling { temperature: 1.0, top_p: 0.9, ..plain },
        3 => Sampling { temperature: 0.7, top_k: 40, frequency_penalty: 0.5, ..plain },
        _ => Sampling { temperature: 1.5, min_p: 0.05, logit_bias: vec![(kind, 5.0)], ..plain },
    };
    Submit {
        request: [0; 16],
        tag: 1 + u64::from(kind) % TENANTS,
        epoch: EPOCH,
        serial: 0,
        prompt,
        max_tokens: 2 + kind % 6,
        stop_tokens: vec![2],
        sampling,
        ticket: [0; 32],
    }
}

pub(crate) fn is_completed(transcript: &Transcript) -> bool {
    matches!(transcript.ended, Some(Ended::Admitted(Ending::Completed(_))))
}

/// The model, and what each kind of request gets alone on a fresh engine: one thread, one chunk, no cache.
pub(crate) struct Alone {
    pub(crate) weights: Arc<Weights>,
    bits: Vec<Vec<Bits>>,
}

impl Alone {
    pub(crate) fn compute() -> Self {
        let path = std::env::var_os("BULKHEAD_TEST_MODEL")
            .expect("BULKHEAD_TEST_MODEL must name the demo model's file; ./check sets it");
        let weights = Arc::new(Weights::read(path.as_ref(), &mut |_| ()).unwrap());
        let config = EngineConfig { prefix_cache: PrefixCache::Off, ..EngineConfig::default() };
        let alone = |kind| {
            let submit = request(kind);
            let name = submit.request;
            let mut fresh = engine(&weights, 128, (1, None), config);
            let transcript = run_to_end(&mut fresh, vec![submit]).unwrap().remove(&name).unwrap();
            assert!(is_completed(&transcript), "{:?}", transcript.ended);
            bits(&transcript.tokens)
        };
        let bits = (0..KINDS).map(alone).collect();
        Self { weights, bits }
    }

    pub(crate) fn of(&self, kind: u32) -> &[Bits] {
        &self.bits[kind as usize]
    }
}
