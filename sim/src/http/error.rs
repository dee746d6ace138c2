//! Errors, and the one place where they become responses in the shape of the API that was called.

use http::{Response, StatusCode};
use serde_json::json;

use super::{Body, json};

/// Whose error shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    OpenAi,
    Anthropic,
    Tgi,
    Triton,
}

impl Family {
    pub(super) fn of(path: &str) -> Family {
        match path {
            "/v1/messages" => Family::Anthropic,
            "/generate" | "/generate_stream" => Family::Tgi,
            _ if path.starts_with("/v2/") => Family::Triton,
            _ => Family::OpenAi,
        }
    }
}

/// Why a request was not served.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    code: Option<&'static str>,
    param: Option<&'static str>,
    message: String,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError { status, code: None, param: None, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn unknown_model(model: &str) -> ApiError {
        ApiError {
            code: Some("model_not_found"),
            param: Some("model"),
            ..ApiError::new(StatusCode::NOT_FOUND, format!("The model `{model}` does not exist."))
        }
    }

    pub(super) fn context_length(limit: usize, prompt: usize, output: usize) -> ApiError {
        ApiError {
            code: Some("context_length_exceeded"),
            param: Some("messages"),
            ..ApiError::invalid(format!(
                "This model's maximum context length is {limit} tokens. However, you requested {} tokens ({prompt} \
                 in the prompt, {output} for the answer). Please shorten the prompt or ask for fewer tokens.",
                prompt + output
            ))
        }
    }

    pub(super) fn overloaded() -> ApiError {
        ApiError {
            code: Some("overloaded"),
            ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many requests in flight")
        }
    }

    pub(super) fn engine_gone() -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the engine stopped before the answer was complete")
    }

    pub(super) fn not_found(path: &str) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, format!("no such endpoint: {path}"))
    }

    pub(super) fn method_not_allowed() -> ApiError {
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this endpoint does not take this method")
    }

    pub(super) fn into_response(self, family: Family) -> Response<Body> {
        let ApiError { status, code, param, message } = self;
        let kind = match status {
            StatusCode::NOT_FOUND if family == Family::Anthropic => "not_found_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        };
        let (status, body) = match family {
            Family::OpenAi => {
                (status, json!({"error": {"message": message, "type": kind, "param": param, "code": code}}))
            }
            Family::Anthropic => {
                (status, json!({"type": "error", "error": {"type": kind, "message": message}}))
            }
            // The router answers 422 to what does not validate, 429 when it is full.
            Family::Tgi => match status {
                StatusCode::BAD_REQUEST => {
                    (StatusCode::UNPROCESSABLE_ENTITY, json!({"error": message, "error_type": "validation"}))
                }
                StatusCode::SERVICE_UNAVAILABLE => {
                    (StatusCode::TOO_MANY_REQUESTS, json!({"error": message, "error_type": "overloaded"}))
                }
                status => (status, json!({"error": message, "error_type": "generation"})),
            },
            Family::Triton => (status, json!({"error": message})),
        };
        json(status, &body)
    }
}
