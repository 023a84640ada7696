//! What ends a running request from outside: its key is revoked, the server ends, its time is over.

use std::time::Duration;

use audit::Ticket;
use isolation::outcome::Failure;
use tenant::Presence;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Gone;
use crate::answer::Denied;
use crate::fault::{Fault, seeded};

/// How a request ended that did not end well.
pub(super) enum Broken {
    Denied(Denied),
    /// It had to end while something was being written, so nothing can be said after it.
    Severed(Denied),
    Gone,
}

impl Broken {
    /// The same, where nothing can be said any more.
    pub(super) fn severed(self) -> Self {
        match self {
            Self::Denied(denied) | Self::Severed(denied) => Self::Severed(denied),
            Self::Gone => Self::Gone,
        }
    }
}

impl From<Denied> for Broken {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl From<Gone> for Broken {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

/// Until when something may take, and how long that was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    pub(super) at: Instant,
    limit: Duration,
}

impl Until {
    /// So long after `start`.
    pub(super) fn after(start: Instant, limit: Duration) -> Self {
        Self { at: start.checked_add(limit).unwrap_or(start), limit }
    }
}

/// Looked at before anything that a request waits for, and while it waits.
pub(super) struct Cuts<'a> {
    pub(super) presence: &'a Presence,
    pub(super) shutdown: watch::Receiver<bool>,
    pub(super) until: Until,
}

impl Cuts<'_> {
    /// Why the request must end now; none while it may go on.
    pub(super) fn now(&self) -> Option<Denied> {
        if self.presence.is_cut() {
            return Some(Denied::Revoked);
        }
        if *self.shutdown.borrow() {
            return Some(Denied::Failed(Failure::ShuttingDown));
        }
        (Instant::now() >= self.until.at).then(|| self.late())
    }

    /// Returns once the request must end, and why. Safe to drop before.
    pub(super) async fn come(&mut self) -> Denied {
        let late = self.late();
        tokio::select! {
            biased;
            () = self.presence.cut() => Denied::Revoked,
            // A sender that is gone says the same.
            _ = self.shutdown.wait_for(|cut| *cut) => Denied::Failed(Failure::ShuttingDown),
            () = sleep_until(self.until.at) => late,
        }
    }

    /// What is written to the client, unless the request must end before: a client that reads slowly outlasts nothing.
    pub(super) async fn during(
        &mut self,
        write: impl Future<Output = Result<(), Gone>>,
    ) -> Result<(), Broken> {
        if seeded(Fault::WritesUncut) {
            return Ok(write.await?);
        }
        if let Some(denied) = self.now() {
            return Err(denied.into());
        }
        tokio::select! {
            biased;
            written = write => Ok(written?),
            denied = self.come() => Err(Broken::Severed(denied)),
        }
    }

    /// Waits until each record is on disk: no byte of an answer goes out before (fail closed).
    pub(super) async fn recorded(&self, tickets: Vec<Ticket>) -> Result<(), Broken> {
        for ticket in tickets {
            let written = timeout_at(self.until.at, ticket).await;
            written.map_err(|_| Denied::NoAudit)?.map_err(|_| Denied::NoAudit)?;
        }
        Ok(())
    }

    fn late(&self) -> Denied {
        let limit_ms = u64::try_from(self.until.limit.as_millis()).unwrap_or(u64::MAX);
        Denied::Failed(Failure::Deadline { limit_ms })
    }
}
