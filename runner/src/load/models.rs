//! Which model the server has.

use super::body::Requests;
use super::get::{NoAnswer, connect, get};
use super::{LoadError, Target};
use brownout_injector::scenario::Load;
use http::HeaderMap;
use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// The first model of the server at `url`, asked with the headers of `load`.
///
/// # Errors
/// No URL, a server that does not answer in 10 s, or not with a list of models.
pub fn first_model(url: &str, load: &Load) -> Result<String, LoadError> {
    let target = Target::parse(url)?;
    let probe = Requests::new(load, &target, None, &|name| std::env::var(name).ok())?;
    ask(&target, probe.headers())
}

/// Whether TLS to the server at `url` is as it should be, before anything is measured: a certificate that nobody trusts
/// or a port without TLS is the user's to set right, not what a run is to find out. Nothing to say of `http` URLs, nor
/// of a server that is down. Waits for at most 10 s.
///
/// # Errors
/// No URL, no TLS, a certificate that is not accepted.
pub fn check_tls(url: &str) -> Result<(), LoadError> {
    let target = Target::parse(url)?;
    match target.tls().map(|_| connect(&target, PATIENCE)) {
        Some(Err(NoAnswer::Tls(why))) => Err(LoadError::Tls { url: target.url().to_owned(), why }),
        _ => Ok(()),
    }
}

/// The first model of `/v1/models`.
///
/// # Errors
/// A server that does not answer in 10 s, or not with a list of models.
pub(super) fn ask(target: &Target, headers: &HeaderMap) -> Result<String, LoadError> {
    let failed = |why: String| LoadError::Model { url: target.url().to_owned(), why };
    let body = get(target, "/v1/models", headers, 1 << 20, PATIENCE).map_err(|error| match error {
        NoAnswer::Tls(why) => LoadError::Tls { url: target.url().to_owned(), why },
        NoAnswer::Nobody(why) => LoadError::Nobody { url: target.url().to_owned(), why },
        NoAnswer::Other(why) => failed(why),
    })?;
    let list: Value = serde_json::from_slice(&body)
        .map_err(|error| failed(format!("/v1/models answers no JSON: {error}")))?;
    let first = list["data"][0]["id"].as_str().map(str::to_owned);
    first.ok_or_else(|| failed("/v1/models lists no model".to_owned()))
}
