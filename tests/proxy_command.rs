//! `brownout proxy` as an operator drives it: admin endpoints, signals, a drain.

mod common;

use common::{Server, brownout, folder, said, scenario, signal};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const BODY: &str = r#"{"model":"brownout-sim","messages":[{"role":"user","content":"hi"}],"max_tokens":4,"ignore_eos":true}"#;

/// One request on a connection of its own; the whole answer with its head.
fn ask(url: &str, method: &str, path: &str, body: &str) -> String {
    let host = url.strip_prefix("http://").expect("a URL");
    let mut socket = TcpStream::connect(host).expect("it listens");
    let length = body.len();
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .expect("it reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("a whole answer");
    answer
}

fn chat(url: &str) -> String {
    ask(url, "POST", "/v1/chat/completions", BODY)
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).expect("a status line")
}

/// Asks again until `is` holds of the answer: a signal is handled some time after it was sent.
fn until(what: &str, ask: impl Fn() -> String, is: impl Fn(&str) -> bool) {
    let begun = Instant::now();
    let mut answer = ask();
    while !is(&answer) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {answer}");
        answer = ask();
    }
}

fn write_fault(dir: &Path, fault: &str) -> std::path::PathBuf {
    scenario(dir, &format!("phases: {{fault: 1h}}\nfaults: [{{name: f, {fault}}}]\n"))
}

fn proxy(sim: &Server, file: &Path) -> (Server, String) {
    let file = file.to_str().expect("UTF-8");
    let mut command = brownout([
        "proxy",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--upstream",
        &sim.url,
        "--scenario",
        file,
    ]);
    command.stderr(Stdio::piped());
    let mut proxy = Server::spawn(command);
    let admin = proxy.line("admin on ");
    (proxy, admin)
}

#[test]
fn a_file_read_again_takes_over_and_a_bad_one_does_not() {
    let sim = Server::sim();
    let dir = folder("sighup");
    let file = write_fault(&dir, "httpError: {status: 503}");
    let (mut proxy, admin) = proxy(&sim, &file);
    let refused = chat(&proxy.url);
    assert_eq!(status(&refused), "503", "{refused}");
    assert!(refused.contains("x-brownout-fault: f"), "{refused}");

    write_fault(&dir, "httpEror: {status: 418}");
    signal(proxy.pid(), "HUP");
    proxy.complaint("the file is refused");
    assert_eq!(status(&chat(&proxy.url)), "503");
    write_fault(&dir, "httpError: {status: 418}");
    signal(proxy.pid(), "HUP");
    until("the new plan is live", || chat(&proxy.url), |answer| status(answer) == "418");
    let plan = ask(&admin, "GET", "/plan", "");
    assert!(plan.contains("\"armed\":true"), "{plan}");
}

#[test]
fn healing_ends_the_faults_at_once_and_metrics_tell() {
    let sim = Server::sim();
    let file = write_fault(&folder("heal"), "httpError: {status: 503}");
    let (proxy, admin) = proxy(&sim, &file);
    assert_eq!(status(&chat(&proxy.url)), "503");
    assert_eq!(status(&ask(&admin, "GET", "/ready", "")), "200");
    let healed = ask(&admin, "POST", "/heal", "");
    assert_eq!(status(&healed), "200", "{healed}");
    assert_eq!(status(&chat(&proxy.url)), "200");
    let metrics = ask(&admin, "GET", "/metrics", "");
    let fired = metrics.lines().find(|line| line.starts_with("brownout_fault") && line.contains("fired"));
    assert!(fired.is_some_and(|line| line.ends_with(" 1")), "{metrics}");
}

#[test]
fn a_port_that_a_proxy_listens_on_is_refused_until_it_has_ended() {
    let sim = Server::sim();
    let listen = |addr: &str| {
        // As people copy it from their client's settings.
        let upstream = format!("{}/v1", sim.url);
        brownout(["proxy", "--workers", "2", "--upstream", &upstream, "--listen", addr])
    };
    let first = Server::spawn(listen("127.0.0.1:0"));
    let addr = first.url.strip_prefix("http://").expect("a URL").to_owned();
    let mut second =
        listen(&addr).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let listens = BufReader::new(second.stdout.take().expect("piped")).lines().next();
    if listens.is_some() {
        second.kill().expect("it runs");
    }
    let second = second.wait_with_output().expect("it ends");
    let said = said(&second);
    assert_eq!((listens.is_some(), second.status.code()), (false, Some(2)), "{said}");
    assert!(said.contains(&addr) && said.contains("Address already in use"), "{said}");
    // The proxy closes first, as it is asked to: that leaves the connection in TIME_WAIT.
    assert_eq!(status(&chat(&first.url)), "200");
    signal(first.pid(), "TERM");
    assert_eq!(first.wait(), Some(0));
    let next = Server::spawn(listen(&addr));
    assert_eq!(status(&chat(&next.url)), "200");
}

#[test]
fn sigterm_lets_a_stream_finish() {
    let sim = Server::sim();
    let file = write_fault(&folder("drain"), "slowTokens: {delay: {constant: 150ms}}");
    let (proxy, _admin) = proxy(&sim, &file);
    let host = proxy.url.strip_prefix("http://").expect("a URL").to_owned();
    let mut socket = TcpStream::connect(&host).expect("it listens");
    let body = BODY.replace("\"max_tokens\":4", "\"max_tokens\":8,\"stream\":true");
    let length = body.len();
    write!(
        socket,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .expect("it reads");
    let mut begun = [0; 16];
    socket.read_exact(&mut begun).expect("the answer begins");
    signal(proxy.pid(), "TERM");
    let mut rest = String::new();
    socket.read_to_string(&mut rest).expect("the answer is whole");
    assert!(rest.contains("[DONE]"), "{rest}");
    assert_eq!(proxy.wait(), Some(0));
}
