//! One phase in numbers.

use crate::{close, error, late, ok, phase};
use brownout_injector::sla::{Metric, Statistic};
use brownout_runner::record::{Outcome, Phase, RequestRecord};
use brownout_runner::stats::{Interval, Sides, rate};
use brownout_runner::summary::good::GoodRule;
use brownout_runner::summary::phase::PhaseSummary;
use brownout_runner::summary::timeline::Timeline;
use std::collections::HashSet;

const FAULT: Phase = Phase::Fault;

fn summary(data: &brownout_runner::summary::data::PhaseData<'_>) -> PhaseSummary {
    PhaseSummary::new(data, "fault", &HashSet::new())
}

#[test]
fn response_times_count_from_the_scheduled_send_and_service_times_from_the_real_one() {
    let mut all: Vec<RequestRecord> = (0..10).map(|i| late(i, FAULT, i as f64, 0.1, 0.5)).collect();
    all.iter_mut().for_each(|request| request.ttfo = Some(0.14));
    let mut cut = late(10, FAULT, 9.5, 0.1, 0.5);
    (cut.outcome, cut.last_token) = (Outcome::ResetMidstream, Some(5.0));
    all.push(cut);
    let data = phase(FAULT, (0.0, 10.0), &all);
    let largest = |metric| data.observed(metric, Statistic::Max);
    assert!(close(largest(Metric::Ttft), 0.6) && close(largest(Metric::Ttfo), 0.64));
    assert!(close(largest(Metric::E2e), 0.68) && close(largest(Metric::Tpot), 0.02));
    let served = summary(&data).service_times;
    // Of a request that broke off, only the first token is known.
    assert!(close(served["ttft"].max, 0.1) && close(served["e2e"].max, 0.18), "{served:?}");
    assert_eq!((served["ttft"].n, served["e2e"].n), (11, 10));
}

#[test]
fn only_complete_requests_say_how_fast_tokens_came() {
    let mut all: Vec<RequestRecord> = (0..10).map(|i| ok(i, FAULT, i as f64, 0.1)).collect();
    for (request, outcome) in all.iter_mut().zip([Outcome::TruncatedClean, Outcome::StallTimeout]) {
        request.outcome = outcome;
    }
    let data = phase(FAULT, (0.0, 10.0), &all);
    let n = |metric| data.value(metric, Some(Statistic::Mean)).0;
    assert_eq!((n(Metric::Ttft), n(Metric::Tpot), n(Metric::E2e), n(Metric::Itl)), (10, 8, 8, 32));
}

#[test]
fn what_the_run_itself_cut_off_counts_for_nothing() {
    let mut all: Vec<RequestRecord> = (0..6).map(|i| ok(i, FAULT, i as f64, 0.1)).collect();
    all.extend([error(6, FAULT, 6.0), error(7, FAULT, 7.0)]);
    for (number, outcome) in [(8, Outcome::RunEnded), (9, Outcome::ClientCancelled)] {
        all.push(RequestRecord { outcome, ..error(number, FAULT, 8.0) });
    }
    let mut data = phase(FAULT, (0.0, 10.0), &all);
    data.judge(&GoodRule::default(), None);
    let summary = summary(&data);
    assert_eq!((summary.requests, summary.counted), (10, 8));
    assert_eq!((summary.error_rate.n, summary.error_rate.value), (8, Some(0.25)));
    assert_eq!(summary.error_rate.interval, rate::wilson(2, 8, Sides::Two));
    assert_eq!((summary.good_share.n, summary.good_share.value), (8, Some(0.75)));
    assert!(close(summary.request_rate.value, 0.8), "{:?}", summary.request_rate);
    assert!(close(summary.goodput.value, 0.6), "{:?}", summary.goodput);
}

#[test]
fn a_truncated_answer_is_one_that_ended_orderly_but_short() {
    let mut all: Vec<RequestRecord> = (0..10).map(|i| ok(i, FAULT, i as f64, 0.1)).collect();
    let ends = [
        Outcome::TruncatedClean,
        Outcome::ShortVsMaxTokens,
        Outcome::ResetMidstream,
        Outcome::ChunkedIncomplete,
        Outcome::Http5xx,
    ];
    all.iter_mut().zip(ends).for_each(|(request, outcome)| request.outcome = outcome);
    let data = phase(FAULT, (0.0, 10.0), &all);
    assert_eq!(data.value(Metric::TruncationRate, None), (10, Some(0.2)));
    assert_eq!(data.bounds(Metric::TruncationRate, None, Sides::Two), rate::wilson(2, 10, Sides::Two));
    assert_eq!(data.value(Metric::ErrorRate, None), (10, Some(0.5)));
}

#[test]
fn requests_are_finished_when_they_end_and_good_by_when_they_were_due() {
    let mut all = vec![ok(0, Phase::Baseline, 9.0, 2.0), ok(1, Phase::Baseline, 9.5, 2.0)];
    all.extend([ok(2, FAULT, 12.0, 0.1), ok(3, FAULT, 19.5, 2.0), ok(4, Phase::Baseline, 8.0, 0.1)]);
    let mut data = phase(FAULT, (10.0, 20.0), &all);
    data.judge(&GoodRule::default(), None);
    // Two of before and one of its own ended in it.
    assert!(close(data.value(Metric::RequestRate, None).1, 0.3));
    assert!(close(data.value(Metric::Goodput, None).1, 0.2));
    assert_eq!(data.good_share(), (2, 2));
}

#[test]
fn tokens_count_when_they_came_and_as_many_as_the_server_says() {
    let mut all = vec![ok(0, FAULT, 2.0, 0.1), late(1, FAULT, 9.7, 0.1, 0.5)];
    // Five events of four tokens each, and another request whose tokens come when the phase is over.
    all[0].output_tokens = 20;
    let data = phase(FAULT, (0.0, 10.0), &all);
    assert!(close(data.value(Metric::Throughput, None).1, 2.0));
    // A gap between events is shared among their tokens, and so is its change.
    all[0].gaps = vec![0.08, 0.04, 0.08, 0.04];
    all.truncate(1);
    let data = phase(FAULT, (0.0, 10.0), &all);
    assert!(close(data.observed(Metric::Itl, Statistic::Max), 0.02));
    let jitter = summary(&data).jitter;
    assert!(close(jitter.mean_change, 0.01) && close(jitter.tokens_per_event, 4.0), "{jitter:?}");
    // Without a usage nobody knows what an event carries.
    all[0].tokens_from_usage = false;
    assert!(close(phase(FAULT, (0.0, 10.0), &all).observed(Metric::Itl, Statistic::Max), 0.08));
    all[0].tokens_from_usage = true;
    // One token more than events is the end token, which is counted and never sent.
    all[0].output_tokens = 6;
    assert!(close(phase(FAULT, (0.0, 10.0), &all).observed(Metric::Itl, Statistic::Max), 0.08));
}

#[test]
fn an_event_in_the_same_read_adds_no_gap_and_is_told() {
    let mut all = vec![ok(0, FAULT, 1.0, 0.1)];
    (all[0].gaps, all[0].coalesced) = (vec![0.02, 0.0, 0.02, 0.02], 1);
    let data = phase(FAULT, (0.0, 10.0), &all);
    assert_eq!(data.value(Metric::Itl, Some(Statistic::Mean)).0, 3);
    assert!(close(data.observed(Metric::Itl, Statistic::Percentile(1.0)), 0.02));
    assert!(close(summary(&data).jitter.coalesced_share, 0.2));
    assert_eq!(summary(&phase(FAULT, (0.0, 10.0), &[])).jitter.coalesced_share, None);
    // Of an answer that broke off, nothing is told.
    all.push(RequestRecord { number: 1, outcome: Outcome::ResetMidstream, ..all[0].clone() });
    all[1].coalesced = 3;
    assert!(close(summary(&phase(FAULT, (0.0, 10.0), &all)).jitter.coalesced_share, 0.2));
}

#[test]
fn stalls_are_gaps_of_more_than_three_usual_ones_of_the_baseline() {
    let mut all: Vec<RequestRecord> = (0..30).map(|i| ok(i, FAULT, f64::from(i as u32) * 0.3, 0.1)).collect();
    all.iter_mut().for_each(|request| request.gaps = vec![0.5, 1.5, 1.75, 2.0]);
    let mut data = phase(FAULT, (0.0, 10.0), &all);
    data.judge(&GoodRule::default(), Some(0.5));
    assert!(close(data.value(Metric::StallRate, None).1, 0.5), "{:?}", data.value(Metric::StallRate, None));
    // By its own usual gap a phase that is slow throughout has none.
    data.usual_gap = None;
    data.judge(&GoodRule::default(), None);
    let mut own = phase(FAULT, (0.0, 10.0), &all);
    own.judge(&GoodRule::default(), None);
    assert!(close(own.value(Metric::StallRate, None).1, 0.0));
}

#[test]
fn a_spread_needs_as_many_gaps_as_its_percentile() {
    let gaps = |n: usize| {
        let mut request = ok(0, FAULT, 1.0, 0.1);
        request.gaps = vec![0.02; n];
        (request.chunks, request.output_tokens) = (n as u32 + 1, n as u32 + 1);
        let all = [request];
        summary(&phase(FAULT, (0.0, 10.0), &all)).jitter.spread
    };
    assert_eq!(gaps(298), None);
    assert!(close(gaps(299), 0.0));
    let all: Vec<RequestRecord> = (0..58).map(|i| ok(i, FAULT, i as f64 * 0.1, 0.1)).collect();
    let p95 = |all: &[RequestRecord]| {
        phase(FAULT, (0.0, 10.0), all).value(Metric::Ttft, Some(Statistic::Percentile(95.0)))
    };
    assert_eq!(p95(&all), (58, None));
    let more: Vec<RequestRecord> = (0..59).map(|i| ok(i, FAULT, i as f64 * 0.1, 0.1)).collect();
    assert!(p95(&more).1.is_some());
}

#[test]
fn where_nothing_was_sent_there_is_no_rate_and_where_nothing_came_it_is_none() {
    let nothing = phase(FAULT, (0.0, 10.0), &[]);
    for metric in [Metric::Goodput, Metric::Throughput, Metric::RequestRate, Metric::ErrorRate] {
        assert_eq!(nothing.value(metric, None), (0, None), "{metric:?}");
        assert_eq!(nothing.bounds(metric, None, Sides::Two), None, "{metric:?}");
    }
    let all = [error(0, FAULT, 1.0)];
    assert!(close(phase(FAULT, (0.0, 10.0), &all).value(Metric::Throughput, None).1, 0.0));
}

#[test]
fn gaps_of_one_request_are_no_independent_witnesses() {
    // Half of the requests are slow throughout: 25 requests say far less than their 1,000 gaps seem to.
    let mut all: Vec<RequestRecord> = (0..25).map(|i| ok(i, FAULT, i as f64 * 0.4, 0.1)).collect();
    for request in &mut all {
        request.gaps = vec![if request.number * 7 % 5 < 2 { 0.06 } else { 0.02 }; 40];
    }
    let data = phase(FAULT, (0.0, 10.0), &all);
    let mean = data.bounds(Metric::Itl, Some(Statistic::Percentile(60.0)), Sides::Two).expect("enough");
    assert!(mean.low < Some(0.03) && mean.high > Some(0.05), "{mean:?}");
    let resampled = data.resampled(Metric::ErrorRate, None);
    assert!(resampled.replicates.iter().all(|share| *share == 0.0), "nothing failed");
}

#[test]
fn resampled_shares_are_those_of_their_own_outcomes() {
    let mut all: Vec<RequestRecord> = (0..40).map(|i| ok(i, FAULT, i as f64 * 0.2, 0.1)).collect();
    all.iter_mut().for_each(|request| request.outcome = Outcome::Http5xx);
    // What the run itself cut off is in no share.
    all.iter_mut().step_by(4).for_each(|request| request.outcome = Outcome::RunEnded);
    let data = phase(FAULT, (0.0, 10.0), &all);
    let all_of = |metric| data.resampled(metric, None).interval(Sides::Two);
    assert_eq!(all_of(Metric::ErrorRate), Some(Interval::new(1.0, 1.0)));
    assert_eq!(all_of(Metric::TruncationRate), Some(Interval::new(0.0, 0.0)));
}

#[test]
fn times_that_are_no_times_are_left_out() {
    let mut all: Vec<RequestRecord> = (0..3).map(|i| ok(i, FAULT, i as f64, 0.1)).collect();
    (all[0].ttft, all[1].ttft) = (Some(-0.5), Some(f64::NAN));
    assert_eq!(phase(FAULT, (0.0, 10.0), &all).value(Metric::Ttft, Some(Statistic::Mean)).0, 1);
}

#[test]
fn a_failure_is_drawn_where_it_ended_and_by_whose_it_was() {
    let mut all =
        vec![ok(0, FAULT, 0.5, 0.1), error(1, FAULT, 1.0), error(2, FAULT, 1.0), error(3, FAULT, 1.0)];
    all.iter_mut().skip(1).for_each(|request| request.ended = 7.25);
    all.push(late(4, FAULT, 4.0, 0.1, 0.2));
    all[4].gaps = vec![0.0, 0.5, 0.0, 0.03];
    let timeline = Timeline::new(&all, 10.0, &GoodRule::default(), &HashSet::from([2]));
    let bin = |at: f64| &timeline.bins[(at / timeline.bin_seconds) as usize];
    assert_eq!((bin(7.25).organic_errors, bin(7.25).injected_errors), (2, 1));
    assert_eq!((bin(1.0).organic_errors, bin(1.0).injected_errors, bin(1.0).scheduled), (0, 0, 3));
    // First token after 300 ms, two tokens in that read; the next two 500 ms later in one read, the last 30 ms later.
    assert!(close(bin(4.0).ttft_p50, 0.3) && timeline.bin_seconds == 1.0, "{:?}", bin(4.0));
    assert!(close(bin(4.0).itl_p50, 0.03) && close(bin(4.0).itl_p95, 0.5), "{:?}", bin(4.0));
    assert_eq!(bin(4.0).tokens, 5.0);
    assert_eq!((bin(0.5).good, bin(1.0).good), (1, 0));
}

#[test]
fn ends_are_told_by_how_many_had_them_with_what_was_said_most_often_first_of_equals() {
    let mut all: Vec<RequestRecord> = (0..3).map(|i| error(i, FAULT, 1.0)).collect();
    all.extend([ok(3, FAULT, 1.0, 0.1), ok(4, FAULT, 1.0, 0.1)]);
    for (request, text) in all.iter_mut().zip(["of a fault", "b", "a"]) {
        request.error = Some(text.to_owned());
    }
    let summary = PhaseSummary::new(&phase(FAULT, (0.0, 10.0), &all), "fault", &HashSet::from([0, 1]));
    let told = |i: usize| {
        let count: &brownout_runner::summary::phase::OutcomeCount = &summary.outcomes[i];
        (count.outcome.as_str(), count.injected, count.organic, count.said.as_deref())
    };
    assert_eq!([told(0), told(1)], [("http_5xx", 2, 1, Some("a")), ("ok", 0, 2, None)]);
    let summary = PhaseSummary::new(&phase(FAULT, (0.0, 10.0), &all), "fault", &HashSet::from([0]));
    assert_eq!(summary.outcomes[0].said.as_deref(), Some("a"));
}
