//! The Pingora edge: authenticate, bound, admit, believe, answer.
//!
//! The public interface is [`Gateway::bind`], then [`Gateway::run`].
//!
//! ```text
//! edge ──► flow ──► openai      bytes of a client's contract
//!   │        ├────► link        one session to the engine: frames, stamps, belief
//!   │        ├────► record      the audit log and the access line, once at each end
//!   └────────┴────► answer      the one place where an end becomes a status line
//! ```
//!
//! Architecture invariant: never imports the engine or its kernels; Pingora's types stay inside `edge`; no 200 without a
//! [`FirstToken`](isolation::evidence::FirstToken) of each sequence, no byte out without a
//! [`Verified`](isolation::evidence::Verified).

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

mod answer;
mod edge;
mod engines;
pub mod fault;
mod flow;
mod house;
mod link;
mod meter;
mod openai;
mod record;
mod status;

pub use house::{BindError, Counting, Gateway, GatewayConfig, GatewayError, Parts};
