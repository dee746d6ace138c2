//! The command line.

use crate::commands;
use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Chaos engineering for AI serving: break an inference server on purpose, and say what it cost.
#[derive(Debug, Parser)]
#[command(name = "brownout", version, about, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes of run and load:
  0  pass: the SLA held while the faults really fired
  1  the SLA was broken
  2  could not run, or invalid input
  3  inconclusive: a fault never fired, too few samples, a saturated client, or cut short
  4  aborted by a guard
All other commands: 0 done, 2 could not; a demo that was interrupted ends with 3.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch a stand-in server brown out and recover: five of the shipped stories, one after the other.
    Demo(DemoArgs),
    /// Run a scenario against a real server: warm-up, baseline, fault, recovery, verdict.
    Run(RunArgs),
    /// Only the load and its measurement, no faults.
    Load(RunArgs),
    /// Only the proxy, with the scenario's faults live at once.
    Proxy(ProxyArgs),
    /// Only the stand-in inference server.
    Sim(SimArgs),
    /// Check scenario files; all errors at once.
    Validate {
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// What a fault kind does, and what a run with it certifies.
    Explain {
        /// The kind, such as `slowTokens`; a list of them all where left out.
        kind: Option<String>,
    },
    /// Print the JSON Schema of scenario files.
    Schema {
        /// Print the reference as Markdown instead.
        #[arg(long)]
        reference: bool,
    },
    /// Render the reports of a run again from its records.
    Report {
        /// The folder that the run wrote.
        dir: PathBuf,
    },
    /// Two runs side by side.
    Compare {
        /// The folder of the run before.
        before: PathBuf,
        /// The folder of the run after.
        after: PathBuf,
        /// Print Markdown, for a pull request.
        #[arg(long)]
        markdown: bool,
    },
}

/// What `demo` takes.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Shorter phases: under a minute in all.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder for the reports.
    #[arg(long, default_value = "brownout-out/demo")]
    pub(crate) out: PathBuf,
}

/// What `run` and `load` take.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The scenario file.
    pub(crate) file: PathBuf,
    /// Base URL of the server, with or without `/v1` at its end, instead of the scenario's `target.url`. For `https`, the
    /// variable SSL_CERT_FILE names a file (PEM) of certificates to trust in place of the machine's.
    #[arg(long)]
    pub(crate) target: Option<String>,
    /// Folder for the reports; where left out `brownout-out/NAME`, with a number behind it if that is taken.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Seed of decisions and load, instead of the scenario's.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// What `proxy` takes.
#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:8080", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Base URL of the server behind, with or without `/v1` at its end: clients ask for `/v1/...`. For `https`, the variable
    /// SSL_CERT_FILE names a file (PEM) of certificates to trust in place of the machine's.
    #[arg(long)]
    pub(crate) upstream: String,
    /// The scenario whose faults are live; read again on SIGHUP.
    #[arg(long)]
    pub(crate) scenario: Option<PathBuf>,
    /// Address for `GET /metrics`, `/ready`, `/live` and `/plan`, and `POST /heal`; none where left out.
    #[arg(long, value_parser = address)]
    pub(crate) admin: Option<SocketAddr>,
    /// Seed of decisions, instead of the scenario's.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Worker threads; one per core where left out.
    #[arg(long)]
    pub(crate) workers: Option<usize>,
    /// Append what happens to this file as JSON lines.
    #[arg(long)]
    pub(crate) journal: Option<PathBuf>,
}

/// What `sim` takes.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:8000", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Seed of its weights and its sampling.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "it takes an IP address and a port, such as 127.0.0.1:8000")
}

/// Runs one command; the code is what the process exits with.
pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Load(args) => commands::load::run(&args),
        Command::Proxy(args) => commands::proxy::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Validate { files } => commands::validate::run(&files),
        Command::Explain { kind } => commands::explain::run(kind.as_deref()),
        Command::Schema { reference } => commands::schema::run(reference),
        Command::Report { dir } => commands::report::run(&dir),
        Command::Compare { before, after, markdown } => commands::compare::run(&before, &after, markdown),
    }
}
