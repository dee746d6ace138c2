//! Asks the plan, once a request, which faults fire on it.

use crate::body::Body;
use crate::call::Call;
use crate::case::Case;
use crate::failure::Failure;
use crate::worker::Worker;
use http::Response;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Decides about requests whose facts are known.
#[derive(Clone, Debug)]
pub(crate) struct DecideLayer {
    worker: Arc<Worker>,
}

impl DecideLayer {
    pub(crate) const fn new(worker: Arc<Worker>) -> Self {
        Self { worker }
    }
}

impl<S> Layer<S> for DecideLayer {
    type Service = Decide<S>;

    fn layer(&self, inner: S) -> Decide<S> {
        Decide { inner, worker: self.worker.clone() }
    }
}

/// See [`DecideLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Decide<S> {
    inner: S,
    worker: Arc<Worker>,
}

impl<S> Service<Call> for Decide<S>
where
    S: Service<Call, Response = Response<Body>, Error = Failure>,
{
    type Response = Response<Body>;
    type Error = Failure;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> S::Future {
        if let Some(known) = call.known.take() {
            call.case = self.decide(&call, *known);
        }
        self.inner.call(call)
    }
}

impl<S> Decide<S> {
    fn decide(&self, call: &Call, known: crate::facts::Known) -> Option<Box<Case>> {
        let shared = &self.worker.shared;
        let armed = shared.armed()?;
        let verdict = call.with_facts(&known, armed.at(), |facts| armed.plan.decide(facts));
        (!verdict.is_empty())
            .then(|| Box::new(Case::new(armed, known, call.head.uri.path(), verdict, shared.journal.clone())))
    }
}
