//! SLA lines: what they mean, how they print, and what is said of those that are none.

use brownout_injector::sla::{Bound, Demand, Metric, Operator, Statistic, parse};
use proptest::prelude::*;
use std::time::Duration;

fn threshold(line: &str) -> (Metric, Option<Statistic>, Operator, Bound, Option<Duration>) {
    match parse(line).unwrap_or_else(|error| panic!("{line}: {error}")).demand {
        Demand::Threshold { metric, statistic, operator, bound, hold } => {
            (metric, statistic, operator, bound, hold)
        }
        Demand::RecoversWithin(_) => panic!("{line} is a threshold"),
    }
}

#[test]
fn lines_mean_what_they_say() {
    use Bound::{Absolute, TimesBaseline};
    use Operator::{Greater, GreaterOrEqual, Less, LessOrEqual};
    let p = |p| Some(Statistic::Percentile(p));
    for (line, want) in [
        ("ttft p99 < 800ms", (Metric::Ttft, p(99.0), Less, Absolute(0.8), None)),
        ("TTFT P99.9<=1m30s", (Metric::Ttft, p(99.9), LessOrEqual, Absolute(90.0), None)),
        ("itl p99 < 3x baseline", (Metric::Itl, p(99.0), Less, TimesBaseline(3.0), None)),
        ("e2e mean < 2s", (Metric::E2e, Some(Statistic::Mean), Less, Absolute(2.0), None)),
        ("tpot max < 50ms", (Metric::Tpot, Some(Statistic::Max), Less, Absolute(0.05), None)),
        ("error rate < 1%", (Metric::ErrorRate, None, Less, Absolute(0.01), None)),
        ("goodput > 0.9x baseline", (Metric::Goodput, None, Greater, TimesBaseline(0.9), None)),
        ("goodput >= 5/s", (Metric::Goodput, None, GreaterOrEqual, Absolute(5.0), None)),
        (
            "error rate > 50% for 10s",
            (Metric::ErrorRate, None, Greater, Absolute(0.5), Some(Duration::from_secs(10))),
        ),
    ] {
        assert_eq!(threshold(line), want, "{line}");
    }
    let recovery = parse("recovers within 30s").map(|line| line.demand);
    assert_eq!(recovery, Ok(Demand::RecoversWithin(Duration::from_secs(30))));
}

/// `(line, column, length, words of the message, suggestion)`.
type Row = (&'static str, usize, usize, &'static str, Option<&'static str>);

const ROWS: &[Row] = &[
    ("", 1, 0, "empty", Some("ttft p99 < 800ms")),
    ("ttft < 800ms", 6, 1, "say which", Some("ttft p99 < 800ms")),
    ("ttft", 1, 4, "say which", Some("ttft p99")),
    ("ttft p99", 6, 3, "operator", None),
    ("ttft p99 <", 10, 1, "missing at the end", Some("ttft p99 < 800ms")),
    ("ttft p99 < 800", 12, 3, "needs a unit", Some("800ms")),
    ("ttft p99 < 800 ms", 12, 3, "one word", Some("800ms")),
    ("ttft p99 < 8%", 12, 2, "no unit of `ttft`", Some("8ms")),
    ("ttft p99 < fast", 12, 4, "no value", None),
    ("ttft p99 < 0ms", 12, 3, "never be", None),
    ("ttft p99 < 25h", 12, 3, "longer than a day", None),
    ("ttft p100 < 1s", 6, 4, "no statistic", Some("max")),
    ("ttft avg < 1s", 6, 3, "no statistic", Some("mean")),
    ("ttft median < 1s", 6, 6, "no statistic", Some("p50")),
    ("ttft p99 = 1s", 10, 1, "exactly", Some("<=")),
    ("ttft p99 =< 1s", 10, 2, "no operator", Some("<=")),
    ("ttft p99 ≤ 1s", 10, 1, "no operator", Some("<=")),
    ("ttft p99 below 1s", 10, 5, "no operator", Some("<")),
    ("itl p99 < 3x", 11, 2, "only be the baseline", Some("3x baseline")),
    ("itl p99 < 0x baseline", 11, 2, "more than 0", None),
    ("itl p99 < baseline", 11, 8, "how many times", Some("1x baseline")),
    ("goodput > 90% of baseline", 11, 3, "multiple", Some("0.9x baseline")),
    ("error rate p99 < 1%", 12, 3, "one number", Some("error rate < 1%")),
    ("error rate < 1", 14, 1, "needs a unit", Some("1%")),
    ("error rate < 0.01", 14, 4, "needs a unit", Some("1%")),
    ("error rate < 101%", 14, 4, "100% at most", None),
    ("error rate < 0%", 14, 2, "never be", Some("<= 0%")),
    ("error rate under 1%", 12, 5, "operator", Some("error rate < 1%")),
    ("goodput > 5", 11, 1, "needs a unit", Some("5/s")),
    ("erorr rate < 1%", 1, 5, "no metric", Some("error rate")),
    (
        "error_rate > 80 for 3s",
        1,
        10,
        "Then, `80` needs a unit: `error rate` is a share, such as `80%`",
        Some("error rate"),
    ),
    ("tftt p99 < 1s for 3", 1, 4, "Then, `3` needs a unit, such as `3s`", Some("ttft")),
    ("p95 ttft < 800", 1, 3, "Then, `800` needs a unit", Some("ttft p95")),
    ("latency p99 < 1s", 1, 7, "no metric", Some("e2e")),
    ("qps > 5/s", 1, 3, "no metric", Some("request rate")),
    ("ttft p99 < 1s always", 15, 6, "should end before", Some("ttft p99 < 1s")),
    ("ttft p99 < 1s for", 15, 3, "missing at the end", Some("ttft p99 < 1s for 10s")),
    ("ttft p99 < 1s for 10", 19, 2, "needs a unit", Some("10s")),
    ("ttft p99 < 1s for 0s", 19, 2, "more than 0", None),
    ("recovers in 30s", 10, 2, "`within`", Some("recovers within 30s")),
    ("recovers within", 10, 6, "missing at the end", Some("recovers within 30s")),
    ("recovers within 30", 17, 2, "needs a unit", Some("30s")),
    ("  é", 3, 1, "no metric", None),
];

#[test]
fn a_line_with_only_its_metric_wrong_is_told_only_that() {
    for line in
        ["erorr rate < 1%", "latency p99 < 1s", "tftt p99 < 1s for 3s", "p95 ttft < 1s", "recovery within 8s"]
    {
        let error = parse(line).expect_err(line);
        assert!(error.message.ends_with("request rate"), "{line}: {error}");
    }
}

#[test]
fn errors_point_at_the_word_and_say_what_would_be_right() {
    for (line, column, length, words, suggestion) in ROWS {
        let error = parse(line).expect_err(line);
        assert_eq!((error.column, error.length), (*column, *length), "{line}: {error}");
        assert!(error.message.contains(words), "{line}: {error}");
        assert_eq!(error.suggestion.as_deref(), *suggestion, "{line}: {error}");
    }
}

fn any_time() -> impl Strategy<Value = Duration> {
    (1_u64..86_400_000_000_000).prop_map(Duration::from_nanos)
}

prop_compose! {
    fn any_demand()(
        metric in prop::sample::select(Metric::ALL.to_vec()),
        statistic in prop_oneof![
            (1_u32..99_999).prop_map(|p| Statistic::Percentile(f64::from(p) / 1000.0)),
            Just(Statistic::Mean),
            Just(Statistic::Max),
        ],
        operator in prop::sample::select(vec![
            Operator::Less, Operator::LessOrEqual, Operator::Greater, Operator::GreaterOrEqual,
        ]),
        relative in prop::option::of(1e-6_f64..1e6),
        time in any_time(),
        share in 0.000_001_f64..0.999_999,
        rate in 1e-6_f64..1e9,
        hold in prop::option::of(any_time()),
        recovers in prop::option::weighted(0.1, any_time()),
    ) -> Demand {
        use brownout_injector::sla::Quantity;
        if let Some(time) = recovers {
            return Demand::RecoversWithin(time);
        }
        let quantity = metric.quantity();
        // As a person writes it: so many percent, and not the nearest binary number of a share.
        let share = format!("{:.6}", share * 100.0).parse::<f64>().expect("a number") / 100.0;
        let bound = match (relative, quantity) {
            (Some(factor), _) => Bound::TimesBaseline(factor),
            (None, Quantity::Time) => Bound::Absolute(time.as_secs_f64()),
            (None, Quantity::Share) => Bound::Absolute(share),
            (None, Quantity::Rate) => Bound::Absolute(rate),
        };
        let statistic = (quantity == Quantity::Time).then_some(statistic);
        Demand::Threshold { metric, statistic, operator, bound, hold }
    }
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(demand in any_demand()) {
        let printed = demand.to_string();
        let line = parse(&printed).map_err(|error| TestCaseError::fail(format!("{printed}: {error}")))?;
        prop_assert_eq!(&line.demand, &demand);
        prop_assert_eq!(line.text, printed);
    }

    #[test]
    fn no_text_makes_it_panic_and_errors_stay_within_the_line(line in "\\PC{0,40}") {
        check_error(&line)?;
    }

    #[test]
    fn near_lines_neither(words in prop::collection::vec(
        prop::sample::select(vec![
            "ttft", "error", "rate", "goodput", "p99", "p0", "p", "mean", "<", ">=", "=", "<>", "800ms", "3x", "x",
            "baseline", "1%", "%", "5/s", "/s", "for", "10s", "recovers", "within", "1e5", "99999999999999999999h",
            "é", "٣", "1.", ".5", "-1s",
        ]), 0..8)) {
        check_error(&words.join(" "))?;
        check_error(&words.concat())?;
    }
}

fn check_error(line: &str) -> Result<(), TestCaseError> {
    if let Err(error) = parse(line) {
        let characters = line.chars().count();
        prop_assert!(error.column >= 1 && error.column <= characters.max(1), "{line}: {error}");
        prop_assert!(error.column - 1 + error.length <= characters, "{line}: {error}");
    }
    Ok(())
}
