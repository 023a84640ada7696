//! Gateways that count limits together: a task takes what a [`Limiter`] has to tell to a [`SharedCount`] and brings the
//! answers back.
//!
//! Architecture invariant: no request waits for this but one whose gateway is as far ahead as it may be, and that one for
//! [`ANSWER_WAIT_MAX`](crate::ANSWER_WAIT_MAX) at most.

mod redis;

use core::future::Future;
use core::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

pub use self::redis::{BadSharedUrl, RedisCount};
use crate::rate::{Answer, Limiter, Report};
use crate::time::MonoNanos;

/// Reports of one round.
pub const ROUND_MAX: usize = 512;
/// How long news is collected before it is told, unless it presses.
const COLLECT: Duration = Duration::from_millis(20);
/// How often what is in flight is told again: others learn that it is there still, and this gateway what they did.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// How long a round may take.
const ROUND_TIME_MAX: Duration = Duration::from_secs(1);
/// Between two tries while nobody answers.
const RETRY_EVERY: Duration = Duration::from_millis(250);
/// How old a round may be before what has run out of it is left out.
const AMEND_AFTER: Duration = Duration::from_secs(2);
/// After this nobody needs to be told of a charge: a minute's worth has run out.
const RUN_OUT: Duration = Duration::from_secs(60);
/// How long the last round may take, at the end.
const LAST_MAX: Duration = Duration::from_secs(2);

/// A shared count does not answer.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the shared count of limits does not answer: {0}")]
pub struct CountAway(pub String);

/// What all gateways count together.
pub trait SharedCount: Send + 'static {
    /// Counts each of `reports`, once however often it comes, and says how its scope stands then; an answer for each, in order.
    fn tell(&mut self, reports: &[Report]) -> impl Future<Output = Result<Vec<Answer>, CountAway>> + Send;
}

/// The task that tells. Dropped, it stops at once.
#[derive(Debug)]
pub struct Sharing {
    task: JoinHandle<()>,
    end: Option<oneshot::Sender<()>>,
}

impl Sharing {
    /// Tells `count` what `limiter` counts, which reckons time from `clock` on.
    pub fn begin(limiter: Limiter, count: impl SharedCount, clock: std::time::Instant) -> Self {
        let (end, ended) = oneshot::channel();
        // However it ends: whoever would wait for it goes by what is done without it.
        let alone = LeftAlone(limiter.clone());
        let task = tokio::spawn(async move {
            let _alone = alone;
            let held_since = Instant::now();
            let mut teller = Teller { limiter, count, clock, held: Vec::new(), held_since, is_away: false };
            teller.run(ended).await;
        });
        Self { task, end: Some(end) }
    }

    /// Tells what is left, for 2 s at most, and ends.
    pub async fn finish(mut self) {
        drop(self.end.take());
        let _late = timeout(LAST_MAX, &mut self.task).await;
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Says at its end that nobody tells any more.
struct LeftAlone(Limiter);

impl Drop for LeftAlone {
    fn drop(&mut self) {
        self.0.is_left_alone();
    }
}

struct Teller<C> {
    limiter: Limiter,
    count: C,
    clock: std::time::Instant,
    /// A round that was not answered; it is told again as it is, for a part of it may have been counted.
    held: Vec<Report>,
    held_since: Instant,
    is_away: bool,
}

impl<C: SharedCount> Teller<C> {
    async fn run(&mut self, mut ended: oneshot::Receiver<()>) {
        let limiter = self.limiter.clone();
        let mut refresh = interval(REFRESH_EVERY);
        refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_held = !self.held.is_empty();
            let due = async { if is_held { sleep(RETRY_EVERY).await } else { limiter.news(COLLECT).await } };
            tokio::select! {
                // Sent or dropped, it says the same.
                _told = &mut ended => break,
                _tick = refresh.tick() => limiter.refresh(),
                () = due => (),
            }
            // Also after a tick: it may have cut a wait short that had heard of news already.
            self.tell().await;
        }
        self.tell().await;
    }

    /// Tells what there is now, or once more what was not answered.
    async fn tell(&mut self) {
        loop {
            if self.held.is_empty() {
                self.held = self.limiter.reports(ROUND_MAX);
                self.held_since = Instant::now();
            }
            let count = self.held.len();
            if count > 0 {
                self.round().await;
            }
            // What came meanwhile is for the next time, unless there was more from the start.
            if count < ROUND_MAX || !self.held.is_empty() {
                return;
            }
        }
    }

    async fn round(&mut self) {
        if self.held_since.elapsed() > AMEND_AFTER {
            let now = MonoNanos::between(self.clock, std::time::Instant::now());
            self.limiter.amend(&mut self.held, now);
        }
        let told = timeout(ROUND_TIME_MAX, self.count.tell(&self.held)).await;
        let now = MonoNanos::between(self.clock, std::time::Instant::now());
        match told.unwrap_or_else(|_| Err(CountAway("it took more than a second".into()))) {
            Ok(answers) => {
                if core::mem::take(&mut self.is_away) {
                    tracing::info!("the shared count of limits answers again");
                }
                self.limiter.answer(self.held.drain(..).zip(answers), now);
            }
            Err(away) => {
                if !core::mem::replace(&mut self.is_away, true) {
                    tracing::error!(%away, "limits are not counted together");
                }
                self.limiter.is_left_alone();
                if self.held_since.elapsed() > RUN_OUT {
                    for report in self.held.drain(..) {
                        self.limiter.give_up(&report, now);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
