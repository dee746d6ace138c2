//! The way of a request, top to bottom.

use crate::before::BeforeLayer;
use crate::call::{Call, RequestBody};
use crate::client::Client;
use crate::decide::DecideLayer;
use crate::facts::FactsLayer;
use crate::failure::Unanswered;
use crate::measure::{MeasureLayer, Measured};
use crate::next::Detour;
use crate::recover::RecoverLayer;
use crate::shape::ShapeLayer;
use crate::site::Site;
use crate::upstream::Upstream;
use crate::worker::Worker;
use http::{Request, Response};
use hyper::body::Incoming;
use std::cell::RefCell;
use std::sync::Arc;
use tower::ServiceBuilder;
use tower_service::Service;

/// The way of a request, top to bottom; its answer goes back up. At the bottom is the server: over the network for
/// the proxy, in this process for [`crate::FaultsLayer`].
pub(crate) fn stack<B>(site: &Arc<Site>, bottom: B) -> Stack<B> {
    ServiceBuilder::new()
        .layer(MeasureLayer::new(site.clone())) // counts requests, reads every event of every stream
        .layer(RecoverLayer) // failures of the server become answers, marked as ours
        .layer(FactsLayer::new(site.clone())) // reads what a plan asks about: model, stream, prompt size
        .layer(DecideLayer::new(site.clone())) // asks the plan once which faults fire
        .layer(BeforeLayer) // waits, queues, refusals, hang-ups, in file order
        .layer(ShapeLayer) // the answer passes through the effects of what fired
        .service(bottom) // to the server and back
}

/// The stack over this bottom.
pub(crate) type Stack<B> = crate::measure::Measure<
    crate::recover::Recover<
        crate::facts::ReadFacts<crate::decide::Decide<crate::before::Before<crate::shape::Shape<B>>>>,
    >,
>;

/// The stack's future, over a bottom whose future is `F` and whose own failures are `E`.
pub(crate) type StackFuture<F, E> =
    crate::measure::ResponseFuture<crate::recover::ResponseFuture<Detour<Detour<Detour<F, E>, E>, E>>>;

/// What hyper calls: one for each client connection.
#[derive(Debug)]
pub(crate) struct Entry {
    /// hyper calls by shared reference, tower by a mutable one; a connection is one task's.
    stack: RefCell<Stack<Upstream>>,
    client: Arc<Client>,
}

impl Entry {
    pub(crate) fn new(worker: &Arc<Worker>, client: &Arc<Client>) -> Self {
        let stack = stack(worker.site(), Upstream::new(worker.clone()));
        Self { stack: RefCell::new(stack), client: client.clone() }
    }
}

impl hyper::service::Service<Request<Incoming>> for Entry {
    type Response = Response<Measured>;
    type Error = Unanswered;
    type Future = <Stack<Upstream> as Service<Call>>::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (head, body) = request.into_parts();
        // Every layer here is always ready; asking each of them would be for nothing.
        let call = Call::new(head, RequestBody::Incoming(body), self.client.clone());
        self.stack.borrow_mut().call(call)
    }
}
