//! Engines on stamp devices, requests, and the oracle.

use engine::{
    core::{Engine, EngineConfig, EngineStartError, PrefixCache, Progress, Reader, Transcript, run_to_end},
    device::stamp::{Lie, STAMP_VOCAB, StampDevice, expected_logits},
    sampler::{Sampler, Scratch},
};
use isolation::{
    keyed::Secrets,
    tag::TenantTag,
    units::{Epoch, Pages, Tokens},
};
use std::num::NonZeroU32;
use wire::{EngineStatus, Logprobs, Refusal, RequestId, Sampling, Submit, TokenOut};

pub(crate) const PAGE: u32 = 4;
pub(crate) const EPOCH: u64 = 77;

pub(crate) fn config() -> EngineConfig {
    EngineConfig { step_tokens: Tokens::new(16), sequences_max: 8, queue_max: 64, ..EngineConfig::default() }
}

pub(crate) fn no_cache() -> EngineConfig {
    EngineConfig { prefix_cache: PrefixCache::Off, ..config() }
}

pub(crate) fn try_engine(
    pages: u32,
    config: EngineConfig,
    lie: Lie,
) -> Result<Engine<StampDevice>, EngineStartError> {
    let device = StampDevice::new(Pages::new(pages), NonZeroU32::new(PAGE).unwrap(), Tokens::new(64));
    Engine::new(device.lying(lie), config, Epoch::new(EPOCH), Secrets::new([4; 16]))
}

pub(crate) fn engine(pages: u32, config: EngineConfig) -> Engine<StampDevice> {
    try_engine(pages, config, Lie::None).unwrap()
}

/// SplitMix64, so that a seed replays a trace.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

pub(crate) fn greedy() -> Sampling {
    Sampling {
        temperature: 0.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
        seed: 3,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        logit_bias: vec![],
        logprobs: Logprobs::Top(2),
    }
}

/// A prompt that tells its base and its length.
pub(crate) fn prompt(base: u32, length: u32) -> Vec<u32> {
    (0..length).map(|i| (base * 17 + i * 5) % STAMP_VOCAB).collect()
}

pub(crate) fn name(number: u32) -> RequestId {
    let mut request = [0; 16];
    request[..4].copy_from_slice(&number.to_le_bytes());
    request
}

pub(crate) fn submit(number: u32, tag: u64, prompt: Vec<u32>, max_tokens: u32) -> Submit {
    Submit {
        request: name(number),
        tag,
        epoch: EPOCH,
        serial: 0,
        prompt,
        max_tokens,
        stop_tokens: vec![],
        sampling: greedy(),
        ticket: [0; 32],
    }
}

/// What a tenant must get: from the oracle, without pages, steps or batches.
pub(crate) fn oracle(submit: &Submit) -> Vec<TokenOut> {
    let mut sampler = Sampler::new(submit.sampling.clone(), STAMP_VOCAB).unwrap();
    let mut known = submit.prompt.clone();
    let mut out = vec![];
    while out.len() < submit.max_tokens as usize {
        let logits = expected_logits(TenantTag::new(submit.tag), &known);
        let position = Tokens::new(known.len() as u32);
        let token = sampler.choose(&logits, position, &mut Scratch::default()).unwrap();
        if submit.stop_tokens.contains(&token.id) {
            break;
        }
        known.push(token.id);
        out.push(token);
    }
    out
}

/// The request alone on a fresh engine.
pub(crate) fn solo(submit: &Submit) -> Transcript {
    let mut fresh = engine(64, no_cache());
    run_to_end(&mut fresh, vec![submit.clone()]).unwrap().remove(&submit.request).unwrap()
}

/// An engine and a reader of its frames.
pub(crate) struct Session {
    pub(crate) engine: Engine<StampDevice>,
    pub(crate) reader: Reader,
}

impl Session {
    pub(crate) fn new(engine: Engine<StampDevice>) -> Self {
        Self { engine, reader: Reader::new() }
    }

    pub(crate) fn submit(&mut self, submit: &Submit) -> Result<(), Refusal> {
        self.reader.expect(submit);
        let result = self.engine.submit(submit.clone());
        if let Err(refusal) = &result {
            self.reader.refused(submit.request, refusal.clone());
        }
        result
    }

    pub(crate) fn step(&mut self) -> Progress {
        let reader = &mut self.reader;
        self.engine.step(&mut |frame| reader.read(frame).unwrap())
    }

    pub(crate) fn settle(&mut self) {
        engine::core::settle(&mut self.engine, &mut self.reader).unwrap();
    }

    pub(crate) fn of(&self, number: u32) -> &Transcript {
        &self.reader.transcripts()[&name(number)]
    }

    /// Runs one request to its end, and gives the tokens that came from the cache.
    pub(crate) fn cached(&mut self, submit: &Submit) -> u32 {
        self.submit(submit).unwrap();
        self.settle();
        self.reader.transcripts()[&submit.request].evidence.as_ref().unwrap().cached
    }
}

/// Nothing is held but what the cache keeps, and each page is somewhere.
pub(crate) fn assert_at_rest(status: &EngineStatus) {
    let census = status.census;
    assert_eq!((status.running, status.queued), (0, 0));
    assert_eq!((census.leased, census.quarantined, census.dirty), (0, 0, 0), "{census:?}");
    assert_eq!(census.clean + census.shared + census.withdrawn, census.total, "{census:?}");
}
