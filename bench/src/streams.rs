//! 400 streams at 50 tokens a second: CPU time per event, added inter-token latency, memory per stream.

use crate::client;
use crate::peers::{Places, Subject};
use crate::stats::{median, quantile_ms, table, three};
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const STREAMS: usize = 400;
pub(crate) const ITL: Duration = Duration::from_millis(20);
const TOKENS: u64 = 100;

#[derive(Default)]
struct Figures {
    cpu_us: Vec<f64>,
    itl_p50: Vec<f64>,
    itl_p99: Vec<f64>,
    longer_p99: Vec<f64>,
    ttft_p50: Vec<f64>,
    merged: Vec<f64>,
    resident_mib: Vec<f64>,
    kib_per_stream: Vec<f64>,
}

pub(crate) async fn measure(
    places: &Places,
    proxies: &[Subject],
    rounds: usize,
    time: Duration,
) -> Result<Value> {
    let backend = places.own_role(places.cores.others, &["backend".into()], "backend")?;
    let subjects: Vec<_> = [Subject::Direct].into_iter().chain(proxies.iter().copied()).collect();
    let mut all: Vec<Figures> = subjects.iter().map(|_| Figures::default()).collect();
    for round in 0..rounds {
        for i in 0..subjects.len() {
            let at = (i + round) % subjects.len();
            one(places, subjects[at], backend.address, time, &mut all[at]).await?;
        }
    }
    let of = |wanted: Subject| subjects.iter().position(|subject| *subject == wanted).map(|i| &all[i]);
    let (envoy, direct) = (of(Subject::Envoy), of(Subject::Direct));
    let mut rows = Vec::new();
    let mut figures = serde_json::Map::new();
    for (subject, seen) in subjects.iter().zip(&all) {
        let paired = |mine: &[f64], other: Option<&Vec<f64>>, how: fn(f64, f64) -> f64| {
            other.map_or(f64::NAN, |other| {
                median(&mine.iter().zip(other).map(|(a, b)| how(*a, *b)).collect::<Vec<_>>())
            })
        };
        let ratio = paired(&seen.cpu_us, envoy.map(|envoy| &envoy.cpu_us), |a, b| a / b);
        let added_p50 = paired(&seen.itl_p50, direct.map(|direct| &direct.itl_p50), |a, b| a - b);
        let added_p99 = paired(&seen.itl_p99, direct.map(|direct| &direct.itl_p99), |a, b| a - b);
        rows.push(vec![
            subject.to_string(),
            three(ratio),
            three(median(&seen.cpu_us)),
            three(median(&seen.itl_p50)),
            three(median(&seen.itl_p99)),
            format!("{added_p50:+.2}"),
            format!("{added_p99:+.2}"),
            three(median(&seen.longer_p99)),
            three(median(&seen.ttft_p50)),
            three(100.0 * median(&seen.merged)),
            three(median(&seen.resident_mib)),
            three(median(&seen.kib_per_stream)),
        ]);
        figures.insert(
            subject.key().into(),
            json!({
                "cpu_us_per_event": seen.cpu_us, "ratio_to_envoy": ratio,
                "itl_p50_ms": seen.itl_p50, "itl_p99_ms": seen.itl_p99,
                "longer_than_sent_p99_ms": seen.longer_p99,
                "added_itl_p50_ms": added_p50, "added_itl_p99_ms": added_p99,
                "ttft_p50_ms": seen.ttft_p50, "share_of_events_merged": seen.merged,
                "resident_mib": seen.resident_mib, "kib_per_stream": seen.kib_per_stream,
            }),
        );
    }
    table(
        &format!("Streams: {STREAMS} at a time, a token each {} ms (ITL and TTFT in ms)", ITL.as_millis()),
        &[
            "",
            "CPU, Envoy = 1",
            "us an event",
            "ITL p50",
            "ITL p99",
            "added p50",
            "added p99",
            "longer p99",
            "TTFT p50",
            "merged %",
            "MiB resident",
            "KiB a stream",
        ],
        &rows,
    );
    if let (Some(ours), Some(nginx)) = (of(Subject::Ours), of(Subject::Nginx)) {
        let mut more: Vec<f64> = ours.itl_p99.iter().zip(&nginx.itl_p99).map(|(a, b)| a - b).collect();
        more.sort_by(f64::total_cmp);
        println!(
            "ITL p99, brownout less nginx, round by round: median {:+.2} ms, from {:+.2} to {:+.2}\n",
            median(&more),
            more.first().unwrap_or(&f64::NAN),
            more.last().unwrap_or(&f64::NAN)
        );
    }
    Ok(figures.into())
}

async fn one(
    places: &Places,
    subject: Subject,
    backend: std::net::SocketAddr,
    time: Duration,
    figures: &mut Figures,
) -> Result<()> {
    // A fresh process each time: what a stream costs in memory shows only on a heap that has not grown yet.
    let process = places.start(subject, backend)?;
    let to = process.as_ref().map_or(backend, |process| process.address);
    for _ in 0..20 {
        client::requests(to, 1, Duration::from_millis(5)).await?;
    }
    let idle = process
        .as_ref()
        .map(|process| Ok::<_, anyhow::Error>((process.cpu()?, process.resident()?)))
        .transpose()?;
    let load = tokio::spawn(client::streams(to, STREAMS, TOKENS, time, ITL));
    // All have begun by now, and none has ended for good.
    tokio::time::sleep(ITL.mul_f64(TOKENS as f64) + time / 4).await;
    let busy = process.as_ref().map(crate::process::Process::resident).transpose()?;
    let seen = load.await??;
    if let (Some(process), Some((cpu, resident)), Some(busy)) = (&process, idle, busy) {
        let events: u64 = seen.iter().map(|stream| stream.events).sum();
        figures.cpu_us.push((process.cpu()? - cpu).as_secs_f64() * 1e6 / events as f64);
        figures.resident_mib.push(busy as f64 / 1048576.0);
        figures.kib_per_stream.push(busy.saturating_sub(resident) as f64 / 1024.0 / STREAMS as f64);
    }
    anyhow::ensure!(
        seen.iter().all(|stream| stream.events == TOKENS + 2),
        "{subject} lost events: not every stream had {} of them",
        TOKENS + 2
    );
    let mut gaps: Vec<_> = seen.iter().flat_map(|stream| stream.gaps.iter().copied()).collect();
    let merged = gaps.iter().filter(|gap| gap.is_zero()).count() as f64 / gaps.len() as f64;
    let mut ttft: Vec<_> = seen.iter().map(|stream| stream.ttft).collect();
    figures.merged.push(merged);
    figures.itl_p50.push(quantile_ms(&mut gaps, 0.5));
    figures.itl_p99.push(quantile_ms(&mut gaps, 0.99));
    let mut longer: Vec<_> = seen.iter().flat_map(|stream| stream.longer.iter().copied()).collect();
    figures.longer_p99.push(quantile_ms(&mut longer, 0.99));
    figures.ttft_p50.push(quantile_ms(&mut ttft, 0.5));
    Ok(())
}
