//! What is under test, with its journal.

use super::Client;
use brownout_injector::journal::{Entry, Fired, What};
use brownout_injector::{Plan, load};
use brownout_proxy::{Config, Control, FaultsLayer, Journal, Limits, Proxy, RequestBody};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use tokio::net::TcpListener;
use tower::{BoxError, ServiceBuilder};
use tower_service::Service;

/// A proxy under test, with its journal.
pub(crate) struct Bench {
    pub(crate) proxy: Option<Proxy>,
    pub(crate) control: Control,
    pub(crate) addr: SocketAddr,
    journal: Receiver<Entry>,
}

impl Bench {
    pub(crate) fn start(upstream: &str) -> Self {
        Self::with(upstream, |_| {})
    }

    pub(crate) fn with(upstream: &str, change: impl FnOnce(&mut Config)) -> Self {
        let (journal, lines) = Journal::channel(10_000);
        let mut config =
            Config::new(([127, 0, 0, 1], 0).into(), upstream.parse().expect("a test's own upstream"));
        config.journal = journal;
        change(&mut config);
        let proxy = Proxy::start(config).expect("a free port");
        Self { control: proxy.control(), addr: proxy.addr(), proxy: Some(proxy), journal: lines }
    }

    /// A hyper server in this process whose service wears the layer.
    pub(crate) async fn around<S, R>(service: S) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<R>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send + 'static,
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        let (journal, lines) = Journal::channel(10_000);
        let layer = FaultsLayer::start(journal, Limits::default()).expect("one more thread");
        let control = layer.control();
        let service = TowerToHyperService::new(ServiceBuilder::new().layer(layer).service(service));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { control, addr, proxy: None, journal: lines }
    }

    /// Arms these faults (YAML, the items of `faults`) for a minute.
    pub(crate) fn arm(&self, faults: &str) {
        self.control.arm(plan(faults, "60s"), None);
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.addr).await
    }

    /// The next thing a fault did.
    pub(crate) fn fired(&self) -> Fired {
        loop {
            let entry = self.journal.recv_timeout(Duration::from_secs(5)).expect("a fault did something");
            if let What::Fired(fired) = entry.what {
                return fired;
            }
        }
    }

    /// Why the next plan ended.
    pub(crate) fn healed(&self) -> String {
        loop {
            let entry = self.journal.recv_timeout(Duration::from_secs(5)).expect("a plan ends");
            if let What::Healed { reason } = entry.what {
                return reason;
            }
        }
    }

    /// Waits until the traffic is as `is` wants it.
    pub(crate) async fn traffic(&self, is: impl Fn(&brownout_proxy::Traffic) -> bool) {
        for _ in 0..5_000 {
            if is(&self.control.snapshot()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("in vain; at last it was {:#?}", Short(&self.control.snapshot()));
    }

    /// Waits until the plan is as `is` wants it: a hold may end up to a millisecond before its window does.
    pub(crate) async fn status(&self, is: impl Fn(&brownout_proxy::Status) -> bool) {
        for _ in 0..5_000 {
            if is(&self.control.status()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("in vain; at last it was {:#?}", self.control.status());
    }
}

struct Short<'a>(&'a brownout_proxy::Traffic);

impl std::fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let t = self.0;
        f.debug_struct("Traffic")
            .field("finished", &t.finished)
            .field("failures", &t.failures)
            .field("in_flight", &t.in_flight)
            .field("connections", &t.connections)
            .field("events", &t.events)
            .finish_non_exhaustive()
    }
}

/// A plan of these faults that lasts so long.
pub(crate) fn plan(faults: &str, lasts: &str) -> Plan {
    let text = format!(
        "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: test}}\nspec:\n  seed: 7\n  \
         target: {{url: 'http://127.0.0.1:1'}}\n  phases: {{fault: {lasts}}}\n  faults:\n{}\n",
        indent(faults)
    );
    match load::load("test.yaml", &text) {
        Ok(scenario) => Plan::compile(&scenario, None),
        Err(problems) => panic!("{problems}"),
    }
}

fn indent(text: &str) -> String {
    text.trim_matches('\n').lines().map(|line| format!("    {line}\n")).collect()
}
