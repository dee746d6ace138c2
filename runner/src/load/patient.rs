//! Opens files that may be pipes, so that one to which nobody ever writes ends in an error and not in a program that hangs.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// How long a pipe may be silent: long for a program that makes up what it writes, short for a person who waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens `path` for reading. Where it is a pipe, opening does not wait for its writer, as it otherwise does, and a read
/// fails with [`io::ErrorKind::TimedOut`] after 30 s of silence.
///
/// # Errors
/// Whatever the system says of opening it.
pub fn open_patiently(path: &Path) -> io::Result<impl Read> {
    open(path, PATIENCE)
}

fn open(path: &Path, patience: Duration) -> io::Result<Patient> {
    let pipe = std::fs::metadata(path)?.file_type().is_fifo();
    let flags = if pipe { rustix::fs::OFlags::NONBLOCK.bits() } else { 0 };
    let file = File::options().read(true).custom_flags(flags.cast_signed()).open(path)?;
    Ok(Patient { file, patience: pipe.then_some(patience) })
}

struct Patient {
    file: File,
    /// Only of a pipe.
    patience: Option<Duration>,
}

impl Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(patience) = self.patience else { return self.file.read(into) };
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        loop {
            // A pipe without a writer is at its end for `read`. For `poll` it is so only once a writer has left.
            let ready = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&patience));
            match ready.map_err(io::Error::from) {
                Ok(0) => {
                    let why = format!("nobody has written to this pipe for {} s", patience.tv_sec);
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                Ok(_) => match self.file.read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::io::Write;

    fn pipe(test: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join(test);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe can be made");
        (folder, path)
    }

    #[test]
    fn a_pipe_without_a_writer_is_an_error_in_the_end() {
        let (_folder, path) = pipe("silent");
        let mut opened = open(&path, Duration::from_millis(10)).expect("it opens at once");
        let error = opened.read(&mut [0; 8]).expect_err("nobody writes");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }

    #[test]
    fn a_writer_that_stays_silent_is_an_error_too() {
        let (_folder, path) = pipe("stuck");
        let mut opened = open(&path, Duration::from_millis(10)).expect("it opens at once");
        let mut writer = File::options().write(true).open(&path).expect("it has a reader");
        writer.write_all(b"half").expect("there is room");
        let mut text = String::new();
        let error = opened.read_to_string(&mut text).expect_err("the rest never comes");
        assert_eq!((error.kind(), text.as_str()), (io::ErrorKind::TimedOut, "half"), "{error}");
    }

    #[test]
    fn what_comes_late_and_in_pieces_is_read_whole() {
        let (_folder, path) = pipe("late");
        let mut opened = open(&path, Duration::from_secs(30)).expect("it opens at once");
        let writer = std::thread::spawn(move || {
            let mut writer = File::options().write(true).open(&path).expect("it has a reader");
            // More than a pipe holds, so that reader and writer take turns.
            for _ in 0..40 {
                writer.write_all(&[b'x'; 5_000]).expect("it is read");
            }
        });
        let mut text = String::new();
        opened.read_to_string(&mut text).expect("it ends when the writer leaves");
        writer.join().expect("it wrote all");
        assert_eq!(text.len(), 200_000);
    }
}
