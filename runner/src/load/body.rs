//! What a request says, in each protocol's words.

use super::prompts::{Input, Prompt};
use super::{LoadError, Target};
use brownout_injector::facts::REQUEST_NUMBER;
use brownout_injector::scenario::Load;
use brownout_injector::wire::Api;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;
use serde_json::{Map, Value, json};

/// Makes the HTTP request of each prompt.
#[derive(Clone, Debug)]
pub struct Requests {
    api: Api,
    model: Option<String>,
    stream: bool,
    temperature: f64,
    extra: Map<String, Value>,
    uri: Uri,
    headers: HeaderMap,
}

impl Requests {
    /// Requests as `load` wants them, to `target`, for `model`; `env` looks up an environment variable.
    ///
    /// # Errors
    /// A header that cannot be sent, or names a variable that is not set; a protocol that cannot be spoken.
    pub fn new(
        load: &Load,
        target: &Target,
        model: Option<String>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, LoadError> {
        let stream = load.stream && load.api != Api::OpenaiEmbeddings;
        let path = target.api_path(load.api, stream, model.as_deref())?;
        let uri = path.parse().map_err(|error| LoadError::Load(format!("path `{path}`: {error}")))?;
        let mut headers = HeaderMap::new();
        let authority = HeaderValue::from_str(&target.authority)
            .map_err(|error| LoadError::Load(format!("host `{}`: {error}", target.authority)))?;
        headers.insert(header::HOST, authority);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = if stream { "text/event-stream" } else { "application/json" };
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("brownout/", env!("CARGO_PKG_VERSION"))),
        );
        if load.api == Api::AnthropicMessages {
            // Required by the protocol; the only version of it there is.
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        for (name, value) in &load.headers {
            let bad = |why: String| LoadError::Load(format!("header `{name}`: {why}"));
            let value = expand(value, env).map_err(bad)?;
            let key: HeaderName = name.parse().map_err(|_| bad("no header name".to_owned()))?;
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| bad("its value holds characters that no header may".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        Ok(Self {
            api: load.api,
            model,
            stream,
            temperature: load.temperature,
            extra: load.body.clone(),
            uri,
            headers,
        })
    }

    /// Whether a stream is asked for.
    #[must_use]
    pub const fn stream(&self) -> bool {
        self.stream
    }

    /// The headers that every request has.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The model that is asked for.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The tools offered, by name.
    #[must_use]
    pub fn tools(&self) -> Vec<String> {
        let tools = self.extra.get("tools").and_then(Value::as_array);
        let name =
            |tool: &Value| tool["function"]["name"].as_str().or(tool["name"].as_str()).map(str::to_owned);
        tools.map(|tools| tools.iter().filter_map(name).collect()).unwrap_or_default()
    }

    /// Request `number`, which asks `prompt`.
    #[must_use]
    pub fn request(&self, number: u64, prompt: &Prompt) -> Request<Full<Bytes>> {
        let body = self.body(prompt).to_string();
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(REQUEST_NUMBER, HeaderValue::from(number));
        if !request.headers().contains_key("x-request-id")
            && let Ok(id) = HeaderValue::from_str(&format!("brownout-{number}"))
        {
            request.headers_mut().insert("x-request-id", id);
        }
        request
    }

    fn body(&self, prompt: &Prompt) -> Value {
        let text = || prompt.input.text();
        let messages = || match &prompt.input {
            Input::Text(text) => json!([{"role": "user", "content": text}]),
            Input::Messages(messages) => json!(messages),
        };
        let (max_tokens, temperature, stream) = (prompt.max_tokens, self.temperature, self.stream);
        let model = self.model.as_deref().unwrap_or_default();
        let mut body = match self.api {
            Api::OpenaiChat => json!({"model": model, "messages": messages(), "max_tokens": max_tokens,
                "temperature": temperature, "stream": stream}),
            Api::OpenaiCompletions => json!({"model": model, "prompt": text(), "max_tokens": max_tokens,
                "temperature": temperature, "stream": stream}),
            Api::OpenaiResponses => {
                let input = match &prompt.input {
                    Input::Text(text) => json!(text),
                    Input::Messages(messages) => json!(messages),
                };
                json!({"model": model, "input": input, "max_output_tokens": max_tokens,
                    "temperature": temperature, "stream": stream})
            }
            Api::OpenaiEmbeddings | Api::Other => json!({"model": model, "input": text()}),
            Api::AnthropicMessages => {
                json!({"model": model, "messages": messages(), "max_tokens": max_tokens,
                "temperature": temperature, "stream": stream})
            }
            Api::TgiGenerate => {
                let mut parameters = json!({"max_new_tokens": max_tokens, "details": true});
                // TGI refuses a temperature of 0: greedy is what it does when none is given.
                if temperature > 0.0 {
                    parameters["temperature"] = json!(temperature);
                    parameters["do_sample"] = json!(true);
                }
                json!({"inputs": text(), "parameters": parameters})
            }
            Api::TritonGenerate => json!({"text_input": text(), "max_tokens": max_tokens,
                "temperature": temperature, "stream": stream}),
        };
        if stream && matches!(self.api, Api::OpenaiChat | Api::OpenaiCompletions) {
            body["stream_options"] = json!({"include_usage": true});
        }
        for (key, value) in &self.extra {
            body[key.as_str()] = value.clone();
        }
        body
    }
}

/// Puts the environment in the place of each `${NAME}`.
///
/// # Errors
/// A variable that is not set, a `${` that is not closed.
pub fn expand(template: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), template);
    while let Some(at) = rest.find("${") {
        text.push_str(&rest[..at]);
        let name = &rest[at + 2..];
        let end = name.find('}').ok_or_else(|| "`${` is not closed by `}`".to_owned())?;
        let value = env(&name[..end])
            .ok_or_else(|| format!("the environment variable `{}` is not set", &name[..end]))?;
        text.push_str(value.trim());
        rest = &name[end + 1..];
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Load {
        serde_json::from_str(text).expect("a load")
    }

    fn requests(load: &Load) -> Result<Requests, LoadError> {
        let target = Target::parse("http://127.0.0.1:8000").expect("a URL");
        let env = |name: &str| (name == "KEY").then(|| "sk-1\n".to_owned());
        Requests::new(load, &target, Some("m".to_owned()), &env)
    }

    fn body(api: &str, rest: &str) -> Value {
        let load = load(&format!(
            r#"{{"api": "{api}", "arrival": {{"constant": {{"rate": 1}}}}, "prompt": {{"tokens": {{"constant": 1}}}}{rest}}}"#
        ));
        requests(&load)
            .expect("requests")
            .body(&Prompt { input: Input::Text("why".to_owned()), max_tokens: 9 })
    }

    #[test]
    fn each_protocol_is_asked_in_its_own_words() {
        let messages = json!([{"role": "user", "content": "why"}]);
        assert_eq!(
            body("openai-chat", ""),
            json!({"model": "m", "messages": messages, "max_tokens": 9, "temperature": 0.0, "stream": true,
                "stream_options": {"include_usage": true}})
        );
        assert_eq!(body("openai-chat", r#", "stream": false"#).get("stream_options"), None);
        assert_eq!(body("openai-completions", "")["prompt"], "why");
        assert_eq!(body("openai-responses", "")["max_output_tokens"], 9);
        assert_eq!(body("openai-embeddings", ""), json!({"model": "m", "input": "why"}));
        assert_eq!(body("anthropic-messages", "")["messages"], messages);
        assert_eq!(
            body("tgi-generate", ""),
            json!({"inputs": "why", "parameters": {"max_new_tokens": 9, "details": true}})
        );
        assert_eq!(body("tgi-generate", r#", "temperature": 0.5"#)["parameters"]["do_sample"], true);
        assert_eq!(body("triton-generate", "")["text_input"], "why");
    }

    #[test]
    fn extra_fields_win() {
        let body = body("openai-chat", r#", "body": {"max_tokens": 3, "ignore_eos": true}"#);
        assert_eq!((&body["max_tokens"], &body["ignore_eos"]), (&json!(3), &json!(true)));
    }

    #[test]
    fn headers_carry_the_number_and_the_environment() {
        let load = load(
            r#"{"arrival": {"constant": {"rate": 1}}, "prompt": {"tokens": {"constant": 1}},
                "headers": {"authorization": "Bearer ${KEY}"}}"#,
        );
        let prompt = Prompt { input: Input::Text("why".to_owned()), max_tokens: 9 };
        let request = requests(&load).expect("requests").request(42, &prompt);
        let header = |name: &str| request.headers()[name].to_str().expect("text").to_owned();
        assert_eq!(header("authorization"), "Bearer sk-1");
        assert_eq!(header("x-brownout-request"), "42");
        assert_eq!(header("x-request-id"), "brownout-42");
        assert_eq!(header("host"), "127.0.0.1:8000");
    }

    #[test]
    fn headers_that_cannot_be_made_are_errors_that_name_them() {
        for (value, why) in
            [("${NONE}", "`NONE` is not set"), ("${KEY", "not closed"), ("a\\nb", "no header may")]
        {
            let load = load(&format!(
                r#"{{"arrival": {{"constant": {{"rate": 1}}}}, "prompt": {{"tokens": {{"constant": 1}}}},
                    "headers": {{"x-a": "{value}"}}}}"#
            ));
            let error = requests(&load).expect_err(value).to_string();
            assert!(error.contains("x-a") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn offered_tools_are_known_by_name_in_both_shapes() {
        let load = load(
            r#"{"arrival": {"constant": {"rate": 1}}, "prompt": {"tokens": {"constant": 1}},
                "body": {"tools": [{"type": "function", "function": {"name": "a"}}, {"name": "b"}]}}"#,
        );
        assert_eq!(requests(&load).expect("requests").tools(), ["a", "b"]);
    }
}
