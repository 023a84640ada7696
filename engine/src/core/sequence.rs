//! One sequence, from its admission to its end. Knows no other sequence.
//!
//! ```text
//!   Submit ──admit──► Waiting ──lease──► Running (prefilling ──► decoding) ──► End
//!             │           │                                  cancel, fault ──► End
//!             └─ Refused ◄┘ pool shrank
//! ```
//! None of them has a `Debug`, since each holds a prompt. Each state is a type, and each change consumes the state before it: what was refused or has ended cannot be computed.
//! Whether a running sequence prefills or decodes is read off its filled mark, so that no flag can disagree with it.

use crate::{
    core::plan::{Candidate, Phase},
    sampler::{NotANumber, Sampler, Scratch},
};
use isolation::{
    access::Access,
    admit::{Bounded, Limits, Rejected},
    lease::{Lease, LeaseError, PendingWrite},
    step::{OpenStep, StepReceipt},
    tag::TenantTag,
    units::{Epoch, Tokens},
};
use std::collections::BTreeSet;
use wire::{Delta, End, Ending, Evidence, Finished, RequestId, Stamp, ToGateway, TokenOut, digest_tokens};

/// Stamps the frames of one sequence, one number after the other.
#[derive(Debug)]
pub(super) struct Stamper {
    request: RequestId,
    tag: TenantTag,
    epoch: Epoch,
    next: u32,
}

impl Stamper {
    pub(super) fn new(request: RequestId, tag: TenantTag, epoch: Epoch) -> Self {
        Self { request, tag, epoch, next: 0 }
    }

    fn stamp(&mut self) -> Stamp {
        let sequence = self.next;
        // A sequence has fewer frames than a window has tokens, and two more.
        self.next = self.next.saturating_add(1);
        Stamp { request: self.request, tag: self.tag.get(), epoch: self.epoch.get(), sequence }
    }

    fn end(mut self, ending: Ending, completion: u32) -> ToGateway {
        ToGateway::End(End { stamp: self.stamp(), ending, completion })
    }
}

/// Admitted, and without any page.
pub(super) struct Waiting {
    pub(super) stamper: Stamper,
    pub(super) prompt: Bounded<Vec<u32>>,
    pub(super) stop_tokens: BTreeSet<u32>,
    pub(super) sampler: Sampler,
}

impl Waiting {
    pub(super) fn request(&self) -> RequestId {
        self.stamper.request
    }

    pub(super) fn tag(&self) -> TenantTag {
        self.stamper.tag
    }

    pub(super) fn prompt(&self) -> &[u32] {
        self.prompt.prompt()
    }

    /// Tokens of prompt and output together.
    pub(super) fn total(&self) -> Tokens {
        self.prompt.total()
    }

    /// Asks again at the door, after the window became narrower.
    pub(super) fn readmit(self, limits: &Limits) -> Result<Self, Rejected> {
        let prompt = limits.readmit(self.prompt)?;
        Ok(Self { prompt, ..self })
    }

    pub(super) fn end(self, ending: Ending) -> ToGateway {
        self.stamper.end(ending, 0)
    }

    /// Begins to run on `lease`, whose filled places hold `cached`, the ids of an adopted run.
    pub(super) fn start(self, lease: Lease, cached: &[u32]) -> Running {
        let (known, max_new) = self.prompt.into_parts();
        let prompt = tokens(known.len());
        Running {
            stamper: self.stamper,
            stop_tokens: self.stop_tokens,
            sampler: self.sampler,
            max_new: max_new.get(),
            prompt,
            known,
            held: cached.to_vec(),
            cached: lease.filled(),
            written: Tokens::ZERO,
            attended: Tokens::ZERO,
            table: 0,
            completion: 0,
            served: 0,
            lease,
        }
    }
}

/// A sequence with pages.
pub(super) struct Running {
    stamper: Stamper,
    stop_tokens: BTreeSet<u32>,
    sampler: Sampler,
    max_new: u32,
    prompt: Tokens,
    /// The prompt, then what was generated.
    known: Vec<u32>,
    /// The ids whose keys and values the filled places of the lease hold: those adopted, then those handed to the device.
    held: Vec<u32>,
    cached: Tokens,
    /// Tokens of the prompt that this sequence wrote.
    written: Tokens,
    /// What the last row of the prompt could read.
    attended: Tokens,
    /// Pages that it could read then.
    table: usize,
    completion: u32,
    served: u64,
    lease: Lease,
}

/// One sequence's part of a step: what the device is told, and what it must confirm.
pub(super) struct Part {
    /// The sequence's place among those that run.
    pub(super) place: usize,
    pub(super) ids: Vec<u32>,
    pub(super) access: Access,
    /// Whether the last of the ids is the last known one, so that its logits give the next.
    pub(super) reaches_end: bool,
    write: PendingWrite,
}

/// What became of a sequence in a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    Goes,
    /// Its prompt is computed, and its first token is out.
    Began,
    Ends(Ending),
}

impl Running {
    pub(super) fn request(&self) -> RequestId {
        self.stamper.request
    }

    pub(super) fn tag(&self) -> TenantTag {
        self.stamper.tag
    }

    pub(super) fn candidate(&self) -> Candidate {
        let left = tokens(self.known.len()).checked_sub(self.lease.filled()).unwrap_or(Tokens::ZERO);
        let phase = if self.lease.filled() < self.prompt { Phase::Prefilling } else { Phase::Decoding };
        Candidate { left: left.get(), phase, served: self.served }
    }

    /// Takes part in `step` with its next `count` tokens.
    pub(super) fn join(&mut self, place: usize, count: u32, step: &OpenStep) -> Result<Part, LeaseError> {
        let filled = self.lease.filled();
        let from = index(filled);
        let to = from.saturating_add(index(Tokens::new(count)));
        let ids = self.known.get(from..to).unwrap_or_default().to_vec();
        let (write, access) = self.lease.include(tokens(ids.len()), step)?;
        self.served = step.id().get();
        Ok(Part { place, ids, access, reaches_end: to == self.known.len(), write })
    }

    /// Takes note of what the device confirmed.
    pub(super) fn commit(&mut self, part: Part, receipt: &StepReceipt) -> Result<(), LeaseError> {
        let Part { ids, access, write, .. } = part;
        let is_prompt = self.lease.filled() < self.prompt;
        self.lease.commit(write, receipt)?;
        if is_prompt {
            self.written = self.written.checked_add(access.len()).unwrap_or(self.written);
            self.attended = access.bound();
            self.table = access.pages().len();
        }
        self.held.extend(ids);
        Ok(())
    }

    /// Chooses the next token by `logits`, and says what there is to say.
    pub(super) fn advance(
        &mut self,
        logits: &[f32],
        scratch: &mut Scratch,
        emit: &mut dyn FnMut(ToGateway),
    ) -> Result<Verdict, NotANumber> {
        let token = self.sampler.choose(logits, self.lease.filled(), scratch)?;
        let is_first = self.stamper.next == 0;
        if is_first {
            let evidence = self.evidence();
            emit(ToGateway::Evidence { stamp: self.stamper.stamp(), evidence });
        }
        if self.stop_tokens.contains(&token.id) {
            return Ok(Verdict::Ends(Ending::Completed(Finished::Stop)));
        }
        self.send(token, emit);
        if self.completion >= self.max_new {
            return Ok(Verdict::Ends(Ending::Completed(Finished::Length)));
        }
        Ok(if is_first { Verdict::Began } else { Verdict::Goes })
    }

    fn send(&mut self, token: TokenOut, emit: &mut dyn FnMut(ToGateway)) {
        self.known.push(token.id);
        self.completion = self.completion.saturating_add(1);
        emit(ToGateway::Delta(Delta { stamp: self.stamper.stamp(), tokens: vec![token] }));
    }

    /// Made from what was handed to the device and confirmed, never from what was asked for (P5).
    fn evidence(&self) -> Evidence {
        Evidence {
            prompt_digest: digest_tokens(&self.held),
            written: self.written.get(),
            attended: self.attended.get(),
            cached: self.cached.get(),
            pages: u32::try_from(self.table).unwrap_or(u32::MAX),
            generations: self.lease.generation_digest(),
        }
    }

    /// The full pages as a run to be kept, and the ids that they hold.
    pub(super) fn seal(&mut self) -> Option<(&[u32], isolation::share::SharedRun)> {
        let run = self.lease.seal()?;
        let ids = self.held.get(..index(run.tokens()))?;
        Some((ids, run))
    }

    /// Retires the pages, and says how it ended.
    pub(super) fn end(self, ending: Ending) -> ToGateway {
        self.stamper.end(ending, self.completion)
    }
}

/// A sequence is bounded by the window, which is counted in `Tokens`.
fn tokens(count: usize) -> Tokens {
    Tokens::new(u32::try_from(count).unwrap_or(u32::MAX))
}

fn index(count: Tokens) -> usize {
    usize::try_from(count.get()).unwrap_or(usize::MAX)
}

#[cfg(test)]
pub(super) mod tests;
