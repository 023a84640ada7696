//! One sequence, from its admission to its end. Knows no other sequence.
//!
//! ```text
//!   Submit ──admit──► Waiting ──lease──► Running (prefilling ──► decoding) ──► End
//!             │        │   ▲                │                cancel, fault ──► End
//!             └Refused◄┘   └───preempt──────┘
//!             pool shrank
//! ```
//! None of them has a `Debug`, since each holds a prompt. Each state is a type, and each change consumes the state before it: what was refused or has ended cannot be computed.
//! Whether a running sequence prefills or decodes is read off its filled mark, so that no flag can disagree with it.

use crate::{
    core::{
        plan::{Candidate, Phase},
        refusal,
    },
    fault::{Fault, seeded},
    sampler::{NotANumber, Sampler, Scratch},
};
use isolation::{
    access::Access,
    admit::{Bounded, Limits},
    lease::{Lease, LeaseError, PendingWrite},
    share::SharedRun,
    step::{OpenStep, StepReceipt},
    tag::TenantTag,
    units::{Epoch, Pages, Tokens},
};
use std::{collections::BTreeSet, num::NonZeroU32};
use wire::{
    Delta, End, Ending, Evidence, Failed, Finished, Refusal, RequestId, Stamp, ToGateway, digest_tokens,
};

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
        ToGateway::End(End { stamp: self.stamp(), ending, completion, statement: None })
    }

    /// What was answered in part cannot be refused any more: it fails, and says so.
    fn turn_away(self, refusal: Refusal, completion: u32) -> ToGateway {
        if self.next == 0 {
            return ToGateway::Refused { request: self.request, refusal };
        }
        let failed = match refusal {
            Refusal::ShuttingDown => Failed::ShuttingDown,
            Refusal::TooLong { .. }
            | Refusal::Empty
            | Refusal::BadSampling
            | Refusal::UnknownToken { .. }
            | Refusal::Overloaded { .. }
            | Refusal::NotAuthentic => Failed::NoCapacity,
        };
        self.end(Ending::Failed(failed), completion)
    }
}

/// Admitted, and without any page: never granted any, or preempted.
pub(super) struct Waiting {
    history: History,
    overtaken: u32,
}

/// What a sequence is, whether or not it has pages.
pub(super) struct History {
    stamper: Stamper,
    stop_tokens: BTreeSet<u32>,
    sampler: Sampler,
    /// Tokens of the prompt.
    prompt: Tokens,
    /// The prompt, then what was generated.
    known: Bounded<Vec<u32>>,
    completion: u32,
    preempted: Preempted,
}

/// How often a sequence gave all back, by what for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Preempted {
    pub(super) for_pages: u32,
    pub(super) for_places: u32,
    /// Tokens that it knew when it last gave its place up.
    pub(super) known: usize,
}

impl Waiting {
    pub(super) fn new(
        stamper: Stamper,
        prompt: Bounded<Vec<u32>>,
        stop_tokens: BTreeSet<u32>,
        sampler: Sampler,
    ) -> Self {
        let history = History {
            stamper,
            stop_tokens,
            sampler,
            prompt: tokens(prompt.prompt().len()),
            known: prompt,
            completion: 0,
            preempted: Preempted::default(),
        };
        Self { history, overtaken: 0 }
    }

    /// How often others were served before it while it was its tenant's turn.
    pub(super) fn overtaken(&self) -> u32 {
        self.overtaken
    }

    /// Once more.
    pub(super) fn overtake(&mut self) {
        self.overtaken = self.overtaken.saturating_add(1);
    }

    pub(super) fn request(&self) -> RequestId {
        self.history.stamper.request
    }

    pub(super) fn tag(&self) -> TenantTag {
        self.history.stamper.tag
    }

    /// Whether nothing of it was ever answered, so that it can be refused.
    pub(super) fn is_fresh(&self) -> bool {
        self.history.stamper.next == 0
    }

    /// The tokens to compute: its prompt, and what it generated before it was preempted.
    pub(super) fn known(&self) -> &[u32] {
        self.history.known.prompt()
    }

    /// Tokens of prompt and output together.
    pub(super) fn total(&self) -> Tokens {
        self.history.known.total()
    }

    /// Asks again at the door, after the window became narrower: the sequence, or its last frame.
    pub(super) fn readmit(self, limits: &Limits) -> Result<Self, ToGateway> {
        let History { stamper, stop_tokens, sampler, prompt, known, completion, preempted } = self.history;
        match limits.readmit(known) {
            Ok(known) => {
                let history = History { stamper, stop_tokens, sampler, prompt, known, completion, preempted };
                Ok(Self { history, overtaken: self.overtaken })
            }
            Err(rejected) => Err(stamper.turn_away(refusal(&rejected), completion)),
        }
    }

    pub(super) fn end(self, ending: Ending) -> ToGateway {
        self.history.stamper.end(ending, self.history.completion)
    }

    /// Refuses it; or, if something of it is out already, fails it.
    pub(super) fn turn_away(self, refusal: Refusal) -> ToGateway {
        self.history.stamper.turn_away(refusal, self.history.completion)
    }

    /// Begins to run after step `last`, on `lease`, whose filled places hold `cached`, the ids of an adopted run.
    pub(super) fn start(self, lease: Lease, cached: Vec<u32>, last: u64) -> Running {
        Running {
            history: self.history,
            held: cached,
            cached: lease.filled(),
            written: Tokens::ZERO,
            attended: Tokens::ZERO,
            table: 0,
            served: if seeded(Fault::ArrivalsFirst) { 0 } else { last },
            lease,
        }
    }
}

/// A sequence with pages.
pub(super) struct Running {
    history: History,
    /// The ids whose keys and values the filled places of the lease hold: those adopted, then those handed to the device.
    held: Vec<u32>,
    cached: Tokens,
    /// Tokens of the prompt that this sequence wrote.
    written: Tokens,
    /// What the last row of the prompt could read.
    attended: Tokens,
    /// Pages that it could read then.
    table: usize,
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
        self.history.stamper.request
    }

    pub(super) fn tag(&self) -> TenantTag {
        self.history.stamper.tag
    }

    /// What the plan sees of it; `weight` is its tenant's.
    pub(super) fn candidate(&self, weight: NonZeroU32) -> Candidate {
        let (phase, party) = (self.phase(), self.tag().get());
        Candidate { left: self.left(), phase, served: self.served, party, weight }
    }

    /// After a preemption, what was generated is computed again like a prompt.
    pub(super) fn phase(&self) -> Phase {
        let is_prefilling = self.lease.filled() < self.history.prompt || self.left() > 1;
        if is_prefilling { Phase::Prefilling } else { Phase::Decoding }
    }

    /// Known tokens that are not computed yet.
    fn left(&self) -> u32 {
        tokens(self.known().len()).checked_sub(self.lease.filled()).unwrap_or(Tokens::ZERO).get()
    }

    /// Tokens of prompt and output together.
    pub(super) fn total(&self) -> Tokens {
        self.history.known.total()
    }

    /// Pages that come free when it is preempted.
    pub(super) fn own_pages(&self) -> Pages {
        let all = u32::try_from(self.lease.pages().count()).unwrap_or(u32::MAX);
        Pages::new(all.saturating_sub(self.lease.shared_pages().get()))
    }

    /// Tokens of its prompt, and those that it generated.
    pub(super) fn length(&self) -> usize {
        self.known().len()
    }

    /// How often it was preempted.
    pub(super) fn preempted(&self) -> Preempted {
        self.history.preempted
    }

    /// Gives all pages back, to be computed again from its tokens; `preempted` with this time.
    pub(super) fn preempt(self, preempted: Preempted) -> Waiting {
        let mut history = History { preempted, ..self.history };
        if seeded(Fault::StampsRestart) {
            history.stamper.next = 0;
        }
        Waiting { history, overtaken: 0 }
    }

    /// Takes part in `step` with its next `count` tokens.
    pub(super) fn join(&mut self, place: usize, count: u32, step: &OpenStep) -> Result<Part, LeaseError> {
        let filled = self.lease.filled();
        let from = index(filled);
        let to = from.saturating_add(index(Tokens::new(count)));
        let ids = self.known().get(from..to).unwrap_or_default().to_vec();
        let (write, access) = self.lease.include(tokens(ids.len()), step)?;
        self.served = step.id().get();
        Ok(Part { place, ids, access, reaches_end: to == self.known().len(), write })
    }

    /// Takes note of what the device confirmed.
    pub(super) fn commit(&mut self, part: Part, receipt: &StepReceipt) -> Result<(), LeaseError> {
        let Part { ids, access, write, .. } = part;
        let is_prompt = self.lease.filled() < self.history.prompt;
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
        let token = self.history.sampler.choose(logits, self.lease.filled(), scratch)?;
        let is_first = self.history.stamper.next == 0;
        if is_first {
            let evidence = self.evidence();
            emit(ToGateway::Evidence { stamp: self.history.stamper.stamp(), evidence });
        }
        if self.history.stop_tokens.contains(&token.id) {
            return Ok(Verdict::Ends(Ending::Completed(Finished::Stop)));
        }
        // I9: there is room for each token up to the bound that was admitted.
        let is_in_room = self.history.known.grow(token.id);
        self.history.completion = self.history.completion.saturating_add(u32::from(is_in_room));
        if is_in_room {
            emit(ToGateway::Delta(Delta { stamp: self.history.stamper.stamp(), tokens: vec![token] }));
        }
        if !is_in_room || self.history.completion >= self.history.known.max_new().get() {
            return Ok(Verdict::Ends(Ending::Completed(Finished::Length)));
        }
        Ok(if is_first { Verdict::Began } else { Verdict::Goes })
    }

    fn known(&self) -> &[u32] {
        self.history.known.prompt()
    }

    /// Made from what was handed to the device and confirmed, never from what was asked for (P5).
    fn evidence(&self) -> Evidence {
        Evidence {
            prompt_digest: digest_tokens(&self.held),
            written: self.written.get(),
            attended: self.attended.get(),
            cached: if seeded(Fault::CachedUnsaid) { 0 } else { self.cached.get() },
            pages: u32::try_from(self.table).unwrap_or(u32::MAX),
            generations: self.lease.generation_digest(),
        }
    }

    /// The full pages as a run to be kept.
    pub(super) fn seal(&mut self) -> Result<Option<SharedRun>, LeaseError> {
        self.lease.seal(&self.held)
    }

    /// Retires the pages, and says how it ended.
    pub(super) fn end(self, ending: Ending) -> ToGateway {
        self.history.stamper.end(ending, self.history.completion)
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
