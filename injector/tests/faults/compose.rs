//! How overlapping faults compose: the rule in `effect.rs`, on real kinds.

use crate::harness::*;
use brownout_injector::draw::Draw;
use brownout_injector::effect::{Chain, Close, Done, Effect, Out, Step, Then};
use brownout_injector::wire::{Api, Class, Event, sse};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;
use std::time::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

proptest! {
    /// Two effects in a chain do what one does to what the other let through.
    #[test]
    fn a_chain_is_one_after_the_other(
        api in api(), words in words(0..12), first in kinds(), second in kinds(),
    ) {
        let events = stream(api, &words);
        let both = run(&[first.clone(), second.clone()], api, &events);
        let one = run(&[first], api, &events);
        prop_assume!(!matches!(one.then, Then::Close(_)));
        let between: Vec<Vec<u8>> = one.events().iter().map(|raw| raw.to_vec()).collect();
        // The same randomness as in the chain, where it has index 1.
        let mut chain = Chain::new(api);
        if let Some(effect) = fault(second).on_answer(&facts(api), Draw::new(1, "test", 1)) {
            chain.push(1, FOREVER, effect);
        }
        let (mut bytes, mut ended) = (Vec::new(), false);
        for raw in &between {
            let data = sse::fields(raw).data;
            let class = brownout_injector::wire::classify(api, data.as_deref());
            let event = Event { raw, data: data.as_deref().unwrap_or_default(), class, api, token: 0 };
            let step = chain.event(Duration::ZERO, &event);
            match &step.out {
                Out::Same => bytes.extend_from_slice(raw),
                Out::Replace(new) => bytes.extend_from_slice(new),
            }
            if step.then != Then::Continue {
                ended = true;
                break;
            }
        }
        if !ended {
            chain.end(Duration::ZERO);
        }
        prop_assert_eq!(String::from_utf8_lossy(&both.bytes), String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn waits_add_up_and_the_larger_spacing_and_lower_rate_hold(api in api(), words in words(1..8)) {
        let faults = [
            json!({"slowTokens": {"delay": {"constant": "10ms"}}}),
            json!({"slowTokens": {"tokensPerSecond": 100}}),
            json!({"bandwidth": {"bytesPerSecond": 900}}),
            json!({"slowTokens": {"delay": {"constant": "5ms"}}}),
            json!({"slowTokens": {"tokensPerSecond": 20}}),
            json!({"bandwidth": {"bytesPerSecond": 300}}),
        ];
        let seen = run(&faults, api, &stream(api, &words));
        prop_assert_eq!(seen.added(), ms(15) * words.len() as u32);
        let held: Vec<_> = seen.steps.iter().filter(|step| !step.hold.add.is_zero()).collect();
        prop_assert!(held.iter().all(|step| step.hold.space == ms(50)));
        prop_assert!(held.iter().all(|step| step.hold.bytes_per_second.map(u64::from) == Some(300)));
    }

    #[test]
    fn whoever_ends_first_ends_for_all(api in api(), words in words(6..12), a in 0_usize..5, b in 0_usize..5) {
        let cut = json!({"truncate": {"afterTokens": a}});
        let close = json!({"disconnect": {"afterTokens": b}});
        for faults in [[cut.clone(), close.clone()], [close, cut]] {
            let seen = run(&faults, api, &stream(api, &words));
            prop_assert_eq!(seen.texts(api).len(), a.min(b));
            if a < b {
                prop_assert_eq!(seen.then, Then::End);
            } else if b < a {
                prop_assert_eq!(seen.then, Then::Close(Close::Rst));
            }
        }
    }
}

/// Kinds that act on answers, with parameters that make them act.
fn kinds() -> impl Strategy<Value = serde_json::Value> {
    let all = vec![
        json!({"firstTokenDelay": {"delay": {"constant": "1s"}}}),
        json!({"slowTokens": {"delay": {"constant": "1ms"}}}),
        json!({"stall": {"atToken": 3, "for": "1s"}}),
        json!({"truncate": {"afterTokens": 4}}),
        json!({"truncate": {"afterTokens": 3, "finish": "length"}}),
        json!({"disconnect": {"afterTokens": 5}}),
        json!({"corruptTokens": {"how": "drop", "share": 0.5}}),
        json!({"corruptTokens": {"how": "repeat", "share": 0.5}}),
        json!({"corruptTokens": {"how": "swap", "share": 0.5}}),
        json!({"malformedStream": {"how": "badJson", "atToken": 2}}),
        json!({"malformedStream": {"how": "badUtf8", "atToken": 2}}),
        json!({"inbandError": {"atToken": 4, "thenDone": true}}),
        json!({"emptyResponse": {"how": "content"}}),
        json!({"emptyResponse": {"how": "body"}}),
        json!({"bandwidth": {"bytesPerSecond": 100}}),
        json!({"wrongModel": {}}),
        json!({"usageLie": {"factor": 3}}),
        json!({"usageLie": {"omit": true}}),
    ];
    prop::sample::select(all)
}

#[test]
fn tokens_are_counted_in_what_comes_through() {
    let words: Vec<String> = (0..10).map(|i| format!(" w{i}")).collect();
    let faults = [
        json!({"corruptTokens": {"how": "drop", "share": 1.0}}),
        json!({"stall": {"atToken": 1, "for": "1s"}}),
    ];
    let seen = run(&faults, Api::OpenaiChat, &stream(Api::OpenaiChat, &words));
    assert_eq!((seen.done[0].touched, seen.done[1].touched), (10, 0), "no token was left to stall at");
}

#[test]
fn an_effect_whose_time_is_over_passes_and_holds_no_longer() {
    let api = Api::TritonGenerate;
    let raw = br#"data: {"text_output":"x"}

"#;
    let event = Event { raw, data: b"", class: Class::Content, api, token: 0 };
    let mut chain = Chain::new(api);
    let stall = fault(json!({"slowTokens": {"delay": {"constant": "10s"}}}));
    let draw = Draw::new(1, "test", 0);
    chain.push(0, Duration::from_secs(15), stall.on_answer(&facts(api), draw).expect("it acts on answers"));
    chain.push(1, Duration::from_secs(12), stall.on_answer(&facts(api), draw).expect("it acts on answers"));
    assert_eq!(
        chain.event(Duration::ZERO, &event).hold.add,
        Duration::from_secs(12),
        "10 s, then 2 s are left"
    );
    assert_eq!(chain.event(Duration::from_secs(13), &event).hold.add, Duration::from_secs(2));
    assert_eq!(chain.event(Duration::from_secs(15), &event).hold.add, Duration::ZERO);
    let asked: Vec<Duration> = chain.done().map(|(_, done)| done.asked).collect();
    assert_eq!(asked, [Duration::from_secs(12), Duration::from_secs(2)]);
}

#[test]
fn whole_bodies_pass_through_all() {
    let api = Api::OpenaiChat;
    let words: Vec<String> = (0..8).map(|i| format!(" w{i}")).collect();
    let faults = [
        json!({"truncate": {"afterTokens": 4, "finish": "length"}}),
        json!({"corruptTokens": {"how": "repeat", "share": 1.0}}),
        json!({"wrongModel": {"model": "other"}}),
    ];
    let reading = run_body(&faults, api, &body(api, &words), 8).whole(api);
    assert_eq!(reading.text, " w0 w0 w1 w1 w2 w2 w3 w3");
    assert_eq!((reading.model.as_deref(), reading.finish.as_deref()), (Some("other"), Some("length")));
}

/// Does the same to every event that contains `at`.
struct Scripted {
    at: &'static str,
    step: Step,
}

impl Effect for Scripted {
    fn event(&mut self, event: &Event<'_>) -> Step {
        let here = event.raw.windows(self.at.len()).any(|bytes| bytes == self.at.as_bytes());
        if here { self.step.clone() } else { Step::PASS }
    }

    fn done(&self) -> Done {
        Done::default()
    }
}

/// What comes first in the stream ends it, whichever effect made it: one puts two events in the place of one and closes
/// behind them, the next one ends at the first of the two, or at the second, or not at all.
#[test]
fn the_end_that_comes_first_in_the_stream_counts() {
    let raw = b"data: x\n\n";
    let event = Event { raw, data: b"x", class: Class::Meta, api: Api::OpenaiChat, token: 0 };
    for (at, bytes, then) in [
        ("data: a", "data: a\n\n", Then::End),
        ("data: b", "data: a\n\ndata: b\n\n", Then::End),
        ("data: c", "data: a\n\ndata: b\n\n", Then::Close(Close::Rst)),
    ] {
        let mut chain = Chain::new(Api::OpenaiChat);
        let two = Step::replace(Bytes::from_static(b"data: a\n\ndata: b\n\n")).then(Then::Close(Close::Rst));
        chain.push(0, FOREVER, Box::new(Scripted { at: "data: x", step: two }));
        chain.push(1, FOREVER, Box::new(Scripted { at, step: Step::PASS.then(Then::End) }));
        let step = chain.event(Duration::ZERO, &event);
        assert_eq!((step.out, step.then), (Out::Replace(Bytes::from_static(bytes.as_bytes())), then), "{at}");
    }
}

/// Does one thing at the end of the stream only.
struct AtEnd(Step);

impl Effect for AtEnd {
    fn event(&mut self, _: &Event<'_>) -> Step {
        Step::PASS
    }

    fn end(&mut self) -> Step {
        self.0.clone()
    }

    fn done(&self) -> Done {
        Done::default()
    }
}

#[test]
fn who_closes_at_an_event_behind_which_another_ended_leaves_no_end_to_later_effects() {
    let raw = b"data: x\n\n";
    let event = Event { raw, data: b"x", class: Class::Meta, api: Api::OpenaiChat, token: 0 };
    let mut chain = Chain::new(Api::OpenaiChat);
    for then in [Then::End, Then::Close(Close::Fin)] {
        chain.push(0, FOREVER, Box::new(Scripted { at: "data: x", step: Step::PASS.then(then) }));
    }
    chain.push(0, FOREVER, Box::new(AtEnd(Step::replace(Bytes::from_static(b"data: end\n\n")))));
    let step = chain.event(Duration::ZERO, &event);
    assert_eq!((step.out, step.then), (Out::Same, Then::Close(Close::Fin)));
}

#[test]
fn half_an_event_is_no_token_to_the_effects_behind() {
    let raw = b"data: x\n\n";
    let api = Api::OpenaiChat;
    let event = Event { raw, data: b"x", class: Class::Content, api, token: 0 };
    let slow = fault(json!({"slowTokens": {"delay": {"constant": "10ms"}}}));
    for (made, tokens) in [
        ("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", 1),
        ("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}", 0),
    ] {
        let mut chain = Chain::new(api);
        let step = Step::replace(Bytes::from_static(made.as_bytes()));
        chain.push(0, FOREVER, Box::new(Scripted { at: "data: x", step }));
        let effect = slow.on_answer(&facts(api), Draw::new(1, "test", 0)).expect("it acts on answers");
        chain.push(1, FOREVER, effect);
        assert_eq!(chain.event(Duration::ZERO, &event).hold.add, ms(10 * tokens), "{made}");
    }
}

#[test]
fn a_spacing_reaches_no_further_than_its_effect() {
    let api = Api::OpenaiChat;
    let event = Event { raw: b"data: x\n\n", data: b"x", class: Class::Content, api, token: 0 };
    let paced = fault(json!({"slowTokens": {"tokensPerSecond": 0.1}}));
    let mut chain = Chain::new(api);
    let effect = paced.on_answer(&facts(api), Draw::new(1, "test", 0)).expect("it acts on answers");
    chain.push(0, ms(4000), effect);
    assert_eq!(chain.event(ms(1000), &event).hold.space, ms(3000));
}

#[test]
fn a_whole_body_passes_effects_whose_time_is_over_and_none_behind_one_that_closed() {
    let api = Api::OpenaiChat;
    let whole = body(api, &[" a".to_owned(), " b".to_owned()]);
    let slow = json!({"slowTokens": {"delay": {"constant": "10ms"}}});
    let cut = json!({"disconnect": {"afterTokens": 1}});
    let seen = run_body(&[cut, slow, json!({"wrongModel": {"model": "other"}})], api, &whole, 2);
    assert_eq!((seen.then, seen.added()), (Then::Close(Close::Rst), Duration::ZERO));
    assert!(whole.starts_with(&seen.bytes));
    let wrong = fault(json!({"wrongModel": {"model": "other"}}));
    let mut chain = Chain::new(api);
    let effect = wrong.on_answer(&facts(api), Draw::new(1, "test", 0)).expect("it acts on answers");
    chain.push(0, ms(1000), effect);
    assert_eq!(chain.body(ms(1000), &whole, 2), Step::PASS);
}
