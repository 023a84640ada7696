//! The signals that ask a server to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Doing, Exit, Failure};

/// SIGINT and SIGTERM, caught from the moment that this is made.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Catches them from now on, on the runtime that this is called from.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let catch = |kind| signal(kind).doing(Exit::Other, "catch signals");
        Ok(Self { interrupt: catch(SignalKind::interrupt())?, terminate: catch(SignalKind::terminate())? })
    }

    /// Resolves at the next of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
