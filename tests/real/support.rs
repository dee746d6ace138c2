//! The binary under test, and what a run leaves behind.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A program or file that `tests/real/prepare` has prepared.
pub(crate) fn prepared(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.exists());
    path.unwrap_or_else(|| {
        panic!(
            "${variable} names nothing. Tests on real input need real things; prepare them with\n\n    \
             eval \"$(tests/real/prepare llama gemma openai)\"\n"
        )
    })
}

/// Runs on a model take all cores there are: one at a time. A test that failed leaves nothing that disturbs the next.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/scenarios").join(name).with_extension("yaml")
}

/// A directory that goes away with this value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What a failed test wrote is what explains the failure.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// A process that ends with this value, whatever happens to the test.
pub(crate) struct Running {
    child: Child,
    pub(crate) url: String,
}

impl Running {
    /// Starts `command` and waits until it says `listening on http://...`.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| line.split_once("listening on ").map(|(_, url)| url.trim().to_owned()))
            .unwrap_or_else(|| {
                panic!("{command:?} ended ({:?}) and never said where it listens", child.wait())
            });
        // Whatever else it says must not fill the pipe and stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    pub(crate) fn own(child: Child, url: String) -> Self {
        Self { child, url }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn brownout() -> Command {
    Command::new(env!("CARGO_BIN_EXE_brownout"))
}

/// What `brownout run` left behind.
pub(crate) struct Run {
    pub(crate) exit: i32,
    pub(crate) report: Value,
    /// The lines of `requests.jsonl`.
    pub(crate) requests: Vec<Value>,
    /// The lines of `journal.jsonl`.
    pub(crate) journal: Vec<Value>,
}

pub(crate) fn run(scenario: &Path, target: &str, out: &Path) -> Run {
    let done = brownout()
        .arg("run")
        .arg(scenario)
        .args(["--target", target, "--out"])
        .arg(out)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let exit = done.status.code().unwrap_or_else(|| panic!("ended by a signal:\n{said}"));
    assert!(exit != 2, "`brownout run` could not run:\n{said}");
    println!("{said}");
    for file in ["report.html", "report.md", "junit.xml"] {
        let size = std::fs::metadata(out.join(file)).map_or(0, |meta| meta.len());
        assert!(size > 0, "{file} is missing or empty");
    }
    let lines = |file| std::fs::read_to_string(out.join(file)).unwrap().lines().map(json).collect();
    Run {
        exit,
        report: json(&std::fs::read_to_string(out.join("report.json")).unwrap()),
        requests: lines("requests.jsonl"),
        journal: lines("journal.jsonl"),
    }
}

impl Run {
    /// The requests of one phase.
    pub(crate) fn phase<'a>(&'a self, phase: &'a str) -> impl Iterator<Item = &'a Value> {
        self.requests
            .iter()
            .filter(move |request| request["phase"] == phase && request["outcome"] != "run_ended")
    }

    /// When the faults ended, in seconds since the run began.
    fn healed_at(&self) -> f64 {
        let spans =
            self.report["phaseSpans"].as_array().expect("the report says when phases began and ended");
        let fault = spans.iter().find(|span| span[0] == "fault").expect("there is a fault phase");
        fault[2].as_f64().expect("its end is a time")
    }

    /// The requests that a fault fired on.
    pub(crate) fn hit(&self) -> impl Iterator<Item = &Value> {
        self.requests
            .iter()
            .filter(|request| request["faults"].as_array().is_some_and(|names| !names.is_empty()))
    }

    /// The requests that a fault fired on and that ended well before the fault phase did: what lasts longer is let go then.
    pub(crate) fn faulted(&self) -> impl Iterator<Item = &Value> {
        let healed_at = self.healed_at() - 0.25;
        let whole = move |request: &&Value| request["ended"].as_f64().is_some_and(|ended| ended < healed_at);
        self.hit().filter(whole)
    }
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

pub(crate) fn number(request: &Value) -> u64 {
    request["number"].as_u64().expect("every request has a number")
}

/// The median; the caller has asked for at least `least` values.
pub(crate) fn median(what: &str, least: usize, values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    assert!(values.len() >= least, "{what}: only {} values, at least {least} are needed", values.len());
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    println!("{what}: median {median:.4} of {}", values.len());
    median
}

/// GET over plain sockets: one request, no library between the test and what the server says.
pub(crate) fn get(url: &str, path: &str) -> Option<String> {
    use std::io::Write;
    let host = url.strip_prefix("http://")?;
    let mut socket = std::net::TcpStream::connect(host).ok()?;
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).is_some_and(|status| status == "200").then(|| body.to_owned())
}
