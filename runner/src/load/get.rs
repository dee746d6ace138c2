//! Single questions to the server, aside from the load.

use super::Target;
use super::client::{Client, Connection};
use super::outcome::End;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::Value;
use std::time::Duration;

/// To what is no HTTP, a server that speaks TLS says nothing, an alert, or by way of exception 400 in plain text.
const PERHAPS_TLS: &str = " (a port that speaks TLS wants https:// in place of http://)";

/// Why a question got no answer, in words.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// There was no TLS connection.
    Tls(String),
    /// There was no connection.
    Nobody(String),
    /// Anything else.
    Other(String),
}

impl From<String> for NoAnswer {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

/// Connects, shakes hands, and closes, within `patience`; else why there is no connection.
pub(super) fn connect(target: &Target, patience: Duration) -> Result<(), NoAnswer> {
    block_on(patience, async { open(target, patience).await.map(drop) })
}

/// The body of the answer to `GET path`, at most `limit` bytes of it, within `patience`; else why there is none.
pub(super) fn get(
    target: &Target,
    path: &str,
    headers: &HeaderMap,
    limit: usize,
    patience: Duration,
) -> Result<Bytes, NoAnswer> {
    block_on(patience, ask(target, path, headers, limit, patience))
}

fn block_on<T>(patience: Duration, work: impl Future<Output = Result<T, NoAnswer>>) -> Result<T, NoAnswer> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime
        .block_on(async { tokio::time::timeout(patience, work).await })
        .map_err(|_| format!("no answer in {} s", patience.as_secs()))?
}

async fn open(target: &Target, patience: Duration) -> Result<Connection, NoAnswer> {
    Client::new(target.clone(), patience).open().await.map_err(|end| match end {
        End::Tls(why) => NoAnswer::Tls(why),
        End::Refused(why) => NoAnswer::Nobody(why),
        other => NoAnswer::Other(other.in_words()),
    })
}

async fn ask(
    target: &Target,
    path: &str,
    headers: &HeaderMap,
    limit: usize,
    patience: Duration,
) -> Result<Bytes, NoAnswer> {
    let mut connection = open(target, patience).await?;
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() =
        target.path(path).parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    *request.headers_mut() = headers.clone();
    request.headers_mut().remove(header::CONTENT_TYPE);
    let unanswered = |why: String| if target.tls().is_none() { why + PERHAPS_TLS } else { why };
    let response = connection.send(request).await.map_err(|error| unanswered(error.error().to_string()))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), limit);
    let body = connection.drive(body.collect()).await.map_err(|error| error.to_string())?.to_bytes();
    if status.is_success() {
        return Ok(body);
    }
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = answer["error"]["message"].as_str().map(|said| format!(": {said}")).unwrap_or_default();
    let why = format!("{path} answers {status}{said}");
    let names_tls = ["HTTPS", "SSL"].iter().any(|word| String::from_utf8_lossy(&body).contains(word));
    let is_tls = status == StatusCode::BAD_REQUEST && names_tls;
    Err(if is_tls { unanswered(why) } else { why }.into())
}
