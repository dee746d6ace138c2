//! Histograms of latencies that can be merged without loss: runs spread over several machines add up exactly.

use hdrhistogram::Histogram;

/// The longest latency that is told apart, in microseconds: one hour. Longer ones count as this.
const HIGHEST_US: u64 = 3_600_000_000;

/// Latencies in microseconds with three significant digits (an error of at most 0.1 %).
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(
            Histogram::new_with_bounds(1, HIGHEST_US, 3)
                .expect("the bounds are constants that the crate allows"),
        )
    }
}

impl Latencies {
    /// Adds one latency in seconds. What is no number or negative counts as nothing to add.
    pub fn add(&mut self, seconds: f64) {
        if seconds >= 0.0 {
            self.0.saturating_record((seconds * 1e6).round() as u64);
        }
    }

    /// Adds all that `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so nothing can be out of range; should that ever change, nothing is lost silently.
        self.0.add(&other.0).expect("histograms of the same bounds add up");
    }

    /// How many were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The `p`-quantile (0 < p < 1) in seconds; none of nothing.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(p) as f64 / 1e6)
    }
}

impl Extend<f64> for Latencies {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        values.into_iter().for_each(|seconds| self.add(seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::quantile::of_sorted;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merging_is_as_good_as_having_seen_all(
            a in prop::collection::vec(1e-4..100.0_f64, 1..200), b in prop::collection::vec(1e-4..100.0_f64, 0..200),
        ) {
            let (mut left, mut right, mut whole) = (Latencies::default(), Latencies::default(), Latencies::default());
            left.extend(a.iter().copied());
            right.extend(b.iter().copied());
            whole.extend(a.iter().chain(&b).copied());
            left.merge(&right);
            prop_assert_eq!(left.count(), whole.count());
            let mut all: Vec<f64> = a.into_iter().chain(b).collect();
            all.sort_by(f64::total_cmp);
            for p in [0.5, 0.9, 0.99] {
                prop_assert_eq!(left.quantile(p), whole.quantile(p));
                let (rough, exact) = (left.quantile(p).unwrap_or(0.0), of_sorted(&all, p).unwrap_or(0.0));
                prop_assert!((rough - exact).abs() <= exact * 2e-3 + 2e-6, "p{}: {} for {}", p, rough, exact);
            }
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        let mut empty = Latencies::default();
        empty.add(f64::NAN);
        empty.add(-1.0);
        assert_eq!((empty.count(), empty.quantile(0.5)), (0, None));
    }
}
