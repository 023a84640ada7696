//! Guards that a test can take away, to see that the tests of leaks would notice. Never in a release build.
//!
//! Without the feature `seeded-faults`, `seeded` is the constant `false` and each fault is compiled out.

#[cfg(all(feature = "seeded-faults", not(debug_assertions)))]
compile_error!("seeded faults are for tests: a release cannot hold them");

/// Which guard is gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The engine's evidence is believed as it comes.
    BelieveEvidence,
    /// Each frame is taken for the one that had to come.
    BelieveStamps,
    /// A frame that nobody waits for goes to whoever waits.
    AnyRoute,
    /// All sequences of a request have one name.
    OneName,
    /// A request is named as its client names it.
    ClientNames,
    /// Fields that nobody knows are taken.
    UnknownFields,
    /// No prompt is too long.
    AnyLength,
    /// An alarm of the engine that is told again is recorded again.
    AlarmAgain,
    /// A request that writes to a client who reads slowly is not cut.
    WritesUncut,
    /// What the engine states of a sequence, or that it states nothing, is taken as it comes.
    BelieveStatements,
}

impl Fault {
    /// Each of them.
    pub const ALL: [Self; 10] = [
        Self::BelieveEvidence,
        Self::BelieveStamps,
        Self::AnyRoute,
        Self::OneName,
        Self::ClientNames,
        Self::UnknownFields,
        Self::AnyLength,
        Self::AlarmAgain,
        Self::WritesUncut,
        Self::BelieveStatements,
    ];
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
