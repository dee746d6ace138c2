//! The way of a request, top to bottom.

use crate::before::BeforeLayer;
use crate::call::{Call, RequestBody};
use crate::client::Client;
use crate::decide::DecideLayer;
use crate::facts::FactsLayer;
use crate::failure::Failure;
use crate::measure::{MeasureLayer, Measured};
use crate::recover::RecoverLayer;
use crate::shape::ShapeLayer;
use crate::upstream::Upstream;
use crate::worker::Worker;
use brownout_injector::wire::Api;
use http::{Request, Response};
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Instant;
use tower::ServiceBuilder;
use tower_service::Service;

/// The way of a request, top to bottom; its answer goes back up.
fn stack(worker: &Arc<Worker>) -> Stack {
    ServiceBuilder::new()
        .layer(MeasureLayer::new(worker.clone())) // counts requests, reads every event of every stream
        .layer(RecoverLayer) // failures of the server become answers, marked as ours
        .layer(FactsLayer::new(worker.clone())) // reads what a plan asks about: model, stream, prompt size
        .layer(DecideLayer::new(worker.clone())) // asks the plan once which faults fire
        .layer(BeforeLayer) // waits, queues, refusals, hang-ups, in file order
        .layer(ShapeLayer) // the answer passes through the effects of what fired
        .service(Upstream::new(worker.clone())) // to the server and back
}

type Stack = crate::measure::Measure<
    crate::recover::Recover<
        crate::facts::ReadFacts<crate::decide::Decide<crate::before::Before<crate::shape::Shape<Upstream>>>>,
    >,
>;

/// What hyper calls: one for each client connection.
#[derive(Debug)]
pub(crate) struct Entry {
    stack: Stack,
    client: Arc<Client>,
}

impl Entry {
    pub(crate) fn new(client: &Arc<Client>) -> Self {
        Self { stack: stack(client.worker()), client: client.clone() }
    }
}

impl hyper::service::Service<Request<Incoming>> for Entry {
    type Response = Response<Measured>;
    type Error = Failure;
    type Future = <Stack as Service<Call>>::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (head, body) = request.into_parts();
        let api = Api::of_path(head.uri.path());
        // Every layer here is always ready; asking each of them would be for nothing.
        self.stack.clone().call(Call {
            head,
            body: RequestBody::Incoming(body),
            api,
            arrived: Instant::now(),
            client: self.client.clone(),
            known: None,
            case: None,
        })
    }
}
