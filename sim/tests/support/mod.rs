//! A small HTTP client over real sockets, and the reading of server-sent events.
#![allow(dead_code, unreachable_pub)] // Each test binary uses its own part.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// One connection.
pub enum Client {
    Http1(hyper::client::conn::http1::SendRequest<Full<Bytes>>, JoinHandle<()>),
    Http2(hyper::client::conn::http2::SendRequest<Full<Bytes>>, JoinHandle<()>),
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    /// The events' names (empty where there is none) and data.
    pub fn events(&self) -> Vec<(String, String)> {
        let mut events = Vec::new();
        for block in self.text().split("\n\n").filter(|block| !block.is_empty()) {
            let (mut name, mut data) = (String::new(), String::new());
            for line in block.lines() {
                match line.split_once(':').expect("a field") {
                    ("event", value) => name = value.trim_start().to_owned(),
                    ("data", value) => data.push_str(value.trim_start()),
                    other => panic!("unexpected field {other:?}"),
                }
            }
            events.push((name, data));
        }
        assert!(self.text().ends_with("\n\n"), "every event is closed");
        events
    }

    /// The data of all events but `[DONE]`, parsed.
    pub fn chunks(&self) -> Vec<Value> {
        let events = self.events();
        events
            .iter()
            .filter(|(_, data)| data != "[DONE]")
            .map(|(_, data)| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")))
            .collect()
    }
}

impl Client {
    pub async fn http1(addr: SocketAddr) -> Client {
        let stream = TcpStream::connect(addr).await.expect("connects");
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("http1");
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        Client::Http1(sender, task)
    }

    pub async fn http2(addr: SocketAddr) -> Client {
        let stream = TcpStream::connect(addr).await.expect("connects");
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .expect("h2c");
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        Client::Http2(sender, task)
    }

    /// Sends a request and returns once its head is answered.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> http::Response<Incoming> {
        match self {
            Client::Http1(sender, _) => {
                sender.ready().await.expect("ready");
                sender.send_request(request).await.expect("answered")
            }
            Client::Http2(sender, _) => {
                sender.ready().await.expect("ready");
                sender.send_request(request).await.expect("answered")
            }
        }
    }

    pub async fn call(&mut self, request: Request<Full<Bytes>>) -> Answer {
        let (head, body) = self.send(request).await.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Answer { status: head.status, headers: head.headers, body }
    }

    pub async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.call(post(path, body)).await
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.call(request("GET", path, Bytes::new())).await
    }

    /// Closes the socket under whatever is going on.
    pub fn cut(self) {
        match self {
            Client::Http1(_, task) | Client::Http2(_, task) => task.abort(),
        }
    }
}

pub fn post(path: &str, body: &Value) -> Request<Full<Bytes>> {
    request("POST", path, Bytes::from(body.to_string()))
}

pub fn request(method: &str, path: &str, body: Bytes) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("http://sim{path}"))
        .header("host", "sim")
        .header("content-type", "application/json")
        .body(Full::new(body))
        .expect("a request")
}

/// The value of a metric's first sample.
pub fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name) && !line.starts_with('#'));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok()).expect("a number")
}
