//! A tap on the wire between proxy and server: passes bytes on as they are, and notes which requests reached the
//! server and what the server said of each (`timings`, tokens). So the server's own truth stands beside the client's.

use crate::support::json;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// One request as the server saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served {
    /// `x-brownout-request`.
    pub(crate) number: Option<u64>,
    /// Token events that left the server.
    pub(crate) tokens: u64,
    /// The server's own figures; none where it was cut off before it could tell them.
    pub(crate) timings: Option<Value>,
}

type Log = Arc<Mutex<Vec<Served>>>;

/// The tap. Its threads end with the connections, and the test's process.
pub(crate) struct Tap {
    pub(crate) url: String,
    log: Log,
}

impl Tap {
    pub(crate) fn before(server: &str) -> Self {
        let server = server.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Log::default();
        let shared = Arc::clone(&log);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                for socket in [&client, &server] {
                    socket.set_nodelay(true).unwrap();
                }
                connection(client, server, &shared);
            }
        });
        Self { url, log }
    }

    /// All chat requests that reached the server.
    pub(crate) fn served(&self) -> Vec<Served> {
        self.log.lock().unwrap().clone()
    }
}

fn connection(client: TcpStream, server: TcpStream, log: &Log) {
    // Index in the log of the request that is on this connection now: HTTP/1.1 has one at a time.
    let current = Arc::new(Mutex::new(None));
    let (up, down) = ((client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client));
    let (log_up, current_up) = (Arc::clone(log), Arc::clone(&current));
    thread::spawn(move || {
        let mut posting = false;
        copy(up.0, up.1, |line| {
            let lower = line.to_ascii_lowercase();
            if lower.starts_with("post ") && lower.contains("/completions ") {
                let mut log = log_up.lock().unwrap();
                log.push(Served::default());
                *current_up.lock().unwrap() = Some(log.len() - 1);
                posting = true;
            } else if let (true, Some(number)) = (posting, lower.strip_prefix("x-brownout-request:")) {
                let index = current_up.lock().unwrap().expect("a request has begun");
                log_up.lock().unwrap()[index].number = number.trim().parse().ok();
            } else if line.is_empty() {
                posting = false;
            }
        });
    });
    let log = Arc::clone(log);
    thread::spawn(move || {
        copy(down.0, down.1, |line| {
            let body = line.strip_prefix("data: ").unwrap_or(line);
            let Some(index) = *current.lock().unwrap() else { return };
            if !body.starts_with("{\"choices\"") {
                return;
            }
            let event = json(body);
            let served = &mut log.lock().unwrap()[index];
            served.tokens += u64::from(event["choices"][0]["delta"]["content"].is_string());
            if event["timings"].is_object() {
                served.timings = Some(event["timings"].clone());
            }
        });
    });
}

/// Passes bytes on as they come and shows each whole line, without its end, to `see`. Ends both ways with either.
fn copy(mut from: TcpStream, mut to: TcpStream, mut see: impl FnMut(&str)) {
    let mut buffer = [0; 16 * 1024];
    let mut line = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        // Seen before it is passed on: when the client has an answer, the log has it too.
        for byte in &buffer[..read] {
            if *byte == b'\n' {
                see(String::from_utf8_lossy(&line).trim_end_matches('\r'));
                line.clear();
            } else {
                line.push(*byte);
            }
        }
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = from.shutdown(std::net::Shutdown::Both);
}
