//! Descriptions of how far two distributions lie apart, and the correction for asking many questions at once.
//! They describe; no verdict hangs on them, since requests of one run are not independent.

/// Values beyond this many are thinned to evenly spaced order statistics before all pairs are formed.
const PAIRS_SIDE: usize = 501;

/// The Hodges-Lehmann shift: the median of all differences `b - a` (Hodges, Lehmann, "Estimates of location based on
/// rank tests", 1963). Both sorted. None where either is empty.
#[must_use]
pub fn hodges_lehmann(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (a, b) = (thin(a), thin(b));
    let mut differences: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| y - x)).collect();
    let middle = differences.len() / 2;
    let (_, median, _) = differences.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median)
}

/// At most [`PAIRS_SIDE`] values of `sorted`, evenly spaced in rank, ends included.
fn thin(sorted: &[f64]) -> Vec<f64> {
    if sorted.len() <= PAIRS_SIDE {
        return sorted.to_vec();
    }
    (0..PAIRS_SIDE).map(|i| sorted[i * (sorted.len() - 1) / (PAIRS_SIDE - 1)]).collect()
}

/// Cliff's delta: how much likelier a value of `b` exceeds one of `a` than the reverse, from -1 to 1 (Cliff,
/// "Dominance statistics", Psychological Bulletin 114, 1993). Both sorted. None where either is empty.
#[must_use]
pub fn cliffs_delta(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (mut below, mut not_above, mut sum) = (0_usize, 0_usize, 0_i128);
    for value in b {
        while below < a.len() && a[below] < *value {
            below += 1;
        }
        while not_above < a.len() && a[not_above] <= *value {
            not_above += 1;
        }
        sum += below as i128 - (a.len() - not_above) as i128;
    }
    Some(sum as f64 / (a.len() as f64 * b.len() as f64))
}

/// Holm's step-down correction (Holm, "A simple sequentially rejective multiple test procedure", 1979): p-values
/// adjusted such that holding each against 5 % keeps the chance of any false alarm among them below 5 %. In the order
/// given.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|i, j| p_values[*i].total_cmp(&p_values[*j]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (position, index) in order.into_iter().enumerate() {
        largest = largest.max(p_values[index] * (p_values.len() - position) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn holm_steps_down() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (got, want) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - want).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn nothing_has_no_shift() {
        assert_eq!(hodges_lehmann(&[], &[1.0]), None);
        assert_eq!(cliffs_delta(&[1.0], &[]), None);
    }

    proptest! {
        #[test]
        fn a_shift_is_found(mut a in prop::collection::vec(0.0..100.0_f64, 1..400), by in -50.0..50.0_f64) {
            // With an odd number of values the differences lie evenly around the shift, so their median is the shift.
            a.truncate((a.len() - 1) / 2 * 2 + 1);
            a.sort_by(f64::total_cmp);
            let b: Vec<f64> = a.iter().map(|x| x + by).collect();
            let shift = hodges_lehmann(&a, &b).expect("not empty");
            let error = (shift - by).abs();
            prop_assert!(error < 1e-9, "{} for {}", shift, by);
            let delta = cliffs_delta(&a, &b).expect("not empty");
            prop_assert!(delta * by >= 0.0);
        }

        #[test]
        fn cliffs_delta_is_what_counting_all_pairs_gives(
            mut a in prop::collection::vec(0..20_i32, 1..40), mut b in prop::collection::vec(0..20_i32, 1..40),
        ) {
            a.sort_unstable();
            b.sort_unstable();
            let pairs: i32 = b.iter().flat_map(|y| a.iter().map(move |x| (y - x).signum())).sum();
            let floats = |v: &[i32]| v.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
            let delta = cliffs_delta(&floats(&a), &floats(&b)).expect("not empty");
            prop_assert!((delta - f64::from(pairs) / (a.len() * b.len()) as f64).abs() < 1e-12);
        }

        #[test]
        fn holm_never_lowers_a_p_value(p in prop::collection::vec(0.0..=1.0_f64, 0..20)) {
            for (raw, adjusted) in p.iter().zip(holm(&p)) {
                prop_assert!(adjusted >= *raw && adjusted <= 1.0);
            }
        }
    }
}
