//! Guards that a test can take away, to see that the tests of the Admin API would notice. Never in a release build.
//!
//! Without the feature `seeded-faults`, `seeded` is the constant `false` and each fault is compiled out.

#[cfg(all(feature = "seeded-faults", not(debug_assertions)))]
compile_error!("seeded faults are for tests: a release cannot hold them");

/// Which guard is gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// A key of one tenant reaches what is another's.
    AnyReach,
    /// Each role may do everything.
    AnyRole,
    /// A change is made whatever `If-Match` says.
    AnyVersion,
    /// A request that is sent again is done again.
    DoneAgain,
    /// A secret that was answered once is kept with its answer.
    SecretKept,
    /// Each signature of a report of leaked keys is believed.
    AnySignature,
    /// One address may have all connections.
    SeatsUnbounded,
    /// A client that takes no answer is waited for.
    WritesUncut,
}

#[cfg(not(feature = "seeded-faults"))]
pub(crate) const fn seeded(_: Fault) -> bool {
    false
}

#[cfg(feature = "seeded-faults")]
static SEEDED: std::sync::Mutex<Option<Fault>> = std::sync::Mutex::new(None);

/// Takes a guard away for the rest of this process.
#[cfg(feature = "seeded-faults")]
pub fn seed(fault: Fault) {
    *SEEDED.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(fault);
}

#[cfg(feature = "seeded-faults")]
pub(crate) fn seeded(fault: Fault) -> bool {
    *SEEDED.lock().unwrap_or_else(std::sync::PoisonError::into_inner) == Some(fault)
}
