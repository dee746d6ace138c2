//! A target that is spoken to by TLS.

use super::front::{Authority, Front, Identity, self_signed};
use super::server::*;
use super::{load, millis, requests};
use brownout_injector::scenario::{Arrival, Load};
use brownout_injector::units::TimeSpan;
use brownout_runner::load::{LoadError, LoadRun, Stop, run};
use brownout_runner::record::{Outcome, Recording, RequestRecord};
use rcgen::date_time_ymd;
use std::net::TcpListener;
use std::path::Path;

const HTTP1: &[&str] = &["http/1.1"];

fn trusting(run: LoadRun, trust: &Path) -> LoadRun {
    LoadRun { trust: Some(trust.to_owned()), ..run }
}

fn recorded(config: &LoadRun) -> Recording {
    run(config, &mut (), &Stop::default()).expect("a run")
}

/// One user who makes so many requests one after the other.
fn one_by_one(count: u64) -> impl FnOnce(Arrival) -> Load {
    move |_| load(Arrival::Closed { concurrency: 1, requests: Some(count) })
}

#[test]
fn requests_share_a_connection_and_carry_the_servers_name() {
    let server = Server::start(|_| good());
    let authority = Authority::new("known");
    let front = Front::start(server.address, &authority.identity(&["127.0.0.1"]), HTTP1);
    let recording = recorded(&trusting(requests(one_by_one(20), &front.url(), 5_000), authority.file()));
    assert_eq!(recording.requests.len(), 20);
    assert!(recording.requests.iter().all(|request| request.outcome == Outcome::Ok), "{recording:?}");
    assert_eq!(front.handshakes(), 1);
    assert_eq!(server.asked()[0].headers["host"], front.address.to_string());
}

#[test]
fn times_are_those_of_the_events() {
    let server = Server::start(|_| {
        let mut steps = vec![Step::Wait(millis(30)), stream_head(), Step::Wait(millis(50))];
        for text in ["a", "b", "c", "d"] {
            steps.extend([token(text), Step::Wait(millis(40))]);
        }
        steps.extend([finish("length"), usage(4), done(), end()]);
        steps
    });
    let authority = Authority::new("known");
    let front = Front::start(server.address, &authority.identity(&["127.0.0.1"]), HTTP1);
    let recording = recorded(&trusting(requests(load, &front.url(), 3), authority.file()));
    for request in &recording.requests {
        let RequestRecord { headers: Some(headers), ttft: Some(ttft), last_token: Some(last), .. } = request
        else {
            panic!("{request:?}");
        };
        assert_eq!((request.outcome, request.chunks, request.output_tokens), (Outcome::Ok, 4, 4));
        assert!(*headers >= 0.03 && *ttft >= 0.08 && *last >= 0.2 && headers < ttft, "{request:?}");
        assert!(request.gaps.iter().all(|gap| *gap > 0.02), "each event is read when it comes: {request:?}");
        assert_eq!(request.coalesced, 0, "{request:?}");
    }
}

#[test]
fn answers_that_break_off_are_told_as_without_tls() {
    let stream = |mut steps: Vec<Step>| {
        steps.insert(0, stream_head());
        steps
    };
    for (steps, outcome) in [
        (vec![Step::Close], Outcome::ResetMidstream),
        (vec![Step::Reset], Outcome::ResetMidstream),
        (stream(vec![token("a"), Step::Close]), Outcome::ChunkedIncomplete),
        (stream(vec![token("a"), end()]), Outcome::TruncatedClean),
        (vec![json(429, r#"{"error":{"message":"slow down"}}"#)], Outcome::Http429),
    ] {
        let server = Server::start(move |_| steps.clone());
        let authority = Authority::new("known");
        let front = Front::start(server.address, &authority.identity(&["127.0.0.1"]), HTTP1);
        let recording = recorded(&trusting(requests(load, &front.url(), 1), authority.file()));
        assert_eq!(recording.requests[0].outcome, outcome, "{:?}", recording.requests[0]);
    }
}

#[test]
fn a_close_that_meets_the_next_request_is_told_from_one_amid_its_answer() {
    // The end of TLS itself comes in bytes too, and they are no answer.
    for (steps, outcome) in [
        (vec![Step::Close], Outcome::StaleKeepalive),
        (vec![Step::Reset], Outcome::StaleKeepalive),
        (vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-ty".to_vec()), Step::Close], Outcome::ResetMidstream),
    ] {
        let server = Server::start(move |asked| if asked.number == Some(0) { good() } else { steps.clone() });
        let authority = Authority::new("known");
        let front = Front::start(server.address, &authority.identity(&["127.0.0.1"]), HTTP1);
        let recording = recorded(&trusting(requests(one_by_one(2), &front.url(), 5_000), authority.file()));
        assert_eq!(front.handshakes(), 1);
        assert_eq!(recording.requests[1].outcome, outcome, "{:?}", recording.requests[1]);
    }
}

/// What a request is told by a client that trusts `trust`, and what a question before the run is.
fn refused(url: &str, trust: &Path) -> String {
    let recording = recorded(&trusting(requests(load, url, 1), trust));
    let request = &recording.requests[0];
    assert_eq!((request.outcome, request.status), (Outcome::Tls, None), "{request:?}");
    let told = request.error.clone().expect("it says why");
    let unnamed = |arrival| Load { model: None, ..load(arrival) };
    let error = run(&trusting(requests(unnamed, url, 1), trust), &mut (), &Stop::default());
    let error = error.expect_err("there is no model");
    assert!(matches!(&error, LoadError::Tls { .. }), "{error}");
    assert_eq!(error.to_string(), format!("target `{url}`: {told}"));
    told
}

#[test]
fn what_is_wrong_with_a_certificate_is_told() {
    let (known, unknown) = (Authority::new("known"), Authority::new("unknown"));
    let server = Server::start(|_| good());
    let told = |identity: &Identity, trust: &Path, alpn: &[&str]| {
        refused(&Front::start(server.address, identity, alpn).url(), trust)
    };
    let here = &["127.0.0.1"][..];
    let issuer = told(&unknown.identity(here), known.file(), HTTP1);
    assert!(issuer.contains("signed by nobody trusted here") && issuer.contains("SSL_CERT_FILE"), "{issuer}");
    let elsewhere = told(&known.identity(&["model.test", "127.0.0.2"]), known.file(), HTTP1);
    let why = "the server's certificate is not for `127.0.0.1` but for model.test, 127.0.0.2";
    assert_eq!(elsewhere, why);
    let expired = known.identity_with(here, |params| params.not_after = date_time_ymd(2020, 1, 1));
    assert_eq!(told(&expired, known.file(), HTTP1), "the server's certificate has expired");
    let early = known.identity_with(here, |params| params.not_before = date_time_ymd(4000, 1, 1));
    assert!(told(&early, known.file(), HTTP1).contains("not valid yet"));
    let only_h2 = told(&known.identity(here), known.file(), &["h2"]);
    assert!(only_h2.starts_with("the TLS handshake failed"), "{only_h2}");
    assert!(server.asked().is_empty(), "nothing was sent");
}

#[test]
fn a_certificate_that_signed_itself_is_good_where_it_is_trusted_itself() {
    let server = Server::start(|_| good());
    let (identity, file) = self_signed(&["127.0.0.1"], |_| {});
    let front = Front::start(server.address, &identity, HTTP1);
    let recording = recorded(&trusting(requests(load, &front.url(), 1), file.path()));
    assert_eq!(recording.requests[0].outcome, Outcome::Ok, "{:?}", recording.requests[0]);

    let (_, other) = self_signed(&["127.0.0.1"], |_| {});
    assert!(refused(&front.url(), other.path()).contains("SSL_CERT_FILE"));
    let (elsewhere, file) = self_signed(&["model.test"], |_| {});
    let front = Front::start(server.address, &elsewhere, HTTP1);
    assert!(refused(&front.url(), file.path()).contains("not for `127.0.0.1`"));
}

#[test]
fn a_port_without_tls_is_told_from_one_that_closes() {
    let authority = Authority::new("known");
    for (answer, why) in [
        (&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..], "speaks no TLS on this port"),
        (b"", "broke off the TLS handshake"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("https://{}", listener.local_addr().expect("an address"));
        let serve = std::thread::spawn(move || {
            // Once for the load, once for the question before a run.
            for _ in 0..2 {
                let (mut socket, _) = listener.accept().expect("a client");
                let mut some = [0; 4096];
                let _ = std::io::Read::read(&mut socket, &mut some);
                let _ = std::io::Write::write_all(&mut socket, answer);
            }
        });
        let told = refused(&url, authority.file());
        assert!(told.contains(why), "{told}");
        serve.join().expect("it served");
    }
}

#[test]
fn a_port_with_tls_that_is_asked_without_hints_at_https() {
    let server = Server::start(|_| vec![json(200, r#"{"data":[]}"#)]);
    let authority = Authority::new("known");
    let front = Front::start(server.address, &authority.identity(&["127.0.0.1"]), HTTP1);
    // As nginx, Apache and Go's library say it.
    let nginx = Server::start(|_| vec![json(400, "The plain HTTP request was sent to HTTPS port")]);
    let apache = Server::start(|_| vec![json(400, "speaking plain HTTP to an SSL-enabled server port")]);
    let silent = Server::start(|_| vec![Step::Close]);
    let other = Server::start(|_| vec![json(400, r#"{"error":{"message":"no key"}}"#)]);
    for (address, hint) in [
        (front.address, true),
        (nginx.address, true),
        (apache.address, true),
        (silent.address, true),
        (other.address, false),
        (server.address, false),
    ] {
        let unnamed = |arrival| Load { model: None, ..load(arrival) };
        let url = format!("http://{address}");
        let error = run(&requests(unnamed, &url, 1), &mut (), &Stop::default());
        let error = error.expect_err("there is no model").to_string();
        assert_eq!(error.contains("https:// in place of http://"), hint, "{error}");
    }
}

#[test]
fn a_server_that_hangs_in_the_handshake_is_a_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let authority = Authority::new("known");
    let impatient = |arrival| {
        let mut load = load(arrival);
        load.timeouts.first_token = TimeSpan(millis(300));
        load
    };
    let recording = recorded(&trusting(requests(impatient, &url, 1), authority.file()));
    // Both limits are one here; which of them is noticed first is chance.
    let outcome = recording.requests[0].outcome;
    assert!(matches!(outcome, Outcome::ConnectTimeout | Outcome::TtftTimeout), "{outcome:?}");
}

#[test]
fn nothing_to_trust_is_told_before_anything_is_sent() {
    let empty = tempfile::NamedTempFile::new().expect("a file can be made");
    for file in [empty.path(), Path::new("/nonexistent/ca.pem")] {
        let config = trusting(requests(load, "https://127.0.0.1:9", 1), file);
        let error = run(&config, &mut (), &Stop::default()).expect_err("it cannot check anything");
        assert!(matches!(&error, LoadError::Target { .. }), "{error}");
        assert!(error.to_string().contains("SSL_CERT_FILE"), "{error}");
    }
}
