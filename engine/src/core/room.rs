//! Makes room for sequences: wipes pages, lets go of prefixes, withdraws pages that are owed, and grants leases.

use crate::{
    core::{Blown, Engine, refusal, share},
    device::Device,
};
use isolation::{
    page::Verify,
    pool::{Census, Exhausted},
    units::{Pages, Tokens},
};
use wire::{Ending, Failed, ToGateway};

/// Pages wiped between two looks at the inbox while nothing runs.
const IDLE_SCRUB: Pages = Pages::new(64);
/// Wipes that may fail in a row before the device is not believed any more.
const SCRUB_FAILURES_MAX: u32 = 16;

/// What the next sequence in line met with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Granted {
    Yes,
    /// There are too few pages for now.
    Short(Exhausted),
    /// Nobody waits.
    Nobody,
}

impl<D: Device> Engine<D> {
    /// Withdraws what is owed, wipes within the step's budget, and lets sequences in. Returns whether anything was done.
    pub(super) fn make_room(&mut self) -> bool {
        // Before any grant: what a cancel lost must not be granted to another.
        let before = (self.audit(), self.scrub_failures);
        let mut budget = if self.running.is_empty() { IDLE_SCRUB } else { self.config.scrub_pages };
        self.withdraw_owed();
        self.prefixes.trim();
        self.wipe(&mut budget, self.facts.pages);
        let mut granted = false;
        let mut short = None;
        while self.running.len() < usize::try_from(self.config.sequences_max).unwrap_or(usize::MAX) {
            match self.grant(&mut budget) {
                Granted::Yes => granted = true,
                Granted::Nobody => break,
                Granted::Short(exhausted) => {
                    short = Some(exhausted);
                    break;
                }
            }
        }
        let after = self.audit();
        let worked = granted || before != (after, self.scrub_failures);
        if let (Some(exhausted), true, false) = (short, self.running.is_empty(), worked) {
            self.blow(Blown::Starved(exhausted));
        }
        worked
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

    /// Obeys the pool's present size: the window, the prefix share, and those who wait.
    pub(super) fn narrow(&mut self) {
        self.limits = self.limits.narrowed(self.capacity());
        self.prefixes.narrow(share(&self.config, self.capacity()));
        let window = self.limits.window();
        for waiting in self.queue.take_where(|waiting| waiting.total() > window) {
            let request = waiting.request();
            match waiting.readmit(&self.limits) {
                Ok(waiting) => self.queue.push(waiting),
                Err(rejected) => {
                    self.outbox.push(ToGateway::Refused { request, refusal: refusal(&rejected) });
                }
            }
        }
    }

    fn withdraw_owed(&mut self) {
        if self.owed == Pages::ZERO {
            return;
        }
        let gone = self.pool.shrink(self.owed);
        self.owed = minus(self.owed, gone);
        if self.owed > Pages::ZERO && self.prefixes.evict(self.owed) > Pages::ZERO {
            let gone = self.pool.shrink(self.owed);
            self.owed = minus(self.owed, gone);
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
        match self.pool.scrub(pages, Verify::ReadBack, &mut self.device) {
            Ok(scrubbed) => {
                self.scrub_failures = 0;
                if scrubbed.withdrawn > Pages::ZERO {
                    tracing::error!(
                        pages = scrubbed.withdrawn.get(),
                        "pages were not blank after their wipe"
                    );
                    self.narrow();
                }
            }
            Err(fault) => {
                self.scrub_failures = self.scrub_failures.saturating_add(1);
                tracing::warn!(%fault, failures = self.scrub_failures, "a wipe failed");
                if self.scrub_failures >= SCRUB_FAILURES_MAX {
                    self.blow(Blown::Scrub { failures: self.scrub_failures, dirty });
                }
            }
        }
    }

    /// Lets the next in line in, if all the pages that it may ever need are there.
    fn grant(&mut self, budget: &mut Pages) -> Granted {
        let Some(head) = self.queue.head() else { return Granted::Nobody };
        let (tag, total) = (head.tag(), head.total());
        // Found anew at each try, and let go when there is no room: who waits pins nothing.
        let run = self.prefixes.find(tag, head.prompt());
        let adopted = run.as_ref().map_or(Pages::ZERO, |run| run.len());
        let wanted = minus(self.facts.page_size.pages_for(total), adopted);
        let clean = self.pool.census().clean;
        if let Some(missing) = wanted.checked_sub(clean).filter(|missing| *missing > Pages::ZERO) {
            self.wipe(budget, missing);
            let missing = minus(wanted, self.pool.census().clean);
            let dirty = self.pool.census().dirty;
            if let Some(beyond) = missing.checked_sub(dirty).filter(|beyond| *beyond > Pages::ZERO) {
                self.prefixes.evict_for(tag, beyond);
            }
            self.wipe(budget, missing);
        }
        let scope = self.registry.open(tag);
        let mut lease = match self.pool.lease(&scope, wanted) {
            Ok(lease) => lease,
            Err(exhausted) => return Granted::Short(exhausted),
        };
        let adopted = run.map_or(Ok(()), |run| lease.adopt(run)).map_err(Blown::Lease);
        let Some(waiting) = self.queue.pop() else { return Granted::Nobody };
        let (cached, prompt) = (lease.filled(), waiting.prompt().len());
        let is_short =
            if index(cached) < prompt { Ok(()) } else { Err(Blown::WholePrompt { cached, prompt }) };
        match adopted.and(is_short) {
            Err(why) => {
                self.outbox.push(waiting.end(Ending::Failed(Failed::Isolation)));
                self.blow(why);
            }
            Ok(()) => {
                let cached = waiting.prompt().get(..index(cached)).unwrap_or_default().to_vec();
                self.running.push(waiting.start(lease, &cached));
            }
        }
        Granted::Yes
    }
}

fn minus(pages: Pages, less: Pages) -> Pages {
    pages.checked_sub(less).unwrap_or(Pages::ZERO)
}

fn index(tokens: Tokens) -> usize {
    usize::try_from(tokens.get()).unwrap_or(usize::MAX)
}
