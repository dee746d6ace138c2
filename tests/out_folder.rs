//! The folder of a run: its alone while it goes on, and with nothing of an older run in it, however it ends.

mod common;

use common::{Server, brownout, folder, output, said, scenario};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const LOAD: &str = "
load:
  arrival: {constant: {rate: 20}}
  prompt: {tokens: {constant: 8}}
  output: {tokens: {constant: 2}}
";

fn run(sim: &Server, dir: &Path, phases: &str) -> Command {
    let file = scenario(dir, &format!("phases: {phases}{LOAD}"));
    let mut command = brownout(["run"]);
    command.arg(file).args(["--target", &sim.url, "--out"]).arg(dir.join("out"));
    command
}

/// Starts `run`, and comes back when it has begun to send.
fn begun(mut run: Command) -> (Child, impl FnOnce() -> Vec<String>) {
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut lines =
        BufReader::new(child.stderr.take().expect("piped")).lines().map(|line| line.expect("text"));
    assert!(lines.any(|line| line.contains("baseline")), "it ended before it began");
    (child, move || lines.collect())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("it is there");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("it can be listed").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

fn refused(output: &Output, words: &str) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(words) && said.trim().lines().count() == 1, "`{words}` is not all of:\n{said}");
}

#[test]
fn a_run_that_is_killed_leaves_nothing_of_an_older_one_and_no_other_writes_there_meanwhile() {
    let sim = Server::sim();
    let dir = folder("killed-run");
    let out: PathBuf = dir.join("out");
    std::fs::create_dir(&out).expect("a folder can be made");
    let of_a_run = [
        "junit.xml",
        "report.html",
        "report.html.77.part",
        "report.json",
        "report.md",
        "requests.jsonl.8.part",
    ];
    let of_others = ["notes.77.part", "report.html.bak", "report.json.part"];
    for name in of_a_run.iter().chain(&of_others) {
        std::fs::write(out.join(name), "old").expect("a file can be written");
    }

    let (mut child, _) = begun(run(&sim, &dir, "{baseline: 1h, fault: 1s}"));
    refused(&output(&mut run(&sim, &dir, "{baseline: 1s, fault: 1s}")), "another run is writing to");
    refused(&output(brownout(["report"]).arg(&out)), "a run is writing to");
    child.kill().expect("it runs");
    child.wait().expect("it was started");
    let mut left = of_others.to_vec();
    left.push("journal.jsonl");
    left.sort_unstable();
    assert_eq!(names(&out), left);
}

#[test]
fn a_verdict_is_told_where_it_cannot_be_written() {
    let sim = Server::sim();
    let dir = folder("unwritable-report");
    let (mut child, rest) = begun(run(&sim, &dir, "{baseline: 2s, fault: 500ms}"));
    let in_the_way = dir.join("out/junit.xml");
    std::fs::create_dir(&in_the_way).expect("a folder can be made");
    let said = rest().join("\n");
    assert_eq!(child.wait().expect("it was started").code(), Some(2), "{said}");
    assert!(
        said.contains("error: inconclusive: ") && said.contains(&in_the_way.display().to_string()),
        "{said}"
    );
    assert!(names(&dir.join("out")).iter().all(|name| !name.ends_with(".part")), "half a file is left");
}

#[test]
fn what_is_no_folder_is_refused_before_the_run() {
    let sim = Server::sim();
    let dir = folder("no-folder");
    std::fs::write(dir.join("out"), "mine").expect("a file can be written");
    refused(&output(&mut run(&sim, &dir, "{baseline: 1h, fault: 1s}")), "out is no folder");
    assert_eq!(std::fs::read_to_string(dir.join("out")).expect("it is there"), "mine");
}
