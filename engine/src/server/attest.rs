//! Signs what was done for each sequence that completed. Sees its frames as they go out, and nothing else of the engine.

use crate::fault::{Fault, seeded};
use wire::{BootKey, End, Ending, Submit, ToGateway, Witness};

/// Whoever holds this life's boot key.
pub(super) struct Attester {
    key: BootKey,
    /// SHA-256 of the model file.
    model: [u8; 32],
}

impl Attester {
    pub(super) fn new(key: BootKey, model: [u8; 32]) -> Self {
        Self { key, model }
    }

    /// What its statements are verified by.
    pub(super) fn public(&self) -> [u8; 32] {
        self.key.public()
    }

    /// Begins to look at a sequence.
    pub(super) fn witness(&self, submit: &Submit) -> Witness {
        Witness::of(submit, self.model)
    }

    /// Takes note of a frame of this sequence that goes out; an end that completes it gets the statement put on.
    pub(super) fn attest(&self, witness: &mut Witness, frame: &mut ToGateway) {
        match frame {
            ToGateway::Evidence { evidence, .. } => witness.proved(evidence),
            ToGateway::Delta(_) if seeded(Fault::OutputUnstated) => {}
            ToGateway::Delta(delta) => witness.sent(&delta.tokens),
            ToGateway::End(end) => self.state(witness, end),
            ToGateway::Hello(_) | ToGateway::Refused { .. } | ToGateway::Status(_) | ToGateway::Alarm(_) => {}
        }
    }

    /// What cannot be stated goes out without: no gateway believes that it completed.
    fn state(&self, witness: &Witness, end: &mut End) {
        let Ending::Completed(finish) = end.ending else { return };
        let Some(statement) = witness.stated(finish) else {
            tracing::error!("a sequence completed that proved nothing; it is not stated");
            return;
        };
        match statement.sign(&self.key) {
            Ok(signed) => end.statement = Some(signed),
            Err(error) => tracing::error!(%error, "what was done for a sequence could not be signed"),
        }
    }
}
