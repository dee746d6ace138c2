//! What faults do before a request goes to the server, in file order: it waits, queues, is refused, hung up on,
//! swallowed, or gets another prompt. A call goes in with its case, where any fault fires on it; it goes on with the
//! same case, late or changed, or it goes nowhere and an answer, or the end of the connection, comes back in its stead.

use crate::answer;
use crate::body::Body;
use crate::call::{Call, RequestBody};
use crate::case::Case;
use crate::control::RuleState;
use crate::failure::Unanswered;
use crate::hold::hold;
use crate::next::{Detour, Next};
use brownout_injector::effect::{Answer, Before as Act, CUT_BY_WINDOW};
use brownout_injector::fault::{Buckets, prefix_prompt};
use http::Response;
use http::header::{CONTENT_LENGTH, HeaderValue};
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower_layer::Layer;
use tower_service::Service;

/// Carries out what happens before a request goes to the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BeforeLayer;

impl<S> Layer<S> for BeforeLayer {
    type Service = Before<S>;

    fn layer(&self, inner: S) -> Before<S> {
        Before { inner }
    }
}

/// See [`BeforeLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Before<S> {
    inner: S,
}

impl<S: Next> Service<Call> for Before<S> {
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Detour<S::Future, S::Foreign>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let Some(case) = call.case.take() else { return Detour::straight(self.inner.call(call)) };
        let mut inner = self.inner.take();
        Detour::around(async move {
            match act(&mut call, case).await {
                Turn::Forward(case) => {
                    call.case = Some(case);
                    inner.call(call).await
                }
                Turn::Answer(answer, case) => Ok(answer::response(&answer, call.api, case)),
                Turn::Hang(case) => Err(Unanswered::Hung(case.header())),
            }
        })
    }
}

enum Turn {
    Forward(Box<Case>),
    Answer(Box<Answer>, Box<Case>),
    Hang(Box<Case>),
}

async fn act(call: &mut Call, mut case: Box<Case>) -> Turn {
    for index in 0..case.deeds.len() {
        let firing = case.deeds[index].firing;
        let (now, ends) = (case.armed.at(), firing.until);
        if now >= ends || case.armed.over.is_cancelled() {
            continue;
        }
        let rule = case.rule(index);
        let act = call.with_facts(&case.known, now, |facts| rule.fault.before(facts, firing.draw));
        match act {
            Act::Forward => {}
            Act::Wait(span) => {
                let left = ends - now;
                if !span.is_zero() {
                    let cut = if span > left { CUT_BY_WINDOW } else { "" };
                    case.deeds[index].done.note = format!("held before it went to the server{cut}");
                    let span = span.min(left);
                    wait(&mut case, index, Some(span), now + span).await;
                }
            }
            Act::Answer(answer) => {
                touch(&mut case, index, format!("answered {}", answer.status));
                return Turn::Answer(Box::new(answer), case);
            }
            Act::Hang(close) => {
                touch(&mut case, index, format!("closed before any answer ({close:?})"));
                call.client.close_as(close);
                return Turn::Hang(case);
            }
            Act::Blackhole => {
                case.deeds[index].done.note = "never answered".to_owned();
                wait(&mut case, index, None, ends).await;
                // Nobody could tell a late answer from a slow server; a closed connection is the end it promised.
                return Turn::Hang(case);
            }
            Act::Queue { max_in_flight, max_waiting, timeout, full } => {
                let limits = QueueLimits { max_in_flight, max_waiting, timeout };
                if !queue(&mut case, index, limits).await {
                    touch(&mut case, index, format!("found no place, answered {}", full.status));
                    return Turn::Answer(Box::new(full), case);
                }
            }
            Act::RateLimit { requests_per_minute, tokens_per_minute, burst } => {
                let asked = case.known.prompt_tokens.saturating_add(case.known.max_tokens.unwrap_or(0));
                let taken = {
                    let state = &case.armed.rules[firing.rule];
                    let mut buckets = state.buckets.lock().unwrap_or_else(PoisonError::into_inner);
                    buckets
                        .get_or_insert_with(|| Buckets::new(requests_per_minute, tokens_per_minute, burst))
                        .take(now, asked, call.api)
                };
                match taken {
                    Ok(headers) => case.headers.extend(headers),
                    Err(refusal) => {
                        touch(&mut case, index, format!("over the limit of {} a minute", refusal.what));
                        return Turn::Answer(Box::new(refusal.answer(call.api)), case);
                    }
                }
            }
            Act::PrefixPrompt(text) => {
                if let RequestBody::Full(body) = &call.body
                    && let Some((body, prompts)) = prefix_prompt(call.api, body, &text)
                {
                    if call.head.headers.contains_key(CONTENT_LENGTH) {
                        call.head.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
                    }
                    call.body = RequestBody::Full(body);
                    touch(&mut case, index, format!("prefixed {prompts} prompts"));
                }
            }
        }
    }
    Turn::Forward(case)
}

fn touch(case: &mut Case, index: usize, note: String) {
    let done = &mut case.deeds[index].done;
    done.touched += 1;
    done.note = note;
}

/// Holds the request until the moment, or until no fault may act. `asked`: what the fault asked for, where that is a
/// length of time; otherwise what was given counts as asked.
async fn wait(case: &mut Case, index: usize, asked: Option<Duration>, until: Duration) {
    let (until, over) = (case.armed.moment(until), case.armed.over.clone());
    let deed = &mut case.deeds[index];
    deed.done.touched += 1;
    deed.done.asked += asked.unwrap_or_default();
    deed.holding = Some(Instant::now());
    hold(until, &over).await;
    deed.held();
    if asked.is_none() {
        deed.done.asked = deed.given;
    }
}

struct QueueLimits {
    max_in_flight: u32,
    max_waiting: u32,
    timeout: Option<Duration>,
}

/// Takes a place, maybe after a wait; `false` where there is none to be had. Healed, the queue lets everybody in.
async fn queue(case: &mut Case, index: usize, limits: QueueLimits) -> bool {
    let firing = case.deeds[index].firing;
    let armed = case.armed.clone();
    let state = &armed.rules[firing.rule];
    let places = state.places.get_or_init(|| Arc::new(Semaphore::new(limits.max_in_flight as usize))).clone();
    if let Ok(place) = places.clone().try_acquire_owned() {
        case.places.push(place);
        return true;
    }
    let Some(_waiting) = Waiting::begin(state, limits.max_waiting) else { return false };
    let began = Instant::now();
    let ends = armed.moment(firing.until);
    let until = limits.timeout.map_or(ends, |timeout| ends.min(began + timeout));
    case.deeds[index].done.touched += 1;
    case.deeds[index].done.note = "waited for a place".to_owned();
    case.deeds[index].holding = Some(began);
    let got = acquire(places, until, &armed.over).await;
    let deed = &mut case.deeds[index];
    deed.held();
    // A queue asks for no length of time: what it took is what was asked.
    deed.done.asked = deed.given;
    match got {
        Got::Place(place) => {
            case.places.push(place);
            true
        }
        Got::Healed => true,
        Got::TimeOut => Instant::now() >= ends,
    }
}

enum Got {
    Place(OwnedSemaphorePermit),
    TimeOut,
    Healed,
}

async fn acquire(places: Arc<Semaphore>, until: Instant, over: &CancellationToken) -> Got {
    let place = async {
        match places.acquire_owned().await {
            Ok(place) => place,
            // Nobody ever closes it.
            Err(_) => pending().await,
        }
    };
    tokio::select! {
        biased;
        place = place => Got::Place(place),
        () = over.cancelled() => Got::Healed,
        () = hold(until, over) => Got::TimeOut,
    }
}

/// One request in a queue; it counts itself out however its wait ends.
struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    fn begin(state: &'a RuleState, most: u32) -> Option<Self> {
        let waiting = &state.waiting;
        waiting.fetch_update(Relaxed, Relaxed, |n| (n < most).then_some(n + 1)).ok()?;
        Some(Self(waiting))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
