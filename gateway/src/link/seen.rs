//! What this gateway itself sent and saw of each sequence of a request, which the engine's signed statement must say too.
//!
//! Architecture invariant: takes no number from a statement; what is there to believe is compared with what is known without it.

use isolation::evidence::IntegrityError;
use isolation::outcome::Failure;
use thiserror::Error;
use wire::{End, Ending, Finished, Hello, RequestId, Statement, StatementError, Submit, ToGateway, Witness};

use crate::fault::{Fault, seeded};

/// Of all sequences of one request: one entry for each that was sent.
#[derive(Default)]
pub(super) struct Seen {
    /// The engine's boot key: each sequence goes to one life.
    key: [u8; 32],
    witnesses: Vec<(RequestId, Witness)>,
}

/// Why a statement is not believed.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
enum Wrong {
    #[error("a sequence completed without a statement")]
    Absent,
    #[error("{0}")]
    Unread(#[from] StatementError),
    #[error("the claim {claim} is not what was sent and seen")]
    Differs { claim: &'static str },
    #[error("the end names {named} tokens, {came} came")]
    Completion { named: u32, came: u32 },
    #[error("nothing was proved of it")]
    Unproved,
}

impl Seen {
    /// Takes note of what is sent to the engine that said this hello.
    pub(super) fn expect(&mut self, submit: &Submit, hello: &Hello) {
        self.key = hello.boot_key;
        self.witnesses.push((submit.request, Witness::of(submit, hello.model_digest)));
    }

    /// Takes note of what comes back; what is not to be believed is found, and ends the request, elsewhere.
    pub(super) fn hear(&mut self, frame: &ToGateway) {
        let request = match frame {
            ToGateway::Evidence { stamp, .. } => stamp.request,
            ToGateway::Delta(delta) => delta.stamp.request,
            ToGateway::Refused { .. }
            | ToGateway::End(_)
            | ToGateway::Hello(_)
            | ToGateway::Status(_)
            | ToGateway::Alarm(_) => return,
        };
        let Some((_, witness)) = self.witnesses.iter_mut().find(|(name, _)| *name == request) else { return };
        if let ToGateway::Evidence { evidence, .. } = frame {
            witness.proved(evidence);
        }
        if let ToGateway::Delta(delta) = frame {
            witness.sent(&delta.tokens);
        }
    }

    /// The statement of a sequence that completed; none of any other.
    ///
    /// # Errors
    /// When it is absent, or is not of what was sent and seen: the request must fail, and an alarm be raised.
    pub(super) fn judge(&self, end: &End) -> Result<Option<String>, Failure> {
        let Ending::Completed(finish) = end.ending else { return Ok(None) };
        if seeded(Fault::BelieveStatements) {
            return Ok(end.statement.clone());
        }
        self.compare(end, finish).map(Some).map_err(|wrong| {
            tracing::warn!(%wrong, "an engine's statement is not believed");
            Failure::Integrity(IntegrityError::Statement)
        })
    }

    fn compare(&self, end: &End, finish: Finished) -> Result<String, Wrong> {
        let signed = end.statement.as_ref().ok_or(Wrong::Absent)?;
        let witness = self.witnesses.iter().find(|(name, _)| *name == end.stamp.request);
        let own = witness.and_then(|(_, witness)| witness.stated(finish)).ok_or(Wrong::Unproved)?;
        let stated = Statement::read(signed, &self.key)?;
        if let Some(claim) = own.differs(&stated) {
            return Err(Wrong::Differs { claim });
        }
        if end.completion != own.output_tokens {
            return Err(Wrong::Completion { named: end.completion, came: own.output_tokens });
        }
        Ok(signed.clone())
    }
}
