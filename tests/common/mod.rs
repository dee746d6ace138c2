//! Starts the product as a user does: the binary, its output, its exit code.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The command `brownout` with `args`.
pub(crate) fn brownout<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brownout"));
    command.args(args);
    command
}

/// Runs to the end.
pub(crate) fn output(command: &mut Command) -> Output {
    command.output().expect("the binary starts")
}

/// What a process printed, for messages of failed tests.
pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A server in the background; ended when dropped.
pub(crate) struct Server {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    /// Its base URL.
    pub(crate) url: String,
}

impl Server {
    /// Starts `brownout ARGS` and waits until it says where it listens.
    pub(crate) fn start<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        Self::spawn(brownout(args))
    }

    /// Starts `command`, which is to become such a server.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let url = after(&mut lines, "listening on ");
        Self { child, lines, url }
    }

    /// The stand-in inference server.
    pub(crate) fn sim() -> Self {
        Self::start(["sim", "--listen", "127.0.0.1:0"])
    }

    /// The rest of the next line that begins with `prefix`.
    pub(crate) fn line(&mut self, prefix: &str) -> String {
        after(&mut self.lines, prefix)
    }

    /// Waits for a line with `words` on its standard error, which must be piped. What comes later is not read.
    pub(crate) fn complaint(&mut self, words: &str) {
        let lines = BufReader::new(self.child.stderr.take().expect("piped")).lines();
        let told = lines.map(|line| line.expect("text")).any(|line| line.contains(words));
        assert!(told, "the process ended before it said `{words}`");
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for it to end by itself.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("it was started").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn after(lines: &mut impl Iterator<Item = std::io::Result<String>>, prefix: &str) -> String {
    lines
        .map(|line| line.expect("text"))
        .find_map(|line| line.strip_prefix(prefix).map(str::to_owned))
        .unwrap_or_else(|| panic!("the process ended before it printed `{prefix}...`"))
}

/// Sends `signal` (such as `INT`) to a process.
pub(crate) fn signal(pid: u32, signal: &str) {
    let status =
        Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().expect("kill runs");
    assert!(status.success(), "no process {pid}");
}

/// A folder of its own for one test, empty, under the build's temporary folder.
pub(crate) fn folder(test: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a folder can be made");
    dir
}

/// Writes a scenario into `dir` and gives its path.
pub(crate) fn scenario(dir: &Path, spec: &str) -> PathBuf {
    let path = dir.join("scenario.yaml");
    let indented: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    let text = format!(
        "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: test}}\nspec:\n{indented}"
    );
    std::fs::write(&path, text).expect("a file can be written");
    path
}

/// The JSON lines of a file.
pub(crate) fn json_lines(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}
