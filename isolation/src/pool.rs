//! All pages, and the only place where they change hands. Knows no device and no token.

use crate::{
    fault::{Fault, seeded},
    home::{Home, Retired},
    lease::Lease,
    page::{Clean, Dirty, Erase, Lineage, Page, ScrubEnd, Verify},
    quota::{Quota, QuotaError, Quotas},
    step::{OpenStep, StepReceipt},
    tag::{TenantScope, TenantTag},
    units::{Epoch, PageSize, Pages, StepId, index, pages},
};
use alloc::{collections::VecDeque, rc::Rc, vec::Vec};

/// Steps that may be in flight at once.
pub const STEPS_OPEN_MAX: usize = 64;

/// The pages of one device in one life of the engine.
#[derive(Debug)]
pub struct Pool {
    epoch: Epoch,
    page_size: PageSize,
    total: Pages,
    clean: Vec<Page<Clean>>,
    /// Oldest first, so that one that cannot be wiped does not keep others from it.
    dirty: VecDeque<Page<Dirty>>,
    quarantine: Vec<Retired>,
    withdrawn: Pages,
    owed: Pages,
    /// Pages that were not blank after their wipe, until somebody takes note; at most all pages.
    unfit: Vec<Lineage>,
    quotas: Quotas,
    last_step: StepId,
    /// At most [`STEPS_OPEN_MAX`], oldest first.
    open: Vec<StepId>,
    home: Rc<Home>,
}

impl Pool {
    /// `total` pages, each of them dirty.
    pub fn new(total: Pages, page_size: PageSize, epoch: Epoch) -> Self {
        Self {
            epoch,
            page_size,
            total,
            clean: Vec::with_capacity(index(total.get())),
            dirty: (0..total.get()).map(Page::born).collect(),
            quarantine: Vec::with_capacity(index(total.get())),
            withdrawn: Pages::ZERO,
            owed: Pages::ZERO,
            unfit: Vec::new(),
            quotas: Quotas::new(total),
            last_step: StepId::new(0),
            open: Vec::with_capacity(STEPS_OPEN_MAX),
            home: Rc::new(Home::new(total)),
        }
    }

    /// The engine life that its steps and leases belong to.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Tokens a page holds.
    pub const fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Pages that can be granted in all, now or later: those neither withdrawn nor to be.
    pub fn capacity(&self) -> Pages {
        let kept = self.total.checked_sub(self.withdrawn).unwrap_or(Pages::ZERO);
        kept.checked_sub(self.owed).unwrap_or(Pages::ZERO)
    }

    /// Pages that [`Pool::shrink`] has not found yet: each is withdrawn as soon as nobody holds it.
    pub const fn owed(&self) -> Pages {
        self.owed
    }

    /// Grants `wanted` clean pages to the tenant of `scope`, or none.
    ///
    /// # Errors
    /// When its quota or the floors of others leave no room, or fewer are clean.
    pub fn lease(&mut self, scope: &TenantScope, wanted: Pages) -> Result<Lease, NotGranted> {
        // I13
        let room = self.room(scope.tag());
        if wanted > room {
            return Err(NotGranted::NoRoom { wanted, room });
        }
        let clean = self.clean.len();
        let exhausted = NotGranted::Exhausted { wanted, clean: pages(clean) };
        let keep = clean.checked_sub(index(wanted.get())).ok_or(exhausted)?;
        let own: Vec<_> = self.clean.drain(keep..).map(|page| page.give(scope.tag())).collect();
        #[cfg(feature = "seeded-faults")]
        if seeded(Fault::DoubleGrant) {
            self.clean.extend(own.last().map(Page::forge_clean));
        }
        Ok(Lease::new(scope.tag(), self.epoch, self.page_size, own, Rc::clone(&self.home)))
    }

    /// Puts other quotas in force, for all tenants at once; who is not named has the standard one. Pages that a tenant
    /// holds above its quota stay until they are given back.
    ///
    /// # Errors
    /// When all floors together are more than the pool, or there are too many; the quotas in force stay.
    pub fn set_quotas(
        &mut self,
        quotas: impl IntoIterator<Item = (TenantTag, Quota)>,
    ) -> Result<(), QuotaError> {
        let mut next = Quotas::new(self.capacity());
        for (tag, quota) in quotas {
            next.set(tag, quota)?;
        }
        self.quotas = next;
        Ok(())
    }

    /// The tenant's quota.
    pub fn quota(&self, tag: TenantTag) -> Quota {
        self.quotas.of(tag)
    }

    /// Pages that the tenant's sequences and prefixes hold.
    pub fn held(&self, tag: TenantTag) -> Pages {
        self.home.with_held(|held| Pages::new(held.get(&tag).copied().unwrap_or(0)))
    }

    /// Who holds pages.
    pub fn holders(&self) -> Vec<TenantTag> {
        self.home.with_held(|held| held.keys().copied().collect())
    }

    /// Pages that one request of the tenant may ever span: less than all where others have floors, or it has a cap.
    pub fn reach(&self, tag: TenantTag) -> Pages {
        self.quotas.reach(tag)
    }

    /// Pages that the tenant's quota and the others' floors allow it now, beside those that it holds.
    pub fn room(&self, tag: TenantTag) -> Pages {
        self.home.with_held(|held| self.quotas.room(held, tag))
    }

    /// Pages above the tenant's floor: all that may be taken from it for another's sake.
    pub fn spare(&self, tag: TenantTag) -> Pages {
        self.home.with_held(|held| self.quotas.spare(held, tag))
    }

    /// Pages that are the tenant's by right while `contenders` want some too: its floor, and its share of the burst by weight.
    pub fn entitled(&self, tag: TenantTag, contenders: impl Iterator<Item = TenantTag>) -> Pages {
        self.quotas.entitled(tag, contenders)
    }

    /// Pages that failed their read-back since the last call, each with who held it before.
    pub fn take_unfit(&mut self) -> Vec<Lineage> {
        core::mem::take(&mut self.unfit)
    }

    /// Begins a step.
    ///
    /// # Errors
    /// When [`STEPS_OPEN_MAX`] are open.
    pub fn open_step(&mut self) -> Result<OpenStep, StepsExhausted> {
        // I4
        let exhausted = StepsExhausted { open: self.open.len() };
        let id = self.last_step.next().filter(|_| self.open.len() < STEPS_OPEN_MAX).ok_or(exhausted)?;
        self.last_step = id;
        self.open.push(id);
        Ok(OpenStep::new(id, self.epoch))
    }

    /// Takes note that a step is over, and returns how many pages left quarantine by it.
    ///
    /// # Errors
    /// When the receipt is not of a step of this pool; nothing has moved then.
    pub fn settle(&mut self, receipt: &StepReceipt) -> Result<Pages, ForeignReceipt> {
        // I4
        if receipt.epoch() != self.epoch || receipt.step() > self.last_step {
            return Err(ForeignReceipt { pool: self.epoch, receipt: receipt.epoch(), step: receipt.step() });
        }
        self.open.retain(|&open| open != receipt.step());
        Ok(self.release())
    }

    /// Wipes dirty pages, oldest first, at most `budget` of them.
    ///
    /// # Errors
    /// The memory's own; the page at fault is dirty again, last in line, and those wiped before it are clean.
    pub fn scrub<E: Erase>(
        &mut self,
        budget: Pages,
        verify: Verify,
        memory: &mut E,
    ) -> Result<Scrubbed, E::Error> {
        self.release();
        let mut done = Scrubbed { pages: Pages::ZERO, withdrawn: Pages::ZERO };
        for _ in 0..budget.get() {
            let Some(page) = self.dirty.pop_front() else { break };
            match page.scrub(verify, memory) {
                ScrubEnd::Clean(page) => {
                    self.clean.push(page);
                    done.pages = plus_one(done.pages);
                }
                ScrubEnd::Unfit(page) => {
                    let lineage = self.withdraw(page);
                    self.unfit.push(lineage);
                    done.withdrawn = plus_one(done.withdrawn);
                }
                ScrubEnd::Failed(page, error) => {
                    self.dirty.push_back(page);
                    return Err(error);
                }
            }
        }
        Ok(done)
    }

    /// Makes the pool `by` pages smaller, at most to nothing: capacity and floors shrink at once, and the pages are withdrawn
    /// as soon as nobody holds them.
    pub fn shrink(&mut self, by: Pages) {
        let by = by.min(self.capacity());
        self.owed = self.owed.checked_add(by).unwrap_or(self.owed);
        self.quotas.narrow(self.capacity());
        self.release();
    }

    /// All pages, by state.
    pub fn census(&mut self) -> Census {
        self.release();
        Census {
            clean: pages(self.clean.len()),
            dirty: pages(self.dirty.len()),
            quarantined: pages(self.quarantine.len()),
            leased: self.home.leased(),
            shared: self.home.shared(),
            withdrawn: self.withdrawn,
            total: self.total,
        }
    }

    /// Lets go of each retired page whose last step, and all before it, are proved done.
    fn release(&mut self) -> Pages {
        self.home.drain_to(&mut self.quarantine);
        // I3
        let oldest_open = self.open.first().copied();
        let is_over = |retired: &mut Retired| {
            oldest_open.is_none_or(|open| retired.fence < open) || seeded(Fault::NoFence)
        };
        let before = self.dirty.len();
        self.dirty.extend(self.quarantine.extract_if(.., is_over).map(|retired| retired.page.retire()));
        let released = pages(self.dirty.len().saturating_sub(before));
        while let Some(left) = self.owed.checked_sub(Pages::new(1)) {
            let Some(page) = self.dirty.pop_back().or_else(|| self.clean.pop().map(Page::soil)) else {
                break;
            };
            self.owed = left;
            self.withdraw(page);
        }
        released
    }

    fn withdraw(&mut self, page: Page<Dirty>) -> Lineage {
        self.withdrawn = plus_one(self.withdrawn);
        self.quotas.narrow(self.capacity());
        page.withdraw()
    }
}

fn plus_one(count: Pages) -> Pages {
    Pages::new(count.get().saturating_add(1))
}

/// What a scrub did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Scrubbed {
    /// Pages that are clean now.
    pub pages: Pages,
    /// Pages that were not blank after their wipe, and never will be used again.
    pub withdrawn: Pages,
}

/// All pages, by state. Leased and shared pages are counted as they are granted and dropped, the others where
/// they lie: a page that is lost on the way is missing from the sum. A lease that is forgotten
/// (`mem::forget`) counts as leased for good.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Census {
    /// Wiped and ready.
    pub clean: Pages,
    /// To be wiped.
    pub dirty: Pages,
    /// Given back, and waiting for the step that last named them.
    pub quarantined: Pages,
    /// Held by one sequence.
    pub leased: Pages,
    /// Held by prefix runs.
    pub shared: Pages,
    /// Never to be used again.
    pub withdrawn: Pages,
    /// All of them.
    pub total: Pages,
}

impl Census {
    /// Whether each page is in one state. If not, the pool must not be used further.
    pub fn adds_up(&self) -> bool {
        // I10
        let states = [self.clean, self.dirty, self.quarantined, self.leased, self.shared, self.withdrawn];
        let sum: u64 = states.into_iter().map(|state| u64::from(state.get())).sum();
        sum == u64::from(self.total.get())
    }
}

/// Why pages were not granted. Each is for now: pages come back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NotGranted {
    /// Fewer pages are clean than wanted.
    Exhausted {
        /// Pages wanted.
        wanted: Pages,
        /// Pages clean.
        clean: Pages,
    },
    /// The tenant's cap, or the floors of others, leave less than wanted.
    NoRoom {
        /// Pages wanted.
        wanted: Pages,
        /// Pages that it may have now.
        room: Pages,
    },
}

impl core::fmt::Display for NotGranted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Exhausted { wanted, clean } => write!(f, "{wanted} pages wanted, {clean} clean"),
            Self::NoRoom { wanted, room } => write!(f, "{wanted} pages wanted, room for {room}"),
        }
    }
}

impl core::error::Error for NotGranted {}

/// Too many steps are open: the device does not end what it is given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StepsExhausted {
    /// Steps open.
    pub open: usize,
}

impl core::fmt::Display for StepsExhausted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} steps are open, of at most {STEPS_OPEN_MAX}", self.open)
    }
}

impl core::error::Error for StepsExhausted {}

/// A receipt of another pool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ForeignReceipt {
    /// The pool's epoch.
    pub pool: Epoch,
    /// The receipt's epoch.
    pub receipt: Epoch,
    /// The receipt's step.
    pub step: StepId,
}

impl core::fmt::Display for ForeignReceipt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "step {} of epoch {} in a pool of epoch {}", self.step, self.receipt, self.pool)
    }
}

impl core::error::Error for ForeignReceipt {}

#[cfg(test)]
mod tests;
