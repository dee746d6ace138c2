//! Pass-through of small JSON: CPU time per request.

use crate::client;
use crate::peers::{Places, Subject};
use crate::stats::{median, table, three};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::time::Duration;

const CONNECTIONS: usize = 32;

pub(crate) async fn measure(
    places: &Places,
    subjects: &[Subject],
    rounds: usize,
    time: Duration,
) -> Result<Value> {
    let backend = places.own_role(places.cores.others, &["backend".into()], "backend")?;
    let mut proxies = Vec::new();
    for subject in subjects {
        let process = places.start(*subject, backend.address)?.context("every proxy has a process")?;
        proxies.push((*subject, process, Vec::new(), Vec::new()));
    }
    for (_, process, ..) in &proxies {
        client::requests(process.address, CONNECTIONS, Duration::from_millis(500)).await?;
    }
    for round in 0..rounds {
        // Each round begins with another one: what drifts over time hits all alike.
        for i in 0..proxies.len() {
            let at = (i + round) % proxies.len();
            let (_, process, cpu, rate) = &mut proxies[at];
            let before = process.cpu()?;
            let requests = client::requests(process.address, CONNECTIONS, time).await? as f64;
            cpu.push((process.cpu()? - before).as_secs_f64() * 1e6 / requests);
            rate.push(requests / time.as_secs_f64());
        }
    }
    let envoy =
        proxies.iter().find(|(subject, ..)| *subject == Subject::Envoy).map(|(_, _, cpu, _)| cpu.clone());
    let ratio = |cpu: &[f64]| {
        envoy
            .as_ref()
            .map_or(f64::NAN, |envoy| median(&cpu.iter().zip(envoy).map(|(a, b)| a / b).collect::<Vec<_>>()))
    };
    let mut rows = Vec::new();
    let mut figures = serde_json::Map::new();
    for (subject, process, cpu, rate) in &proxies {
        let resident = process.resident()? as f64 / 1048576.0;
        rows.push(vec![
            subject.to_string(),
            three(ratio(cpu)),
            three(median(cpu)),
            format!("{:.0}", median(rate)),
            three(resident),
        ]);
        figures.insert(
            subject.key().into(),
            json!({"cpu_us_per_request": cpu, "ratio_to_envoy": ratio(cpu), "requests_per_s": rate, "resident_mib": resident}),
        );
    }
    table(
        &format!("Pass-through: small JSON, {CONNECTIONS} keep-alive connections"),
        &["", "CPU, Envoy = 1", "us a request", "requests/s", "MiB resident"],
        &rows,
    );
    Ok(figures.into())
}
