//! Intervals for any statistic of requests that are not independent: the circular block bootstrap.
//!
//! Requests that follow each other meet the same queue and the same batch, so methods for independent samples raise
//! false alarms most of the time. Here whole blocks of neighbouring requests, in time order and around the end, are
//! drawn with replacement (Politis, Romano: "A circular block-resampling procedure for stationary data", 1992). All
//! token gaps of a request travel together.
//!
//! The block length is the longer of n^(1/3) requests and the data-driven choice of Politis and White ("Automatic
//! block-length selection for the dependent bootstrap", Econometric Reviews 23, 2004, with the correction of Patton,
//! Politis and White, 2009), and at most an eighth of the data:
//! a fault that fires in part of its phase looks like likeness over a long time, and blocks of that length would be too few.
//!
//! So that a hundred thousand requests take no minute, values are counted in columns, and neighbouring requests in
//! cells; a resample adds up rows of counts.

mod contrast;

pub use contrast::{Contrast, Resampled};

use brownout_injector::Draw;
use std::collections::HashSet;

/// Resamples for each interval.
pub const RESAMPLES: usize = 1000;
/// Fewest requests (or bins of time) from which anything is resampled.
pub const FEWEST_UNITS: usize = 20;
/// Most cells that requests are gathered in.
const MOST_CELLS: usize = 250;
/// Most columns that values are counted in. Up to here every distinct value has its own.
const MOST_COLUMNS: usize = 1024;

/// A statistic that can be resampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stat {
    /// The p-quantile, 0 < p < 1.
    Quantile(f64),
    /// The arithmetic mean of all values.
    Mean,
}

/// Data made ready for resampling.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The value that each column stands for, ascending.
    columns: Vec<f64>,
    rows: Rows,
    cells: usize,
    /// Cells in a block.
    block: usize,
}

/// How often each column's value occurs in each cell.
#[derive(Clone, Debug)]
enum Rows {
    /// Counts of all columns, cell after cell.
    Dense(Vec<u32>),
    /// Only what occurs: `(column, count)`, and where each cell's part ends.
    Sparse(Vec<(u32, u32)>, Vec<usize>),
}

impl Sample {
    /// One value a unit, in time order. None for fewer than [`FEWEST_UNITS`] units.
    #[must_use]
    pub fn of_values(values: &[f64]) -> Option<Self> {
        let ends: Vec<usize> = (1..=values.len()).collect();
        Self::of_units(values, &ends)
    }

    /// Several values a unit, in time order: unit i has `values[ends[i - 1]..ends[i]]`. None for fewer than
    /// [`FEWEST_UNITS`] units.
    #[must_use]
    pub fn of_units(values: &[f64], ends: &[usize]) -> Option<Self> {
        let units = ends.len();
        if units < FEWEST_UNITS {
            return None;
        }
        let (columns, column_of) = columns(values);
        let cells = units.min(MOST_CELLS);
        let cell_end = |cell: usize| ends[(cell + 1) * units / cells - 1];
        let (mut sparse, mut sparse_ends, mut means) = (Vec::new(), Vec::new(), Vec::new());
        let mut row = vec![0_u32; columns.len()];
        let mut start = 0;
        for cell in 0..cells {
            let part = &values[start..cell_end(cell)];
            for value in part {
                row[column_of.find(*value)] += 1;
            }
            if part.len() * 4 < columns.len() {
                // A short part: visit what it holds instead of all columns.
                for value in part {
                    let column = column_of.find(*value);
                    if row[column] > 0 {
                        sparse.push((column as u32, std::mem::take(&mut row[column])));
                    }
                }
            } else {
                for (column, count) in row.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
                    sparse.push((column as u32, std::mem::take(count)));
                }
            }
            sparse_ends.push(sparse.len());
            means.push(crate::stats::mean::mean(part).unwrap_or(0.0));
            start = cell_end(cell);
        }
        let rows = if sparse.len() * 6 > columns.len() * cells {
            let mut dense = vec![0; columns.len() * cells];
            let mut from = 0;
            for (cell, end) in sparse_ends.iter().enumerate() {
                for (column, count) in &sparse[from..*end] {
                    dense[cell * columns.len() + *column as usize] = *count;
                }
                from = *end;
            }
            Rows::Dense(dense)
        } else {
            Rows::Sparse(sparse, sparse_ends)
        };
        let by_rule = (units as f64).cbrt() * cells as f64 / units as f64;
        let block = by_rule.max(automatic_block(&means)).ceil() as usize;
        Some(Self { columns, rows, cells, block: block.clamp(1, (cells / 8).max(1)) })
    }

    /// [`RESAMPLES`] values of each of `stats`, in the order of `stats`. The same seed and label give the same.
    #[must_use]
    pub fn resample(&self, stats: &[Stat], seed: u64, label: &str) -> Vec<Vec<f64>> {
        self.resample_times(RESAMPLES, stats, seed, label)
    }

    fn resample_times(&self, times: usize, stats: &[Stat], seed: u64, label: &str) -> Vec<Vec<f64>> {
        let mut all = vec![Vec::with_capacity(times); stats.len()];
        let mut sums = vec![0_u32; self.columns.len()];
        for round in 0..times {
            sums.fill(0);
            let draw = Draw::new(seed, label, round as u64);
            let (mut taken, mut blocks) = (0, 0);
            while taken < self.cells {
                let start = draw.below(blocks, self.cells as u64) as usize;
                blocks += 1;
                for offset in 0..self.block.min(self.cells - taken) {
                    self.add((start + offset) % self.cells, &mut sums);
                }
                taken += self.block;
            }
            let total: u64 = sums.iter().map(|count| u64::from(*count)).sum();
            for (stat, values) in stats.iter().zip(&mut all) {
                values.push(self.read(*stat, &sums, total));
            }
        }
        all
    }

    fn add(&self, cell: usize, sums: &mut [u32]) {
        match &self.rows {
            Rows::Dense(counts) => {
                let row = &counts[cell * self.columns.len()..(cell + 1) * self.columns.len()];
                sums.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
            }
            Rows::Sparse(counts, ends) => {
                let from = if cell == 0 { 0 } else { ends[cell - 1] };
                for (column, count) in &counts[from..ends[cell]] {
                    sums[*column as usize] += count;
                }
            }
        }
    }

    fn read(&self, stat: Stat, sums: &[u32], total: u64) -> f64 {
        match stat {
            _ if total == 0 => f64::NAN,
            Stat::Mean => {
                let sum: f64 = sums.iter().zip(&self.columns).map(|(n, value)| f64::from(*n) * value).sum();
                sum / total as f64
            }
            Stat::Quantile(p) => {
                // From the top, as most quantiles of interest lie there: the rank-th smallest is the first column
                // from above with fewer than `rank` values below it.
                let rank = ((p * total as f64 - 1e-9).ceil() as u64).clamp(1, total);
                let mut below = total;
                for (count, value) in sums.iter().zip(&self.columns).rev() {
                    below -= u64::from(*count);
                    if below < rank {
                        return *value;
                    }
                }
                self.columns[0]
            }
        }
    }
}

/// Finds the column of a value.
enum ColumnOf {
    /// Every distinct value has one.
    Distinct(Vec<f64>),
    /// Values with the same leading bits share one.
    Bits { shift: u32, first: u64, table: Vec<u32>, least: f64 },
}

impl ColumnOf {
    fn find(&self, value: f64) -> usize {
        match self {
            Self::Distinct(values) => values.partition_point(|v| v.total_cmp(&value).is_lt()),
            Self::Bits { shift, first, table, least } => {
                table[((value.max(*least).to_bits() >> shift) - first) as usize] as usize
            }
        }
    }
}

/// The columns for `values`: each distinct one, or, where they are too many, ranges of equal relative width (as in an
/// HDR histogram) that stand for the mean of what they hold.
fn columns(values: &[f64]) -> (Vec<f64>, ColumnOf) {
    let mut seen = HashSet::new();
    let few = values.iter().all(|value| {
        seen.insert(value.to_bits());
        seen.len() <= MOST_COLUMNS
    });
    let mut distinct: Vec<f64> = seen.into_iter().map(f64::from_bits).collect();
    distinct.sort_unstable_by(f64::total_cmp);
    if few {
        return (distinct.clone(), ColumnOf::Distinct(distinct));
    }
    let middle = distinct[distinct.len() / 2];
    let (low, high) = values.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
    // What lies far below the middle (gaps of events that came in one read) shares one column.
    let least = low.max(middle / 16.0).max(1e-9);
    let high = high.max(least);
    let mut shift = 43;
    while (high.to_bits() >> shift) - (least.to_bits() >> shift) >= MOST_COLUMNS as u64 {
        shift += 1;
    }
    let first = least.to_bits() >> shift;
    let mut sums = vec![(0.0, 0_u64); ((high.to_bits() >> shift) - first + 1) as usize];
    for value in values {
        let slot = &mut sums[((value.max(least).to_bits() >> shift) - first) as usize];
        *slot = (slot.0 + value, slot.1 + 1);
    }
    let (mut columns, mut table) = (Vec::new(), Vec::with_capacity(sums.len()));
    for (sum, count) in sums {
        table.push(columns.len() as u32);
        if count > 0 {
            columns.push(sum / count as f64);
        }
    }
    (columns, ColumnOf::Bits { shift, first, table, least })
}

/// The block length, in steps of `series`, that Politis and White's rule gives for the circular bootstrap.
fn automatic_block(series: &[f64]) -> f64 {
    let n = series.len();
    let mean = series.iter().sum::<f64>() / n as f64;
    let covariance = |lag: usize| -> f64 {
        series.iter().zip(&series[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n as f64
    };
    let variance = covariance(0);
    if n < 8 || variance <= f64::EPSILON * mean * mean {
        return 1.0;
    }
    let log = (n as f64).log10();
    let run = (log.sqrt().ceil() as usize).max(5);
    let most = (((n as f64).sqrt().ceil() as usize) + run).min(n - 1);
    let threshold = 2.0 * (log / n as f64).sqrt();
    let lags: Vec<f64> = (0..=most).map(covariance).collect();
    let small = |lag: usize| lags.get(lag).is_none_or(|c| (c / variance).abs() < threshold);
    let last = (0..=most)
        .find(|m| (1..=run).all(|k| small(m + k)))
        .unwrap_or_else(|| (1..=most).rev().find(|lag| !small(*lag)).unwrap_or(1));
    let width = (2 * last.max(1)).min(most);
    let (mut spectrum, mut slope) = (variance, 0.0);
    for (lag, covariance) in lags.iter().enumerate().take(width + 1).skip(1) {
        let t = lag as f64 / width as f64;
        let weight = if t <= 0.5 { 1.0 } else { 2.0 * (1.0 - t) };
        spectrum += 2.0 * weight * covariance;
        slope += 2.0 * weight * lag as f64 * covariance;
    }
    let spread = 4.0 / 3.0 * spectrum * spectrum;
    if spread <= 0.0 {
        return 1.0;
    }
    let block = (2.0 * slope * slope / spread * n as f64).cbrt();
    block.min((3.0 * (n as f64).sqrt()).min(n as f64 / 3.0)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Sides;
    use crate::stats::quantile::of_sorted;
    use brownout_injector::draw::Normal as _;
    use proptest::prelude::*;

    /// Latencies as a loaded server gives them: log-normal, each like the one before.
    fn latencies(n: u64, run: u64, likeness: f64) -> Vec<f64> {
        let mut state = 0.0;
        (0..n)
            .map(|i| {
                let fresh = Draw::new(run, "latency", i).normal(0);
                state = if i == 0 {
                    fresh
                } else {
                    likeness * state + (1.0 - likeness * likeness).sqrt() * fresh
                };
                0.1 * (0.4 * state).exp()
            })
            .collect()
    }

    fn resampled(values: &[f64], stat: Stat, seed: u64, label: &str) -> Resampled {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let value = match stat {
            Stat::Quantile(p) => of_sorted(&sorted, p),
            Stat::Mean => crate::stats::mean::mean(values),
        };
        let sample = Sample::of_values(values).expect("enough values");
        Resampled { value, replicates: sample.resample_times(300, &[stat], seed, label).remove(0) }
    }

    fn false_alarms(stat: Stat, likeness: f64, runs: u64) -> f64 {
        let alarms = (0..runs)
            .filter(|run| {
                let before = resampled(&latencies(400, 2 * run, likeness), stat, *run, "before");
                let after = resampled(&latencies(400, 2 * run + 1, likeness), stat, *run, "after");
                let ratio = Contrast::new(&before, &after).ratio_interval(Sides::Two).expect("enough values");
                !ratio.contains(1.0)
            })
            .count();
        alarms as f64 / runs as f64
    }

    /// The rate at which two equal phases are told apart, for which `docs/numbers.md` quotes these figures.
    #[test]
    fn equal_phases_seldom_look_different() {
        for (stat, likeness, most) in [
            (Stat::Mean, 0.0, 0.09),
            (Stat::Quantile(0.95), 0.0, 0.09),
            (Stat::Mean, 0.6, 0.14),
            (Stat::Quantile(0.5), 0.6, 0.14),
            (Stat::Quantile(0.95), 0.6, 0.14),
        ] {
            let rate = false_alarms(stat, likeness, 120);
            println!("false alarms of {stat:?} at neighbour correlation {likeness}: {rate}");
            assert!(rate <= most, "{stat:?} at {likeness}: {rate}");
        }
    }

    #[test]
    fn a_doubling_is_seen() {
        let before = latencies(400, 1, 0.6);
        let after: Vec<f64> = latencies(400, 2, 0.6).iter().map(|v| 2.0 * v).collect();
        let contrast = Contrast::new(
            &resampled(&before, Stat::Quantile(0.95), 1, "before"),
            &resampled(&after, Stat::Quantile(0.95), 1, "after"),
        );
        let interval = contrast.ratio_interval(Sides::Two).expect("enough values");
        assert!(
            interval.contains(contrast.ratio.expect("both are there")) && interval.low > Some(1.2),
            "{interval:?}"
        );
        assert!(
            contrast.p_at_most(1.0).expect("enough") < 0.01 && contrast.p_unchanged().expect("enough") < 0.02
        );
        assert!(contrast.p_at_least(1.0).expect("enough") > 0.9);
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let values = latencies(500, 5, 0.5);
        let once = resampled(&values, Stat::Mean, 9, "x");
        assert_eq!(once, resampled(&values, Stat::Mean, 9, "x"));
        assert_ne!(once, resampled(&values, Stat::Mean, 10, "x"));
    }

    #[test]
    fn likeness_of_neighbours_makes_blocks_longer() {
        assert!(automatic_block(&latencies(250, 3, 0.8)) > 2.0 * automatic_block(&latencies(250, 3, 0.0)));
        assert!((automatic_block(&[1.0; 100]) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn too_few_or_nothing_gives_no_interval() {
        assert!(Sample::of_values(&[1.0; FEWEST_UNITS - 1]).is_none());
        let nothing = Contrast::new(&Resampled::default(), &Resampled::default());
        assert_eq!(
            (nothing.ratio, nothing.ratio_interval(Sides::Two), nothing.p_unchanged()),
            (None, None, None)
        );
    }

    #[test]
    fn from_nothing_there_is_no_ratio() {
        let zero = Resampled { value: Some(0.0), replicates: vec![0.0; RESAMPLES] };
        let some = Resampled { value: Some(0.3), replicates: vec![0.3; RESAMPLES] };
        let contrast = Contrast::new(&zero, &some);
        assert_eq!((contrast.ratio, contrast.ratio_interval(Sides::Two)), (None, None));
        assert_eq!(contrast.difference, Some(0.3));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn columns_lose_little(spread in 0.1..3.0_f64, n in 2000_u64..6000) {
            let values: Vec<f64> = (0..n).map(|i| 0.02 * (spread * Draw::new(n, "v", i).normal(0)).exp()).collect();
            let (columns, column_of) = columns(&values);
            prop_assert!(columns.len() <= MOST_COLUMNS);
            prop_assert!(columns.windows(2).all(|pair| pair[0] < pair[1]));
            for value in values.iter().filter(|v| **v > 0.02) {
                let stands_for = columns[column_of.find(*value)];
                prop_assert!((stands_for / value - 1.0).abs() < 0.04, "{stands_for} for {value}");
            }
        }

        #[test]
        fn a_resample_stays_within_the_data(values in prop::collection::vec(0.0..10.0_f64, 20..80)) {
            let (low, high) = values.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
            let sample = Sample::of_values(&values).expect("enough values");
            for stat in sample.resample_times(30, &[Stat::Mean, Stat::Quantile(0.9)], 1, "x") {
                prop_assert!(stat.iter().all(|v| (low - 1e-9..=high + 1e-9).contains(v)));
            }
        }
    }
}
