//! One request, once through: bound, admit, send, believe, answer, settle.
//!
//! Architecture invariant: knows no HTTP library; writes through [`Client`] alone, and a 200 only by [`Client::begin`], which
//! takes the proofs.

mod bill;
mod call;
mod cuts;
mod prepare;
mod teller;
mod words;

pub(crate) use bill::Bill;
pub(crate) use call::{Run, serve};
pub(crate) use prepare::{Prepared, prepare};

use bytes::Bytes;
use isolation::evidence::FirstToken;

/// Proof that each sequence of a request was prefilled as it was sent. The only thing that begins a 200.
pub(crate) struct Proofs(Vec<FirstToken>);

impl Proofs {
    /// None unless there is a proof for each of `sequences`.
    pub(crate) fn whole(proofs: Vec<Option<FirstToken>>, sequences: usize) -> Option<Self> {
        let proofs: Vec<FirstToken> = proofs.into_iter().flatten().collect();
        (proofs.len() == sequences && sequences > 0).then_some(Self(proofs))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// What kind of body a 200 has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Body {
    /// Server-sent events.
    Events,
    /// JSON of so many bytes.
    Json(usize),
}

/// The client left, or does not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Gone;

/// The way to one client.
#[async_trait::async_trait]
pub(crate) trait Client: Send {
    /// Takes note of how the limits stand that the request met, and which thresholds its budgets have passed, for the head.
    fn met(&mut self, standing: tenant::Standing, passed: &[tenant::BudgetWarning]);
    /// Sends the head of a 200.
    async fn begin(&mut self, proofs: Proofs, body: Body) -> Result<(), Gone>;
    /// Sends bytes of the body.
    async fn send(&mut self, bytes: Bytes) -> Result<(), Gone>;
    /// Ends the body.
    async fn end(&mut self) -> Result<(), Gone>;
    /// Writes nothing more, and has the connection closed: what was being written was not written whole.
    async fn sever(&mut self);
    /// Returns when the client has left. Safe to drop before.
    async fn gone(&mut self);
}
