//! Single questions to the server, aside from the load.

use super::Target;
use super::client::Client;
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::Value;
use std::time::Duration;

/// The body of the answer to `GET path`, at most `limit` bytes of it, within `patience`; else why there is none.
pub(super) fn get(
    target: &Target,
    path: &str,
    headers: &HeaderMap,
    limit: usize,
    patience: Duration,
) -> Result<Bytes, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime
        .block_on(async { tokio::time::timeout(patience, ask(target, path, headers, limit, patience)).await })
        .map_err(|_| format!("no answer in {} s", patience.as_secs()))?
}

async fn ask(
    target: &Target,
    path: &str,
    headers: &HeaderMap,
    limit: usize,
    patience: Duration,
) -> Result<Bytes, String> {
    let client = Client::new(target.clone(), patience);
    let mut connection = client.connection().await.map_err(|end| end.in_words())?;
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() =
        target.path(path).parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    *request.headers_mut() = headers.clone();
    request.headers_mut().remove(header::CONTENT_TYPE);
    let response = connection.send(request).await.map_err(|error| error.error().to_string())?;
    let status = response.status();
    let body = Limited::new(response.into_body(), limit);
    let body = connection.drive(body.collect()).await.map_err(|error| error.to_string())?.to_bytes();
    if status.is_success() {
        return Ok(body);
    }
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = answer["error"]["message"].as_str().map(|said| format!(": {said}")).unwrap_or_default();
    Err(format!("{path} answers {status}{said}"))
}
