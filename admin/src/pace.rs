//! How often somebody may ask for something.

use core::hash::Hash;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tenant::MonoNanos;

/// Who are counted at the same time. One more is told to wait as who asked too often.
pub(crate) const PACED_MAX: usize = 1_024;
const SECOND: Duration = Duration::from_secs(1);

/// Counts by whom. Exact (GCRA): a second's worth may be asked at once, and comes back evenly.
pub(crate) struct Pace<K> {
    per_second: u32,
    /// When all that somebody asked will have run out.
    clears: Mutex<HashMap<K, MonoNanos>>,
}

impl<K: Copy + Eq + Hash> Pace<K> {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, clears: Mutex::default() }
    }

    /// Counts one more, or says how long to wait: then it is not counted.
    pub(crate) fn count(&self, who: K, now: MonoNanos) -> Result<(), Duration> {
        let each = SECOND.checked_div(self.per_second).unwrap_or(SECOND);
        let mut clears = self.clears.lock().unwrap_or_else(PoisonError::into_inner);
        if clears.len() >= PACED_MAX && !clears.contains_key(&who) {
            clears.retain(|_, clears| *clears > now);
            if clears.len() >= PACED_MAX {
                return Err(SECOND);
            }
        }
        let until = clears.get(&who).map_or(now, |clears| (*clears).max(now)).after(each);
        let wait = Duration::from_nanos(until.since(now)).saturating_sub(SECOND);
        if wait > Duration::ZERO {
            return Err(wait);
        }
        clears.insert(who, until);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> MonoNanos {
        MonoNanos::new(millis * 1_000_000)
    }

    #[test]
    fn a_second_s_worth_comes_back_evenly_and_to_each_its_own() {
        let pace = Pace::new(4);
        for _ in 0..4 {
            assert_eq!(pace.count('a', at(0)), Ok(()));
        }
        assert_eq!(pace.count('a', at(0)), Err(Duration::from_millis(250)));
        assert_eq!(
            pace.count('a', at(249)),
            Err(Duration::from_millis(1)),
            "who waits loses nothing by asking"
        );
        assert_eq!((pace.count('a', at(250)), pace.count('b', at(250))), (Ok(()), Ok(())));
        assert!(pace.count('a', at(250)).is_err());
    }

    #[test]
    fn the_map_has_a_bound_and_forgets_who_stopped() {
        let pace = Pace::new(1);
        for who in 0..PACED_MAX {
            assert_eq!(pace.count(who, at(0)), Ok(()));
        }
        assert_eq!(pace.count(PACED_MAX, at(999)), Err(SECOND));
        assert_eq!(
            pace.count(0, at(999)),
            Err(Duration::from_millis(1)),
            "who is in it is counted as before"
        );
        assert_eq!(pace.count(PACED_MAX, at(1_000)), Ok(()));
    }
}
