//! What every layer says of the layer below it, and the one way to take it along.

use crate::body::Body;
use crate::call::Call;
use crate::failure::Unanswered;
use http::Response;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_service::Service;

/// The layer below: a call goes in, an answer comes out. `Foreign` is what a tower service at the bottom fails with;
/// the proxy's own bottom never fails so.
pub(crate) trait Next:
    Service<
        Call,
        Response = Response<Body>,
        Error = Unanswered<<Self as Next>::Foreign>,
        Future: Send + 'static,
    > + Clone
    + Send
    + 'static
{
    type Foreign: Send + 'static;

    /// Takes the service that was found ready out, and leaves a clone for the next request: only the one that was
    /// asked may be called.
    fn take(&mut self) -> Self {
        let clone = self.clone();
        std::mem::replace(self, clone)
    }
}

impl<S, E> Next for S
where
    S: Service<Call, Response = Response<Body>, Error = Unanswered<E>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    E: Send + 'static,
{
    type Foreign = E;
}

type Boxed<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, Unanswered<E>>> + Send>>;

pin_project_lite::pin_project! {
    /// The future of a layer that usually does nothing: straight on, or by a detour. Only the detour costs an
    /// allocation.
    #[project = Way]
    pub(crate) enum Detour<F, E> {
        // The next layer's future as it is.
        Straight {
            // It.
            #[pin]
            next: F,
        },
        // Something else first.
        Around {
            // All of it, with the next layer's future inside.
            way: Boxed<E>,
        },
    }
}

impl<F, E> Detour<F, E> {
    pub(crate) const fn straight(next: F) -> Self {
        Self::Straight { next }
    }

    pub(crate) fn around(
        way: impl Future<Output = Result<Response<Body>, Unanswered<E>>> + Send + 'static,
    ) -> Self {
        Self::Around { way: Box::pin(way) }
    }
}

impl<F, E> Future for Detour<F, E>
where
    F: Future<Output = Result<Response<Body>, Unanswered<E>>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project() {
            Way::Straight { next } => next.poll(cx),
            Way::Around { way } => way.as_mut().poll(cx),
        }
    }
}

impl<F, E> fmt::Debug for Detour<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Straight { .. } => "Straight",
            Self::Around { .. } => "Around",
        })
    }
}
