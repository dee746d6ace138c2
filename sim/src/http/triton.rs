//! Triton's generate extension: `/v2/models/NAME/generate` and `/generate_stream`, as its vLLM and TensorRT-LLM
//! backends are called through it.

use bytes::BytesMut;
use http::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::generate::{Ask, Dialect, End, OneOrMany, put_event, serve};
use super::{Body, Call};
use crate::answer::{Finish, Token};
use crate::vocab;

#[derive(Debug, Deserialize)]
struct GenerateRequest {
    text_input: String,
    /// Parameters as a JSON object ...
    #[serde(default)]
    parameters: Sampling,
    /// ... or as a JSON string (the vLLM backend's tensor) ...
    sampling_parameters: Option<String>,
    /// ... or beside the text (TensorRT-LLM's).
    #[serde(flatten)]
    beside: Sampling,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sampling {
    max_tokens: Option<u64>,
    temperature: Option<f64>,
    #[serde(alias = "random_seed")]
    seed: Option<i64>,
    #[serde(alias = "stop_words")]
    stop: OneOrMany,
    ignore_eos: bool,
}

/// `POST /v2/models/NAME/generate`, `POST /v2/models/NAME/generate_stream`
pub(super) async fn generate(call: Call, model: &str, stream: bool) -> Result<Response<Body>, ApiError> {
    if model != call.shared.config.model_name {
        return Err(ApiError::invalid(format!("Request for unknown model: '{model}' is not found")));
    }
    let request: GenerateRequest = call.parse()?;
    let text: Sampling = match &request.sampling_parameters {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| ApiError::invalid(format!("sampling_parameters is not JSON: {error}")))?,
        None => Sampling::default(),
    };
    let mut prompt = Vec::new();
    vocab::encode(&request.text_input, &mut prompt);
    let mut ask = Ask::new(prompt);
    ask.max_tokens = Some(16);
    for given in [request.parameters, text, request.beside] {
        ask.max_tokens = given.max_tokens.or(ask.max_tokens);
        ask.temperature = given.temperature.or(ask.temperature);
        ask.seed = given.seed.or(ask.seed);
        ask.stop.extend(given.stop.into_vec());
        ask.ignore_eos |= given.ignore_eos;
    }
    let dialect = Triton { model: model.to_owned() };
    serve(&call, ask, stream, dialect).await
}

struct Triton {
    model: String,
}

impl Triton {
    fn output(&self, text: &str) -> Value {
        json!({"model_name": self.model, "model_version": "1", "text_output": text})
    }
}

impl Dialect for Triton {
    fn token(&mut self, out: &mut BytesMut, token: &Token, _so_far: &End) {
        // The last token is sent even if it is empty: there is no other end marker than the end of the stream.
        if !token.text.as_str().is_empty() || token.finish.is_some() {
            put_event(out, None, &self.output(token.text.as_str()));
        }
    }

    fn close(&mut self, _out: &mut BytesMut, _finish: Finish, _end: &End) {}

    fn whole(&mut self, text: String, _finish: Finish, _end: &End) -> Value {
        self.output(&text)
    }
}
