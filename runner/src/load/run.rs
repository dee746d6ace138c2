//! A whole run: the phases one after the other, and all that was recorded.

use super::attempt::Learned;
use super::body::Requests;
use super::models;
use super::progress::{Board, Progress};
use super::prompts::Prompts;
use super::schedule::Arrivals;
use super::worker::{Command, News, Pace, Work};
use super::{LoadError, Target};
use crate::record::{ClientHealth, Phase, Recording, RequestRecord};
use brownout_injector::scenario::{Arrival, Load, MAX_CONCURRENCY};
use brownout_injector::wire::Api;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// What to run.
#[derive(Clone, Debug)]
pub struct LoadRun {
    /// The load.
    pub load: Load,
    /// Base URL of the server, such as `http://127.0.0.1:8000` or `https://gateway/team-a`.
    pub target: String,
    /// A file (PEM) of the certificates that an `https` server may show or be signed by, in place of those that the
    /// platform trusts.
    pub trust: Option<PathBuf>,
    /// Seed of schedule, prompts and lengths.
    pub seed: u64,
    /// The phases in their order. One of no length is left out.
    pub phases: Vec<(Phase, Duration)>,
    /// What a file of prompts is relative to.
    pub base: PathBuf,
    /// Threads that send; one is enough for about 400 streams of 50 tokens a second.
    pub workers: usize,
    /// The most requests that may be under way; one that is due beyond them is recorded as cancelled by the client.
    pub max_in_flight: usize,
    /// How long requests may go on after the last phase.
    pub stragglers: Duration,
    /// The moment that all recorded times count from, so that they line up with a journal's; the run's own beginning
    /// where left out.
    pub begun: Option<Instant>,
}

impl LoadRun {
    /// A run with one thread, at most 10,000 requests under way, and 10 s for stragglers.
    #[must_use]
    pub fn new(load: Load, target: impl Into<String>, seed: u64, phases: Vec<(Phase, Duration)>) -> Self {
        Self {
            load,
            target: target.into(),
            trust: None,
            seed,
            phases,
            base: PathBuf::from("."),
            workers: 1,
            max_in_flight: MAX_CONCURRENCY as usize,
            stragglers: Duration::from_secs(10),
            begun: None,
        }
    }
}

/// Who is told how a run goes. All calls come from the thread that called [`run`].
pub trait Observer {
    /// A phase is about to begin: its first request is sent after this returns, and its time counts from there.
    fn phase(&mut self, phase: Phase) {
        let _ = phase;
    }

    /// A request has ended.
    fn request(&mut self, record: &RequestRecord) {
        let _ = record;
    }

    /// How things stand, about ten times a second.
    fn progress(&mut self, progress: &Progress) {
        let _ = progress;
    }

    /// Nothing more is sent: the last phase is over, or the run was stopped. Requests may still be under way. Called
    /// once in every run that began a phase.
    fn sending_ended(&mut self) {}
}

impl Observer for () {}

/// Stops a run from elsewhere: a signal, a guard.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Mutex<Option<String>>>);

impl Stop {
    /// Stops the run; `why` becomes part of the recording. The first reason stays.
    pub fn stop(&self, why: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| why.into());
    }

    /// Why the run was stopped, where it was.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How often the observer is told how things stand.
const REPORT: Duration = Duration::from_millis(100);
/// How soon a stop is noticed.
const NOTICE: Duration = Duration::from_millis(20);
/// Between the announcement of a phase and its first send: time for the threads to learn of it.
const LEAD: Duration = Duration::from_millis(1);
/// The longest wait for a connection, where the wait for the first token is not even shorter.
const CONNECT: Duration = Duration::from_secs(10);

/// Runs `config` and blocks until it is over. A stopped run gives what it has, with the reason in `cut_short`.
///
/// # Errors
/// Whatever keeps a run from beginning: see [`LoadError`]. A server that is down or broken is no error, but what is
/// measured; only its model must be had where none is named.
pub fn run(config: &LoadRun, observer: &mut dyn Observer, stop: &Stop) -> Result<Recording, LoadError> {
    let (news_in, news) = channel();
    let work = prepare(config, news_in)?;
    let mut threads = Vec::new();
    for index in 0..work.workers {
        let (commands, inbox) = unbounded_channel();
        let work = Work { index, ..work.clone() };
        let thread = std::thread::Builder::new()
            .name(format!("load-{index}"))
            .spawn(move || work.run(inbox))
            .map_err(|error| LoadError::Worker(error.to_string()))?;
        threads.push((commands, thread));
    }
    let epoch = work.epoch;
    // The threads' own senders are the only ones left: all of them gone means that the run is over.
    drop(work);
    let collector = Collector {
        config,
        observer,
        stop,
        news,
        threads,
        epoch,
        board: Board::default(),
        recording: Recording::default(),
        next_report: epoch + REPORT,
        finished: 0,
        failure: None,
        loop_lags: Vec::new(),
    };
    collector.collect()
}

fn prepare(config: &LoadRun, news: std::sync::mpsc::Sender<News>) -> Result<Work, LoadError> {
    let load = &config.load;
    let target = Target::trusting(&config.target, config.trust.as_deref())?;
    let env = |name: &str| std::env::var(name).ok();
    let pace = match (Arrivals::new(&load.arrival, config.seed)?, &load.arrival) {
        (Some(arrivals), _) => Pace::Open(arrivals),
        (None, Arrival::Closed { concurrency, requests }) => {
            if !(1..=config.max_in_flight).contains(&(*concurrency as usize)) {
                return Err(LoadError::Load(format!(
                    "a concurrency of {concurrency}: it must be at least 1 and at most {}",
                    config.max_in_flight
                )));
            }
            Pace::Closed { users: *concurrency, limit: *requests }
        }
        (None, _) => return Err(LoadError::Load("an arrival without a schedule".to_owned())),
    };
    let prompts = Prompts::new(&load.prompt, &load.output, config.seed, &config.base)?;
    let model = match (&load.model, load.api) {
        (Some(model), _) => Some(model.clone()),
        (None, Api::TgiGenerate) => None,
        (None, Api::TritonGenerate) => {
            let why = "Triton's generate protocol has no list of them".to_owned();
            return Err(LoadError::Model { url: config.target.clone(), why });
        }
        (None, _) => {
            let probe = Requests::new(load, &target, None, &env)?;
            Some(models::ask(&target, probe.headers())?)
        }
    };
    let requests = Requests::new(load, &target, model, &env)?;
    let workers = config.workers.max(1);
    Ok(Work {
        index: 0,
        workers: workers as u64,
        target,
        connect_timeout: CONNECT.min(load.timeouts.first_token.0),
        api: load.api,
        requests,
        prompts,
        timeouts: load.timeouts.clone(),
        pace,
        max_in_flight: config.max_in_flight.div_ceil(workers),
        epoch: config.begun.unwrap_or_else(Instant::now),
        learned: Arc::new(Learned::default()),
        next_number: Arc::new(AtomicU64::new(0)),
        news,
    })
}

struct Collector<'a> {
    config: &'a LoadRun,
    observer: &'a mut dyn Observer,
    stop: &'a Stop,
    news: Receiver<News>,
    threads: Vec<(UnboundedSender<Command>, JoinHandle<()>)>,
    epoch: Instant,
    board: Board,
    recording: Recording,
    next_report: Instant,
    finished: usize,
    failure: Option<String>,
    loop_lags: Vec<f32>,
}

impl Collector<'_> {
    fn collect(mut self) -> Result<Recording, LoadError> {
        let mut announced = false;
        for (phase, length) in self.config.phases.iter().filter(|(_, length)| !length.is_zero()) {
            if self.is_over() {
                break;
            }
            self.observer.phase(*phase);
            announced = true;
            let start = Instant::now() + LEAD;
            self.command(&Command::Begin { phase: *phase, start, length: *length });
            self.pump(start + *length, Some((*phase, start, *length)));
            let end = Instant::now().min(start + *length);
            self.recording.phases.push((*phase, self.since(start), self.since(end.max(start))));
        }
        if announced {
            self.observer.sending_ended();
        }
        if self.stop.reason().is_none() && self.failure.is_none() {
            self.command(&Command::Drain);
            // A little more than a request may take: its own deadline is to end it, not the run.
            let deadline = self.config.load.timeouts.request.0 + Duration::from_secs(1);
            let patience = self.config.stragglers.min(deadline);
            self.pump(Instant::now() + patience, None);
        }
        self.command(&Command::End);
        while self.finished < self.threads.len() {
            match self.news.recv() {
                Ok(news) => self.take_in(news),
                Err(_) => break,
            }
        }
        for (_, thread) in self.threads.drain(..) {
            if thread.join().is_err() {
                self.failure.get_or_insert_with(|| "it panicked".to_owned());
            }
        }
        while let Ok(news) = self.news.try_recv() {
            self.take_in(news);
        }
        if let Some(failure) = self.failure.take() {
            return Err(LoadError::Worker(failure));
        }
        self.report(None);
        Ok(self.finish())
    }

    fn since(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.epoch).as_secs_f64()
    }

    fn command(&self, command: &Command) {
        for (commands, _) in &self.threads {
            // A thread that is gone has said why.
            let _ = commands.send(command.clone());
        }
    }

    /// Whether a closed loop has the answers to all requests that it was to make. Not sooner: whatever is healed when
    /// nothing more is sent must still act on those under way.
    fn all_answered(&self) -> bool {
        let Arrival::Closed { requests: Some(limit), .. } = self.config.load.arrival else { return false };
        self.recording.requests.len() as u64 >= limit
    }

    fn is_over(&self) -> bool {
        self.all_answered()
            || self.failure.is_some()
            || self.finished == self.threads.len()
            || self.stop.reason().is_some()
    }

    /// Takes news in until `until`, or until there is nothing more to wait for.
    fn pump(&mut self, until: Instant, phase: Option<(Phase, Instant, Duration)>) {
        loop {
            let now = Instant::now();
            if now >= self.next_report {
                self.next_report = now + REPORT;
                self.report(phase);
            }
            let draining = phase.is_none();
            let over = if draining {
                self.finished == self.threads.len() || self.failure.is_some() || self.stop.reason().is_some()
            } else {
                self.is_over()
            };
            if over || now >= until {
                return;
            }
            match self.news.recv_timeout((until - now).min(NOTICE)) {
                Ok(news) => self.take_in(news),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take_in(&mut self, news: News) {
        match news {
            News::Request(record) => {
                self.board.request(&record);
                self.observer.request(&record);
                self.recording.requests.push(*record);
            }
            News::Live(live) => self.board.live(Instant::now(), &live),
            News::Finished { cpu, loop_lags } => {
                self.finished += 1;
                self.recording.client.cpu = self.recording.client.cpu.max(cpu);
                self.loop_lags.extend(loop_lags);
            }
            News::Failed(why) => {
                self.finished += 1;
                self.failure.get_or_insert(why);
            }
        }
    }

    fn report(&mut self, phase: Option<(Phase, Instant, Duration)>) {
        let now = Instant::now();
        let mut progress = self.board.progress(now, self.epoch);
        progress.total = self.config.phases.iter().map(|(_, length)| *length).sum();
        if let Some((phase, start, length)) = phase {
            progress.phase = Some(phase);
            progress.phase_elapsed = now.saturating_duration_since(start);
            progress.phase_length = length;
        }
        self.observer.progress(&progress);
    }

    fn finish(mut self) -> Recording {
        let mut recording = self.recording;
        recording.requests.sort_by_key(|request| request.number);
        let mut lags: Vec<f32> = recording.requests.iter().map(|request| request.lag() as f32).collect();
        recording.client = ClientHealth {
            cpu: recording.client.cpu,
            send_lag_p99: p99(&mut lags),
            loop_lag_p99: p99(&mut self.loop_lags),
            loop_lag_max: self.loop_lags.last().copied().map_or(0.0, f64::from),
        };
        recording.cut_short = self.stop.reason();
        recording
    }
}

/// Sorts, and gives the 99th percentile by nearest rank; 0 of nothing.
fn p99(samples: &mut [f32]) -> f64 {
    samples.sort_unstable_by(f32::total_cmp);
    let rank = (0.99 * samples.len() as f64).ceil() as usize;
    samples.get(rank.saturating_sub(1)).copied().map_or(0.0, f64::from)
}
