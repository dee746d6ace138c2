//! What resampling says of one phase, and of the change from one to another.

use super::RESAMPLES;
use crate::stats::{Interval, Sides};

/// One statistic of one phase: what was measured, and what resampling makes of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resampled {
    /// The measured value; none where there are too few samples.
    pub value: Option<f64>,
    /// Its resamples; empty where there are too few.
    pub replicates: Vec<f64>,
}

impl Resampled {
    /// The interval of the statistic itself.
    #[must_use]
    pub fn interval(&self, sides: Sides) -> Option<Interval> {
        percentile_interval(&sorted(self.replicates.iter().copied()), sides)
    }
}

/// What changed from one phase to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contrast {
    /// After / before; none where either is missing or before is 0.
    pub ratio: Option<f64>,
    /// After - before.
    pub difference: Option<f64>,
    ratios: Vec<f64>,
    differences: Vec<f64>,
}

impl Contrast {
    /// The contrast of two independent phases.
    #[must_use]
    pub fn new(before: &Resampled, after: &Resampled) -> Self {
        let values = before.value.zip(after.value);
        let pairs = || before.replicates.iter().zip(&after.replicates);
        let ratios = sorted(pairs().filter(|(a, _)| **a > 0.0).map(|(a, b)| b / a));
        // Where resamples of the divisor are often 0, the rest of the ratios would flatter.
        let ratios = if ratios.len() * 20 >= before.replicates.len() * 19 { ratios } else { Vec::new() };
        Self {
            ratio: values.and_then(|(a, b)| (a > 0.0).then(|| b / a)),
            difference: values.map(|(a, b)| b - a),
            ratios,
            differences: sorted(pairs().map(|(a, b)| b - a)),
        }
    }

    /// The interval of the ratio.
    #[must_use]
    pub fn ratio_interval(&self, sides: Sides) -> Option<Interval> {
        self.ratio.and_then(|_| percentile_interval(&self.ratios, sides))
    }

    /// The interval of the difference.
    #[must_use]
    pub fn difference_interval(&self, sides: Sides) -> Option<Interval> {
        self.difference.and_then(|_| percentile_interval(&self.differences, sides))
    }

    /// How well the resamples go with "the ratio is at most `bound`": the share of them there. Small means: it is above.
    #[must_use]
    pub fn p_at_most(&self, bound: f64) -> Option<f64> {
        let n = self.ratios.len();
        (n > 0).then(|| (1 + self.ratios.partition_point(|r| *r <= bound)) as f64 / (n + 1) as f64)
    }

    /// How well the resamples go with "the ratio is at least `bound`". Small means: it is below.
    #[must_use]
    pub fn p_at_least(&self, bound: f64) -> Option<f64> {
        let n = self.ratios.len();
        (n > 0).then(|| (1 + n - self.ratios.partition_point(|r| *r < bound)) as f64 / (n + 1) as f64)
    }

    /// How well the resamples go with "nothing changed": two-sided.
    #[must_use]
    pub fn p_unchanged(&self) -> Option<f64> {
        let n = self.differences.len();
        if n == 0 {
            return None;
        }
        let up = 1 + self.differences.partition_point(|d| *d <= 0.0);
        let down = 1 + n - self.differences.partition_point(|d| *d < 0.0);
        Some((2.0 * up.min(down) as f64 / (n + 1) as f64).min(1.0))
    }
}

/// The finite ones of `values`, ascending.
fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The percentile interval of sorted resamples.
fn percentile_interval(sorted: &[f64], sides: Sides) -> Option<Interval> {
    let cut = (sides.tail() * sorted.len() as f64).floor() as usize;
    (sorted.len() >= RESAMPLES / 5).then(|| Interval::new(sorted[cut], sorted[sorted.len() - 1 - cut]))
}
