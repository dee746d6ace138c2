//! Everything that is not text generation: health, models, metrics, the server's truth, embeddings.

use std::fmt::Write as _;
use std::time::{Instant, SystemTime};

use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::{Body, Call, Shared, full, json};
use crate::answer::{AnswerSpec, Shape};
use crate::model::{self, Sampling};
use crate::vocab;

/// `GET`
pub(super) fn get(shared: &Shared, path: &str) -> Result<Response<Body>, ApiError> {
    let name = &shared.config.model_name;
    match path {
        "/health" | "/ping" | "/v2/health/ready" | "/v2/health/live" => {
            Ok(full(StatusCode::OK, "text/plain", ""))
        }
        "/metrics" => {
            Ok(full(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", shared.engine.metrics()))
        }
        "/truth" => Ok(full(StatusCode::OK, "application/x-ndjson", truth_lines(shared))),
        "/version" => Ok(json(StatusCode::OK, &json!({"version": env!("CARGO_PKG_VERSION")}))),
        "/info" => Ok(json(StatusCode::OK, &json!({"model_id": name, "version": env!("CARGO_PKG_VERSION")}))),
        "/v1/models" => Ok(json(StatusCode::OK, &json!({"object": "list", "data": [model_card(shared)]}))),
        _ => match (path.strip_prefix("/v1/models/"), path.strip_prefix("/v2/models/")) {
            (Some(model), _) if model == name => Ok(json(StatusCode::OK, &model_card(shared))),
            (Some(model), _) => Err(ApiError::unknown_model(model)),
            (_, Some(rest)) if rest.strip_suffix("/ready").unwrap_or(rest) == name => Ok(json(
                StatusCode::OK,
                &json!({"name": name, "versions": ["1"], "platform": "brownout-sim"}),
            )),
            _ => Err(ApiError::not_found(path)),
        },
    }
}

fn model_card(shared: &Shared) -> Value {
    json!({
        "id": shared.config.model_name, "object": "model", "created": shared.started, "owned_by": "brownout",
        "max_model_len": shared.config.scheduler.max_model_len,
    })
}

/// One JSON line a finished request; times are microseconds since the Unix epoch, so that another process can hold
/// its own against them.
fn truth_lines(shared: &Shared) -> String {
    let (now, wall) = (Instant::now(), SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default());
    let micros = |at: Instant| (wall.saturating_sub(now.saturating_duration_since(at))).as_micros() as u64;
    let mut out = String::new();
    for truth in shared.engine.truth() {
        let line = json!({
            "id": &*truth.id, "received_us": micros(truth.received), "scheduled_us": truth.scheduled.map(micros),
            "first_token_us": truth.first_token.map(micros), "last_token_us": truth.last_token.map(micros),
            "ttft_us": truth.ttft().map(|ttft| ttft.as_micros() as u64),
            "tpot_us": truth.tpot().map(|tpot| tpot.as_micros() as u64),
            "tokens": truth.tokens, "prompt_tokens": truth.prompt_tokens, "cached_tokens": truth.cached_tokens,
            "preemptions": truth.preemptions, "finish": truth.finish.as_str(),
        });
        let _ = writeln!(out, "{line}");
    }
    out
}

#[derive(Debug, Deserialize)]
struct EmbeddingsRequest {
    model: Option<String>,
    input: Input,
    dimensions: Option<usize>,
    encoding_format: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

/// Texts a request, as in OpenAI's API.
const MAX_INPUTS: usize = 2048;
const MAX_DIMENSIONS: usize = 4096;
const DEFAULT_DIMENSIONS: usize = 384;

/// `POST /v1/embeddings`
pub(super) async fn embeddings(call: Call) -> Result<Response<Body>, ApiError> {
    let request: EmbeddingsRequest = call.parse()?;
    call.shared.check_model(request.model.as_deref())?;
    let encode = |text: &String| {
        let mut tokens = Vec::new();
        vocab::encode(text, &mut tokens);
        tokens
    };
    let inputs: Vec<Vec<u32>> = match request.input {
        Input::Text(text) => vec![encode(&text)],
        Input::Texts(texts) => texts.iter().map(encode).collect(),
        Input::Tokens(tokens) => vec![tokens],
        Input::TokenLists(lists) => lists,
    };
    let limit = call.shared.config.scheduler.max_model_len;
    if inputs.is_empty() || inputs.len() > MAX_INPUTS {
        return Err(ApiError::invalid(format!("1 to {MAX_INPUTS} inputs a request are served")));
    }
    if let Some(tokens) = inputs.iter().find(|tokens| tokens.is_empty() || tokens.len() >= limit) {
        return Err(if tokens.is_empty() {
            ApiError::invalid("an input is empty")
        } else {
            ApiError::context_length(limit, tokens.len(), 0)
        });
    }
    let dimensions = request.dimensions.unwrap_or(DEFAULT_DIMENSIONS);
    if dimensions == 0 || dimensions > MAX_DIMENSIONS {
        return Err(ApiError::invalid(format!("dimensions must be between 1 and {MAX_DIMENSIONS}")));
    }
    let base64 = match request.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => return Err(ApiError::invalid(format!("encoding_format `{other}` is not served"))),
    };
    let tokens: u64 = inputs.iter().map(|tokens| tokens.len() as u64).sum();
    // Each input is prefilled by the engine, so that embeddings queue and cost what prompts do.
    let mut places = Vec::with_capacity(inputs.len());
    for prompt in &inputs {
        let spec = AnswerSpec {
            prompt: prompt.clone(),
            sampling: Sampling { temperature: 0.0, seed: 0 },
            max_tokens: 1,
            min_tokens: 0,
            ignore_eos: true,
            stop: Vec::new(),
            shape: Shape::Pooling,
        };
        let place = call.shared.engine.submit(call.id.clone(), call.received, spec, 0);
        places.push(place.ok_or_else(ApiError::overloaded)?);
    }
    let mut data = Vec::with_capacity(inputs.len());
    for (index, ((mut ticket, mut events), prompt)) in places.into_iter().zip(&inputs).enumerate() {
        events.recv().await.ok_or_else(ApiError::engine_gone)?;
        ticket.finished();
        let vector = model::embedding(&call.shared.engine.weights, prompt, dimensions);
        let vector = if base64 {
            let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            json!(encode_base64(&bytes))
        } else {
            json!(vector)
        };
        data.push(json!({"object": "embedding", "index": index, "embedding": vector}));
    }
    let body = json!({
        "object": "list", "data": data, "model": call.shared.config.model_name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    });
    Ok(json(StatusCode::OK, &body))
}

/// Standard base64 with padding (RFC 4648, section 4): what OpenAI's own Python client asks for.
fn encode_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0_u32, |group, &byte| group << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            if place <= chunk.len() {
                out.push(ALPHABET[(group >> (18 - 6 * place) & 63) as usize] as char);
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_matches_the_test_vectors_of_rfc_4648() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(super::encode_base64(plain.as_bytes()), coded);
        }
    }
}
