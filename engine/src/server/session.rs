//! The door, and what reads from one session. Knows no engine: it turns bytes into events.

use crate::server::{
    inbox::{Control, Event, SessionId},
    outbox::Outbox,
};
use rustix::event::{PollFd, PollFlags, poll};
use std::{
    io::{self, Read},
    num::NonZeroU32,
    os::unix::net::{UnixListener, UnixStream},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use thiserror::Error;
use wire::{Decoder, FrameError, ToEngine};

/// How long a gateway may take to say hello.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// How long to leave a door shut that the system cannot open (out of file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// Lets gateways in.
pub(super) struct Door {
    pub(super) control: Control,
    pub(super) sessions_max: NonZeroU32,
    pub(super) outbox_bytes_max: usize,
}

/// Why a session ended from this side.
#[derive(Debug, Error)]
enum Cut {
    #[error("the gateway's stream failed: {0}")]
    Stream(#[from] io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("the first frame was no hello")]
    NoHello,
    #[error("the stream ended within a frame")]
    Partial,
}

impl Door {
    /// Accepts until the other end of `woken` is dropped.
    pub(super) fn accept(self, listener: &UnixListener, woken: &UnixStream) {
        let live = Arc::new(AtomicU32::new(0));
        let mut next = 0_u64;
        loop {
            let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "the door cannot be watched; no session comes in any more");
                    return;
                }
            }
            let [at_door, stop] = fds.map(|fd| fd.revents());
            if !stop.is_empty() {
                return;
            }
            if at_door.is_empty() {
                continue;
            }
            match listener.accept() {
                Ok((stream, _)) => {
                    next = next.saturating_add(1);
                    self.let_in(SessionId(next), stream, &live);
                }
                Err(error) => {
                    tracing::warn!(%error, "a session could not be accepted");
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "the pause is the point: do not spin on a failing accept"
                    )]
                    thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }

    fn let_in(&self, session: SessionId, stream: UnixStream, live: &Arc<AtomicU32>) {
        // Only this thread counts up, so that the bound holds.
        let sessions = live.load(Ordering::Acquire);
        if sessions >= self.sessions_max.get() {
            tracing::warn!(sessions, sessions_max = self.sessions_max.get(), "a session was turned away");
            return;
        }
        live.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(live));
        if let Err(error) = self.start(session, stream, place) {
            tracing::warn!(%error, "a session could not be started");
        }
    }

    fn start(&self, session: SessionId, stream: UnixStream, place: Place) -> io::Result<()> {
        let outbox = Arc::new(Outbox::new(stream.try_clone()?, self.outbox_bytes_max));
        let writer = spawn("engine-write", {
            let outbox = Arc::clone(&outbox);
            move || outbox.write_all()
        })?;
        let (control, for_reader) = (self.control.clone(), Arc::clone(&outbox));
        let reader = spawn("engine-read", move || {
            read(session, stream, &control, for_reader);
            // The place is free when both threads are done with the stream.
            if writer.join().is_err() {
                tracing::error!("a writing thread panicked");
            }
            drop(place);
        });
        // Without a reader the writer must end too.
        reader.map(drop).inspect_err(|_| outbox.cut())
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(body)
}

/// One of the sessions that there may be; given back on drop.
struct Place(Arc<AtomicU32>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The body of a session's reading thread.
fn read(session: SessionId, stream: UnixStream, control: &Control, outbox: Arc<Outbox>) {
    match read_all(session, stream, control, &outbox) {
        Ok(()) => tracing::debug!(session = session.0, "a session ended"),
        Err(cut) => tracing::warn!(session = session.0, %cut, "a session is cut"),
    }
    outbox.cut();
    // When the loop has ended there is nobody left to tell.
    control.bring(Event::Closed(session));
}

fn read_all(
    session: SessionId,
    mut stream: UnixStream,
    control: &Control,
    outbox: &Arc<Outbox>,
) -> Result<(), Cut> {
    let mut decoder = Decoder::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut is_open = false;
    stream.set_read_timeout(Some(HELLO_MAX))?;
    loop {
        while let Some(message) = decoder.take::<ToEngine>()? {
            if !is_open {
                let ToEngine::Hello(_) = message else { return Err(Cut::NoHello) };
                is_open = true;
                stream.set_read_timeout(None)?;
                if !control.bring(Event::Opened(session, Arc::clone(outbox))) {
                    return Ok(());
                }
            }
            if !control.bring(Event::Said(session, message)) {
                return Ok(());
            }
        }
        let count = match stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        if count == 0 {
            return if decoder.is_partial() { Err(Cut::Partial) } else { Ok(()) };
        }
        decoder.push(buffer.get(..count).unwrap_or_default());
    }
}
