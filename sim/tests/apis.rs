//! Every API over real sockets: shapes, limits and errors.

mod support;

use std::time::Duration;

use brownout_sim::{Finish, Sim, SimConfig};
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use support::{Answer, Client, metric, post, request};

/// A server that answers at once: what is tested here is what it says, not when.
async fn quick() -> Sim {
    Sim::start(SimConfig::fixed(Duration::ZERO, Duration::ZERO)).await.expect("starts")
}

fn chat(extra: Value) -> Value {
    let mut body = json!({
        "model": "brownout-sim", "temperature": 0, "max_tokens": 12, "ignore_eos": true,
        "messages": [{"role": "user", "content": "Tell me about the river."}],
    });
    let fields = extra.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    body
}

fn content(answer: &Answer, pointer: &str) -> String {
    answer.chunks().iter().filter_map(|chunk| chunk.pointer(pointer)?.as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_chat_stream_has_role_tokens_finish_usage_and_done() {
    let sim = quick().await;
    let mut client = Client::http1(sim.addr()).await;
    let whole = client.post("/v1/chat/completions", &chat(json!({}))).await;
    assert_eq!(whole.status, StatusCode::OK);
    let text = whole.json()["choices"][0]["message"]["content"].as_str().expect("text").to_owned();
    assert_eq!(whole.json()["choices"][0]["finish_reason"], "length");

    let body = chat(json!({"stream": true, "stream_options": {"include_usage": true}}));
    let stream = client.post("/v1/chat/completions", &body).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(stream.events().last().expect("events").1, "[DONE]");
    let chunks = stream.chunks();
    assert_eq!(chunks.len(), 1 + 12 + 1 + 1, "role, tokens, finish, usage");
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert!(chunks[..14].iter().all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some()));
    assert_eq!(chunks[13]["choices"][0]["finish_reason"], "length");
    assert_eq!(chunks[14]["choices"], json!([]));
    assert_eq!(chunks[14]["usage"]["completion_tokens"], 12);
    assert_eq!(chunks[14]["usage"], whole.json()["usage"]);
    assert_eq!(content(&stream, "/choices/0/delta/content"), text, "streaming changes nothing in the text");
    let without = client.post("/v1/chat/completions", &chat(json!({"stream": true}))).await;
    assert!(without.chunks().iter().all(|chunk| chunk.get("usage").is_none()));
    let counted = chat(json!({"stream": true, "stream_options": {"continuous_usage_stats": true}}));
    let counted = client.post("/v1/chat/completions", &counted).await.chunks();
    assert_eq!(counted[5]["usage"]["completion_tokens"], 5);
}

#[tokio::test]
async fn equal_requests_get_equal_answers_and_seeds_count_only_when_sampling() {
    let sim = quick().await;
    let mut client = Client::http1(sim.addr()).await;
    let mut ask = async |extra: Value| {
        let answer = client.post("/v1/chat/completions", &chat(extra)).await.json();
        answer["choices"][0]["message"]["content"].as_str().expect("text").to_owned()
    };
    let greedy = ask(json!({})).await;
    assert_eq!(greedy, ask(json!({"seed": 5})).await);
    let sampled = ask(json!({"temperature": 1, "seed": 5})).await;
    assert_eq!(sampled, ask(json!({"temperature": 1, "seed": 5})).await);
    assert_ne!(sampled, ask(json!({"temperature": 1, "seed": 6})).await);
    assert_eq!(ask(json!({"temperature": null})).await, ask(json!({"temperature": null})).await);
}

#[tokio::test]
async fn limits_are_honoured() {
    let sim = quick().await;
    let mut client = Client::http1(sim.addr()).await;
    let mut usage = async |extra: Value| {
        let answer = client.post("/v1/chat/completions", &chat(extra)).await.json();
        let finish = answer["choices"][0]["finish_reason"].as_str().expect("a reason").to_owned();
        (answer["usage"]["completion_tokens"].as_u64().expect("a count"), finish)
    };
    assert_eq!(usage(json!({"max_tokens": 30})).await, (30, "length".to_owned()));
    assert_eq!(usage(json!({"max_completion_tokens": 31})).await, (31, "length".to_owned()));
    let (natural, finish) = usage(json!({"max_tokens": 4000, "ignore_eos": false})).await;
    assert_eq!(finish, "stop");
    assert!(natural < 1000, "{natural}");
    let (longer, _) = usage(json!({"max_tokens": 4000, "ignore_eos": false, "min_tokens": 1500})).await;
    assert!(longer >= 1500, "{longer}");
    let (stopped, finish) = usage(json!({"max_tokens": 4000, "stop": ["."]})).await;
    assert!(stopped < 1000 && finish == "stop", "{stopped} {finish}");
}

#[tokio::test]
async fn completions_take_text_and_tokens() {
    let sim = quick().await;
    let mut client = Client::http1(sim.addr()).await;
    let mut body = json!({"prompt": "the river", "max_tokens": 5, "temperature": 0, "ignore_eos": true});
    let whole = client.post("/v1/completions", &body).await.json();
    assert_eq!((&whole["object"], &whole["usage"]["prompt_tokens"]), (&json!("text_completion"), &json!(2)));
    body["stream"] = json!(true);
    let stream = client.post("/v1/completions", &body).await;
    assert_eq!(content(&stream, "/choices/0/text"), whole["choices"][0]["text"].as_str().expect("text"));
    body["prompt"] = json!([1, 2, 3, 4]);
    body["stream"] = json!(false);
    assert_eq!(client.post("/v1/completions", &body).await.json()["usage"]["prompt_tokens"], 4);
}

#[tokio::test]
async fn a_forced_tool_call_streams_arguments_that_fit_the_schema() {
    let sim = quick().await;
    let mut client = Client::http1(sim.addr()).await;
    let tool = |name: &str| {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {
            "city": {"type": "string"}, "unit": {"enum": ["C", "F"]}, "days": {"type": "integer"}}}}})
    };
    let tools = json!([tool("weather"), tool("forecast")]);
    let body = chat(json!({"tools": tools, "max_tokens": 100, "stream": true,
        "tool_choice": {"type": "function", "function": {"name": "forecast"}}}));
    let stream = client.post("/v1/chat/completions", &body).await;
    let chunks = stream.chunks();
    assert_eq!(chunks[0]["choices"][0]["delta"]["tool_calls"][0]["function"]["name"], "forecast");
    let arguments = content(&stream, "/choices/0/delta/tool_calls/0/function/arguments");
    let arguments: Value = serde_json::from_str(&arguments).expect("JSON arguments");
    assert!(arguments["city"].is_string() && arguments["days"].is_u64());
    assert!(["C", "F"].contains(&arguments["unit"].as_str().expect("a unit")));
    assert_eq!(chunks.last().expect("chunks")["choices"][0]["finish_reason"], "tool_calls");
    assert!(chunks.len() > 5, "arguments come in pieces");

    let body = chat(json!({"tools": tools, "max_tokens": 100, "tool_choice": "required"}));
    let whole = client.post("/v1/chat/completions", &body).await.json();
    let call = &whole["choices"][0]["message"]["tool_calls"][0]["function"];
    assert!(serde_json::from_str::<Value>(call["arguments"].as_str().expect("text")).is_ok());
    let body = chat(json!({"tools": tools, "tool_choice": {"type": "function", "function": {"name": "no"}}}));
    assert_eq!(client.post("/v1/chat/completions", &body).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn responses_stream_their_named_events_in_order() {
    let sim = quick().await;
    let mut client = Client::http1(sim.addr()).await;
    let mut body =
        json!({"model": "brownout-sim", "input": "the river", "max_output_tokens": 6, "temperature": 0});
    let whole = client.post("/v1/responses", &body).await.json();
    body["stream"] = json!(true);
    let stream = client.post("/v1/responses", &body).await;
    let names: Vec<String> = stream.events().into_iter().map(|(name, _)| name).collect();
    let mut expected = vec!["response.created", "response.in_progress", "response.output_item.added"];
    expected.push("response.content_part.added");
    expected.extend(["response.output_text.delta"; 6]);
    expected.extend(["response.output_text.done", "response.content_part.done", "response.output_item.done"]);
    expected.push("response.incomplete");
    assert_eq!(names, expected);
    let chunks = stream.chunks();
    assert!(chunks.iter().zip(&names).all(|(chunk, name)| chunk["type"] == **name));
    assert!(chunks.iter().enumerate().all(|(at, chunk)| chunk["sequence_number"] == at));
    let text = content(&stream, "/delta");
    assert_eq!(chunks.last().expect("chunks")["response"]["output"][0]["content"][0]["text"], text);
    assert_eq!(whole["output"][0]["content"][0]["text"], text);
    assert_eq!(whole["incomplete_details"]["reason"], "max_output_tokens");
}

#[tokio::test]
async fn anthropic_messages_stream_their_events_and_call_tools() {
    let sim = quick().await;
    let mut client = Client::http1(sim.addr()).await;
    let mut body = json!({"model": "brownout-sim", "max_tokens": 4, "temperature": 0, "stream": true,
        "system": "be brief", "messages": [{"role": "user", "content": [{"type": "text", "text": "the river"}]}]});
    let stream = client.post("/v1/messages", &body).await;
    let names: Vec<String> = stream.events().into_iter().map(|(name, _)| name).collect();
    let mut expected = vec!["message_start", "content_block_start", "ping"];
    expected.extend(["content_block_delta"; 4]);
    expected.extend(["content_block_stop", "message_delta", "message_stop"]);
    assert_eq!(names, expected);
    let chunks = stream.chunks();
    assert_eq!(chunks[8]["delta"]["stop_reason"], "max_tokens");
    assert_eq!(chunks[8]["usage"]["output_tokens"], 4);
    body["stream"] = json!(false);
    let whole = client.post("/v1/messages", &body).await.json();
    assert_eq!(whole["content"][0]["text"], content(&stream, "/delta/text"));

    body["max_tokens"] = json!(100);
    body["tools"] = json!([{"name": "weather", "input_schema": {"type": "object", "properties": {
        "city": {"type": "string"}}}}]);
    body["tool_choice"] = json!({"type": "any"});
    let whole = client.post("/v1/messages", &body).await.json();
    assert_eq!(whole["stop_reason"], "tool_use");
    assert!(whole["content"][0]["input"]["city"].is_string());
}

#[tokio::test]
async fn tgi_and_triton_stream_as_their_servers_do() {
    let sim = quick().await;
    let mut client = Client::http1(sim.addr()).await;
    let body = json!({"inputs": "the river", "parameters": {"max_new_tokens": 5, "details": true}});
    let whole = client.post("/generate", &body).await.json();
    assert_eq!(whole["details"]["generated_tokens"], 5);
    let stream = client.post("/generate_stream", &body).await;
    assert!(stream.text().starts_with("data:{"), "no space after the colon");
    let chunks = stream.chunks();
    assert_eq!(chunks.len(), 5);
    assert_eq!(content(&stream, "/token/text"), whole["generated_text"].as_str().expect("text"));
    assert_eq!(chunks[4]["generated_text"], whole["generated_text"]);
    assert_eq!(chunks[4]["details"]["finish_reason"], "length");
    assert!(chunks[3]["generated_text"].is_null());

    let path = "/v2/models/brownout-sim/generate";
    for body in [
        json!({"text_input": "the river", "max_tokens": 5, "temperature": 0, "ignore_eos": true}),
        json!({"text_input": "the river", "parameters": {"max_tokens": 5, "temperature": 0, "ignore_eos": true}}),
        json!({"text_input": "the river",
            "sampling_parameters": "{\"max_tokens\": 5, \"temperature\": 0, \"ignore_eos\": true}"}),
    ] {
        let whole = client.post(path, &body).await.json();
        assert_eq!(whole["model_name"], "brownout-sim");
        let stream = client.post(&format!("{path}_stream"), &body).await;
        assert_eq!(stream.chunks().len(), 5);
        assert_eq!(content(&stream, "/text_output"), whole["text_output"].as_str().expect("text"));
    }
    assert_eq!(client.get("/v2/health/ready").await.status, StatusCode::OK);
}

#[tokio::test]
async fn embeddings_come_as_floats_and_as_base64() {
    let sim = quick().await;
    let mut client = Client::http1(sim.addr()).await;
    let body = json!({"model": "brownout-sim", "input": ["the river", "the lake"], "dimensions": 64});
    let floats = client.post("/v1/embeddings", &body).await.json();
    assert_eq!(floats["data"][1]["index"], 1);
    assert_eq!(floats["data"][0]["embedding"].as_array().expect("floats").len(), 64);
    assert_ne!(floats["data"][0]["embedding"], floats["data"][1]["embedding"]);
    assert_eq!(floats["usage"]["prompt_tokens"], 4);
    let body = json!({"input": "the river", "encoding_format": "base64", "dimensions": 64});
    let coded = client.post("/v1/embeddings", &body).await.json();
    assert_eq!(coded["data"][0]["embedding"].as_str().expect("text").len(), 344);
    assert_eq!(metric(&sim.metrics(), "vllm:generation_tokens_total"), 0.0, "embeddings generate nothing");
}

#[tokio::test]
async fn errors_have_the_shape_of_the_api_that_was_called() {
    let sim = quick().await;
    let mut client = Client::http1(sim.addr()).await;
    let bad = client.call(request("POST", "/v1/chat/completions", Bytes::from_static(b"{\"mess"))).await;
    assert_eq!(
        (bad.status, &bad.json()["error"]["type"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_request_error"))
    );
    let unknown = client.post("/v1/chat/completions", &chat(json!({"model": "gpt-9"}))).await;
    assert_eq!(
        (unknown.status, &unknown.json()["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("model_not_found"))
    );
    let long = chat(json!({"messages": [{"role": "user", "content": "river ".repeat(9000)}]}));
    let long = client.post("/v1/chat/completions", &long).await;
    assert_eq!(long.status, StatusCode::BAD_REQUEST);
    assert_eq!(long.json()["error"]["code"], "context_length_exceeded");
    assert!(
        long.json()["error"]["message"].as_str().expect("text").contains("maximum context length is 8192")
    );
    for extra in [
        json!({"max_tokens": 9000}),
        json!({"max_tokens": 0}),
        json!({"n": 2}),
        json!({"temperature": 3}),
        json!({"min_tokens": 50}),
        json!({"messages": []}),
        json!({"stop": [""]}),
        json!({"tool_choice": "required"}),
    ] {
        let answer = client.post("/v1/chat/completions", &chat(extra.clone())).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{extra}");
        assert!(answer.json()["error"]["message"].is_string());
    }
    let anthropic = client.post("/v1/messages", &json!({"messages": []})).await;
    assert_eq!((anthropic.status, &anthropic.json()["type"]), (StatusCode::BAD_REQUEST, &json!("error")));
    let tgi = client.post("/generate", &json!({"input": "x"})).await;
    assert_eq!(
        (tgi.status, &tgi.json()["error_type"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("validation"))
    );
    let triton = client.post("/v2/models/other/generate", &json!({"text_input": "x"})).await;
    assert!(triton.status == StatusCode::BAD_REQUEST && triton.json()["error"].is_string());
    assert_eq!(client.post("/v1/nothing", &json!({})).await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        client.call(request("PUT", "/v1/models", Bytes::new())).await.status,
        StatusCode::METHOD_NOT_ALLOWED
    );
    assert!(sim.truth().is_empty(), "none of them reached the engine");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let config = SimConfig { max_body_bytes: 1000, ..SimConfig::fixed(Duration::ZERO, Duration::ZERO) };
    let sim = Sim::start(config).await.expect("starts");
    let mut client = Client::http1(sim.addr()).await;
    let body = chat(json!({"messages": [{"role": "user", "content": "river ".repeat(900)}]}));
    assert_eq!(client.post("/v1/chat/completions", &body).await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn request_ids_are_echoed_and_name_the_servers_truth() {
    let sim = quick().await;
    let mut client = Client::http1(sim.addr()).await;
    let mut given = post("/v1/chat/completions", &chat(json!({})));
    given.headers_mut().insert("x-request-id", "abc-1".parse().expect("a value"));
    assert_eq!(client.call(given).await.headers["x-request-id"], "abc-1");
    let made_up = client.post("/v1/chat/completions", &chat(json!({}))).await;
    let truth = sim.truth();
    assert_eq!(&*truth[0].id, "abc-1");
    assert_eq!(made_up.headers["x-request-id"], *truth[1].id);
    assert!(truth.iter().all(|request| request.tokens == 12 && request.finish == Finish::Length));
    let lines = client.get("/truth").await;
    let line: Value = serde_json::from_str(lines.text().lines().next().expect("a line")).expect("JSON");
    assert_eq!((&line["id"], &line["tokens"]), (&json!("abc-1"), &json!(12)));
    assert!(line["first_token_us"].as_u64() >= line["received_us"].as_u64());
}

#[tokio::test]
async fn everything_works_over_h2c_too() {
    let sim = quick().await;
    let mut client = Client::http2(sim.addr()).await;
    let stream = client.post("/v1/chat/completions", &chat(json!({"stream": true}))).await;
    assert_eq!(stream.events().last().expect("events").1, "[DONE]");
    assert_eq!(client.get("/v1/models").await.json()["data"][0]["id"], "brownout-sim");
    assert_eq!(client.get("/health").await.status, StatusCode::OK);
}

#[tokio::test]
async fn metrics_have_vllms_names_and_count() {
    let sim = Sim::start(SimConfig::default()).await.expect("starts");
    let mut client = Client::http1(sim.addr()).await;
    let prompt = "Tell me about the river and the bridge, slowly. ".repeat(6);
    let body = chat(json!({"messages": [{"role": "user", "content": prompt}], "max_tokens": 3}));
    let first = client.post("/v1/chat/completions", &body).await.json();
    let second = client.post("/v1/chat/completions", &body).await.json();
    assert_eq!(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let cached = second["usage"]["prompt_tokens_details"]["cached_tokens"].as_f64().expect("a count");
    let prompt_tokens = first["usage"]["prompt_tokens"].as_f64().expect("a count");
    assert_eq!(cached, ((prompt_tokens - 1.0) / 16.0).floor() * 16.0);
    let metrics = client.get("/metrics").await;
    let text = metrics.text();
    assert_eq!(metric(text, "vllm:prefix_cache_hits_total"), cached);
    assert_eq!(metric(text, "vllm:prefix_cache_queries_total"), 2.0 * prompt_tokens);
    assert_eq!(metric(text, "vllm:prompt_tokens_total"), 2.0 * prompt_tokens);
    assert_eq!(metric(text, "vllm:generation_tokens_total"), 6.0);
    assert_eq!(metric(text, "vllm:time_to_first_token_seconds_count"), 2.0);
    assert_eq!(metric(text, "vllm:inter_token_latency_seconds_count"), 4.0);
    assert_eq!(metric(text, "vllm:num_requests_running"), 0.0);
    assert_eq!(metric(text, "vllm:kv_cache_usage_perc"), 0.0);
    for name in ["e2e_request_latency", "request_queue_time", "request_prefill_time", "request_decode_time"] {
        assert_eq!(metric(text, &format!("vllm:{name}_seconds_count")), 2.0, "{name}");
    }
    let success =
        "vllm:request_success_total{engine=\"0\",model_name=\"brownout-sim\",finished_reason=\"length\"} 2.0";
    assert!(text.contains(success), "{text}");
    assert!(text.contains("vllm:cache_config_info{") && text.contains("num_gpu_blocks=\"2048\""));
}
