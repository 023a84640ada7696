//! Guards of the store, the directory, budgets and usage that a test can take away, to see that our tests find their loss.
//!
//! Without the feature `seeded-faults`, `seeded` is the constant `false` and each fault is compiled out. With
//! it, a test takes away one guard through `with`, on its own thread and on those that it starts from there
//! through `inherit`.

#[cfg(all(feature = "seeded-faults", not(debug_assertions)))]
compile_error!("seeded faults are for tests: a release cannot hold them");

/// One guard, taken away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// A reservation is held against what is spent, and not against what others have reserved.
    SpentOnly,
    /// What a reservation held is given back twice when it is settled.
    RefundTwice,
    /// A settlement counts in the window in which it comes, not in that of its reservation.
    SettledLate,
    /// What was used beyond the worst case is charged as it comes.
    Unclamped,
    /// The worst case takes the prompt's price, although cached tokens may cost more.
    CachedCheap,
    /// Whoever waits for a record is told before the record is on disk.
    ToldEarly,
    /// Recovery forgets what was reserved and not settled, and what it had used.
    UnsettledForgotten,
    /// A batch that was confirmed is given again.
    BatchTwice,
    /// Damage before the end of the journal counts as a torn end.
    DamageCut,
    /// Rows of usage may be as many as come.
    BacklogUnbounded,
    /// A money budget lets a model without a price pass.
    UnpricedFree,
    /// What a folder counts after it was opened again goes on under the name of before.
    LifeUnnamed,
    /// The store adds a batch of usage that it has already.
    BatchAgain,
    /// A store that came to the same number of changes once more is taken for the one that was followed.
    TokenUnseen,
    /// A use that is told late takes the last use of a secret back.
    UseTakenBack,
    /// Uses that the store does not take are forgotten.
    UsesForgotten,
    /// A change is made whatever the thing looks like.
    ExpectIgnored,
    /// A request whose name was done is done again.
    DoneAgain,
    /// A key that has ended goes on changing things.
    ActorUnchecked,
    /// One tenant may have all there is.
    PartUnbounded,
    /// The events of all are forgotten in their order, whosever they are.
    EventsInOneLine,
    /// A key that was found is ended by whoever found it, whosever it is.
    LeakUnreached,
    /// A secret that stopped, found somewhere, ends the key that goes on.
    LeakOfTheEnded,
    /// A gateway may be ahead of the shared count of limits by as much as it likes.
    SliceUnbounded,
    /// How low the shared count of limits stood meanwhile does not bound what is given back.
    LowestUnheard,
    /// The store hands out a part without a look at those of others.
    PartsUncounted,
    /// A part is used after it was given back.
    GivenBackKept,
    /// The store is told that a part is lower before the journal is.
    GivenBackEarly,
    /// What the store answers comes on top of what is held.
    GrantAdded,
    /// The store lowers a part by a message that is older than its row.
    LateBelieved,
    /// The store does not count what is held of a budget from before it was lifted and set again.
    OldPartsUncounted,
    /// The store believes a gateway that holds less than it has spent.
    SpentUnheld,
    /// A part counts as handed out under the limit that its gateway knows, whatever the store handed it out under.
    LimitUnheard,
    /// What periods are over is for a gateway's clock to say, however wrong.
    ClockBelieved,
    /// A gateway whose part was taken back holds it as before when it comes back.
    ReleasedTaken,
    /// What a gateway has spent that gave its place to another is not counted any more.
    FoldedFree,
    /// A start forgets what is held and was spent of it, and believes the store's row alone.
    PartForgotten,
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

/// `act`, which will lack on whatever thread it runs the guard that this thread lacks now.
#[cfg(feature = "seeded-faults")]
pub(crate) fn inherit<T>(act: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let fault = SEEDED.get();
    move || {
        SEEDED.set(fault);
        act()
    }
}

/// `act`: no guard can be taken away.
#[cfg(not(feature = "seeded-faults"))]
pub(crate) const fn inherit<T, F: FnOnce() -> T>(act: F) -> F {
    act
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
