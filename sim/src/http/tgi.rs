//! Text Generation Inference: `/generate` and `/generate_stream`.

use bytes::{BufMut, BytesMut};
use http::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::generate::{Ask, Dialect, End, serve};
use super::{Body, Call};
use crate::answer::{Finish, Token};
use crate::vocab;

#[derive(Debug, Deserialize)]
struct GenerateRequest {
    inputs: String,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parameters {
    max_new_tokens: Option<u64>,
    temperature: Option<f64>,
    do_sample: bool,
    seed: Option<i64>,
    stop: Vec<String>,
    details: bool,
}

/// `POST /generate`, `POST /generate_stream`
pub(super) async fn generate(call: Call, stream: bool) -> Result<Response<Body>, ApiError> {
    let request: GenerateRequest = call.parse()?;
    let Parameters { max_new_tokens, temperature, do_sample, seed, stop, details } = request.parameters;
    let mut prompt = Vec::new();
    vocab::encode(&request.inputs, &mut prompt);
    // Greedy unless asked to sample, as that server is.
    let greedy = temperature.is_none() && !do_sample;
    let ask = Ask {
        // Its default since version 2.
        max_tokens: Some(max_new_tokens.unwrap_or(100)),
        temperature: if greedy { Some(0.0) } else { temperature },
        seed,
        stop: stop.clone(),
        ..Ask::new(prompt)
    };
    let dialect = Tgi { text: String::new(), details, stops: !stop.is_empty(), seed };
    serve(&call, ask, stream, dialect).await
}

struct Tgi {
    text: String,
    details: bool,
    stops: bool,
    seed: Option<i64>,
}

impl Tgi {
    fn details(&self, finish: Finish, end: &End) -> Value {
        let reason = match finish {
            Finish::Length => "length",
            Finish::Stop if self.stops => "stop_sequence",
            _ => "eos_token",
        };
        json!({
            "finish_reason": reason, "generated_tokens": end.completion_tokens, "input_length": end.prompt_tokens,
            "seed": self.seed,
        })
    }
}

impl Dialect for Tgi {
    fn token(&mut self, out: &mut BytesMut, token: &Token, so_far: &End) {
        let text = token.text.as_str();
        self.text.push_str(text);
        // The last token's event carries the whole text; there is no event after it.
        let last = token.finish.map(|finish| (self.text.as_str(), self.details(finish, so_far)));
        let (generated, details) = last.unzip();
        let event = json!({
            "index": so_far.completion_tokens,
            "token": {"id": token.id, "text": text, "logprob": -0.5, "special": false},
            "generated_text": generated, "details": details,
        });
        // No space after the colon, as that server writes it.
        out.put_slice(b"data:");
        out.put_slice(event.to_string().as_bytes());
        out.put_slice(b"\n\n");
    }

    fn close(&mut self, _out: &mut BytesMut, _finish: Finish, _end: &End) {}

    fn whole(&mut self, text: String, finish: Finish, end: &End) -> Value {
        let mut answer = json!({"generated_text": text});
        if self.details {
            answer["details"] = self.details(finish, end);
        }
        answer
    }
}
