//! Which model the server has.

use super::get::get;
use super::{LoadError, Target};
use http::HeaderMap;
use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// The first model of `/v1/models`.
///
/// # Errors
/// A server that does not answer in 10 s, or not with a list of models.
pub(super) fn first_model(target: &Target, headers: &HeaderMap) -> Result<String, LoadError> {
    let failed = |why: String| LoadError::Model { url: target.url().to_owned(), why };
    let body = get(target, "/v1/models", headers, 1 << 20, PATIENCE).map_err(failed)?;
    let list: Value = serde_json::from_slice(&body)
        .map_err(|error| failed(format!("/v1/models answers no JSON: {error}")))?;
    let first = list["data"][0]["id"].as_str().map(str::to_owned);
    first.ok_or_else(|| failed("/v1/models lists no model".to_owned()))
}
