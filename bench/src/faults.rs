//! Whether faults do what was asked: delays against the clock, shares against the binomial interval, the same seed
//! against the order in which requests happen to arrive.

use crate::client::{self, Connection};
use crate::peers::Places;
use crate::stats::{median, quantile_ms, table, three};
use crate::streams::{ITL, STREAMS};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

const TOKENS: u64 = 100;
const REQUESTS: u64 = 20_000;
const SHARE: f64 = 0.3;
/// Longer than the proxy keeps lines of its journal in memory.
const JOURNAL_ON_DISK: Duration = Duration::from_millis(600);

fn scenario(fault: &str) -> String {
    format!(
        "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: bench}}\nspec:\n  seed: 7\n  phases: \
         {{fault: 1h}}\n  faults:\n  - name: bench\n    {fault}\n"
    )
}

pub(crate) async fn measure(places: &Places, time: Duration) -> Result<Value> {
    let backend = places.own_role(places.cores.others, &["backend".into()], "backend")?;
    let delays = delays(places, backend.address, time).await?;
    let share = share(places, backend.address).await?;
    let seed = same_seed(places, backend.address).await?;
    Ok(json!({"delay": delays, "share": share, "same_seed": seed}))
}

/// Errors are against the same load through the same proxy with nothing armed, so that what backend, load and machine
/// add is not charged to the fault; and, for pace, against the pace itself.
async fn delays(places: &Places, backend: SocketAddr, time: Duration) -> Result<Value> {
    let run = async |name: &str, fault: Option<&str>| {
        let proxy = places.ours(backend, fault.map(scenario).as_deref(), name)?;
        let seen = client::streams(proxy.address, STREAMS, TOKENS, time, ITL).await;
        tokio::time::sleep(JOURNAL_ON_DISK).await;
        seen
    };
    let quiet = run("delay-none", None).await?;
    let ttft: Vec<f64> = quiet.iter().map(|stream| stream.ttft.as_secs_f64()).collect();
    let usual = median(&ttft);
    let mut noise: Vec<Duration> =
        ttft.iter().map(|ttft| Duration::from_secs_f64((ttft - usual).abs())).collect();
    let noise = (quantile_ms(&mut noise, 0.5), quantile_ms(&mut noise, 0.99));

    let mut rows =
        vec![vec!["nothing armed".into(), "0".into(), three(noise.0), three(noise.1), "".into(), "".into()]];
    let mut figures = serde_json::Map::new();
    figures.insert(
        "nothing_armed".into(),
        json!({"ttft_spread_p50_ms": noise.0, "ttft_spread_p99_ms": noise.1}),
    );
    for (kind, asked) in [("latency", 0.050), ("firstTokenDelay", 0.120)] {
        let fault = format!("{kind}: {{delay: {{constant: {}ms}}}}", asked * 1e3);
        let seen = run(kind, Some(&fault)).await?;
        let mut errors: Vec<Duration> = seen
            .iter()
            .map(|stream| Duration::from_secs_f64((stream.ttft.as_secs_f64() - usual - asked).abs()))
            .collect();
        let (p50, p99) = (quantile_ms(&mut errors, 0.5), quantile_ms(&mut errors, 0.99));
        let mut given = given_errors(places, kind)?;
        let (given_p50, given_p99) = (quantile_ms(&mut given, 0.5), quantile_ms(&mut given, 0.99));
        rows.push(vec![
            kind.into(),
            format!("{} ms", asked * 1e3),
            three(p50),
            three(p99),
            three(given_p50),
            three(given_p99),
        ]);
        figures.insert(
            kind.into(),
            json!({
                "asked_ms": asked * 1e3, "error_p50_ms": p50, "error_p99_ms": p99,
                "journal_error_p50_ms": given_p50, "journal_error_p99_ms": given_p99,
            }),
        );
    }
    let pace = Duration::from_millis(40);
    let seen = run("pace", Some("slowTokens: {tokensPerSecond: 25}")).await?;
    let mut errors: Vec<Duration> =
        seen.iter().flat_map(|stream| stream.gaps.iter().map(|gap| gap.abs_diff(pace))).collect();
    let (p50, p99) = (quantile_ms(&mut errors, 0.5), quantile_ms(&mut errors, 0.99));
    rows.push(vec!["slowTokens".into(), "25 tokens/s".into(), three(p50), three(p99), "".into(), "".into()]);
    figures
        .insert("slowTokens".into(), json!({"asked_gap_ms": 40, "error_p50_ms": p50, "error_p99_ms": p99}));
    table(
        &format!(
            "Asked against given delay, {STREAMS} streams (error in ms: as the client sees it, by the proxy's journal)"
        ),
        &["", "asked", "client p50", "client p99", "journal p50", "journal p99"],
        &rows,
    );
    Ok(figures.into())
}

/// |given - asked| of each delay, by the proxy's own journal: the client's clock has its own lateness in it.
fn given_errors(places: &Places, name: &str) -> Result<Vec<Duration>> {
    let path = places.journal(name);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut errors = Vec::new();
    // The last line may be on its way to the disk.
    for line in text.lines().filter(|line| line.ends_with('}')) {
        let entry: Value = serde_json::from_str(line)?;
        if let (Some(asked), Some(given)) = (entry["askedMs"].as_f64(), entry["givenMs"].as_f64()) {
            errors.push(Duration::from_secs_f64((given - asked).abs() / 1e3));
        }
    }
    anyhow::ensure!(!errors.is_empty(), "{} tells of no delay", path.display());
    Ok(errors)
}

/// Sends requests 0..`requests` over `connections` connections; the numbers of those that the fault hit.
async fn hit(to: SocketAddr, connections: u64, requests: u64) -> Result<BTreeSet<u64>> {
    let mut tasks = Vec::new();
    for first in 0..connections {
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(to).await?;
            let mut hit = Vec::new();
            for number in (first..requests).step_by(connections as usize) {
                let response = connection.send(client::small_body(), Some(number)).await?;
                if response.headers().contains_key("x-brownout-fault") {
                    hit.push(number);
                }
                http_body_util::BodyExt::collect(response.into_body()).await?;
            }
            anyhow::Ok(hit)
        }));
    }
    let mut all = BTreeSet::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok(all)
}

fn thirty_percent() -> String {
    scenario(&format!("httpError: {{status: 503}}\n    when: {{probability: {SHARE}}}"))
}

async fn share(places: &Places, backend: SocketAddr) -> Result<Value> {
    let proxy = places.ours(backend, Some(&thirty_percent()), "share")?;
    let fired = hit(proxy.address, 32, REQUESTS).await?.len() as f64 / REQUESTS as f64;
    // 99 % of binomial shares of so many requests lie within 2.576 standard deviations (normal approximation).
    let half = 2.576 * (SHARE * (1.0 - SHARE) / REQUESTS as f64).sqrt();
    let inside = (fired - SHARE).abs() <= half;
    println!(
        "Fired share: asked {SHARE}, fired {fired:.4} of {REQUESTS} requests; 99 % interval {:.4} to {:.4}: {}\n",
        SHARE - half,
        SHARE + half,
        if inside { "inside" } else { "OUTSIDE" }
    );
    Ok(
        json!({"asked": SHARE, "fired": fired, "requests": REQUESTS, "interval_99": [SHARE - half, SHARE + half], "inside": inside}),
    )
}

async fn same_seed(places: &Places, backend: SocketAddr) -> Result<Value> {
    let requests = 4_000;
    let mut sets = Vec::new();
    for connections in [1, 64] {
        let proxy = places.ours(backend, Some(&thirty_percent()), &format!("seed-{connections}"))?;
        sets.push(hit(proxy.address, connections, requests).await?);
    }
    let [one, many] = &sets[..] else { anyhow::bail!("two runs give two sets") };
    let differ = one.symmetric_difference(many).count();
    let first = one.first().context("no request was hit")?;
    println!(
        "Same seed, 1 and 64 connections, {requests} requests: {} and {} hit (the first is number {first}), {differ} differ\n",
        one.len(),
        many.len()
    );
    Ok(json!({"requests": requests, "hit_with_1": one.len(), "hit_with_64": many.len(), "differ": differ}))
}
