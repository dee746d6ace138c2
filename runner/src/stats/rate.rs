//! Shares of requests, and what they differ by.

use super::{Estimate, Interval, Sides};

/// Wilson's score interval of `hits` out of `n` (Wilson, "Probable inference, the law of succession, and statistical
/// inference", JASA 22, 1927). None for no trials.
#[must_use]
pub fn wilson(hits: u64, n: u64, sides: Sides) -> Option<Interval> {
    if n == 0 {
        return None;
    }
    let (n, z) = (n as f64, sides.z());
    let p = hits as f64 / n;
    let z2 = z * z;
    let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    // Exactly none and exactly all are borders that rounding must not cross.
    let low = if hits == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if p >= 1.0 { 1.0 } else { (centre + half).min(1.0) };
    Some(Interval::new(low, high))
}

/// The share `hits / n` with its two-sided interval.
#[must_use]
pub fn estimate(hits: u64, n: u64) -> Estimate {
    Estimate { n, value: (n > 0).then(|| hits as f64 / n as f64), interval: wilson(hits, n, Sides::Two) }
}

/// The interval of the difference `b - a` of two shares: Newcombe's hybrid score method ("Interval estimation for the
/// difference between independent proportions", Statistics in Medicine 17, 1998, method 10).
#[must_use]
pub fn newcombe(a: (u64, u64), b: (u64, u64), sides: Sides) -> Option<Interval> {
    let (wa, wb) = (wilson(a.0, a.1, sides)?, wilson(b.0, b.1, sides)?);
    let (pa, pb) = (a.0 as f64 / a.1 as f64, b.0 as f64 / b.1 as f64);
    let (la, ua) = (wa.low?, wa.high?);
    let (lb, ub) = (wb.low?, wb.high?);
    let difference = pb - pa;
    Some(Interval::new(
        difference - ((pb - lb).powi(2) + (ua - pa).powi(2)).sqrt(),
        difference + ((ub - pb).powi(2) + (pa - la).powi(2)).sqrt(),
    ))
}

/// How well the counts go with "both shares are the same": the two-sided p-value of the pooled z test. None where
/// either has no trials.
#[must_use]
pub fn p_same(a: (u64, u64), b: (u64, u64)) -> Option<f64> {
    if a.1 == 0 || b.1 == 0 {
        return None;
    }
    let (na, nb) = (a.1 as f64, b.1 as f64);
    let pooled = (a.0 + b.0) as f64 / (na + nb);
    let error = (pooled * (1.0 - pooled) * (1.0 / na + 1.0 / nb)).sqrt();
    if error == 0.0 {
        return Some(1.0);
    }
    let z = (b.0 as f64 / nb - a.0 as f64 / na).abs() / error;
    Some(erfc(z / std::f64::consts::SQRT_2))
}

/// The complementary error function for x >= 0, off by at most 1.5e-7 (Abramowitz, Stegun, "Handbook of Mathematical
/// Functions", 7.1.26).
fn erfc(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let sum = ((((1.061_405_429 * t - 1.453_152_027) * t + 1.421_413_741) * t - 0.284_496_736) * t
        + 0.254_829_592)
        * t;
    (sum * (-x * x).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brownout_injector::Draw;
    use proptest::prelude::*;

    fn close(interval: Interval, low: f64, high: f64) -> bool {
        (interval.low.unwrap_or(f64::NAN) - low).abs() < 5e-5
            && (interval.high.unwrap_or(f64::NAN) - high).abs() < 5e-5
    }

    #[test]
    fn agrees_with_the_published_examples() {
        // Newcombe 1998, table I: 81 of 263, Wilson without continuity correction.
        assert!(close(wilson(81, 263, Sides::Two).expect("trials"), 0.2553, 0.3662));
        assert!(close(wilson(0, 20, Sides::Two).expect("trials"), 0.0, 0.1611));
        // Newcombe 1998 (differences), example (a), method 10: 56/70 - 48/80 = 0.2, 0.0524 to 0.3339.
        assert!(close(newcombe((48, 80), (56, 70), Sides::Two).expect("trials"), 0.0524, 0.3339));
        assert_eq!(wilson(0, 0, Sides::Two), None);
        assert_eq!(newcombe((0, 0), (1, 2), Sides::Two), None);
    }

    #[test]
    fn equal_shares_are_likely_the_same_and_distant_ones_not() {
        assert_eq!(p_same((0, 10), (0, 10)), Some(1.0));
        assert_eq!(p_same((0, 0), (0, 10)), None);
        // z = 1.96 leaves 5 %.
        assert!((erfc(crate::stats::Z_TWO_SIDED / std::f64::consts::SQRT_2) - 0.05).abs() < 1e-6);
        assert!(p_same((0, 400), (20, 400)).expect("trials") < 1e-4);
        assert!(p_same((10, 400), (12, 400)).expect("trials") > 0.5);
    }

    #[test]
    fn covers_the_true_share() {
        for p in [0.01, 0.1, 0.5] {
            let mut hits = 0;
            for run in 0..1000 {
                let k = (0..300).filter(|i| Draw::new(run, "rate", *i).unit(0) < p).count() as u64;
                hits += u32::from(wilson(k, 300, Sides::Two).expect("trials").contains(p));
            }
            assert!(hits >= 930, "p = {p}: covered {hits} of 1000");
        }
    }

    proptest! {
        #[test]
        fn holds_the_share_and_stays_a_share(n in 1_u64..100_000, part in 0.0..=1.0_f64) {
            let hits = (part * n as f64) as u64;
            let both = wilson(hits, n, Sides::Two).expect("trials");
            prop_assert!(both.contains(hits as f64 / n as f64));
            prop_assert!(both.low >= Some(0.0) && both.high <= Some(1.0));
        }
    }
}
