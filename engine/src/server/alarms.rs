//! The alarms of one life that are kept for gateways which come later.

use crate::fault::{Fault, seeded};
use wire::{Alarm, Cause, WITHDRAWN_KEPT};

/// See the module. At most [`WITHDRAWN_KEPT`] and one.
#[derive(Default)]
pub(super) struct Kept {
    /// The fuse's own: at most one in a life, so that it needs no bound, and nothing can crowd it out.
    unsound: Option<Alarm>,
    /// The first pages that were withdrawn.
    withdrawn: Vec<Alarm>,
}

impl Kept {
    /// Keeps an alarm; a page too many stays in the log alone.
    pub(super) fn keep(&mut self, alarm: Alarm) {
        if seeded(Fault::AlarmForgotten) {
            return;
        }
        match alarm.cause {
            Cause::Unsound(_) => self.unsound = self.unsound.or(Some(alarm)),
            Cause::Withdrawn { .. } if self.withdrawn.len() < WITHDRAWN_KEPT => self.withdrawn.push(alarm),
            Cause::Withdrawn { .. } => {
                tracing::error!(
                    number = alarm.number,
                    "an alarm too many to be kept for gateways that come later"
                );
            }
        }
    }

    /// What a session is told right after its hello, the fuse's first: it is the one that must not be missed.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Alarm> {
        self.unsound.iter().chain(&self.withdrawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Unsound;

    /// A fuse that blows after any number of withdrawn pages is still told to who comes later.
    #[test]
    fn the_fuses_own_alarm_is_kept_behind_any_number_of_pages() {
        let told = |number, cause| Alarm { number, epoch: 3, cause };
        let page = |number| told(number, Cause::Withdrawn { page: number, generation: 1, last: None });
        let many = WITHDRAWN_KEPT as u32 + 5;
        let unsound = told(many, Cause::Unsound(Unsound::Census));
        let mut kept = Kept::default();
        for alarm in (0..many).map(page).chain([unsound]) {
            kept.keep(alarm);
        }
        let expected = [unsound].into_iter().chain((0..WITHDRAWN_KEPT as u32).map(page));
        assert!(kept.iter().copied().eq(expected));
    }
}
