//! How a request ended: one pure decision over all that was seen of it.

use super::answer::Breach;
use crate::record::Outcome;
use brownout_injector::wire::Api;

/// How the exchange ended, seen from the network and the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The body ended as HTTP said it would.
    Complete,
    /// No connection: refused or unreachable.
    Refused(String),
    /// No connection in time.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls(String),
    /// A kept connection broke as the request was sent: it was closed already, as far as can be told.
    Stale(String),
    /// The connection broke.
    Reset(String),
    /// The body ended too early, or its framing was broken.
    Incomplete(String),
    /// What came was no HTTP.
    NotHttp(String),
    /// No token, or none any more, or no end in time.
    Late(Deadline),
    /// The client could not do its part.
    Client(String),
    /// The run was over first.
    RunEnded,
}

impl End {
    /// The end in words, for a question aside from the load.
    #[must_use]
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Refused(why)
            | Self::Tls(why)
            | Self::Stale(why)
            | Self::Reset(why)
            | Self::Incomplete(why)
            | Self::NotHttp(why)
            | Self::Client(why) => why.clone(),
            Self::ConnectTimeout => "no connection in time".to_owned(),
            Self::Late(_) => "no answer in time".to_owned(),
            Self::Complete | Self::RunEnded => "ended too early".to_owned(),
        }
    }
}

/// A limit that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// Of the first token.
    FirstToken,
    /// Of the silence between two tokens.
    Stall,
    /// Of the whole request.
    Request,
}

/// All that the outcome depends on.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// How the exchange ended.
    pub end: &'a End,
    /// HTTP status, where headers came.
    pub status: Option<u16>,
    /// The protocol.
    pub api: Api,
    /// Whether the answer was read as a stream of events.
    pub stream: bool,
    /// The first thing wrong in the answer.
    pub breach: Option<&'a Breach>,
    /// Whether any content came.
    pub content: bool,
    /// The finish reason.
    pub finish: Option<&'a str>,
    /// Whether the end marker came.
    pub done: bool,
    /// At most this many tokens came; nothing where that cannot be told.
    pub tokens: Option<u32>,
    /// Tokens asked for.
    pub max_tokens: u32,
    /// In what the answer is not what was asked for.
    pub mismatch: Option<String>,
}

/// Decides. What the server says outright (a status, an error in the stream) goes before what broke afterwards; an
/// answer whose end marker came is complete, whatever the connection did then.
#[must_use]
pub fn outcome(facts: &Facts<'_>) -> (Outcome, Option<String>) {
    let failed = |outcome, why: &str| (outcome, Some(why.to_owned()));
    match facts.end {
        End::Client(why) => return failed(Outcome::ClientCancelled, why),
        End::Refused(why) => return failed(Outcome::Refused, why),
        End::ConnectTimeout => return (Outcome::ConnectTimeout, None),
        End::Tls(why) => return failed(Outcome::Tls, why),
        _ => {}
    }
    let said = match facts.breach {
        Some(Breach::Error(text)) => Some(text.clone()),
        _ => None,
    };
    match facts.status {
        Some(429) => return (Outcome::Http429, said),
        Some(400..=499) => return (Outcome::Http4xx, said),
        Some(500..) => return (Outcome::Http5xx, said),
        Some(status @ (100..=199 | 300..=399)) => {
            return failed(Outcome::ContentMismatch, &format!("status {status} is no answer"));
        }
        _ => {}
    }
    match facts.breach {
        Some(Breach::Error(text)) => return failed(Outcome::InbandError, text),
        Some(Breach::Sse(why)) => return failed(Outcome::MalformedSse, why),
        Some(Breach::Json(why)) => return failed(Outcome::MalformedJson, why),
        None => {}
    }
    if !facts.done {
        match facts.end {
            End::RunEnded => return (Outcome::RunEnded, None),
            End::Late(Deadline::FirstToken) => return (Outcome::TtftTimeout, None),
            End::Late(Deadline::Stall) => return (Outcome::StallTimeout, None),
            End::Late(Deadline::Request) if facts.stream && !facts.content => {
                return (Outcome::TtftTimeout, None);
            }
            End::Late(Deadline::Request) => return (Outcome::RequestTimeout, None),
            End::Stale(why) => return failed(Outcome::StaleKeepalive, why),
            End::Reset(why) => return failed(Outcome::ResetMidstream, why),
            End::Incomplete(why) => return failed(Outcome::ChunkedIncomplete, why),
            End::NotHttp(why) => return failed(Outcome::ContentMismatch, why),
            _ => {}
        }
    }
    // Triton's streams have no marker of their own: an orderly end is all they have.
    let marked = facts.done || facts.finish.is_some() || facts.api == Api::TritonGenerate;
    if facts.stream && !marked {
        let why =
            if facts.content { "no finish reason and no end marker" } else { "no content and no end marker" };
        return failed(if facts.content { Outcome::TruncatedClean } else { Outcome::Empty200 }, why);
    }
    if !facts.content {
        return (Outcome::Empty200, None);
    }
    if let Some(why) = &facts.mismatch {
        return failed(Outcome::ContentMismatch, why);
    }
    let by_length = matches!(facts.finish, Some("length" | "max_tokens" | "MAX_TOKENS"));
    match facts.tokens {
        Some(tokens) if by_length && tokens < facts.max_tokens => failed(
            Outcome::ShortVsMaxTokens,
            &format!("finished for length after {tokens} of {} tokens", facts.max_tokens),
        ),
        _ => (Outcome::Ok, None),
    }
}

/// In what an answer is not what was asked for; nothing where it is.
///
/// A server may call the model by another name than the request did (a dated snapshot, a path), so `usual`, the name
/// it gave before any fault, counts as well as `asked`.
#[must_use]
pub fn mismatch(
    asked: Option<&str>,
    usual: Option<&str>,
    answered: Option<&str>,
    offered: &[String],
    called: &[String],
    arguments_are_json: bool,
) -> Option<String> {
    if let (Some(asked), Some(answered)) = (asked, answered)
        && !answered.starts_with(asked)
        && usual.is_none_or(|usual| usual != answered)
    {
        return Some(format!("model `{answered}` answers where `{asked}` was asked"));
    }
    if let Some(tool) = called.iter().find(|tool| !offered.contains(tool)) {
        return Some(format!("calls tool `{tool}`, which was not offered"));
    }
    (!called.is_empty() && !arguments_are_json).then(|| "a tool call's arguments are no JSON".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(end: &End) -> Facts<'_> {
        Facts {
            end,
            status: Some(200),
            api: Api::OpenaiChat,
            stream: true,
            breach: None,
            content: true,
            finish: Some("stop"),
            done: true,
            tokens: Some(10),
            max_tokens: 10,
            mismatch: None,
        }
    }

    #[test]
    fn a_complete_answer_is_ok_with_either_marker() {
        let base = facts(&End::Complete);
        for (finish, done) in [(Some("stop"), true), (Some("stop"), false), (None, true)] {
            assert_eq!(outcome(&Facts { finish, done, ..base.clone() }).0, Outcome::Ok);
        }
        let triton = Facts { finish: None, done: false, api: Api::TritonGenerate, ..base.clone() };
        assert_eq!(outcome(&triton).0, Outcome::Ok);
        let broken_afterwards = End::Reset(String::new());
        assert_eq!(outcome(&facts(&broken_afterwards)).0, Outcome::Ok, "after the end marker");
    }

    #[test]
    fn every_end_of_the_network_has_its_outcome() {
        let text = || "why".to_owned();
        for (end, expected) in [
            (End::Refused(text()), Outcome::Refused),
            (End::ConnectTimeout, Outcome::ConnectTimeout),
            (End::Tls(text()), Outcome::Tls),
            (End::Client(text()), Outcome::ClientCancelled),
            (End::RunEnded, Outcome::RunEnded),
            (End::Late(Deadline::FirstToken), Outcome::TtftTimeout),
            (End::Late(Deadline::Stall), Outcome::StallTimeout),
            (End::Late(Deadline::Request), Outcome::RequestTimeout),
            (End::Reset(text()), Outcome::ResetMidstream),
            (End::Incomplete(text()), Outcome::ChunkedIncomplete),
            (End::NotHttp(text()), Outcome::ContentMismatch),
        ] {
            let facts = Facts { done: false, finish: None, ..facts(&end) };
            assert_eq!(outcome(&facts).0, expected, "{end:?}");
        }
        let late = End::Late(Deadline::Request);
        let nothing = Facts { done: false, finish: None, content: false, ..facts(&late) };
        assert_eq!(outcome(&nothing).0, Outcome::TtftTimeout);
    }

    #[test]
    fn a_status_says_more_than_what_broke_afterwards() {
        let reset = End::Reset("gone".to_owned());
        for (status, expected) in [
            (429, Outcome::Http429),
            (400, Outcome::Http4xx),
            (404, Outcome::Http4xx),
            (500, Outcome::Http5xx),
            (529, Outcome::Http5xx),
            (302, Outcome::ContentMismatch),
        ] {
            assert_eq!(outcome(&Facts { status: Some(status), done: false, ..facts(&reset) }).0, expected);
        }
        let said = Breach::Error("slow down".to_owned());
        let refused = Facts { status: Some(429), breach: Some(&said), ..facts(&reset) };
        assert_eq!(outcome(&refused), (Outcome::Http429, Some("slow down".to_owned())));
    }

    #[test]
    fn what_the_answer_itself_breaks_comes_before_its_end() {
        let stall = End::Late(Deadline::Stall);
        for (breach, expected) in [
            (Breach::Error("x".to_owned()), Outcome::InbandError),
            (Breach::Sse("x".to_owned()), Outcome::MalformedSse),
            (Breach::Json("x".to_owned()), Outcome::MalformedJson),
        ] {
            assert_eq!(outcome(&Facts { breach: Some(&breach), ..facts(&stall) }).0, expected);
        }
    }

    #[test]
    fn an_orderly_end_can_still_be_wrong() {
        let base = facts(&End::Complete);
        let cut = Facts { finish: None, done: false, ..base.clone() };
        assert_eq!(outcome(&cut).0, Outcome::TruncatedClean);
        assert_eq!(outcome(&Facts { content: false, ..cut }).0, Outcome::Empty200);
        assert_eq!(outcome(&Facts { content: false, ..base.clone() }).0, Outcome::Empty200);
        let length = Facts { finish: Some("length"), max_tokens: 11, ..base.clone() };
        assert_eq!(outcome(&length).0, Outcome::ShortVsMaxTokens);
        assert_eq!(outcome(&Facts { tokens: None, ..length.clone() }).0, Outcome::Ok, "nothing is known");
        assert_eq!(outcome(&Facts { finish: Some("stop"), ..length }).0, Outcome::Ok, "it had said all");
        let other = Facts { mismatch: Some("model".to_owned()), ..base };
        assert_eq!(outcome(&other).0, Outcome::ContentMismatch);
    }

    #[test]
    fn another_model_is_told_from_another_name_for_it() {
        let model = |usual, answered| mismatch(Some("gpt-4o"), usual, Some(answered), &[], &[], true);
        assert_eq!(model(None, "gpt-4o"), None);
        assert_eq!(model(None, "gpt-4o-2024-08-06"), None);
        assert_eq!(model(Some("/models/x"), "/models/x"), None);
        assert!(model(None, "llama").is_some_and(|why| why.contains("llama")));
        assert!(model(Some("gpt-4o"), "llama").is_some());
        assert_eq!(mismatch(None, None, Some("llama"), &[], &[], true), None);
    }

    #[test]
    fn a_tool_must_be_offered_and_called_with_json() {
        let (weather, time) = (["weather".to_owned()], ["time".to_owned()]);
        assert_eq!(mismatch(None, None, None, &weather, &weather, true), None);
        assert!(mismatch(None, None, None, &weather, &time, true).is_some());
        assert!(mismatch(None, None, None, &weather, &weather, false).is_some());
    }
}
