//! Scheduler, sequences, devices and the server that speaks wire.
//!
//! The public interface is:
//! - [`core::Engine`], the step loop's state: it takes submissions, runs steps and hands out frames, and does no I/O;
//! - [`device::Device`], the border to the hardware, with [`device::stamp`], a device without floats for tests;
//! - [`server::run`], which puts an engine behind a Unix socket.
//!
//! Architecture invariant: knows no text, no API key, no tenant name and no network; only token ids, pages and opaque
//! tags. It never imports `gateway`, `tenant`, `policies` or `audit`.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

pub mod core;
pub mod device;
pub mod fault;
pub mod sampler;
pub mod server;

/// The engine's version, as a gateway is told it: major, minor, patch.
#[must_use]
pub fn build() -> [u16; 3] {
    let mut parts = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().unwrap_or(0));
    [0; 3].map(|_| parts.next().unwrap_or(0))
}
