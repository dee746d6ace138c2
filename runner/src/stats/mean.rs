//! Means of data whose neighbours resemble each other: batch means.
//!
//! The values, in time order, are cut into batches of equal size; the batch means are nearly independent, and a t
//! interval of them is honest where one of the single values would be too narrow (Law: "Simulation Modeling and
//! Analysis", 5th edition, section 9.5.3, who advises 20 to 30 batches).

use super::{Estimate, Interval, Sides, Z_ONE_SIDED, Z_TWO_SIDED};

/// Most batches.
const MOST_BATCHES: usize = 20;
/// Fewest batches; with fewer, the t interval is too wide to say anything.
const FEWEST_BATCHES: usize = 5;

/// The mean of `values` (in time order) with its batch-means interval; the interval needs 10 values.
#[must_use]
pub fn estimate(values: &[f64]) -> Estimate {
    Estimate { n: values.len() as u64, value: mean(values), interval: interval(values, Sides::Two) }
}

/// The arithmetic mean; none of no values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The batch-means interval of the mean of `values` in time order; none below 10 values.
#[must_use]
pub fn interval(values: &[f64], sides: Sides) -> Option<Interval> {
    if values.len() < 2 * FEWEST_BATCHES {
        return None;
    }
    let batches = (values.len() / 10).clamp(FEWEST_BATCHES, MOST_BATCHES);
    let means: Vec<f64> = (0..batches)
        .filter_map(|i| mean(&values[i * values.len() / batches..(i + 1) * values.len() / batches]))
        .collect();
    let centre = mean(values)?;
    let k = means.len() as f64;
    let middle = mean(&means)?;
    let variance = means.iter().map(|m| (m - middle).powi(2)).sum::<f64>() / (k - 1.0);
    let half = t_quantile(sides, k - 1.0) * (variance / k).sqrt();
    Some(Interval::new(centre - half, centre + half))
}

/// The t distribution's point for `sides` with `dof` degrees of freedom, at least 4: the expansion of Abramowitz and
/// Stegun, "Handbook of Mathematical Functions", 26.7.5; off by less than 0.1 % there.
fn t_quantile(sides: Sides, dof: f64) -> f64 {
    let x = match sides {
        Sides::Two => Z_TWO_SIDED,
        Sides::One => Z_ONE_SIDED,
    };
    let x2 = x * x;
    let g1 = (x2 + 1.0) * x / 4.0;
    let g2 = ((5.0 * x2 + 16.0) * x2 + 3.0) * x / 96.0;
    let g3 = (((3.0 * x2 + 19.0) * x2 + 17.0) * x2 - 15.0) * x / 384.0;
    let g4 = ((((79.0 * x2 + 776.0) * x2 + 1482.0) * x2 - 1920.0) * x2 - 945.0) * x / 92_160.0;
    x + g1 / dof + g2 / dof.powi(2) + g3 / dof.powi(3) + g4 / dof.powi(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brownout_injector::Draw;
    use brownout_injector::draw::Normal as _;

    #[test]
    fn t_points_are_those_of_the_tables() {
        for (sides, dof, point) in [
            (Sides::Two, 4.0, 2.7764),
            (Sides::Two, 9.0, 2.2622),
            (Sides::Two, 19.0, 2.0930),
            (Sides::One, 4.0, 2.1318),
            (Sides::One, 19.0, 1.7291),
        ] {
            let got = t_quantile(sides, dof);
            assert!((got - point).abs() < 0.003, "t for {dof}: {got}, table {point}");
        }
    }

    #[test]
    fn no_interval_without_values() {
        assert_eq!(estimate(&[]), Estimate { n: 0, value: None, interval: None });
        assert_eq!(estimate(&[2.0]), Estimate { n: 1, value: Some(2.0), interval: None });
    }

    #[test]
    fn covers_the_mean_of_correlated_data() {
        // AR(1) with a neighbour correlation of 0.6 around 10; a naive t interval covers it in about 67 % of runs.
        let runs = 600;
        let mut hits = 0;
        for run in 0..runs {
            let mut state = 0.0;
            let values: Vec<f64> = (0..1000)
                .map(|i| {
                    state = 0.6 * state + Draw::new(run, "ar1", i).normal(0);
                    10.0 + state
                })
                .collect();
            hits += u32::from(interval(&values, Sides::Two).expect("enough values").contains(10.0));
        }
        let share = f64::from(hits) / runs as f64;
        assert!((0.90..=0.99).contains(&share), "covered {share}");
    }
}
