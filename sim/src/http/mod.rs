//! The HTTP side: routes, requests in, answers out. One file a dialect.

mod anthropic;
mod body;
mod error;
mod generate;
mod misc;
mod openai;
mod responses;
mod tgi;
mod tools;
mod triton;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

pub(crate) use self::body::Body;
use self::error::{ApiError, Family};
use crate::config::SimConfig;
use crate::engine::Engine;

/// A request whose body does not arrive within this time is answered 408, so that slow senders hold no memory.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) config: SimConfig,
    requests: AtomicU64,
    /// Unix time of the start, seconds: the model's `created`.
    started: u64,
}

impl Shared {
    pub(crate) fn new(engine: Engine, config: SimConfig) -> Shared {
        Shared { engine, config, requests: AtomicU64::new(1), started: unix_seconds() }
    }

    /// Model names are checked where a request gives one; most clients must, curl users need not.
    fn check_model(&self, model: Option<&str>) -> Result<(), ApiError> {
        match model {
            Some(name) if name != self.config.model_name => Err(ApiError::unknown_model(name)),
            _ => Ok(()),
        }
    }
}

fn unix_seconds() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

/// One request, read.
struct Call {
    shared: Arc<Shared>,
    received: Instant,
    /// The client's id, or one made up.
    id: Arc<str>,
    /// Unix time, seconds.
    created: u64,
    body: Bytes,
}

impl Call {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiError::invalid(format!("invalid JSON body: {error}")))
    }
}

/// Answers one request. Never fails: errors become responses here, in the shape of the API that was called.
pub(crate) async fn handle(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let received = Instant::now();
    let given = request.headers().get("x-request-id").cloned();
    let id: Arc<str> = match given.as_ref().and_then(|value| value.to_str().ok()) {
        Some(id) => id.into(),
        None => format!("{:016x}", shared.requests.fetch_add(1, Ordering::Relaxed)).into(),
    };
    let family = Family::of(request.uri().path());
    let mut response = match route(shared, request, received, id.clone()).await {
        Ok(response) => response,
        Err(error) => error.into_response(family),
    };
    if let Some(value) = given.or_else(|| HeaderValue::from_str(&id).ok()) {
        response.headers_mut().insert("x-request-id", value);
    }
    Ok(response)
}

async fn route(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    received: Instant,
    id: Arc<str>,
) -> Result<Response<Body>, ApiError> {
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    if method == Method::GET || method == Method::HEAD {
        return misc::get(&shared, &path);
    }
    if method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let limit = shared.config.max_body_bytes;
    let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(request.into_body(), limit).collect())
        .await
        .map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the request body did not arrive in time"))?
        .map_err(|error| match error.downcast_ref::<http_body_util::LengthLimitError>() {
            Some(_) => {
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is over {limit} bytes"))
            }
            None => ApiError::invalid(format!("the request body broke off: {error}")),
        })?
        .to_bytes();
    let call = Call { shared, received, id, created: unix_seconds(), body };
    match path.as_str() {
        "/v1/chat/completions" => openai::chat(call).await,
        "/v1/completions" => openai::completions(call).await,
        "/v1/embeddings" => misc::embeddings(call).await,
        "/v1/responses" => responses::responses(call).await,
        "/v1/messages" => anthropic::messages(call).await,
        "/generate" => tgi::generate(call, false).await,
        "/generate_stream" => tgi::generate(call, true).await,
        _ => match path.strip_prefix("/v2/models/").and_then(|rest| rest.split_once('/')) {
            Some((model, "generate")) => triton::generate(call, model, false).await,
            Some((model, "generate_stream")) => triton::generate(call, model, true).await,
            _ => Err(ApiError::not_found(&path)),
        },
    }
}

/// A complete response with a body.
fn full(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn json(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    full(status, "application/json", value.to_string())
}
