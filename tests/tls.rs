//! Servers that speak TLS, as a user meets them: `https://` in the URL, and `SSL_CERT_FILE` for what is trusted.

mod common;
#[path = "common/tls.rs"]
mod front;

use common::{Server, brownout, folder, json_lines, output, said, scenario};
use front::{Authority, Front, self_signed};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

const STORY: &str = "\
phases: {baseline: 500ms, fault: 500ms, recovery: 500ms}
faults: [{name: refuse, httpError: {status: 503}, when: {probability: 0.5}}]
load:
  arrival: {constant: {rate: 20}}
  prompt: {tokens: {constant: 8}}
  output: {tokens: {constant: 2}}
";

/// The stand-in server behind TLS, for this host.
fn behind_tls(authority: &Authority, host: &str) -> (Server, Front) {
    let sim = Server::sim();
    let address = sim.url.trim_start_matches("http://").parse().expect("an address");
    let front = Front::start(address, &authority.identity(&[host]), &["http/1.1"]);
    (sim, front)
}

fn trusting(mut command: Command, file: &Path) -> Command {
    command.env("SSL_CERT_FILE", file).env_remove("SSL_CERT_DIR");
    command
}

/// Runs `brownout COMMAND` of the story; gives what came of it, and its folder.
fn story(test: &str, command: &str, target: &str, trust: &Path) -> (Output, std::path::PathBuf) {
    let dir = folder(test);
    let file = scenario(&dir, STORY);
    let out = dir.join("out");
    let mut command = trusting(brownout([command]), trust);
    let output = output(command.arg(file).args(["--target", target, "--out"]).arg(&out));
    (output, out)
}

fn outcomes(out: &Path) -> Vec<String> {
    let lines = json_lines(&out.join("requests.jsonl"));
    lines.iter().map(|line| line["outcome"].as_str().expect("each has one").to_owned()).collect()
}

#[test]
fn a_server_behind_a_private_authority_is_measured_and_broken() {
    let authority = Authority::new("staging");
    let (_sim, front) = behind_tls(&authority, "localhost");
    // By name, so that the certificate is asked for by name.
    let target = format!("https://localhost:{}/v1", front.address.port());
    let (output, out) = story("tls-load", "load", &target, authority.file());
    let all = outcomes(&out);
    assert!(all.len() >= 28 && all.iter().all(|outcome| outcome == "ok"), "{}\n{all:?}", said(&output));

    let (output, out) = story("tls-run", "run", &target, authority.file());
    let all = outcomes(&out);
    let count = |name: &str| all.iter().filter(|outcome| *outcome == name).count();
    assert_eq!(count("ok") + count("http_5xx"), all.len(), "{}\n{all:?}", said(&output));
    assert!(count("http_5xx") > 0 && count("ok") > 10, "{}\n{all:?}", said(&output));
}

#[test]
fn a_certificate_that_nobody_trusts_ends_a_run_before_it_begins() {
    let (authority, other) = (Authority::new("staging"), Authority::new("other"));
    let (_sim, front) = behind_tls(&authority, "127.0.0.1");
    for command in ["run", "load"] {
        let (output, out) = story(&format!("tls-{command}-untrusted"), command, &front.url(), other.file());
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("signed by nobody trusted here") && said.contains("SSL_CERT_FILE"), "{said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
        assert!(!out.exists(), "nothing was measured");
    }
}

#[test]
fn the_proxy_alone_trusts_a_certificate_that_signed_itself() {
    let sim = Server::sim();
    let address = sim.url.trim_start_matches("http://").parse().expect("an address");
    let (identity, file) = self_signed(&["127.0.0.1"], |_| {});
    let front = Front::start(address, &identity, &["http/1.1"]);
    let args = ["proxy", "--listen", "127.0.0.1:0", "--upstream", &front.url()];
    let proxy = Server::spawn(trusting(brownout(args), file.path()));
    assert!(models(&proxy.url).starts_with("HTTP/1.1 200"), "{}", models(&proxy.url));

    let other = Authority::new("other");
    let proxy = Server::spawn(trusting(brownout(args), other.file()));
    let answer = models(&proxy.url);
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("upstream TLS failed"), "{answer}");
}

#[test]
fn a_file_with_nothing_to_trust_is_named_at_the_start_whatever_the_folders_hold() {
    let dir = folder("tls-nothing");
    let authority = Authority::new("other");
    let (_sim, front) = behind_tls(&authority, "127.0.0.1");
    let good = std::fs::read_to_string(authority.file()).expect("it is there");
    std::fs::create_dir(dir.join("trusted")).expect("a folder can be made");
    std::fs::write(dir.join("trusted/good.pem"), &good).expect("a file can be written");
    for (name, content, why) in [
        ("none.pem", None, "No such file"),
        ("empty.pem", Some(""), "it holds no certificate"),
        ("text.pem", Some("hello"), "it holds no certificate"),
        ("cut.pem", Some(&good[..good.len() / 2]), "it is cut short or damaged"),
        ("/dev/zero", None, "it is no file"),
    ] {
        let file = dir.join(name);
        if let Some(content) = content {
            std::fs::write(&file, content).expect("a file can be written");
        }
        let story = scenario(&dir, STORY).display().to_string();
        let url = front.url();
        for args in [
            &["proxy", "--listen", "127.0.0.1:0", "--upstream", &url][..],
            &["run", &story, "--target", &url, "--out", &dir.join("out").display().to_string()],
        ] {
            let mut command = trusting(brownout(args), &file);
            let output = output(command.env("SSL_CERT_DIR", dir.join("trusted")));
            let said = said(&output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            let told = format!("{}: {why}", file.display());
            assert!(said.contains(&told) && said.contains("SSL_CERT_FILE"), "{said}");
            assert_eq!(said.trim().lines().count(), 1, "{said}");
        }
    }
}

/// What a server answers to `GET /v1/models`.
fn models(url: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
    stream.write_all(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}
