//! Failures of the server become answers here, and nowhere else. What a fault hangs up on stays an error: hyper then
//! closes the connection without an answer.

use crate::body::Body;
use crate::call::Call;
use crate::failure::Failure;
use crate::meter::bump;
use crate::worker::Worker;
use brownout_injector::wire::Api;
use http::Response;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower_layer::Layer;
use tower_service::Service;

/// Turns failures into answers in the provider's own shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecoverLayer;

impl<S> Layer<S> for RecoverLayer {
    type Service = Recover<S>;

    fn layer(&self, inner: S) -> Recover<S> {
        Recover { inner }
    }
}

/// See [`RecoverLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Recover<S> {
    inner: S,
}

impl<S> Service<Call> for Recover<S>
where
    S: Service<Call, Response = Response<Body>, Error = Failure>,
{
    type Response = Response<Body>;
    type Error = Failure;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let (api, worker) = (call.api, call.client.worker().clone());
        ResponseFuture { inner: self.inner.call(call), api, worker }
    }
}

pin_project_lite::pin_project! {
    /// See [`RecoverLayer`].
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        inner: F,
        api: Api,
        worker: Arc<Worker>,
    }
}

impl<F> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Body>, Failure>>,
{
    type Output = Result<Response<Body>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(match ready!(this.inner.poll(cx)) {
            Err(failure) => match failure.index() {
                Some(kind) => {
                    bump(&this.worker.meter.failures[kind], 1);
                    Ok(failure.response(*this.api))
                }
                None => Err(failure),
            },
            answer => answer,
        })
    }
}
