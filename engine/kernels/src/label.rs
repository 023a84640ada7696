//! What a page of memory says of itself, and what a caller must show to open it (P2, P3).
//!
//! A label is set by the first write after a wipe and comes off with the next wipe, so it cannot be set by whoever reads. Owner
//! and generation are opaque here: they are compared, nothing else.

use crate::{
    KernelError,
    fault::{Fault, GUARDED},
};
use thiserror::Error;

/// The right to one page, in one of its lives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Capability {
    /// Its place in memory.
    pub page: usize,
    /// Whose it is: opaque.
    pub owner: u64,
    /// Which of the page's lives: opaque.
    pub generation: u64,
}

/// Why a page does not open. Each is a fault of whoever gave out the capability, never of a client.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum Denied {
    /// There is no such page.
    #[error("page {page} lies outside memory")]
    NoPage {
        /// Its place.
        page: usize,
    },
    /// It is another's. Whose is not said: an error is no place for it.
    #[error("page {page} is another owner's")]
    Owner {
        /// Its place.
        page: usize,
    },
    /// It is in another life.
    #[error("page {page} is in generation {found}, not {asked}")]
    Generation {
        /// Its place.
        page: usize,
        /// The life that was asked for.
        asked: u64,
        /// The life that it is in.
        found: u64,
    },
    /// Nobody wrote that far in its present life.
    #[error("page {page} holds {filled} positions of layer {layer}, not {asked}")]
    Unwritten {
        /// Its place.
        page: usize,
        /// The layer.
        layer: usize,
        /// Positions written.
        filled: u8,
        /// Positions asked for; for a write, those that must lie before it.
        asked: usize,
    },
    /// It was not wiped since it was made.
    #[error("page {page} was never wiped")]
    Unwiped {
        /// Its place.
        page: usize,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Label {
    /// As the system gave it.
    Unwiped,
    /// Wiped, and not written since.
    Blank,
    /// Written by its owner.
    Of { owner: u64, generation: u64 },
}

/// The labels of all pages.
pub(crate) struct Labels {
    layers: usize,
    labels: Vec<Label>,
    /// Positions written, `[page][layer]`.
    filled: Vec<u8>,
}

impl Labels {
    pub(crate) fn new(pages: usize, layers: usize) -> Result<Self, KernelError> {
        let places = pages.checked_mul(layers).ok_or(KernelError::NoMemory { bytes: usize::MAX })?;
        let (mut labels, mut filled) = (Vec::new(), Vec::new());
        let short = |_| KernelError::NoMemory { bytes: places };
        labels.try_reserve_exact(pages).map_err(short)?;
        filled.try_reserve_exact(places).map_err(short)?;
        labels.resize(pages, Label::Unwiped);
        filled.resize(places, 0);
        Ok(Self { layers, labels, filled })
    }

    /// Takes a page's label off: its bytes are gone.
    pub(crate) fn wipe(&mut self, page: usize) {
        self.labels[page] = Label::Blank;
        self.filled[page * self.layers..(page + 1) * self.layers].fill(0);
    }

    /// Lets one position of a layer be written, and notes it.
    pub(crate) fn write(&mut self, asked: Capability, layer: usize, slot: usize) -> Result<(), Denied> {
        if !GUARDED {
            return Ok(());
        }
        let page = asked.page;
        match *self.labels.get(asked.page).ok_or(Denied::NoPage { page })? {
            Label::Unwiped => return Err(Denied::Unwiped { page }),
            Label::Blank => {}
            Label::Of { owner, .. } if owner != asked.owner => return Err(Denied::Owner { page }),
            Label::Of { generation, .. } if generation != asked.generation => {
                return Err(Denied::Generation { page, asked: asked.generation, found: generation });
            }
            Label::Of { .. } => {}
        }
        let filled = self.filled.get_mut(asked.page * self.layers + layer).ok_or(Denied::NoPage { page })?;
        if usize::from(*filled) < slot {
            return Err(Denied::Unwritten { page, layer, filled: *filled, asked: slot });
        }
        *filled = (*filled).max(u8::try_from(slot + 1).unwrap_or(u8::MAX));
        self.labels[page] = Label::Of { owner: asked.owner, generation: asked.generation };
        Ok(())
    }

    /// Compares what is asked for with the page's label, but for the guard that `fault` names.
    #[inline(always)]
    pub(crate) fn read(
        &self,
        asked: Capability,
        layer: usize,
        upto: usize,
        fault: Option<Fault>,
    ) -> Result<(), Denied> {
        if !GUARDED {
            return Ok(());
        }
        let (label, filled) =
            (self.labels.get(asked.page), self.filled.get(asked.page * self.layers + layer));
        if let (Some(&Label::Of { owner, generation }), Some(&filled)) = (label, filled)
            && owner == asked.owner
            && generation == asked.generation
            && usize::from(filled) >= upto
        {
            return Ok(());
        }
        self.denied(asked, layer, upto, fault)
    }

    /// Says what does not match. Off the path that every read takes.
    #[cold]
    fn denied(
        &self,
        asked: Capability,
        layer: usize,
        upto: usize,
        fault: Option<Fault>,
    ) -> Result<(), Denied> {
        let page = asked.page;
        let outside = Denied::NoPage { page };
        let filled = *self.filled.get(asked.page * self.layers + layer).ok_or(outside)?;
        match *self.labels.get(asked.page).ok_or(outside)? {
            Label::Of { owner, .. } if owner != asked.owner && fault != Some(Fault::NoOwnerCheck) => {
                return Err(Denied::Owner { page });
            }
            Label::Of { generation, .. }
                if generation != asked.generation && fault != Some(Fault::NoGenerationCheck) =>
            {
                return Err(Denied::Generation { page, asked: asked.generation, found: generation });
            }
            Label::Of { .. } | Label::Blank | Label::Unwiped => {}
        }
        if usize::from(filled) < upto && fault != Some(Fault::NoFilledCheck) {
            return Err(Denied::Unwritten { page, layer, filled, asked: upto });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
