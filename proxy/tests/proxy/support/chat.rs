//! Chat requests and their answers, as bytes on the wire.

/// A chat request for a stream, or not.
pub(crate) fn chat(stream: bool) -> String {
    post(
        "/v1/chat/completions",
        &format!(
            r#"{{"model":"tiny","stream":{stream},"max_tokens":10,"messages":[{{"role":"user","content":"Say something."}}]}}"#
        ),
    )
}

pub(crate) fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: model.test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) const GET: &str = "GET /anything HTTP/1.1\r\nHost: model.test\r\n\r\n";

/// A chat answer of `tokens` events, as one chunked message.
pub(crate) fn chat_stream(tokens: usize) -> Vec<u8> {
    let mut answer = STREAM_HEAD.to_vec();
    answer.extend(chunk(&role()));
    for n in 0..tokens {
        answer.extend(chunk(&token(n)));
    }
    answer.extend(chunk(&finish(tokens)));
    answer.extend(b"0\r\n\r\n");
    answer
}

pub(crate) const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

pub(crate) fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

pub(crate) fn role() -> String {
    event(r#"{"role":"assistant","content":""}"#, "null", "")
}

pub(crate) fn token(n: usize) -> String {
    event(&format!(r#"{{"content":"word{n} "}}"#), "null", "")
}

pub(crate) fn finish(tokens: usize) -> String {
    let usage = format!(
        r#","usage":{{"prompt_tokens":5,"completion_tokens":{tokens},"total_tokens":{}}}"#,
        tokens + 5
    );
    event("{}", r#""stop""#, &usage) + "data: [DONE]\n\n"
}

fn event(delta: &str, finish: &str, more: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"tiny\",\"choices\":[{{\"index\":0,\
         \"delta\":{delta},\"finish_reason\":{finish}}}]{more}}}\n\n"
    )
}

/// A chat answer that is no stream.
pub(crate) fn chat_json() -> String {
    json_answer(
        r#"{"id":"c","object":"chat.completion","model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"one two three"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}"#,
    )
}

pub(crate) fn json_answer(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
