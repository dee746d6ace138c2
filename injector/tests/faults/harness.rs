//! Answers as the providers write them, and a run of faults over them.

use brownout_injector::draw::Draw;
use brownout_injector::effect::{Before, Chain, Done, Out, Step, Then};
use brownout_injector::wire::{Api, Event, Reading, SseSplitter, classify, read, read_body, sse};
use brownout_injector::{Facts, Fault};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;

/// The protocols that stream generated text.
pub(crate) const STREAMS: [Api; 6] = [
    Api::OpenaiChat,
    Api::OpenaiCompletions,
    Api::OpenaiResponses,
    Api::AnthropicMessages,
    Api::TgiGenerate,
    Api::TritonGenerate,
];

pub(crate) const FOREVER: Duration = Duration::MAX;

pub(crate) fn api() -> impl Strategy<Value = Api> {
    prop::sample::select(&STREAMS[..])
}

/// Words with a blank in front, as tokens usually are; also some that need escapes or more than one byte.
pub(crate) fn words(size: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(" [a-z]{1,6}|, \"quoted\\\\|\\nné|日本", size)
}

pub(crate) fn fault(value: Value) -> Fault {
    serde_json::from_value(value).expect("a fault as users write it")
}

pub(crate) fn facts(api: Api) -> Facts<'static> {
    Facts {
        at: Duration::ZERO,
        number: None,
        method: "POST",
        path: "/",
        api,
        model: Some("m"),
        stream: true,
        prompt_tokens: 100,
        max_tokens: Some(50),
        header: &|_| None,
    }
}

pub(crate) fn before(value: Value, api: Api) -> Before {
    fault(value).before(&facts(api), Draw::new(1, "test", 0))
}

fn event(name: Option<&str>, value: &Value) -> Vec<u8> {
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {value}\n\n").into_bytes()
}

/// A stream that says `texts`, one token event each.
pub(crate) fn stream(api: Api, texts: &[String]) -> Vec<Vec<u8>> {
    let n = texts.len();
    let all = texts.concat();
    let mut out = Vec::new();
    match api {
        Api::OpenaiChat | Api::OpenaiCompletions => {
            let chunk = |choices: Value| json!({"id": "c1", "created": 17, "model": "m", "choices": choices});
            let chat = api == Api::OpenaiChat;
            let say = |text: &str| {
                if chat { json!({"content": text}) } else { json!(text) }
            };
            let key = if chat { "delta" } else { "text" };
            if chat {
                out.push(event(
                    None,
                    &chunk(json!([{"index": 0, "delta": {"role": "assistant", "content": ""}}])),
                ));
            }
            for text in texts {
                out.push(event(
                    None,
                    &chunk(json!([{"index": 0, key: say(text), "logprobs": null, "finish_reason": null, "p": 0.1}])),
                ));
            }
            let last = if chat { json!({}) } else { json!("") };
            out.push(event(None, &chunk(json!([{"index": 0, key: last, "finish_reason": "stop"}]))));
            let mut usage = chunk(json!([]));
            usage["usage"] = json!({"prompt_tokens": 7, "completion_tokens": n, "total_tokens": 7 + n});
            out.push(event(None, &usage));
            out.push(b"data: [DONE]\n\n".to_vec());
        }
        Api::OpenaiResponses => {
            let mut number = 0;
            let mut send = |mut value: Value| {
                value["sequence_number"] = number.into();
                number += 1;
                out.push(event(value["type"].as_str(), &value));
            };
            let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
            let item = |status: &str, content: Value| json!({"id": "m1", "type": "message", "role": "assistant", "status": status, "content": content});
            let response = |status: &str, output: Value, usage: Value| json!({"id": "r1", "object": "response", "model": "m", "status": status, "output": output, "usage": usage});
            send(
                json!({"type": "response.created", "response": response("in_progress", json!([]), Value::Null)}),
            );
            send(
                json!({"type": "response.output_item.added", "output_index": 0, "item": item("in_progress", json!([]))}),
            );
            send(
                json!({"type": "response.content_part.added", "item_id": "m1", "output_index": 0, "content_index": 0, "part": part("")}),
            );
            for text in texts {
                send(
                    json!({"type": "response.output_text.delta", "item_id": "m1", "output_index": 0, "content_index": 0, "delta": text}),
                );
            }
            send(
                json!({"type": "response.output_text.done", "item_id": "m1", "output_index": 0, "content_index": 0, "text": all}),
            );
            send(
                json!({"type": "response.content_part.done", "item_id": "m1", "output_index": 0, "content_index": 0, "part": part(&all)}),
            );
            let whole = item("completed", json!([part(&all)]));
            send(json!({"type": "response.output_item.done", "output_index": 0, "item": whole}));
            let usage = json!({"input_tokens": 7, "output_tokens": n, "total_tokens": 7 + n});
            send(
                json!({"type": "response.completed", "response": response("completed", json!([whole]), usage)}),
            );
        }
        Api::AnthropicMessages => {
            let mut send = |value: Value| out.push(event(value["type"].as_str(), &value));
            send(
                json!({"type": "message_start", "message": {"id": "m1", "model": "m", "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}}}),
            );
            send(
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            );
            send(json!({"type": "ping"}));
            for text in texts {
                send(
                    json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
                );
            }
            send(json!({"type": "content_block_stop", "index": 0}));
            send(
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": n}}),
            );
            send(json!({"type": "message_stop"}));
        }
        Api::TgiGenerate => {
            for (i, text) in texts.iter().enumerate() {
                let last = i + 1 == n;
                let details = json!({"finish_reason": "length", "generated_tokens": n, "seed": 12345});
                let value = json!({
                    "index": i + 1,
                    "token": {"id": i, "text": text, "logprob": -0.25, "special": false},
                    "generated_text": if last { json!(all) } else { Value::Null },
                    "details": if last { details } else { Value::Null },
                });
                out.push(format!("data:{value}\n\n").into_bytes());
            }
        }
        Api::TritonGenerate => {
            for text in texts {
                let value = json!({"model_name": "m", "model_version": "1", "text_output": text});
                out.push(event(None, &value));
            }
        }
        Api::OpenaiEmbeddings | Api::Other => {}
    }
    out
}

/// The same answer, not streamed.
pub(crate) fn body(api: Api, texts: &[String]) -> Vec<u8> {
    let (all, n) = (texts.concat(), texts.len());
    let usage = json!({"prompt_tokens": 7, "completion_tokens": n, "total_tokens": 7 + n});
    let value = match api {
        Api::OpenaiChat => json!({"id": "c1", "model": "m", "choices": [{"index": 0, "message":
            {"role": "assistant", "content": all}, "finish_reason": "stop"}], "usage": usage}),
        Api::OpenaiCompletions => json!({"id": "c1", "model": "m", "choices": [{"index": 0, "text": all,
            "finish_reason": "stop"}], "usage": usage}),
        Api::OpenaiResponses => json!({"id": "r1", "object": "response", "model": "m", "status": "completed",
            "output": [{"id": "m1", "type": "message", "content": [{"type": "output_text", "text": all}]}],
            "usage": {"input_tokens": 7, "output_tokens": n, "total_tokens": 7 + n}}),
        Api::AnthropicMessages => json!({"id": "m1", "type": "message", "model": "m",
            "content": [{"type": "text", "text": all}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 7, "output_tokens": n}}),
        Api::TgiGenerate => json!({"generated_text": all,
            "details": {"finish_reason": "length", "generated_tokens": n, "seed": 12345}}),
        Api::TritonGenerate => json!({"model_name": "m", "model_version": "1", "text_output": all}),
        Api::OpenaiEmbeddings => {
            json!({"object": "list", "data": [{"index": 0, "embedding": [0.5]}], "model": "m",
            "usage": {"prompt_tokens": 7, "total_tokens": 7}})
        }
        Api::Other => json!({"any": "thing"}),
    };
    value.to_string().into_bytes()
}

/// What came out at the other end.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) bytes: Vec<u8>,
    pub(crate) steps: Vec<Step>,
    pub(crate) then: Then,
    pub(crate) done: Vec<Done>,
}

pub(crate) fn chain(faults: &[Value], api: Api) -> Chain {
    let mut chain = Chain::new(api);
    for (i, value) in faults.iter().enumerate() {
        let draw = Draw::new(1, "test", i as u64);
        if let Some(effect) = fault(value.clone()).on_answer(&facts(api), draw) {
            chain.push(i, FOREVER, effect);
        }
    }
    chain
}

/// Runs `events` through `faults`, as the proxy does.
pub(crate) fn run(faults: &[Value], api: Api, events: &[Vec<u8>]) -> Seen {
    let mut chain = chain(faults, api);
    let mut seen = Seen::default();
    let mut take = |step: Step, raw: &[u8]| {
        match &step.out {
            Out::Same => seen.bytes.extend_from_slice(raw),
            Out::Replace(bytes) => seen.bytes.extend_from_slice(bytes),
        }
        seen.then = step.then;
        seen.steps.push(step);
        seen.then
    };
    for raw in events {
        let data = sse::fields(raw).data;
        let class = classify(api, data.as_deref());
        let event = Event { raw, data: data.as_deref().unwrap_or_default(), class, api, token: 0 };
        if take(chain.event(Duration::ZERO, &event), raw) != Then::Continue {
            break;
        }
    }
    if seen.then == Then::Continue {
        let step = chain.end(Duration::ZERO);
        if let Out::Replace(bytes) = &step.out {
            seen.bytes.extend_from_slice(bytes);
        }
        seen.then = step.then;
        seen.steps.push(step);
    }
    seen.done = chain.done().map(|(_, done)| done).collect();
    seen
}

/// Runs a whole answer through `faults`.
pub(crate) fn run_body(faults: &[Value], api: Api, body: &[u8], tokens: usize) -> Seen {
    let mut chain = chain(faults, api);
    let step = chain.body(Duration::ZERO, body, tokens as u32);
    let bytes = match &step.out {
        Out::Same => body.to_vec(),
        Out::Replace(bytes) => bytes.to_vec(),
    };
    let done = chain.done().map(|(_, done)| done).collect();
    Seen { bytes, then: step.then, steps: vec![step], done }
}

impl Seen {
    pub(crate) fn touched(&self) -> u64 {
        self.done.iter().map(|done| done.touched).sum()
    }

    pub(crate) fn added(&self) -> Duration {
        self.steps.iter().map(|step| step.hold.add).sum()
    }

    /// The events' bytes.
    pub(crate) fn events(&self) -> Vec<Bytes> {
        let mut splitter = SseSplitter::new(usize::MAX);
        splitter.push(Bytes::copy_from_slice(&self.bytes));
        let mut out: Vec<Bytes> =
            std::iter::from_fn(|| splitter.next_event()).map(|piece| piece.raw).collect();
        out.extend(splitter.finish().map(|piece| piece.raw));
        out
    }

    /// What the events say, in order; comments say nothing.
    pub(crate) fn readings(&self, api: Api) -> Vec<Reading> {
        self.events()
            .iter()
            .filter_map(|raw| sse::fields(raw).data.map(|data| read(api, &data).expect("valid events")))
            .collect()
    }

    /// The JSON of the events.
    pub(crate) fn values(&self) -> Vec<Value> {
        self.events()
            .iter()
            .filter_map(|raw| serde_json::from_slice(sse::fields(raw).data?.as_ref()).ok())
            .collect()
    }

    /// The text of each token event.
    pub(crate) fn texts(&self, api: Api) -> Vec<String> {
        self.readings(api).into_iter().map(|reading| reading.text).filter(|text| !text.is_empty()).collect()
    }

    pub(crate) fn finish(&self, api: Api) -> Option<String> {
        self.readings(api).into_iter().find_map(|reading| reading.finish)
    }

    pub(crate) fn whole(&self, api: Api) -> Reading {
        read_body(api, &self.bytes).expect("a valid body")
    }
}
