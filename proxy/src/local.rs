//! The bottom of the stack where the server is a tower service in this process. A call goes in as it came down, and
//! becomes an HTTP request again; the service's answer comes out with its body boxed, its error as it is.

use crate::body::Body;
use crate::call::Call;
use crate::failure::Unanswered;
use crate::faults::RequestBody;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tower::BoxError;
use tower_service::Service;

/// A tower service as the server.
#[derive(Clone, Debug)]
pub(crate) struct Local<S> {
    inner: S,
}

impl<S> Local<S> {
    pub(crate) const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, R> Service<Call> for Local<S>
where
    S: Service<Request<RequestBody>, Response = Response<R>>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Unanswered<S::Error>;
    type Future = LocalFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Unanswered::Service)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let request = Request::from_parts(call.head, RequestBody::new(call.body));
        LocalFuture { inner: self.inner.call(request) }
    }
}

pin_project_lite::pin_project! {
    /// See [`Local`].
    #[derive(Debug)]
    pub(crate) struct LocalFuture<F> {
        #[pin]
        inner: F,
    }
}

impl<F, R, E> Future for LocalFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Output = Result<Response<Body>, Unanswered<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.project().inner.poll(cx));
        Poll::Ready(answer.map(|response| response.map(Body::foreign)).map_err(Unanswered::Service))
    }
}
