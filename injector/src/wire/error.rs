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
                "error": {"message": self.message, "type": kind, "param": null, "code": self.code_or(kind)}
            }),
        };
        value.to_string().into_bytes()
    }

    fn code_or<'a>(&'a self, kind: &'a str) -> &'a str {
        if self.code.is_empty() { kind } else { &self.code }
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
            (_, 401) => "authentication_error",
            (_, 404) => "not_found_error",
            (_, 429) => "rate_limit_exceeded",
            (_, 400..=499) => "invalid_request_error",
            _ => "server_error",
        }
    }
}
