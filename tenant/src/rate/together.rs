//! Where gateways count together: which tenants have something to tell, who tells it, and who waits for the answer.

use core::time::Duration;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::limiter::{Grant, Limiter, lock};
use super::refusal::Refusal;
use super::report::{Answer, Report};
use super::rule::{Ask, Chain};
use super::telling::Telling;
use crate::store::TenantId;
use crate::time::MonoNanos;

/// How long a request waits for the shared count when its gateway is as far ahead of it as it may be.
pub const ANSWER_WAIT_MAX: Duration = Duration::from_millis(500);

/// What a limiter knows of its being one of several.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// There is a shared count.
    is_shared: bool,
    /// Whether to go on without it.
    alone: bool,
    is_away: AtomicBool,
    /// Tenants that have something to tell: those that are counted, so as many at most.
    untold: Mutex<HashSet<TenantId>>,
    /// Numbers of reports that were given; u64 does not run out.
    sequences: AtomicU64,
    /// Something is to be told.
    news: Notify,
    /// It is to be told at once.
    pressing: Notify,
    /// The shared count has answered, or does not answer any more.
    answered: Notify,
    /// Requests that waited for an answer.
    waits: AtomicU64,
}

impl Together {
    pub(super) fn new(alone: bool) -> Self {
        Self { is_shared: true, alone, ..Self::default() }
    }

    /// How it is counted now.
    pub(super) fn telling(&self) -> Telling {
        match (self.is_shared, self.is_away.load(Ordering::Acquire)) {
            (false, _) => Telling::Nobody,
            (true, false) => Telling::Near,
            (true, true) => self.without(),
        }
    }

    const fn without(&self) -> Telling {
        Telling::Away { alone: self.alone }
    }

    /// How a request is counted that has waited long enough.
    fn late(&self) -> Telling {
        let telling = self.telling();
        if telling == Telling::Near && self.alone { Telling::Late } else { telling }
    }

    /// Notes that `tenant` has something to tell.
    pub(super) fn note(&self, tenant: TenantId) {
        self.untold().insert(tenant);
        self.news.notify_one();
    }

    /// Has what is noted told at once.
    pub(super) fn press(&self) {
        self.pressing.notify_one();
    }

    fn untold(&self) -> MutexGuard<'_, HashSet<TenantId>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limiter {
    /// [`Limiter::admit`], which waits for the shared count up to [`ANSWER_WAIT_MAX`] where the gateway is as far ahead of it
    /// as it may be. Then it goes on by itself, or refuses, as it was told to.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was taken then, anywhere.
    pub async fn admit_together(
        &self,
        chain: &Chain,
        ask: Ask,
        now: impl Fn() -> MonoNanos,
    ) -> Result<Grant, Refusal> {
        let together = &self.0.together;
        let mut began = None;
        loop {
            // Listens before it looks, so that no answer falls between.
            let answered = together.answered.notified();
            let telling = together.telling();
            match (self.admit_by(telling, chain, ask, now()), telling) {
                (Err(Refusal::Ahead(_)), Telling::Near) => together.press(),
                (admitted, _) => return admitted,
            }
            let began = *began.get_or_insert_with(|| {
                together.waits.fetch_add(1, Ordering::Relaxed);
                Instant::now()
            });
            if timeout(ANSWER_WAIT_MAX.saturating_sub(began.elapsed()), answered).await.is_err() {
                return self.admit_by(together.late(), chain, ask, now());
            }
        }
    }

    /// Waits until there is something to tell; a little, so that there is more, unless it presses.
    pub(crate) async fn news(&self, collect: Duration) {
        let together = &self.0.together;
        together.news.notified().await;
        let _more = timeout(collect, together.pressing.notified()).await;
    }

    /// Up to about `most` reports of what is untold; what is left comes with the next call. Each waits for
    /// [`Limiter::answer`].
    pub(crate) fn reports(&self, most: usize) -> Vec<Report> {
        let together = &self.0.together;
        let tenants = core::mem::take(&mut *together.untold());
        let mut reports = Vec::new();
        for tenant in tenants {
            let Some(ledger) = self.0.found(tenant) else { continue };
            let left = most.saturating_sub(reports.len());
            let mut next = || together.sequences.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            let untold = {
                let mut ledger = lock(&ledger);
                reports.extend(ledger.reports(tenant, left, &mut next));
                ledger.is_news()
            };
            if untold {
                together.note(tenant);
            }
        }
        reports
    }

    /// Brings the answer to each report of a round.
    pub(crate) fn answer(&self, answers: impl Iterator<Item = (Report, Answer)>, now: MonoNanos) {
        let together = &self.0.together;
        for (report, answer) in answers {
            self.settle_report(&report, Some(answer), now);
        }
        together.is_away.store(false, Ordering::Release);
        together.answered.notify_waiters();
    }

    /// The shared count does not answer.
    pub(crate) fn is_left_alone(&self) {
        let together = &self.0.together;
        together.is_away.store(true, Ordering::Release);
        together.answered.notify_waiters();
    }

    /// Brings reports that nobody took for a while up to `now`.
    pub(crate) fn amend(&self, reports: &mut [Report], now: MonoNanos) {
        for report in reports {
            if let Some(ledger) = self.0.found(report.tenant) {
                lock(&ledger).amend(report, now);
            }
        }
    }

    /// Gives up a report that nobody took: what it said has run out.
    pub(crate) fn give_up(&self, report: &Report, now: MonoNanos) {
        self.settle_report(report, None, now);
    }

    fn settle_report(&self, report: &Report, answer: Option<Answer>, now: MonoNanos) {
        let telling = self.0.together.telling();
        if let Some(ledger) = self.0.found(report.tenant) {
            self.0.leave(report.tenant, ledger, |ledger| ledger.answered(report, answer, now, telling));
        }
    }

    /// Has all that is in flight told again, with what others did for an answer.
    pub(crate) fn refresh(&self) {
        for tenant in self.0.counted() {
            let Some(ledger) = self.0.found(tenant) else { continue };
            self.0.leave(tenant, ledger, super::ledger::Ledger::refresh);
        }
    }

    /// Whether the shared count is away, and how many requests have waited for it so far; nothing where there is none.
    pub fn shared_health(&self) -> Option<(bool, u64)> {
        let together = &self.0.together;
        let waits = together.waits.load(Ordering::Relaxed);
        together.is_shared.then(|| (together.is_away.load(Ordering::Acquire), waits))
    }
}
