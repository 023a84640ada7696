//! Days and months in UTC, without a clock and without a table of months.

use core::fmt;
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

impl fmt::Display for Resets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never begins anew"),
            Self::At(moment) => {
                let day = moment.unsigned().div_euclid(DAY_MS);
                let (year, month, of_month) = civil(day);
                write!(f, "begins anew on {year:04}-{month:02}-{of_month:02} at 00:00 UTC")
            }
        }
    }
}

/// An hour, in UTC.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct UtcHour(u64);

impl UtcHour {
    /// So many whole hours after 1970-01-01 00:00.
    pub const fn new(hours: u64) -> Self {
        Self(hours)
    }

    /// The hour that `at` lies in.
    pub fn of(at: UnixMillis) -> Self {
        Self(hour(at))
    }

    /// Reads `2026-12-03`, for its first hour, or `2026-12-03T04`; none where there is no such day, or it lies before 1970.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, hour) = text.split_once('T').unwrap_or((text, "00"));
        let mut parts = date.splitn(3, '-').map(digits);
        let (year, month, of_month) = (parts.next()??, parts.next()??, parts.next()??);
        let hour = digits(hour).filter(|hour| *hour < 24)?;
        let day = days_before(year, month, of_month)?;
        // What does not come back the same is no day of that month.
        (civil(day) == (year, month, of_month)).then(|| Self(day.saturating_mul(24).saturating_add(hour)))
    }

    /// Whole hours since 1970-01-01 00:00.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for UtcHour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, of_month) = civil(self.0.div_euclid(24));
        write!(f, "{year:04}-{month:02}-{of_month:02}T{:02}", self.0.rem_euclid(24))
    }
}

/// A number of one to four digits.
fn digits(text: &str) -> Option<u64> {
    let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Days from 1970-01-01 to a date of 1970 or later; the inverse of [`civil`], from the same source (`days_from_civil`).
fn days_before(year: u64, month: u64, of_month: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&of_month) {
        return None;
    }
    let (year, month) =
        if month > 2 { (year, month.checked_sub(3)?) } else { (year.checked_sub(1)?, month.checked_add(9)?) };
    let (cycle, of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year =
        month.checked_mul(153)?.checked_add(2)?.div_euclid(5).checked_add(of_month.checked_sub(1)?)?;
    let leaps = of_cycle.div_euclid(4).checked_sub(of_cycle.div_euclid(100))?;
    let days = of_cycle.checked_mul(365)?.checked_add(leaps)?.checked_add(of_year)?;
    cycle.checked_mul(146_097)?.checked_add(days)?.checked_sub(719_468)
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

/// The hours of the window of `period` that begins with the day `start`.
pub(crate) fn hours_from(period: Period, start: u64) -> Range<u64> {
    window_hours(period, midnight(start))
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
fn first_of_month(day: u64) -> u64 {
    let (.., of_month) = civil(day);
    day.saturating_sub(of_month.saturating_sub(1))
}

/// Year, month and day of the month of `day`, counted from 1970-01-01.
///
/// It comes from Howard Hinnant's `civil_from_days` (chrono-compatible low-level date algorithms): years are counted
/// from March, so that the leap day is a year's last, in cycles of 400 years, which have 146,097 days.
fn civil(day: u64) -> (u64, u64, u64) {
    let days = day.saturating_add(719_468);
    let (cycle, of_cycle) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leaps = of_cycle.div_euclid(1_460).saturating_add(of_cycle.div_euclid(146_096));
    let year = of_cycle.saturating_add(of_cycle.div_euclid(36_524)).saturating_sub(leaps).div_euclid(365);
    let before_year =
        year.saturating_mul(365).saturating_add(year.div_euclid(4)).saturating_sub(year.div_euclid(100));
    let of_year = of_cycle.saturating_sub(before_year);
    let month = of_year.saturating_mul(5).saturating_add(2).div_euclid(153);
    let before_month = month.saturating_mul(153).saturating_add(2).div_euclid(5);
    let of_month = of_year.saturating_sub(before_month).saturating_add(1);
    // From March back to January, of the next year.
    let (month, later) = if month < 10 { (month.saturating_add(3), 0) } else { (month.saturating_sub(9), 1) };
    let year = cycle.saturating_mul(400).saturating_add(year).saturating_add(later);
    (year, month, of_month)
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
            let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(lengths) {
                for day in first..first + length {
                    let at = UnixMillis::new((day * DAY_MS + 17) as i64).unwrap();
                    assert_eq!(window(Period::Month, at), first, "day {day}");
                    assert_eq!(window(Period::Day, at), day);
                    assert_eq!(civil(day), (year, month, day - first + 1));
                    assert_eq!(resets(Period::Month, at), Resets::At(midnight(first + length)));
                    assert_eq!(resets(Period::Day, at), Resets::At(midnight(day + 1)));
                }
                first += length;
            }
        }
    }

    fn at_day(day: i64) -> UnixMillis {
        UnixMillis::new(day * DAY_MS as i64).unwrap()
    }

    #[test]
    fn an_hour_is_read_as_it_is_written() {
        for day in (0..200_000).step_by(7) {
            let hour = UtcHour::new(day * 24 + day % 24);
            assert_eq!(UtcHour::parse(&hour.to_string()), Some(hour));
        }
        assert_eq!(UtcHour::parse("2026-12-03"), Some(UtcHour::of(at_day(20_790))));
        assert_eq!(UtcHour::new(20_790 * 24 + 4).to_string(), "2026-12-03T04");
        for bad in [
            "",
            "2026",
            "2026-12",
            "2026-02-29",
            "2026-13-01",
            "2026-00-01",
            "1969-12-31",
            "2026-12-03T24",
            "+2026-1-1",
            "2026-12-03T04:00",
        ] {
            assert_eq!(UtcHour::parse(bad), None, "{bad}");
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
        assert_eq!(
            resets(Period::Month, at_day(20_790)).to_string(),
            "begins anew on 2027-01-01 at 00:00 UTC"
        );
        let end = UnixMillis::new(i64::MAX).unwrap();
        assert_eq!(resets(Period::Day, end), Resets::At(end), "the last moment there is");
    }
}
