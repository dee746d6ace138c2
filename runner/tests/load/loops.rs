//! Phases, numbers, limits: what a run does whatever the answers are.

use super::server::*;
use super::{baseline, load, millis, requests};
use brownout_injector::scenario::Arrival;
use brownout_injector::units::LengthDist;
use brownout_runner::load::{LoadRun, Observer, Progress, Stop, run};
use brownout_runner::record::{Outcome, Phase, RequestRecord};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Writes down what it is told, and the last request that the server had seen by then.
#[derive(Default)]
struct Watcher {
    server_log: Option<Arc<Mutex<Vec<Asked>>>>,
    phases: Vec<(Phase, Option<u64>)>,
    ended_sending: usize,
    records: usize,
    last: Progress,
    stop_at_phase: Option<(Phase, Stop)>,
}

impl Observer for Watcher {
    fn phase(&mut self, phase: Phase) {
        let seen = self
            .server_log
            .as_ref()
            .and_then(|log| log.lock().expect("the log").iter().filter_map(|asked| asked.number).max());
        self.phases.push((phase, seen));
        if let Some((at, stop)) = &self.stop_at_phase
            && *at == phase
        {
            stop.stop("enough");
        }
    }
    fn request(&mut self, _: &RequestRecord) {
        self.records += 1;
    }
    fn progress(&mut self, progress: &Progress) {
        self.last = progress.clone();
    }
    fn sending_ended(&mut self) {
        self.ended_sending += 1;
    }
}

fn three_phases(url: &str) -> LoadRun {
    let phases = vec![
        (Phase::Warmup, millis(0)),
        (Phase::Baseline, millis(200)),
        (Phase::Fault, millis(100)),
        (Phase::Recovery, millis(100)),
    ];
    LoadRun::new(load(Arrival::Constant { rate: 100.0 }), url, 7, phases)
}

#[test]
fn a_phase_is_announced_before_its_first_request_and_keeps_its_stragglers() {
    let server = Server::start(|asked| {
        let mut steps = good();
        // The last of the baseline ends well within the fault phase.
        if asked.number == Some(19) {
            steps.insert(0, Step::Wait(millis(60)));
        }
        steps
    });
    let mut watcher = Watcher { server_log: Some(Arc::clone(&server.log)), ..Watcher::default() };
    let recording = run(&three_phases(&server.url()), &mut watcher, &Stop::default()).expect("a run");
    let firsts = [(Phase::Baseline, 0), (Phase::Fault, 20), (Phase::Recovery, 30)];
    for ((phase, seen), (expected, first)) in watcher.phases.iter().zip(firsts) {
        assert_eq!(*phase, expected);
        assert!(seen.is_none_or(|last| last < first), "request {seen:?} came before {phase:?} was announced");
    }
    assert_eq!(watcher.phases.len(), 3);
    assert_eq!((watcher.ended_sending, watcher.records), (1, 40));
    assert_eq!((watcher.last.ok, watcher.last.sent, watcher.last.in_flight), (40, 40, 0));
    let numbers: Vec<u64> = recording.requests.iter().map(|request| request.number).collect();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>());
    for (phase, begin, end) in &recording.phases {
        let of_phase: Vec<_> = recording.requests.iter().filter(|request| request.phase == *phase).collect();
        assert!(of_phase.iter().all(|request| (*begin..*end).contains(&request.scheduled)), "{phase:?}");
        assert_eq!(of_phase.len(), if *phase == Phase::Baseline { 20 } else { 10 });
    }
    let straggler = &recording.requests[19];
    assert_eq!((straggler.phase, straggler.outcome), (Phase::Baseline, Outcome::Ok));
    assert!(straggler.ended > recording.phases[1].1, "{straggler:?}");
    assert_eq!(recording.cut_short, None);
    assert!(recording.client.cpu > 0.0 && recording.client.loop_lag_max >= recording.client.loop_lag_p99);
}

#[test]
fn a_closed_loop_keeps_to_its_users_and_its_number() {
    for (users, workers) in [(1, 1), (5, 1), (5, 2)] {
        let server = Server::start(|_| {
            let mut steps = good();
            steps.insert(2, Step::Wait(millis(2)));
            steps
        });
        let arrival = Arrival::Closed { concurrency: users, requests: Some(60) };
        let mut config = baseline(load(arrival), &server.url(), millis(60_000));
        config.workers = workers;
        let recording = run(&config, &mut (), &Stop::default()).expect("a run");
        assert_eq!(recording.requests.len(), 60);
        assert!(recording.requests.iter().all(|request| request.outcome == Outcome::Ok));
        let most = server.most_at_once.load(Ordering::SeqCst);
        assert!(most <= users as usize, "{most} at once with {users} users");
        assert!(server.connections.load(Ordering::SeqCst) <= users as usize, "connections are used again");
        let begin = recording.phases[0].1;
        let at_once = recording.requests.iter().filter(|request| request.scheduled < begin + 0.0024).count();
        assert!(at_once <= 2, "users begin one after the other, and an answer takes 2 ms");
        assert!(recording.phases[0].2 < 30.0, "a run ends when its requests are done");
        assert!(recording.requests.iter().all(|request| request.ended <= recording.phases[0].2 + 1.0));
    }
}

#[test]
fn the_same_seed_asks_the_same_whatever_the_threads() {
    let asked = |seed, workers| {
        let server = Server::start(|_| good());
        let mut config = requests(
            |_| {
                let mut load = load(Arrival::Poisson { rate: 400.0 });
                load.prompt.tokens = Some(LengthDist::Uniform { min: 4, max: 40 });
                load.output.tokens = LengthDist::Zipf { max: 64, exponent: 1.1 };
                load
            },
            &server.url(),
            40,
        );
        config.seed = seed;
        config.workers = workers;
        let recording = run(&config, &mut (), &Stop::default()).expect("a run");
        let begin = recording.phases[0].1;
        let times: Vec<i64> = recording
            .requests
            .iter()
            .map(|request| ((request.scheduled - begin) * 1e6).round() as i64)
            .collect();
        (times, server.asked().into_iter().map(|asked| (asked.number, asked.body)).collect::<Vec<_>>())
    };
    let one = asked(1, 1);
    assert_eq!(one, asked(1, 2));
    assert_ne!(one, asked(2, 1));
    assert!(one.0.len() > 10);
}

#[test]
fn a_stopped_run_gives_what_it_has() {
    let server = Server::start(|_| vec![stream_head(), token("a"), Step::Hang]);
    let stop = Stop::default();
    let mut watcher = Watcher { stop_at_phase: Some((Phase::Fault, stop.clone())), ..Watcher::default() };
    let recording = run(&three_phases(&server.url()), &mut watcher, &stop).expect("a run");
    assert_eq!(recording.cut_short.as_deref(), Some("enough"));
    assert_eq!(watcher.ended_sending, 1);
    assert_eq!(
        recording.phases.iter().map(|phase| phase.0).collect::<Vec<_>>(),
        [Phase::Baseline, Phase::Fault]
    );
    assert!(recording.requests.len() >= 20);
    for request in &recording.requests {
        assert_eq!(request.outcome, Outcome::RunEnded, "{request:?}");
        assert!(!request.outcome.counts());
    }
    assert!(recording.requests[0].ttft.is_some(), "what came until then is kept");
}

#[test]
fn stragglers_have_a_limit() {
    let server = Server::start(|_| vec![Step::Hang]);
    let mut config = requests(load, &server.url(), 3);
    config.stragglers = millis(50);
    let recording = run(&config, &mut (), &Stop::default()).expect("a run");
    assert_eq!(recording.requests.len(), 3);
    assert!(recording.requests.iter().all(|request| request.outcome == Outcome::RunEnded));
    assert_eq!(recording.cut_short, None);
}

#[test]
fn what_the_client_cannot_carry_is_recorded_as_its_own_failure() {
    let server = Server::start(|_| vec![Step::Hang]);
    let mut config = requests(load, &server.url(), 10);
    config.max_in_flight = 4;
    config.stragglers = millis(50);
    let recording = run(&config, &mut (), &Stop::default()).expect("a run");
    let count = |outcome| recording.requests.iter().filter(|request| request.outcome == outcome).count();
    assert_eq!((count(Outcome::RunEnded), count(Outcome::ClientCancelled)), (4, 6));
    assert!(recording.requests[9].error.as_deref().is_some_and(|why| why.contains("saturated")));
}

#[test]
fn a_closed_loop_on_a_dead_server_does_not_spin() {
    let server = Server::start(|_| vec![Step::Close]);
    let arrival = Arrival::Closed { concurrency: 2, requests: None };
    let recording =
        run(&baseline(load(arrival), &server.url(), millis(350)), &mut (), &Stop::default()).expect("a run");
    assert!((2..=10).contains(&recording.requests.len()), "{} requests", recording.requests.len());
}

#[test]
fn other_shapes_of_answer_work_too() {
    let server = Server::start(|_| {
        vec![json(200, r#"{"data":[{"embedding":[0.5]}],"model":"m","usage":{"prompt_tokens":8}}"#)]
    });
    let embeddings = |arrival| {
        let mut load = load(arrival);
        load.api = brownout_injector::wire::Api::OpenaiEmbeddings;
        load
    };
    let recording = run(&requests(embeddings, &server.url(), 2), &mut (), &Stop::default()).expect("a run");
    for request in &recording.requests {
        assert_eq!((request.outcome, request.prompt_tokens, request.ttft), (Outcome::Ok, Some(8), None));
    }
    assert!(server.asked().iter().all(|asked| asked.path == "/v1/embeddings"));
}
