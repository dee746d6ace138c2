//! Keeps a journal: on disk line by line as it happens, and for a run's report in memory too.

use anyhow::{Context, Result, ensure};
use brownout_injector::journal::{Entry, What};
use brownout_proxy::{Journal, JournalSink};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Lines that may wait for the disk; beyond it lines are lost, and the loss is counted.
const BACKLOG: usize = 65_536;

/// How long a line may stay in memory before it is on disk: a killed process loses at most that.
const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// Where lines go on their way to the file; whoever sends them, those that find no room are counted once, here.
#[derive(Clone)]
pub(crate) struct Lines {
    sender: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

impl Lines {
    fn new(sender: SyncSender<Entry>) -> Self {
        Self { sender, lost: Arc::default() }
    }
}

impl JournalSink for Lines {
    fn offer(&self, entry: Entry) -> bool {
        let kept = self.sender.offer(entry);
        self.lost.fetch_add(u64::from(!kept), Relaxed);
        kept
    }
}

/// A journal that is being written.
pub(crate) struct JournalFile {
    journal: Journal,
    lines: Lines,
    writer: JoinHandle<(Vec<Entry>, io::Result<()>)>,
}

impl JournalFile {
    /// Begins the journal at `path`; its lines count their seconds from `begun`. `keep`: in memory too, which grows
    /// with every line, so for runs that end.
    pub(crate) fn create(path: &Path, begun: Instant, scenario: &str, seed: u64, keep: bool) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let (sender, receiver) = sync_channel(BACKLOG);
        let writer = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write(BufWriter::new(file), &receiver, keep))
            .context("cannot start the journal's thread")?;
        let lines = Lines::new(sender);
        let journal = Journal::new(begun, Box::new(lines.clone()));
        let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        journal.write(What::Begin { scenario: scenario.to_owned(), seed, time });
        Ok(Self { journal, lines, writer })
    }

    /// The end to write to.
    pub(crate) fn journal(&self) -> Journal {
        self.journal.clone()
    }

    /// Where lines of another journal can go as well.
    pub(crate) fn lines(&self) -> Lines {
        self.lines.clone()
    }

    /// Waits for the last line, and gives those kept in memory and how the disk fared. Every other clone of the
    /// journal must be gone by then.
    pub(crate) fn finish(self) -> Result<(Vec<Entry>, io::Result<()>)> {
        let lost = Arc::clone(&self.lines.lost);
        drop((self.journal, self.lines));
        let written = self.writer.join().map_err(|_| anyhow::anyhow!("the journal's thread died"))?;
        // Only now: the thread ends when nobody is left who could lose a line.
        let lost = lost.load(Relaxed);
        ensure!(lost == 0, "the journal could not keep up and lost {lost} lines: its numbers prove nothing");
        Ok(written)
    }
}

/// Takes every line, also when the disk takes no more: the first trouble with it is what is told at the end.
fn write(file: BufWriter<File>, lines: &Receiver<Entry>, keep: bool) -> (Vec<Entry>, io::Result<()>) {
    let mut kept = Vec::new();
    let mut disk = Ok(file);
    loop {
        match lines.recv_timeout(FLUSH_EVERY) {
            Ok(entry) => {
                attempt(&mut disk, |file| {
                    serde_json::to_writer(&mut *file, &entry)?;
                    file.write_all(b"\n")
                });
                if keep {
                    kept.push(entry);
                }
            }
            Err(RecvTimeoutError::Timeout) => attempt(&mut disk, Write::flush),
            Err(RecvTimeoutError::Disconnected) => {
                attempt(&mut disk, Write::flush);
                return (kept, disk.map(drop));
            }
        }
    }
}

fn attempt(
    disk: &mut io::Result<BufWriter<File>>,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) {
    if let Ok(file) = disk
        && let Err(error) = write(file)
    {
        *disk = Err(error);
    }
}

/// Tells an operator on standard error when faults are armed and when they end, and hands every line on.
pub(crate) struct Console {
    file: Option<Lines>,
}

impl Console {
    /// A console that hands its lines on to `file`.
    pub(crate) const fn new(file: Option<Lines>) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_loses_no_line_from_memory_and_is_told() {
        let begun = Instant::now();
        let journal = JournalFile::create(Path::new("/dev/full"), begun, "s", 0, true).expect("it opens");
        journal.journal().write(What::Healed { reason: "x".repeat(100_000) });
        journal.journal().write(What::Healed { reason: "last".to_owned() });
        let (kept, disk) = journal.finish().expect("no line is lost");
        assert_eq!(kept.len(), 3);
        assert_eq!(disk.expect_err("the disk is full").kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn lines_lost_on_any_way_to_the_file_are_told() {
        let (sender, receiver) = sync_channel(2);
        let lines = Lines::new(sender);
        let own = Journal::new(Instant::now(), Box::new(lines.clone()));
        let proxys = Journal::new(Instant::now(), Box::new(Console::new(Some(lines.clone()))));
        for journal in [&own, &proxys, &proxys, &own] {
            journal.write(What::Phase { name: "fault".to_owned() });
        }
        drop(proxys);
        let writer = std::thread::spawn(move || (receiver.iter().collect(), Ok(())));
        let told = JournalFile { journal: own, lines, writer }.finish().expect_err("two lines are lost");
        assert!(told.to_string().contains("lost 2 lines"), "{told}");
    }

    #[test]
    fn a_journal_without_end_stays_on_disk_alone() {
        let path = std::env::temp_dir().join(format!("brownout-journal-{}", std::process::id()));
        let journal = JournalFile::create(&path, Instant::now(), "s", 0, false).expect("it opens");
        for _ in 0..10 {
            journal.journal().write(What::Healed { reason: "ended".to_owned() });
        }
        let (kept, disk) = journal.finish().expect("no line is lost");
        assert!(kept.is_empty() && disk.is_ok());
        let text = std::fs::read_to_string(&path).expect("it is there");
        std::fs::remove_file(&path).expect("it goes away");
        assert_eq!(text.lines().count(), 11);
    }
}
