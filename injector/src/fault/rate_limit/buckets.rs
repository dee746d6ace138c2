//! The buckets of a `rateLimit`, as a pure state machine on whole nanoseconds.
//!
//! Each bucket is kept as the time at which it will be full again (the generic cell rate algorithm, ITU-T I.371: a
//! bucket that refills continuously and needs no timer). A request costs time in proportion to what it takes; it is
//! admitted where the bucket would then be full again within its capacity, which is a time too. Since all is whole
//! nanoseconds, the wait that is told is exact.

use crate::effect::{Answer, AnswerBody, RetryValue};
use crate::fault::http_error::{whole_millis, whole_seconds};
use crate::wire::{Api, ProviderError};
use std::time::Duration;

/// The time that rates are counted by.
const MINUTE: f64 = 60.0;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    per_minute: f64,
    /// The time in which it fills.
    capacity: Duration,
    /// When it will be full again, in time since the plan was armed.
    full_at: Duration,
}

impl Bucket {
    fn new(per_minute: f64, capacity: Duration) -> Self {
        Self { per_minute, capacity, full_at: Duration::ZERO }
    }

    fn cost(&self, amount: u32) -> Duration {
        let seconds = f64::from(amount) / self.per_minute * MINUTE;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// When it would be full again after `amount` were taken at `now`.
    fn after(&self, now: Duration, amount: u32) -> Duration {
        self.full_at.max(now).saturating_add(self.cost(amount))
    }

    /// How long `amount` must wait; nothing where no wait is long enough.
    fn wait(&self, now: Duration, amount: u32) -> Option<Duration> {
        let allowed = now + self.capacity;
        (self.cost(amount) <= self.capacity).then(|| self.after(now, amount).saturating_sub(allowed))
    }

    /// What is in it, rounded down.
    fn remaining(&self, now: Duration) -> u64 {
        let left = self.capacity.saturating_sub(self.reset(now)).as_secs_f64();
        // What is whole but for rounding counts as whole.
        (self.per_minute * left / MINUTE + 1e-6) as u64
    }

    /// How long until it is full.
    fn reset(&self, now: Duration) -> Duration {
        self.full_at.saturating_sub(now)
    }
}

/// The buckets of one `rateLimit` rule, shared by all its requests.
#[derive(Clone, Debug)]
pub struct Buckets {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

/// A request that was not admitted. Nothing was taken for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// `requests` or `tokens`: what was missing (the longer wait of the two).
    pub what: &'static str,
    /// The wait after which the same request would be admitted, if no other took anything; nothing where it asks for
    /// more than the bucket can ever hold.
    pub retry_after: Option<Duration>,
    limit: f64,
    asked: u32,
    headers: Vec<(String, RetryValue)>,
}

impl Buckets {
    /// Full buckets, with these rates a minute, each of which holds what refills in `burst`.
    #[must_use]
    pub fn new(requests_per_minute: Option<f64>, tokens_per_minute: Option<f64>, burst: Duration) -> Self {
        let bucket = |rate: f64| Bucket::new(rate, burst);
        Self { requests: requests_per_minute.map(bucket), tokens: tokens_per_minute.map(bucket) }
    }

    /// One request that needs `tokens` comes at `now` (time since the plan was armed; a time before an earlier one
    /// counts as it is). Admitted, it gets the headers that its answer should carry.
    ///
    /// # Errors
    /// A request for which there is not enough in both buckets.
    pub fn take(&mut self, now: Duration, tokens: u32, api: Api) -> Result<Vec<(String, RetryValue)>, Refusal> {
        let asks = [("requests", self.requests, 1), ("tokens", self.tokens, tokens)];
        let mut missing: Option<(&'static str, Bucket, u32, Option<Duration>)> = None;
        for (what, bucket, amount) in asks {
            let Some(bucket) = bucket else { continue };
            let wait = bucket.wait(now, amount);
            let longest = missing.as_ref().map_or(Some(Duration::ZERO), |(_, _, _, wait)| *wait);
            // No wait at all counts as the longest.
            if wait.unwrap_or(Duration::MAX) > longest.unwrap_or(Duration::MAX) {
                missing = Some((what, bucket, amount, wait));
            }
        }
        match missing {
            Some((what, bucket, asked, retry_after)) => {
                let headers = self.headers(now, api);
                Err(Refusal { what, retry_after, limit: bucket.per_minute, asked, headers })
            }
            None => {
                for (bucket, amount) in [(&mut self.requests, 1), (&mut self.tokens, tokens)] {
                    if let Some(bucket) = bucket {
                        bucket.full_at = bucket.after(now, amount);
                    }
                }
                Ok(self.headers(now, api))
            }
        }
    }

    /// The state of the buckets in the provider's own headers: Anthropic's for its API, OpenAI's for all others.
    fn headers(&self, now: Duration, api: Api) -> Vec<(String, RetryValue)> {
        let mut headers = Vec::new();
        for (what, bucket) in [("requests", &self.requests), ("tokens", &self.tokens)] {
            let Some(bucket) = bucket else { continue };
            let limit = RetryValue::Text((bucket.per_minute as u64).to_string());
            let remaining = RetryValue::Text(bucket.remaining(now).to_string());
            let reset = bucket.reset(now);
            if api == Api::AnthropicMessages {
                headers.push((format!("anthropic-ratelimit-{what}-limit"), limit));
                headers.push((format!("anthropic-ratelimit-{what}-remaining"), remaining));
                headers.push((format!("anthropic-ratelimit-{what}-reset"), RetryValue::Rfc3339In(reset)));
            } else {
                headers.push((format!("x-ratelimit-limit-{what}"), limit));
                headers.push((format!("x-ratelimit-remaining-{what}"), remaining));
                headers.push((format!("x-ratelimit-reset-{what}"), RetryValue::Text(go_duration(reset))));
            }
        }
        headers
    }
}

impl Refusal {
    /// The answer to the request: 429 in the provider's words, with its headers and Retry-After.
    #[must_use]
    pub fn answer(&self, api: Api) -> Answer {
        let mut headers = self.headers.clone();
        let limit = self.limit as u64;
        let message = match (self.retry_after, api) {
            (Some(_), Api::AnthropicMessages) => {
                format!("This request would exceed your rate limit of {limit} {} per minute.", self.what)
            }
            (Some(wait), _) => {
                format!(
                    "Rate limit reached on {} per min: Limit {limit}, Requested {}. Please try again in {}.",
                    self.what,
                    self.asked,
                    go_duration(wait)
                )
            }
            (None, _) => format!(
                "Request too large on {} per min: Limit {limit}, Requested {}. The input or output tokens must be \
                 reduced in order to run successfully.",
                self.what, self.asked
            ),
        };
        if let Some(wait) = self.retry_after {
            headers.push(("retry-after".to_owned(), RetryValue::Text(whole_seconds(wait).to_string())));
            if api != Api::AnthropicMessages {
                let millis = RetryValue::Text(whole_millis(wait).to_string());
                headers.push(("retry-after-ms".to_owned(), millis));
            }
        }
        let code = if api == Api::AnthropicMessages { "" } else { "rate_limit_exceeded" };
        let error = ProviderError { status: 429, code: code.to_owned(), message };
        Answer { status: 429, headers, body: AnswerBody::Error(error) }
    }
}

/// A time as OpenAI writes it in `x-ratelimit-reset-*`: `6m0s`, `1.5s`, `20ms`; rounded up to whole milliseconds.
fn go_duration(time: Duration) -> String {
    let millis = whole_millis(time);
    let (hours, minutes, rest) = (millis / 3_600_000, millis / 60_000 % 60, millis % 60_000);
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let (seconds, fraction) = (rest / 1000, rest % 1000);
    let fraction = format!(".{fraction:03}");
    let seconds = format!("{seconds}{}s", fraction.trim_end_matches('0').trim_end_matches('.'));
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes}m{seconds}"),
        _ => format!("{hours}h{minutes}m{seconds}"),
    }
}
