//! What a request has taken of limits and budgets, until it is settled to what it used.

use std::time::Instant;

use isolation::outcome::Failure;
use tenant::{BudgetWarning, Grant, MonoNanos, Reservation, SettleDefect, Used};

use super::cuts::Broken;
use crate::answer::Denied;
use crate::meter::Meter;

/// Tokens of output after which the ledger is told how far a request is, for the case of a crash.
const MARK_EVERY: u64 = 32;

/// Held while a request runs. Dropped before [`Bill::settle`], it costs the worst case of the limits, and of the budgets what
/// was marked last.
pub(crate) struct Bill {
    grant: Grant,
    /// The start of the clock that limits are counted by.
    clock: Instant,
    reservation: Reservation,
    marked: Used,
}

/// How far the engine has come with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reached {
    /// It has not been asked, or has refused.
    Nothing,
    /// It has been asked, and has proved nothing yet.
    Asked,
    /// It has computed a prompt.
    Computed,
}

impl Bill {
    pub(crate) const fn new(grant: Grant, clock: Instant, reservation: Reservation) -> Self {
        Self { grant, clock, reservation, marked: Used::NONE }
    }

    /// Notes what is used so far, if that is more than a little since it was noted last.
    pub(super) fn mark(&mut self, used: Used) {
        let is_due = used.prompt > self.marked.prompt
            || used.completion >= self.marked.completion.saturating_add(MARK_EVERY);
        if is_due {
            self.marked = used;
            if let Err(beyond) = self.reservation.mark(used) {
                tracing::error!(%beyond, alarm = "accounting", "a request used more than was reserved for it");
            }
        }
    }

    /// Counts what was computed against limits, charges budgets, gives the rest back, and says which thresholds are passed now.
    pub(super) fn settle(self, Due { counted, charged }: Due, meter: &Meter) {
        self.grant.settle(counted.tokens(), MonoNanos::between(self.clock, Instant::now()));
        let settled = match self.reservation.settle(charged) {
            Ok(settled) => settled,
            Err(defect) => {
                tracing::error!(%defect, alarm = "accounting", "a request was not settled as it was reserved");
                match defect {
                    SettleDefect::Overrun { settled, .. } => *settled,
                    SettleDefect::Unfit(_) => return,
                }
            }
        };
        for BudgetWarning { level, models, unit, period, kind, percent, spent, limit, resets } in
            settled.warnings
        {
            Meter::add(&meter.budget_warnings);
            let (kind, unit, period) = (kind.name(), unit.name(), period.name());
            tracing::warn!(
                event = "budget_threshold", %level, %models, kind, unit, period, percent, spent, limit, %resets,
                "a budget's threshold is passed"
            );
        }
    }
}

/// What a request owes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Due {
    /// Against limits: what was computed, whoever is to blame for its end; the prompt at least where its client ended it, whether
    /// or not the engine came to say that it had computed it.
    pub(super) counted: Used,
    /// Of budgets: the same, but for nothing where it ended by our own fault before anything of its answer was sent. That its
    /// time was over is not our fault: the engine worked for it as long as it may.
    pub(super) charged: Used,
}

impl Due {
    /// `proved` is what the engine has proved, and `prompt` what all prompts have together.
    pub(super) fn of(
        proved: Used,
        prompt: u64,
        reached: Reached,
        ended: &Result<(), Broken>,
        began: bool,
    ) -> Self {
        let is_ours = match ended {
            Err(Broken::Denied(Denied::Failed(Failure::Deadline { .. }))) => false,
            Err(Broken::Denied(denied)) => !began && denied.status() >= 500,
            Ok(()) | Err(Broken::Severed(_) | Broken::Gone) => false,
        };
        let is_theirs =
            matches!(ended, Err(Broken::Gone | Broken::Severed(_) | Broken::Denied(Denied::Revoked)));
        let counted = match reached {
            Reached::Computed if is_theirs => Used { prompt, ..proved },
            Reached::Computed => proved,
            Reached::Asked if is_theirs => Used { prompt, cached: 0, completion: 0 },
            Reached::Nothing | Reached::Asked => Used::NONE,
        };
        Self { counted, charged: if is_ours { Used::NONE } else { counted } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_charged_what_was_computed_for_it() {
        let all = Used { prompt: 10, cached: 4, completion: 7 };
        let prompt = Used { prompt: 10, cached: 0, completion: 0 };
        let denied = |denied| Err(Broken::Denied(denied));
        let lost = || denied(Denied::Failed(Failure::EngineLost));
        use Reached::{Asked, Computed, Nothing};
        for (reached, ended, began, expected) in [
            (Computed, Ok(()), true, all),
            (Computed, Err(Broken::Gone), true, all),
            (Computed, Err(Broken::Gone), false, all),
            (Computed, Err(Broken::Severed(Denied::Revoked)), true, all),
            (Computed, denied(Denied::Revoked), false, all),
            (Computed, lost(), true, all),
            (Computed, denied(Denied::Failed(Failure::Deadline { limit_ms: 1 })), false, all),
            (Asked, Err(Broken::Gone), false, prompt),
            (Asked, denied(Denied::Revoked), false, prompt),
            (Asked, lost(), false, Used::NONE),
            (Asked, denied(Denied::Overloaded), false, Used::NONE),
            (Nothing, Err(Broken::Gone), false, Used::NONE),
            (Nothing, denied(Denied::NoEngine), false, Used::NONE),
        ] {
            let due = Due::of(all, 10, reached, &ended, began);
            assert_eq!(due, Due { counted: expected, charged: expected }, "{reached:?} {began}");
        }
        // Of two prompts of 10 tokens each, one is proved.
        let of_two = |ended, began| Due::of(all, 20, Computed, &ended, began).charged.prompt;
        assert_eq!(of_two(lost(), true), 10, "the engine went away before it proved the other");
        assert_eq!(of_two(denied(Denied::Failed(Failure::Deadline { limit_ms: 1 })), false), 10);
        assert_eq!(of_two(Err(Broken::Gone), false), 20, "who leaves pays all that it asked for");
        for ours in [lost(), denied(Denied::NoAudit)] {
            let due = Due::of(all, 10, Computed, &ours, false);
            assert_eq!(due, Due { counted: all, charged: Used::NONE }, "the engine was busy with it");
        }
    }
}
