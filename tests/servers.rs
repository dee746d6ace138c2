//! The long-running commands under conditions that people really have.

mod common;

use common::{Server, brownout};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

/// A server whose shell allows it so few open files by default.
fn with_open_files(most: u32, args: &[&str]) -> Server {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -Sn {most} && exec \"$0\" \"$@\"")]);
    shell.arg(brownout([""; 0]).get_program()).args(args);
    Server::spawn(shell)
}

/// The status line of `GET /health`.
fn health(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("it is no zero");
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn more_clients_than_the_usual_limit_of_open_files_are_served() {
    let sim = with_open_files(40, &["sim", "--listen", "127.0.0.1:0"]);
    let proxy = with_open_files(40, &["proxy", "--listen", "127.0.0.1:0", "--upstream", &sim.url]);
    for server in [&sim, &proxy] {
        let address = server.url.trim_start_matches("http://");
        let idle: Vec<_> = (0..100).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        assert_eq!(health(address), "HTTP/1.1 200 OK", "with {} connections", idle.len());
    }
}

/// For how many open files the kernel has room before it must make the process wait for more.
fn room(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).expect("the kernel tells");
    size.trim().parse().expect("a number")
}

#[test]
fn connections_never_wait_for_the_kernel_to_make_room_for_them() {
    let sim = Server::sim();
    let proxy = Server::start(["proxy", "--listen", "127.0.0.1:0", "--upstream", &sim.url]);
    for server in [&sim, &proxy] {
        let before = room(server);
        let address = server.url.trim_start_matches("http://");
        let idle: Vec<_> = (0..300).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        assert_eq!(health(address), "HTTP/1.1 200 OK", "with {} connections", idle.len());
        assert_eq!(room(server), before);
    }
}
