//! What the statistics promise at their borders.

use brownout_runner::record::{Outcome, Phase, RequestRecord};
use brownout_runner::stats::bootstrap::{Contrast, FEWEST_UNITS, RESAMPLES, Resampled, Sample, Stat};
use brownout_runner::stats::rate::{p_same, wilson};
use brownout_runner::stats::{Interval, Sides, Z_ONE_SIDED, mean, quantile};
use proptest::prelude::*;

fn numbers(n: usize) -> Vec<f64> {
    (1..=n).map(|i| i as f64).collect()
}

#[test]
fn of_a_hundred_values_each_percentile_is_the_one_of_its_rank() {
    let hundred = numbers(100);
    for percent in 1..100_u32 {
        assert_eq!(quantile::of_sorted(&hundred, f64::from(percent) / 100.0), Some(f64::from(percent)));
    }
    assert_eq!(quantile::of_sorted(&hundred, 0.999), Some(100.0));
}

#[test]
fn a_percentile_has_a_value_from_its_floor_on() {
    for (p, least) in [(0.5, 5), (0.9, 29), (0.95, 59), (0.99, 299)] {
        assert_eq!(quantile::estimate(&numbers(least - 1), p).value, None, "p {p}");
        assert!(quantile::estimate(&numbers(least), p).value.is_some(), "p {p}");
    }
}

#[test]
fn a_bound_alone_may_take_all_the_doubt() {
    // The largest of 59 lies above p95 with 1 - 0.95^59 = 95.2 %: enough for one side, too little for 2.5 % beyond it.
    let values = numbers(59);
    assert_eq!(quantile::interval(&values, 0.95, Sides::One).high, Some(59.0));
    assert_eq!(quantile::interval(&values, 0.95, Sides::Two).high, None);
    // Wilson at one side: the roots of (p - 0.05)^2 = z^2 p (1 - p) / 100.
    let Interval { low: Some(low), high: Some(high) } = wilson(5, 100, Sides::One).expect("trials") else {
        panic!("both bounds exist")
    };
    for p in [low, high] {
        assert!(((p - 0.05).powi(2) - Z_ONE_SIDED.powi(2) * p * (1.0 - p) / 100.0).abs() < 1e-12, "{p}");
    }
    let resampled = Resampled { value: Some(500.0), replicates: numbers(1000) };
    assert_eq!(resampled.interval(Sides::One), Some(Interval::new(51.0, 950.0)));
    assert_eq!(resampled.interval(Sides::Two), Some(Interval::new(26.0, 975.0)));
}

#[test]
fn few_resamples_and_resamples_of_nothing_give_no_interval() {
    let of = |replicates: Vec<f64>| Resampled { value: Some(1.0), replicates };
    assert_eq!(of(numbers(RESAMPLES / 5 - 1)).interval(Sides::Two), None);
    assert!(of(numbers(RESAMPLES / 5)).interval(Sides::Two).is_some());
    // Where the divisor is 0 in more than one resample of 20, the ratios that are left would flatter.
    let mut often_nothing = vec![1.0; RESAMPLES];
    often_nothing[..RESAMPLES / 20 + 1].fill(0.0);
    let contrast = Contrast::new(&of(often_nothing.clone()), &of(vec![2.0; RESAMPLES]));
    assert_eq!((contrast.ratio, contrast.ratio_interval(Sides::Two)), (Some(1.0), None));
    often_nothing[0] = 1.0;
    let contrast = Contrast::new(&of(often_nothing), &of(vec![2.0; RESAMPLES]));
    assert_eq!(contrast.ratio_interval(Sides::Two), Some(Interval::new(2.0, 2.0)));
}

#[test]
fn doubt_about_a_change_is_counted_on_both_sides() {
    let of = |value: f64| Resampled { value: Some(value), replicates: vec![value; 999] };
    let p = |before, after| Contrast::new(&of(before), &of(after)).p_unchanged().expect("resamples");
    assert!((p(1.0, 2.0) - 2.0 / 1000.0).abs() < 1e-12);
    assert!((p(2.0, 1.0) - 2.0 / 1000.0).abs() < 1e-12);
    assert!((p(1.0, 1.0) - 1.0).abs() < 1e-12);
    // A ratio of just the bound is at most that, and at least that.
    let doubled = Contrast::new(&of(1.0), &of(2.0));
    assert_eq!((doubled.p_at_most(2.0), doubled.p_at_least(2.0)), (Some(1.0), Some(1.0)));
    // 15 and 30 of 100: pooled 0.225, z = 0.15 / sqrt(0.225 * 0.775 / 50) = 2.540.
    assert!((p_same((15, 100), (30, 100)).expect("trials") - 0.011_08).abs() < 5e-5);
}

#[test]
fn a_mean_of_ten_values_has_an_interval_and_one_of_nine_has_none() {
    assert_eq!(mean::interval(&numbers(9), Sides::Two), None);
    // Five batches of two: means 1.5, 3.5, 5.5, 7.5, 9.5; their variance is 10, t of 4 degrees of freedom 2.776.
    let interval = mean::interval(&numbers(10), Sides::Two).expect("enough values");
    let half = 2.776 * 2.0_f64.sqrt();
    assert!((interval.low.expect("a bound") - (5.5 - half)).abs() < 0.01, "{interval:?}");
    assert!((interval.high.expect("a bound") - (5.5 + half)).abs() < 0.01, "{interval:?}");
    let one_side = mean::interval(&numbers(10), Sides::One).expect("enough values").high;
    assert!((one_side.expect("a bound") - (5.5 + 2.132 * 2.0_f64.sqrt())).abs() < 0.01, "{one_side:?}");
}

#[test]
fn a_resample_of_what_is_everywhere_the_same_is_the_data_itself() {
    let of = |units: usize| {
        let (values, ends): (Vec<f64>, Vec<usize>) =
            ([1.0, 2.0, 3.0, 4.0].repeat(units), (1..=units).map(|unit| 4 * unit).collect());
        Sample::of_units(&values, &ends)
    };
    assert!(of(FEWEST_UNITS - 1).is_none());
    let sample = of(FEWEST_UNITS).expect("enough units");
    let stats = [Stat::Quantile(0.25), Stat::Quantile(0.5), Stat::Quantile(0.51), Stat::Mean];
    for (values, want) in sample.resample(&stats, 1, "x").iter().zip([1.0, 2.0, 3.0, 2.5]) {
        assert!(values.len() == RESAMPLES && values.iter().all(|value| *value == want), "{want}");
    }
}

#[test]
fn of_none_and_of_all_there_is_no_doubt_on_that_side() {
    for n in 1..500 {
        let (none, all) =
            (wilson(0, n, Sides::Two).expect("trials"), wilson(n, n, Sides::Two).expect("trials"));
        assert_eq!((none.low, all.high), (Some(0.0), Some(1.0)), "{n}");
    }
}

fn bound() -> impl Strategy<Value = Option<f64>> {
    prop::option::of(-5.0..5.0_f64)
}

proptest! {
    #[test]
    fn an_interval_is_below_where_it_ends_before_the_other_begins(
        a in (bound(), bound()), b in (bound(), bound()),
    ) {
        let (a, b) = (Interval { low: a.0, high: a.1 }, Interval { low: b.0, high: b.1 });
        let before = |one: Interval, other: Interval| {
            one.high.unwrap_or(f64::INFINITY) < other.low.unwrap_or(f64::NEG_INFINITY)
        };
        prop_assert_eq!((a.is_below(&b), b.is_below(&a)), (before(a, b), before(b, a)));
    }
}

#[test]
fn time_per_token_and_lag_are_those_of_their_definitions() {
    let request = super::ok(1, Phase::Baseline, 1.0, 0.1);
    assert!(super::close(request.tpot(), 0.08 / 4.0));
    let one_token = RequestRecord { output_tokens: 1, ..request.clone() };
    assert_eq!(one_token.tpot(), None);
    // Clocks are read one after the other: a send that seems too early was on time.
    let early = RequestRecord { sent: 0.9, ..request };
    assert!(early.lag() == 0.0 && super::close(early.response_ttft(), 0.1));
    assert!(!Outcome::RunEnded.counts() && !Outcome::ClientCancelled.counts() && Outcome::Ok.counts());
}
