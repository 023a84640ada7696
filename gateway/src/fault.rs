//! Guards that a test can take away, to see that the tests of leaks would notice. Never in a release build.

#[cfg(not(debug_assertions))]
compile_error!("seeded faults are for tests: build without the feature");

use std::sync::atomic::{AtomicU8, Ordering};

/// Which guard is gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The engine's evidence is believed as it comes.
    BelieveEvidence,
    /// Each frame is taken for the one that had to come.
    BelieveStamps,
}

static SEEDED: AtomicU8 = AtomicU8::new(0);

/// Takes a guard away for the rest of this process.
pub fn seed(fault: Fault) {
    let number = match fault {
        Fault::BelieveEvidence => 1,
        Fault::BelieveStamps => 2,
    };
    SEEDED.store(number, Ordering::SeqCst);
}

pub(crate) fn seeded(fault: Fault) -> bool {
    let number = match fault {
        Fault::BelieveEvidence => 1,
        Fault::BelieveStamps => 2,
    };
    SEEDED.load(Ordering::SeqCst) == number
}
