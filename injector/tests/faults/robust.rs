//! Upstream may send anything: no kind panics, and what carries no token is no token.

use crate::harness::*;
use brownout_injector::Fault;
use brownout_injector::wire::Api;
use proptest::prelude::*;
use serde_json::{Value, json};

/// JSON that looks like an answer here and there, and is hostile everywhere.
fn any_json() -> impl Strategy<Value = Value> {
    let keys = "choices|delta|message|content|text|tool_calls|function|name|arguments|usage|details|token|item|output|response|type|error|generated_text|text_output|index|output_index|model|part|finish_reason|partial_json|input|content_block|special|id";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(18_446_744_073_709_551_615_u64)),
        "[a-zé\"]{0,5}".prop_map(Value::from),
        prop::sample::select(vec![
            "response.output_text.delta",
            "response.output_text.done",
            "response.function_call_arguments.delta",
            "function_call",
            "tool_use",
            "content_block_delta",
            "message_start",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

pub(crate) fn examples() -> Vec<Value> {
    [
        json!({"slowTokens": {"delay": {"constant": "1ms"}}}),
        json!({"stall": {"atToken": 1, "for": "1s"}}),
        json!({"truncate": {"afterTokens": 1, "finish": "length"}}),
        json!({"truncate": {"afterTokens": 0, "finish": "length"}}),
        json!({"disconnect": {"afterTokens": 1}}),
        json!({"corruptTokens": {"how": "swap", "share": 1.0}}),
        json!({"corruptTokens": {"how": "garble", "share": 1.0}}),
        json!({"malformedStream": {"how": "badJson", "atToken": 1}}),
        json!({"malformedStream": {"how": "badUtf8", "atToken": 1}}),
        json!({"malformedStream": {"how": "oversizedEvent", "atToken": 1, "size": 1024}}),
        json!({"inbandError": {"atToken": 1}}),
        json!({"emptyResponse": {}}),
        json!({"toolCallFault": {}}),
        json!({"toolCallFault": {"how": "unknownTool"}}),
        json!({"wrongModel": {}}),
        json!({"usageLie": {"factor": 1e9}}),
        json!({"usageLie": {"omit": true}}),
        json!({"checkpointCorrupt": {"how": "header"}}),
        json!({"checkpointError": {"error": "sigbus"}}),
        json!({"checkpointSlow": {"bytesPerSecond": 1}}),
    ]
    .to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn nothing_that_upstream_sends_makes_a_fault_panic(
        values in prop::collection::vec(any_json(), 1..6),
        which in 0..examples().len(),
        api in prop::sample::select(vec![Api::OpenaiChat, Api::OpenaiCompletions, Api::OpenaiResponses,
            Api::AnthropicMessages, Api::TgiGenerate, Api::TritonGenerate, Api::OpenaiEmbeddings, Api::Other]),
        tokens in prop_oneof![0_usize..10, Just(u32::MAX as usize)],
    ) {
        let faults = [examples().swap_remove(which)];
        prop_assume!(tokens < 10 || which > 0);
        let events: Vec<Vec<u8>> = values.iter().map(|value| format!("data: {value}\n\n").into_bytes()).collect();
        run(&faults, api, &events);
        for value in &values {
            run_body(&faults, api, value.to_string().as_bytes(), tokens);
        }
    }

    #[test]
    fn bytes_that_are_no_json_pass(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        prop_assume!(serde_json::from_slice::<Value>(&bytes).is_err());
        for value in examples() {
            let seen = run_body(std::slice::from_ref(&value), Api::OpenaiChat, &bytes, 5);
            let by_bytes = value.get("emptyResponse").or(value.get("disconnect")).is_some();
            prop_assert!(by_bytes || seen.bytes == bytes, "{}", value);
        }
    }
}

#[test]
fn probes_and_pings_are_never_tokens() {
    let pings = [b": ping\n\n".to_vec(), b"data: : keepalive\n\n".to_vec(), b"event: ping\n\n".to_vec()];
    for value in examples() {
        let seen = run(std::slice::from_ref(&value), Api::OpenaiChat, &pings);
        assert_eq!((seen.touched(), seen.bytes), (0, pings.concat()), "{value}");
    }
    assert_eq!(Fault::ALL.len(), 24);
}
