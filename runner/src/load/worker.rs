//! The thread that sends: one event loop, its schedule or its users, and the measure of how well it keeps up.

use super::attempt::{Job, Learned, Shared, attempt};
use super::body::Requests;
use super::client::Client;
use super::clock::{Timer, thread_cpu};
use super::prompts::Prompts;
use super::schedule::Arrivals;
use super::{LoadError, Target};
use crate::record::{Outcome, Phase, RequestRecord};
use brownout_injector::scenario::Timeouts;
use brownout_injector::wire::Api;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

/// How often the event loop checks its own delay.
const TICK: Duration = Duration::from_millis(20);
/// Every so many ticks the display is told.
const TICKS_A_REPORT: u32 = 5;
/// The most samples of one kind that a report carries: the display needs no more.
const SAMPLES: usize = 2048;
/// A user whose request fails sooner than this waits the rest of it: a closed loop on a dead server must not spin.
const LEAST_FAILURE: Duration = Duration::from_millis(100);
/// Users begin one after the other, so far apart: hundreds of connections in one instant overflow a server's backlog,
/// and users who began together would stay in step for ever.
const BETWEEN_USERS: Duration = Duration::from_micros(2500);

/// What a thread is told.
#[derive(Clone, Debug)]
pub(super) enum Command {
    /// A phase begins at `start`.
    Begin { phase: Phase, start: Instant, length: Duration },
    /// Nothing more is sent; what is under way goes on.
    Drain,
    /// What is under way ends now.
    End,
}

/// What a thread tells.
pub(super) enum News {
    /// A request has ended.
    Request(Box<RequestRecord>),
    /// How things stand.
    Live(Live),
    /// All has ended.
    Finished { cpu: f64, loop_lags: Vec<f32> },
    /// The thread cannot go on.
    Failed(String),
}

/// Counts and samples since the last report.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) sent: u64,
    pub(super) tokens: u64,
    pub(super) ttfts: Vec<f32>,
    pub(super) gaps: Vec<f32>,
}

impl Live {
    pub(super) fn tokens(&mut self, count: u64, gaps: &[f32]) {
        self.tokens += count;
        let room = SAMPLES.saturating_sub(self.gaps.len());
        self.gaps.extend(gaps.iter().filter(|gap| **gap > 0.0).take(room));
    }

    pub(super) fn first(&mut self, ttft: f32) {
        if self.ttfts.len() < SAMPLES {
            self.ttfts.push(ttft);
        }
    }
}

/// How the requests come.
#[derive(Clone, Debug)]
pub(super) enum Pace {
    Open(Arrivals),
    Closed { users: u32, limit: Option<u64> },
}

/// All that a thread needs.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) index: u64,
    pub(super) workers: u64,
    pub(super) target: Target,
    pub(super) connect_timeout: Duration,
    pub(super) api: Api,
    pub(super) requests: Requests,
    pub(super) prompts: Prompts,
    pub(super) timeouts: Timeouts,
    pub(super) pace: Pace,
    pub(super) max_in_flight: usize,
    pub(super) epoch: Instant,
    pub(super) learned: Arc<Learned>,
    /// Numbers of a closed loop's requests, common to all threads.
    pub(super) next_number: Arc<AtomicU64>,
    pub(super) news: Sender<News>,
}

impl Work {
    /// Runs to the end; returns when all requests have ended.
    pub(super) fn run(self, commands: UnboundedReceiver<Command>) {
        let news = self.news.clone();
        let result = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| LoadError::Worker(error.to_string()))
            .and_then(|runtime| {
                tokio::task::LocalSet::new().block_on(&runtime, Worker::new(self).main(commands))
            });
        // A receiver that is gone wants no news.
        let _ = news.send(match result {
            Ok((cpu, loop_lags)) => News::Finished { cpu, loop_lags },
            Err(error) => News::Failed(error.to_string()),
        });
    }
}

/// The phase that users of a closed loop may send in.
#[derive(Clone, Copy)]
enum Gate {
    Shut,
    Open { phase: Phase, start: Instant, end: Instant },
    Over,
}

struct Worker {
    work: Work,
    shared: Rc<Shared>,
    in_flight: Rc<Cell<usize>>,
    idle: Rc<Notify>,
    gate: Rc<Cell<Gate>>,
    gate_moved: Rc<Notify>,
}

impl Worker {
    fn new(work: Work) -> Self {
        let shared = Shared {
            client: Client::new(work.target.clone(), work.connect_timeout),
            api: work.api,
            stream: work.requests.stream(),
            model: work.requests.model().map(str::to_owned),
            tools: work.requests.tools(),
            timeouts: work.timeouts.clone(),
            epoch: work.epoch,
            learned: Arc::clone(&work.learned),
            live: RefCell::default(),
            over: Cell::new(false),
            wake: Notify::new(),
        };
        Self {
            work,
            shared: Rc::new(shared),
            in_flight: Rc::default(),
            idle: Rc::default(),
            gate: Rc::new(Cell::new(Gate::Shut)),
            gate_moved: Rc::default(),
        }
    }

    async fn main(self, mut commands: UnboundedReceiver<Command>) -> Result<(f64, Vec<f32>), LoadError> {
        let failed = |error: std::io::Error| LoadError::Worker(error.to_string());
        let lags = Rc::new(RefCell::new(Vec::new()));
        let ticker = tokio::task::spawn_local(tick(
            Timer::new().map_err(failed)?,
            Rc::clone(&self.shared),
            Rc::clone(&lags),
            self.work.news.clone(),
        ));
        let (cpu, began) = (thread_cpu(), Instant::now());
        match self.work.pace.clone() {
            Pace::Open(arrivals) => self.open(arrivals, &mut commands).await.map_err(failed)?,
            Pace::Closed { users, limit } => {
                self.closed(users, limit, &mut commands).await.map_err(failed)?
            }
        }
        while self.in_flight.get() > 0 {
            tokio::select! {
                command = commands.recv() => if matches!(command, None | Some(Command::End)) { self.end() },
                () = self.idle.notified() => {}
            }
        }
        let cpu = (thread_cpu() - cpu).as_secs_f64() / began.elapsed().as_secs_f64().max(1e-9);
        ticker.abort();
        let _ = self.work.news.send(News::Live(self.shared.live.take()));
        Ok((cpu, lags.take()))
    }

    fn end(&self) {
        self.shared.over.set(true);
        self.shared.wake.notify_waiters();
    }

    /// Keeps the schedule, however the server fares.
    async fn open(
        &self,
        mut arrivals: Arrivals,
        commands: &mut UnboundedReceiver<Command>,
    ) -> std::io::Result<()> {
        let mut timer = Timer::new()?;
        // What was told while a phase was still under way. A phase is sent to its end also by a thread that is behind:
        // leaving requests out would flatter the server just when it, or the client, is slow.
        let mut told = VecDeque::new();
        loop {
            let command = match told.pop_front() {
                Some(command) => Some(command),
                None => commands.recv().await,
            };
            let (phase, start, length) = match command {
                Some(Command::Begin { phase, start, length }) => (phase, start, length),
                Some(Command::Drain) => return Ok(()),
                Some(Command::End) | None => {
                    self.end();
                    return Ok(());
                }
            };
            arrivals.begin_phase();
            while let Some((number, offset)) = arrivals.next_before(length.as_secs_f64()) {
                if number % self.work.workers != self.work.index {
                    continue;
                }
                // Made before it is due: the making of a long prompt is not to delay its send.
                let due = start + Duration::from_secs_f64(offset);
                let job =
                    (self.in_flight.get() < self.work.max_in_flight).then(|| self.job(number, phase, due));
                loop {
                    tokio::select! {
                        biased;
                        command = commands.recv() => match command {
                            Some(Command::End) | None => {
                                self.end();
                                return Ok(());
                            }
                            Some(later) => told.push_back(later),
                        },
                        wait = timer.until(due) => {
                            wait?;
                            break;
                        }
                    }
                }
                match job {
                    Some(job) if self.in_flight.get() < self.work.max_in_flight => self.spawn(job),
                    _ => self.saturated(number, phase, due),
                }
                // Let it go out before the next one is made.
                tokio::task::yield_now().await;
            }
        }
    }

    fn job(&self, number: u64, phase: Phase, scheduled: Instant) -> Job {
        let prompt = self.work.prompts.prompt(number);
        Job {
            number,
            phase,
            scheduled,
            request: self.work.requests.request(number, &prompt),
            max_tokens: if self.work.api == Api::OpenaiEmbeddings { 0 } else { prompt.max_tokens },
            prompt_hash: Job::hash(&prompt.input.text()),
        }
    }

    fn spawn(&self, job: Job) {
        self.in_flight.set(self.in_flight.get() + 1);
        let (shared, in_flight, idle) =
            (Rc::clone(&self.shared), Rc::clone(&self.in_flight), Rc::clone(&self.idle));
        let news = self.work.news.clone();
        tokio::task::spawn_local(async move {
            let record = attempt(&shared, job).await;
            let _ = news.send(News::Request(Box::new(record)));
            in_flight.set(in_flight.get() - 1);
            idle.notify_one();
        });
    }

    fn saturated(&self, number: u64, phase: Phase, due: Instant) {
        let since = |at: Instant| at.saturating_duration_since(self.shared.epoch).as_secs_f64();
        let why = format!("the client is saturated: {} requests are under way", self.in_flight.get());
        let (scheduled, now) = (since(due), since(Instant::now()));
        let record = Job::unsent(number, phase, scheduled, now, Outcome::ClientCancelled, &why);
        let _ = self.work.news.send(News::Request(Box::new(record)));
    }

    /// Users who wait for their answers.
    async fn closed(
        &self,
        users: u32,
        limit: Option<u64>,
        commands: &mut UnboundedReceiver<Command>,
    ) -> std::io::Result<()> {
        let share = (u64::from(users) + self.work.workers - 1 - self.work.index) / self.work.workers;
        let this = Rc::new(self.user_view());
        for local in 0..share {
            self.in_flight.set(self.in_flight.get() + 1);
            let (this, in_flight, idle) =
                (Rc::clone(&this), Rc::clone(&self.in_flight), Rc::clone(&self.idle));
            let place = local * self.work.workers + self.work.index;
            tokio::task::spawn_local(async move {
                this.user(place, users, limit).await;
                in_flight.set(in_flight.get() - 1);
                idle.notify_one();
            });
        }
        loop {
            match commands.recv().await {
                Some(Command::Begin { phase, start, length }) => {
                    self.gate.set(Gate::Open { phase, start, end: start + length });
                    self.gate_moved.notify_waiters();
                }
                other => {
                    self.gate.set(Gate::Over);
                    self.gate_moved.notify_waiters();
                    if !matches!(other, Some(Command::Drain)) {
                        self.end();
                    }
                    return Ok(());
                }
            }
        }
    }

    /// The same worker, for its users to share.
    fn user_view(&self) -> Self {
        Self {
            work: self.work.clone(),
            shared: Rc::clone(&self.shared),
            in_flight: Rc::clone(&self.in_flight),
            idle: Rc::clone(&self.idle),
            gate: Rc::clone(&self.gate),
            gate_moved: Rc::clone(&self.gate_moved),
        }
    }

    /// One user, who begins at a `place` among all `users`.
    async fn user(&self, place: u64, users: u32, limit: Option<u64>) {
        let mut has_begun = false;
        loop {
            let moved = self.gate_moved.notified();
            let (phase, start, end) = match self.gate.get() {
                Gate::Over => return,
                Gate::Open { phase, start, end } if Instant::now() < end => (phase, start, end),
                _ => {
                    moved.await;
                    continue;
                }
            };
            if !has_begun {
                has_begun = true;
                // All have begun within a quarter of the first phase.
                let apart = BETWEEN_USERS.min((end - start) / (4 * users.max(1)));
                let begin = start + apart.saturating_mul(u32::try_from(place).unwrap_or(u32::MAX));
                tokio::select! {
                    () = tokio::time::sleep_until(begin.into()) => {}
                    () = self.shared.wake.notified() => {}
                }
                continue;
            }
            let number = self.work.next_number.fetch_add(1, Ordering::Relaxed);
            if limit.is_some_and(|limit| number >= limit) {
                return;
            }
            // A user is ready when the last answer is there, and not before the phase is.
            let began = Instant::now().max(start);
            let record = attempt(&self.shared, self.job(number, phase, began)).await;
            let failed = record.outcome != Outcome::Ok;
            let _ = self.work.news.send(News::Request(Box::new(record)));
            let rest = LEAST_FAILURE.saturating_sub(began.elapsed());
            if failed && !rest.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(rest) => {}
                    () = self.shared.wake.notified() => {}
                }
            }
        }
    }
}

/// Measures how late the event loop is, and tells how things stand.
async fn tick(mut timer: Timer, shared: Rc<Shared>, lags: Rc<RefCell<Vec<f32>>>, news: Sender<News>) {
    let mut due = Instant::now() + TICK;
    let mut ticks = 0;
    while timer.until(due).await.is_ok() {
        let now = Instant::now();
        lags.borrow_mut().push(now.saturating_duration_since(due).as_secs_f32());
        due = now + TICK;
        ticks += 1;
        if ticks % TICKS_A_REPORT == 0 && news.send(News::Live(shared.live.take())).is_err() {
            return;
        }
    }
}
