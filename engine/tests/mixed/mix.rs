//! One mix: an engine of some make, and requests that come, leave and are preempted at random.

use crate::requests::{Alone, EPOCH, KINDS, TENANTS, bits, engine, is_completed, request};
use engine::core::{Ended, EngineConfig, Preemption, PrefixCache, Progress, Reader};
use isolation::units::Tokens;
use kernels::{Cpu, Isa};
use std::collections::BTreeMap;
use wire::{Ending, Quota, RequestId};

/// Far more steps than a mix takes.
const STEPS_MAX: u32 = 20_000;

/// SplitMix64, so that a seed replays a mix.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// What happens to the engine between two steps.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A request of this kind comes, the next in number.
    Submit(u32),
    /// The client of this number leaves.
    Cancel(u32),
    /// This number's pages are taken back.
    Preempt(u32),
}

/// All that a seed decides.
#[derive(Debug)]
pub(crate) struct Mix {
    pool: u32,
    threads: usize,
    isa: Isa,
    config: EngineConfig,
    quotas: Vec<Quota>,
    /// Steps to take, then what happens.
    events: Vec<(u32, Event)>,
}

/// What mixes did, all together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    completed: u32,
    cancelled: u32,
    cached: u32,
    preempted: u64,
    steps: u64,
    /// Mixes by what their engine was.
    makes: BTreeMap<String, u32>,
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Self) {
        self.completed += other.completed;
        self.cancelled += other.cancelled;
        self.cached += other.cached;
        self.preempted += other.preempted;
        self.steps += other.steps;
        for (make, count) in &other.makes {
            *self.makes.entry(make.clone()).or_default() += count;
        }
    }

    /// A run that tried too little proves nothing.
    pub(crate) fn assert_all_was_tried(&self) {
        assert!(self.completed > 200 && self.cancelled > 5 && self.cached > 20, "{self:?}");
        assert!(self.preempted > 10, "{self:?}");
        let isas = Cpu::all().map(|cpu| format!("{:?}", cpu.isa()));
        let others = ["1 threads", "2 threads", "4 threads", "cache on", "cache off"].map(str::to_owned);
        for make in isas.chain(others) {
            assert!(self.makes.get(&make).is_some_and(|&count| count > 1), "{make}: {self:?}");
        }
    }
}

impl Mix {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let fast: Vec<Isa> = Cpu::all().map(Cpu::isa).filter(|isa| *isa != Isa::Portable).collect();
        // The portable path takes thirty times as long: a few short requests, now and then.
        let isa = if fast.is_empty() || rng.below(25) == 0 { Isa::Portable } else { rng.pick(&fast) };
        let (count, lengths) = if isa == Isa::Portable { (2, 3) } else { (4 + rng.below(9), 5) };
        let config = EngineConfig {
            step_tokens: Tokens::new(rng.pick(&[5, 16, 17, 37, 64, 512])),
            sequences_max: rng.pick(&[1, 2, 3, 5, 12, 16]),
            prefix_cache: rng.pick(&[PrefixCache::Off, PrefixCache::Share { percent: 50 }]),
            preemption: rng.pick(&[Preemption::Off, Preemption::On]),
            ..EngineConfig::default()
        };
        let mut events = vec![];
        for number in 0..count as u32 {
            // A third come together with the one before. The kinds of one remainder have one length.
            let kind = rng.below(u64::from(KINDS) / 5) * 5 + rng.below(lengths);
            events.push((rng.pick(&[0, 1, 3]), Event::Submit(kind as u32)));
            let earlier = rng.below(u64::from(number) + 1) as u32;
            match rng.below(8) {
                0 => events.push((rng.pick(&[0, 2]), Event::Cancel(earlier))),
                1 | 2 if config.preemption == Preemption::On => {
                    events.push((rng.pick(&[1, 4]), Event::Preempt(earlier)));
                }
                _ => {}
            }
        }
        let pool = rng.pick(&[128, 192, 640]);
        let quotas = if rng.below(2) == 0 { vec![] } else { quotas(&mut rng, pool) };
        Self { pool, threads: rng.pick(&[1, 2, 4]), isa, config, quotas, events }
    }

    /// Compares what each request gets with what it gets alone; a request that left must have got the head of it.
    pub(crate) fn run(&self, alone: &Alone) -> Result<Seen, String> {
        let mut engine = engine(&alone.weights, self.pool, (self.threads, Some(self.isa)), self.config);
        engine.set_quotas_in_tokens(&self.quotas).map_err(|error| error.to_string())?;
        let (mut reader, mut kinds) = (Reader::new(), vec![]);
        let mut seen = Seen::default();
        let mut step = |engine: &mut engine::core::Engine<_>, reader: &mut Reader| {
            seen.steps += 1;
            let mut bad = None;
            let progress = engine.step(&mut |frame| bad = bad.or(reader.read(frame).err()));
            bad.map_or(Ok(progress), |unsound| Err(unsound.to_string()))
        };
        for &(steps, event) in &self.events {
            for _ in 0..steps {
                step(&mut engine, &mut reader)?;
            }
            match event {
                Event::Submit(kind) => {
                    let mut submit = request(kind);
                    submit.request = name(kinds.len() as u32);
                    kinds.push(kind);
                    reader.expect(&submit);
                    engine.submit(submit).map_err(|refusal| format!("{refusal:?}"))?;
                }
                Event::Cancel(number) => engine.cancel(name(number)),
                Event::Preempt(number) => _ = engine.preempt(name(number)),
            }
        }
        for _ in 0..STEPS_MAX {
            if step(&mut engine, &mut reader)? == Progress::Idle {
                break;
            }
        }
        seen.preempted = engine.preempted();
        self.judge(&reader, &kinds, alone, seen)
    }

    fn judge(&self, reader: &Reader, kinds: &[u32], alone: &Alone, mut seen: Seen) -> Result<Seen, String> {
        for (number, &kind) in kinds.iter().enumerate() {
            let transcript = &reader.transcripts()[&name(number as u32)];
            let (got, expected) = (bits(&transcript.tokens), alone.of(kind));
            seen.cached += u32::from(transcript.evidence.as_ref().is_some_and(|proof| proof.cached > 0));
            let is_cancelled = transcript.ended == Some(Ended::Admitted(Ending::Cancelled));
            if is_completed(transcript) && got == expected {
                seen.completed += 1;
            } else if is_cancelled && expected.starts_with(&got) {
                seen.cancelled += 1;
            } else {
                return Err(format!("request {number}, kind {kind}: {:?}", transcript.ended));
            }
        }
        let cache = if self.config.prefix_cache == PrefixCache::Off { "cache off" } else { "cache on" };
        let makes = [format!("{:?}", self.isa), format!("{} threads", self.threads), cache.to_owned()];
        seen.makes = makes.map(|make| (make, 1)).into();
        Ok(seen)
    }
}

/// A floor of one tenant, caps that still hold any request, and weights.
fn quotas(rng: &mut Rng, pool: u32) -> Vec<Quota> {
    let floored = 1 + rng.below(TENANTS);
    let quota = |tag| {
        let floor = if tag == floored { pool / 4 } else { 0 };
        Quota { tag, floor, cap: pool, weight: 1 + (tag % 2) as u32 }
    };
    (1..=TENANTS).map(quota).collect()
}

fn name(number: u32) -> RequestId {
    let mut name = [0; 16];
    name[..4].copy_from_slice(&number.to_le_bytes());
    name[15] = EPOCH as u8;
    name
}
