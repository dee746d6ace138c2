//! The admin address: metrics, readiness, the plan, and healing at once. It serves no other traffic.

use crate::control::Control;
use crate::metrics;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::convert::Infallible;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Connections at a time: enough for scrapers, probes and a person, and few enough to bound what they can take.
const CONNECTIONS: usize = 64;
const HEADER_READ: Duration = Duration::from_secs(5);
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Serves until dropped. `drain`: the proxy is ending, so it is no longer ready.
pub(crate) async fn serve(control: Control, listener: TcpListener, drain: CancellationToken) {
    let room = std::sync::Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (control, drain) = (control.clone(), drain.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let response = answer(&control, &drain, &request);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEADER_READ);
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}

fn answer(
    control: &Control,
    drain: &CancellationToken,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let read = matches!(*request.method(), Method::GET | Method::HEAD);
    match (request.uri().path(), read, request.method() == Method::POST) {
        ("/metrics", true, _) => text("text/plain; version=0.0.4; charset=utf-8", metrics::render(control)),
        ("/live", true, _) => text("text/plain", "live\n".to_owned()),
        ("/ready", true, _) if drain.is_cancelled() => {
            with_status(StatusCode::SERVICE_UNAVAILABLE, "draining\n")
        }
        ("/ready", true, _) => text("text/plain", "ready\n".to_owned()),
        ("/plan", true, _) => text("application/json", plan(control)),
        ("/heal", _, true) => {
            let healed = control.heal("asked");
            text("application/json", json!({"healed": healed}).to_string())
        }
        ("/metrics" | "/live" | "/ready" | "/plan", ..) => not_allowed("GET, HEAD"),
        ("/heal", ..) => not_allowed("POST"),
        _ => {
            with_status(StatusCode::NOT_FOUND, "GET /metrics, GET /ready, GET /live, GET /plan, POST /heal\n")
        }
    }
}

fn plan(control: &Control) -> String {
    let status = control.status();
    let rules: Vec<_> = status
        .rules
        .iter()
        .map(|rule| {
            json!({
                "fault": rule.fault, "kind": rule.kind, "open": rule.open,
                "eligible": rule.eligible, "chosen": rule.chosen, "fired": rule.fired,
            })
        })
        .collect();
    json!({
        "armed": status.armed,
        "scenario": status.scenario,
        "seed": status.seed,
        "endsInSeconds": status.ends_in.as_secs_f64(),
        "leaseLeftSeconds": status.lease_left.map(|left| left.as_secs_f64()),
        "rules": rules,
    })
    .to_string()
}

fn text(kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn with_status(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = text("text/plain", body.to_owned());
    *response.status_mut() = status;
    response
}

fn not_allowed(allow: &'static str) -> Response<Full<Bytes>> {
    let mut response = with_status(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}
