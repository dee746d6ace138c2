//! One request and its answer on an HTTP/1.1 connection to the server. A future written by hand, as every request
//! passes here: an `async fn` would move the request about, and be several times as large.

use crate::body::Body;
use crate::call::Sending;
use crate::failure::{Failure, Unanswered};
use crate::meter::bump;
use crate::pool::{Driven, Lease};
use crate::upstream::{Forward, finish, reason, send_h1};
use crate::worker::Worker;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

type Answer = Result<Response<Body>, Unanswered>;

/// Sends a request over this connection. `spare` is sent once more where the connection turns out to be closed.
pub(crate) fn exchange(
    worker: &Arc<Worker>,
    mut driven: Driven,
    mut request: Request<Sending>,
    spare: Option<Box<Request<Sending>>>,
) -> impl Future<Output = Answer> + Send + use<> {
    request.body_mut().begin(&driven.link);
    let sent = driven.sender.try_send_request(request);
    Exchange { sent, line: Some(Line { worker: worker.clone(), driven, spare }), then: None }
}

/// What hyper says of a request that it was given.
type Sent = Result<Response<Incoming>, TrySendError<Request<Sending>>>;

pin_project_lite::pin_project! {
    struct Exchange<F> {
        // hyper's future.
        #[pin]
        sent: F,
        // Nothing once `sent` is ready.
        line: Option<Line>,
        // What follows where that is not the end of it.
        then: Option<Forward>,
    }
}

struct Line {
    worker: Arc<Worker>,
    driven: Driven,
    spare: Option<Box<Request<Sending>>>,
}

impl<F: Future<Output = Sent>> Future for Exchange<F> {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let this = self.project();
        if this.then.is_none() {
            let sent = ready!(this.sent.poll(cx));
            let Some(line) = this.line.take() else {
                unreachable!("a future is not polled after it is ready")
            };
            match line.then(sent) {
                Then::Done(answer) => return Poll::Ready(answer),
                Then::Wait(more) => *this.then = Some(more),
            }
        }
        this.then.as_mut().map_or(Poll::Pending, |then| then.as_mut().poll(cx))
    }
}

#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and boxes would be made for every request"
)]
enum Then {
    Done(Answer),
    Wait(Forward),
}

impl Line {
    fn then(self, sent: Sent) -> Then {
        let Self { worker, driven, spare } = self;
        match sent {
            // Nobody may switch to what was not asked for (RFC 9110, 7.8): the client would not understand a word.
            Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                Then::Done(Err(Failure::Malformed.into()))
            }
            Ok(response) => {
                worker.server_spelling.learn(&driven.link.spelling);
                answered(Lease::new(driven, worker, &response), response)
            }
            Err(mut error) => match error.take_message().map(Box::new).or(spare) {
                Some(again) => {
                    bump(&worker.site().meter.upstream_retries, 1);
                    Then::Wait(send_h1(&worker, *again))
                }
                None => Then::Done(Err(reason(error.error()).into())),
            },
        }
    }
}

fn answered(lease: Lease, response: Response<Incoming>) -> Then {
    if lease.can_take_over(&response) {
        return Then::Wait(Box::pin(async move {
            let direct = lease.take_over(&response).await;
            Ok(finish(response.map(|_| Body::direct(Box::new(direct)))))
        }));
    }
    let response = response.map(|incoming| {
        let mut lease = Some(lease);
        if incoming.is_end_stream() {
            Lease::give_back(&mut lease);
        }
        Body::upstream(incoming, lease)
    });
    Then::Done(Ok(finish(response)))
}
