//! Waiting, exactly. Tokio's timer counts whole milliseconds and rounds up twice, so that a plain sleep ends up to two
//! milliseconds late. Here the timer is asked for one millisecond less: a hold then ends within about one millisecond
//! of what was asked, before or after, and costs no second wake-up.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

const EARLY: Duration = Duration::from_millis(1);

/// An alarm that can be set again and again.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    set_for: Option<Instant>,
}

impl Alarm {
    /// Ready when `at` is reached.
    pub(crate) fn poll(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let early = at.checked_sub(EARLY).unwrap_or(at);
        if early <= Instant::now() {
            self.set_for = None;
            return Poll::Ready(());
        }
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(tokio::time::Instant::from_std(early))));
        if self.set_for.replace(at) != Some(at) {
            sleep.as_mut().reset(tokio::time::Instant::from_std(early));
        }
        sleep.as_mut().poll(cx)
    }
}

/// Waits until `at`, or until `over` is cancelled.
pub(crate) async fn hold(at: Instant, over: &CancellationToken) {
    let mut alarm = Alarm::default();
    tokio::select! {
        () = std::future::poll_fn(|cx| alarm.poll(at, cx)) => {}
        () = over.cancelled() => {}
    }
}
