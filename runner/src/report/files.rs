//! Reports on disk: written whole or not at all, read back, made again.

use super::{REPORT_VERSION, Report, html, junit, markdown};
use crate::record::{Recording, RequestRecord};
use brownout_injector::journal::Entry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The names of the files in a run's directory.
pub const REPORT_JSON: &str = "report.json";
/// The page.
pub const REPORT_HTML: &str = "report.html";
/// The text.
pub const REPORT_MD: &str = "report.md";
/// For pipelines.
pub const JUNIT_XML: &str = "junit.xml";
/// One line a request.
pub const REQUESTS: &str = "requests.jsonl";
/// One line an event.
pub const JOURNAL: &str = "journal.jsonl";

/// Why a report could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file could not be read or written.
    #[error("{}: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why. Part of the message, so not its source as well: whoever prints a chain of causes would say it twice.
        why: io::Error,
    },
    /// The directory is not that of a run.
    #[error("{} is not a run's folder: it has no {file}", dir.display())]
    NoRun {
        /// The directory.
        dir: PathBuf,
        /// What a run's directory would hold.
        file: &'static str,
    },
    /// A file was named where the folder is wanted.
    #[error("{} is a file: give the run's folder, which holds it", path.display())]
    File {
        /// The file.
        path: PathBuf,
    },
    /// A file has not as many lines as the report was made of.
    #[error("{} is not whole, or was added to: the report was made of {expected} lines, the file has {found}", path.display())]
    Count {
        /// The file.
        path: PathBuf,
        /// As many as the report was made of.
        expected: u64,
        /// As many as there are.
        found: u64,
    },
    /// A file does not hold what it should.
    #[error("{}, line {line}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why.
        why: serde_json::Error,
    },
    /// The report is of another version.
    #[error(
        "{}: this is report version {found}, this program reads version {REPORT_VERSION}; render the run again with the program that made it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version, as far as it says.
        found: String,
    },
}

/// Writes all files of a run into `dir`, which is made where missing: the report as JSON, HTML, Markdown and JUnit, the
/// requests and the journal. Each file appears whole, in the place of an older one, or not at all.
///
/// # Errors
/// When a file cannot be written.
pub fn write_all(
    dir: &Path,
    report: &Report,
    recording: &Recording,
    journal: &[Entry],
) -> Result<(), ReportError> {
    fs::create_dir_all(dir).map_err(|why| ReportError::Io { path: dir.to_owned(), why })?;
    // The raw data first: should the disk fill up, the report can be made again from them.
    write_lines(&dir.join(JOURNAL), journal)?;
    write_lines(&dir.join(REQUESTS), &recording.requests)?;
    write_report(dir, report)
}

/// Takes what an older run left in `dir` away, and what one that was killed left half-written: however the run ends that
/// begins now, no older verdict is taken for its own. Nobody else may be writing there.
///
/// # Errors
/// When the folder cannot be read, or a file cannot be removed.
pub fn clear(dir: &Path) -> Result<(), ReportError> {
    let fail = |path: &Path, why| ReportError::Io { path: path.to_owned(), why };
    for entry in fs::read_dir(dir).map_err(|why| fail(dir, why))? {
        let path = entry.map_err(|why| fail(dir, why))?.path();
        if path.file_name().and_then(OsStr::to_str).is_some_and(is_a_runs) {
            fs::remove_file(&path).map_err(|why| fail(&path, why))?;
        }
    }
    Ok(())
}

/// Whether a file of this name is a run's: one of the six, or one of them that was never finished.
fn is_a_runs(name: &str) -> bool {
    [REPORT_JSON, REPORT_HTML, REPORT_MD, JUNIT_XML, REQUESTS, JOURNAL].iter().any(|file| {
        name.strip_prefix(file).is_some_and(|rest| {
            let id = rest.strip_prefix('.').and_then(|rest| rest.strip_suffix(".part"));
            rest.is_empty() || id.is_some_and(|id| id.parse::<u32>().is_ok())
        })
    })
}

/// Writes the report alone, in all its forms.
fn write_report(dir: &Path, report: &Report) -> Result<(), ReportError> {
    write_whole(&dir.join(REPORT_JSON), |file| file.write_all(to_json(report).as_bytes()))?;
    write_whole(&dir.join(REPORT_MD), |file| file.write_all(markdown::render(report).as_bytes()))?;
    write_whole(&dir.join(JUNIT_XML), |file| file.write_all(junit::render(report).as_bytes()))?;
    write_whole(&dir.join(REPORT_HTML), |file| file.write_all(html::render(report).as_bytes()))
}

/// `report.json` as text. Numbers have nine significant digits: more would only tell processors apart.
#[must_use]
pub fn to_json(report: &Report) -> String {
    let mut value = serde_json::to_value(report).unwrap_or_default();
    round(&mut value);
    let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text.push('\n');
    text
}

/// `value` with nine significant digits; 0 where it is no finite number.
pub(crate) fn nine_digits(value: f64) -> f64 {
    format!("{value:.8e}").parse().ok().filter(|v: &f64| v.is_finite()).unwrap_or(0.0)
}

/// Rounds every fraction in `value` to nine significant digits.
fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(number) = number.as_f64() {
                *value = nine_digits(number).into();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        _ => {}
    }
}

/// Reads the report of the run in `dir`.
///
/// # Errors
/// When the file cannot be read, is no report, or is one of another version.
pub fn read_report(dir: &Path) -> Result<Report, ReportError> {
    let path = dir.join(REPORT_JSON);
    let text = fs::read_to_string(&path).map_err(|why| cannot_read(dir, REPORT_JSON, why))?;
    let broken = |why: serde_json::Error| ReportError::Format { path: path.clone(), line: why.line(), why };
    let value: Value = serde_json::from_str(&text).map_err(broken)?;
    let found = value.get("reportVersion");
    if found.and_then(Value::as_u64) != Some(u64::from(REPORT_VERSION)) {
        let found = found.map_or_else(|| "unknown".to_owned(), Value::to_string);
        return Err(ReportError::Version { path, found });
    }
    serde_json::from_value(value).map_err(broken)
}

/// Reads the requests of the run in `dir`, whose report is `report`.
///
/// # Errors
/// When the file cannot be read, a line is no request, or there are not as many as the report was made of.
pub fn read_requests(dir: &Path, report: &Report) -> Result<Vec<RequestRecord>, ReportError> {
    read_lines(dir, REQUESTS, report.records.map(|records| records.requests))
}

/// Makes the report of the run in `dir` again from its requests and its journal, and writes it in all its forms.
///
/// # Errors
/// When a file of the run cannot be read or has not as many lines as the report was made of, or a file of the report
/// cannot be written.
pub fn render_again(dir: &Path) -> Result<Report, ReportError> {
    let old = read_report(dir)?;
    let recording = recording_of(&old, read_requests(dir, &old)?);
    let journal: Vec<Entry> = read_lines(dir, JOURNAL, old.records.map(|records| records.journal))?;
    let report = Report::build(&old.scenario, old.seed, &recording, &journal, &old.rule_counts, &old.meta);
    write_report(dir, &report)?;
    Ok(report)
}

/// The recording that `report` was made of, with its `requests`.
pub(crate) fn recording_of(report: &Report, requests: Vec<RequestRecord>) -> Recording {
    Recording {
        requests,
        phases: report.phase_spans.clone(),
        client: report.client.clone(),
        cut_short: report.cut_short.clone(),
    }
}

fn write_lines<T: Serialize>(path: &Path, items: &[T]) -> Result<(), ReportError> {
    write_whole(path, |file| {
        for item in items {
            serde_json::to_writer(&mut *file, item)?;
            file.write_all(b"\n")?;
        }
        Ok(())
    })
}

/// Why the run in `dir` cannot be read: where `file` is missing, it is no run's.
fn cannot_read(dir: &Path, file: &'static str, why: io::Error) -> ReportError {
    match why.kind() {
        _ if dir.is_file() => ReportError::File { path: dir.to_owned() },
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            ReportError::NoRun { dir: dir.to_owned(), file }
        }
        _ => ReportError::Io { path: dir.join(file), why },
    }
}

/// Reads a file of the run in `dir`, which has as many lines as `expected`, where that is known.
fn read_lines<T: DeserializeOwned>(
    dir: &Path,
    file: &'static str,
    expected: Option<u64>,
) -> Result<Vec<T>, ReportError> {
    let path = dir.join(file);
    let fail = |why: io::Error| cannot_read(dir, file, why);
    let mut items = Vec::new();
    for (i, line) in BufReader::new(fs::File::open(&path).map_err(fail)?).lines().enumerate() {
        let line = line.map_err(fail)?;
        if !line.trim().is_empty() {
            let broken = |why| ReportError::Format { path: path.clone(), line: i + 1, why };
            items.push(serde_json::from_str(&line).map_err(broken)?);
        }
    }
    let found = items.len() as u64;
    match expected {
        Some(expected) if expected != found => Err(ReportError::Count { path, expected, found }),
        _ => Ok(items),
    }
}

/// Writes a file under another name first, and gives it its own when it is whole.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>,
) -> Result<(), ReportError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let attempt = || {
        let mut file = BufWriter::new(fs::File::create(&part)?);
        write(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&part, path)
    };
    attempt().map_err(|why| {
        // Best effort: the error that matters is the first.
        let _ = fs::remove_file(&part);
        ReportError::Io { path: path.to_owned(), why }
    })
}
