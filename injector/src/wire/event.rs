//! One event of an answer, and what it means.

use super::Api;

/// What an event is for. "Token" events are those that carry text a user would see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Answer text.
    Content,
    /// Reasoning text.
    Reasoning,
    /// Part of a tool call.
    ToolCall,
    /// The end of the answer: a finish reason with no text.
    Finish,
    /// Only token usage.
    Usage,
    /// `data: [DONE]` or the protocol's like.
    Done,
    /// An error inside the stream.
    Error,
    /// A comment or a ping.
    Ping,
    /// Role-only deltas, starts and stops of parts, and whatever else is an event.
    Meta,
    /// A frame of an answer that is no event stream.
    Raw,
}

impl Class {
    /// Whether the event carries generated tokens.
    #[must_use]
    pub const fn is_token(self) -> bool {
        matches!(self, Self::Content | Self::Reasoning | Self::ToolCall)
    }
}

/// One event as it came.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Its bytes with everything up to and including the blank line that ends it.
    pub raw: &'a [u8],
    /// The `data` of the event where it is one line; of several lines, the whole (joined) text is not at hand here.
    pub data: &'a [u8],
    /// What it is for.
    pub class: Class,
    /// The protocol.
    pub api: Api,
    /// Number of token events before this one in the same answer: the first token event has 0.
    pub token: u32,
}
