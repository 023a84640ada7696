//! One forward pass over a batch, and the proof that it is over. Knows no page.

use crate::units::{Epoch, StepId};

/// A step that may be in flight. Neither forged nor copied; one that is dropped instead of ended stays open
/// for good, and so keeps every page that it named in quarantine.
///
/// ```compile_fail,E0451
/// let forged = isolation::step::OpenStep { id: todo!(), epoch: todo!() };
/// ```
/// ```compile_fail,E0599
/// fn twice(step: isolation::step::OpenStep) -> [isolation::step::OpenStep; 2] { [step.clone(), step] }
/// ```
#[derive(Debug)]
#[must_use = "a step that is not ended keeps its pages in quarantine"]
pub struct OpenStep {
    id: StepId,
    epoch: Epoch,
}

impl OpenStep {
    pub(crate) const fn new(id: StepId, epoch: Epoch) -> Self {
        Self { id, epoch }
    }

    /// Its number.
    pub const fn id(&self) -> StepId {
        self.id
    }

    /// The engine life it belongs to.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Called by the device when all writes of the step are done and nothing of it is in flight.
    pub const fn finish(self) -> StepReceipt {
        StepReceipt { id: self.id, epoch: self.epoch, wrote: Wrote::All }
    }

    /// Called by the device when the step failed and nothing of it is in flight: its pages may be reused, its
    /// writes never read.
    pub const fn fail(self) -> StepReceipt {
        StepReceipt { id: self.id, epoch: self.epoch, wrote: Wrote::Unknown }
    }
}

/// What a step left behind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wrote {
    All,
    Unknown,
}

/// Proof that a step is over.
///
/// ```compile_fail,E0451
/// let forged = isolation::step::StepReceipt { id: todo!(), epoch: todo!(), wrote: todo!() };
/// ```
/// ```compile_fail,E0599
/// fn twice(receipt: isolation::step::StepReceipt) -> [isolation::step::StepReceipt; 2] { [receipt.clone(), receipt] }
/// ```
#[derive(Debug)]
#[must_use = "pages leave quarantine only by a receipt"]
pub struct StepReceipt {
    id: StepId,
    epoch: Epoch,
    wrote: Wrote,
}

impl StepReceipt {
    /// The step that is over.
    pub const fn step(&self) -> StepId {
        self.id
    }

    /// The engine life it belongs to.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) const fn wrote(&self) -> Wrote {
        self.wrote
    }
}
