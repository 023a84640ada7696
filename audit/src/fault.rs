//! Guards that a test can take away, to see that the tests of the log would notice. Never in a release build.
//!
//! Without the feature `seeded-faults`, `seeded` is the constant `false` and each fault is compiled out.

#[cfg(all(feature = "seeded-faults", not(debug_assertions)))]
compile_error!("seeded faults are for tests: a release cannot hold them");

/// Which guard is gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Records are acknowledged before they are on the medium.
    AcknowledgedUnsynced,
    /// A checkpoint is signed before its tiles are on the medium.
    SignedUnsettled,
    /// A tile that was published is written again.
    PublishedRewritten,
    /// Damage within a segment is taken for a torn end.
    TornBelieved,
    /// A log is opened by whatever its checkpoint says.
    OpenedUnsigned,
    /// The tree over what is there need not be the one that was signed.
    RootUnchecked,
    /// A tenant's leaves need not follow each other.
    ChainUnchecked,
    /// A seal need not say what the tenants' heads are.
    SealUnchecked,
    /// Records need not fit each other.
    MeaningUnchecked,
    /// A log need not begin with what was seen before.
    SeenUnchecked,
    /// A snapshot of heads is believed without its seal.
    SnapshotBelieved,
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
