//! Keeps the journal of a run: on disk line by line as it happens, and in memory for the report.

use anyhow::{Context, Result};
use brownout_injector::journal::{Entry, What};
use brownout_proxy::{Journal, JournalSink};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Lines that may wait for the disk; beyond it lines are lost, and the loss is counted.
const BACKLOG: usize = 65_536;

/// How long a line may stay in memory before it is on disk: a killed process loses at most that.
const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// A journal that is being written.
pub(crate) struct JournalFile {
    journal: Journal,
    lines: SyncSender<Entry>,
    writer: JoinHandle<std::io::Result<Vec<Entry>>>,
}

impl JournalFile {
    /// Begins the journal at `path`; its lines count their seconds from `begun`.
    pub(crate) fn create(path: &Path, begun: Instant, scenario: &str, seed: u64) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let (sender, receiver) = sync_channel(BACKLOG);
        let writer = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write(BufWriter::new(file), &receiver))
            .context("cannot start the journal's thread")?;
        let journal = Journal::new(begun, Box::new(sender.clone()));
        let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        journal.write(What::Begin { scenario: scenario.to_owned(), seed, time });
        Ok(Self { journal, lines: sender, writer })
    }

    /// The end to write to.
    pub(crate) fn journal(&self) -> Journal {
        self.journal.clone()
    }

    /// Where lines of another journal can go as well.
    pub(crate) fn lines(&self) -> SyncSender<Entry> {
        self.lines.clone()
    }

    /// Waits until all is on disk, and gives the lines. Every other clone of the journal must be gone by then.
    pub(crate) fn finish(self) -> Result<Vec<Entry>> {
        let lost = self.journal.lost();
        drop((self.journal, self.lines));
        let entries = self.writer.join().map_err(|_| anyhow::anyhow!("the journal's thread died"))?;
        anyhow::ensure!(
            lost == 0,
            "the journal could not keep up and lost {lost} lines: its numbers prove nothing"
        );
        entries.context("cannot write the journal")
    }
}

fn write(mut file: BufWriter<File>, lines: &Receiver<Entry>) -> std::io::Result<Vec<Entry>> {
    let mut kept = Vec::new();
    loop {
        match lines.recv_timeout(FLUSH_EVERY) {
            Ok(entry) => {
                serde_json::to_writer(&mut file, &entry)?;
                file.write_all(b"\n")?;
                kept.push(entry);
            }
            Err(RecvTimeoutError::Timeout) => file.flush()?,
            Err(RecvTimeoutError::Disconnected) => {
                file.flush()?;
                return Ok(kept);
            }
        }
    }
}

/// Tells an operator on standard error when faults are armed and when they end, and hands every line on.
pub(crate) struct Console {
    file: Option<SyncSender<Entry>>,
}

impl Console {
    /// A console that hands its lines on to `file`.
    pub(crate) const fn new(file: Option<SyncSender<Entry>>) -> Self {
        Self { file }
    }
}

impl JournalSink for Console {
    fn offer(&self, entry: Entry) -> bool {
        match &entry.what {
            What::Armed { fault, kind, ends_in } => {
                let ends_in = humantime::format_duration(Duration::from_secs_f64(ends_in.max(0.0).round()));
                crate::exit::note(format!("armed {fault} ({kind}), for {ends_in}"));
            }
            What::Healed { reason } => crate::exit::note(format!("healed: {reason}")),
            _ => {}
        }
        self.file.as_ref().is_none_or(|file| file.offer(entry))
    }
}
