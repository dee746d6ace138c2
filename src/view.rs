//! The live display: one line that says how the run stands, or now and then a plain line where no one watches.

use crate::experiment::Watch;
use brownout_runner::load::Progress;
use brownout_runner::report::Mode;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

/// How the display is drawn: position and length are milliseconds of all phases together.
const TEMPLATE: &str = "{prefix:14} {bar:24} {msg}";

/// A live display of one run on standard error.
pub(crate) struct View {
    bar: ProgressBar,
    interactive: bool,
    name: String,
    mode: Mode,
    phase: &'static str,
}

impl View {
    /// A display for the run called `name`.
    pub(crate) fn new(name: &str, mode: Mode) -> Self {
        let interactive = std::io::stderr().is_terminal();
        let target = if interactive { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1), target).with_prefix(name.to_owned());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self { bar, interactive, name: name.to_owned(), mode, phase: "" }
    }
}

impl Watch for View {
    fn progress(&mut self, progress: &Progress) {
        let phase = progress.phase.map_or("last answers", |phase| self.mode.phase_name(phase));
        self.bar.set_length(millis(progress.total).max(1));
        self.bar.set_position(millis(progress.elapsed.min(progress.total)));
        self.bar.set_message(line(phase, progress));
        if !self.interactive && self.phase != phase {
            crate::exit::note(format_args!("{}: {phase}", self.name));
            self.phase = phase;
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn line(phase: &str, progress: &Progress) -> String {
    let mut line = format!("{phase:9} {:4} ok", progress.ok);
    let failed: u64 = progress.failed.values().sum();
    if failed > 0 {
        let _ = write!(line, " {failed} failed");
    }
    let _ = write!(line, " · {} in flight", progress.in_flight);
    for (name, seconds) in
        [("TTFT p50", progress.ttft_p50), ("p99", progress.ttft_p99), ("ITL p50", progress.itl_p50)]
    {
        if let Some(seconds) = seconds {
            let _ = write!(line, " · {name} {:.0} ms", seconds * 1e3);
        }
    }
    let _ = write!(line, " · {:.0} tok/s", progress.tokens_per_second);
    line
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
