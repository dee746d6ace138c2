//! What is kept of each request: one line of `requests.jsonl`, and all that every later number is made of.

use crate::load::LoadError;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

/// The part of a run that a request was scheduled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Not measured.
    Warmup,
    /// The healthy system.
    Baseline,
    /// Faults armed.
    Fault,
    /// Faults ended.
    Recovery,
}

impl Phase {
    /// Its name in records and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Baseline => "baseline",
            Self::Fault => "fault",
            Self::Recovery => "recovery",
        }
    }
}

/// How a request ended. Closed: every request has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Complete.
    Ok,
    /// No connection: refused.
    Refused,
    /// No connection in time.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// Status 4xx other than 429.
    #[serde(rename = "http_4xx")]
    Http4xx,
    /// Status 429.
    #[serde(rename = "http_429")]
    Http429,
    /// Status 5xx.
    #[serde(rename = "http_5xx")]
    Http5xx,
    /// No first token in time.
    TtftTimeout,
    /// Silence between tokens for too long.
    StallTimeout,
    /// The whole request took too long, though tokens came.
    RequestTimeout,
    /// The server closed a kept connection as the next request was on its way to it.
    StaleKeepalive,
    /// The connection was reset, before or amid the answer.
    ResetMidstream,
    /// The body ended before HTTP said it would.
    ChunkedIncomplete,
    /// The body ended orderly with neither a finish reason nor an end marker.
    TruncatedClean,
    /// Finished for `length` with fewer tokens than were asked for.
    ShortVsMaxTokens,
    /// An error event in a stream that began with 200.
    InbandError,
    /// The stream broke the format of server-sent events.
    MalformedSse,
    /// An event or body was no JSON.
    MalformedJson,
    /// The answer is not what was asked: another model, an unknown tool.
    ContentMismatch,
    /// A successful answer with no content.
    #[serde(rename = "empty_200")]
    Empty200,
    /// We gave up on it for no fault of the server.
    ClientCancelled,
    /// The run ended before the request did.
    RunEnded,
}

impl Outcome {
    /// Its name, as in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls => "tls",
            Self::Http4xx => "http_4xx",
            Self::Http429 => "http_429",
            Self::Http5xx => "http_5xx",
            Self::TtftTimeout => "ttft_timeout",
            Self::StallTimeout => "stall_timeout",
            Self::RequestTimeout => "request_timeout",
            Self::StaleKeepalive => "stale_keepalive",
            Self::ResetMidstream => "reset_midstream",
            Self::ChunkedIncomplete => "chunked_incomplete",
            Self::TruncatedClean => "truncated_clean",
            Self::ShortVsMaxTokens => "short_vs_max_tokens",
            Self::InbandError => "inband_error",
            Self::MalformedSse => "malformed_sse",
            Self::MalformedJson => "malformed_json",
            Self::ContentMismatch => "content_mismatch",
            Self::Empty200 => "empty_200",
            Self::ClientCancelled => "client_cancelled",
            Self::RunEnded => "run_ended",
        }
    }

    /// Whether the request counts for availability at all (the run's own end says nothing about the server).
    #[must_use]
    pub const fn counts(self) -> bool {
        !matches!(self, Self::ClientCancelled | Self::RunEnded)
    }
}

/// One request. Times are seconds since the run began, on a monotonic clock; durations are seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRecord {
    /// Its number, from 0; sent as `x-brownout-request`.
    pub number: u64,
    /// The phase in which it was scheduled.
    pub phase: Phase,
    /// When it should have been sent.
    pub scheduled: f64,
    /// When it was sent: before a connection was taken or opened, so that connecting is part of what follows.
    pub sent: f64,
    /// When it ended.
    pub ended: f64,
    /// How it ended.
    pub outcome: Outcome,
    /// Details of a failure, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Names of the faults that acted on it: by the answer's mark, settled by the journal where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Send to answer headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<f64>,
    /// Send to first token (content, reasoning or tool call).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<f64>,
    /// Send to first token that is no reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttfo: Option<f64>,
    /// Send to last token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_token: Option<f64>,
    /// Time between a token event and the one before, in seconds: `chunks - 1` of them. 0 is an event that came in
    /// the same read as the one before; how long the server took for it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<f32>,
    /// Token events.
    pub chunks: u32,
    /// Token events that came in the same read as the one before (their gap says nothing).
    pub coalesced: u32,
    /// Output tokens by the server's usage; by chunks where it reports none.
    pub output_tokens: u32,
    /// Whether `output_tokens` comes from the server's usage.
    pub tokens_from_usage: bool,
    /// Prompt tokens by the server's usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u32>,
    /// Prompt tokens found in the server's prefix cache, by its usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u32>,
    /// `max_tokens` asked for.
    pub max_tokens: u32,
    /// The finish reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// Hash of the prompt and of the answer's text: answers to one prompt can be compared at temperature 0.
    pub prompt_hash: u64,
    /// See `prompt_hash`.
    pub answer_hash: u64,
}

impl RequestRecord {
    /// What the client waited in its own queue: sent late by this much.
    #[must_use]
    pub fn lag(&self) -> f64 {
        (self.sent - self.scheduled).max(0.0)
    }

    /// Time to first token from the scheduled send (coordinated omission corrected).
    #[must_use]
    pub fn response_ttft(&self) -> Option<f64> {
        self.ttft.map(|ttft| ttft + self.lag())
    }

    /// Time per output token after the first: (last - first) / (tokens - 1); none for one token.
    #[must_use]
    pub fn tpot(&self) -> Option<f64> {
        let tokens = self.output_tokens;
        (tokens > 1).then(|| Some((self.last_token? - self.ttft?) / f64::from(tokens - 1)))?
    }
}

/// How the client itself fared: a saturated client measures itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientHealth {
    /// CPU seconds of the load generator's busiest thread over wall-clock seconds: 1.0 is one core, fully used.
    pub cpu: f64,
    /// 99th percentile of how late requests were sent, in seconds.
    pub send_lag_p99: f64,
    /// 99th percentile of how late the event loop's own timer fired, in seconds.
    pub loop_lag_p99: f64,
    /// The longest event-loop stall, in seconds.
    pub loop_lag_max: f64,
}

/// A whole run as measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// Every request, by number.
    pub requests: Vec<RequestRecord>,
    /// When each phase began and ended, in seconds since the run began.
    pub phases: Vec<(Phase, f64, f64)>,
    /// How the client fared.
    pub client: ClientHealth,
    /// Whether the run was cut short, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
}

/// Writes `requests.jsonl`: one line a request.
///
/// # Errors
/// A file that cannot be written.
pub fn write_jsonl(path: &Path, requests: &[RequestRecord]) -> Result<(), LoadError> {
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for request in requests {
            serde_json::to_writer(&mut file, request)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().map_err(|error| LoadError::File { file: path.display().to_string(), error })
}

/// Reads `requests.jsonl`. Empty lines are passed over.
///
/// # Errors
/// A file that cannot be read; the first line that is no request, by its number.
pub fn read_jsonl(path: &Path) -> Result<Vec<RequestRecord>, LoadError> {
    let file = path.display().to_string();
    let failed = |error| LoadError::File { file: file.clone(), error };
    let mut requests = Vec::new();
    for (index, line) in BufReader::new(File::open(path).map_err(failed)?).lines().enumerate() {
        let line = line.map_err(failed)?;
        if !line.trim().is_empty() {
            requests.push(serde_json::from_str(&line).map_err(|error| LoadError::Line {
                file: file.clone(),
                line: index + 1,
                why: error.to_string(),
            })?);
        }
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_has_one_name_everywhere() {
        let book = include_str!("../../docs/numbers.md");
        let (_, book) = book.split_once("## How requests end").expect("it tells of outcomes");
        for text in [
            "ok",
            "refused",
            "connect_timeout",
            "tls",
            "http_4xx",
            "http_429",
            "http_5xx",
            "ttft_timeout",
            "stall_timeout",
            "request_timeout",
            "stale_keepalive",
            "reset_midstream",
            "chunked_incomplete",
            "truncated_clean",
            "short_vs_max_tokens",
            "inband_error",
            "malformed_sse",
            "malformed_json",
            "content_mismatch",
            "empty_200",
            "client_cancelled",
            "run_ended",
        ] {
            let outcome: Outcome = serde_json::from_value(text.into()).expect(text);
            assert_eq!(outcome.name(), text);
            assert_eq!(serde_json::to_value(outcome).expect("a name"), text);
            assert!(book.contains(&format!("`{text}`")), "the book does not explain {text}");
        }
    }

    #[test]
    fn records_are_read_as_they_were_written_and_a_bad_line_is_named() {
        let path = std::env::temp_dir().join(format!("brownout-records-{}.jsonl", std::process::id()));
        let request: RequestRecord = serde_json::from_str(
            r#"{"number": 3, "phase": "fault", "scheduled": 1.5, "sent": 1.5001, "ended": 2.25, "outcome": "http_429",
                "error": "slow down", "status": 429, "faults": ["a"], "headers": 0.5, "chunks": 0, "coalesced": 0,
                "outputTokens": 0, "tokensFromUsage": false, "maxTokens": 64, "promptHash": 1,
                "answerHash": 18446744073709551615}"#,
        )
        .expect("a request");
        let second = RequestRecord { number: 4, gaps: vec![0.25, 0.1], ttft: Some(0.1), ..request.clone() };
        let both = vec![request, second];
        write_jsonl(&path, &both).expect("written");
        assert_eq!(read_jsonl(&path).expect("read"), both);
        std::fs::write(&path, "\n{\"number\": \"three\"}\n").expect("a bad file");
        let error = read_jsonl(&path).expect_err("a bad line").to_string();
        std::fs::remove_file(&path).expect("the file goes away");
        assert!(error.contains(".jsonl:2: ") && error.contains("three"), "{error}");
        assert!(matches!(read_jsonl(&path), Err(LoadError::File { .. })));
    }
}
