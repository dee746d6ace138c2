//! The two readers of events say the same, on what real servers send.

use brownout_injector::wire::{Api, Class, classify, read};

/// Events as servers send them, with the class that is right.
const EVENTS: &[(Api, &str, Class)] = &[
    (
        Api::OpenaiChat,
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        Class::Meta,
    ),
    (
        Api::OpenaiChat,
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}"#,
        Class::Meta,
    ),
    (Api::OpenaiChat, r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":null}]}"#, Class::Content),
    (
        Api::OpenaiChat,
        r#"{"choices":[{"delta":{ "content" : "\"content\":" }}], "error": null}"#,
        Class::Content,
    ),
    (
        Api::OpenaiChat,
        r#"{"choices":[{"delta":{"content":"x"},"logprobs":{"content":[{"token":"x"}]}}]}"#,
        Class::Content,
    ),
    (
        Api::OpenaiChat,
        r#"{"choices":[{"delta":{},"logprobs":{"content":[]},"finish_reason":"stop"}]}"#,
        Class::Finish,
    ),
    (
        Api::OpenaiChat,
        r#"{"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]}"#,
        Class::Reasoning,
    ),
    (Api::OpenaiChat, r#"{"choices":[{"delta":{"reasoning":"hm"}}]}"#, Class::Reasoning),
    (
        Api::OpenaiChat,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}"#,
        Class::ToolCall,
    ),
    (
        Api::OpenaiChat,
        r#"{"choices":[{"delta":{"tool_calls":[]},"finish_reason":"tool_calls"}]}"#,
        Class::Finish,
    ),
    (Api::OpenaiChat, r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#, Class::Usage),
    (Api::OpenaiChat, r#"{"error":{"message":"engine died","code":500}}"#, Class::Error),
    (Api::OpenaiChat, r#"{"error":"","choices":[{"delta":{"content":"a"}}]}"#, Class::Content),
    (Api::OpenaiChat, "[DONE]", Class::Done),
    (Api::OpenaiChat, ": keepalive", Class::Ping),
    (Api::OpenaiCompletions, r#"{"choices":[{"text":" a","finish_reason":null}]}"#, Class::Content),
    (Api::OpenaiCompletions, r#"{"choices":[{"text":"","finish_reason":"length"}]}"#, Class::Finish),
    (Api::OpenaiResponses, r#"{"type":"response.created","response":{"model":"m"}}"#, Class::Meta),
    (Api::OpenaiResponses, r#"{"type":"response.output_text.delta","delta":"a"}"#, Class::Content),
    (
        Api::OpenaiResponses,
        r#"{"type":"response.completed","response":{"usage":{"output_tokens":3}}}"#,
        Class::Finish,
    ),
    (
        Api::OpenaiResponses,
        r#"{"type":"response.failed","response":{"error":{"message":"no"}}}"#,
        Class::Error,
    ),
    (
        Api::AnthropicMessages,
        r#"{"type":"message_start","message":{"content":[],"usage":{"input_tokens":9,"output_tokens":1}}}"#,
        Class::Meta,
    ),
    (
        Api::AnthropicMessages,
        r#"{"type":"content_block_start","content_block":{"type":"text","text":""}}"#,
        Class::Meta,
    ),
    (Api::AnthropicMessages, r#"{"type":"ping"}"#, Class::Ping),
    (
        Api::AnthropicMessages,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#,
        Class::Content,
    ),
    (
        Api::AnthropicMessages,
        r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"a"}}"#,
        Class::Reasoning,
    ),
    (
        Api::AnthropicMessages,
        r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}"#,
        Class::ToolCall,
    ),
    (
        Api::AnthropicMessages,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#,
        Class::Finish,
    ),
    (Api::AnthropicMessages, r#"{"type":"message_stop"}"#, Class::Done),
    (
        Api::AnthropicMessages,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        Class::Error,
    ),
    (
        Api::TgiGenerate,
        r#"{"index":1,"token":{"id":1,"text":"a","special":false},"generated_text":null,"details":null}"#,
        Class::Content,
    ),
    (
        Api::TgiGenerate,
        r#"{"token":{"id":2,"text":"</s>","special":true},"generated_text":"a","details":{"finish_reason":"eos_token","generated_tokens":2}}"#,
        Class::Finish,
    ),
    (
        Api::TgiGenerate,
        r#"{"error":"Request failed during generation","error_type":"generation"}"#,
        Class::Error,
    ),
    (Api::TritonGenerate, r#"{"model_name":"m","text_output":"a"}"#, Class::Content),
    (Api::TritonGenerate, r#"{"error":"in ensemble"}"#, Class::Error),
];

#[test]
fn events_are_classed_as_their_servers_mean_them() {
    for (api, data, class) in EVENTS {
        assert_eq!(classify(*api, Some(data.as_bytes())), *class, "{api:?} {data}");
    }
}

#[test]
fn the_scan_and_the_parser_agree() {
    for (api, data, class) in EVENTS {
        let reading = read(*api, data.as_bytes()).unwrap_or_else(|error| panic!("{data}: {error:?}"));
        assert_eq!(reading.has_token(), class.is_token(), "{api:?} {data}");
        assert_eq!(reading.error.is_some(), *class == Class::Error, "{api:?} {data}");
        // A protocol's last word may be a finish and an end marker at once.
        assert!(reading.done == (*class == Class::Done) || *class == Class::Finish, "{api:?} {data}");
        assert_eq!(reading.finish.is_some(), *class == Class::Finish, "{api:?} {data}");
    }
}
