//! Processes under measurement: each on a core of its own, its CPU time and memory read from /proc.

use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The two cores: one for what is measured, one for the backend and the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    pub(crate) subject: usize,
    pub(crate) others: usize,
}

/// The first two cores that this process may use.
pub(crate) fn cores() -> Result<Cores> {
    let status = fs::read_to_string("/proc/self/status")?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .context("no list of cores")?;
    let mut cores = Vec::new();
    for part in list.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        cores.extend(from.parse::<usize>()?..=to.parse::<usize>()?);
    }
    let [subject, others, ..] = cores[..] else {
        bail!("the benchmark needs two cores, this process has {list}")
    };
    Ok(Cores { subject, others })
}

/// Puts this process, threads to come included, on `core`.
pub(crate) fn pin_self(core: usize) -> Result<()> {
    let done = Command::new("taskset")
        .args(["-a", "-p", "-c", &core.to_string(), &std::process::id().to_string()])
        .stdout(Stdio::null())
        .status()
        .context("taskset (from util-linux) is needed")?;
    anyhow::ensure!(done.success(), "taskset could not pin this process to core {core}");
    Ok(())
}

/// A free loopback port. Another process may take it before its user does; peers that cannot report the port they
/// were given leave no better way, and a lost race shows as a failed start.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A running process that ends with this value.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts `program` on `core` and waits until `address` accepts connections.
    pub(crate) fn start(
        core: usize,
        program: &Path,
        args: &[String],
        envs: &[(&str, String)],
        address: SocketAddr,
        log: &Path,
    ) -> Result<Self> {
        let log_file = fs::File::create(log)?;
        let child = pinned(core, program)
            .args(args)
            .envs(envs.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(log_file.try_clone()?)
            .stderr(log_file)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut process = Self { child, address };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() {
            if let Some(status) = process.child.try_wait()? {
                bail!("{} ended with {status}; its log: {}", program.display(), log.display());
            }
            anyhow::ensure!(Instant::now() < deadline, "{} does not listen on {address}", program.display());
            pause();
        }
        Ok(process)
    }

    /// Starts `program` on `core`; it says where it listens in the first line of its output that holds `http://`.
    pub(crate) fn start_told(core: usize, program: &Path, args: &[String], log: &Path) -> Result<Self> {
        let mut child = pinned(core, program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(log)?)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut lines = BufReader::new(child.stdout.take().context("its output is piped")?).lines();
        for line in lines.by_ref() {
            if let Some((_, address)) = line?.split_once("listening on http://") {
                let address = address.trim().trim_end_matches('/').parse()?;
                // Whatever else it says must not fill the pipe and stop it.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(Self { child, address });
            }
        }
        let status = child.wait()?;
        bail!(
            "{} ended with {status} and never said where it listens; its log: {}",
            program.display(),
            log.display()
        )
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of the process and all its descendants so far, user and system, to the nanosecond.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        tree(self.id()).into_iter().map(cpu_of).sum()
    }

    /// Resident memory of the process and its descendants, in bytes, pages shared between them counted once.
    pub(crate) fn resident(&self) -> Result<u64> {
        let mut total = 0;
        for id in tree(self.id()) {
            let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
            let line = rollup
                .lines()
                .find_map(|line| line.strip_prefix("Pss:"))
                .context("no Pss in smaps_rollup")?;
            total += line.trim().trim_end_matches(" kB").trim().parse::<u64>()? * 1024;
        }
        Ok(total)
    }

    /// Asks it to end, then makes it.
    fn end(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.id().to_string()]).status();
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            pause();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A command that starts `program` on `core`.
pub(crate) fn pinned(core: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(core.to_string()).arg(program);
    command
}

/// Time on a CPU of all threads of one process: the first number of schedstat, in nanoseconds.
pub(crate) fn cpu_of(id: u32) -> Result<Duration> {
    let mut total = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{id}/task"))? {
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let nanos = text.split_whitespace().next().context("empty schedstat")?.parse()?;
        total += Duration::from_nanos(nanos);
    }
    Ok(total)
}

/// CPU time of one process, threads that have ended included: user and system time of /proc/PID/stat, in hundredths of a second.
pub(crate) fn whole_cpu_of(id: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The name in brackets may hold blanks; after it, user and system time are the 12th and 13th field (proc(5)).
    let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
    let ticks: Vec<u64> =
        rest.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(Duration::from_millis(10 * ticks.iter().sum::<u64>()))
}

/// The process and its descendants.
pub(crate) fn tree(id: u32) -> Vec<u32> {
    let mut all = vec![id];
    let mut next = 0;
    while next < all.len() {
        let children =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", all[next])).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        next += 1;
    }
    all
}

/// Between two looks at another process.
#[allow(
    clippy::disallowed_methods,
    reason = "another program's port and CPU time send no event that could be awaited"
)]
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}
