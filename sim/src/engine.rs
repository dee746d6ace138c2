//! The engine thread: the clock around [`Core`].
//!
//! A thread of its own, as vLLM's engine core is a process of its own beside its API server: it sleeps on its command
//! queue with a deadline, which the kernel keeps far more closely than an async timer, which rounds to a
//! millisecond. A step starts at the deadline of the step before, not when the thread woke up, so lateness does not
//! add up. An engine that fell behind by more than [`MAX_LAG`] (a stopped process, a starved machine) does not rush to
//! make it up; it goes on from now.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::answer::{Answer, AnswerSpec, Finish, Shape, Token};
use crate::config::{SimConfig, StepCost, Timing};
use crate::core::Core;
use crate::metrics::Metrics;
use crate::scheduler::SequenceId;
use crate::truth::{RequestTruth, TruthLog};
use crate::weights::Weights;

/// Lateness that is not made up for.
const MAX_LAG: Duration = Duration::from_millis(50);
/// The grid of fixed timing.
const GRID: Duration = Duration::from_micros(500);

/// A token on its way to the client.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) token: Token,
    /// Prompt tokens that the prefix cache spared.
    pub(crate) cached: u64,
}

/// A request for the engine.
struct Job {
    id: SequenceId,
    request_id: Arc<str>,
    received: Instant,
    spec: AnswerSpec,
    salt: u64,
    events: UnboundedSender<Event>,
}

enum Command {
    Submit(Box<Job>),
    Abort(SequenceId),
    Stop,
}

/// The engine as the HTTP side sees it.
#[derive(Debug)]
pub(crate) struct Engine {
    commands: Sender<Command>,
    next_id: AtomicU64,
    in_flight: Arc<AtomicUsize>,
    max_in_flight: usize,
    metrics: Arc<Mutex<Metrics>>,
    truth: Arc<Mutex<TruthLog>>,
    pub(crate) weights: Arc<Weights>,
}

/// A place in the engine: dropping it frees slot and KV blocks at once.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: SequenceId,
    commands: Sender<Command>,
    finished: bool,
    in_flight: Arc<AtomicUsize>,
}

impl Ticket {
    /// The last token was received: nothing is left to free.
    pub(crate) fn finished(&mut self) {
        self.finished = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.finished {
            // An engine that is gone has freed everything.
            let _ = self.commands.send(Command::Abort(self.id));
        }
    }
}

/// Locks even if another thread panicked while it held the lock: counters are worth reading all the same.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Starts the engine's thread.
    pub(crate) fn start(config: &SimConfig, weights: Weights) -> std::io::Result<Engine> {
        let (commands, inbox) = channel();
        let weights = Arc::new(weights);
        let blocks = config.scheduler.kv_blocks;
        let metrics = Metrics::new(&config.model_name, blocks, config.scheduler.prefix_caching);
        let metrics = Arc::new(Mutex::new(metrics));
        let truth = Arc::new(Mutex::new(TruthLog::new(config.truth_capacity)));
        let desk = Desk { live: HashMap::new(), metrics: metrics.clone(), truth: truth.clone() };
        let (timing, scheduler, seed) = (config.timing.clone(), config.scheduler.clone(), config.seed);
        let model = weights.clone();
        std::thread::Builder::new().name("sim-engine".to_owned()).spawn(move || match timing {
            Timing::Modelled(cost) => {
                Modelled { core: Core::new(scheduler, model), desk, cost, seed, steps: 0 }.run(&inbox);
            }
            Timing::Fixed { ttft, itl } => {
                let epoch = Instant::now();
                let (streams, due) = (HashMap::new(), BinaryHeap::new());
                Fixed { weights: model, desk, ttft, itl, epoch, streams, due }.run(&inbox);
            }
        })?;
        Ok(Engine {
            commands,
            next_id: AtomicU64::new(1),
            in_flight: Arc::default(),
            max_in_flight: config.max_in_flight,
            metrics,
            truth,
            weights,
        })
    }

    /// Hands a request to the engine; `None` when too many are in flight. Events stop after the one that carries a
    /// finish; the channel holds at most the answer's tokens.
    pub(crate) fn submit(
        &self,
        request_id: Arc<str>,
        received: Instant,
        spec: AnswerSpec,
        salt: u64,
    ) -> Option<(Ticket, UnboundedReceiver<Event>)> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut ticket = Ticket {
            id,
            commands: self.commands.clone(),
            finished: false,
            in_flight: self.in_flight.clone(),
        };
        if before >= self.max_in_flight {
            ticket.finished();
            return None;
        }
        let (events, receiver) = unbounded_channel();
        let job = Job { id, request_id, received, spec, salt, events };
        self.commands.send(Command::Submit(Box::new(job))).ok()?;
        Some((ticket, receiver))
    }

    pub(crate) fn metrics(&self) -> String {
        lock(&self.metrics).render()
    }

    pub(crate) fn truth(&self) -> Vec<RequestTruth> {
        lock(&self.truth).snapshot()
    }

    /// Ends the thread; what is still in flight is aborted.
    pub(crate) fn stop(&self) {
        let _ = self.commands.send(Command::Stop);
    }
}

/// The books: who waits for tokens, and what happened to them.
struct Desk {
    live: HashMap<SequenceId, Live>,
    metrics: Arc<Mutex<Metrics>>,
    truth: Arc<Mutex<TruthLog>>,
}

struct Live {
    events: UnboundedSender<Event>,
    truth: RequestTruth,
    /// An embedding: reads its prompt and generates nothing.
    pooling: bool,
}

impl Desk {
    fn open(&mut self, job: &Job, scheduled: Option<Instant>) {
        let truth = RequestTruth {
            id: job.request_id.clone(),
            received: job.received,
            scheduled,
            first_token: None,
            last_token: None,
            tokens: 0,
            prompt_tokens: job.spec.prompt.len() as u64,
            cached_tokens: 0,
            preemptions: 0,
            finish: Finish::Abort,
        };
        let pooling = job.spec.shape == Shape::Pooling;
        self.live.insert(job.id, Live { events: job.events.clone(), truth, pooling });
    }

    fn emit(&mut self, metrics: &mut Metrics, id: SequenceId, token: Token, now: Instant) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let truth = &mut live.truth;
        if !live.pooling {
            truth.tokens += 1;
            metrics.generation_tokens += 1;
        }
        match truth.last_token.replace(now) {
            Some(last) => metrics.gap(now.saturating_duration_since(last)),
            None => {
                truth.first_token = Some(now);
                metrics.first_token(truth);
            }
        }
        let (events, event) = (live.events.clone(), Event { cached: truth.cached_tokens, token });
        // Written down before it is sent: who has the whole answer finds it in the records.
        if let Some(finish) = event.token.finish {
            self.close(metrics, id, finish);
        }
        // A client that is gone drops its ticket too, and the abort follows.
        let _ = events.send(event);
    }

    fn close(&mut self, metrics: &mut Metrics, id: SequenceId, finish: Finish) {
        if let Some(mut live) = self.live.remove(&id) {
            live.truth.finish = finish;
            metrics.finished(&live.truth);
            lock(&self.truth).push(live.truth);
        }
    }

    fn close_all(&mut self) {
        let metrics = self.metrics.clone();
        let mut metrics = lock(&metrics);
        for id in self.live.keys().copied().collect::<Vec<_>>() {
            self.close(&mut metrics, id, Finish::Abort);
        }
        (metrics.running, metrics.waiting, metrics.kv_usage) = (0, 0, 0.0);
    }
}

/// What the thread does: one command or a deadline at a time.
enum Wake {
    Command(Command),
    Deadline,
    Gone,
}

fn wait(inbox: &Receiver<Command>, deadline: Option<Instant>) -> Wake {
    let Some(deadline) = deadline else {
        return inbox.recv().map_or(Wake::Gone, Wake::Command);
    };
    match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(command) => Wake::Command(command),
        Err(RecvTimeoutError::Timeout) => Wake::Deadline,
        Err(RecvTimeoutError::Disconnected) => Wake::Gone,
    }
}

/// Times from the scheduler.
struct Modelled {
    core: Core,
    desk: Desk,
    cost: StepCost,
    seed: u64,
    steps: u64,
}

impl Modelled {
    fn run(mut self, inbox: &Receiver<Command>) {
        let mut last_deadline: Option<Instant> = None;
        'steps: loop {
            if self.core.scheduler().is_idle() {
                last_deadline = None;
                match wait(inbox, None) {
                    Wake::Command(command) => {
                        if !self.obey(command) {
                            break;
                        }
                    }
                    Wake::Deadline | Wake::Gone => break,
                }
            }
            // Requests that came in together enter the same step.
            while let Ok(command) = inbox.try_recv() {
                if !self.obey(command) {
                    break 'steps;
                }
            }
            let now = Instant::now();
            let start =
                last_deadline.filter(|&last| now.saturating_duration_since(last) < MAX_LAG).unwrap_or(now);
            let step = self.core.schedule();
            if step.shares.is_empty() {
                continue;
            }
            let deadline = start + self.cost.of(&step, self.seed, self.steps);
            self.steps += 1;
            last_deadline = Some(deadline);
            self.book(&step, now);
            loop {
                match wait(inbox, Some(deadline)) {
                    Wake::Command(command) => {
                        if !self.obey(command) {
                            break 'steps;
                        }
                    }
                    Wake::Deadline => break,
                    Wake::Gone => break 'steps,
                }
            }
            let now = Instant::now();
            let Modelled { core, desk, .. } = &mut self;
            let metrics = desk.metrics.clone();
            let mut metrics = lock(&metrics);
            core.commit(&step, |id, token| desk.emit(&mut metrics, id, token, now));
            self.gauges(&mut metrics);
        }
        self.desk.close_all();
    }

    fn book(&mut self, step: &crate::scheduler::Step, now: Instant) {
        for &(id, cached) in &step.admitted {
            if let Some(live) = self.desk.live.get_mut(&id) {
                live.truth.scheduled.get_or_insert(now);
                live.truth.cached_tokens = cached as u64;
            }
        }
        for id in &step.preempted {
            if let Some(live) = self.desk.live.get_mut(id) {
                live.truth.preemptions += 1;
            }
        }
        let metrics = self.desk.metrics.clone();
        self.gauges(&mut lock(&metrics));
    }

    fn gauges(&self, metrics: &mut Metrics) {
        let scheduler = self.core.scheduler();
        metrics.running = scheduler.running();
        metrics.waiting = scheduler.waiting();
        metrics.kv_usage = scheduler.kv_usage();
        metrics.totals = scheduler.totals();
    }

    /// False when it is time to end.
    fn obey(&mut self, command: Command) -> bool {
        let metrics = self.desk.metrics.clone();
        match command {
            Command::Submit(job) => {
                self.desk.open(&job, None);
                // The HTTP side has checked the length; a prompt refused here ends the stream without a token.
                if self.core.add(job.id, job.spec, job.salt).is_err() {
                    self.desk.close(&mut lock(&metrics), job.id, Finish::Abort);
                }
            }
            Command::Abort(id) => {
                self.core.remove(id);
                self.desk.close(&mut lock(&metrics), id, Finish::Abort);
            }
            Command::Stop => return false,
        }
        self.gauges(&mut lock(&metrics));
        true
    }
}

/// Constant times.
struct Fixed {
    weights: Arc<Weights>,
    desk: Desk,
    ttft: Duration,
    itl: Duration,
    epoch: Instant,
    streams: HashMap<SequenceId, FixedStream>,
    due: BinaryHeap<Reverse<(Instant, SequenceId)>>,
}

struct FixedStream {
    answer: Answer,
    next: Instant,
}

impl Fixed {
    /// The nearest point of the grid.
    fn snap(&self, at: Instant) -> Instant {
        let since = at.saturating_duration_since(self.epoch) + GRID / 2;
        let points = since.as_nanos() / GRID.as_nanos();
        self.epoch + GRID.saturating_mul(u32::try_from(points).unwrap_or(u32::MAX))
    }

    fn run(mut self, inbox: &Receiver<Command>) {
        loop {
            let deadline = self.due.peek().map(|&Reverse((at, _))| at);
            match wait(inbox, deadline) {
                Wake::Command(Command::Submit(job)) => {
                    self.desk.open(&job, Some(job.received));
                    let first = job.received + self.ttft;
                    self.due.push(Reverse((self.snap(first), job.id)));
                    self.streams.insert(job.id, FixedStream { answer: Answer::new(job.spec), next: first });
                }
                Wake::Command(Command::Abort(id)) => {
                    self.streams.remove(&id);
                    let metrics = self.desk.metrics.clone();
                    self.desk.close(&mut lock(&metrics), id, Finish::Abort);
                }
                Wake::Command(Command::Stop) | Wake::Gone => break,
                Wake::Deadline => self.emit_due(),
            }
            lock(&self.desk.metrics).running = self.streams.len();
        }
        self.desk.close_all();
    }

    fn emit_due(&mut self) {
        let metrics = self.desk.metrics.clone();
        let mut metrics = lock(&metrics);
        let now = Instant::now();
        while let Some(&Reverse((at, id))) = self.due.peek() {
            if at > now {
                break;
            }
            self.due.pop();
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let token = stream.answer.step(&self.weights);
            // From the due time and not from now, so that lateness does not add up.
            stream.next += self.itl;
            let next = stream.next;
            if token.finish.is_some() {
                self.streams.remove(&id);
            } else {
                self.due.push(Reverse((self.snap(next), id)));
            }
            self.desk.emit(&mut metrics, id, token, now);
        }
    }
}
