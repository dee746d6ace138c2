//! A hyper server that breaks its own answers: for a minute, every second request gets a 503.
//!
//! Run with `cargo run -p brownout-proxy --example faulty_server`, then ask the address that it prints.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use brownout_injector::{Plan, load};
use brownout_proxy::{FaultsLayer, Journal, Limits, RequestBody};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use tower::{ServiceBuilder, service_fn};

const SCENARIO: &str = "
apiVersion: brownout.dev/v1alpha1
kind: Scenario
metadata: {name: half-down}
spec:
  target: {url: 'http://localhost'}
  phases: {fault: 60s}
  faults:
    - {name: half-down, httpError: {status: 503}, when: {every: 2}}
";

async fn hello(_: Request<RequestBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("all is well\n")))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (journal, lines) = Journal::channel(1_000);
    let faults = FaultsLayer::start(journal, Limits::default())?;
    faults.control().arm(Plan::compile(&load::load("half-down.yaml", SCENARIO)?, None), None);
    std::thread::spawn(move || lines.iter().for_each(|entry| println!("{entry:?}")));

    let service = TowerToHyperService::new(ServiceBuilder::new().layer(faults).service(service_fn(hello)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let service = service.clone();
        tokio::spawn(async move {
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
