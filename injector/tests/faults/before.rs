//! Faults that act before the request goes upstream.

use crate::harness::*;
use brownout_injector::draw::Draw;
use brownout_injector::effect::{Answer, AnswerBody, Before, Close, RetryValue};
use brownout_injector::fault::prefix_prompt;
use brownout_injector::wire::{Api, read_body};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;

fn answer(value: Value, api: Api) -> Answer {
    match before(value, api) {
        Before::Answer(answer) => answer,
        other => panic!("{other:?} is no answer"),
    }
}

fn body_of(answer: &Answer, api: Api) -> Value {
    let AnswerBody::Error(error) = &answer.body else { panic!("{answer:?} has no error") };
    assert_eq!(error.status, answer.status);
    serde_json::from_slice(&error.body(api)).expect("JSON")
}

#[test]
fn http_errors_are_in_the_providers_shape() {
    for api in STREAMS {
        let answer = answer(json!({"httpError": {"status": 503, "message": "no"}}), api);
        let body = body_of(&answer, api);
        let reading = read_body(api, body.to_string().as_bytes()).expect("readable");
        assert_eq!((answer.status, reading.error.as_deref()), (503, Some("no")), "{body}");
    }
    assert_eq!(
        body_of(
            &answer(json!({"httpError": {"status": 529}}), Api::AnthropicMessages),
            Api::AnthropicMessages
        ),
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    );
}

#[test]
fn retry_after_comes_in_three_forms() {
    let header = |form: &str| {
        let retry = json!({"in": "1500ms", "as": form});
        answer(json!({"httpError": {"status": 429, "retryAfter": retry}}), Api::OpenaiChat).headers.remove(0)
    };
    let text = |value: &str| RetryValue::Text(value.to_owned());
    assert_eq!(header("seconds"), ("retry-after".to_owned(), text("2")));
    assert_eq!(header("milliseconds"), ("retry-after-ms".to_owned(), text("1500")));
    let date = RetryValue::DateIn(Duration::from_millis(1500));
    assert_eq!(header("date"), ("retry-after".to_owned(), date));
}

#[test]
fn silence_and_hanging_up() {
    assert_eq!(before(json!({"blackhole": {}}), Api::Other), Before::Blackhole);
    assert_eq!(before(json!({"disconnect": {}}), Api::Other), Before::Hang(Close::Rst));
    assert_eq!(before(json!({"disconnect": {"close": "fin"}}), Api::Other), Before::Hang(Close::Fin));
    assert_eq!(before(json!({"disconnect": {"afterTokens": 1}}), Api::Other), Before::Forward);
}

#[test]
fn probes_fail_with_their_status_and_no_body() {
    let flap = json!({"probeFlap": {"paths": ["/health", "/ready*"]}});
    assert_eq!(fault(flap.clone()).own_paths(), ["/health", "/ready*"]);
    let answer = answer(flap, Api::Other);
    assert_eq!((answer.status, answer.body), (503, AnswerBody::Empty));
}

#[test]
fn a_model_that_is_gone() {
    let gone = |api| {
        let answer = answer(json!({"wrongModel": {"how": "notFound"}}), api);
        (answer.status, body_of(&answer, api))
    };
    let (status, body) = gone(Api::OpenaiChat);
    assert_eq!((status, &body["error"]["code"]), (404, &json!("model_not_found")));
    assert!(body["error"]["message"].as_str().is_some_and(|text| text.contains("`m`")));
    assert_eq!(
        gone(Api::AnthropicMessages).1["error"],
        json!({"type": "not_found_error", "message": "model: m"})
    );
    assert_eq!(before(json!({"wrongModel": {}}), Api::OpenaiChat), Before::Forward);
}

#[test]
fn prompts_that_are_too_long_meet_the_providers_own_words() {
    let refusal = |api| {
        let answer = answer(json!({"contextOverflow": {"limit": 64}}), api);
        (answer.status, body_of(&answer, api))
    };
    let (status, body) = refusal(Api::OpenaiChat);
    assert_eq!(status, 400);
    assert_eq!(body["error"]["code"], "context_length_exceeded");
    assert_eq!(
        body["error"]["message"],
        "This model's maximum context length is 64 tokens. However, you requested 150 tokens (100 in the messages, \
         50 in the completion). Please reduce the length of the messages or completion."
    );
    let (status, body) = refusal(Api::AnthropicMessages);
    assert_eq!(
        (status, &body["error"]["message"]),
        (400, &json!("prompt is too long: 100 tokens > 64 maximum"))
    );
    let (status, body) = refusal(Api::TgiGenerate);
    assert_eq!((status, &body["error_type"]), (422, &json!("validation")));
    let message = "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 64. Given: 100 `inputs` \
                   tokens and 50 `max_new_tokens`";
    assert_eq!(body["error"], message);
    assert_eq!(refusal(Api::TritonGenerate).0, 400);
}

proptest! {
    #[test]
    fn only_prompts_over_the_limit_are_refused(tokens in 0_u32..5000, limit in 1_u32..5000) {
        let fault = fault(json!({"contextOverflow": {"limit": limit}}));
        let mut facts = facts(Api::OpenaiChat);
        facts.prompt_tokens = tokens;
        let refused = matches!(fault.before(&facts, Draw::new(1, "x", 0)), Before::Answer(_));
        prop_assert_eq!(refused, tokens > limit);
    }

    /// Without a limit every prompt is refused, and the maximum that is told is below what was asked.
    #[test]
    fn the_made_up_limit_is_below_the_prompt(tokens in 0_u32..2_000_000) {
        let fault = fault(json!({"contextOverflow": {}}));
        let mut facts = facts(Api::AnthropicMessages);
        facts.prompt_tokens = tokens;
        let Before::Answer(answer) = fault.before(&facts, Draw::new(1, "x", 0)) else {
            return Err(TestCaseError::fail("every prompt is refused"));
        };
        let text = body_of(&answer, facts.api)["error"]["message"].as_str().expect("a message").to_owned();
        let numbers: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        prop_assert!(numbers.len() == 2 && numbers[0] > numbers[1], "{}", text);
    }

    #[test]
    fn no_two_prompts_begin_alike(seed in any::<u64>(), start in 0_u64..u64::MAX - 300) {
        let fault = fault(json!({"cacheBust": {}}));
        let prefixes: HashSet<String> = (start..start + 300)
            .map(|n| match fault.before(&facts(Api::OpenaiChat), Draw::new(seed, "x", n)) {
                Before::PrefixPrompt(prefix) => prefix,
                other => panic!("{other:?}"),
            })
            .collect();
        prop_assert_eq!(prefixes.len(), 300);
    }

    #[test]
    fn a_prefix_changes_the_first_prompt_text_alone(prompt in "[a-z \"\\\\é]{0,20}", prefix in "\\[[0-9a-f]{16}\\] ") {
        let prefixed = format!("{prefix}{prompt}");
        let say = |text: &str| vec![
            (Api::OpenaiChat, json!({"model": "m", "x": 0.1, "messages": [{"role": "system", "content": text},
                {"role": "user", "content": "q"}], "stream": true})),
            (Api::OpenaiChat, json!({"messages": [{"role": "assistant", "content": null, "tool_calls": []},
                {"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": text}]}]})),
            (Api::OpenaiCompletions, json!({"prompt": text, "max_tokens": 3})),
            (Api::OpenaiCompletions, json!({"prompt": [text, text]})),
            (Api::OpenaiResponses, json!({"input": text})),
            (Api::OpenaiResponses, json!({"instructions": text, "input": "q"})),
            (Api::OpenaiResponses, json!({"input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}]})),
            (Api::AnthropicMessages, json!({"messages": [{"role": "user", "content": text}], "max_tokens": 3})),
            (Api::AnthropicMessages, json!({"system": [{"type": "text", "text": text}], "messages": []})),
            (Api::TgiGenerate, json!({"inputs": text, "parameters": {"max_new_tokens": 3}})),
            (Api::TritonGenerate, json!({"text_input": text, "max_tokens": 3})),
            (Api::OpenaiEmbeddings, json!({"input": [text], "model": "m"})),
        ];
        for ((api, was), (_, want)) in say(&prompt).into_iter().zip(say(&prefixed)) {
            let (is, prompts) = prefix_prompt(api, was.to_string().as_bytes(), &prefix).expect("there is a prompt");
            prop_assert_eq!(std::str::from_utf8(&is).expect("text"), want.to_string());
            prop_assert_eq!(prompts, want.to_string().matches(&prefix[..17]).count());
        }
    }
}

#[test]
fn token_ids_get_ids_in_front() {
    let (is, prompts) =
        prefix_prompt(Api::OpenaiCompletions, br#"{"prompt":[[500,501],[502]]}"#, "ab").expect("prompts");
    assert_eq!((&is[..], prompts), (&br#"{"prompt":[[97,98,500,501],[97,98,502]]}"#[..], 2));
    for body in [&b"no json"[..], b"", b"{}", b"[]", b"null", br#"{"messages":[]}"#, br#"{"messages":{}}"#] {
        assert_eq!(prefix_prompt(Api::OpenaiChat, body, "ab"), None);
    }
}
