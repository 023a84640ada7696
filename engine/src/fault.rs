//! Guards of the step loop that a test can take away, to see that our tests find their loss.
//!
//! Without the feature `seeded-faults`, `seeded` is the constant `false` and each fault is compiled out. With it, a test takes
//! away one guard on its own thread through `with`.

#[cfg(all(feature = "seeded-faults", not(debug_assertions)))]
compile_error!("seeded faults are for tests: a release cannot hold them");

/// One guard, taken away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Pages of a sequence that was cancelled, failed or gave a bad number are kept as a prefix.
    KeepFailed,
    /// A preempted sequence begins its stamps anew.
    StampsRestart,
    /// A sequence is admitted under a name that another still has.
    SameName,
    /// A refused prompt goes on as one of a single token, as in the incident.
    StubForRejected,
    /// Tags are folded to 16 bits.
    TagFolded,
    /// All tenants look for prefixes in one tree.
    OneTreeForAll,
    /// A row of logits that is not a number is replaced by a constant one.
    SanitiseNan,
    /// The evidence says that nothing came from the cache.
    CachedUnsaid,
    /// A sequence leases pages for its first chunk only.
    LeaseFirstChunk,
    /// Whoever was served longest ago takes the whole step, whosever it is.
    StepUnshared,
    /// A tenant's share of a step may round to nothing.
    SharesOfNothing,
    /// A sequence that comes in counts as never served, and so stands before all that wait.
    ArrivalsFirst,
    /// Who finds the line full is refused, whoever fills it.
    LineUnshared,
    /// Who has no place among those that run waits until one comes free.
    PlacesUnshared,
    /// A choice begins from what the choice before it left in the buffers.
    ScratchKept,
    /// What the engine finds wrong with itself is told to no gateway.
    AlarmUnsaid,
    /// It is told to those gateways alone that are there.
    AlarmForgotten,
    /// The engine signs what it did without the tokens that it sent.
    OutputUnstated,
}

#[cfg(not(feature = "seeded-faults"))]
pub(crate) const fn seeded(_: Fault) -> bool {
    false
}

#[cfg(feature = "seeded-faults")]
std::thread_local! {
    static SEEDED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

#[cfg(feature = "seeded-faults")]
pub(crate) fn seeded(fault: Fault) -> bool {
    SEEDED.get() == Some(fault)
}

/// What `act` returns when this thread lacks the guard that `fault` names.
#[cfg(feature = "seeded-faults")]
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
