//! A server that is spoken to by TLS.

use crate::front::{Authority, Front, Identity, self_signed};
use crate::support::{
    Bench, Do, End, GET, STREAM_HEAD, Server, chat, chat_json, chat_stream, chunk, post, token,
};
use brownout_proxy::{Config, Failure, Origin, Outcome, Proxy, StartError};
use rcgen::date_time_ymd;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;

const HTTP1: &[&str] = &["http/1.1"];

fn bench(url: &str, trust: &Path) -> Bench {
    Bench::with(url, |config| config.trust = Some(trust.to_owned()))
}

/// A proxy before `server`, which speaks TLS.
fn before(server: &Server) -> (Front, Bench) {
    let authority = Authority::new("known");
    let front = Front::start(server.addr, &authority.identity(&["127.0.0.1"]), HTTP1);
    let bench = bench(&front.url(), authority.file());
    (front, bench)
}

/// What a request is told by a proxy that trusts `trust`, before a server with this identity.
async fn refused(identity: &Identity, trust: &Path, alpn: &[&str]) -> String {
    let server = Server::saying(chat_json()).await;
    let front = Front::start(server.addr, identity, alpn);
    let told = told(&bench(&front.url(), trust)).await;
    assert!(server.seen().is_empty(), "nothing was sent");
    told
}

async fn told(bench: &Bench) -> String {
    let answer = bench.client().await.ask(chat(false)).await;
    assert_eq!((answer.status(), answer.end), (502, End::Complete), "{}", answer.head);
    let told = answer.header("x-brownout-error").expect("it is ours");
    assert!(answer.text().contains(&told), "{}", answer.text());
    let at = Failure::NAMES.iter().position(|each| *each == "tls").expect("a name");
    assert_eq!(bench.control.snapshot().failures[at], 1);
    bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::ServerError) == 1).await;
    told.strip_prefix("upstream TLS failed: ").expect("TLS failed").to_owned()
}

#[tokio::test]
async fn requests_share_a_connection_and_carry_the_servers_own_name() {
    let server = Server::saying(chat_json()).await;
    let (front, bench) = before(&server);
    for _ in 0..5 {
        let answer = bench.client().await.ask(chat(false)).await;
        assert_eq!((answer.status(), answer.count("one two three")), (200, 1));
    }
    assert_eq!((front.handshakes(), bench.control.snapshot().upstream_connections), (1, 1));
    let head = server.seen()[0].head.to_ascii_lowercase();
    assert!(head.contains(&format!("host: {}\r\n", front.address)), "{head}");
}

#[tokio::test]
async fn a_stream_comes_event_by_event_and_leaves_its_connection_for_the_next() {
    let server = Server::start(|_| {
        let mut rest = chunk(&token(1));
        rest.extend(b"0\r\n\r\n");
        vec![Do::Send(STREAM_HEAD.to_vec()), Do::Send(chunk(&token(0))), Do::Wait, Do::Send(rest)]
    })
    .await;
    let (front, bench) = before(&server);
    let mut client = bench.client().await;
    for turn in 0..3 {
        client.send(chat(true)).await;
        client.head().await.expect("headers");
        client.until("word0").await;
        if turn == 0 {
            assert_eq!(bench.control.snapshot().token_events, 1, "the second is still held back");
            server.go_on();
        }
        assert_eq!(client.answer_rest().await, End::Complete);
        client = bench.client().await;
        // A connection rests a little after a stream.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::Ok) == 3).await;
    assert_eq!((bench.control.snapshot().token_events, front.handshakes()), (6, 1));
}

#[tokio::test]
async fn a_server_that_closes_after_each_stream_loses_no_request() {
    // llama.cpp's does, and promises to keep the connection all the same.
    let server = Server::start(|_| vec![Do::Send(chat_stream(1)), Do::Close]).await;
    let (_front, bench) = before(&server);
    let mut client = bench.client().await;
    for _ in 0..200 {
        let answer = client.ask(chat(true)).await;
        assert_eq!((answer.status(), answer.count("word")), (200, 1), "{}", answer.head);
    }
}

#[tokio::test]
async fn faults_act_on_streams() {
    let server = Server::saying(chat_stream(8)).await;
    let (_front, bench) = before(&server);
    bench.arm(
        "- {name: cut, disconnect: {afterTokens: 3}, when: {maxHits: 1}}\n\
         - {name: slow, slowTokens: {delay: {constant: 15ms}}, when: {afterCalls: 1}}",
    );
    let cut = bench.client().await.ask(chat(true)).await;
    assert_eq!((cut.end != End::Complete, cut.count("word")), (true, 3));
    assert_eq!(cut.header("x-brownout-fault").as_deref(), Some("cut"));
    let slow = bench.client().await.ask(chat(true)).await;
    assert_eq!((slow.end, slow.count("word"), slow.count("[DONE]")), (End::Complete, 8, 1));
    let first = slow.times.iter().find(|(_, bytes)| *bytes > slow.text().find("word0").expect("it is there"));
    let took = slow.times.last().expect("pieces came").0 - first.expect("it came").0;
    assert!(took > Duration::from_millis(7 * 15 - 10), "{took:?}");
}

#[tokio::test]
async fn answers_that_break_off_are_broken_off() {
    let whole = chat_stream(3);
    let by_close = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n".to_vec();
    for (sent, step, outcome) in [
        (whole[..whole.len() - 1].to_vec(), Do::Close, Outcome::Cut),
        (whole[..whole.len() - 1].to_vec(), Do::Reset, Outcome::Cut),
        // An end that anyone on the way could have made is none.
        (by_close.clone(), Do::Reset, Outcome::Cut),
        (by_close, Do::Close, Outcome::Ok),
    ] {
        let steps = vec![Do::Send(sent), step];
        let server = Server::start(move |_| steps.clone()).await;
        let (_front, bench) = before(&server);
        let answer = bench.client().await.ask(chat(true)).await;
        assert_eq!(answer.status(), 200);
        bench.traffic(|traffic| traffic.finished(Origin::Organic, outcome) == 1).await;
    }
}

#[tokio::test]
async fn an_upgraded_connection_is_a_tunnel() {
    let server = Server::start(|_| {
        let consent = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nfirst";
        vec![Do::Send(consent.to_vec()), Do::Wait, Do::Send(b"second".to_vec()), Do::Close]
    })
    .await;
    let (_front, bench) = before(&server);
    let mut client = bench.client().await;
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n").await;
    assert!(client.head().await.expect("the server agreed").starts_with("HTTP/1.1 101"));
    client.until("first").await;
    server.go_on();
    client.until("firstsecond").await;
}

#[tokio::test]
async fn http2_is_agreed_on_where_asked() {
    let server = crate::http2::grpc_server().await;
    let authority = Authority::new("known");
    let front = Front::start(server, &authority.identity(&["127.0.0.1"]), &["h2"]);
    let bench = Bench::with(&front.url(), |config| {
        config.trust = Some(authority.file().to_owned());
        config.upstream_h2 = true;
    });
    for _ in 0..3 {
        let answer = bench.client().await.ask(post("/x", "{}")).await;
        let seen = answer.header("x-seen").expect("it tells");
        assert_eq!(seen, format!("HTTP/2.0 https://{}/x", front.address));
        assert_eq!(answer.text(), "{}");
    }
    assert_eq!(front.handshakes(), 1);
}

#[tokio::test]
async fn what_is_wrong_with_a_certificate_is_told() {
    let (known, unknown) = (Authority::new("known"), Authority::new("unknown"));
    let here = &["127.0.0.1"][..];
    let issuer =
        "its certificate is signed by nobody trusted here; SSL_CERT_FILE names a file of those to trust";
    assert_eq!(refused(&unknown.identity(here), known.file(), HTTP1).await, issuer);
    let namesake = Authority::new("known");
    assert_eq!(refused(&namesake.identity(here), known.file(), HTTP1).await, issuer);
    let elsewhere = known.identity(&["model.test", "127.0.0.2"]);
    assert_eq!(refused(&elsewhere, known.file(), HTTP1).await, "its certificate is for another name");
    let expired = known.identity_with(here, |params| params.not_after = date_time_ymd(2020, 1, 1));
    assert_eq!(refused(&expired, known.file(), HTTP1).await, "its certificate has expired");
    let early = known.identity_with(here, |params| params.not_before = date_time_ymd(4000, 1, 1));
    assert_eq!(refused(&early, known.file(), HTTP1).await, "its certificate is not valid yet");
    let only_h2 = refused(&known.identity(here), known.file(), &["h2"]).await;
    assert_eq!(only_h2, "no version of HTTP in common");
}

#[tokio::test]
async fn a_certificate_that_signed_itself_is_good_where_it_is_trusted_itself() {
    let here = &["127.0.0.1"][..];
    let (identity, file) = self_signed(here, |_| {});
    let server = Server::saying(chat_json()).await;
    let front = Front::start(server.addr, &identity, HTTP1);
    let answer = bench(&front.url(), file.path()).client().await.ask(chat(false)).await;
    assert_eq!(answer.status(), 200, "{}", answer.head);

    let (_, other) = self_signed(here, |_| {});
    let untrusted = refused(&identity, other.path(), HTTP1).await;
    assert!(untrusted.starts_with("its certificate is signed by nobody trusted here"), "{untrusted}");
    let (expired, file) = self_signed(here, |params| params.not_after = date_time_ymd(2020, 1, 1));
    assert_eq!(refused(&expired, file.path(), HTTP1).await, "its certificate has expired");
    let (elsewhere, file) = self_signed(&["model.test"], |_| {});
    assert_eq!(refused(&elsewhere, file.path(), HTTP1).await, "its certificate is for another name");
}

#[tokio::test]
async fn a_port_without_tls_is_told_from_one_that_closes() {
    let authority = Authority::new("known");
    let answers = server_that_answers_anything(chat_json()).await;
    let url = format!("https://{answers}");
    assert_eq!(told(&bench(&url, authority.file())).await, "the server speaks no TLS on this port");

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    assert_eq!(told(&bench(&url, authority.file())).await, "the server broke off the handshake");
}

/// A server that says its line to whatever comes, as HTTP servers do to what they take for a bad request.
async fn server_that_answers_anything(line: String) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut some = [0; 4096];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut some).await;
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, line.as_bytes()).await;
        }
    });
    addr
}

#[tokio::test]
async fn a_server_that_hangs_in_the_handshake_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("bound"));
    let authority = Authority::new("known");
    let bench = Bench::with(&url, |config| {
        config.trust = Some(authority.file().to_owned());
        config.limits.connect = Duration::from_millis(200);
    });
    let answer = bench.client().await.ask(GET).await;
    assert_eq!(answer.status(), 504);
    assert_eq!(answer.header("x-brownout-error").as_deref(), Some("upstream connect timeout"));
}

#[test]
fn nothing_to_trust_is_told_at_the_start() {
    let empty = tempfile::NamedTempFile::new().expect("a file can be made");
    for file in [empty.path(), Path::new("/nonexistent/ca.pem")] {
        let upstream = "https://127.0.0.1:9".parse().expect("an upstream");
        let mut config = Config::new(([127, 0, 0, 1], 0).into(), upstream);
        config.trust = Some(file.to_owned());
        let error = Proxy::start(config).expect_err("it cannot check anything");
        assert!(matches!(error, StartError::Upstream(..)), "{error}");
        assert!(error.to_string().contains("SSL_CERT_FILE"), "{error}");
    }
}
