//! llama-server with Gemma 3 270M.

use crate::support::{Running, get, prepared};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Starts the server on one thread (its threads wait for each other by spinning, which is ruinous where cores are
/// shared) and waits until the model is loaded.
pub(crate) fn start(scratch: &Path) -> Running {
    let (program, model) = (prepared("LLAMA_SERVER"), prepared("GEMMA_GGUF"));
    // It takes no port 0. Between this and its own bind another program may take the port; then it ends, and says so.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let log = scratch.join("llama-server.log");
    let file = std::fs::File::create(&log).unwrap();
    let child = Command::new(program)
        .arg("-m")
        .arg(model)
        .args(["--alias", "gemma", "--host", "127.0.0.1", "--port", &port.to_string()])
        .args(["-t", "1", "-tb", "1", "-np", "4", "-c", "4096", "--metrics"])
        // Gemma's attention looks through a window; without its whole cache a prefix cannot be used again.
        .arg("--swa-full")
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn()
        .unwrap();
    let mut server = Running::own(child, format!("http://127.0.0.1:{port}"));
    let deadline = Instant::now() + Duration::from_secs(120);
    while get(&server.url, "/health").is_none() {
        assert!(!server.has_ended(), "llama-server ended; its log: {}", log.display());
        assert!(
            Instant::now() < deadline,
            "llama-server is not ready after 120 s; its log: {}",
            log.display()
        );
        pause();
    }
    server
}

#[allow(
    clippy::disallowed_methods,
    reason = "a server that loads a model sends no event that could be awaited"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

/// One counter of the server's own /metrics.
pub(crate) fn counter(url: &str, name: &str) -> f64 {
    let text = get(url, "/metrics").expect("the server answers");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in /metrics")).trim().parse().unwrap()
}
