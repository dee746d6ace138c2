//! Which model the server has.

use super::client::Client;
use super::{LoadError, Target};
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// The first model of `/v1/models`.
///
/// # Errors
/// A server that does not answer in 10 s, or not with a list of models.
pub(super) fn first_model(target: &Target, headers: &HeaderMap) -> Result<String, LoadError> {
    let failed = |why: String| LoadError::Model { url: target.url().to_owned(), why };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| LoadError::Worker(error.to_string()))?;
    runtime
        .block_on(async { tokio::time::timeout(PATIENCE, ask(target, headers)).await })
        .map_err(|_| failed(format!("no answer in {} s", PATIENCE.as_secs())))?
        .map_err(failed)
}

async fn ask(target: &Target, headers: &HeaderMap) -> Result<String, String> {
    let client = Client::new(target.clone(), PATIENCE);
    let mut connection = client.connection().await.map_err(|end| format!("{end:?}"))?;
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() =
        target.path("/v1/models").parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    *request.headers_mut() = headers.clone();
    request.headers_mut().remove(header::CONTENT_TYPE);
    let response = connection.send(request).await.map_err(|error| error.error().to_string())?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("/v1/models answers {status}"));
    }
    let body = Limited::new(response.into_body(), 1 << 20);
    let body = connection.drive(body.collect()).await.map_err(|error| error.to_string())?.to_bytes();
    let list: Value =
        serde_json::from_slice(&body).map_err(|error| format!("/v1/models answers no JSON: {error}"))?;
    list["data"][0]["id"].as_str().map(str::to_owned).ok_or_else(|| "/v1/models lists no model".to_owned())
}
