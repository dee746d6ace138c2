//! Every outcome over a real socket.

use super::server::*;
use super::{load, millis, requests};
use brownout_injector::facts;
use brownout_injector::units::TimeSpan;
use brownout_runner::load::{LoadError, Stop, run};
use brownout_runner::record::{Outcome, RequestRecord};
use socket2::{Domain, Socket, Type};
use std::net::{SocketAddr, TcpListener, TcpStream};

#[test]
fn each_way_to_end_is_told_from_the_others() {
    let impatient = |arrival| {
        let mut load = load(arrival);
        load.timeouts.first_token = TimeSpan(millis(400));
        load.timeouts.stall = TimeSpan(millis(300));
        load
    };
    let stream = |mut steps: Vec<Step>| {
        steps.insert(0, stream_head());
        steps
    };
    let table: Vec<(Vec<Step>, Outcome)> = vec![
        (good(), Outcome::Ok),
        (stream(vec![token("a"), done(), Step::Wait(millis(100)), Step::Reset]), Outcome::Ok),
        (stream(vec![token("a"), finish("stop"), end()]), Outcome::Ok),
        (stream(vec![token("a"), done(), Step::Hang]), Outcome::Ok),
        (vec![json(429, r#"{"error":{"message":"slow down"}}"#)], Outcome::Http429),
        (vec![json(404, "no such thing")], Outcome::Http4xx),
        (vec![json(503, "")], Outcome::Http5xx),
        (vec![json(302, "")], Outcome::ContentMismatch),
        (vec![Step::Hang], Outcome::TtftTimeout),
        (stream(vec![chunk(": ping\n\n"), Step::Hang]), Outcome::TtftTimeout),
        (stream(vec![token("a"), Step::Hang]), Outcome::StallTimeout),
        (vec![Step::Reset], Outcome::ResetMidstream),
        (vec![Step::Close], Outcome::ResetMidstream),
        (stream(vec![token("a"), Step::Wait(millis(100)), Step::Reset]), Outcome::ResetMidstream),
        (stream(vec![token("a"), Step::Close]), Outcome::ChunkedIncomplete),
        (
            vec![
                Step::Send(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"
                        .to_vec(),
                ),
                Step::Close,
            ],
            Outcome::ChunkedIncomplete,
        ),
        (stream(vec![token("a"), Step::Send(b"zz\r\n".to_vec()), Step::Hang]), Outcome::ChunkedIncomplete),
        (vec![Step::Send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec()), Step::Close], Outcome::ContentMismatch),
        (stream(vec![token("a"), end()]), Outcome::TruncatedClean),
        (stream(vec![token("a"), chunk("data: {\"choices\":[{\"del"), end()]), Outcome::TruncatedClean),
        (stream(vec![token("a"), finish("length"), usage(1), done(), end()]), Outcome::ShortVsMaxTokens),
        (stream(vec![token("a"), finish("length"), done(), end()]), Outcome::ShortVsMaxTokens),
        (
            stream(vec![token("a"), chunk("data: {\"error\":{\"message\":\"boom\"}}\n\n"), done(), end()]),
            Outcome::InbandError,
        ),
        (stream(vec![chunk("data: {\"choices\":[\n\n"), done(), end()]), Outcome::MalformedJson),
        (
            stream(vec![chunk("data: {\"choices\":[]}\ndata: {\"choices\":[]}\n\n"), done(), end()]),
            Outcome::MalformedSse,
        ),
        (stream(vec![finish("stop"), done(), end()]), Outcome::Empty200),
        (stream(vec![end()]), Outcome::Empty200),
        (vec![json(200, "")], Outcome::Empty200),
        (
            stream(vec![
                chunk("data: {\"model\":\"other\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"),
                done(),
                end(),
            ]),
            Outcome::ContentMismatch,
        ),
        (
            vec![json(
                200,
                r#"{"model":"m","choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#,
            )],
            Outcome::Ok,
        ),
    ];
    let (scripts, expected): (Vec<_>, Vec<_>) = table.into_iter().unzip();
    let count = expected.len() as u64;
    let server = Server::start(move |asked| scripts[asked.number.expect("a number") as usize].clone());
    let recording =
        run(&requests(impatient, &server.url(), count), &mut (), &Stop::default()).expect("a run");
    let seen: Vec<Outcome> = recording.requests.iter().map(|request| request.outcome).collect();
    for (number, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
        assert_eq!(seen, expected, "request {number}: {:?}", recording.requests[number]);
    }
    assert_eq!(seen.len(), expected.len());
    let by_status = |status| recording.requests.iter().find(|request| request.status == Some(status));
    assert_eq!(by_status(429).and_then(|request| request.error.as_deref()), Some("slow down"));
    assert_eq!(by_status(404).and_then(|request| request.error.as_deref()), Some("no such thing"));
}

#[test]
fn a_request_that_goes_on_and_on_is_given_up() {
    let server = Server::start(|_| {
        let mut steps = vec![stream_head()];
        for _ in 0..200 {
            steps.extend([token("a"), Step::Wait(millis(20))]);
        }
        steps
    });
    let config = requests(
        |arrival| {
            let mut load = load(arrival);
            load.timeouts.request = TimeSpan(millis(300));
            load
        },
        &server.url(),
        1,
    );
    let recording = run(&config, &mut (), &Stop::default()).expect("a run");
    let request = &recording.requests[0];
    assert_eq!(request.outcome, Outcome::RequestTimeout);
    assert!(request.chunks > 1 && request.ended - request.sent >= 0.3, "{request:?}");
}

#[test]
fn nobody_listening_is_refused_and_the_run_goes_on() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let recording =
        run(&requests(load, &format!("http://{free}"), 20), &mut (), &Stop::default()).expect("a run");
    assert_eq!(recording.requests.len(), 20);
    assert!(
        recording
            .requests
            .iter()
            .all(|request| request.outcome == Outcome::Refused && request.error.is_some())
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_backlog_is_a_connect_timeout() {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    listener.listen(0).expect("a listener");
    let address = listener.local_addr().expect("an address").as_socket().expect("an IP address");
    // Linux queues one connection more than the backlog says, and drops what comes then.
    let _first = TcpStream::connect(address).expect("the one that is queued");
    let impatient = |arrival| {
        let mut load = load(arrival);
        load.timeouts.first_token = TimeSpan(millis(300));
        load
    };
    let recording = run(&requests(impatient, &format!("http://{address}"), 2), &mut (), &Stop::default());
    let recording = recording.expect("a run");
    for request in &recording.requests {
        assert!(
            matches!(request.outcome, Outcome::ConnectTimeout | Outcome::TtftTimeout)
                && request.status.is_none(),
            "{request:?}"
        );
    }
    assert!(recording.requests.iter().any(|request| request.outcome == Outcome::ConnectTimeout));
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
    let recording = run(&requests(load, &server.url(), 3), &mut (), &Stop::default()).expect("a run");
    for request in &recording.requests {
        let RequestRecord { headers: Some(headers), ttft: Some(ttft), last_token: Some(last), .. } = request
        else {
            panic!("{request:?}");
        };
        assert_eq!((request.outcome, request.chunks, request.output_tokens), (Outcome::Ok, 4, 4));
        // The script's waits are lower bounds whatever the machine does.
        assert!(*headers >= 0.03 && *ttft >= 0.08 && *last >= 0.2 && headers < ttft, "{request:?}");
        assert!((ttft + request.gaps.iter().map(|gap| f64::from(*gap)).sum::<f64>() - last).abs() < 1e-4);
        assert!(request.scheduled <= request.sent && request.sent + last <= request.ended);
        assert_eq!((request.prompt_tokens, request.tokens_from_usage), (Some(9), true));
    }
}

/// The proxy answers for a server that gave no answer. Such requests end as they would without the proxy between.
#[test]
fn what_befell_the_proxy_is_told_as_what_it_is() {
    for (told, outcome) in [
        (facts::REFUSED, Outcome::Refused),
        (facts::UNREACHABLE, Outcome::Refused),
        (facts::CONNECT_TIMEOUT, Outcome::ConnectTimeout),
        (facts::CLOSED, Outcome::ResetMidstream),
        ("upstream TLS failed: its certificate has expired", Outcome::Tls),
        (facts::NO_SOCKET, Outcome::ClientCancelled),
        ("upstream sent no valid HTTP", Outcome::Http5xx),
    ] {
        let head = format!("HTTP/1.1 503 X\r\nx-brownout-error: {told}\r\ncontent-length: 2\r\n\r\n{{}}");
        let server = Server::start(move |_| vec![Step::Send(head.clone().into_bytes())]);
        let recording = run(&requests(load, &server.url(), 1), &mut (), &Stop::default()).expect("a run");
        let request = &recording.requests[0];
        assert_eq!(request.outcome, outcome, "{told}: {request:?}");
    }
}

#[test]
fn faults_named_in_the_answer_are_recorded() {
    let server = Server::start(|_| {
        let body = "{}";
        vec![Step::Send(
            format!(
                "HTTP/1.1 500 X\r\nx-brownout-fault: one, two\r\nx-brownout-fault: one\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes(),
        )]
    });
    let recording = run(&requests(load, &server.url(), 1), &mut (), &Stop::default()).expect("a run");
    assert_eq!(recording.requests[0].faults, ["one", "two"]);
}

#[test]
fn a_kept_connection_that_the_server_closed_is_no_failure() {
    let server = Server::start(|_| {
        let mut steps = good();
        steps.push(Step::Close);
        steps
    });
    let slow = |_| load(brownout_injector::scenario::Arrival::Closed { concurrency: 1, requests: Some(30) });
    let recording = run(&requests(slow, &server.url(), 5_000), &mut (), &Stop::default()).expect("a run");
    // A close that overtakes the next request is a failure of its own; the usual case is none.
    let of = |outcome| recording.requests.iter().filter(|request| request.outcome == outcome).count();
    let (ok, stale) = (of(Outcome::Ok), of(Outcome::StaleKeepalive));
    assert!(ok >= 25 && ok + stale == 30, "{ok} and {stale} of {}", recording.requests.len());
}

#[test]
fn a_close_that_meets_the_next_request_is_told_from_one_amid_it() {
    // The second request on a connection finds it closed: at once, or after the server has had it for a while.
    for (wait, outcome) in [(0, Outcome::StaleKeepalive), (400, Outcome::ResetMidstream)] {
        for close in [Step::Close, Step::Reset] {
            let server = Server::start(move |asked| match asked.number {
                Some(0) => good(),
                _ => vec![Step::Wait(millis(wait)), close.clone()],
            });
            let two =
                |_| load(brownout_injector::scenario::Arrival::Closed { concurrency: 1, requests: Some(2) });
            let recording =
                run(&requests(two, &server.url(), 5_000), &mut (), &Stop::default()).expect("a run");
            let seen: Vec<Outcome> = recording.requests.iter().map(|request| request.outcome).collect();
            assert_eq!(seen, [Outcome::Ok, outcome], "{:?}", recording.requests[1].error);
            assert_eq!(server.asked().len(), 2, "a request was sent twice");
        }
    }
    // Whoever said anything has seen the request.
    for said in ["HTTP/1.1 200 OK\r\ncontent-ty", "HTTP/1.1 100 Continue\r\n\r\n", "H"] {
        let server = Server::start(move |asked| match asked.number {
            Some(0) => good(),
            _ => vec![Step::Send(said.into()), Step::Close],
        });
        let two =
            |_| load(brownout_injector::scenario::Arrival::Closed { concurrency: 1, requests: Some(2) });
        let recording = run(&requests(two, &server.url(), 5_000), &mut (), &Stop::default()).expect("a run");
        assert_eq!(recording.requests[1].outcome, Outcome::ResetMidstream, "{said}");
    }
    // On a new connection there was nothing to be closed before.
    let server = Server::start(|_| vec![Step::Close]);
    let recording = run(&requests(load, &server.url(), 1), &mut (), &Stop::default()).expect("a run");
    assert_eq!(recording.requests[0].outcome, Outcome::ResetMidstream);
}

#[test]
fn the_model_is_asked_for_when_it_is_not_named() {
    let unnamed = |arrival| {
        let mut load = load(arrival);
        load.model = None;
        load
    };
    let server = Server::start(|asked| match asked.path.as_str() {
        "/v1/models" => vec![json(200, r#"{"object":"list","data":[{"id":"m-1"},{"id":"m-2"}]}"#)],
        _ => good(),
    });
    run(&requests(unnamed, &server.url(), 1), &mut (), &Stop::default()).expect("a run");
    let body: serde_json::Value = serde_json::from_slice(&server.asked()[0].body).expect("JSON");
    assert_eq!(body["model"], "m-1");
    for (answer, why) in [
        (json(200, r#"{"data":[]}"#), "lists no model"),
        (json(404, ""), "404"),
        (json(200, "<html>"), "no JSON"),
        (Step::Close, "connection"),
    ] {
        let server = Server::start(move |_| vec![answer.clone()]);
        let error = run(&requests(unnamed, &server.url(), 1), &mut (), &Stop::default()).expect_err(why);
        assert!(matches!(&error, LoadError::Model { .. }) && error.to_string().contains(why), "{error}");
    }
    // Naming a model helps nobody whose server is down.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let error = run(&requests(unnamed, &format!("http://{free}"), 1), &mut (), &Stop::default())
        .expect_err("nobody is there");
    assert!(
        matches!(&error, LoadError::Nobody { .. }) && !error.to_string().contains("load.model"),
        "{error}"
    );
}
