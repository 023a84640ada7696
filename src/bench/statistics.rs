//! The statistics of an audit: do cache hits come sooner than misses, how sure is that, and what is it worth to who watches?
//!
//! Architecture invariant: knows times and no more; does no I/O, has no clock, draws nothing.

use std::time::Duration;

/// Chance that each of the two samples is further from its distribution than [`Comparison::advantage_max`] allows for: together
/// 1 %, so that the bound holds at 99 %.
const TAIL: f64 = 0.005;

/// Two samples of the same size, compared: the one-sided two-sample Kolmogorov-Smirnov test of "hits are not sooner than misses".
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Comparison {
    /// Samples on each side; at least 1.
    samples: u32,
    /// The most by which the count of hits up to some time is above the count of misses up to it.
    lead: u32,
}

impl Comparison {
    /// Compares times of hits with times of misses.
    ///
    /// `None` unless both have the same number of samples, from 1 to `u32::MAX`.
    pub(crate) fn of(hits: &[Duration], misses: &[Duration]) -> Option<Self> {
        let samples = u32::try_from(hits.len()).ok().filter(|samples| *samples > 0)?;
        if hits.len() != misses.len() {
            return None;
        }
        let (mut hits, mut misses) = (hits.to_vec(), misses.to_vec());
        hits.sort_unstable();
        misses.sort_unstable();
        // The empirical functions are steps, and the lead grows only where a hit lies: no other time needs a look. Of equal hits
        // the last one counts them all.
        let leads = hits.iter().zip(1..).map(|(hit, hits_so_far): (_, usize)| {
            hits_so_far.saturating_sub(misses.partition_point(|miss| miss <= hit))
        });
        let lead = u32::try_from(leads.max()?).ok()?;
        Some(Self { samples, lead })
    }

    /// D: the largest lead of the hits' empirical distribution function over the misses', from 0 to 1. It is what the best
    /// threshold ("sooner than this is a hit") won on these samples: true positive rate less false positive rate.
    pub(crate) fn d(self) -> f64 {
        f64::from(self.lead) / f64::from(self.samples)
    }

    /// p: the chance of a D as large as this one where hits and misses have the same distribution. Exact where no two times are
    /// equal, and too large (so, never hasty) where some are.
    ///
    /// For n samples on each side and D = k/n it is `C(2n, n+k) / C(2n, n)`: of all orders of 2n times, the paths that reach k,
    /// counted by reflection (Gnedenko and Korolyuk, 1951).
    pub(crate) fn p(self) -> f64 {
        let factor = |step: u32| {
            let below = f64::from(self.samples.saturating_sub(step));
            below / (f64::from(self.samples) + 1.0 + f64::from(step))
        };
        (0..self.lead).map(factor).product()
    }

    /// The smallest p that so many samples on each side can have: all hits sooner than all misses.
    pub(crate) fn p_min(samples: u32) -> f64 {
        Self { samples, lead: samples }.p()
    }

    /// The fewest samples on each side with which p can be below `alpha`; `None` where `most` are too few.
    pub(crate) fn samples_for(alpha: f64, most: u32) -> Option<u32> {
        (1..=most).find(|samples| Self::p_min(*samples) < alpha)
    }

    /// The advantage of an attacker with the best threshold, at 99 % confidence at most this; from 0 to 1.
    ///
    /// The advantage is `sup(F_hit - F_miss)` of the true distributions. Each empirical function is off by more than
    /// `sqrt(ln(1 / 0.005) / (2 n))` on the side that matters with a chance of 0.5 % at most (Dvoretzky, Kiefer and Wolfowitz,
    /// with Massart's constant, 1990), so D and both margins together bound it. It is for one guess from one answer: who may
    /// ask again and again learns more.
    pub(crate) fn advantage_max(self) -> f64 {
        let margin = ((1.0 / TAIL).ln() / (2.0 * f64::from(self.samples))).sqrt();
        (self.d() + 2.0 * margin).min(1.0)
    }
}

/// The middle of some times, the lower one of two; `None` of none.
pub(crate) fn median(times: &[Duration]) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(numbers: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        numbers.into_iter().map(Duration::from_nanos).collect()
    }

    fn compared(hits: impl IntoIterator<Item = u64>, misses: impl IntoIterator<Item = u64>) -> Comparison {
        Comparison::of(&times(hits), &times(misses)).unwrap()
    }

    fn near(ours: f64, recorded: f64) {
        let off = (ours - recorded).abs();
        assert!(off <= recorded.abs() * 1e-9, "{ours:e} is not {recorded:e}");
    }

    /// `scipy.stats.ks_2samp(hits, misses, alternative="greater", method="exact")` of `SciPy` 1.17.1.
    #[test]
    fn d_and_p_are_those_that_scipy_gives() {
        let stride = |by, modulus, from, count| (0..count).map(move |i: u64| i * by % modulus + from);
        let recorded = [
            (compared([1], [2]), 1.0, 0.5),
            (compared([3, 1, 4, 15, 9], [26, 5, 35, 8, 97]), 0.6, 0.178_571_428_571_428_55),
            // Equal times, within a side and between both.
            (compared([1, 1, 2, 3, 3, 9], [2, 3, 3, 4, 9, 9]), 1.0 / 3.0, 0.535_714_285_714_285_7),
            (compared(0..12, 100..112), 1.0, 3.698_011_505_253_394e-7),
            (compared((0..11).chain([500]), 100..112), 11.0 / 12.0, 8.875_227_612_608_146e-6),
            (compared(stride(37, 101, 0, 100), stride(53, 97, 20, 100)), 0.2, 0.018_192_221_691_410_49),
            (compared(stride(37, 251, 0, 250), stride(53, 257, 90, 250)), 0.372, 4.366_891_026_099_290_6e-16),
            (compared(stride(37, 251, 0, 250), stride(53, 257, 9, 250)), 0.06, 0.407_082_284_819_838_1),
        ];
        for (ours, d, p) in recorded {
            near(ours.d(), d);
            near(ours.p(), p);
        }
    }

    #[test]
    fn samples_that_cannot_be_compared_are_not() {
        assert_eq!(Comparison::of(&[], &[]), None);
        assert_eq!(Comparison::of(&times([1]), &[]), None);
        assert_eq!(Comparison::of(&times([1, 2]), &times([1])), None);
    }

    #[test]
    fn hits_that_come_later_are_no_evidence() {
        let late = compared(101..=200, 1..=100);
        assert_eq!((late.d(), late.p()), (0.0, 1.0));
        let sooner = compared(1..=100, 101..=200);
        assert_eq!(sooner.d(), 1.0);
        assert!(sooner.p() < 1e-50);
    }

    /// Every order of n hits and n misses is as likely as any other when both come from one distribution: p is counted here.
    #[test]
    fn p_is_the_share_of_all_orders_with_such_a_lead() {
        for samples in 1..=6_u32 {
            let places = 2 * samples;
            let orders: Vec<u32> = (0..1_u32 << places).filter(|hits| hits.count_ones() == samples).collect();
            let leads: Vec<Comparison> = orders
                .iter()
                .map(|order| {
                    let split = |hit| (0..u64::from(places)).filter(move |at| (order >> at & 1 == 1) == hit);
                    compared(split(true), split(false))
                })
                .collect();
            for one in &leads {
                let as_large = leads.iter().filter(|other| other.lead >= one.lead).count();
                near(one.p(), as_large as f64 / orders.len() as f64);
            }
        }
    }

    #[test]
    fn the_bound_is_d_and_both_margins_and_never_above_one() {
        // sqrt(ln(200) / 500), twice.
        near(compared(1000..1250, 0..250).advantage_max(), 0.205_879_913_863_359_4);
        assert_eq!(compared(0..250, 1000..1250).advantage_max(), 1.0);
        assert_eq!(compared([1], [2]).advantage_max(), 1.0);
        near(compared(9000..18_000, 0..9000).advantage_max(), 0.034_313_318_977_226_566);
    }

    #[test]
    fn a_significance_needs_its_samples() {
        near(Comparison::p_min(12), 3.698_011_505_253_394e-7);
        // 1 / C(16, 8) = 7.8e-5 and 1 / C(14, 7) = 2.9e-4; 1 / C(30, 15) = 6.4e-9 and 1 / C(28, 14) = 2.5e-8.
        assert_eq!(Comparison::samples_for(1e-4, 1000), Some(8));
        assert_eq!(Comparison::samples_for(1e-8, 1000), Some(15));
        assert_eq!(Comparison::samples_for(1e-8, 14), None);
    }

    #[test]
    fn the_median_is_one_of_the_times() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&times([3])), Some(Duration::from_nanos(3)));
        assert_eq!(median(&times([4, 1, 3, 2])), Some(Duration::from_nanos(2)));
        assert_eq!(median(&times([5, 1, 3])), Some(Duration::from_nanos(3)));
    }
}
