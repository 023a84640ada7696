//! Guards that a test can take away, to see that the comparisons of bits find their loss.
//!
//! Without the feature `seeded-faults`, `seeded` is the constant `None` and each fault is compiled out. With it, a test takes
//! away one guard through `with`; kernels ask on the caller's thread, so their workers need not know.

#[cfg(all(feature = "seeded-faults", not(debug_assertions)))]
compile_error!("seeded faults are for tests: a release cannot hold them");

#[cfg(all(feature = "unguarded", not(bulkhead_tax_bench)))]
compile_error!("the guards can be compiled out for `integration/benches/tax.sh` alone");

/// Whether the guards are compiled in: always, but in the peer that `integration/benches/tax.sh` measures.
pub(crate) const GUARDED: bool = !cfg!(feature = "unguarded");

/// One guard, taken away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// A product is reduced in two halves when it has several rows: the order of a sum follows the batch.
    SplitByBatch,
    /// In a product of several rows, each row reads the activations of the one before it.
    RowsMeet,
    /// Attention gives positions beyond the bound no weight, but loads them.
    MaskedNotBounded,
    /// Attention sums its weights in another order when rows come in a chunk.
    SumByChunk,
    /// Attention reads every sequence through the first one's pages.
    ForeignPages,
    /// A page is opened whoever owns it.
    NoOwnerCheck,
    /// A page is opened whichever of its lives is asked for.
    NoGenerationCheck,
    /// A page is opened further than it is filled.
    NoFilledCheck,
}

impl Fault {
    /// Each of them.
    pub const ALL: [Self; 8] = [
        Self::SplitByBatch,
        Self::RowsMeet,
        Self::MaskedNotBounded,
        Self::SumByChunk,
        Self::ForeignPages,
        Self::NoOwnerCheck,
        Self::NoGenerationCheck,
        Self::NoFilledCheck,
    ];
}

#[cfg(not(feature = "seeded-faults"))]
pub(crate) const fn seeded() -> Option<Fault> {
    None
}

#[cfg(feature = "seeded-faults")]
pub(crate) use switch::seeded;
#[cfg(feature = "seeded-faults")]
pub use switch::with;

#[cfg(feature = "seeded-faults")]
mod switch {
    use super::Fault;
    use std::cell::Cell;

    thread_local! {
        static SEEDED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    pub(crate) fn seeded() -> Option<Fault> {
        SEEDED.get()
    }

    /// What `act` returns when kernels that this thread calls lack the guard that `fault` names.
    pub fn with<T>(fault: Fault, act: impl FnOnce() -> T) -> T {
        struct Restore;
        impl Drop for Restore {
            fn drop(&mut self) {
                SEEDED.set(None);
            }
        }
        let _restore = Restore;
        SEEDED.set(Some(fault));
        act()
    }
}
