//! Guards that a test can take away on its own thread, to see that the tests of witnesses would notice. Outside of tests each is
//! compiled out.

/// Which guard is gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// What the witness knows is not compared with what the log says it knows.
    OldUnchecked,
    /// Two trees of one size may differ.
    RootUnchecked,
    /// Any proof will do.
    ProofUnchecked,
    /// Whoever writes a log's name is the log.
    SignatureUnchecked,
    /// A cosignature is given before what it says is on the medium.
    ToldEarly,
    /// After a write that failed, the witness goes on with what it last knew.
    FailureForgotten,
    /// A state that cannot be read is taken for none.
    StateForgotten,
    /// A state that is gone is taken for that of a new log.
    StateMissed,
    /// A proof may have any number of lines.
    ProofUnbounded,
    /// One key under two names counts as two witnesses.
    WitnessTwice,
    /// Whatever bears a witness's name and id is its cosignature.
    CosignatureUnchecked,
}

#[cfg(not(test))]
pub(crate) const fn seeded(_: Fault) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    static SEEDED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn seeded(fault: Fault) -> bool {
    SEEDED.get() == Some(fault)
}

/// Runs `work` without a guard; whether it failed, as a test does.
#[cfg(test)]
pub(crate) fn is_noticed(fault: Fault, work: impl FnOnce()) -> bool {
    SEEDED.set(Some(fault));
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err();
    SEEDED.set(None);
    failed
}
