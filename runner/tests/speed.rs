//! A large run is summed up while a person still looks. Ignored by default: only an optimised build on a quiet machine
//! says anything. `cargo test --release -p brownout-runner --test speed -- --ignored --nocapture`

mod common;

use brownout_injector::Draw;
use brownout_runner::record::Phase;
use std::time::Instant;

#[test]
#[ignore = "a measurement: needs an optimised build and a quiet machine"]
fn a_hundred_thousand_requests_take_less_than_two_seconds() {
    let mut run = common::story(1.0);
    run.recording.phases =
        vec![(Phase::Baseline, 0.0, 400.0), (Phase::Fault, 400.0, 800.0), (Phase::Recovery, 800.0, 1000.0)];
    run.recording.requests = (0..100_000_u64)
        .map(|number| {
            let draw = Draw::new(3, "speed", number);
            let at = number as f64 * 0.01;
            let phase = if at < 400.0 {
                Phase::Baseline
            } else if at < 800.0 {
                Phase::Fault
            } else {
                Phase::Recovery
            };
            let gaps = (0..63).map(|i| (0.02 * (0.3 * draw.normal(10 + i)).exp()) as f32).collect();
            common::complete_request(number, phase, at, 0.1 * (0.3 * draw.normal(1)).exp(), gaps)
        })
        .collect();
    let begun = Instant::now();
    let report = run.report();
    let took = begun.elapsed();
    println!("100,000 requests with 63 gaps each were summed up in {took:?}");
    assert_eq!(report.phases.len(), 3);
    assert!(took.as_secs_f64() < 2.0, "{took:?}");
}
