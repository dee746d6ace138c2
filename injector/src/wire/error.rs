//! Errors in each provider's own shape.

use super::Api;

/// An error as a provider tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// HTTP status.
    pub status: u16,
    /// The provider's own word for the kind of error, such as `rate_limit_exceeded`; chosen by status where empty.
    pub code: String,
    /// The message.
    pub message: String,
}

impl ProviderError {
    /// The JSON body as the provider behind `api` writes it.
    #[must_use]
    pub fn body(&self, api: Api) -> Vec<u8> {
        let kind = self.kind(api);
        let value = match api {
            Api::AnthropicMessages => {
                serde_json::json!({"type": "error", "error": {"type": kind, "message": self.message}})
            }
            Api::TgiGenerate => serde_json::json!({"error": self.message, "error_type": kind}),
            Api::TritonGenerate => serde_json::json!({"error": self.message}),
            _ => serde_json::json!({
                "error": {"message": self.message, "type": kind, "param": null, "code": self.openai_code(kind)}
            }),
        };
        value.to_string().into_bytes()
    }

    /// The code beside OpenAI's type. A 404 and a 401 have the type of any bad request, and only the code tells them.
    fn openai_code<'a>(&'a self, kind: &'a str) -> &'a str {
        match self.status {
            _ if !self.code.is_empty() => &self.code,
            401 => "invalid_api_key",
            404 => "model_not_found",
            _ => kind,
        }
    }

    /// The error type that the provider documents for this status.
    fn kind(&self, api: Api) -> &'static str {
        match (api, self.status) {
            (Api::AnthropicMessages, 400) => "invalid_request_error",
            (Api::AnthropicMessages, 401) => "authentication_error",
            (Api::AnthropicMessages, 403) => "permission_error",
            (Api::AnthropicMessages, 404) => "not_found_error",
            (Api::AnthropicMessages, 413) => "request_too_large",
            (Api::AnthropicMessages, 429) => "rate_limit_error",
            (Api::AnthropicMessages, 529) => "overloaded_error",
            (Api::AnthropicMessages, _) => "api_error",
            (Api::TgiGenerate, 422) => "validation",
            (Api::TgiGenerate, 429) => "overloaded",
            (Api::TgiGenerate, 424) => "generation",
            (Api::TgiGenerate, 500) => "incomplete_generation",
            (Api::TgiGenerate, _) => "generation",
            (_, 429) => "rate_limit_exceeded",
            (_, 400..=499) => "invalid_request_error",
            _ => "server_error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As OpenAI's own server answers; both 404 and 401 are seen in many public reports of its clients.
    #[test]
    fn openai_errors_have_its_types_and_codes() {
        for (status, kind, code) in [
            (400, "invalid_request_error", "invalid_request_error"),
            (401, "invalid_request_error", "invalid_api_key"),
            (404, "invalid_request_error", "model_not_found"),
            (429, "rate_limit_exceeded", "rate_limit_exceeded"),
            (500, "server_error", "server_error"),
            (503, "server_error", "server_error"),
        ] {
            let error = ProviderError { status, code: String::new(), message: "no".to_owned() };
            let body: serde_json::Value =
                serde_json::from_slice(&error.body(Api::OpenaiChat)).expect("it is JSON");
            assert_eq!(
                (&body["error"]["type"], &body["error"]["code"]),
                (&kind.into(), &code.into()),
                "{status}"
            );
        }
    }

    #[test]
    fn a_code_that_is_given_stays() {
        let error = ProviderError { status: 404, code: "x".to_owned(), message: "no".to_owned() };
        assert!(String::from_utf8_lossy(&error.body(Api::OpenaiChat)).contains(r#""code":"x""#));
    }
}
