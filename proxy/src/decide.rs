//! Asks the plan, once a request, which faults fire on it. A call goes in with the facts of its request, where a plan is
//! armed; it goes on with a case instead, where any fault fires, and without either otherwise. Answers pass untouched.

use crate::body::Body;
use crate::call::Call;
use crate::case::Case;
use crate::next::Next;
use crate::site::Site;
use http::Response;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Decides about requests whose facts are known.
#[derive(Clone, Debug)]
pub(crate) struct DecideLayer {
    site: Arc<Site>,
}

impl DecideLayer {
    pub(crate) const fn new(site: Arc<Site>) -> Self {
        Self { site }
    }
}

impl<S> Layer<S> for DecideLayer {
    type Service = Decide<S>;

    fn layer(&self, inner: S) -> Decide<S> {
        Decide { inner, site: self.site.clone() }
    }
}

/// See [`DecideLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Decide<S> {
    inner: S,
    site: Arc<Site>,
}

impl<S: Next> Service<Call> for Decide<S> {
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
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
        let shared = &self.site.shared;
        let armed = shared.armed()?;
        let verdict = call.with_facts(&known, armed.at(), |facts| armed.plan.decide(facts));
        (!verdict.is_empty())
            .then(|| Box::new(Case::new(armed, known, call.head.uri.path(), verdict, shared.journal.clone())))
    }
}
