//! One session to the engine: sequences out, frames back to whoever waits for them.
//!
//! Architecture invariant: knows token ids and tags; no text, no key, no tenant name. Frames are matched by request id, never
//! by order, so an answer that nobody waits for goes to nobody.

mod alarms;
mod group;
mod seen;
mod session;
mod shares;

pub(crate) use alarms::ALARMS_MAX;
pub(crate) use group::{Event, Group};
pub(crate) use shares::reach;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use isolation::tag::TenantTag;
use tenant::Directory;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use wire::{Alarm, EngineStatus, Hello, RequestId, Sampling, Submit, ToEngine, ToGateway, WireKey};

use crate::fault::{Fault, seeded};
use crate::meter::Meter;

/// Frames that wait to be written to the engine, at most.
const OUT_MAX: usize = 4_096;
/// Frames that wait for one request, at most; a client that falls further behind is cut.
const FRAMES_MAX: usize = 8_192;
/// Sequences under way in one session, at most; the engine's own bound is lower.
const ROUTES_MAX: usize = 65_536;
/// Questions for the engine's status that wait for an answer, at most.
const ASKED_MAX: usize = 64;
/// Longest wait for the engine's status.
const STATUS_MAX: Duration = Duration::from_secs(1);

/// The way to the engine. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Link(Arc<Shared>);

struct Shared {
    socket: PathBuf,
    key: WireKey,
    /// For what tenants may hold, and nothing else.
    directory: Arc<Directory>,
    live: Mutex<Option<Live>>,
    seen: watch::Sender<Option<Hello>>,
}

/// A session that is up.
struct Live {
    hello: Hello,
    /// The window it offers now, which shrinks with its pool.
    window: u32,
    serial: u64,
    out: mpsc::Sender<Vec<u8>>,
    routes: HashMap<RequestId, mpsc::Sender<ToGateway>>,
    asked: VecDeque<oneshot::Sender<EngineStatus>>,
}

/// One sequence to be asked for.
pub(crate) struct Wanted {
    pub(crate) prompt: Vec<u32>,
    pub(crate) max_tokens: u32,
    pub(crate) stop_tokens: Vec<u32>,
    pub(crate) sampling: Sampling,
}

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotSent {
    /// No engine is connected.
    Away,
    /// The engine's queue, or our queue to it, is full.
    Busy,
    /// A name for the sequence could not be made, or its frame is too large.
    Unsendable,
}

/// The engine as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) hello: Hello,
    pub(crate) window: u32,
}

impl Link {
    /// A link that is down until [`Link::run`] runs.
    pub(crate) fn new(socket: PathBuf, key: WireKey, directory: Arc<Directory>) -> Self {
        let (live, seen) = (Mutex::new(None), watch::Sender::new(None));
        Self(Arc::new(Shared { socket, key, directory, live, seen }))
    }

    /// Connects, and connects again, until it is dropped, and `alarms` with it: there each alarm of an engine goes, once, after
    /// it was counted in `meter`.
    pub(crate) async fn run(self, alarms: mpsc::Sender<Alarm>, meter: Arc<Meter>) {
        session::keep(&self.0, alarms, meter).await;
    }

    /// Each engine as it is connected.
    pub(crate) fn seen(&self) -> watch::Receiver<Option<Hello>> {
        self.0.seen.subscribe()
    }

    /// The engine that is connected now. One whose window is 0 says that it cannot be trusted or is about to end.
    pub(crate) fn engine(&self) -> Option<Engine> {
        let live = self.0.live();
        let live = live.as_ref().filter(|live| live.window > 0);
        live.map(|live| Engine { hello: live.hello.clone(), window: live.window })
    }

    /// The engine's own account of itself.
    pub(crate) async fn status(&self) -> Option<EngineStatus> {
        let answer = {
            let mut live = self.0.live();
            let live = live.as_mut()?;
            live.ask()?
        };
        timeout(STATUS_MAX, answer).await.ok()?.ok()
    }

    /// Sends all sequences of one request to the engine of `epoch`, or none.
    pub(crate) fn submit(
        &self,
        (tag, epoch): (TenantTag, u64),
        wanted: Vec<Wanted>,
    ) -> Result<Group, NotSent> {
        let (frames, receiver) = mpsc::channel(FRAMES_MAX);
        // Before the lock, so that it is dropped after it: a group that is given up takes the lock to cancel.
        let mut group = Group::new(self.clone(), receiver);
        let mut guard = self.0.live();
        let live = guard.as_mut().filter(|live| live.hello.epoch == epoch).ok_or(NotSent::Away)?;
        if live.routes.len().saturating_add(wanted.len()) > ROUTES_MAX || live.out.capacity() < wanted.len() {
            return Err(NotSent::Busy);
        }
        let mut first = None;
        for wanted in wanted {
            let own = *uuid::Uuid::now_v7().as_bytes();
            let first = *first.get_or_insert(own);
            let request = if seeded(Fault::OneName) { first } else { own };
            live.serial = live.serial.saturating_add(1);
            let submit = Submit {
                request,
                tag: tag.get(),
                epoch: live.hello.epoch,
                serial: live.serial,
                prompt: wanted.prompt,
                max_tokens: wanted.max_tokens,
                stop_tokens: wanted.stop_tokens,
                sampling: wanted.sampling,
                ticket: [0; 32],
            };
            group.expect(&submit, &live.hello);
            let submit = submit.seal(&self.0.key, &live.hello.session);
            let frame = wire::encode(&ToEngine::Submit(Box::new(submit))).map_err(|_| NotSent::Unsendable)?;
            // In the order of the serials: under the same lock.
            live.out.try_send(frame).map_err(|_| NotSent::Busy)?;
            live.routes.insert(request, frames.clone());
        }
        drop(guard);
        Ok(group)
    }

    /// Tells the engine that nobody waits for these sequences.
    fn cancel(&self, requests: &[RequestId]) {
        let mut live = self.0.live();
        let Some(live) = live.as_mut() else { return };
        for request in requests {
            live.routes.remove(request);
            // A full queue to the engine means that it is stuck; its session will be cut, and with it this sequence.
            if let Ok(frame) = wire::encode(&ToEngine::Cancel(*request))
                && live.out.try_send(frame).is_err()
            {
                tracing::warn!("a cancel did not reach the engine");
            }
        }
    }
}

impl Shared {
    /// Nothing that holds the lock can panic, so a poisoned lock still holds a sound value.
    fn live(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    fn ask(&mut self) -> Option<oneshot::Receiver<EngineStatus>> {
        if self.asked.len() >= ASKED_MAX {
            return None;
        }
        self.out.try_send(wire::encode(&ToEngine::Status).ok()?).ok()?;
        let (sender, receiver) = oneshot::channel();
        self.asked.push_back(sender);
        Some(receiver)
    }
}
