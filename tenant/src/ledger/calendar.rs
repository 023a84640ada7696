//! Days and months in UTC, without a clock and without a table of months.

use std::ops::Range;

use crate::ledger::budget::Period;
use crate::time::UnixMillis;

const DAY_MS: u64 = 86_400_000;
const HOUR_MS: u64 = 3_600_000;

/// When what a budget counts begins anew.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Resets {
    /// At this moment, the first of the next window.
    At(UnixMillis),
    /// Never: somebody must raise the budget.
    Never,
}

/// The first day of the window of `period` that `at` lies in, counted from 1970-01-01; 0 for
/// [`Period::Total`].
pub(crate) fn window(period: Period, at: UnixMillis) -> u64 {
    let day = at.unsigned().div_euclid(DAY_MS);
    match period {
        Period::Day => day,
        Period::Month => first_of_month(day),
        Period::Total => 0,
    }
}

/// The hours of the window of `period` that `at` lies in.
pub(crate) fn window_hours(period: Period, at: UnixMillis) -> Range<u64> {
    let end = match resets(period, at) {
        Resets::At(end) => hour(end),
        Resets::Never => u64::MAX,
    };
    window(period, at).saturating_mul(24)..end
}

/// When the window of `period` that `at` lies in ends.
pub(crate) fn resets(period: Period, at: UnixMillis) -> Resets {
    let start = window(period, at);
    match period {
        Period::Day => Resets::At(midnight(start.saturating_add(1))),
        // 31 days after the first of a month lie in the next one: a month has 28 to 31.
        Period::Month => Resets::At(midnight(first_of_month(start.saturating_add(31)))),
        Period::Total => Resets::Never,
    }
}

/// Whole hours from 1970 to `at`.
pub(crate) fn hour(at: UnixMillis) -> u64 {
    at.unsigned().div_euclid(HOUR_MS)
}

fn midnight(day: u64) -> UnixMillis {
    let millis = i64::try_from(day.saturating_mul(DAY_MS)).unwrap_or(i64::MAX);
    UnixMillis::new(millis).unwrap_or(UnixMillis::from_system(std::time::UNIX_EPOCH))
}

/// The first day of the month of `day`, both counted from 1970-01-01.
///
/// The day of the month comes from Howard Hinnant's `civil_from_days` (chrono-compatible low-level date
/// algorithms): years are counted from March, so that the leap day is a year's last, in cycles of 400 years,
/// which have 146,097 days.
fn first_of_month(day: u64) -> u64 {
    let of_cycle = day.saturating_add(719_468).rem_euclid(146_097);
    let leaps = of_cycle.div_euclid(1_460).saturating_add(of_cycle.div_euclid(146_096));
    let year = of_cycle.saturating_add(of_cycle.div_euclid(36_524)).saturating_sub(leaps).div_euclid(365);
    let before_year =
        year.saturating_mul(365).saturating_add(year.div_euclid(4)).saturating_sub(year.div_euclid(100));
    let of_year = of_cycle.saturating_sub(before_year);
    let month = of_year.saturating_mul(5).saturating_add(2).div_euclid(153);
    let before_month = month.saturating_mul(153).saturating_add(2).div_euclid(5);
    day.saturating_sub(of_year.saturating_sub(before_month))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_leap(year: u64) -> bool {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    }

    #[test]
    fn each_day_of_five_centuries_lies_in_its_month() {
        let mut first = 0;
        for year in 1970..2470 {
            let february = if is_leap(year) { 29 } else { 28 };
            for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
                for day in first..first + length {
                    let at = UnixMillis::new((day * DAY_MS + 17) as i64).unwrap();
                    assert_eq!(window(Period::Month, at), first, "day {day}");
                    assert_eq!(window(Period::Day, at), day);
                    assert_eq!(resets(Period::Month, at), Resets::At(midnight(first + length)));
                    assert_eq!(resets(Period::Day, at), Resets::At(midnight(day + 1)));
                }
                first += length;
            }
        }
    }

    #[test]
    fn a_window_ends_with_its_last_millisecond() {
        let last = UnixMillis::new(DAY_MS as i64 - 1).unwrap();
        let next = UnixMillis::new(DAY_MS as i64).unwrap();
        assert_eq!((window(Period::Day, last), window(Period::Day, next)), (0, 1));
        assert_eq!(resets(Period::Day, last), Resets::At(next));
        assert_eq!((hour(last), hour(next)), (23, 24));
        assert_eq!((window_hours(Period::Day, last), window_hours(Period::Day, next)), (0..24, 24..48));
        assert_eq!(window_hours(Period::Month, next), 0..31 * 24);
        assert_eq!(window_hours(Period::Total, next), 0..u64::MAX);
        assert_eq!((window(Period::Total, next), resets(Period::Total, next)), (0, Resets::Never));
        let end = UnixMillis::new(i64::MAX).unwrap();
        assert_eq!(resets(Period::Day, end), Resets::At(end), "the last moment there is");
    }
}
