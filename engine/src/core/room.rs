//! Makes room for sequences: wipes pages, takes back what is lent, and grants leases.

use crate::{
    core::{Blown, Engine, share},
    device::Device,
    fault::{Fault, seeded},
};
use isolation::{
    lease::Lease,
    page::Verify,
    pool::{Census, NotGranted},
    share::SharedRun,
    tag::TenantTag,
    units::{Pages, Tokens},
};
use wire::{Ending, Failed};

/// Pages wiped between two looks at the inbox while nothing runs.
const IDLE_SCRUB: Pages = Pages::new(64);
/// Wipes that may fail in a row before the device is not believed any more.
const SCRUB_FAILURES_MAX: u32 = 16;

/// How often one that waits for pages, or for a place, is overtaken; after that all but floors is kept for it.
pub(super) const OVERTAKEN_MAX: u32 = 16;

/// What the next sequence of a tenant met with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Granted {
    Yes,
    /// There are too few pages for now; who comes after has this turn.
    Short(NotGranted, Turn),
    /// The tenant has its cap, or may use no more than its floor: nobody waits for it.
    Later(NotGranted),
    /// All places are taken, and none is to be had for it.
    NoPlace,
    /// Nobody waits.
    Nobody,
}

/// What a tenant may have, for the sake of those who wait before it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Turn {
    /// All that there is: it is first.
    First,
    /// Its right, no more: who is first waits for pages.
    Right,
    /// Its floor, no more: who is first was overtaken often enough.
    Floor,
}

impl<D: Device> Engine<D> {
    /// Withdraws what is owed, wipes within the step's budget, and lets sequences in. Returns whether anything was done.
    pub(super) fn make_room(&mut self) -> bool {
        // Before any grant: what a cancel lost must not be granted to another.
        let before = (self.audit(), self.scrub_failures);
        let mut budget = if self.running.is_empty() { IDLE_SCRUB } else { self.config.scrub_pages };
        self.trim();
        self.wipe(&mut budget, self.facts.pages);
        let mut granted = false;
        let short = loop {
            match self.grant_next(&mut budget) {
                Granted::Yes => granted = true,
                Granted::Nobody | Granted::NoPlace => break None,
                Granted::Short(short, _) | Granted::Later(short) => break Some(short),
            }
        };
        let after = self.audit();
        let worked = granted || before != (after, self.scrub_failures);
        if let (Some(short), true, false) = (short, self.running.is_empty(), worked) {
            self.blow(Blown::Starved(short));
        }
        worked
    }

    /// Asks the tenants in their order. Once one must wait for pages, those after it may have less. Who is served is noted with whom it
    /// overtook: the first that must wait for pages, or else the first whose turn it was before.
    fn grant_next(&mut self, budget: &mut Pages) -> Granted {
        let (mut turn, mut first) = (Turn::First, Granted::Nobody);
        let mut waits = None;
        let places = self.places();
        let turns = self.queue.turns();
        for tag in self.asked() {
            let granted =
                if self.may_enter(tag, places) { self.grant(tag, turn, budget) } else { Granted::NoPlace };
            match granted {
                Granted::Yes => {
                    let before = turns.first().copied().filter(|first| *first != tag);
                    if let Some(overtaken) = waits.or(before) {
                        self.queue.overtake(overtaken);
                    }
                    return granted;
                }
                Granted::Short(_, next) => {
                    turn = turn.max(next);
                    waits = waits.or(Some(tag));
                }
                Granted::Later(_) | Granted::NoPlace | Granted::Nobody => {}
            }
            if first == Granted::Nobody {
                first = granted;
            }
        }
        first
    }

    /// Counts all pages. If they do not add up, a page may be in two places: nothing that runs can be trusted.
    pub(super) fn audit(&mut self) -> Census {
        let census = self.pool.census();
        if !census.adds_up() {
            self.blow(Blown::Census(census));
            self.fail_running(Failed::Isolation);
        }
        census
    }

    /// Obeys the pool's present size and quotas: the window, the prefix share, and those who wait.
    pub(super) fn narrow(&mut self) {
        self.limits = self.limits.narrowed(self.pool.capacity());
        self.prefixes.narrow(share(&self.config, self.pool.capacity()));
        for waiting in self.queue.take_where(|_| true) {
            let limits = self.limits.narrowed(self.pool.reach(waiting.tag()));
            match waiting.readmit(&limits) {
                Ok(waiting) => self.queue.push(waiting),
                Err(last) => self.outbox.push(last),
            }
        }
    }

    /// Wipes up to `wanted` pages, as far as the budget reaches. Every wipe is read back (P2).
    fn wipe(&mut self, budget: &mut Pages, wanted: Pages) {
        let dirty = self.pool.census().dirty;
        let pages = wanted.min(*budget).min(dirty);
        // A device that does not wipe would be asked for ever.
        if pages == Pages::ZERO || self.scrub_failures >= SCRUB_FAILURES_MAX {
            return;
        }
        *budget = minus(*budget, pages);
        let wiped = self.pool.scrub(pages, Verify::ReadBack, &mut self.device);
        // Also where one failed: those before it may have been unfit.
        if self.report_unfit() > Pages::ZERO {
            self.narrow();
        }
        match wiped {
            Ok(_) => self.scrub_failures = 0,
            Err(fault) => {
                self.scrub_failures = self.scrub_failures.saturating_add(1);
                tracing::warn!(%fault, failures = self.scrub_failures, "a wipe failed");
                if self.scrub_failures >= SCRUB_FAILURES_MAX {
                    self.blow(Blown::Scrub { failures: self.scrub_failures, dirty });
                }
            }
        }
    }

    /// Lets the tenant's next in, if all the pages that it may ever need are there or can be had.
    fn grant(&mut self, tag: TenantTag, turn: Turn, budget: &mut Pages) -> Granted {
        let Some(head) = self.queue.head(tag) else { return Granted::Nobody };
        let total = head.total();
        let total = if seeded(Fault::LeaseFirstChunk) { total.min(self.config.step_tokens) } else { total };
        // Found anew at each try, and let go when there is no room: who waits pins nothing.
        let run = self.prefixes.find(tag, head.known());
        let adopted = run.as_ref().map_or(Pages::ZERO, |run| run.len());
        let wanted = minus(self.facts.page_size.pages_for(total), adopted);
        let overtaken = head.overtaken();
        let room = self.room_at(tag, turn);
        if wanted > room {
            return Granted::Later(NotGranted::NoRoom { wanted, room });
        }
        self.reclaim(tag, turn, wanted);
        let clean = self.pool.census().clean;
        if let Some(missing) = wanted.checked_sub(clean) {
            self.wipe(budget, missing);
        }
        let scope = self.registry.open(tag);
        let lease = match self.pool.lease(&scope, wanted) {
            Ok(lease) => lease,
            Err(short) if self.is_capped(tag, wanted) => return Granted::Later(short),
            Err(short) => {
                return Granted::Short(
                    short,
                    if overtaken < OVERTAKEN_MAX { Turn::Right } else { Turn::Floor },
                );
            }
        };
        if !self.make_place() {
            return Granted::NoPlace;
        }
        self.begin(tag, lease, run);
        Granted::Yes
    }

    fn begin(&mut self, tag: TenantTag, mut lease: Lease, run: Option<SharedRun>) {
        let cached: Vec<u32> = run.iter().flat_map(SharedRun::ids).collect();
        let adopted = run.map_or(Ok(()), |run| lease.adopt(run)).map_err(Blown::Lease);
        let Some(waiting) = self.queue.pop(tag) else { return };
        let (filled, prompt) = (lease.filled(), waiting.known().len());
        let is_short = if index(filled) < prompt && waiting.known().starts_with(&cached) {
            Ok(())
        } else {
            Err(Blown::WholePrompt { cached: filled, prompt })
        };
        match adopted.and(is_short) {
            Err(why) => {
                self.outbox.push(waiting.end(Ending::Failed(Failed::Isolation)));
                self.blow(why);
            }
            Ok(()) => self.running.push(waiting.start(lease, cached, self.steps)),
        }
    }
}

pub(super) fn minus(pages: Pages, less: Pages) -> Pages {
    pages.checked_sub(less).unwrap_or(Pages::ZERO)
}

fn index(tokens: Tokens) -> usize {
    usize::try_from(tokens.get()).unwrap_or(usize::MAX)
}
