//! One request from send to end.

use super::answer::{Answer, Breach};
use super::client::{Client, Connection};
use super::outcome::{Deadline, End, Facts, mismatch, outcome};
use super::worker::Live;
use crate::record::{Outcome, Phase, RequestRecord};
use brownout_injector::draw::stable_hash;
use brownout_injector::facts::{self, ERROR_HEADER, FAULT_HEADER};
use brownout_injector::scenario::Timeouts;
use brownout_injector::wire::Api;
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Once the end marker has come, the body's end is waited for this long, so that the connection can be used again.
const AFTER_DONE: Duration = Duration::from_secs(1);

/// How much of an error's body is read.
const ERROR_BODY: usize = 16 << 10;

/// What is known of the server from its answers so far, for judging later ones.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// What it calls the model, before any fault.
    model: OnceLock<String>,
    /// The most tokens that one event stood for, in bits of an `f64`; 0 while it has reported no usage.
    tokens_per_chunk: AtomicU64,
}

impl Learned {
    fn learn(&self, phase: Phase, answer: &Answer) {
        if let (Some(model), Phase::Warmup | Phase::Baseline) = (&answer.model, phase) {
            self.model.get_or_init(|| model.clone());
        }
        if let (Some(tokens), 1..) = (answer.usage.output, answer.chunks) {
            let ratio = f64::from(tokens) / f64::from(answer.chunks);
            // Ratios are above 0, and so their bits have the same order.
            self.tokens_per_chunk.fetch_max(ratio.to_bits(), Ordering::Relaxed);
        }
    }

    /// At most so many tokens came; nothing where that cannot be told.
    fn tokens(&self, answer: &Answer) -> Option<u32> {
        let ratio = f64::from_bits(self.tokens_per_chunk.load(Ordering::Relaxed));
        let by_chunks = (ratio > 0.0).then(|| (f64::from(answer.chunks) * ratio).ceil() as u32);
        answer.usage.output.or(by_chunks)
    }
}

/// What all requests of a thread share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) api: Api,
    pub(super) stream: bool,
    pub(super) model: Option<String>,
    pub(super) tools: Vec<String>,
    pub(super) timeouts: Timeouts,
    pub(super) epoch: Instant,
    pub(super) learned: std::sync::Arc<Learned>,
    pub(super) live: RefCell<Live>,
    /// The run is over: what is under way ends now.
    pub(super) over: Cell<bool>,
    pub(super) wake: Notify,
}

/// One request to be made.
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) phase: Phase,
    pub(super) scheduled: Instant,
    pub(super) request: Request<Full<Bytes>>,
    pub(super) max_tokens: u32,
    pub(super) prompt_hash: u64,
}

impl Job {
    /// Hash of a prompt, as records carry it.
    pub(super) fn hash(prompt: &str) -> u64 {
        stable_hash(prompt.as_bytes())
    }

    /// The record of a request that was never sent.
    pub(super) fn unsent(
        number: u64,
        phase: Phase,
        scheduled: f64,
        now: f64,
        outcome: Outcome,
        why: &str,
    ) -> RequestRecord {
        RequestRecord {
            number,
            phase,
            scheduled,
            sent: now,
            ended: now,
            outcome,
            error: Some(why.to_owned()),
            status: None,
            faults: Vec::new(),
            headers: None,
            ttft: None,
            ttfo: None,
            last_token: None,
            gaps: Vec::new(),
            chunks: 0,
            coalesced: 0,
            output_tokens: 0,
            tokens_from_usage: false,
            prompt_tokens: None,
            cached_tokens: None,
            max_tokens: 0,
            finish: None,
            prompt_hash: 0,
            answer_hash: stable_hash(b""),
        }
    }
}

/// Ends waiting at a deadline or with the run. The timer is set anew only when it fires too early.
struct Watch<'a> {
    shared: &'a Shared,
    sleep: Pin<Box<tokio::time::Sleep>>,
    request_due: Instant,
    /// The nearer limit, where one applies.
    step: Option<(Instant, Deadline)>,
    woken: Pin<Box<tokio::sync::futures::Notified<'a>>>,
    registered: bool,
}

impl<'a> Watch<'a> {
    fn new(shared: &'a Shared, sent: Instant) -> Self {
        let request_due = sent + shared.timeouts.request.0;
        let step = shared.stream.then(|| (sent + shared.timeouts.first_token.0, Deadline::FirstToken));
        let mut watch = Self {
            shared,
            sleep: Box::pin(tokio::time::sleep_until(request_due.into())),
            request_due,
            step,
            woken: Box::pin(shared.wake.notified()),
            registered: false,
        };
        let due = watch.due().0;
        watch.sleep.as_mut().reset(due.into());
        watch
    }

    fn due(&self) -> (Instant, Deadline) {
        match self.step {
            Some(step) if step.0 < self.request_due => step,
            _ => (self.request_due, Deadline::Request),
        }
    }

    /// Sets the nearer limit.
    fn expect(&mut self, step: Option<(Instant, Deadline)>) {
        self.step = step;
        let due = tokio::time::Instant::from_std(self.due().0);
        if due < self.sleep.deadline() {
            self.sleep.as_mut().reset(due);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if !self.registered {
            self.registered = true;
            let _ = self.woken.as_mut().poll(cx);
        }
        if self.shared.over.get() {
            return Poll::Ready(End::RunEnded);
        }
        while self.sleep.as_mut().poll(cx).is_ready() {
            let (due, which) = self.due();
            if Instant::now() >= due {
                return Poll::Ready(End::Late(which));
            }
            self.sleep.as_mut().reset(due.into());
        }
        Poll::Pending
    }

    async fn guard<F: Future>(&mut self, work: F) -> Result<F::Output, End> {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.poll(cx).map(Err),
        })
        .await
    }
}

/// What is seen of the answer while it comes.
struct Seen {
    sent: Instant,
    status: Option<u16>,
    faults: Vec<String>,
    headers: Option<f64>,
    answer: Answer,
}

/// Makes the request and records it.
pub(super) async fn attempt(shared: &Shared, job: Job) -> RequestRecord {
    let sent = Instant::now();
    shared.live.borrow_mut().sent += 1;
    let mut seen = Seen {
        sent,
        status: None,
        faults: Vec::new(),
        headers: None,
        answer: Answer::whole(shared.api, shared.stream),
    };
    let end = exchange(shared, job.request, &mut seen).await;
    let ended = Instant::now();
    let answer = &mut seen.answer;
    let mismatch = mismatch(
        shared.model.as_deref(),
        shared.learned.model.get().map(String::as_str),
        answer.model.as_deref(),
        &shared.tools,
        &answer.tools,
        answer.arguments_are_json(),
    );
    let (outcome, error) = outcome(&Facts {
        end: &end,
        status: seen.status,
        api: shared.api,
        stream: answer.is_stream(),
        breach: answer.breach.as_ref(),
        content: answer.content,
        finish: answer.finish.as_deref(),
        done: answer.done,
        tokens: shared.learned.tokens(answer),
        max_tokens: job.max_tokens,
        mismatch,
    });
    if outcome == Outcome::Ok {
        shared.learned.learn(job.phase, answer);
    }
    let since_epoch = |at: Instant| at.saturating_duration_since(shared.epoch).as_secs_f64();
    RequestRecord {
        number: job.number,
        phase: job.phase,
        scheduled: since_epoch(job.scheduled),
        sent: since_epoch(sent),
        ended: since_epoch(ended),
        outcome,
        error,
        status: seen.status,
        faults: seen.faults,
        headers: seen.headers,
        ttft: answer.ttft,
        ttfo: answer.ttfo,
        last_token: answer.last_token,
        gaps: std::mem::take(&mut answer.gaps),
        chunks: answer.chunks,
        coalesced: answer.coalesced,
        output_tokens: answer.usage.output.unwrap_or(answer.chunks),
        tokens_from_usage: answer.usage.output.is_some(),
        prompt_tokens: answer.usage.prompt,
        cached_tokens: answer.usage.cached,
        max_tokens: job.max_tokens,
        finish: answer.finish.take(),
        prompt_hash: job.prompt_hash,
        answer_hash: answer.hash(),
    }
}

async fn exchange(shared: &Shared, request: Request<Full<Bytes>>, seen: &mut Seen) -> End {
    let mut watch = Watch::new(shared, seen.sent);
    match begin(shared, request, &mut watch).await {
        Err(end) => end,
        Ok((mut connection, response)) => {
            seen.headers =
                Some(connection.marks.read_at.get().saturating_duration_since(seen.sent).as_secs_f64());
            seen.status = Some(response.status().as_u16());
            seen.faults = faults(response.headers());
            let told = response.headers().get(ERROR_HEADER).and_then(|why| told_by_proxy(why.to_str().ok()?));
            let end = if let Some(end) = told {
                seen.status = None;
                end
            } else if response.status().is_success() {
                if is_event_stream(response.headers()) {
                    seen.answer = Answer::events(shared.api);
                } else {
                    watch.expect(None);
                }
                read_answer(&mut connection, response.into_body(), &mut watch, seen).await
            } else {
                watch.expect(None);
                read_error(&mut connection, response.into_body(), &mut watch, seen).await
            };
            if end == End::Complete {
                shared.client.keep(connection).await;
            }
            end
        }
    }
}

/// What befell the proxy on its way to the server. The proxy is part of the measurement: a request that no server
/// answered ends as it would have without it, and what the proxy itself lacks is no failure of the server.
fn told_by_proxy(why: &str) -> Option<End> {
    Some(match why {
        facts::NO_SOCKET => End::Client(why.to_owned()),
        facts::REFUSED | facts::UNREACHABLE => End::Refused(why.to_owned()),
        facts::CONNECT_TIMEOUT => End::ConnectTimeout,
        facts::CLOSED => End::Reset(why.to_owned()),
        _ if why.starts_with(facts::TLS_FAILED) => End::Tls(why.to_owned()),
        _ => return None,
    })
}

/// Sends, and waits for headers. A kept connection that turns out to be closed before anything was sent on it is
/// replaced; that is no second attempt, as the server has seen nothing of the first.
async fn begin(
    shared: &Shared,
    request: Request<Full<Bytes>>,
    watch: &mut Watch<'_>,
) -> Result<(Connection, http::Response<Incoming>), End> {
    let mut connection = watch.guard(shared.client.connection()).await??;
    let mut error = match watch.guard(connection.send(request)).await? {
        Ok(response) => return Ok((connection, response)),
        Err(error) => error,
    };
    match error.take_message() {
        Some(request) if connection.used => {
            connection = watch.guard(shared.client.open()).await??;
            match watch.guard(connection.send(request)).await? {
                Ok(response) => Ok((connection, response)),
                Err(error) => Err(connection.end_of(error.error(), false)),
            }
        }
        _ => Err(connection.end_of(error.error(), false)),
    }
}

async fn read_answer(
    connection: &mut Connection,
    mut body: Incoming,
    watch: &mut Watch<'_>,
    seen: &mut Seen,
) -> End {
    let shared = watch.shared;
    loop {
        let frame = match watch.guard(connection.drive(body.frame())).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return connection.end_of(&error, true),
            Ok(None) => {
                let at = connection.marks.read_at.get().saturating_duration_since(seen.sent);
                seen.answer.end(at.as_secs_f64());
                return End::Complete;
            }
            Err(end) => return end,
        };
        let Ok(data) = frame.into_data() else { continue };
        let at = connection.marks.read_at.get().saturating_duration_since(seen.sent).as_secs_f64();
        let answer = &mut seen.answer;
        let (chunks, gaps, first) = (answer.chunks, answer.gaps.len(), answer.ttft.is_none());
        answer.push(at, connection.marks.reads.get(), data);
        if answer.chunks > chunks {
            let mut live = shared.live.borrow_mut();
            live.tokens(u64::from(answer.chunks - chunks), &answer.gaps[gaps..]);
            if let (true, Some(ttft)) = (first, answer.ttft) {
                live.first(ttft as f32);
            }
        }
        if let Some(step) = next_step(answer, seen.sent, &shared.timeouts) {
            watch.expect(Some(step));
        }
        // A body that is too large to keep is not read any further.
        if matches!(answer.breach, Some(Breach::Json(_))) && !answer.is_stream() {
            return End::Complete;
        }
    }
}

/// What is waited for next, and until when; nothing new before the first token.
fn next_step(answer: &Answer, sent: Instant, timeouts: &Timeouts) -> Option<(Instant, Deadline)> {
    let last = sent + Duration::from_secs_f64(answer.went_on_at().or(answer.done.then_some(0.0))?);
    Some(if answer.done {
        (Instant::now() + AFTER_DONE, Deadline::Stall)
    } else {
        (last + timeouts.stall.0, Deadline::Stall)
    })
}

async fn read_error(
    connection: &mut Connection,
    mut body: Incoming,
    watch: &mut Watch<'_>,
    seen: &mut Seen,
) -> End {
    watch.expect(Some((Instant::now() + AFTER_DONE, Deadline::Stall)));
    let mut text = Vec::new();
    let end = loop {
        match watch.guard(connection.drive(body.frame())).await {
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if text.len() + data.len() <= ERROR_BODY => text.extend_from_slice(&data),
                Ok(_) => break End::Late(Deadline::Request),
                Err(_) => {}
            },
            Ok(Some(Err(error))) => break connection.end_of(&error, true),
            Ok(None) => break End::Complete,
            Err(end) => break end,
        }
    };
    if !text.is_empty() {
        let mut answer = Answer::whole(watch.shared.api, false);
        answer.push(0.0, 0, Bytes::from(text.clone()));
        answer.end(0.0);
        let said = match answer.breach {
            Some(Breach::Error(said)) => said,
            _ => String::from_utf8_lossy(&text).trim().chars().take(200).collect(),
        };
        seen.answer.breach = Some(Breach::Error(said));
    }
    end
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

fn faults(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(FAULT_HEADER).iter().filter_map(|value| value.to_str().ok());
    let mut names: Vec<String> = Vec::new();
    for name in values.flat_map(|value| value.split(',')).map(str::trim).filter(|name| !name.is_empty()) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}
