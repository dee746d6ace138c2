//! Counters and histograms of the real traffic. Each worker has its own and is the only one that writes to it, so a
//! count is a load and a store; whoever reads merges them. A layer in somebody else's server is called by any number of
//! threads: its counts are atomic additions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Steps within each power of two: a bucket is at most 1/32 wider than its lower bound.
const STEPS: u64 = 32;
/// Values up to 2^36 microseconds (19 hours) have buckets of their own.
const OCTAVES: u64 = 31;
const BUCKETS: usize = (STEPS * (OCTAVES + 1)) as usize;

/// Adds to a counter that only this thread writes.
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// A histogram of durations in microseconds, log-linear.
#[derive(Debug)]
pub(crate) struct Recorder {
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }
}

fn bucket_of(micros: u64) -> usize {
    let index = if micros < STEPS {
        micros
    } else {
        let octave = u64::from(63 - micros.leading_zeros()) - u64::from(STEPS.trailing_zeros());
        STEPS * (octave + 1) + ((micros >> octave) - STEPS)
    };
    usize::try_from(index).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// The smallest value of a bucket.
fn lower_bound(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        bucket
    } else {
        let octave = bucket / STEPS - 1;
        (STEPS + bucket % STEPS) << octave
    }
}

impl Recorder {
    fn add_to(&self, histogram: &mut Histogram) {
        histogram.sum += self.sum.load(Relaxed);
        for (to, from) in histogram.buckets.iter_mut().zip(&self.buckets) {
            *to += from.load(Relaxed);
        }
    }
}

/// A histogram of durations: buckets at most 3.2 % wide, from 1 microsecond to 19 hours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], sum: 0 }
    }
}

impl Histogram {
    /// How many values it holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of all values, in microseconds.
    #[must_use]
    pub const fn sum_micros(&self) -> u64 {
        self.sum
    }

    /// The value that a share `q` (0 to 1) of all values lie at or below, to within a bucket; nothing where it is empty.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|n| {
            seen += n;
            seen >= rank
        })?;
        let (low, high) = (lower_bound(bucket), lower_bound(bucket + 1));
        Some(Duration::from_micros(low + (high - low) / 2))
    }

    /// How many values lie below `bound`, to within a bucket.
    #[must_use]
    pub fn below(&self, bound: Duration) -> u64 {
        let micros = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
        self.buckets[..bucket_of(micros)].iter().sum()
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The whole answer went to the client, with a status below 400.
    Ok,
    /// The whole answer went to the client, with status 400 to 499.
    ClientError,
    /// The whole answer went to the client, with status 500 or more.
    ServerError,
    /// The answer broke off in the middle.
    Cut,
    /// The connection was closed before any answer.
    Unanswered,
    /// The client left before the answer was complete.
    ClientLeft,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Ok, Self::ClientError, Self::ServerError, Self::Cut, Self::Unanswered, Self::ClientLeft];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ClientError => "client_error",
            Self::ServerError => "server_error",
            Self::Cut => "cut",
            Self::Unanswered => "unanswered",
            Self::ClientLeft => "client_left",
        }
    }
}

/// Who made an outcome what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The server, the network or the client.
    #[default]
    Organic,
    /// A fault that acted on the request.
    Injected,
}

impl Origin {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Organic, Self::Injected];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Organic => "organic",
            Self::Injected => "injected",
        }
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// One site's counters.
        #[derive(Debug, Default)]
        pub(crate) struct Meter {
            /// Whether more than one thread counts.
            many: bool,
            $(pub(crate) $name: AtomicU64,)*
            pub(crate) finished: [[AtomicU64; 6]; 2],
            pub(crate) failures: [AtomicU64; crate::failure::KINDS],
            pub(crate) ttft: Recorder,
            pub(crate) itl: Recorder,
        }

        /// What was counted since the start, by all workers of a proxy or by a layer.
        #[derive(Clone, Debug, Default)]
        pub struct Traffic {
            $($(#[doc = $doc])* pub $name: u64,)*
            /// Finished requests by origin and outcome, in the order of [`Origin::ALL`] and [`Outcome::ALL`].
            pub finished: [[u64; 6]; 2],
            /// The server's failures by kind, in the order of [`crate::Failure::NAMES`].
            pub failures: [u64; crate::failure::KINDS],
            /// From a request's arrival to the first event of its stream that carries a token.
            pub ttft: Histogram,
            /// Between events that carry tokens.
            pub itl: Histogram,
        }

        impl Meter {
            pub(crate) fn add_to(&self, traffic: &mut Traffic) {
                $(traffic.$name = traffic.$name.wrapping_add(self.$name.load(Relaxed));)*
                for (to, from) in traffic.finished.iter_mut().flatten().zip(self.finished.iter().flatten()) {
                    *to += from.load(Relaxed);
                }
                for (to, from) in traffic.failures.iter_mut().zip(&self.failures) {
                    *to += from.load(Relaxed);
                }
                self.ttft.add_to(&mut traffic.ttft);
                self.itl.add_to(&mut traffic.itl);
            }
        }
    };
}

counters! {
    /// Client connections accepted.
    accepted,
    /// Client connections closed at once because a worker held as many as it may.
    turned_away,
    /// Client connections open now.
    connections,
    /// Connections that speak TLS to the server: passed untouched, not covered by any fault or measurement.
    not_covered,
    /// Connections and streams that became tunnels (WebSocket and the like).
    tunnels,
    /// Requests that arrived.
    requests,
    /// Requests in flight now.
    in_flight,
    /// Event streams that began.
    streams,
    /// Event streams in flight now.
    streams_in_flight,
    /// Event streams that ended, as far as HTTP can tell, with no finish reason and no end marker.
    unfinished,
    /// Events seen in streams.
    events,
    /// Of those, events that carry tokens.
    token_events,
    /// Token events that came in one read with the token event before them: their gap is not in `itl`.
    coalesced,
    /// Errors told inside streams that began with 200.
    inband_errors,
    /// Prompt tokens, as the server's usage reports say.
    prompt_tokens,
    /// Generated tokens, as the server's usage reports say.
    output_tokens,
    /// Request bodies too large to be read; they passed unread, and rules about models did not see theirs.
    unread_bodies,
    /// Connections opened to the server.
    upstream_connections,
    /// Requests sent a second time because a kept connection turned out to be closed.
    upstream_retries,
}

impl Meter {
    /// A meter that any number of threads count in.
    pub(crate) fn of_many() -> Self {
        Self { many: true, ..Self::default() }
    }

    /// Adds to one of its counters.
    pub(crate) fn count(&self, counter: &AtomicU64, by: u64) {
        if self.many {
            counter.fetch_add(by, Relaxed);
        } else {
            bump(counter, by);
        }
    }

    /// Adds a value to one of its histograms.
    pub(crate) fn time(&self, recorder: &Recorder, value: Duration) {
        let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
        self.count(&recorder.buckets[bucket_of(micros)], 1);
        self.count(&recorder.sum, micros);
    }
}

impl Traffic {
    /// Finished requests with this origin and outcome.
    #[must_use]
    pub const fn finished(&self, origin: Origin, outcome: Outcome) -> u64 {
        self.finished[origin as usize][outcome as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_value_lies_in_its_bucket(micros in 0_u64..1 << 36) {
            let bucket = bucket_of(micros);
            prop_assert!(lower_bound(bucket) <= micros && micros < lower_bound(bucket + 1));
            let width = lower_bound(bucket + 1) - lower_bound(bucket);
            prop_assert!(width == 1 || (width * STEPS) <= lower_bound(bucket));
        }
    }

    #[test]
    fn quantiles_are_right_to_within_a_bucket() {
        for meter in [Meter::default(), Meter::of_many()] {
            for micros in 1..=10_000 {
                meter.time(&meter.itl, Duration::from_micros(micros));
            }
            meter.time(&meter.itl, Duration::MAX);
            let mut traffic = Traffic::default();
            meter.add_to(&mut traffic);
            let histogram = traffic.itl;
            assert_eq!(histogram.count(), 10_001);
            for (q, expected) in [(0.5, 5_000.0), (0.99, 9_900.0)] {
                let got = histogram.quantile(q).expect("it holds values").as_micros() as f64;
                assert!((got / expected - 1.0).abs() < 0.032, "q {q}: {got}");
            }
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn no_count_is_lost_between_threads() {
        let meter = Meter::of_many();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                // Enough that the threads meet, on one core too.
                scope.spawn(|| (0..1_000_000).for_each(|_| meter.count(&meter.requests, 1)));
            }
        });
        assert_eq!(meter.requests.load(Relaxed), 4_000_000);
    }
}
