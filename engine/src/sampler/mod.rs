//! Chooses the next token from a row of logits. Knows no page, no tenant and no other sequence: the choice is a function
//! of the logits, the request's sampling, what it generated so far, its seed and the position (P1).
//!
//! Order: penalties and bias, temperature, then top-k, top-p of what top-k left, min-p, and one draw. Log-probabilities
//! are those of the raw logits.

mod numbers;
mod rank;

use crate::fault::{Fault, seeded};
use isolation::units::Tokens;
use numbers::{exp, sum, uniform};
use rank::{Place, Ranking, likeliest};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;
use wire::{Logprobs, Refusal, Sampling, TokenOut};

/// Entries of `logit_bias` at most.
pub const LOGIT_BIAS_MAX: usize = 1024;
/// Likeliest tokens that go back with each token at most.
pub const TOP_LOGPROBS_MAX: u8 = 20;

const TEMPERATURE_MAX: f32 = 2.0;
const PENALTY_MAX: f32 = 2.0;
const BIAS_MAX: f32 = 100.0;

/// A logit was not a finite number: there is no token to choose (D08 of the fault corpus: never a substitute).
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("a logit was not a number")]
pub struct NotANumber;

/// Buffers that live from step to step, so that a choice allocates nothing. They carry nothing from one choice to the next.
#[derive(Debug, Default)]
pub struct Scratch {
    adjusted: Vec<f64>,
    weights: Vec<f64>,
    ranked: Vec<u32>,
}

/// How one sequence chooses.
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    /// How often each token was generated; kept only where a penalty asks. At most one entry a generated token.
    generated: BTreeMap<u32, u32>,
}

impl Sampler {
    /// Checks each value against its range.
    ///
    /// # Errors
    /// [`Refusal::BadSampling`], or [`Refusal::UnknownToken`] for a biased id outside the vocabulary.
    pub fn new(sampling: Sampling, vocab: u32) -> Result<Self, Refusal> {
        let within = |value: f32, low: f32, high: f32| value.is_finite() && low <= value && value <= high;
        let logprobs = match sampling.logprobs {
            Logprobs::Omit => 0,
            Logprobs::Top(count) => count,
        };
        let is_good = within(sampling.temperature, 0.0, TEMPERATURE_MAX)
            && within(sampling.top_p, f32::MIN_POSITIVE, 1.0)
            && within(sampling.min_p, 0.0, 1.0)
            && within(sampling.frequency_penalty, -PENALTY_MAX, PENALTY_MAX)
            && within(sampling.presence_penalty, -PENALTY_MAX, PENALTY_MAX)
            && logprobs <= TOP_LOGPROBS_MAX
            && sampling.logit_bias.len() <= LOGIT_BIAS_MAX
            && sampling.logit_bias.iter().all(|&(_, bias)| within(bias, -BIAS_MAX, BIAS_MAX));
        if !is_good {
            return Err(Refusal::BadSampling);
        }
        if let Some(&(id, _)) = sampling.logit_bias.iter().find(|(id, _)| *id >= vocab) {
            return Err(Refusal::UnknownToken { id, vocab });
        }
        let distinct: BTreeSet<u32> = sampling.logit_bias.iter().map(|&(id, _)| id).collect();
        if distinct.len() < sampling.logit_bias.len() {
            return Err(Refusal::BadSampling);
        }
        Ok(Self { sampling, generated: BTreeMap::new() })
    }

    /// The token that comes to stand at `position`, and takes note of it for the penalties.
    ///
    /// # Errors
    /// When a logit is not finite.
    pub fn choose(
        &mut self,
        logits: &[f32],
        position: Tokens,
        scratch: &mut Scratch,
    ) -> Result<TokenOut, NotANumber> {
        if !logits.iter().all(|logit| logit.is_finite()) {
            return Err(NotANumber);
        }
        if !seeded(Fault::ScratchKept) || scratch.adjusted.is_empty() {
            scratch.adjusted.clear();
            // Adding zero turns -0 into 0, so that the two are equal in rank.
            scratch.adjusted.extend(logits.iter().map(|&logit| f64::from(logit) + 0.0));
        }
        self.adjust(&mut scratch.adjusted);
        let id = if self.sampling.temperature == 0.0 {
            likeliest(&scratch.adjusted)
        } else {
            self.draw(position, scratch)
        };
        let id = id.ok_or(NotANumber)?;
        if self.has_penalty() {
            let count = self.generated.entry(id).or_default();
            *count = count.saturating_add(1);
        }
        Ok(self.report(id, logits, scratch))
    }

    fn has_penalty(&self) -> bool {
        self.sampling.frequency_penalty != 0.0 || self.sampling.presence_penalty != 0.0
    }

    fn adjust(&self, values: &mut [f64]) {
        let (frequency, presence) =
            (f64::from(self.sampling.frequency_penalty), f64::from(self.sampling.presence_penalty));
        for (&id, &count) in &self.generated {
            if let Some(value) = values.get_mut(index(id)) {
                *value -= f64::from(count) * frequency + presence;
            }
        }
        for &(id, bias) in &self.sampling.logit_bias {
            if let Some(value) = values.get_mut(index(id)) {
                *value += f64::from(bias);
            }
        }
    }

    /// Each filter keeps the head of one ranking, so what all keep is everything up to the nearest cut.
    fn draw(&self, position: Tokens, scratch: &mut Scratch) -> Option<u32> {
        let values = &scratch.adjusted;
        let top = *values.get(index(likeliest(values)?))?;
        let temperature = f64::from(self.sampling.temperature);
        scratch.weights.clear();
        scratch.weights.extend(values.iter().map(|value| exp((value - top) / temperature)));
        let weights = &scratch.weights;

        let mut ranking = Ranking::new(values, &mut scratch.ranked);
        let mut cut = match index(self.sampling.top_k) {
            0 => None,
            kept if kept >= values.len() => None,
            kept => ranking.nth(kept.saturating_sub(1)),
        };
        if self.sampling.top_p < 1.0 {
            let within = |(id, _): &(u32, f64)| cut.is_none_or(|cut: Place| cut.keeps(*id, values));
            let mass: f64 = (0..).zip(weights.iter().copied()).filter(within).map(|(_, weight)| weight).sum();
            cut = nucleus(&mut ranking, weights, cut, mass * f64::from(self.sampling.top_p));
        }
        let floor = f64::from(self.sampling.min_p);
        let kept = || {
            (0..)
                .zip(weights.iter().copied())
                .filter(|(id, weight)| *weight >= floor && cut.is_none_or(|cut| cut.keeps(*id, values)))
        };
        let mass: f64 = kept().map(|(_, weight)| weight).sum();
        let target = uniform(self.sampling.seed, position) * mass;
        let mut reached = 0.0;
        let mut last = None;
        for (id, weight) in kept() {
            reached += weight;
            if reached > target {
                return Some(id);
            }
            // Rounding may leave the target at the very end; the last token with any weight stands there.
            if weight > 0.0 {
                last = Some(id);
            }
        }
        last
    }

    fn report(&self, id: u32, logits: &[f32], scratch: &mut Scratch) -> TokenOut {
        let Logprobs::Top(count) = self.sampling.logprobs else {
            return TokenOut { id, logprob: 0.0, top: Vec::new() };
        };
        let raw = &mut scratch.adjusted;
        raw.clear();
        raw.extend(logits.iter().map(|&logit| f64::from(logit) + 0.0));
        let most = likeliest(raw).and_then(|id| raw.get(index(id))).copied().unwrap_or_default();
        scratch.weights.clear();
        scratch.weights.extend(raw.iter().map(|value| exp(value - most)));
        let whole = most + sum(&scratch.weights).ln();
        let logprob = |id: u32| narrow(raw.get(index(id)).copied().unwrap_or(most) - whole);
        let mut ranking = Ranking::new(raw, &mut scratch.ranked);
        let top = (0..usize::from(count)).map_while(|rank| ranking.nth(rank)).map(|place| place.id());
        let top = top.map(|id| (id, logprob(id))).collect();
        TokenOut { id, logprob: logprob(id), top }
    }
}

/// The place where the heads of the ranking reach `wanted`, or `cut` if that comes first.
fn nucleus(ranking: &mut Ranking<'_>, weights: &[f64], cut: Option<Place>, wanted: f64) -> Option<Place> {
    let mut reached = 0.0;
    for rank in 0..weights.len() {
        let place = ranking.nth(rank)?;
        reached += weights.get(index(place.id())).copied().unwrap_or_default();
        if reached >= wanted || cut == Some(place) {
            return Some(place);
        }
    }
    cut
}

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "a log-probability is sent as an f32"
)]
fn narrow(value: f64) -> f32 {
    value as f32
}

fn index(id: u32) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
