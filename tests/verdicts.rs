//! `brownout run` against a real process: every verdict has its exit code, its reasons, and all its files.

mod common;

use common::{Server, brownout, folder, json_lines, output, said, scenario, signal};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const LOAD: &str = "\
phases: {warmup: 200ms, baseline: 2s, fault: 2s, recovery: 1500ms}
load:
  arrival: {constant: {rate: 50}}
  prompt: {tokens: {constant: 32}}
  output: {tokens: {constant: 6}}
";

const FILES: [&str; 6] =
    ["report.json", "report.html", "report.md", "junit.xml", "journal.jsonl", "requests.jsonl"];

/// Measurements on one machine take turns: two at once would measure each other.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Run {
    dir: PathBuf,
    output: Output,
}

impl Run {
    /// Runs a scenario of `LOAD` and `rest` against a fresh stand-in server.
    fn of(test: &str, rest: &str) -> Self {
        let _turn = turn();
        let sim = Server::sim();
        let dir = folder(test);
        let file = scenario(&dir, &format!("{LOAD}{rest}"));
        let out = dir.join("out");
        let mut command = brownout(["run"]);
        // As people copy it from their client's settings.
        let target = format!("{}/v1", sim.url);
        let output = output(command.arg(file).args(["--target", &target, "--out"]).arg(&out));
        Self { dir: out, output }
    }

    fn code(&self) -> i32 {
        self.output.status.code().expect("it ended by itself")
    }

    #[track_caller]
    fn ends_with(&self, code: i32, words: &str) {
        let said = said(&self.output);
        assert_eq!(self.code(), code, "{said}");
        assert!(said.contains(words), "`{words}` is not in:\n{said}");
        for file in FILES {
            let size = std::fs::metadata(self.dir.join(file)).unwrap_or_else(|e| panic!("{file}: {e}")).len();
            assert!(size > 0, "{file} is empty");
        }
    }
}

fn journal(dir: &Path, event: &str) -> Vec<Value> {
    json_lines(&dir.join("journal.jsonl")).into_iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn a_mild_fault_passes_and_is_proven() {
    let run = Run::of(
        "pass",
        "faults: [{name: lag, latency: {delay: {constant: 30ms}}, when: {every: 2}}]\nsla: [ttft p90 < 2s, error rate < 5%]",
    );
    run.ends_with(0, "pass");
    let fired = journal(&run.dir, "fired");
    let asked = json_lines(&run.dir.join("requests.jsonl")).iter().filter(|r| r["phase"] == "fault").count();
    assert!(fired.len().abs_diff(asked / 2) <= 1, "{} of {asked} fired", fired.len());
    for line in &fired {
        let (asked, given) =
            (line["askedMs"].as_f64().expect("a number"), line["givenMs"].as_f64().expect("a number"));
        // The end of the faults cuts a wait that is under way.
        assert!(asked <= 30.0 + 1e-6 && (asked - 1.5..asked + 30.0).contains(&given), "{line}");
    }
    let whole = fired.iter().filter(|line| line["askedMs"] == 30.0).count();
    assert!(whole + 3 > fired.len(), "{whole} of {} were asked for 30 ms", fired.len());
    let report: Value =
        serde_json::from_slice(&std::fs::read(run.dir.join("report.json")).expect("a report")).expect("JSON");
    let server = report["meta"]["server"]["after"].as_object().expect("the server's own metrics");
    assert!(server.keys().any(|name| name.starts_with("vllm:generation_tokens_total")), "{server:?}");
    assert_eq!(journal(&run.dir, "armed").len(), 1);
    assert_eq!(journal(&run.dir, "healed").len(), 1);
}

#[test]
fn a_broken_sla_fails() {
    let run = Run::of(
        "broken",
        "faults: [{name: crawl, slowTokens: {delay: {constant: 60ms}}}]\nsla: [itl p90 < 1.5x baseline]",
    );
    run.ends_with(1, "itl p90 < 1.5x baseline");
}

#[test]
fn a_fault_that_never_fires_is_no_pass() {
    let run =
        Run::of("never", "faults: [{name: ghost, stall: {atToken: 500, for: 1s}}]\nsla: [error rate < 1%]");
    run.ends_with(3, "never fired");
    assert_eq!(journal(&run.dir, "fired").len(), 0);
}

#[test]
fn too_few_samples_are_no_pass() {
    let run =
        Run::of("few", "faults: [{name: lag, latency: {delay: {constant: 5ms}}}]\nsla: [ttft p99.9 < 10s]");
    run.ends_with(3, "needs at least 2,995 requests");
}

#[test]
fn a_guard_aborts_and_heals() {
    let run = Run::of(
        "guard",
        "faults: [{name: down, httpError: {status: 503}}]\nsla: [error rate < 1%]\nabort: [error rate > 50% for 500ms]",
    );
    run.ends_with(4, "error rate > 50% for 500ms");
    let healed = journal(&run.dir, "healed");
    assert_eq!(healed.len(), 1, "{healed:?}");
    assert!(healed[0]["reason"].as_str().expect("text").contains("guard"), "{healed:?}");
}

#[test]
fn ctrl_c_heals_first_and_still_reports() {
    let _turn = turn();
    let sim = Server::sim();
    let dir = folder("interrupt");
    let spec = format!("{LOAD}faults: [{{name: hole, blackhole: {{}}}}]\nsla: [ttft p90 < 60s]")
        .replace("fault: 2s", "fault: 60s");
    let file = scenario(&dir, &spec);
    let out = dir.join("out");
    let mut child = brownout(["run"])
        .arg(file)
        .args(["--target", &sim.url, "--out"])
        .arg(&out)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    // Off a terminal the display prints a line at each phase.
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    lines
        .find(|line| line.as_ref().is_ok_and(|line| line.contains("fault")))
        .expect("the fault phase")
        .expect("text");
    signal(child.id(), "INT");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(3));
    let healed = journal(&out, "healed");
    assert!(
        healed.iter().any(|line| line["reason"].as_str().is_some_and(|r| r.contains("interrupt"))),
        "{healed:?}"
    );
    for file in FILES {
        assert!(out.join(file).exists(), "{file}");
    }
}

#[test]
fn reports_are_written_when_every_request_failed() {
    let _turn = turn();
    let dir = folder("down");
    let spec = format!(
        "{LOAD}faults: [{{name: lag, latency: {{delay: {{constant: 5ms}}}}}}]\nsla: [error rate < 1%]"
    )
    .replace("load:", "load:\n  model: any");
    let file = scenario(&dir, &spec);
    let out = dir.join("out");
    // Nothing listens on the discard port.
    let output =
        output(brownout(["run"]).arg(file).args(["--target", "http://127.0.0.1:9", "--out"]).arg(&out));
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("nothing to break"), "{}", said(&output));
    for file in FILES {
        assert!(out.join(file).exists(), "{file}: {}", said(&output));
    }
    assert!(journal(&out, "armed").is_empty(), "a fault was armed where there was nothing to break");
    let outcomes: Vec<Value> =
        json_lines(&out.join("requests.jsonl")).iter().map(|r| r["outcome"].clone()).collect();
    assert!(!outcomes.is_empty() && outcomes.iter().all(|outcome| outcome != "ok"), "{outcomes:?}");
}

#[test]
fn the_same_seed_fires_on_the_same_requests_whatever_the_concurrency() {
    let fired = |concurrency: u32| {
        let _turn = turn();
        let sim = Server::sim();
        let dir = folder(&format!("seed-{concurrency}"));
        let file = scenario(
            &dir,
            &format!(
                "phases: {{fault: 60s}}\n\
                 load:\n  arrival: {{closed: {{concurrency: {concurrency}, requests: 128}}}}\n  \
                 prompt: {{tokens: {{constant: 8}}}}\n  output: {{tokens: {{constant: 1}}}}\n\
                 faults: [{{name: some, httpError: {{status: 500}}, when: {{probability: 0.3}}}}]\n\
                 sla: [error rate < 100%]"
            ),
        );
        let out = dir.join("out");
        let ran = output(brownout(["run"]).arg(file).args(["--target", &sim.url, "--out"]).arg(&out));
        let mut numbers: Vec<u64> =
            journal(&out, "fired").iter().map(|line| line["request"].as_u64().expect("a number")).collect();
        numbers.sort_unstable();
        assert!(!numbers.is_empty(), "{}", said(&ran));
        numbers
    };
    assert_eq!(fired(1), fired(64));
}

#[test]
fn the_load_alone_speaks_of_no_faults() {
    let _turn = turn();
    let sim = Server::sim();
    let dir = folder("load-alone");
    let file = scenario(&dir, &format!("{LOAD}sla: [error rate < 5%]"));
    let ran = output(brownout(["load"]).arg(file).args(["--target", &sim.url, "--out"]).arg(dir.join("out")));
    let said = said(&ran);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("test: load").count(), 1, "{said}");
    for word in ["baseline", "fault", "recovery", "degraded"] {
        assert!(!said.contains(word), "`{word}` is in:\n{said}");
    }
}

#[test]
fn a_run_that_nobody_listens_to_ends_as_any_other() {
    let _turn = turn();
    let sim = Server::sim();
    // A run without faults proves nothing.
    for (command, code) in [("run", 3), ("load", 0)] {
        let dir = folder(&format!("unheard-{command}"));
        let file = scenario(&dir, LOAD);
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        // As a terminal that is closed, or `2>&1 | head`.
        drop(reader);
        let status = brownout([command])
            .arg(file)
            .args(["--target", &sim.url, "--out"])
            .arg(dir.join("out"))
            .stdout(writer.try_clone().expect("it can be shared"))
            .stderr(writer)
            .status()
            .expect("the binary starts");
        assert_eq!(status.code(), Some(code), "{command}");
        for file in FILES {
            assert!(dir.join("out").join(file).exists(), "{command}: no {file}");
        }
    }
}

#[test]
fn a_run_for_want_of_sockets_blames_no_server() {
    let _turn = turn();
    let sim = Server::sim();
    for command in ["run", "load"] {
        let dir = folder(&format!("few-sockets-{command}"));
        let many = LOAD.replace("rate: 50", "rate: 150").replace("constant: 6", "constant: 100");
        let file = scenario(&dir, &format!("{many}sla: [error rate < 1%]\n"));
        let mut limited = std::process::Command::new("sh");
        // The hard limit too: brownout takes all that it may.
        limited.args(["-c", "ulimit -n 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_brownout"), command]);
        let output = output(limited.arg(file).args(["--target", &sim.url, "--out"]).arg(dir.join("out")));
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("the client could not make") && said.contains("no socket left"), "{said}");
        let requests = json_lines(&dir.join("out").join("requests.jsonl"));
        let outcome = |name: &str| requests.iter().filter(|request| request["outcome"] == name).count();
        assert!(outcome("client_cancelled") > 0 && outcome("ok") > 0, "{said}");
        assert_eq!(outcome("client_cancelled") + outcome("ok"), requests.len(), "{said}");
    }
}

#[test]
fn a_run_that_timeout_ends_still_reports() {
    let _turn = turn();
    let sim = Server::sim();
    let dir = folder("timeout");
    let file = scenario(&dir, LOAD);
    let out = dir.join("out");
    // It signals the command and then its whole group: one wish that comes twice.
    let mut timeout = std::process::Command::new("timeout");
    timeout.args(["3", env!("CARGO_BIN_EXE_brownout"), "run"]).arg(file);
    let output = output(timeout.args(["--target", &sim.url, "--out"]).arg(&out));
    assert_eq!(output.status.code(), Some(124), "{}", said(&output));
    for file in FILES {
        assert!(out.join(file).exists(), "no {file}: {}", said(&output));
    }
}
