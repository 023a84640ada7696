//! Points in time, as the store keeps them. Time is always an argument: nothing here reads a clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01 UTC. At most 2^63 - 1, which the store can hold.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct UnixMillis(i64);

impl UnixMillis {
    /// The number as it stands in the store; none when it lies before 1970.
    pub const fn new(millis: i64) -> Option<Self> {
        if millis >= 0 { Some(Self(millis)) } else { None }
    }

    /// What a clock said. A clock before 1970 counts as 1970, one past the year 292,000,000 as the last
    /// moment there is.
    pub fn from_system(time: SystemTime) -> Self {
        let millis = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        Self(i64::try_from(millis).unwrap_or(i64::MAX))
    }

    /// The moment this much later; the last there is, where that would be beyond it.
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Milliseconds since 1970.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Milliseconds since 1970, never negative.
    pub const fn unsigned(self) -> u64 {
        self.0.unsigned_abs()
    }
}

/// Nanoseconds of a clock that never goes back, since a moment that its owner chose. 2^64 of them are 584 years.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct MonoNanos(u64);

impl MonoNanos {
    /// That many nanoseconds after the chosen moment.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// From `start` to `now`; nothing if `now` is the earlier one.
    pub fn between(start: Instant, now: Instant) -> Self {
        let since = now.saturating_duration_since(start);
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Nanoseconds since the chosen moment.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Nanoseconds since `earlier`; none if that is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `wait` later.
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_clamped_and_never_wraps() {
        assert_eq!(UnixMillis::from_system(UNIX_EPOCH - Duration::from_secs(1)).get(), 0);
        assert_eq!(UnixMillis::from_system(UNIX_EPOCH + Duration::from_millis(1_500)).get(), 1_500);
        assert_eq!(UnixMillis::new(-1), None);
    }

    #[test]
    fn a_clock_that_never_goes_back_is_clamped_too() {
        let (early, late) = (MonoNanos::new(3), MonoNanos::new(10));
        assert_eq!((late.since(early), early.since(late)), (7, 0));
        assert_eq!(late.after(Duration::MAX), MonoNanos::new(u64::MAX));
        let start = Instant::now();
        assert_eq!(MonoNanos::between(start + Duration::from_nanos(5), start), MonoNanos::new(0));
        assert_eq!(MonoNanos::between(start, start + Duration::from_nanos(5)), MonoNanos::new(5));
    }
}
