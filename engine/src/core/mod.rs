//! The engine: pages, a device, and the sequences that use them. One thread, no I/O, no clock: it is told what to do and
//! hands out frames.
//!
//! Architecture invariant: page numbers reach the device through [`isolation::lease::Lease::include`] alone, and a frame
//! says what was done, never what was asked for.

mod alarm;
mod config;
mod drive;
mod fuse;
mod line;
mod places;
mod plan;
mod prefixes;
mod queue;
mod reclaim;
mod room;
mod sequence;
mod stepping;

pub use config::{EngineConfig, EngineStartError, Preemption, PrefixCache};
pub use drive::{Ended, Reader, Transcript, Unsound, run_to_end, settle};
pub use fuse::{Blown, Fuse};
pub use plan::{Candidate, Phase, Plan, Turn, View, plan};

use crate::{
    device::{Device, DeviceFacts},
    fault::{Fault, seeded},
    sampler::{Sampler, Scratch},
};
use isolation::{
    admit::{Limits, Rejected},
    keyed::{Revision, Secrets},
    outcome::Rejection,
    page::Verify,
    pool::Pool,
    quota::{Quota, QuotaError},
    tag::{Registry, TenantTag},
    units::{Epoch, Pages, Tokens},
};
use prefixes::Prefixes;
use queue::Queue;
use sequence::{Running, Stamper, Waiting};
use std::{collections::BTreeSet, num::NonZeroU32};
use wire::{Ending, EngineStatus, Failed, Hello, PROTOCOL, Refusal, RequestId, Submit, ToGateway};

/// Stop tokens of one sequence at most.
pub const STOP_TOKENS_MAX: usize = 256;

/// Whether a step had anything to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// Nothing was done, and nothing is left to do until the next call from outside.
    Idle,
    /// Something was done: call again.
    Worked,
}

/// See the module. Without `Debug`, since it holds prompts.
pub struct Engine<D> {
    device: D,
    facts: DeviceFacts,
    /// Token ids are below this.
    vocab: u32,
    config: EngineConfig,
    pool: Pool,
    registry: Registry,
    limits: Limits,
    prefixes: Prefixes,
    queue: Queue,
    /// In order of arrival; at most `config.sequences_max`.
    running: Vec<Running>,
    /// Frames for the next step to hand out; at most one for each sequence that ended between two steps, or made way for another, one for each page
    /// that was withdrawn, and one for the fuse.
    outbox: Vec<ToGateway>,
    /// In this life: the number of the next one.
    alarms: u32,
    fuse: Fuse,
    scrub_failures: u32,
    /// The last step's number.
    steps: u64,
    prefilled: u64,
    decoded: u64,
    preempted: u64,
    scratch: Scratch,
    logits: Vec<f32>,
}

impl<D: Device> Engine<D> {
    /// An engine with every page wiped and verified, or none. The epoch and the secrets of its prefixes are used by no other.
    ///
    /// # Errors
    /// See [`EngineStartError`]; above all, when the window is more than the measured pool holds (P4).
    pub fn new(
        mut device: D,
        config: EngineConfig,
        epoch: Epoch,
        secrets: Secrets,
    ) -> Result<Self, EngineStartError> {
        config.check()?;
        let facts = device.facts();
        let vocab = u32::try_from(facts.vocab).ok().filter(|vocab| *vocab > 0);
        let vocab = vocab.ok_or(EngineStartError::Vocabulary { vocab: facts.vocab })?;
        if facts.chunk_max == Tokens::ZERO {
            return Err(EngineStartError::Zero { field: "chunk_max" });
        }
        let mut pool = Pool::new(facts.pages, facts.page_size, epoch);
        let wiped = pool.scrub(facts.pages, Verify::ReadBack, &mut device);
        // Before anything can fail: what keeps an engine from starting may be these very pages.
        let unfit = alarm::take_unfit(&mut pool);
        wiped.map_err(EngineStartError::Device)?;
        let limits = limits(&config, &facts, pool.capacity())?;
        let share = share(&config, pool.capacity());
        // The template is in the model's file, and so in its digest. There are no adapters yet.
        let digest = facts.model_digest;
        let revision = Revision { model: digest, template: digest, adapter: [0; 32] };
        let mut engine = Self {
            device,
            facts,
            vocab,
            config,
            prefixes: Prefixes::new(facts.page_size, share, secrets, revision),
            pool,
            registry: Registry::new(),
            limits,
            queue: Queue::default(),
            running: Vec::new(),
            outbox: Vec::new(),
            alarms: 0,
            fuse: Fuse::Intact,
            scrub_failures: 0,
            steps: 0,
            prefilled: 0,
            decoded: 0,
            preempted: 0,
            scratch: Scratch::default(),
            logits: Vec::new(),
        };
        // Of the first wipe: the first step tells.
        for cause in unfit {
            engine.alarm(cause);
        }
        Ok(engine)
    }

    /// What the engine is, for one session; its statements are verified by `boot_key`.
    #[must_use]
    pub fn hello(&self, session: [u8; 16], boot_key: [u8; 32]) -> Hello {
        Hello {
            protocol: PROTOCOL,
            epoch: self.pool.epoch().get(),
            session,
            model_digest: self.facts.model_digest,
            vocab: self.vocab,
            window: self.window().get(),
            capacity: self.capacity_tokens(),
            page_tokens: self.facts.page_size.tokens(),
            sequences_max: self.config.sequences_total(),
            boot_key,
            build: crate::build(),
        }
    }

    /// Tokens that a request may span now; none once the fuse is blown.
    #[must_use]
    pub fn window(&self) -> Tokens {
        match self.fuse {
            Fuse::Intact => self.limits.window(),
            Fuse::Blown(_) => Tokens::ZERO,
        }
    }

    /// Whether the engine found itself unsound, and why.
    #[must_use]
    pub fn fuse(&self) -> Fuse {
        self.fuse
    }

    /// Takes a sequence into the queue, or refuses it without touching a page.
    ///
    /// # Errors
    /// Why it is refused; nothing else follows for it.
    pub fn submit(&mut self, submit: Submit) -> Result<(), Refusal> {
        match self.fuse {
            Fuse::Intact => {}
            Fuse::Blown(_) => return Err(Refusal::ShuttingDown),
        }
        if submit.epoch != self.pool.epoch().get() || self.knows(submit.request) && !seeded(Fault::SameName) {
            return Err(Refusal::NotAuthentic);
        }
        let tag = TenantTag::new(if seeded(Fault::TagFolded) { submit.tag & 0xffff } else { submit.tag });
        let scope = self.registry.open(tag);
        let limits = self.limits.narrowed(self.pool.reach(tag));
        let prompt = limits
            .admit(&scope, submit.prompt, Tokens::new(submit.max_tokens))
            .or_else(|rejected| {
                if seeded(Fault::StubForRejected) {
                    limits.admit(&scope, vec![0], Tokens::new(1))
                } else {
                    Err(rejected)
                }
            })
            .map_err(|rejected| refusal(&rejected))?;
        if let Some(&id) = prompt.prompt().iter().find(|id| **id >= self.vocab) {
            return Err(Refusal::UnknownToken { id, vocab: self.vocab });
        }
        if submit.stop_tokens.len() > STOP_TOKENS_MAX {
            return Err(Refusal::BadSampling);
        }
        let sampler = Sampler::new(submit.sampling, self.vocab)?;
        let (sequences, sequences_max) = (self.sequences(), self.config.sequences_total());
        let full = Refusal::Overloaded { sequences, sequences_max };
        if !self.has_room_in_line(tag, full.clone()) {
            return Err(full);
        }
        let stamper = Stamper::new(submit.request, tag, self.pool.epoch());
        let stop_tokens: BTreeSet<u32> = submit.stop_tokens.into_iter().collect();
        self.queue.push(Waiting::new(stamper, prompt, stop_tokens, sampler));
        Ok(())
    }

    /// Ends a sequence at once, and retires its pages. One that has ended already is left as it is.
    pub fn cancel(&mut self, request: RequestId) {
        let waiting = self.queue.take_where(|waiting| waiting.request() == request);
        self.outbox.extend(waiting.into_iter().map(|waiting| waiting.end(Ending::Cancelled)));
        if let Some(place) = self.running.iter().position(|running| running.request() == request) {
            if seeded(Fault::KeepFailed) {
                self.keep(place);
            }
            self.outbox.push(self.running.remove(place).end(Ending::Cancelled));
        }
    }

    /// Takes `by` pages out of use: the window is narrowed at once, the pages go as soon as nobody holds them, and who
    /// waits with more than the new window is refused.
    pub fn shrink(&mut self, by: Pages) {
        self.pool.shrink(by);
        self.narrow();
        tracing::warn!(pages = by.get(), window = self.limits.window().get(), "the pool shrinks");
    }

    /// Puts other quotas in force for all tenants. Who waits with more than its tenant may hold now is refused.
    ///
    /// # Errors
    /// When the floors are more than the pool, or there are too many quotas; those in force stay.
    pub fn set_quotas(&mut self, quotas: &[(TenantTag, Quota)]) -> Result<(), QuotaError> {
        self.pool.set_quotas(quotas.iter().copied())?;
        self.narrow();
        Ok(())
    }

    /// The same, as a gateway says it.
    ///
    /// # Errors
    /// As [`Engine::set_quotas`]; a weight of 0 counts as 1.
    pub fn set_quotas_in_tokens(&mut self, quotas: &[wire::Quota]) -> Result<(), QuotaError> {
        let size = self.facts.page_size;
        let in_pages = quotas.iter().map(|quota| {
            let (floor, cap) = (Tokens::new(quota.floor), Tokens::new(quota.cap));
            let weight = NonZeroU32::new(quota.weight).unwrap_or(NonZeroU32::MIN);
            let pages = Quota::new(size.pages_for(floor), size.full_pages(cap), weight)?;
            Ok((TenantTag::new(quota.tag), pages))
        });
        self.set_quotas(&in_pages.collect::<Result<Vec<_>, _>>()?)
    }

    /// Lets go of all prefixes of a tenant that no sequence reads.
    pub fn forget(&mut self, tag: TenantTag) {
        self.prefixes.forget(tag);
    }

    /// Pages that a tenant's sequences and prefixes hold now.
    #[must_use]
    pub fn held(&self, tag: TenantTag) -> Pages {
        self.pool.held(tag)
    }

    /// How often a running sequence gave its pages back, in this life.
    #[must_use]
    pub fn preempted(&self) -> u64 {
        self.preempted
    }

    /// The device, as the engine leaves it when it dies: every page as it was.
    #[must_use]
    pub fn into_device(self) -> D {
        self.device
    }

    /// Ends all there is, for the engine goes away: nothing is admitted from now on.
    pub fn shut_down(&mut self) {
        self.blow(Blown::ShuttingDown);
        self.fail_running(Failed::ShuttingDown);
    }

    /// The engine's own account of itself.
    pub fn status(&mut self) -> EngineStatus {
        let census = self.pool.census();
        EngineStatus {
            epoch: self.pool.epoch().get(),
            window: self.window().get(),
            capacity: self.capacity_tokens(),
            running: count(self.running.len()),
            queued: count(self.queue.len()),
            steps: self.steps,
            prefilled: self.prefilled,
            decoded: self.decoded,
            census: wire::Census {
                clean: census.clean.get(),
                dirty: census.dirty.get(),
                quarantined: census.quarantined.get(),
                leased: census.leased.get(),
                shared: census.shared.get(),
                withdrawn: census.withdrawn.get(),
                total: census.total.get(),
            },
        }
    }

    fn knows(&self, request: RequestId) -> bool {
        self.queue.holds(request) || self.running.iter().any(|running| running.request() == request)
    }

    fn sequences(&self) -> u32 {
        count(self.running.len().saturating_add(self.queue.len()))
    }

    fn capacity_tokens(&self) -> u32 {
        self.facts.page_size.tokens_in(self.pool.capacity()).map_or(u32::MAX, Tokens::get)
    }
}

fn limits(config: &EngineConfig, facts: &DeviceFacts, measured: Pages) -> Result<Limits, EngineStartError> {
    let holds = facts.page_size.tokens_in(measured).unwrap_or(Tokens::new(u32::MAX));
    let window = config.advertised_window.unwrap_or(holds.min(facts.context_trained));
    if window > facts.context_trained {
        let trained = facts.context_trained;
        return Err(EngineStartError::BeyondTrained { advertised: window, trained });
    }
    if window < Tokens::new(2) {
        return Err(EngineStartError::NoWindow { window });
    }
    Limits::derive(window, measured, facts.page_size).map_err(EngineStartError::Capacity)
}

fn share(config: &EngineConfig, capacity: Pages) -> Pages {
    let percent = match config.prefix_cache {
        PrefixCache::Off => 0,
        PrefixCache::Share { percent } => u64::from(percent),
    };
    let pages = u64::from(capacity.get()).saturating_mul(percent).checked_div(100).unwrap_or(0);
    Pages::new(u32::try_from(pages).unwrap_or(u32::MAX))
}

/// Each reason of the core as the wire says it.
fn refusal(rejected: &Rejected) -> Refusal {
    match rejected.reason {
        Rejection::TooLong { asked, window } => Refusal::TooLong { asked, window: window.get() },
        Rejection::EmptyPrompt => Refusal::Empty,
        Rejection::NothingToGenerate | Rejection::BadSampling => Refusal::BadSampling,
        Rejection::UnknownToken { id, vocab } => Refusal::UnknownToken { id, vocab },
        Rejection::Overloaded { sequences, sequences_max } => {
            Refusal::Overloaded { sequences, sequences_max }
        }
        Rejection::NotAuthentic => Refusal::NotAuthentic,
        Rejection::ShuttingDown => Refusal::ShuttingDown,
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
