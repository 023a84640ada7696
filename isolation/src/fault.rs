//! Guards that a test can take away, to see that the exploration finds their loss.
//!
//! Without the feature `seeded-faults`, `seeded` is the constant `false` and each fault is compiled out. With
//! it, a test takes away one guard on its own thread through `with`.

#[cfg(all(feature = "seeded-faults", not(debug_assertions)))]
compile_error!("seeded faults are for tests: a release cannot hold them");

/// One guard, taken away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// A dirty page counts as clean, neither wiped nor read back.
    NoScrub,
    /// A wipe is believed without reading the page back.
    NoVerify,
    /// A retired page leaves quarantine at once.
    NoFence,
    /// A step does not raise the fence of shared pages that it names.
    NoSharedFence,
    /// A write counts as filled when it is handed out, before its step is done.
    NoFilledMark,
    /// A write is committed by the receipt of another step.
    StaleCommit,
    /// A write is committed although its step failed.
    FailedCommit,
    /// A write is committed by a lease that did not make it.
    ForeignCommit,
    /// A lease writes again before its former write is committed.
    WriteTwice,
    /// A lease writes beyond its pages.
    WriteBeyond,
    /// Another tenant's run is adopted.
    CrossTenantAdopt,
    /// A dropped lease gives all pages back but one.
    LostPage,
    /// A granted page stays in the clean list.
    DoubleGrant,
    /// A grant does not begin a new generation.
    GenerationNotBumped,
    /// The prefix tree believes its names, of which there are two, without comparing tokens.
    PrefixNoTokenCompare,
    /// The prefix tree covers a whole prompt.
    PrefixWholePrompt,
    /// An adopted prefix does not count as filled: its pages are written again.
    AdoptUnfilled,
    /// The prefix tree evicts pages that a sequence reads.
    EvictInUse,
    /// The window admits one token too many.
    AdmitOffByOne,
    /// A grant takes what is kept free for other tenants' floors.
    FloorIgnored,
    /// A grant goes beyond the tenant's cap.
    CapIgnored,
    /// Pages within a tenant's floor are taken back for others.
    FloorReclaimed,
    /// A page given back forgets whose it was.
    NoLineage,
    /// An empty prompt is admitted. Not a leak, and no world has one: the engine's fault corpus finds it (K03).
    EmptyAdmitted,
    /// Names of prefixes do not depend on the model, template or adapter. Not a leak while a tree lives as long as these: the
    /// names' own tests find it (G05).
    RevisionIgnored,
    /// Names of prefixes have one bit. Not a leak: tokens are compared.
    PrefixShortKey,
}

impl Fault {
    /// Each of them that breaks a promise.
    pub const ALL: [Self; 23] = [
        Self::NoScrub,
        Self::NoVerify,
        Self::NoFence,
        Self::NoSharedFence,
        Self::NoFilledMark,
        Self::StaleCommit,
        Self::FailedCommit,
        Self::ForeignCommit,
        Self::WriteTwice,
        Self::WriteBeyond,
        Self::CrossTenantAdopt,
        Self::LostPage,
        Self::DoubleGrant,
        Self::GenerationNotBumped,
        Self::PrefixNoTokenCompare,
        Self::PrefixWholePrompt,
        Self::AdoptUnfilled,
        Self::EvictInUse,
        Self::AdmitOffByOne,
        Self::FloorIgnored,
        Self::CapIgnored,
        Self::FloorReclaimed,
        Self::NoLineage,
    ];
}

#[cfg(all(feature = "unguarded", not(bulkhead_tax_bench)))]
compile_error!("the guards can be compiled out for `integration/benches/tax.sh` alone");

/// Whether the guards are compiled in: always, but in the peer that `integration/benches/tax.sh` measures.
pub(crate) const GUARDED: bool = !cfg!(feature = "unguarded");

/// In the unguarded peer, each check on the path of a token counts as taken away; else none.
#[cfg(not(feature = "seeded-faults"))]
pub(crate) const fn seeded(fault: Fault) -> bool {
    !GUARDED
        && matches!(
            fault,
            Fault::NoScrub
                | Fault::NoVerify
                | Fault::NoSharedFence
                | Fault::StaleCommit
                | Fault::FailedCommit
                | Fault::ForeignCommit
                | Fault::WriteTwice
                | Fault::WriteBeyond
                | Fault::CrossTenantAdopt
        )
}

#[cfg(feature = "seeded-faults")]
std::thread_local! {
    static SEEDED: core::cell::Cell<Option<Fault>> = const { core::cell::Cell::new(None) };
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
    let restore = Restore;
    SEEDED.set(Some(fault));
    let result = act();
    drop(restore);
    result
}
