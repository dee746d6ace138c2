//! toolCallFault: arguments that are no JSON, tools that nobody offered.

use crate::harness::*;
use brownout_injector::wire::Api;
use proptest::prelude::*;
use serde_json::{Value, json};

const APIS: [Api; 3] = [Api::OpenaiChat, Api::OpenaiResponses, Api::AnthropicMessages];

fn event(value: Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

/// A stream that calls two tools, the arguments of each in the given pieces.
fn calls(api: Api, pieces: &[&str]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for call in 0..2 {
        let name = format!("tool{call}");
        match api {
            Api::OpenaiChat => {
                let chunk = |function: Value| {
                    event(
                        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": call, "function": function}]}}]}),
                    )
                };
                out.push(chunk(json!({"name": name, "arguments": ""})));
                out.extend(pieces.iter().map(|piece| chunk(json!({"arguments": piece}))));
            }
            Api::OpenaiResponses => {
                let item =
                    |arguments: &str| json!({"type": "function_call", "name": name, "arguments": arguments});
                out.push(event(
                    json!({"type": "response.output_item.added", "output_index": call, "item": item("")}),
                ));
                out.extend(pieces.iter().map(|piece| {
                    event(json!({"type": "response.function_call_arguments.delta", "output_index": call, "delta": piece}))
                }));
                let all = pieces.concat();
                out.push(event(json!({"type": "response.function_call_arguments.done", "output_index": call, "arguments": all})));
                out.push(event(
                    json!({"type": "response.output_item.done", "output_index": call, "item": item(&all)}),
                ));
            }
            _ => {
                out.push(event(json!({"type": "content_block_start", "index": call,
                    "content_block": {"type": "tool_use", "name": name, "input": {}}})));
                out.extend(pieces.iter().map(|piece| {
                    event(json!({"type": "content_block_delta", "index": call,
                        "delta": {"type": "input_json_delta", "partial_json": piece}}))
                }));
            }
        }
    }
    out
}

/// The arguments of one call, put together from its deltas.
fn arguments(seen: &Seen, call: u64) -> String {
    let values = seen.values();
    let parts = values.iter().filter_map(|value| {
        let tool = &value["choices"][0]["delta"]["tool_calls"][0];
        if tool["index"] == call {
            return tool["function"]["arguments"].as_str();
        }
        let mine = value["index"] == call || value["output_index"] == call;
        value["delta"]["partial_json"].as_str().or(value["delta"].as_str()).filter(|_| mine)
    });
    parts.collect()
}

proptest! {
    #[test]
    fn each_calls_arguments_are_no_json(api in prop::sample::select(&APIS[..]), cuts in prop::collection::vec(1_usize..6, 1..6)) {
        let whole = r#"{"city": "Paris", "days": {"from": 1, "to": 3}}"#;
        let (mut pieces, mut rest) = (Vec::new(), whole);
        for cut in cuts {
            let (piece, after) = rest.split_at(cut);
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        let events = calls(api, &pieces);
        let clean = run(&[], api, &events);
        let seen = run(&[json!({"toolCallFault": {"how": "badArguments"}})], api, &events);
        for call in 0..2 {
            prop_assert_eq!(arguments(&clean, call), whole);
            let broken = arguments(&seen, call);
            prop_assert!(serde_json::from_str::<Value>(&broken).is_err(), "{}", broken);
            prop_assert_eq!(&broken[1..], whole, "one brace too many, and no more");
        }
        for value in seen.values() {
            for path in ["/arguments", "/item/arguments"] {
                if let Some(Value::String(again)) = value.pointer(path) {
                    prop_assert!(again.is_empty() || *again == arguments(&seen, 0), "{}", again);
                }
            }
        }
        prop_assert_eq!(seen.readings(api).iter().flat_map(|r| r.tools.clone()).count(),
            clean.readings(api).iter().flat_map(|r| r.tools.clone()).count());
        prop_assert!(seen.touched() >= 2);
    }
}

#[test]
fn unknown_tools_are_called_by_names_nobody_offered() {
    for api in APIS {
        let seen = run(&[json!({"toolCallFault": {"how": "unknownTool"}})], api, &calls(api, &["{}"]));
        let text = String::from_utf8(seen.bytes.clone()).expect("text");
        assert!(text.contains("\"tool0-does-not-exist\""), "{text}");
        assert!(!text.contains("\"tool0\"") && !text.contains("\"tool1\""), "{text}");
        assert_eq!(arguments(&seen, 0), "{}");
    }
}

#[test]
fn whole_answers_are_broken_too() {
    let args = r#"{"city":"Paris"}"#;
    let bodies = [
        (
            Api::OpenaiChat,
            json!({"choices": [{"message": {"content": null, "tool_calls": [
            {"function": {"name": "a", "arguments": args}}, {"function": {"name": "b", "arguments": args}}]}}]}),
            "/choices/0/message/tool_calls/1/function/arguments",
        ),
        (
            Api::OpenaiResponses,
            json!({"output": [{"type": "function_call", "name": "a", "arguments": args}]}),
            "/output/0/arguments",
        ),
        (
            Api::AnthropicMessages,
            json!({"content": [{"type": "tool_use", "name": "a", "input": {"city": "Paris"}}]}),
            "/content/0/input",
        ),
    ];
    for (api, body, path) in bodies {
        let seen = run_body(&[json!({"toolCallFault": {}})], api, &body.to_string().into_bytes(), 1);
        let value: Value = serde_json::from_slice(&seen.bytes).expect("the answer is still JSON");
        assert_eq!(value.pointer(path), Some(&json!(format!("{{{args}"))), "{value}");
    }
}

#[test]
fn answers_without_tools_pass() {
    for api in STREAMS {
        let events = stream(api, &[" one".to_owned(), " two".to_owned()]);
        let seen = run(&[json!({"toolCallFault": {}})], api, &events);
        assert_eq!((seen.touched(), seen.bytes), (0, events.concat()));
    }
}
