//! What waits for one session's gateway to read. Bounded: a session that is over is cut, and the step loop never waits.

use std::{
    io::Write,
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long the last bytes of a session may take to leave.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Whether bytes were taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Put {
    Taken,
    /// The session has ended, or was cut now because too much waits.
    Cut,
}

/// See the module.
pub(super) struct Outbox {
    stream: UnixStream,
    bytes_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    phase: Phase,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Phase {
    #[default]
    Open,
    /// What waits is still written, and nothing more is taken.
    Draining,
    Cut,
}

impl Outbox {
    pub(super) fn new(stream: UnixStream, bytes_max: usize) -> Self {
        Self { stream, bytes_max, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes bytes for the writer, without waiting.
    pub(super) fn put(&self, bytes: &[u8]) -> Put {
        let mut state = self.lock();
        if state.phase != Phase::Open {
            return Put::Cut;
        }
        if state.waiting.len().saturating_add(bytes.len()) > self.bytes_max {
            tracing::warn!(bytes_max = self.bytes_max, "a gateway does not read; its session is cut");
            self.cut_locked(&mut state);
            return Put::Cut;
        }
        state.waiting.extend_from_slice(bytes);
        self.changed.notify_all();
        Put::Taken
    }

    /// Lets what waits be written, then ends the session.
    pub(super) fn finish(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Draining;
            if let Err(error) = self.stream.set_write_timeout(Some(DRAIN_MAX)) {
                tracing::debug!(%error, "no time limit on a last write");
            }
        }
        self.changed.notify_all();
    }

    /// Waits until what was to be written is, or cannot be.
    pub(super) fn wait_written(&self) {
        let is_busy = |state: &mut State| state.phase != Phase::Cut;
        let waited = self.changed.wait_timeout_while(self.lock(), DRAIN_MAX, is_busy);
        if waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            tracing::warn!("a gateway did not read its last frames");
        }
    }

    /// Ends the session now.
    pub(super) fn cut(&self) {
        self.cut_locked(&mut self.lock());
    }

    fn cut_locked(&self, state: &mut State) {
        state.phase = Phase::Cut;
        state.waiting = Vec::new();
        self.changed.notify_all();
        if let Err(error) = self.stream.shutdown(Shutdown::Both) {
            tracing::debug!(%error, "a session was gone before it was cut");
        }
    }

    /// Writes what comes until the session ends. The body of the session's writing thread.
    pub(super) fn write_all(&self) {
        let mut batch = Vec::new();
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() && state.phase == Phase::Open {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.waiting.is_empty() {
                break;
            }
            batch.clear();
            std::mem::swap(&mut batch, &mut state.waiting);
            drop(state);
            if let Err(error) = (&self.stream).write_all(&batch) {
                tracing::debug!(%error, "a session could not be written to");
                break;
            }
        }
        // The reading thread sees this too, and says that the session is gone.
        self.cut();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, and no state in between would be wrong.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
