//! malformedStream: what comes out is refused by strict parsers, or as large as asked.

use crate::harness::*;
use brownout_injector::wire::{Api, Unreadable, read, read_body, sse};
use proptest::prelude::*;
use serde_json::{Value, json};

proptest! {
    #[test]
    fn one_event_is_broken_and_the_others_are_whole(
        api in api(), words in words(1..10), at in 1_usize..12, utf8 in any::<bool>(),
    ) {
        let how = if utf8 { "badUtf8" } else { "badJson" };
        let faults = [json!({"malformedStream": {"how": how, "atToken": at}})];
        let events = stream(api, &words);
        let seen = run(&faults, api, &events);
        let there = at <= words.len();
        prop_assert_eq!(seen.touched(), u64::from(there));
        let after = seen.events();
        prop_assert_eq!(after.len(), events.len());
        let mut bad = 0;
        for (was, is) in events.iter().zip(&after) {
            let data = sse::fields(is).data.expect("data");
            match read(api, &data) {
                Ok(_) => prop_assert_eq!(was, is),
                Err(error) => {
                    bad += 1;
                    prop_assert_eq!(matches!(error, Unreadable::Utf8), utf8);
                    prop_assert!(serde_json::from_slice::<Value>(&data).is_err());
                }
            }
        }
        prop_assert_eq!(bad, u64::from(there));
        let whole = run_body(&faults, api, &body(api, &words), words.len());
        if there {
            prop_assert_eq!(matches!(read_body(api, &whole.bytes), Err(Unreadable::Utf8)), utf8);
            prop_assert!(read_body(api, &whole.bytes).is_err());
        }
    }

    #[test]
    fn without_its_blank_line_an_event_runs_into_the_next(api in api(), words in words(2..10)) {
        let events = stream(api, &words);
        let seen = run(&[json!({"malformedStream": {"how": "missingBlankLine", "atToken": 1}})], api, &events);
        prop_assert_eq!(seen.bytes.len(), events.concat().len() - 1);
        prop_assert_eq!(seen.events().len(), events.len() - 1);
        let bad = seen.events().iter().filter(|raw| {
            serde_json::from_slice::<Value>(&sse::fields(raw).data.expect("data")).is_err()
                && !raw.ends_with(b"[DONE]\n\n")
        }).count();
        prop_assert_eq!(bad, 1, "two JSON texts in one event are none");
    }

    #[test]
    fn an_oversized_event_says_the_same_at_length(api in api(), words in words(1..6), size in 1024_usize..20_000) {
        let events = stream(api, &words);
        let faults = [json!({"malformedStream": {"how": "oversizedEvent", "atToken": 1, "size": size}})];
        let seen = run(&faults, api, &events);
        let largest = seen.events().iter().map(bytes::Bytes::len).max();
        prop_assert_eq!(largest, Some(size));
        prop_assert_eq!(seen.values(), run(&[], api, &events).values());
        let whole = run_body(&faults, api, &body(api, &words), words.len());
        prop_assert_eq!(whole.bytes.len(), size.max(body(api, &words).len()));
        prop_assert_eq!(whole.whole(api), run_body(&[], api, &body(api, &words), 0).whole(api));
    }
}

#[test]
fn other_lines_of_a_broken_event_stay() {
    let raw =
        b"id: 7\r\nevent: x\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\r\n: note\r\n\r\n"
            .to_vec();
    let faults = [json!({"malformedStream": {"how": "badJson", "atToken": 1}})];
    let text = String::from_utf8(run(&faults, Api::OpenaiChat, &[raw]).bytes).expect("text");
    assert!(text.starts_with("id: 7\r\nevent: x\r\ndata: {\"choices\""), "{text}");
    assert!(text.ends_with("\r\n: note\r\n\r\n"), "{text}");
}
