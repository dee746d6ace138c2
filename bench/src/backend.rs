//! The server behind every proxy: answers small JSON, or a stream of events at a fixed pace. It does as little as it
//! can, so that what is measured is what stands in front of it.

use anyhow::Result;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::{Request, Response, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{Instant, Sleep};

/// What a stream looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// From the request to the first token.
    pub(crate) ttft: Duration,
    /// Between tokens. Zero: as fast as the connection takes them.
    pub(crate) itl: Duration,
}

const SMALL: &str = r#"{"id":"chatcmpl-0001","object":"chat.completion","created":1700000000,"model":"bench","choices":[{"index":0,"message":{"role":"assistant","content":"The quick brown fox jumps over the lazy dog."},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":10,"total_tokens":22}}"#;
/// What stands before and behind a token's stamp.
const BEFORE: &str = "data: {\"id\":\"chatcmpl-";
const BEHIND: &str = "\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"finish_reason\":null}]}\n\n";

/// Serves for ever.
pub(crate) async fn serve(listener: TcpListener, pace: Pace) -> Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| answer(request, pace));
            // A client that leaves in the middle is no news here.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

/// Where in a token's event the time stands at which it was sent, in nanoseconds of the system's monotonic clock: what
/// lies between its client and the server can be told by it from what the server itself is late.
pub(crate) const STAMP: std::ops::Range<usize> = BEFORE.len()..BEFORE.len() + 16;

fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

async fn answer(request: Request<Incoming>, pace: Pace) -> Result<Answer, hyper::Error> {
    let json = |text: String| {
        Response::builder()
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(text)).boxed())
            .expect("the header is a constant")
    };
    if request.uri().path().ends_with("/models") {
        let models = r#"{"object":"list","data":[{"id":"bench","object":"model","created":1700000000,"owned_by":"bench"}]}"#;
        return Ok(json(models.to_owned()));
    }
    let begin = Instant::now();
    let body = request.into_body().collect().await?.to_bytes();
    let asked: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    if asked["stream"] != true {
        return Ok(json(SMALL.to_owned()));
    }
    let tokens =
        ["max_tokens", "max_completion_tokens"].iter().find_map(|key| asked[*key].as_u64()).unwrap_or(16);
    let stream = Stream {
        left: tokens,
        tokens,
        pace,
        next: begin + pace.ttft,
        timer: Box::pin(tokio::time::sleep_until(begin + pace.ttft)),
        step: Step::Tokens,
    };
    Ok(Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .body(BoxBody::new(stream))
        .expect("the header is a constant"))
}

/// A stream of events: tokens on an absolute schedule (a late one does not push back those after it), then a finish
/// reason with the usage, then the end marker.
struct Stream {
    left: u64,
    tokens: u64,
    pace: Pace,
    next: Instant,
    timer: Pin<Box<Sleep>>,
    step: Step,
}

enum Step {
    Tokens,
    Usage,
    Done,
    End,
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match self.step {
            Step::Tokens => {
                if self.timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    self.step = Step::Usage;
                } else if !self.pace.itl.is_zero() {
                    let next = self.next + self.pace.itl;
                    self.next = next;
                    self.timer.as_mut().reset(next);
                }
                Bytes::from(format!("{BEFORE}{:0width$}{BEHIND}", now(), width = STAMP.len()))
            }
            Step::Usage => {
                self.step = Step::Done;
                Bytes::from(format!(
                    "data: {{\"id\":\"chatcmpl-0001\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\
                     \"model\":\"bench\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}],\
                     \"usage\":{{\"prompt_tokens\":12,\"completion_tokens\":{0},\"total_tokens\":{1}}}}}\n\n",
                    self.tokens,
                    self.tokens + 12
                ))
            }
            Step::Done => {
                self.step = Step::End;
                Bytes::from_static(b"data: [DONE]\n\n")
            }
            Step::End => return Poll::Ready(None),
        };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}
