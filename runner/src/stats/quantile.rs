//! Percentiles as order statistics, with intervals that assume nothing about the distribution.
//!
//! The number of samples below the true p-quantile is binomial(n, p). So the j-th smallest sample is a lower bound of
//! the quantile with the confidence P(B >= j), and the k-th smallest an upper bound with P(B < k) (David, Nagaraja:
//! "Order Statistics", 3rd edition, section 7.1). Samples are taken as independent.

use super::{Estimate, Interval, Sides};

/// The least number of samples that give a one-sided 95 % bound on the far side of the `p`-quantile (0 < p < 1):
/// the largest of n samples lies above it with 1 - p^n, the smallest below it with 1 - (1 - p)^n.
/// 5 for the median, 29 for p90, 59 for p95, 299 for p99, 2,995 for p99.9.
#[must_use]
pub fn least_samples(p: f64) -> u64 {
    let side = p.max(1.0 - p);
    if side >= 1.0 {
        return u64::MAX;
    }
    (Sides::One.tail().ln() / side.ln()).ceil() as u64
}

/// The `p`-quantile of sorted values: the smallest value with at least the share `p` at or below it. None for no values.
#[must_use]
pub fn of_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    sorted.get(rank(sorted.len(), p)).copied()
}

/// Index of the `p`-quantile among `n` sorted values.
fn rank(n: usize, p: f64) -> usize {
    // The little subtrahend undoes the rounding of products such as 0.99 * 100, which must give rank 99 and not 100.
    ((p * n as f64 - 1e-9).ceil() as usize).clamp(1, n.max(1)) - 1
}

/// The `p`-quantile of sorted values with its interval; none where there are fewer than [`least_samples`].
#[must_use]
pub fn estimate(sorted: &[f64], p: f64) -> Estimate {
    let n = sorted.len() as u64;
    if n < least_samples(p) {
        return Estimate { n, value: None, interval: None };
    }
    Estimate { n, value: of_sorted(sorted, p), interval: Some(interval(sorted, p, Sides::Two)) }
}

/// The interval of the `p`-quantile of sorted values. A bound that needs more samples is absent.
#[must_use]
pub fn interval(sorted: &[f64], p: f64, sides: Sides) -> Interval {
    let (below, above) = bounds(sorted.len(), p, sides.tail());
    Interval { low: below.map(|i| sorted[i]), high: above.map(|i| sorted[i]) }
}

/// Indices of the sorted samples that bound the `p`-quantile, with at most `tail` of doubt each.
#[must_use]
pub fn bounds(n: usize, p: f64, tail: f64) -> (Option<usize>, Option<usize>) {
    if n == 0 || p <= 0.0 || p >= 1.0 {
        return (None, None);
    }
    let (first, pmf) = binomial(n, p);
    // Lower: the largest j with P(B <= j - 1) <= tail; the j-th smallest has index j - 1.
    let (mut sum, mut low) = (0.0, None);
    for (i, mass) in pmf.iter().enumerate() {
        sum += mass;
        if sum > tail {
            break;
        }
        low = Some(first + i);
    }
    // What lies before `first` has no mass that matters, so the bound may start there.
    let low = low.or_else(|| first.checked_sub(1));
    // Upper: the smallest k with P(B >= k) <= tail; the k-th smallest has index k - 1.
    let (mut sum, mut high) = (0.0, None);
    for (i, mass) in pmf.iter().enumerate().rev() {
        sum += mass;
        if sum > tail {
            break;
        }
        high = Some(first + i);
    }
    let high = high.or(Some(first + pmf.len())).filter(|k| (1..=n).contains(k)).map(|k| k - 1);
    (low, high)
}

/// The probabilities of a binomial(n, p), without the ends that have no mass in double precision: the first number
/// of successes and the probabilities from there on. Grown from the mode by the ratio of neighbours, so it neither
/// underflows nor needs a special function.
fn binomial(n: usize, p: f64) -> (usize, Vec<f64>) {
    const NEGLIGIBLE: f64 = 1e-18;
    let odds = p / (1.0 - p);
    let mode = (((n + 1) as f64 * p) as usize).min(n);
    let (mut down, mut mass) = (Vec::new(), 1.0);
    for k in (1..=mode).rev() {
        mass *= k as f64 / ((n - k + 1) as f64 * odds);
        if mass < NEGLIGIBLE {
            break;
        }
        down.push(mass);
    }
    let first = mode - down.len();
    let mut pmf: Vec<f64> = down.into_iter().rev().collect();
    pmf.push(1.0);
    mass = 1.0;
    for k in mode..n {
        mass *= (n - k) as f64 * odds / (k + 1) as f64;
        if mass < NEGLIGIBLE {
            break;
        }
        pmf.push(mass);
    }
    let total: f64 = pmf.iter().sum();
    pmf.iter_mut().for_each(|mass| *mass /= total);
    (first, pmf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brownout_injector::Draw;
    use proptest::prelude::*;

    #[test]
    fn the_floors_are_those_of_the_formula() {
        for (p, least) in [(0.5, 5), (0.9, 29), (0.95, 59), (0.99, 299), (0.999, 2995), (0.1, 29)] {
            assert_eq!(least_samples(p), least, "p = {p}");
            let bound = |n: u64| bounds(n as usize, p, 0.05);
            let far = |n: u64| if p >= 0.5 { bound(n).1 } else { bound(n).0 };
            assert!(far(least).is_some(), "p = {p}: {least} samples must give a bound");
            assert!(far(least - 1).is_none(), "p = {p}: {} samples must not", least - 1);
        }
    }

    #[test]
    fn bounds_agree_with_published_tables() {
        // Conover, "Practical Nonparametric Statistics", 3rd edition, table A3: for n = 20 and p = 0.5,
        // P(B <= 5) = 0.0207 and P(B <= 6) = 0.0577; so the 6th and the 15th smallest bound the median with 95.9 %.
        assert_eq!(bounds(20, 0.5, 0.025), (Some(5), Some(14)));
        assert_eq!(bounds(0, 0.5, 0.025), (None, None));
    }

    #[test]
    fn ninety_nine_of_a_hundred_is_rank_ninety_nine() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(of_sorted(&values, 0.99), Some(99.0));
        assert_eq!(of_sorted(&values, 0.5), Some(50.0));
        assert_eq!(of_sorted(&[7.0], 0.999), Some(7.0));
        assert_eq!(of_sorted(&[], 0.5), None);
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        // Uniform data: the true p-quantile is p itself.
        for (p, n) in [(0.5, 60), (0.9, 200), (0.99, 800)] {
            let runs = 1000;
            let mut hits = 0;
            for run in 0..runs {
                let mut values: Vec<f64> = (0..n).map(|i| Draw::new(run, "coverage", i).unit(0)).collect();
                values.sort_by(f64::total_cmp);
                hits += u32::from(interval(&values, p, Sides::Two).contains(p));
            }
            let share = f64::from(hits) / runs as f64;
            assert!(share >= 0.94, "p = {p}, n = {n}: covered {share}");
        }
    }

    proptest! {
        #[test]
        fn an_interval_holds_its_quantile(mut values in prop::collection::vec(-1e6..1e6_f64, 1..400), p in 0.01..0.999_f64) {
            values.sort_by(f64::total_cmp);
            let value = of_sorted(&values, p).expect("there is at least one value");
            let both = interval(&values, p, Sides::Two);
            prop_assert!(both.contains(value), "{value} not in {both:?}");
            let one = interval(&values, p, Sides::One);
            if let (Some(wide), Some(narrow)) = (both.low, one.low) { prop_assert!(wide <= narrow); }
            if let (Some(wide), Some(narrow)) = (both.high, one.high) { prop_assert!(wide >= narrow); }
        }
    }
}
