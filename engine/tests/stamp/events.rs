//! Random traces: made from a seed, and made small when they fail.

use crate::common::{EPOCH, PAGE, Rng, config, greedy, prompt, submit};
use engine::core::{EngineConfig, Preemption, PrefixCache};
use isolation::{
    quota::Quota,
    tag::TenantTag,
    units::{Pages, Tokens},
};
use std::num::NonZeroU32;
use wire::{Sampling, Submit};

/// Tenants of a trace, numbered from 1.
pub(crate) const TENANTS: u64 = 4;

/// One engine's life, or several.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) pages: u32,
    pub(crate) config: EngineConfig,
    pub(crate) quotas: Vec<(TenantTag, Quota)>,
    pub(crate) events: Vec<Event>,
}

/// What happens to an engine.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A request comes; its epoch is put in when it is sent.
    Submit(Box<Submit>),
    /// The client of the so-manieth request leaves.
    Cancel(usize),
    /// The so-manieth request's pages are taken back.
    Preempt(usize),
    /// A tenant's prefixes are let go.
    Forget(TenantTag),
    /// The pool becomes smaller.
    Shrink(u32),
    /// The process dies with all it knows; its memory stays as it is.
    Crash,
    /// So many steps at most.
    Step(u64),
}

impl std::fmt::Display for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} pages, {:?}\nquotas: {:?}", self.pages, self.config, self.quotas)?;
        for event in &self.events {
            match event {
                Event::Submit(s) => {
                    let (length, max) = (s.prompt.len(), s.max_tokens);
                    writeln!(f, "Submit {:?} of {}: {length} + {max}", &s.request[..4], s.tag)?;
                }
                Event::Cancel(_)
                | Event::Preempt(_)
                | Event::Forget(_)
                | Event::Shrink(_)
                | Event::Crash
                | Event::Step(_) => writeln!(f, "{event:?}")?,
            }
        }
        Ok(())
    }
}

impl Trace {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let rng = &mut Rng(seed);
        let pages = rng.pick(&[8, 9, 14, 30]);
        let config = any_config(rng);
        let quotas = any_quotas(rng, pages);
        let mut sent = 0;
        let events = (0..20 + rng.below(40)).map(|_| any_event(rng, &mut sent)).collect();
        Self { pages, config, quotas, events }
    }

    /// The shortest trace found that `fails` as this one does: without as many events as can be spared.
    pub(crate) fn shrunk(mut self, fails: impl Fn(&Self) -> bool) -> Self {
        let mut width = self.events.len().div_ceil(2);
        while width > 0 {
            let mut from = 0;
            while from < self.events.len() {
                let mut shorter = self.clone();
                shorter.events.drain(from..(from + width).min(self.events.len()));
                if fails(&shorter) {
                    self = shorter;
                } else {
                    from += width;
                }
            }
            width /= 2;
        }
        self
    }
}

fn any_event(rng: &mut Rng, sent: &mut u32) -> Event {
    let any_sent = |rng: &mut Rng, sent: u32| rng.below(u64::from(sent)) as usize;
    match rng.below(20) {
        0..=8 => {
            *sent += 1;
            Event::Submit(Box::new(any_submit(rng, *sent - 1)))
        }
        9 | 10 if *sent > 0 => Event::Cancel(any_sent(rng, *sent)),
        11 | 12 if *sent > 0 => Event::Preempt(any_sent(rng, *sent)),
        13 => match rng.below(8) {
            0 => Event::Shrink(1 + rng.below(3) as u32),
            1 => Event::Crash,
            2 | 3 => Event::Forget(TenantTag::new(1 + rng.below(TENANTS))),
            _ => Event::Step(1),
        },
        _ => Event::Step(1 + rng.below(4)),
    }
}

fn any_config(rng: &mut Rng) -> EngineConfig {
    let prefix_cache = if rng.below(3) == 0 {
        PrefixCache::Off
    } else {
        PrefixCache::Share { percent: rng.pick(&[10, 50, 100]) }
    };
    EngineConfig {
        step_tokens: Tokens::new(rng.pick(&[1, 2, 3, 5, 8, 16, 64])),
        sequences_max: rng.pick(&[1, 2, 4, 8]),
        queue_max: rng.pick(&[0, 3, 40]),
        prefix_cache,
        preemption: rng.pick(&[Preemption::On, Preemption::Off]),
        scrub_pages: Pages::new(rng.pick(&[1, 2, 8])),
        ..config()
    }
}

/// In half of all traces some tenants have floors, caps and weights; together the floors leave a burst.
fn any_quotas(rng: &mut Rng, pages: u32) -> Vec<(TenantTag, Quota)> {
    let mut quotas = vec![];
    if rng.below(2) == 0 {
        for tag in 1..TENANTS {
            let floor = rng.below(u64::from(pages / 4) + 1) as u32;
            let cap = floor.max(1) + rng.below(u64::from(pages)) as u32;
            let weight = NonZeroU32::new(1 + rng.below(3) as u32).unwrap();
            let quota = Quota::new(Pages::new(floor), Pages::new(cap), weight).unwrap();
            quotas.push((TenantTag::new(tag), quota));
        }
    }
    quotas
}

/// Few bases, so that tenants send the same prompts; lengths about whole pages.
pub(crate) fn any_submit(rng: &mut Rng, number: u32) -> Submit {
    let pages = 1 + rng.below(5) as u32;
    let length = (pages * PAGE + rng.below(3) as u32).saturating_sub(1);
    let mut ids = prompt(rng.below(3) as u32, length);
    if rng.below(3) == 0 {
        // The same first token of the last page, and another one behind it.
        let last = ids.len() - 1;
        ids[last] = rng.below(64) as u32;
    }
    let sampling = match rng.below(3) {
        0 => greedy(),
        1 => Sampling { temperature: 1.0, top_p: 0.9, seed: rng.below(4), ..greedy() },
        _ => Sampling { temperature: 0.7, top_k: 5, presence_penalty: 1.0, seed: rng.below(4), ..greedy() },
    };
    let stop_tokens = if rng.below(2) == 0 { vec![rng.below(64) as u32] } else { vec![] };
    let base = submit(number, 1 + rng.below(TENANTS), ids, 1 + rng.below(7) as u32);
    Submit { sampling, stop_tokens, epoch: EPOCH, ..base }
}
