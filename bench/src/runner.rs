//! The load runner alone: what it reads of a server whose truth is known, and what an event costs it.

use crate::peers::{Places, words};
use crate::process::{pause, pinned, tree, whole_cpu_of};
use crate::stats::{median, table, three};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const STREAMS: u32 = 400;
const TOKENS: u32 = 200;
const TRUTH_MS: f64 = 20.0;

struct Ran {
    cpu: Duration,
    wall: Duration,
}

/// Runs a command to its end, and adds up its CPU time and that of its descendants by looking every 20 ms.
fn run(mut command: Command, log: &Path) -> Result<Ran> {
    let file = std::fs::File::create(log)?;
    let begin = std::time::Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
    let mut seen = std::collections::HashMap::new();
    let status = loop {
        for id in tree(child.id()) {
            // A process that has just ended reads as nothing; what it had used before stands.
            if let Ok(cpu) = whole_cpu_of(id) {
                let most = seen.entry(id).or_insert(Duration::ZERO);
                *most = cpu.max(*most);
            }
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        anyhow::ensure!(
            begin.elapsed() < Duration::from_secs(300),
            "no end after 300 s; its log: {}",
            log.display()
        );
        pause();
    };
    // 3 is "inconclusive": what `brownout load` rightly says of itself when it is saturated, which one part here wants.
    anyhow::ensure!(matches!(status.code(), Some(0 | 3)), "ended with {status}; its log: {}", log.display());
    Ok(Ran { cpu: seen.values().sum(), wall: begin.elapsed() })
}

fn ours(places: &Places, server: SocketAddr, name: &str, seconds: u32) -> Result<(Ran, f64, u64, f64)> {
    let yaml = format!(
        "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: {name}}}\nspec:\n  phases: {{warmup: 2s, \
         baseline: {seconds}s, fault: 1ms}}\n  load:\n    model: bench\n    arrival: {{closed: {{concurrency: {STREAMS}}}}}\n    \
         prompt: {{tokens: {{constant: 16}}}}\n    output: {{tokens: {{constant: {TOKENS}}}}}\n"
    );
    let file = places.write(&format!("{name}.yaml"), &yaml)?;
    let out = places.scratch.join(name);
    let mut command = pinned(places.cores.subject, &places.brownout);
    command.arg("load").arg(file).args(["--target", &format!("http://{server}"), "--out"]).arg(&out);
    let ran = run(command, &places.log(name))?;
    let (mut ttft, mut events) = (Vec::new(), 0);
    for line in std::fs::read_to_string(out.join("requests.jsonl")).context("reading requests.jsonl")?.lines()
    {
        let request: Value = serde_json::from_str(line)?;
        events += request["chunks"].as_u64().unwrap_or(0);
        if request["phase"] == "baseline" {
            ttft.extend(request["ttft"].as_f64());
        }
    }
    anyhow::ensure!(!ttft.is_empty(), "no request of the baseline has a first token; {}", out.display());
    let per_event = ran.cpu.as_secs_f64() * 1e6 / events as f64;
    Ok((ran, median(&ttft) * 1e3, events, per_event))
}

fn peer(
    places: &Places,
    name: &str,
    program: &Path,
    args: &str,
    ttft_ms: impl Fn(&Path) -> Result<f64>,
) -> Result<(Ran, f64)> {
    let out = places.scratch.join(name);
    // A report of an earlier run must not be read as this one's.
    if out.exists() {
        std::fs::remove_dir_all(&out)?;
    }
    std::fs::create_dir_all(&out)?;
    let mut command = pinned(places.cores.subject, program);
    command.args(words(args)).current_dir(&out);
    let ran = run(command, &places.log(name))?;
    Ok((ran, ttft_ms(&out)?))
}

pub(crate) fn measure(places: &Places) -> Result<Value> {
    let core = places.cores.others;
    let paced = places.own_role(core, &["backend".into()], "backend")?;
    let (ran, ttft, events, per_event) = ours(places, paced.address, "runner-paced", 12)?;
    let mut rows = vec![vec![
        "brownout load".into(),
        three(ttft),
        format!("{:+.0} %", 100.0 * (ttft / TRUTH_MS - 1.0)),
        three(100.0 * ran.cpu.as_secs_f64() / ran.wall.as_secs_f64()),
        three(per_event),
    ]];
    let mut figures = json!({"brownout": {"ttft_p50_ms": ttft, "truth_ms": TRUTH_MS, "events": events,
        "cpu_s": ran.cpu.as_secs_f64(), "wall_s": ran.wall.as_secs_f64(), "cpu_us_per_event": per_event}});

    let fast = places.own_role(core, &words("backend --ttft-ms 0 --itl-ms 0"), "backend-fast")?;
    let (_, _, events, per_event) = ours(places, fast.address, "runner-saturated", 6)?;
    println!(
        "Runner at saturation: {events} events, {:.2} us of CPU each: {:.0} events/s a core\n",
        per_event,
        1e6 / per_event
    );
    figures["brownout_saturated"] =
        json!({"events": events, "cpu_us_per_event": per_event, "events_per_s_a_core": 1e6 / per_event});

    for (name, variable) in [("aiperf", "AIPERF"), ("guidellm", "GUIDELLM")] {
        let Some(program) = std::env::var_os(variable) else {
            println!("{name}: not run, ${variable} is not set (tests/real/prepare clients)\n");
            continue;
        };
        let url = format!("http://{}", paced.address);
        let tokenizer =
            std::env::var("TOKENIZER").context("$TOKENIZER is not set (tests/real/prepare clients)")?;
        let requests = STREAMS * 4;
        let result = if name == "aiperf" {
            let args = format!(
                "profile --model bench --url {url} --endpoint-type chat --streaming --concurrency {STREAMS} \
                 --request-count {requests} --synthetic-input-tokens-mean 16 --output-tokens-mean {TOKENS} \
                 --tokenizer {tokenizer} --ui simple --artifact-dir ."
            );
            peer(places, name, Path::new(&program), &args, aiperf_ttft)
        } else {
            let args = format!(
                "run --backend kind=openai_http,target={url},model=bench --profile kind=concurrent,streams={STREAMS} \
                 --constraint kind=max_requests,count={requests} --tokenizer kind=hf_auto,model={tokenizer} \
                 --data kind=synthetic_text,prompt_tokens=16,output_tokens={TOKENS} --output kind=json,path=benchmark.json \
                 --disable-console-interactive"
            );
            peer(places, name, Path::new(&program), &args, guidellm_ttft)
        };
        match result {
            Ok((ran, ttft)) => {
                let events = f64::from(requests * (TOKENS + 1));
                let per_event = ran.cpu.as_secs_f64() * 1e6 / events;
                rows.push(vec![
                    name.into(),
                    three(ttft),
                    format!("{:+.0} %", 100.0 * (ttft / TRUTH_MS - 1.0)),
                    three(100.0 * ran.cpu.as_secs_f64() / ran.wall.as_secs_f64()),
                    three(per_event),
                ]);
                figures[name] = json!({"ttft_p50_ms": ttft, "cpu_s": ran.cpu.as_secs_f64(), "wall_s": ran.wall.as_secs_f64()});
            }
            Err(error) => println!("{name}: no figure: {error:#}\n"),
        }
    }
    table(
        &format!(
            "Load runners: {STREAMS} streams at 50 tokens/s on one core; the server's TTFT is {TRUTH_MS} ms"
        ),
        &["", "TTFT p50 ms", "off by", "CPU % of a core", "us an event"],
        &rows,
    );
    Ok(figures)
}

fn aiperf_ttft(out: &Path) -> Result<f64> {
    let report = std::fs::read_to_string(out.join("profile_export_aiperf.json"))?;
    let report: Value = serde_json::from_str(&report)?;
    report["time_to_first_token"]["p50"].as_f64().context("no time_to_first_token.p50 in aiperf's report")
}

fn guidellm_ttft(out: &Path) -> Result<f64> {
    let report: Value = serde_json::from_str(&std::fs::read_to_string(out.join("benchmark.json"))?)?;
    report["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]["median"]
        .as_f64()
        .context("no median time_to_first_token_ms in guidellm's report")
}
