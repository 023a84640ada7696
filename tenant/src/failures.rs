//! Failed authentications, by address.

use core::net::IpAddr;
use core::num::NonZeroU32;
use core::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use crate::time::MonoNanos;

/// Addresses that are counted at the same time. One that finds no room counts as having failed too often: it is refused no more
/// than its failure is.
pub const FAILING_ADDRESSES_MAX: usize = 65_536;

const MINUTE_NANOS: u64 = 60_000_000_000;

/// Counts failures, so that an address which goes on failing can be told to stop. Keys that work are not counted and not slowed,
/// from whatever address: behind one address there may be many.
///
/// Exact (GCRA): a minute's worth may fail at once, and comes back evenly.
#[derive(Debug, Default)]
pub struct Failures {
    /// When all of an address's failures will have run out.
    clears: DashMap<IpAddr, MonoNanos>,
}

/// An address has failed as often as it may.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("too many failed authentications from this address: at most {per_minute} a minute")]
pub struct TooManyFailures {
    /// How many a minute may.
    pub per_minute: NonZeroU32,
    /// When one more may.
    pub clears: Duration,
}

impl Failures {
    /// Counts a failure, unless there were too many.
    ///
    /// # Errors
    /// [`TooManyFailures`]; it is not counted then, so that waiting helps.
    pub fn count(&self, from: IpAddr, per_minute: NonZeroU32, now: MonoNanos) -> Result<(), TooManyFailures> {
        let each = MINUTE_NANOS.div_ceil(u64::from(per_minute.get()));
        let too_many = |wait| Err(TooManyFailures { per_minute, clears: Duration::from_nanos(wait) });
        if self.clears.len() >= FAILING_ADDRESSES_MAX {
            self.clears.retain(|_, clears| *clears > now);
        }
        let is_full = self.clears.len() >= FAILING_ADDRESSES_MAX;
        match self.clears.entry(network(from)) {
            Entry::Vacant(_) if is_full => too_many(MINUTE_NANOS),
            Entry::Vacant(place) => {
                place.insert(now.after(Duration::from_nanos(each)));
                Ok(())
            }
            Entry::Occupied(mut place) => {
                let clears = (*place.get()).max(now).after(Duration::from_nanos(each));
                let wait = clears.since(now).saturating_sub(MINUTE_NANOS);
                if wait > 0 {
                    return too_many(wait);
                }
                place.insert(clears);
                Ok(())
            }
        }
    }

    /// Addresses that are counted.
    pub fn addresses(&self) -> usize {
        self.clears.len()
    }
}

/// What is counted as one address: what one customer has, an IPv4 address, or the first 64 bits of an IPv6 one.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6([a, b, c, d, 0, 0, 0, 0].into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: NonZeroU32 = NonZeroU32::new(3).unwrap();

    fn at(seconds: u64) -> MonoNanos {
        MonoNanos::new(seconds * 1_000_000_000)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_minute_s_worth_may_fail_and_comes_back_evenly() {
        let failures = Failures::default();
        let from = address("192.0.2.1");
        for _ in 0..3 {
            assert_eq!(failures.count(from, THREE, at(100)), Ok(()));
        }
        let refused = failures.count(from, THREE, at(100)).unwrap_err();
        assert_eq!(refused.clears, Duration::from_secs(20));
        assert!(failures.count(from, THREE, at(119)).is_err(), "who is refused loses nothing by it");
        assert_eq!(failures.count(from, THREE, at(120)), Ok(()));
        assert!(failures.count(from, THREE, at(120)).is_err());
        assert_eq!(failures.count(address("192.0.2.2"), THREE, at(120)), Ok(()), "another address");
        assert_eq!(
            failures.count(from, THREE, MonoNanos::new(0)).unwrap_err().per_minute,
            THREE,
            "a late clock"
        );
    }

    #[test]
    fn one_network_is_one_address() {
        let failures = Failures::default();
        for from in ["2001:db8::1", "2001:db8::ffff:1", "::ffff:192.0.2.1", "192.0.2.1", "2001:db8:0:1::1"] {
            failures.count(address(from), THREE, at(0)).unwrap();
        }
        assert_eq!(failures.addresses(), 3);
    }

    #[test]
    fn the_map_has_a_bound_and_forgets_who_stopped() {
        let failures = Failures::default();
        for number in 0..u32::try_from(FAILING_ADDRESSES_MAX).unwrap() {
            failures.count(IpAddr::V4(number.into()), THREE, at(0)).unwrap();
        }
        let late = IpAddr::V4(u32::MAX.into());
        assert!(failures.count(late, THREE, at(19)).is_err());
        assert_eq!(failures.addresses(), FAILING_ADDRESSES_MAX);
        assert_eq!(failures.count(late, THREE, at(21)), Ok(()));
        assert_eq!(failures.addresses(), 1);
    }
}
