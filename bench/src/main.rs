//! The benchmark: `brownout proxy` beside Envoy, HAProxy, nginx and a bare hyper proxy, and `brownout load` beside its
//! own peers, in front of one backend. What is measured has a core of its own; backend and load share a second one.
//! Figures are ratios within one run, in alternating rounds: absolute ones belong to the machine.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark's table is its output")]

mod backend;
mod bare;
mod client;
mod faults;
mod pass;
mod peers;
mod process;
mod runner;
mod stats;
mod streams;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use peers::Places;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;

#[derive(Parser)]
#[command(about, version)]
struct Args {
    #[command(subcommand)]
    role: Option<Role>,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Rounds of each part that alternates.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of load for each proxy and round.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Where the figures go, as JSON.
    #[arg(long, default_value = "out/bench.json")]
    out: PathBuf,
    /// The brownout binary; the one built beside this program where left out.
    #[arg(long)]
    brownout: Option<PathBuf>,
    /// Leave out what is in front of this: `envoy`, `haproxy`, `nginx`, `bare`, `ours`.
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Small JSON over 32 keep-alive connections.
    Pass,
    /// 400 streams.
    Streams,
    /// Asked against given delay, fired shares, the same seed.
    Faults,
    /// The load runner alone.
    Runner,
}

#[derive(Subcommand)]
enum Role {
    /// The server behind the proxies (the benchmark starts it itself).
    Backend {
        /// Milliseconds to the first token.
        #[arg(long, default_value_t = 20)]
        ttft_ms: u64,
        /// Milliseconds between tokens; 0 for as fast as it goes.
        #[arg(long, default_value_t = 20)]
        itl_ms: u64,
    },
    /// The bare hyper proxy (the benchmark starts it itself).
    Bare {
        /// The server behind it.
        #[arg(long)]
        upstream: SocketAddr,
    },
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args.role {
        Some(Role::Backend { ttft_ms, itl_ms }) => runtime.block_on(async {
            let pace =
                backend::Pace { ttft: Duration::from_millis(ttft_ms), itl: Duration::from_millis(itl_ms) };
            backend::serve(listen().await?, pace).await
        }),
        Some(Role::Bare { upstream }) => {
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async { bare::serve(listen().await?, upstream).await })
        }
        None => runtime.block_on(bench(args)),
    }
}

async fn listen() -> Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(listener)
}

async fn bench(args: Args) -> Result<()> {
    let cores = process::cores()?;
    process::pin_self(cores.others)?;
    let scratch = args.out.parent().unwrap_or(std::path::Path::new(".")).join("bench-files");
    std::fs::create_dir_all(&scratch).with_context(|| format!("creating {}", scratch.display()))?;
    let scratch = scratch.canonicalize()?;
    let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name("brownout"));
    let brownout = args.brownout.clone().map_or_else(beside, Ok)?;
    let places = Places { cores, scratch, brownout };
    let subjects: Vec<_> = peers::Subject::PROXIES
        .into_iter()
        .filter(|subject| !args.without.iter().any(|name| subject.key() == name))
        .collect();
    println!(
        "What is measured runs on core {}, backend and load share core {}. {} rounds; medians; ratios within a round.\n",
        cores.subject, cores.others, args.rounds
    );

    let wanted = |part| args.only.is_empty() || args.only.contains(&part);
    let seconds = Duration::from_secs(args.seconds);
    let mut figures = serde_json::Map::new();
    if wanted(Part::Pass) {
        figures.insert("pass".into(), pass::measure(&places, &subjects, args.rounds, seconds).await?);
    }
    if wanted(Part::Streams) {
        figures.insert("streams".into(), streams::measure(&places, &subjects, args.rounds, seconds).await?);
    }
    if wanted(Part::Faults) {
        figures.insert("faults".into(), faults::measure(&places, seconds).await?);
    }
    if wanted(Part::Runner) {
        figures.insert("runner".into(), runner::measure(&places)?);
    }
    std::fs::write(&args.out, serde_json::to_string_pretty(&figures)?)?;
    println!("Figures: {}", args.out.display());
    Ok(())
}
