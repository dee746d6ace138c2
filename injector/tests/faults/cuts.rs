//! Faults that end an answer: truncate, disconnect, inbandError, emptyResponse.

use crate::harness::*;
use brownout_injector::effect::{Close, Then};
use brownout_injector::wire::{Api, read_body};
use proptest::prelude::*;
use serde_json::json;

/// What a truncated answer's reason is, as the readers say it.
fn length_word(api: Api) -> Option<&'static str> {
    match api {
        Api::AnthropicMessages => Some("max_tokens"),
        Api::TritonGenerate => None,
        _ => Some("length"),
    }
}

proptest! {
    #[test]
    fn truncate_lets_exactly_k_tokens_through(api in api(), words in words(0..12), k in 0_usize..14) {
        let events = stream(api, &words);
        let seen = run(&[json!({"truncate": {"afterTokens": k}})], api, &events);
        prop_assert_eq!(seen.then, Then::End);
        if k >= words.len() {
            prop_assert_eq!(seen.touched(), 0);
            prop_assert_eq!(&seen.bytes, &events.concat());
        } else {
            prop_assert_eq!(seen.touched(), 1);
            prop_assert_eq!(seen.texts(api), words[..k].to_vec());
            prop_assert!(events.concat().starts_with(&seen.bytes), "what got through is as it was");
            prop_assert_eq!(seen.finish(api), None);
            prop_assert!(seen.readings(api).iter().all(|reading| !reading.done));
        }
    }

    #[test]
    fn truncate_can_end_as_the_provider_does(api in api(), words in words(1..12), k in 0_usize..11) {
        prop_assume!(k < words.len());
        let seen = run(&[json!({"truncate": {"afterTokens": k, "finish": "length"}})], api, &stream(api, &words));
        prop_assert_eq!(seen.then, Then::End);
        prop_assert_eq!(seen.texts(api), words[..k].to_vec());
        let finish = seen.finish(api);
        prop_assert_eq!(finish.as_deref(), length_word(api));
        let readings = seen.readings(api);
        prop_assert_eq!(readings.last().is_some_and(|last| last.done), api != Api::TritonGenerate);
        // What is said again at the end is what got through.
        let values = seen.values();
        let last = values.last().cloned().unwrap_or_default();
        match api {
            Api::TgiGenerate => {
                prop_assert_eq!(&last["generated_text"], &json!(words[..k].concat()));
                prop_assert_eq!(&last["details"]["generated_tokens"], &json!(k));
            }
            Api::OpenaiResponses => {
                let response = &last["response"];
                prop_assert_eq!(&response["incomplete_details"]["reason"], "max_output_tokens");
                prop_assert_eq!(&response["id"], "r1");
                let text = &response["output"][0]["content"][0]["text"];
                prop_assert_eq!(text, &json!(words[..k].concat()));
                let numbers: Vec<_> = values.iter().map(|value| value["sequence_number"].as_u64()).collect();
                prop_assert_eq!(numbers, (0..values.len() as u64).map(Some).collect::<Vec<_>>());
            }
            _ => {}
        }
    }

    #[test]
    fn a_whole_answer_is_cut_to_a_share_of_its_words(
        api in api(), n in 1_usize..20, k in 0_usize..20, length in any::<bool>(),
    ) {
        let words: Vec<String> = (0..n).map(|i| format!(" w{i}")).collect();
        let finish = if length { "length" } else { "none" };
        let faults = [json!({"truncate": {"afterTokens": k, "finish": finish}})];
        let seen = run_body(&faults, api, &body(api, &words), if api == Api::TritonGenerate { 0 } else { n });
        if k >= n {
            prop_assert_eq!((seen.touched(), &seen.bytes), (0, &body(api, &words)));
        } else {
            let reading = seen.whole(api);
            prop_assert_eq!(reading.text, words[..k].concat());
            if api == Api::OpenaiResponses {
                prop_assert_eq!(reading.finish.as_deref(), Some("length"));
            } else {
                prop_assert_eq!(reading.finish.as_deref(), length_word(api).filter(|_| length));
            }
            let usage = (api != Api::TritonGenerate).then_some(k as u32);
            prop_assert_eq!(reading.usage.output, usage);
        }
    }

    #[test]
    fn disconnect_closes_after_k_tokens(api in api(), words in words(1..12), k in 0_usize..14, rst in any::<bool>()) {
        let (name, close) = if rst { ("rst", Close::Rst) } else { ("fin", Close::Fin) };
        let faults = [json!({"disconnect": {"afterTokens": k, "close": name}})];
        let events = stream(api, &words);
        let seen = run(&faults, api, &events);
        if k > words.len() {
            prop_assert_eq!((seen.then, seen.touched()), (Then::End, 0));
            prop_assert_eq!(&seen.bytes, &events.concat());
        } else {
            prop_assert_eq!((seen.then, seen.touched()), (Then::Close(close), 1));
            prop_assert_eq!(seen.texts(api), words[..k].to_vec());
            prop_assert!(seen.readings(api).iter().all(|reading| !reading.done || api == Api::TgiGenerate));
        }
        let whole = body(api, &words);
        let seen = run_body(&faults, api, &whole, words.len());
        if k > words.len() {
            prop_assert_eq!((seen.then, seen.touched()), (Then::Continue, 0));
        } else {
            prop_assert_eq!(seen.then, Then::Close(close));
            prop_assert_eq!(seen.bytes.len(), (whole.len() * k / words.len()).min(whole.len() - 1));
            prop_assert!(whole.starts_with(&seen.bytes));
        }
    }

    #[test]
    fn an_inband_error_takes_the_place_of_its_token(
        api in api(), words in words(0..12), at in 1_usize..14, marker in any::<bool>(),
    ) {
        let faults = [json!({"inbandError": {"atToken": at, "message": "boom", "thenDone": marker}})];
        let events = stream(api, &words);
        let seen = run(&faults, api, &events);
        if at > words.len() {
            prop_assert_eq!((seen.touched(), &seen.bytes), (0, &events.concat()));
        } else {
            prop_assert_eq!((seen.touched(), seen.then), (1, Then::End));
            let readings = seen.readings(api);
            let error = readings.iter().position(|reading| reading.error.is_some());
            let error = error.expect("an error that clients can read");
            prop_assert_eq!(readings[error].error.as_deref(), Some("boom"));
            prop_assert_eq!(seen.texts(api), words[..at - 1].to_vec());
            let has_marker =
                matches!(api, Api::OpenaiChat | Api::OpenaiCompletions | Api::AnthropicMessages) && marker;
            prop_assert_eq!(readings.len() - error - 1, usize::from(has_marker));
            prop_assert_eq!(readings.last().is_some_and(|last| last.done), has_marker);
        }
        let seen = run_body(&faults, api, &body(api, &words), words.len());
        if at <= words.len() {
            let error = read_body(api, &seen.bytes).expect("JSON").error;
            prop_assert_eq!(error.as_deref(), Some("boom"));
        }
    }

    #[test]
    fn an_empty_response_is_whole_and_says_nothing(api in api(), words in words(1..12)) {
        let faults = [json!({"emptyResponse": {"how": "content"}})];
        let seen = run(&faults, api, &stream(api, &words));
        prop_assert_eq!((seen.touched(), seen.then), (1, Then::End));
        prop_assert!(seen.texts(api).is_empty());
        let want = match api {
            Api::AnthropicMessages => Some("end_turn"),
            Api::TgiGenerate => Some("eos_token"),
            Api::TritonGenerate => None,
            _ => Some("stop"),
        };
        let finish = seen.finish(api);
        prop_assert_eq!(finish.as_deref(), want);
        let whole = run_body(&faults, api, &body(api, &words), words.len()).whole(api);
        prop_assert_eq!((whole.text.as_str(), whole.finish.as_deref()), ("", want));

        let faults = [json!({"emptyResponse": {"how": "body"}})];
        let seen = run(&faults, api, &stream(api, &words));
        prop_assert_eq!((seen.bytes.len(), seen.then, seen.touched()), (0, Then::End, 1));
        prop_assert!(run_body(&faults, api, &body(api, &words), words.len()).bytes.is_empty());
    }
}

#[test]
fn where_no_token_came_no_connection_is_cut_behind_one() {
    let faults = [json!({"disconnect": {"afterTokens": 0}})];
    let seen = run(&faults, Api::OpenaiChat, &[b": ping\n\n".to_vec()]);
    assert_eq!((seen.then, seen.touched()), (Then::End, 0));
}
