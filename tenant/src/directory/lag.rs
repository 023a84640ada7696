//! How long after its revocation a key was refused here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper ends of the buckets, in milliseconds; the last bucket has none.
const BOUNDS_MS: [u64; 8] = [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/// Counts revocations by the time they took.
#[derive(Default)]
pub(super) struct Lags {
    buckets: [AtomicU64; 9],
    sum_ms: AtomicU64,
}

/// Revocations by the time they took to arrive, since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RevocationLag {
    /// For each upper end in milliseconds, how many took no longer; the last has no upper end, and so counts all.
    pub within: [(Option<u64>, u64); 9],
    /// Milliseconds of all together.
    pub sum_ms: u64,
}

impl Lags {
    pub(super) fn count(&self, lag: Duration) {
        let ms = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        let place = BOUNDS_MS.iter().position(|bound| ms <= *bound).unwrap_or(BOUNDS_MS.len());
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ms.fetch_add(ms, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> RevocationLag {
        let mut lag =
            RevocationLag { sum_ms: self.sum_ms.load(Ordering::Relaxed), ..RevocationLag::default() };
        let mut sum = 0_u64;
        let bounds = BOUNDS_MS.into_iter().map(Some).chain([None]);
        for ((within, bucket), bound) in lag.within.iter_mut().zip(&self.buckets).zip(bounds) {
            sum = sum.saturating_add(bucket.load(Ordering::Relaxed));
            *within = (bound, sum);
        }
        lag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lag_is_counted_in_its_bucket_and_all_above() {
        let lags = Lags::default();
        for ms in [50, 51, 900, 20_000] {
            lags.count(Duration::from_millis(ms));
        }
        let RevocationLag { within, sum_ms } = lags.read();
        assert_eq!(sum_ms, 21_001);
        assert_eq!(within[..2], [(Some(50), 1), (Some(100), 2)]);
        assert_eq!((within[4], within[7], within[8]), ((Some(1_000), 3), (Some(10_000), 3), (None, 4)));
    }
}
