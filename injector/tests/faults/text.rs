//! Faults that change what an answer says: corruptTokens, usageLie, wrongModel.

use crate::harness::*;
use brownout_injector::wire::{Api, sse};
use proptest::prelude::*;
use serde_json::{Value, json};

/// `value` with its generated text taken out, so that all else can be compared.
fn without_text(mut value: Value, api: Api) -> Value {
    let mut clear = |path: &str| {
        if let Some(text) = value.pointer_mut(path) {
            *text = "".into();
        }
    };
    match api {
        Api::OpenaiChat => clear("/choices/0/delta/content"),
        Api::OpenaiCompletions => clear("/choices/0/text"),
        Api::AnthropicMessages => clear("/delta/text"),
        Api::TgiGenerate => {
            clear("/token/text");
            clear("/generated_text");
        }
        Api::TritonGenerate => clear("/text_output"),
        _ => {
            for path in
                ["/delta", "/text", "/part/text", "/item/content/0/text", "/response/output/0/content/0/text"]
            {
                clear(path);
            }
        }
    }
    value
}

fn values(events: &[Vec<u8>]) -> Vec<Value> {
    events.iter().filter_map(|raw| serde_json::from_slice(sse::fields(raw).data?.as_ref()).ok()).collect()
}

proptest! {
    #[test]
    fn corrupted_events_differ_in_their_text_alone(
        api in api(), words in words(1..30), share in 0.05_f64..=1.0,
        how in prop::sample::select(&["swap", "repeat", "drop", "garble"][..]),
    ) {
        let events = stream(api, &words);
        let faults = [json!({"corruptTokens": {"how": how, "share": share}})];
        let seen = run(&faults, api, &events);
        prop_assert_eq!(seen.events().len(), events.len());
        let (before, after) = (values(&events), seen.values());
        let bare = |values: &[Value]| values.iter().map(|v| without_text(v.clone(), api)).collect::<Vec<_>>();
        prop_assert_eq!(bare(&before), bare(&after));
        // Keys keep their order.
        let keys = |v: &Value| v.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>());
        prop_assert_eq!(before.iter().map(keys).collect::<Vec<_>>(), after.iter().map(keys).collect::<Vec<_>>());

        let token_texts = |seen: &Seen| seen.readings(api).into_iter().map(|r| r.text).collect::<Vec<_>>();
        let clean = run(&[], api, &events);
        let (was, is) = (token_texts(&clean), token_texts(&seen));
        let mut changed = 0;
        for (i, (was, is)) in was.iter().zip(&is).enumerate() {
            if was != is {
                changed += 1;
                match how {
                    "swap" => prop_assert!(words.contains(is), "{is:?} was never said before ({i})"),
                    "repeat" => prop_assert_eq!(is, &was.repeat(2)),
                    "drop" => prop_assert_eq!(is, ""),
                    _ => prop_assert_eq!(is.chars().count(), was.chars().count()),
                }
            }
        }
        prop_assert_eq!(seen.touched(), changed);
        // Where the text is said again at the end, it is what was said on the way.
        let said = is.concat();
        for value in seen.values() {
            for path in ["/generated_text", "/text", "/response/output/0/content/0/text"] {
                let Some(Value::String(again)) = value.pointer(path) else { continue };
                let again_whole = api == Api::TgiGenerate || (api == Api::OpenaiResponses && !again.is_empty());
                if again_whole {
                    prop_assert_eq!(again, &said);
                }
            }
        }
    }

    #[test]
    fn a_share_of_one_corrupts_all(api in api(), words in words(1..20)) {
        let faults = [json!({"corruptTokens": {"how": "drop", "share": 1.0}})];
        let seen = run(&faults, api, &stream(api, &words));
        prop_assert_eq!(seen.touched(), words.len() as u64);
        prop_assert!(seen.texts(api).is_empty());
        let whole = run_body(&faults, api, &body(api, &words), words.len());
        prop_assert_eq!(whole.whole(api).text, "");
    }

    #[test]
    fn a_whole_answer_is_garbled_letter_by_letter(api in api(), words in words(1..20)) {
        let faults = [json!({"corruptTokens": {"how": "garble", "share": 1.0}})];
        let clean = run_body(&[], api, &body(api, &words), 1).whole(api).text;
        let garbled = run_body(&faults, api, &body(api, &words), 1).whole(api).text;
        prop_assert_eq!(clean.chars().count(), garbled.chars().count());
        for (was, is) in clean.chars().zip(garbled.chars()) {
            prop_assert_eq!(was.is_alphabetic(), was != is, "{} became {}", was, is);
        }
    }

    #[test]
    fn usage_is_multiplied_exactly(api in api(), words in words(1..12), factor in 0_u32..50) {
        let seen = run(&[json!({"usageLie": {"factor": factor}})], api, &stream(api, &words));
        let outputs: Vec<u32> = seen.readings(api).iter().filter_map(|reading| reading.usage.output).collect();
        let n = words.len() as u32;
        let want = if api == Api::TritonGenerate { vec![] } else { vec![n * factor] };
        prop_assert_eq!(outputs, want);
        prop_assert_eq!(seen.texts(api), words.clone());
        prop_assert_eq!(seen.touched() > 0, api != Api::TritonGenerate);
        let whole = run_body(&[json!({"usageLie": {"factor": factor}})], api, &body(api, &words), 1).whole(api);
        prop_assert_eq!(whole.usage.output, (api != Api::TritonGenerate).then_some(n * factor));
        prop_assert!(!String::from_utf8_lossy(&seen.bytes).contains("seed") || String::from_utf8_lossy(&seen.bytes).contains("12345"));
    }

    #[test]
    fn usage_can_be_left_out(api in api(), words in words(1..12)) {
        let faults = [json!({"usageLie": {"omit": true}})];
        let seen = run(&faults, api, &stream(api, &words));
        prop_assert!(seen.readings(api).iter().all(|reading| reading.usage == Default::default()));
        prop_assert_eq!(seen.texts(api), words.clone());
        prop_assert_eq!(seen.finish(api).is_some(), api != Api::TritonGenerate);
        let whole = run_body(&faults, api, &body(api, &words), 1).whole(api);
        prop_assert_eq!(whole.usage, Default::default());
    }

    #[test]
    fn another_model_is_named_and_nothing_else_changes(api in api(), words in words(0..8), named in any::<bool>()) {
        let (params, name) = if named { (json!({"model": "other"}), "other") } else { (json!({}), "m-other") };
        let events = stream(api, &words);
        let seen = run(&[json!({"wrongModel": params})], api, &events);
        let text = String::from_utf8(seen.bytes.clone()).expect("text");
        let key = if api == Api::TritonGenerate { "model_name" } else { "model" };
        let back = text.replace(&format!("\"{key}\":\"{name}\""), &format!("\"{key}\":\"m\""));
        prop_assert_eq!(back.as_bytes(), events.concat());
        let names = !(api == Api::TgiGenerate || (api == Api::TritonGenerate && words.is_empty()));
        prop_assert_eq!(seen.touched() > 0, names);
        prop_assert_eq!(text.contains(name), names);
    }
}
