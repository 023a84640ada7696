//! An engine behind a Unix socket. The step loop has its thread and never waits for a socket: each session has a thread
//! that reads into a bounded inbox, and one that writes from a bounded outbox.
//!
//! ```text
//!   socket ──reader──► Inbox ──► step loop ──► Outbox ──writer──► socket
//!     (a thread a session)      (run's caller)     (a thread a session)
//! ```
//! Architecture invariant: the loop alone touches the engine, and it looks into the inbox before each step.

mod alarms;
mod attest;
mod inbox;
mod outbox;
mod serve;
mod session;
mod socket;

pub use inbox::Control;

use crate::{
    core::{Engine, EngineConfig, EngineStartError},
    device::Device,
};
use attest::Attester;
use isolation::{keyed::Secrets, units::Epoch};
use ring::rand::{SecureRandom, SystemRandom};
use serve::Loop;
use std::{io, num::NonZeroU32, path::PathBuf, thread};
use thiserror::Error;
use wire::{BootKey, WireKey};

/// What a server is started with.
pub struct ServerConfig {
    /// Where to listen; the folder must be nobody else's (0700).
    pub socket: PathBuf,
    /// What the gateway seals its submissions with.
    pub wire_key: WireKey,
    /// How the engine works.
    pub engine: EngineConfig,
    /// Sessions at once at most; further ones are closed at the door.
    pub sessions_max: NonZeroU32,
    /// Bytes that may wait for a session's gateway to read; a session that is over is cut.
    pub outbox_bytes_max: usize,
    /// Stops the server from outside.
    pub control: Control,
}

impl ServerConfig {
    /// Four sessions, so that a gateway that comes back finds room before its old session is seen to be gone, and 8 MiB
    /// for each: some 100,000 tokens.
    #[must_use]
    pub fn new(socket: PathBuf, wire_key: WireKey, engine: EngineConfig) -> Self {
        let sessions_max = NonZeroU32::MIN.saturating_add(3);
        Self { socket, wire_key, engine, sessions_max, outbox_bytes_max: 8 << 20, control: Control::new() }
    }
}

/// What the server is, once it listens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ready {
    /// Tokens that a request may span.
    pub window: u32,
    /// Tokens that the pool holds.
    pub capacity_tokens: u32,
    /// Pages of the pool.
    pub pages: u32,
    /// SHA-256 of the model file.
    pub model_digest: [u8; 32],
    /// This life of the engine; below 2^53, so that JSON holds it.
    pub epoch: u64,
}

/// Why a server did not start, or ended; all but the last are for the operator.
#[derive(Debug, Error)]
pub enum ServerError<E> {
    /// The device could not be made.
    #[error("{0}")]
    Device(E),
    /// The engine would not start on it.
    #[error("{0}")]
    Engine(EngineStartError),
    /// Another server answers at the socket.
    #[error("another engine answers at {}", socket.display())]
    Live {
        /// Where.
        socket: PathBuf,
    },
    /// Something lies at the path that is no socket.
    #[error("{} is there and is no socket", socket.display())]
    NotASocket {
        /// Where.
        socket: PathBuf,
    },
    /// Others may enter the socket's folder.
    #[error("{} has mode {mode:o}, a socket's folder must have 700", folder.display())]
    OpenFolder {
        /// Which.
        folder: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The system refused something.
    #[error("could not {doing}: {source}")]
    System {
        /// What.
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The system has no randomness.
    #[error("the system gave no random bytes")]
    NoRandomness,
}

impl<E> ServerError<E> {
    fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}

/// Serves until [`Control::stop`], then ends what runs, tells each session, and removes the socket.
///
/// The device is made after the socket's path is seen to be free, and on the caller's thread, which becomes the step loop.
///
/// # Errors
/// See [`ServerError`]. Nothing is left behind then.
pub fn run<D: Device, E>(
    config: ServerConfig,
    make_device: impl FnOnce() -> Result<D, E>,
    on_ready: impl FnOnce(&Ready),
) -> Result<(), ServerError<E>> {
    socket::prepare(&config.socket)?;
    let device = make_device().map_err(ServerError::Device)?;
    let pages = device.facts().pages.get();
    let random = SystemRandom::new();
    let epoch = u64::from_le_bytes(random_bytes(&random)?) >> 11;
    let secrets = Secrets::new(random_bytes(&random)?);
    let boot_key = BootKey::make(&random).ok_or(ServerError::NoRandomness)?;
    let engine =
        Engine::new(device, config.engine, Epoch::new(epoch), secrets).map_err(ServerError::Engine)?;
    let listener = socket::listen(&config.socket)?;
    let hello = engine.hello([0; 16], boot_key.public());
    let attester = Attester::new(boot_key, hello.model_digest);
    let ready = Ready {
        window: hello.window,
        capacity_tokens: hello.capacity,
        pages,
        model_digest: hello.model_digest,
        epoch,
    };
    tracing::info!(
        epoch,
        window = ready.window,
        capacity_tokens = ready.capacity_tokens,
        pages,
        "the engine is ready"
    );
    on_ready(&ready);

    let (wake, woken) =
        std::os::unix::net::UnixStream::pair().map_err(ServerError::system("make a wake pipe"))?;
    let door = session::Door {
        control: config.control.clone(),
        sessions_max: config.sessions_max,
        outbox_bytes_max: config.outbox_bytes_max,
    };
    let accepting = thread::Builder::new()
        .name("engine-accept".into())
        .spawn(move || door.accept(&listener, &woken))
        .map_err(ServerError::system("start a thread"))?;
    Loop::new((engine, attester), config.control, config.wire_key, random).run();
    // The other end of the pipe sees the end of the stream, and the door closes.
    drop(wake);
    if accepting.join().is_err() {
        tracing::error!("the accepting thread panicked");
    }
    socket::remove(&config.socket).map_err(ServerError::system("remove the socket"))
}

fn random_bytes<const N: usize, E>(random: &SystemRandom) -> Result<[u8; N], ServerError<E>> {
    let mut bytes = [0; N];
    random.fill(&mut bytes).map_err(|_| ServerError::NoRandomness)?;
    Ok(bytes)
}
