//! Streams: work in order, each piece begun when the one before has ended.
//!
//! A piece of work is a step that is tried again until it says that it is done; it never blocks. Whoever waits for a stream tries its
//! steps. So that a stream also moves while nobody waits (its peers in a collective may), one thread tries what is left over; it
//! begins with the first piece of work that could not be done at once.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::error::{Error, Outcome};
use crate::root::{Root, hold};

/// The time of one stream: when its last piece of work ended.
pub(crate) struct Clock {
    pub(crate) ended: Instant,
}

/// A piece of work. It says whether it is done.
pub(crate) type Step = Box<dyn FnMut(&mut Clock) -> bool + Send>;

/// A queue of work on one device.
pub(crate) struct Stream {
    pub(crate) device: usize,
    /// Whether synchronous calls wait for it.
    pub(crate) blocking: bool,
    /// Whether it is its device's own, used where no stream is named.
    default: bool,
    queue: Mutex<Queue>,
}

struct Queue {
    work: VecDeque<Step>,
    clock: Clock,
    given: u64,
    done: u64,
    /// Whether the worker knows of it.
    listed: bool,
}

impl Queue {
    /// Does what can be done now.
    fn advance(&mut self) {
        while let Some(step) = self.work.front_mut() {
            if !step(&mut self.clock) {
                break;
            }
            self.work.pop_front();
            self.done += 1;
        }
    }
}

impl Stream {
    fn new(device: usize, blocking: bool, default: bool) -> Arc<Self> {
        let clock = Clock { ended: Instant::now() };
        let queue = Queue { work: VecDeque::new(), clock, given: 0, done: 0, listed: false };
        Arc::new(Self { device, blocking, default, queue: Mutex::new(queue) })
    }

    fn handle(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Gives the stream work, which is done at once if it can be.
    pub(crate) fn give(self: &Arc<Self>, root: &'static Root, step: Step) {
        let mut queue = hold(&self.queue);
        queue.given += 1;
        queue.work.push_back(step);
        queue.advance();
        let unlisted = !queue.work.is_empty() && !queue.listed;
        queue.listed |= unlisted;
        drop(queue);
        if unlisted {
            root.worker.take(root, Arc::clone(self));
        }
    }

    /// Whether all work is done.
    pub(crate) fn idle(&self) -> bool {
        let mut queue = hold(&self.queue);
        queue.advance();
        queue.work.is_empty()
    }

    /// Waits for the work that the stream has now.
    pub(crate) fn wait(&self) {
        let given = hold(&self.queue).given;
        let mut rest = Rest::default();
        loop {
            let mut queue = hold(&self.queue);
            let before = queue.done;
            queue.advance();
            if queue.done >= given {
                return;
            }
            if queue.done != before {
                rest = Rest::default();
            }
            drop(queue);
            rest.rest();
        }
    }
}

impl Root {
    pub(crate) fn create_stream(&self, device: usize, blocking: bool) -> *mut c_void {
        let stream = Stream::new(device, blocking, false);
        let handle = stream.handle();
        hold(&self.streams).push(stream);
        handle
    }

    /// The work that a destroyed stream still has is done all the same.
    pub(crate) fn destroy_stream(&self, handle: *mut c_void) -> Outcome {
        let mut streams = hold(&self.streams);
        let found = streams.iter().position(|stream| stream.handle() == handle && !stream.default);
        streams.swap_remove(found.ok_or(Error::INVALID_HANDLE)?);
        Ok(())
    }

    /// A stream by its handle. Null, 1 (legacy) and 2 (per thread) stand for the device's own.
    pub(crate) fn stream(&self, handle: *mut c_void, device: usize) -> Outcome<Arc<Stream>> {
        let mut streams = hold(&self.streams);
        let default = (handle as usize) <= 2;
        let found = streams.iter().find(|stream| {
            if default { stream.default && stream.device == device } else { stream.handle() == handle }
        });
        match found {
            Some(stream) => Ok(Arc::clone(stream)),
            None if default => {
                let stream = Stream::new(device, true, true);
                streams.push(Arc::clone(&stream));
                Ok(stream)
            }
            None => Err(Error::INVALID_HANDLE),
        }
    }

    /// Waits for all work of a device, or for that of its blocking streams.
    pub(crate) fn wait_for_device(&self, device: usize, only_blocking: bool) {
        let concerned =
            |stream: &&Arc<Stream>| stream.device == device && (stream.blocking || !only_blocking);
        let streams: Vec<_> = hold(&self.streams).iter().filter(concerned).map(Arc::clone).collect();
        streams.iter().for_each(|stream| stream.wait());
    }
}

/// A point in a stream's time.
pub(crate) struct Event {
    /// Nanoseconds on the monotonic clock; `NEVER` before it was recorded, `PENDING` while the stream has not come there.
    time: AtomicI64,
}

const NEVER: i64 = -1;
const PENDING: i64 = -2;

impl Event {
    pub(crate) fn handle(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub(crate) fn reached(&self) -> bool {
        self.time.load(Ordering::Acquire) != PENDING
    }

    pub(crate) fn record(self: &Arc<Self>, root: &'static Root, stream: &Arc<Stream>) {
        self.time.store(PENDING, Ordering::Release);
        let (event, given) = (Arc::clone(self), Instant::now());
        stream.give(
            root,
            Box::new(move |clock| {
                clock.ended = clock.ended.max(given);
                event.time.store(nanoseconds(clock.ended), Ordering::Release);
                true
            }),
        );
    }

    /// Milliseconds from this event to a later one.
    pub(crate) fn until(&self, later: &Self) -> Outcome<f32> {
        match (self.time.load(Ordering::Acquire), later.time.load(Ordering::Acquire)) {
            (NEVER, _) | (_, NEVER) => Err(Error::INVALID_HANDLE),
            (PENDING, _) | (_, PENDING) => Err(Error::NOT_READY),
            (from, to) => Ok((to - from) as f32 / 1e6),
        }
    }
}

/// Time since the process's first look at the clock.
fn nanoseconds(at: Instant) -> i64 {
    static ZERO: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let zero = *ZERO.get_or_init(|| at);
    let since = at.saturating_duration_since(zero).as_nanos() as i64;
    since - zero.saturating_duration_since(at).as_nanos() as i64
}

impl Root {
    pub(crate) fn create_event(&self) -> *mut c_void {
        let event = Arc::new(Event { time: AtomicI64::new(NEVER) });
        let handle = event.handle();
        hold(&self.events).push(event);
        handle
    }

    pub(crate) fn destroy_event(&self, handle: *mut c_void) -> Outcome {
        let mut events = hold(&self.events);
        let found = events.iter().position(|event| event.handle() == handle);
        events.swap_remove(found.ok_or(Error::INVALID_HANDLE)?);
        Ok(())
    }

    pub(crate) fn event(&self, handle: *mut c_void) -> Outcome<Arc<Event>> {
        let events = hold(&self.events);
        let found = events.iter().find(|event| event.handle() == handle);
        found.map(Arc::clone).ok_or(Error::INVALID_HANDLE)
    }
}

/// The thread that moves streams while nobody waits for them.
#[derive(Default)]
pub(crate) struct Worker {
    streams: Mutex<Vec<Arc<Stream>>>,
    more: Condvar,
    runs: AtomicBool,
}

impl Worker {
    fn take(&self, root: &'static Root, stream: Arc<Stream>) {
        hold(&self.streams).push(stream);
        self.more.notify_one();
        if !self.runs.swap(true, Ordering::AcqRel) {
            let work = move || root.worker.work();
            let begun = without_signals(|| std::thread::Builder::new().name("gpu".into()).spawn(work));
            // Without a thread, streams still move when waited for; the next one to come tries again.
            self.runs.store(begun.is_ok(), Ordering::Release);
        }
    }

    fn work(&self) {
        let mut rest = Rest::default();
        loop {
            let mut streams = hold(&self.streams);
            while streams.is_empty() {
                streams = self.more.wait(streams).unwrap_or_else(std::sync::PoisonError::into_inner);
                rest = Rest::default();
            }
            streams.retain(|stream| {
                let mut queue = hold(&stream.queue);
                let before = queue.done;
                queue.advance();
                if queue.done != before {
                    rest = Rest::default();
                }
                queue.listed = !queue.work.is_empty();
                queue.listed
            });
            drop(streams);
            rest.rest();
        }
    }
}

/// A library's thread must not take signals that the program waits for.
fn without_signals<T>(begin: impl FnOnce() -> T) -> T {
    // SAFETY: plain calls on sets of our own.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let begun = begin();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        begun
    }
}

/// How to wait for others without a signal from them: yield for a while, then sleep for longer and longer, at most half a
/// millisecond.
#[derive(Default)]
pub(crate) struct Rest {
    rounds: u32,
}

impl Rest {
    const YIELDS: u32 = 64;
    const SHORTEST: Duration = Duration::from_micros(16);

    /// Says whether it has slept.
    pub(crate) fn rest(&mut self) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds <= Self::YIELDS {
            std::thread::yield_now();
            return false;
        }
        let time = Self::SHORTEST * (1 << ((self.rounds - Self::YIELDS) / 8).min(5));
        let time = libc::timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        // SAFETY: a plain call. A signal that ends it early does no harm.
        unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
        true
    }
}
