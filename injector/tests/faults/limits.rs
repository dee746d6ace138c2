//! rateLimit, whose state is shared by requests, and queue.

use crate::harness::*;
use brownout_injector::effect::{Before, RetryValue};
use brownout_injector::fault::Buckets;
use brownout_injector::wire::Api;
use proptest::prelude::*;
use serde_json::json;
use std::time::Duration;

const NANO: Duration = Duration::from_nanos(1);

proptest! {
    /// The wait that is told is exact: then the same request is admitted, and one nanosecond sooner it is not.
    #[test]
    fn retry_after_is_true(
        requests in prop::option::of(1.0_f64..1000.0),
        tokens in prop::option::of(1.0_f64..100_000.0),
        gaps in prop::collection::vec((0_u64..3_000_000_000, 0_u32..2000), 1..200),
        burst in 60_u64..120,
    ) {
        let mut buckets = Buckets::new(requests, tokens, Duration::from_secs(burst));
        let mut now = Duration::ZERO;
        for (gap, asked) in gaps {
            now += Duration::from_nanos(gap);
            let Err(refusal) = buckets.clone().take(now, asked, Api::OpenaiChat) else {
                prop_assert!(buckets.take(now, asked, Api::OpenaiChat).is_ok());
                continue;
            };
            let Some(wait) = refusal.retry_after else {
                let most = tokens.expect("only tokens can be too many") * burst as f64 / 60.0;
                prop_assert!(f64::from(asked) > most * 0.999);
                prop_assert!(buckets.clone().take(now + Duration::from_secs(3600), asked, Api::OpenaiChat).is_err());
                continue;
            };
            prop_assert!(wait > Duration::ZERO);
            prop_assert!(buckets.clone().take(now + wait, asked, Api::OpenaiChat).is_ok());
            prop_assert!(buckets.clone().take(now + wait - NANO, asked, Api::OpenaiChat).is_err());
        }
    }

    /// Over any stretch of time no more is admitted than a full bucket and what refills meanwhile; a long rest saves up
    /// no more than a full bucket.
    #[test]
    fn no_more_than_the_rate_is_admitted(
        rate in 60_u32..6000,
        burst in 1_u64..20,
        gaps in prop::collection::vec(prop_oneof![9 => 0_u64..50, 1 => 0_u64..60_000], 1..300),
    ) {
        let mut buckets = Buckets::new(Some(f64::from(rate)), None, Duration::from_secs(burst));
        let (mut now, mut admitted) = (Duration::ZERO, Vec::new());
        for gap in gaps {
            now += Duration::from_millis(gap);
            for _ in 0..8 {
                if buckets.take(now, 0, Api::OpenaiChat).is_ok() {
                    admitted.push(now);
                }
            }
        }
        for (i, from) in admitted.iter().enumerate() {
            for (k, to) in admitted.iter().enumerate().skip(i) {
                let most = f64::from(rate) * (burst as f64 + (*to - *from).as_secs_f64()) / 60.0;
                prop_assert!((k - i + 1) as f64 <= most + 1e-3, "{} of at most {most}", k - i + 1);
            }
        }
    }
}

fn value<'a>(headers: &'a [(String, RetryValue)], name: &str) -> Option<&'a RetryValue> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

#[test]
fn the_headers_are_the_providers_own() {
    let text = |text: &str| Some(RetryValue::Text(text.to_owned()));
    let mut buckets = Buckets::new(Some(10.0), Some(6000.0), Duration::from_secs(60));
    let headers = buckets.take(Duration::ZERO, 1500, Api::OpenaiChat).expect("full buckets");
    assert_eq!(value(&headers, "x-ratelimit-limit-requests").cloned(), text("10"));
    assert_eq!(value(&headers, "x-ratelimit-remaining-requests").cloned(), text("9"));
    assert_eq!(value(&headers, "x-ratelimit-reset-requests").cloned(), text("6s"));
    assert_eq!(value(&headers, "x-ratelimit-remaining-tokens").cloned(), text("4500"));
    assert_eq!(value(&headers, "x-ratelimit-reset-tokens").cloned(), text("15s"));
    let headers = buckets.take(Duration::from_millis(20), 3000, Api::AnthropicMessages).expect("enough");
    assert_eq!(value(&headers, "anthropic-ratelimit-tokens-remaining").cloned(), text("1502"));
    let reset = RetryValue::Rfc3339In(Duration::from_millis(44_980));
    assert_eq!(value(&headers, "anthropic-ratelimit-tokens-reset").cloned(), Some(reset));

    let refusal =
        buckets.take(Duration::from_millis(20), 1600, Api::OpenaiChat).expect_err("only 1502 are left");
    assert_eq!((refusal.what, refusal.retry_after), ("tokens", Some(Duration::from_millis(980))));
    let answer = refusal.answer(Api::OpenaiChat);
    assert_eq!(answer.status, 429);
    assert_eq!(value(&answer.headers, "retry-after").cloned(), text("1"));
    assert_eq!(value(&answer.headers, "retry-after-ms").cloned(), text("980"));

    let too_large = buckets.take(Duration::from_secs(500), 6001, Api::OpenaiChat).expect_err("never fits");
    assert_eq!(too_large.retry_after, None);
    assert_eq!(value(&too_large.answer(Api::OpenaiChat).headers, "retry-after"), None);
}

#[test]
fn what_fits_a_full_bucket_is_admitted_and_the_longer_wait_is_told() {
    let minute = Duration::from_secs(60);
    let api = Api::OpenaiChat;
    assert!(Buckets::new(None, Some(6000.0), minute).take(Duration::ZERO, 6000, api).is_ok());
    let mut both = Buckets::new(Some(1.0), Some(60.0), minute);
    both.take(Duration::ZERO, 60, api).expect("full buckets");
    let at = Duration::from_micros(59_000_500);
    for (tokens, what, seconds) in [(1, "requests", 0.9995), (60, "tokens", 0.9995), (59, "requests", 0.9995)]
    {
        let refusal = both.take(at, tokens, api).expect_err("a minute has not passed");
        let wait = refusal.retry_after.expect("it will fit");
        assert!((wait.as_secs_f64() - seconds).abs() < 1e-9, "{tokens}: {wait:?}");
        assert!(["requests", what].contains(&refusal.what), "{refusal:?}");
    }
    let mut tokens_last = Buckets::new(Some(60.0), Some(60.0), minute);
    for _ in 0..60 {
        tokens_last.take(Duration::ZERO, 1, api).expect("one of sixty");
    }
    let refusal = tokens_last.take(Duration::ZERO, 30, api).expect_err("both are empty");
    assert_eq!((refusal.what, refusal.retry_after), ("tokens", Some(Duration::from_secs(30))));
}

#[test]
fn times_and_what_is_left_are_rounded_to_be_safe_and_readable() {
    let text = |text: &str| Some(RetryValue::Text(text.to_owned()));
    let api = Api::OpenaiChat;
    for (rate, asked, reset, left) in [
        (60.0, 1, "1s", "7199"),
        (60_000.0, 999, "999ms", "7199001"),
        (60.0, 90, "1m30s", "7110"),
        (1.0, 61, "1h1m0s", "59"),
        // 60 / 11 s is no whole number of nanoseconds.
        (11.0, 1, "5.455s", "1319"),
    ] {
        let mut buckets = Buckets::new(None, Some(rate), Duration::from_secs(7200));
        let headers = buckets.take(Duration::ZERO, asked, api).expect("a full bucket");
        assert_eq!(value(&headers, "x-ratelimit-reset-tokens").cloned(), text(reset), "{asked} at {rate}");
        assert_eq!(value(&headers, "x-ratelimit-remaining-tokens").cloned(), text(left), "{asked} at {rate}");
    }
    // Who waits for as long as the answer says has waited long enough.
    let mut buckets = Buckets::new(Some(60.0), None, Duration::from_secs(1));
    buckets.take(Duration::ZERO, 0, api).expect("a full bucket");
    let refusal = buckets.take(Duration::from_micros(19_500), 0, api).expect_err("980.5 ms are left");
    let headers = refusal.answer(api).headers;
    assert_eq!(value(&headers, "retry-after-ms").cloned(), text("981"));
    assert_eq!(value(&headers, "retry-after").cloned(), text("1"));
}

#[test]
fn the_parameters_reach_the_proxy() {
    assert_eq!(
        before(json!({"rateLimit": {"requestsPerMinute": 30.0}}), Api::OpenaiChat),
        Before::RateLimit {
            requests_per_minute: Some(30.0),
            tokens_per_minute: None,
            burst: Duration::from_secs(60)
        }
    );
    let queue = before(json!({"queue": {"maxInFlight": 2, "timeout": "1s"}}), Api::OpenaiChat);
    let Before::Queue { max_in_flight, max_waiting, timeout, full } = queue else { panic!("{queue:?}") };
    assert_eq!((max_in_flight, max_waiting, timeout), (2, u32::MAX, Some(Duration::from_secs(1))));
    assert_eq!(full.status, 503);
}
