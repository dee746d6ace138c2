//! Which protocol a path belongs to.

use serde::{Deserialize, Serialize};

/// The protocols whose streams and errors are understood. Faults in tokens and answers act on their paths alone. Those
/// that need no protocol (`httpError`, `disconnect`, `blackhole`, `latency`, `bandwidth`, `queue`, `rateLimit`) act on every
/// path that is no probe, `/v1/models` too; `when.path` narrows them. A request that no fault matches passes untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// `POST /v1/chat/completions`.
    OpenaiChat,
    /// `POST /v1/completions`.
    OpenaiCompletions,
    /// `POST /v1/responses`.
    OpenaiResponses,
    /// `POST /v1/embeddings`.
    OpenaiEmbeddings,
    /// `POST /v1/messages`.
    AnthropicMessages,
    /// Text Generation Inference: `POST /generate`, `/generate_stream`.
    TgiGenerate,
    /// Triton's generate extension: `POST /v2/models/M/generate`, `/generate_stream`.
    TritonGenerate,
    /// Anything else.
    Other,
}

impl Api {
    /// The protocol of `path` (no query). A prefix before `/v1` (a gateway's) is no hindrance.
    #[must_use]
    pub fn of_path(path: &str) -> Self {
        let path = path.trim_end_matches('/');
        if path.ends_with("/chat/completions") {
            Self::OpenaiChat
        } else if path.ends_with("/v1/completions") {
            Self::OpenaiCompletions
        } else if path.ends_with("/v1/responses") {
            Self::OpenaiResponses
        } else if path.ends_with("/v1/embeddings") {
            Self::OpenaiEmbeddings
        } else if path.ends_with("/v1/messages") {
            Self::AnthropicMessages
        } else if path.contains("/v2/models/")
            && (path.ends_with("/generate") || path.ends_with("/generate_stream"))
        {
            Self::TritonGenerate
        } else if path.ends_with("/generate") || path.ends_with("/generate_stream") {
            Self::TgiGenerate
        } else {
            Self::Other
        }
    }

    /// Whether the path alone says that the answer is a stream (the others say so in the body).
    #[must_use]
    pub fn path_streams(path: &str) -> bool {
        path.trim_end_matches('/').ends_with("/generate_stream")
    }
}
