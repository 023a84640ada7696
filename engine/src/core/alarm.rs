//! Tells each gateway what the engine found wrong with itself. Knows no sequence.

use crate::{
    core::{Blown, Engine, count},
    device::Device,
    fault::{Fault, seeded},
};
use isolation::{page::Lineage, pool::Pool, tag::TenantTag, units::Pages};
use wire::{Alarm, Cause, ToGateway, Unsound};

impl<D: Device> Engine<D> {
    /// Puts an alarm into the outbox. Its numbers do not run out: the fuse blows once, and each page is withdrawn once.
    pub(super) fn alarm(&mut self, cause: Cause) {
        if seeded(Fault::AlarmUnsaid) {
            return;
        }
        let (number, epoch) = (self.alarms, self.pool.epoch().get());
        self.outbox.push(ToGateway::Alarm(Alarm { number, epoch, cause }));
        self.alarms = self.alarms.saturating_add(1);
    }

    /// Tells each page that was not blank after its wipe, with whose bytes may still be in it, and returns how many.
    pub(super) fn report_unfit(&mut self) -> Pages {
        let unfit = take_unfit(&mut self.pool);
        let pages = Pages::new(count(unfit.len()));
        for cause in unfit {
            self.alarm(cause);
        }
        pages
    }
}

/// What there is to tell of each page that was not blank after its wipe. It is in the log already: an engine that does not
/// start has nobody else to tell.
pub(super) fn take_unfit(pool: &mut Pool) -> Vec<Cause> {
    let tell = |Lineage { page, generation, last }| {
        let (page, generation, last) = (count(page.index()), generation.get(), last.map(TenantTag::get));
        tracing::error!(
            page,
            generation,
            last_tag = last,
            "a page was not blank after its wipe and is withdrawn for good"
        );
        Cause::Withdrawn { page, generation, last }
    };
    pool.take_unfit().into_iter().map(tell).collect()
}

impl Blown {
    /// The reason as gateways are told it; none for an engine that is going away, which is no alarm.
    pub(super) const fn unsound(self) -> Option<Unsound> {
        Some(match self {
            Self::Lease(_) => Unsound::Lease,
            Self::Read(_) => Unsound::Read,
            Self::Prefix(_) => Unsound::Prefix,
            Self::Census(_) => Unsound::Census,
            Self::Receipt(_) => Unsound::Receipt,
            Self::Steps(_) => Unsound::Steps,
            Self::Scrub { .. } => Unsound::Scrub,
            Self::Starved(_) => Unsound::Starved,
            Self::WholePrompt { .. } => Unsound::WholePrompt,
            Self::ShuttingDown => return None,
        })
    }
}
