//! The audit procedure of Gu, Li, Kuditipudi, Liang and Hashimoto, "Auditing Prompt Caching in Language Model APIs" (2025).
//!
//! ```text
//! hit:   the victim sends a new prompt, once or more often ─► the attacker sends it too, and takes the time
//! miss:  the attacker sends a new prompt, and takes the time
//! ```
//!
//! Both in one shuffled order, so that what changes with time (heat, a fuller cache) changes both alike.
//!
//! Architecture invariant: one request at a time; knows no address, no key and no verdict.

use std::time::Duration;

use super::prompts::Draws;
use super::statistics::Comparison;
use crate::exit::{Exit, Failure};

/// Who sends a request, as its key tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Caller {
    /// Whose prompts are cached.
    Victim,
    /// Another key of the victim's tenant.
    SameTenant,
    /// A key of another tenant.
    CrossTenant,
}

/// How near the attacker is to the victim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Level {
    /// Another key of the same tenant, which is meant to share: the positive control.
    SameTenant,
    /// The same key.
    SameKey,
    /// Another tenant, which must learn nothing.
    CrossTenant,
}

impl Level {
    /// All of them, the control first.
    pub(crate) const ALL: [Self; 3] = [Self::SameTenant, Self::SameKey, Self::CrossTenant];

    /// As it is printed.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SameTenant => "same-tenant",
            Self::SameKey => "same-key",
            Self::CrossTenant => "cross-tenant",
        }
    }

    /// Who attacks.
    pub(crate) const fn attacker(self) -> Caller {
        match self {
            Self::SameTenant => Caller::SameTenant,
            Self::SameKey => Caller::Victim,
            Self::CrossTenant => Caller::CrossTenant,
        }
    }
}

/// What a server said to one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Reply {
    /// From the first byte sent to the first byte of the answer's body.
    pub(crate) first_byte: Duration,
    /// Tokens of the prompt.
    pub(crate) prompt_tokens: u64,
    /// Those of them that a cache had, where the server says so.
    pub(crate) cached: Option<u64>,
}

/// Answers requests, one at a time.
pub(crate) trait Server {
    /// Sends `prompt` as `caller` for one token of answer, and waits for the answer's end.
    fn ask(&mut self, caller: Caller, prompt: &str) -> Result<Reply, Failure>;
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) struct Procedure {
    /// Letters of a prompt.
    pub(crate) letters: u32,
    /// Hits, and misses, of one audit.
    pub(crate) samples: u32,
    /// How often the victim sends its prompt before a hit: an audit for each.
    pub(crate) warm_ups: Vec<u32>,
    /// How much of the victim's prompt the attacker sends, in percent; the rest of its letters are new.
    pub(crate) prefix_percent: u32,
    /// What goes before a miss.
    pub(crate) before_miss: BeforeMiss,
}

/// What goes before a miss.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BeforeMiss {
    /// Nothing, as published.
    Nothing,
    /// The victim sends another prompt as often as before a hit, so that hit and miss differ in nothing but whose prompt it is.
    Decoy,
}

/// One level with one number of warm-ups, done.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    pub(crate) level: Level,
    pub(crate) warm_ups: u32,
    /// The attacker's answers to prompts of the victim.
    pub(crate) hits: Vec<Reply>,
    /// The attacker's answers to new prompts.
    pub(crate) misses: Vec<Reply>,
    /// Their times, compared.
    pub(crate) compared: Comparison,
}

/// How far an audit is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) level: Level,
    pub(crate) warm_ups: u32,
    /// Samples of it that are taken.
    pub(crate) done: u32,
    /// Samples of it in all.
    pub(crate) total: u32,
}

/// What is told while the procedure runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// One more sample is taken.
    Sampled(Step),
    /// One audit is done.
    Audited(&'a Audit),
}

/// What a request takes, from two of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// A new prompt.
    pub(crate) fresh: Reply,
    /// The same one again.
    pub(crate) again: Reply,
}

#[derive(Clone, Copy)]
enum Kind {
    Hit,
    Miss,
}

impl Procedure {
    /// Sends one prompt twice, to see what a request takes.
    pub(crate) fn pace(&self, server: &mut impl Server, draws: &mut Draws) -> Result<Pace, Failure> {
        let prompt = draws.prompt(self.letters);
        let fresh = server.ask(Caller::Victim, &prompt)?;
        Ok(Pace { fresh, again: server.ask(Caller::Victim, &prompt)? })
    }

    /// What the whole procedure will take where tenants share with themselves alone.
    pub(crate) fn estimate(&self, pace: &Pace) -> Duration {
        let (fresh, again) = (pace.fresh.first_byte, pace.again.first_byte);
        let mut one_of_each = Duration::ZERO;
        for warm_ups in &self.warm_ups {
            let warming = fresh.saturating_add(again.saturating_mul(warm_ups.saturating_sub(1)));
            for level in Level::ALL {
                let hit = match level {
                    Level::SameTenant | Level::SameKey => again,
                    Level::CrossTenant => fresh,
                };
                let before_miss = match self.before_miss {
                    BeforeMiss::Nothing => Duration::ZERO,
                    BeforeMiss::Decoy => warming,
                };
                let parts = [warming, hit, before_miss, fresh];
                one_of_each = parts.into_iter().fold(one_of_each, Duration::saturating_add);
            }
        }
        one_of_each.saturating_mul(self.samples)
    }

    /// Audits each level with each number of warm-ups; `told` hears of each sample, and of each audit.
    pub(crate) fn run(
        &self,
        server: &mut impl Server,
        draws: &mut Draws,
        told: &mut dyn FnMut(Event<'_>),
    ) -> Result<Vec<Audit>, Failure> {
        let mut audits = vec![];
        for warm_ups in &self.warm_ups {
            for level in Level::ALL {
                let audit = self.audit(level, *warm_ups, server, draws, told)?;
                told(Event::Audited(&audit));
                audits.push(audit);
            }
        }
        Ok(audits)
    }

    fn audit(
        &self,
        level: Level,
        warm_ups: u32,
        server: &mut impl Server,
        draws: &mut Draws,
        told: &mut dyn FnMut(Event<'_>),
    ) -> Result<Audit, Failure> {
        let samples = usize::try_from(self.samples).unwrap_or(usize::MAX);
        let mut order = [Kind::Hit, Kind::Miss].repeat(samples);
        draws.shuffle(&mut order);
        let (mut hits, mut misses) = (vec![], vec![]);
        let total = self.samples.saturating_mul(2);
        for (kind, done) in order.into_iter().zip(1..) {
            match kind {
                Kind::Hit => hits.push(self.hit(level, warm_ups, server, draws)?),
                Kind::Miss => misses.push(self.miss(level, warm_ups, server, draws)?),
            }
            told(Event::Sampled(Step { level, warm_ups, done, total }));
        }
        let times = |replies: &[Reply]| replies.iter().map(|reply| reply.first_byte).collect::<Vec<_>>();
        let compared = Comparison::of(&times(&hits), &times(&misses))
            .ok_or_else(|| Failure::new(Exit::Usage, "an audit of no samples says nothing: ask for more"))?;
        Ok(Audit { level, warm_ups, hits, misses, compared })
    }

    fn hit(
        &self,
        level: Level,
        warm_ups: u32,
        server: &mut impl Server,
        draws: &mut Draws,
    ) -> Result<Reply, Failure> {
        let prompt = draws.prompt(self.letters);
        // At least one letter, so that a small part of a short prompt is a part.
        let shared = self.letters.saturating_mul(self.prefix_percent).div_ceil(100).min(self.letters);
        let attack = draws.sharing(&prompt, shared, self.letters);
        warm(warm_ups, &prompt, server)?;
        server.ask(level.attacker(), &attack)
    }

    fn miss(
        &self,
        level: Level,
        warm_ups: u32,
        server: &mut impl Server,
        draws: &mut Draws,
    ) -> Result<Reply, Failure> {
        let attack = draws.prompt(self.letters);
        match self.before_miss {
            BeforeMiss::Nothing => {}
            BeforeMiss::Decoy => warm(warm_ups, &draws.prompt(self.letters), server)?,
        }
        server.ask(level.attacker(), &attack)
    }
}

fn warm(times: u32, prompt: &str, server: &mut impl Server) -> Result<(), Failure> {
    (0..times).try_for_each(|_| server.ask(Caller::Victim, prompt).map(drop))
}

#[cfg(test)]
mod tests;
