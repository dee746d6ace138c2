//! Faults that hold: latency, firstTokenDelay, stall, slowTokens, bandwidth.

use crate::harness::*;
use brownout_injector::draw::Draw;
use brownout_injector::effect::{Before, Out};
use brownout_injector::units::DelayDist;
use brownout_injector::wire::Api;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Whether not a byte was changed.
fn untouched(seen: &Seen, events: &[Vec<u8>]) -> bool {
    seen.bytes == events.concat() && seen.steps.iter().all(|step| step.out == Out::Same)
}

#[test]
fn latency_waits_for_what_it_draws() {
    assert_eq!(
        before(json!({"latency": {"delay": {"constant": "80ms"}}}), Api::OpenaiChat),
        Before::Wait(ms(80))
    );
    let drawn = |n| {
        let fault = fault(json!({"latency": {"delay": {"uniform": {"min": "10ms", "max": "20ms"}}}}));
        match fault.before(&facts(Api::OpenaiChat), Draw::new(1, "test", n)) {
            Before::Wait(wait) => wait,
            other => panic!("{other:?}"),
        }
    };
    assert!((0..100).map(drawn).all(|wait| (ms(10)..ms(20)).contains(&wait)));
    assert_ne!(drawn(0), drawn(1));
    assert_eq!(drawn(0), drawn(0));
}

proptest! {
    #[test]
    fn the_first_token_alone_is_held(api in api(), words in words(1..12)) {
        let events = stream(api, &words);
        let faults = [json!({"firstTokenDelay": {"delay": {"constant": "250ms"}}})];
        let seen = run(&faults, api, &events);
        prop_assert!(untouched(&seen, &events));
        let held: Vec<usize> = (0..seen.steps.len()).filter(|i| seen.steps[*i].hold.add > Duration::ZERO).collect();
        let first = events.iter().position(|raw| String::from_utf8_lossy(raw).contains(&json_text(&words[0])));
        prop_assert_eq!(held, vec![first.expect("the first token is there")]);
        prop_assert_eq!((seen.added(), seen.done[0].asked), (ms(250), ms(250)));
        let whole = run_body(&faults, api, &body(api, &words), words.len());
        prop_assert_eq!(whole.added(), ms(250));
    }

    #[test]
    fn a_stall_is_at_its_token_or_not_at_all(api in api(), words in words(0..12), at in 1_usize..15) {
        let events = stream(api, &words);
        let faults = [json!({"stall": {"atToken": at, "for": "3s"}})];
        let there = at <= words.len();
        let want = if there { Duration::from_secs(3) } else { Duration::ZERO };
        let seen = run(&faults, api, &events);
        prop_assert!(untouched(&seen, &events));
        prop_assert_eq!((seen.touched(), seen.added()), (u64::from(there), want));
        let whole = run_body(&faults, api, &body(api, &words), words.len());
        let usage_less = api == Api::TritonGenerate && !there;
        prop_assert!(usage_less || (whole.touched(), whole.added()) == (u64::from(there), want));
    }

    /// The whole answer waits as long as the stream does in sum, and both as long as the draws say.
    #[test]
    fn slow_tokens_sum_up(api in api(), words in words(1..20)) {
        let events = stream(api, &words);
        let text = json!({"lognormal": {"median": "20ms", "p99": "90ms"}});
        let dist: DelayDist = serde_json::from_value(text.clone()).expect("a distribution");
        let faults = [json!({"slowTokens": {"delay": text}})];
        let draw = Draw::new(1, "test", 0).fork("tokens");
        let want: Duration = (0..words.len() as u64).map(|i| dist.sample(draw, i)).sum();
        let seen = run(&faults, api, &events);
        prop_assert!(untouched(&seen, &events));
        prop_assert_eq!(seen.added(), want);
        prop_assert_eq!(seen.done[0].asked, want);
        prop_assert_eq!(seen.touched(), words.len() as u64);
        let whole = run_body(&faults, api, &body(api, &words), words.len());
        prop_assert_eq!(whole.added(), want);
        prop_assert_eq!(whole.touched(), words.len() as u64);
    }

    #[test]
    fn paced_tokens_are_spaced(api in api(), words in words(1..20)) {
        let events = stream(api, &words);
        let faults = [json!({"slowTokens": {"tokensPerSecond": 20.0}})];
        let seen = run(&faults, api, &events);
        prop_assert!(untouched(&seen, &events));
        let spaced: Vec<Duration> =
            seen.steps.iter().map(|step| step.hold.space).filter(|space| !space.is_zero()).collect();
        prop_assert_eq!(spaced, vec![ms(50); words.len()]);
        let whole = run_body(&faults, api, &body(api, &words), words.len());
        prop_assert_eq!(whole.steps[0].hold.space, ms(50) * words.len() as u32);
    }

    #[test]
    fn bandwidth_is_a_rate_on_every_byte(api in api(), words in words(0..8), rate in 1_u64..1_000_000) {
        let events = stream(api, &words);
        let faults = [json!({"bandwidth": {"bytesPerSecond": rate}})];
        let seen = run(&faults, api, &events);
        prop_assert!(untouched(&seen, &events));
        let rates = seen.steps[..events.len()].iter().map(|step| step.hold.bytes_per_second.map(u64::from));
        prop_assert_eq!(rates.collect::<Vec<_>>(), vec![Some(rate); events.len()]);
        let note = format!("{} bytes at {rate} bytes/s", events.concat().len());
        prop_assert_eq!(&seen.done[0].note, &note);
    }
}

/// `text` as it stands inside a JSON string.
fn json_text(text: &str) -> String {
    Value::from(text).to_string()
}

#[test]
fn embeddings_have_no_tokens_to_hold() {
    for value in [
        json!({"firstTokenDelay": {"delay": {"constant": "1s"}}}),
        json!({"slowTokens": {"delay": {"constant": "1s"}}}),
        json!({"stall": {"atToken": 1, "for": "1s"}}),
    ] {
        let seen = run_body(&[value], Api::OpenaiEmbeddings, &body(Api::OpenaiEmbeddings, &[]), 0);
        assert_eq!((seen.touched(), seen.added()), (0, Duration::ZERO));
    }
}

/// A usage is what the server says, and the server may be broken.
#[test]
fn tokens_of_a_hostile_usage_are_held_up_to_a_million() {
    let faults = [json!({"slowTokens": {"delay": {"constant": "1us"}}})];
    let api = Api::OpenaiChat;
    let seen = run_body(&faults, api, &body(api, &[" a".to_owned()]), 50_000_000);
    assert_eq!((seen.touched(), seen.added()), (1_000_000, Duration::from_secs(1)));
}
