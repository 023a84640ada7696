//! What gateway and engine say to each other: frames, handshake, tickets and statements. No I/O.
//!
//! The public interface is:
//! - [`ToEngine`] and [`ToGateway`], the messages of each direction;
//! - [`encode`] and [`Decoder`], which turn them into length-prefixed frames and back;
//! - [`WireKey`], [`Submit::seal`] and [`TicketCheck`], which prove that a submission came from our gateway, once;
//! - [`digest_tokens`], the digest that evidence is compared by;
//! - [`BootKey`], [`Statement`] and [`Witness`], by which an engine signs what it did, and a gateway believes it.
//!
//! Architecture invariant: knows no text, no API key and no tenant name; only token ids and an opaque tag.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

mod alarm;
mod frame;
mod message;
mod statement;
mod ticket;
mod witness;

pub use alarm::{Alarm, Cause, Unsound, WITHDRAWN_KEPT};
pub use frame::{Decoder, FRAME_BYTES_MAX, FrameError, encode};
pub use message::{
    Census, Delta, End, Ending, EngineStatus, Evidence, Failed, Finished, GatewayHello, Hello, Logprobs,
    PROTOCOL, Quota, Refusal, RequestId, Sampling, Stamp, Submit, ToEngine, ToGateway, TokenOut,
};
pub use statement::{BootKey, STATEMENT_BYTES_MAX, Statement, StatementError};
pub use ticket::{TicketCheck, TicketError, WireKey, digest_tokens};
pub use witness::{OutputDigest, Witness, digest_bias};
