//! Signals: the first asks for an orderly end, the second ends at once.

use anyhow::{Context, Result};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell reports for a process that Ctrl-C ended.
pub(crate) const INTERRUPTED: i32 = 130;

/// Signals this close together are one wish: `timeout` signals the command and then its whole process group.
const ONE_WISH: Duration = Duration::from_millis(500);

/// A small runtime for commands that wait for signals.
pub(crate) fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot start the runtime")
}

/// The signals that commands listen for.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// SIGINT or SIGTERM.
    Terminate,
    /// SIGHUP.
    Hangup,
}

impl Signals {
    /// Listens from now on; must be called within a runtime.
    pub(crate) fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Came {
        tokio::select! {
            _ = self.interrupt.recv() => Came::Terminate,
            _ = self.terminate.recv() => Came::Terminate,
            _ = self.hangup.recv() => Came::Hangup,
        }
    }

    /// Waits for SIGINT or SIGTERM.
    pub(crate) async fn terminate(&mut self) {
        while self.next().await != Came::Terminate {}
    }
}

/// Calls `first` when SIGINT or SIGTERM comes, and ends the process at once when another does that is no
/// echo of the first.
pub(crate) fn on_interrupt(first: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let Ok(runtime) = runtime() else { return };
            runtime.block_on(async {
                let Ok(mut signals) = Signals::new() else { return };
                signals.terminate().await;
                first();
                let asked = Instant::now();
                loop {
                    signals.terminate().await;
                    if asked.elapsed() > ONE_WISH {
                        std::process::exit(INTERRUPTED);
                    }
                }
            });
        })
        .context("cannot start the signal thread")?;
    Ok(())
}
