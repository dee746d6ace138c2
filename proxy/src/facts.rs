//! What a plan may ask about a request: read here, and only while a plan is armed. Bodies of the known protocols are
//! read up to a bound; whatever is larger, or is no known protocol, passes unread. A call goes in as it arrived; it goes
//! on with what is known of it, and with its body read whole where it was read. Answers pass untouched.

use crate::body::Body;
use crate::call::{Call, RequestBody};
use crate::failure::Failure;
use crate::next::{Detour, Next};
use crate::site::Site;
use brownout_injector::Facts;
use brownout_injector::facts::REQUEST_NUMBER;
use brownout_injector::wire::Api;
use http::{Method, Response};
use serde_json::Value;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// Reads the facts of each request while a plan is armed.
#[derive(Clone, Debug)]
pub(crate) struct FactsLayer {
    site: Arc<Site>,
}

impl FactsLayer {
    pub(crate) const fn new(site: Arc<Site>) -> Self {
        Self { site }
    }
}

impl<S> Layer<S> for FactsLayer {
    type Service = ReadFacts<S>;

    fn layer(&self, inner: S) -> ReadFacts<S> {
        ReadFacts { inner, site: self.site.clone() }
    }
}

/// See [`FactsLayer`].
#[derive(Clone, Debug)]
pub(crate) struct ReadFacts<S> {
    inner: S,
    site: Arc<Site>,
}

impl<S: Next> Service<Call> for ReadFacts<S> {
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Detour<S::Future, S::Foreign>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        if !self.site.shared.is_armed() {
            return Detour::straight(self.inner.call(call));
        }
        if call.api == Api::Other || call.head.method != Method::POST {
            call.known = Some(Box::new(Known::of_head(&call)));
            return Detour::straight(self.inner.call(call));
        }
        let (mut inner, site) = (self.inner.take(), self.site.clone());
        Detour::around(async move {
            let body = std::mem::replace(&mut call.body, RequestBody::Full(bytes::Bytes::new()));
            call.body = body.read(site.limits().body_bytes).await.map_err(|_| Failure::ClientBody)?;
            let mut known = Known::of_head(&call);
            match &call.body {
                RequestBody::Full(body) => known.add_body(call.api, body),
                _ => site.meter.count(&site.meter.unread_bodies, 1),
            }
            call.known = Some(Box::new(known));
            inner.call(call).await
        })
    }
}

/// What is known of a request beyond its head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its own number, where the client gave one.
    pub(crate) number: Option<u64>,
    /// The model it asks for.
    pub(crate) model: Option<String>,
    /// Whether it asks for a stream.
    pub(crate) stream: bool,
    /// Size of its prompt: a quarter of its characters.
    pub(crate) prompt_tokens: u32,
    /// The most output tokens that it allows.
    pub(crate) max_tokens: Option<u32>,
}

impl Known {
    fn of_head(call: &Call) -> Self {
        let number = call.head.headers.get(REQUEST_NUMBER);
        Self {
            number: number.and_then(|number| number.to_str().ok()).and_then(|number| number.parse().ok()),
            stream: Api::path_streams(call.head.uri.path()),
            ..Self::default()
        }
    }

    fn add_body(&mut self, api: Api, body: &[u8]) {
        let Ok(body) = serde_json::from_slice::<Value>(body) else { return };
        self.model = body["model"].as_str().map(str::to_owned);
        self.stream |= body["stream"].as_bool().unwrap_or(false);
        let prompts: &[&str] = match api {
            Api::OpenaiChat => &["messages"],
            Api::OpenaiCompletions => &["prompt"],
            Api::OpenaiResponses => &["instructions", "input"],
            Api::OpenaiEmbeddings => &["input"],
            Api::AnthropicMessages => &["system", "messages"],
            Api::TgiGenerate => &["inputs"],
            Api::TritonGenerate => &["text_input"],
            Api::Other => &[],
        };
        let characters: usize = prompts.iter().map(|key| characters(&body[*key])).sum();
        self.prompt_tokens = u32::try_from(characters.div_ceil(4)).unwrap_or(u32::MAX);
        self.max_tokens = ["max_completion_tokens", "max_tokens", "max_output_tokens"]
            .iter()
            .map(|key| &body[*key])
            .chain([&body["parameters"]["max_new_tokens"], &body["parameters"]["max_tokens"]])
            .find_map(Value::as_u64)
            .map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
    }
}

/// Characters of text a model would read: strings, and in messages their `content` and `text`. Token ids count four
/// characters each, so that a quarter of them is their number.
fn characters(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Number(_) => 4,
        Value::Array(values) => values.iter().map(characters).sum(),
        Value::Object(fields) => {
            ["content", "text"].iter().filter_map(|key| fields.get(*key)).map(characters).sum()
        }
        Value::Null | Value::Bool(_) => 0,
    }
}

impl Call {
    /// Hands the facts, `at` this time since arming, to `ask`.
    pub(crate) fn with_facts<R>(&self, known: &Known, at: Duration, ask: impl FnOnce(&Facts<'_>) -> R) -> R {
        let header = |name: &str| self.head.headers.get(name).and_then(|value| value.to_str().ok());
        ask(&Facts {
            at,
            number: known.number,
            method: self.head.method.as_str(),
            path: self.head.uri.path(),
            api: self.api,
            model: known.model.as_deref(),
            stream: known.stream,
            prompt_tokens: known.prompt_tokens,
            max_tokens: known.max_tokens,
            header: &header,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(api: Api, body: &str) -> Known {
        let mut known = Known::default();
        known.add_body(api, body.as_bytes());
        known
    }

    #[test]
    fn a_body_says_model_stream_and_sizes() {
        let chat = r#"{"model": "m", "stream": true, "max_tokens": 7, "messages": [
            {"role": "system", "content": "12345678"},
            {"role": "user", "content": [{"type": "text", "text": "1234"}, {"type": "image_url"}]}]}"#;
        let chat = known(Api::OpenaiChat, chat);
        assert_eq!((chat.model.as_deref(), chat.stream), (Some("m"), true));
        assert_eq!((chat.prompt_tokens, chat.max_tokens), (3, Some(7)));
        let tgi = known(Api::TgiGenerate, r#"{"inputs": "123456", "parameters": {"max_new_tokens": 9}}"#);
        assert_eq!((tgi.prompt_tokens, tgi.max_tokens), (2, Some(9)));
        assert_eq!(known(Api::OpenaiCompletions, r#"{"prompt": [1, 2, 3]}"#).prompt_tokens, 3);
    }

    #[test]
    fn what_is_no_json_says_nothing() {
        for body in ["", "[]", "{", "\u{feff}{}", "[[[[", "null"] {
            assert_eq!(known(Api::OpenaiChat, body), Known::default(), "{body}");
        }
    }
}
