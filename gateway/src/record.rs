//! What is left of a request: its audit records and one access line, written at every end.
//!
//! Architecture invariant: numbers, ids and closed words only; a prompt, an output, a secret or a name has no way in.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime};

use audit::{
    Admitted, Bound, Ended, Endpoint, Hex, KeyId, Outcome, Proof, Reason, Record, Refused, Ticket, Word,
};
use isolation::evidence::Evidence;
use isolation::outcome;
use tenant::{Principal, Quota, Refusal};

use crate::answer::{BudgetDenied, Count, Denied};
use crate::engines::Recorder;
use crate::link::Engine;
use crate::meter::Meter;

/// Who asked, and what.
#[derive(Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) tenant: Hex<16>,
    pub(crate) tag: Word,
    pub(crate) key: KeyId,
}

impl Asker {
    /// None where a key's id is no key's id, which the directory rules out.
    pub(crate) fn of(principal: &Principal) -> Option<Self> {
        Some(Self {
            tenant: Hex(*principal.tenant.bytes()),
            tag: Word(principal.tag.get()),
            key: KeyId::new(principal.key.bytes())?,
        })
    }
}

/// One request's account, closed once: by [`Ledger::close`], or as cancelled when it is dropped.
pub(crate) struct Ledger {
    recorder: Arc<Recorder>,
    meter: Arc<Meter>,
    request: [u8; 16],
    asker: Asker,
    endpoint: Endpoint,
    arrived: Instant,
    first_token: Option<Instant>,
    status: u16,
    sequences: Vec<Line>,
    is_closed: bool,
}

/// One sequence of the account.
struct Line {
    edge_tokens: u32,
    completion: u32,
    proof: Proof,
    outcome: Option<Outcome>,
    /// What the engine stated of it, signed, as it was believed: for the receipt of the request.
    statement: Option<String>,
}

impl Line {
    const fn of(edge_tokens: u32) -> Self {
        Self { edge_tokens, completion: 0, proof: Proof::Absent, outcome: None, statement: None }
    }
}

impl Ledger {
    pub(crate) fn open(
        recorder: Arc<Recorder>,
        meter: Arc<Meter>,
        (request, arrived): ([u8; 16], Instant),
        asker: Asker,
        endpoint: Endpoint,
    ) -> Self {
        Meter::add(&meter.active);
        let (first_token, status) = (None, 0);
        let sequences = Vec::new();
        Self {
            recorder,
            meter,
            request,
            asker,
            endpoint,
            arrived,
            first_token,
            status,
            sequences,
            is_closed: false,
        }
    }

    /// Appends one `Admitted` for each sequence. Each ticket must resolve before a byte of the answer goes out.
    pub(crate) fn admit(
        &mut self,
        engine: &Engine,
        window: u32,
        sequences: &[(u32, u32)],
    ) -> Result<Vec<Ticket>, Denied> {
        self.recorder.engine(&engine.hello).map_err(|_| Denied::NoAudit)?;
        let mut tickets = Vec::with_capacity(sequences.len());
        for (index, &(edge_tokens, max_tokens)) in sequences.iter().enumerate() {
            let record = Record::Admitted(Admitted {
                request: Hex(self.request),
                sequence: u16::try_from(index).unwrap_or(u16::MAX),
                tag: self.asker.tag,
                key: self.asker.key,
                endpoint: self.endpoint,
                epoch: Word(engine.hello.epoch),
                policy: self.recorder.policy(),
                edge_tokens,
                max_tokens,
                window,
            });
            tickets.push(self.append(&record).map_err(|_| Denied::NoAudit)?);
            // Only what was let in ends: where the log takes no more half-way, the rest was never there.
            self.sequences.push(Line::of(edge_tokens));
        }
        Ok(tickets)
    }

    fn append(&self, record: &Record) -> Result<Ticket, audit::AuditError> {
        self.recorder.log().append_for(self.asker.tenant, record, SystemTime::now())
    }

    pub(crate) fn proved(&mut self, index: usize, evidence: &Evidence) {
        if let Some(line) = self.sequences.get_mut(index) {
            line.proof = Proof::Accepted {
                engine_tokens: evidence.written.get().saturating_add(evidence.cached.get()),
                cached: evidence.cached.get(),
                written: evidence.written.get(),
                attended: evidence.attended.get(),
                pages: evidence.pages.get(),
                generations: Word(evidence.generations),
            };
        }
    }

    pub(crate) fn completion(&mut self, index: usize, tokens: u32) {
        if let Some(line) = self.sequences.get_mut(index) {
            line.completion = tokens;
        }
    }

    pub(crate) fn stated(&mut self, index: usize, statement: String) {
        if let Some(line) = self.sequences.get_mut(index) {
            line.statement = Some(statement);
        }
    }

    pub(crate) fn finished(&mut self, index: usize, finish: outcome::Finish) {
        if let Some(line) = self.sequences.get_mut(index) {
            line.outcome = Some(outcome::Outcome::Completed(finish).into());
        }
    }

    /// The head went out.
    pub(crate) fn answered(&mut self, status: u16) {
        self.status = status;
        self.first_token.get_or_insert_with(Instant::now);
    }

    /// Ends the account of a request that was answered in full.
    pub(crate) fn complete(mut self) {
        Meter::add(&self.meter.completed);
        // A sequence without an end of its own cannot be in a request that completed.
        self.close(Outcome::Failed { failure: audit::Failure::Gateway });
    }

    /// Ends the account of a request that was denied, or that failed on its way.
    pub(crate) fn deny(mut self, denied: &Denied) {
        if self.status == 0 {
            self.status = denied.status();
        }
        let outcome = ended_by(denied);
        match outcome {
            Outcome::Rejected { .. } => Meter::add(&self.meter.rejected),
            Outcome::Failed { failure } => {
                Meter::add(&self.meter.failed);
                if failure == audit::Failure::Integrity {
                    Meter::add(&self.meter.integrity_alarms);
                }
            }
            Outcome::Cancelled | Outcome::Completed { .. } => {}
        }
        for line in &mut self.sequences {
            // One sequence that ended well does not save a request that did not.
            line.outcome = None;
        }
        self.close(outcome);
    }

    fn close(&mut self, rest: Outcome) {
        self.is_closed = true;
        Meter::sub(&self.meter.active);
        let (total_ms, first_token_ms) =
            (self.ms_until(Some(Instant::now())), self.ms_until(self.first_token));
        if self.sequences.is_empty() {
            self.append_end(&Record::Refused(Refused {
                request: Hex(self.request),
                key: self.asker.key,
                endpoint: self.endpoint,
                status: self.status,
                outcome: rest,
                total_ms,
            }));
        }
        for (index, line) in self.sequences.iter().enumerate() {
            self.append_end(&Record::Ended(Ended {
                request: Hex(self.request),
                sequence: u16::try_from(index).unwrap_or(u16::MAX),
                status: self.status,
                outcome: line.outcome.unwrap_or(rest),
                proof: line.proof,
                completion: line.completion,
                first_token_ms,
                total_ms,
            }));
        }
        self.access_line(rest, total_ms, first_token_ms);
    }

    fn append_end(&self, record: &Record) {
        if self.append(record).is_err() {
            tracing::error!("an end could not be recorded: the audit log takes no more");
        }
    }

    fn access_line(&self, rest: Outcome, total_ms: u32, first_token_ms: u32) {
        let first = self.sequences.first();
        let outcome = first.and_then(|line| line.outcome).unwrap_or(rest);
        let sum =
            |count: fn(&Line) -> u32| self.sequences.iter().map(|line| u64::from(count(line))).sum::<u64>();
        tracing::info!(
            request = %uuid::Uuid::from_bytes(self.request),
            tag = self.asker.tag.0,
            endpoint = ?self.endpoint,
            status = self.status,
            outcome = ?outcome,
            sequences = self.sequences.len(),
            prompt_tokens = sum(|line| line.edge_tokens),
            completion_tokens = sum(|line| line.completion),
            first_token_ms,
            total_ms,
            "request"
        );
    }

    fn ms_until(&self, moment: Option<Instant>) -> u32 {
        let since = moment.map(|moment| moment.duration_since(self.arrived).as_millis());
        since.map_or(0, |ms| u32::try_from(ms).unwrap_or(u32::MAX))
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if !self.is_closed {
            self.meter.cancelled.fetch_add(1, Relaxed);
            for line in &mut self.sequences {
                line.outcome = None;
            }
            self.close(Outcome::Cancelled);
        }
    }
}

/// What a denial is in the log.
fn ended_by(denied: &Denied) -> Outcome {
    let rejected = |reason, bound| Outcome::Rejected { reason, bound };
    let bound = |asked: usize, allowed: usize| {
        let wide = |number| u64::try_from(number).unwrap_or(u64::MAX);
        Some(Bound { asked: wide(asked), allowed: wide(allowed) })
    };
    match denied {
        Denied::NoSuchPath | Denied::NoSuchModel | Denied::Method { .. } => rejected(Reason::NotFound, None),
        Denied::Revoked => Outcome::Failed { failure: audit::Failure::Revoked },
        Denied::NotAuthenticated | Denied::Forbidden(_) => rejected(Reason::Forbidden, None),
        Denied::OverCap(over) => {
            let bound = Bound { asked: over.asked.into(), allowed: over.allowed.into() };
            rejected(Reason::TooLong, Some(bound))
        }
        Denied::Bad(_) | Denied::NotJson | Denied::BrokenBody | Denied::NoChat { .. } => {
            rejected(Reason::Malformed, None)
        }
        Denied::BodyTooLarge { .. } => rejected(Reason::BodyTooLarge, None),
        Denied::TooSlow { .. } => rejected(Reason::TooSlow, None),
        Denied::TooLong(too_long) => {
            let (Count::Exactly(prompt) | Count::AtLeast(prompt)) = too_long.prompt;
            let output = usize::try_from(too_long.output).unwrap_or(usize::MAX);
            let window = usize::try_from(too_long.window).unwrap_or(usize::MAX);
            rejected(Reason::TooLong, bound(prompt.saturating_add(output), window))
        }
        Denied::NoSuchToken { id, vocab, .. } => {
            rejected(Reason::UnknownToken, bound(usize::try_from(*id).unwrap_or(usize::MAX), *vocab))
        }
        Denied::EmptyPrompt { .. } => rejected(Reason::EmptyPrompt, None),
        Denied::Limit(Refusal::Over(over)) => {
            let reason = match over.quota {
                Quota::PromptTokens | Quota::OutputTokens => Reason::TooLong,
                Quota::RequestsPerMinute | Quota::TokensPerMinute => Reason::RateLimit,
                Quota::AtOnce => Reason::Concurrency,
            };
            rejected(reason, Some(Bound { asked: over.asked, allowed: over.limit.get().into() }))
        }
        Denied::Budget(BudgetDenied::Over(over) | BudgetDenied::Elsewhere(over)) => {
            rejected(Reason::Budget, Some(Bound { asked: over.asked, allowed: over.left }))
        }
        Denied::Budget(
            BudgetDenied::StoreAway { .. }
            | BudgetDenied::Unpriced(_)
            | BudgetDenied::Unfit
            | BudgetDenied::Unavailable,
        ) => Outcome::Failed { failure: audit::Failure::Gateway },
        Denied::Limit(Refusal::NoRoom(_)) | Denied::TooManyFailures(_) => rejected(Reason::RateLimit, None),
        Denied::Concurrency { limit } => {
            rejected(Reason::Concurrency, bound(limit.saturating_add(1), *limit))
        }
        Denied::Overloaded => rejected(Reason::Overloaded, None),
        Denied::NoEngine => rejected(Reason::NoEngine, None),
        Denied::Draining => rejected(Reason::ShuttingDown, None),
        Denied::Limit(Refusal::Ahead(_)) | Denied::NoAudit | Denied::KeysStale | Denied::Internal => {
            Outcome::Failed { failure: audit::Failure::Gateway }
        }
        Denied::Failed(failure) => Outcome::Failed { failure: (*failure).into() },
    }
}
