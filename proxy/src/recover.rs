//! Failures of the server become answers here, and nowhere else. A call passes down untouched; an answer comes back up
//! untouched, and a failure as an answer in the provider's own shape. What a fault hangs up on stays an error, upon
//! which hyper closes the connection without an answer, and so do the errors of a service in this process.

use crate::body::Body;
use crate::call::Call;
use crate::failure::Unanswered;
use crate::next::Next;
use crate::site::Site;
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

impl<S: Next> Service<Call> for Recover<S> {
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let (api, site) = (call.api, call.client.site().clone());
        ResponseFuture { inner: self.inner.call(call), api, site }
    }
}

pin_project_lite::pin_project! {
    /// See [`RecoverLayer`].
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        inner: F,
        api: Api,
        site: Arc<Site>,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Body>, Unanswered<E>>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(match ready!(this.inner.poll(cx)) {
            Err(Unanswered::Failed(failure)) => {
                let meter = &this.site.meter;
                meter.count(&meter.failures[failure.index()], 1);
                Ok(failure.response(*this.api))
            }
            other => other,
        })
    }
}
