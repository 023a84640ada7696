//! What waits for the step loop. Bounded: who brings more waits.

use crate::server::outbox::Outbox;
use isolation::units::Pages;
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};
use wire::ToEngine;

/// Events that wait at most.
const EVENTS_MAX: usize = 1024;
/// Prompt tokens that wait at most, in all events; one event may go beyond, so that the longest prompt gets through.
const TOKENS_MAX: usize = 4 << 20;

/// Names a session within this life of the engine.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct SessionId(pub(super) u64);

/// What happened outside.
pub(super) enum Event {
    /// A gateway said hello.
    Opened(SessionId, Arc<Outbox>),
    /// It said something more.
    Said(SessionId, ToEngine),
    /// It is gone.
    Closed(SessionId),
}

/// Works on a server from outside its thread. A clone works on the same server.
#[derive(Clone)]
pub struct Control(Arc<Inbox>);

struct Inbox {
    state: Mutex<State>,
    /// Something came, or the end.
    filled: Condvar,
    /// Room came, or the end.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    tokens: usize,
    shrink: Option<Pages>,
    phase: Phase,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Phase {
    #[default]
    Open,
    /// Stop was asked for.
    Stopping,
    /// Nobody takes events any more.
    Ended,
}

/// What the step loop takes at once.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) events: VecDeque<Event>,
    pub(super) shrink: Option<Pages>,
    pub(super) stop: bool,
}

/// Whether to wait for something to take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wait {
    Never,
    UntilSomething,
}

impl Default for Control {
    fn default() -> Self {
        Self::new()
    }
}

impl Control {
    /// Of a server that is still to be started, by [`crate::server::ServerConfig`].
    #[must_use]
    pub fn new() -> Self {
        let (state, filled, emptied) = (Mutex::default(), Condvar::new(), Condvar::new());
        Self(Arc::new(Inbox { state, filled, emptied }))
    }

    /// Ends the server after the step that it is in. Safe to call at any time and more than once.
    pub fn stop(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Stopping;
        }
        self.0.filled.notify_all();
    }

    /// Takes `by` pages out of the running engine's pool; see [`crate::core::Engine::shrink`].
    pub fn shrink(&self, by: Pages) {
        let mut state = self.lock();
        let before = state.shrink.unwrap_or(Pages::ZERO);
        state.shrink = Some(before.checked_add(by).unwrap_or(Pages::new(u32::MAX)));
        self.0.filled.notify_all();
    }

    /// Brings an event, and waits for room if there is none. `false` once nobody takes any more.
    pub(super) fn bring(&self, event: Event) -> bool {
        let mut state = self.lock();
        while state.phase != Phase::Ended && is_full(&state) {
            state = self.0.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.phase == Phase::Ended {
            return false;
        }
        state.tokens = state.tokens.saturating_add(tokens(&event));
        state.events.push_back(event);
        self.0.filled.notify_all();
        true
    }

    /// Takes all there is.
    pub(super) fn take(&self, wait: Wait) -> Taken {
        let mut state = self.lock();
        while wait == Wait::UntilSomething
            && state.events.is_empty()
            && state.shrink.is_none()
            && state.phase == Phase::Open
        {
            state = self.0.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.tokens = 0;
        let events = std::mem::take(&mut state.events);
        self.0.emptied.notify_all();
        Taken { events, shrink: state.shrink.take(), stop: state.phase != Phase::Open }
    }

    /// Nobody takes events from now on.
    pub(super) fn end(&self) -> VecDeque<Event> {
        let mut state = self.lock();
        state.phase = Phase::Ended;
        self.0.emptied.notify_all();
        std::mem::take(&mut state.events)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, and no state in between would be wrong.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_full(state: &State) -> bool {
    state.events.len() >= EVENTS_MAX || state.tokens >= TOKENS_MAX
}

fn tokens(event: &Event) -> usize {
    match event {
        Event::Said(_, ToEngine::Submit(submit)) => {
            submit.prompt.len().saturating_add(submit.stop_tokens.len())
        }
        Event::Said(_, ToEngine::Hello(_) | ToEngine::Cancel(_) | ToEngine::Status | ToEngine::Quotas(_))
        | Event::Opened(..)
        | Event::Closed(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    #[test]
    fn who_brings_too_much_waits_until_there_is_room() {
        let control = Control::new();
        for _ in 0..EVENTS_MAX {
            assert!(control.bring(Event::Closed(SessionId(0))));
        }
        let (sender, brought) = mpsc::channel();
        let other = control.clone();
        let bringing = thread::spawn(move || {
            let result = other.bring(Event::Closed(SessionId(1)));
            sender.send(result).unwrap();
        });
        assert!(brought.try_recv().is_err());
        assert_eq!(control.take(Wait::Never).events.len(), EVENTS_MAX);
        assert!(brought.recv().unwrap());
        bringing.join().unwrap();
        assert_eq!(control.take(Wait::UntilSomething).events.len(), 1);
        control.end();
        assert!(!control.bring(Event::Closed(SessionId(0))));
    }

    #[test]
    fn stop_and_shrink_wake_the_loop() {
        let control = Control::new();
        control.shrink(Pages::new(2));
        control.shrink(Pages::new(3));
        let taken = control.take(Wait::UntilSomething);
        assert_eq!((taken.shrink, taken.stop), (Some(Pages::new(5)), false));
        control.stop();
        assert!(control.take(Wait::UntilSomething).stop);
    }
}
