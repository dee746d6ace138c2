//! Files that are wrong, and what the loader says of each: the place, and words that help.

use brownout_injector::load::{Outside, Remark, Severity};
use brownout_injector::{load, load_with};

const GOOD: &str = include_str!("good.yaml");

/// The good file with one piece of it replaced.
fn with(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "the good file has no `{old}`");
    GOOD.replacen(old, new, 1)
}

#[test]
fn the_good_file_is_good_in_every_spelling() {
    let scenario = load("good.yaml", GOOD).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(scenario.spec.faults.len(), 2);
    let windows = format!("\u{feff}{}", GOOD.replace('\n', "\r\n"));
    assert_eq!(load("windows.yaml", &windows).as_ref(), Ok(&scenario));
    let json = serde_json::to_string_pretty(&scenario).expect("a scenario can be written");
    assert_eq!(load("good.json", &json).as_ref(), Ok(&scenario));
    let aliased =
        GOOD.replace("baseline: 60s", "baseline: &minute 60s").replace("recovery: 60s", "recovery: *minute");
    assert_eq!(load("aliased.yaml", &aliased).as_ref(), Ok(&scenario));
}

/// One row: what is replaced by what in the good file, the place of the error, and words that its message, label or
/// help must have.
type Row = (&'static str, &'static str, usize, usize, &'static [&'static str]);

const ROWS: &[Row] = &[
    // Fields.
    ("owner: a", "ownr: a", 6, 3, &["unknown field `ownr`", "did you mean `owner`"]),
    ("slowTokens:", "slowToken:", 16, 7, &["fault kind `slowToken`", "did you mean `slowTokens`"]),
    ("when: {probability: 0.5", "probability: 0.5\n      when: {every: 2", 17, 7, &["belongs under `when`"]),
    (
        "stall: {atToken: 3, for: 2s}",
        "stall:\n      atToken: 3\n      for: 2s",
        19,
        7,
        &["`spec.faults[1].stall` has no value"],
    ),
    (
        "  phases: {warmup: 5s, baseline: 60s, fault: 120s",
        "  phases: {baseline: 60s",
        12,
        3,
        &["lacks `fault`"],
    ),
    ("name: second", "label: second", 18, 7, &["lacks `name`"]),
    ("poisson: {rate", "poison: {rate", 22, 15, &["did you mean `poisson`"]),
    ("stall: {atToken: 3, for: 2s}", "stall: {atToken: 3}", 19, 7, &["lacks `for`", "How long"]),
    ("api: openai-chat", "<<: {a: 1}", 21, 5, &["merge keys"]),
    // One-of keys.
    ("stall: {atToken: 3, for: 2s}", "{}", 20, 3, &["no YAML", "lacks its `:`"]),
    (
        "stall: {atToken: 3, for: 2s}",
        "stall: {atToken: 3, for: 2s}\n      latency: {delay: {constant: 1s}}",
        20,
        7,
        &["exactly one kind", "found `stall` and `latency`"],
    ),
    ("      stall: {atToken: 3, for: 2s}\n", "", 18, 7, &["exactly one kind", "found none", "`stall`"]),
    (
        "{constant: 20ms}",
        "{constant: 20ms, normal: {mean: 1s, stddev: 1s}}",
        16,
        44,
        &["found `constant` and `normal`"],
    ),
    ("{constant: 20ms}", "20ms", 16, 27, &["distribution", "`delay: {constant: 20ms}`"]),
    ("{constant: 20ms}", "200", 16, 27, &["distribution", "`delay: {constant: 200ms}`"]),
    ("mode: {percent: 50}", "mode: percent", 11, 11, &["needs a number", "write `mode: {percent: 50}`"]),
    ("mode: {percent: 50}", "mode: some", 11, 11, &["cannot be `some`", "`one`, `all`"]),
    ("mode: {percent: 50}", "mode: {percent: 0}", 11, 21, &["too small", "from 1 to 100"]),
    ("mode: {percent: 50}", "mode: [one]", 11, 5, &["cannot be a list", "`percent: ...`"]),
    // Types and ranges.
    ("seed: 7", "seed: seven", 13, 9, &["text", "a number is wanted"]),
    ("seed: 7", "seed: \"7\"", 13, 9, &["without quotes"]),
    ("seed: 7", "seed: 7.5", 13, 9, &["whole number"]),
    ("seed: 7", "seed: -7", 13, 9, &["too small", "at least 0"]),
    ("seed: 7", "seed: 99999999999999999999", 13, 9, &["from 0 to 18446744073709551615"]),
    ("seed: 7", "seed:", 13, 3, &["no value"]),
    ("owner: a", "owner: 12", 6, 10, &["in quotes: \"12\""]),
    ("stream: true", "stream: yes", 25, 13, &["write `true`"]),
    ("probability: 0.5", "probability: 50%", 17, 27, &["write 0.5 for 50%"]),
    ("probability: 0.5", "probability: 1.5", 17, 27, &["too large", "from 0 to 1"]),
    ("probability: 0.5", "probability: 40", 17, 27, &["too large", "write 0.4 for 40 %"]),
    ("poisson: {rate: 20}", "rate: 20", 22, 15, &["one of `constant`, `poisson`, `gamma`"]),
    ("{atToken: 3, for: 2s}", "{for: 2s}", 19, 7, &["lacks `atToken`", "such as `atToken: "]),
    ("  seed: 7", "  stall: {for: 2s}", 13, 3, &["a kind of fault", "like the `name:` of its fault"]),
    ("ttft p99 < 800ms", "p99 ttft < 800ms", 30, 7, &["did you mean `ttft p99`"]),
    ("ttft p99 < 800ms", "ttft p99: 800ms", 30, 7, &["a line of text", "write `- ttft p99 < 800ms`"]),
    ("127.0.0.1:8000", "127.0.0.1:8000/v1/chat/completions", 8, 10, &["endpoint"]),
    ("http://127", "127", 8, 10, &["http:// or https://"]),
    ("probability: 0.5", "probability: .nan", 17, 27, &["finite number"]),
    ("atToken: 3", "atToken: 3000000000000", 19, 24, &["too large"]),
    ("for: 2s", "for: 2", 19, 32, &["needs a unit, such as 2ms"]),
    ("for: 2s", "for: 2 sec", 19, 32, &["`2 sec`", "did you mean `2s`"]),
    ("for: 2s", "for: -2s", 19, 32, &["`-2s`"]),
    ("for: 2s", "for: 9999999h", 19, 32, &["`9999999h`"]),
    ("api: openai-chat", "api: openai", 21, 10, &["cannot be `openai`", "did you mean `openai-chat`"]),
    ("kind: Scenario", "kind: Scenarios", 2, 7, &["it is always `Scenario`"]),
    ("brownout.dev/v1alpha1", "v1", 1, 13, &["brownout.dev/v1alpha1"]),
    ("name: good", "name: Not Good", 4, 9, &["lower-case letters"]),
    ("containers: [server]", "containers: server", 10, 5, &["a list is wanted", "`- `"]),
    ("{app: vllm}", "{app: true}", 9, 35, &["in quotes: \"true\""]),
    ("extra: [1, 2]", "extra: [1, .inf]", 28, 23, &["finite number"]),
    // Meaning.
    ("name: second", "name: first", 18, 13, &["two faults", "`first`"]),
    ("after: 10s", "after: 120s", 17, 39, &["ends after 2m", "less than 2m"]),
    ("for: 60s", "for: 111s", 17, 49, &["window ends after 2m1s", "at most 1m50s"]),
    ("for: 60s", "for: 0s", 17, 49, &["never fire"]),
    ("ramp: 10s", "ramp: 61s", 17, 60, &["never reached", "at most 1m"]),
    ("ramp: 10s", "repeat: 30s", 17, 62, &["never shuts", "more than 1m"]),
    ("for: 60s, ramp: 10s", "repeat: 30s", 17, 44, &["without `for`"]),
    ("path: /v1/*", "path: v1", 17, 71, &["matches no request", "write /v1"]),
    (
        "path: /v1/*",
        "rank: 3",
        17,
        65,
        &["`when.rank` is for faults in the process; `slowTokens` acts on the wire"],
    ),
    ("path: /v1/*", "method: 'GET /'", 17, 73, &["no HTTP method"]),
    ("path: /v1/*", "headers: {'x y': '1'}", 17, 75, &["no name of a header"]),
    ("{constant: 20ms}", "{uniform: {min: 20ms, max: 10ms}}", 16, 54, &["at least `min`, which is 20ms"]),
    ("{constant: 20ms}", "{lognormal: {median: 60ms, p99: 60ms}}", 16, 59, &["more than `median`"]),
    ("{constant: 20ms}", "{lognormal: {median: 0s, p99: 60ms}}", 16, 48, &["more than 0s"]),
    ("{constant: 512}", "{uniform: {min: 9, max: 8}}", 23, 46, &["at least `min`, which is 9"]),
    ("{constant: 512}", "{zipf: {max: 8, exponent: 0}}", 23, 48, &["more than 0"]),
    ("rate: 20", "rate: 0", 22, 31, &["too small", "more than 0, at most 100000"]),
    ("{poisson: {rate: 20}}", "{closed: {concurrency: 0}}", 22, 37, &["from 1 to 10000"]),
    ("{poisson: {rate: 20}}", "{closed: {concurrency: 1000000}}", 22, 37, &["from 1 to 10000"]),
    ("{poisson: {rate: 20}}", "{gamma: {rate: 20, burstiness: 0}}", 22, 45, &["from 0.001 to 1000"]),
    ("rate: 20", "rate: 1000000", 22, 31, &["too large", "at most 100000"]),
    ("{constant: 512}", "{constant: 4000001}", 23, 33, &["from 1 to 4000000"]),
    ("{constant: 512}", "{normal: {mean: 3999994, stddev: 2}}", 23, 55, &["from 0 to 1"]),
    ("{constant: 64}", "{uniform: {min: 1, max: 5000000}}", 24, 46, &["from 1 to 4000000"]),
    (
        "{tokens: {constant: 512}}",
        "{tokens: {normal: {mean: 1, stddev: 0}}, sharedPrefix: 4000001}",
        23,
        68,
        &["from 0 to 4000000"],
    ),
    ("headers: {x-team: a}", "headers: {x-team: \"a ${KEY\"}", 27, 26, &["not closed", "${NAME}"]),
    ("headers: {x-team: a}", "headers: {x-team: \"a\\nb\"}", 27, 23, &["no header may"]),
    ("api: openai-chat", "api: other", 21, 10, &["no load can be made"]),
    ("api: openai-chat", "api: triton-generate", 21, 10, &["add `model:`"]),
    ("api: openai-chat", "model: a b\n    api: triton-generate", 21, 12, &["Triton's path"]),
    ("http://127.0.0.1:8000", "http://a b", 8, 10, &["a character that no URL has"]),
    ("http://127.0.0.1:8000", "http://a/<b>", 8, 10, &["its path"]),
    ("http://127.0.0.1:8000", "http://a,b", 8, 10, &["its host"]),
    ("http://127.0.0.1:8000", "\"http://[::g]:1\"", 8, 10, &["no IPv6"]),
    ("for: 2s", "for: true", 19, 32, &["a length of time is wanted"]),
    (
        "{tokens: {constant: 512}}",
        "{tokens: {constant: 512}, file: a}",
        23,
        39,
        &["exactly one of", "found both"],
    ),
    ("{tokens: {constant: 512}}", "{sharedPrefix: 3}", 23, 14, &["exactly one of", "found none"]),
    ("{tokens: {constant: 512}}", "{tokens: {constant: 512}, sharedPrefix: 600}", 23, 53, &["at most 512"]),
    ("timeouts: {stall: 10s}", "timeouts: {stall: 0s}", 26, 23, &["more than 0s"]),
    ("http://127.0.0.1:8000", "127.0.0.1:8000", 8, 10, &["does not begin with http://"]),
    ("http://127.0.0.1:8000", "http://:8000", 8, 10, &["no host"]),
    ("http://127.0.0.1:8000", "http://a:99999", 8, 10, &["its port"]),
    ("http://127.0.0.1:8000", "http://u:p@a", 8, 10, &["user name"]),
    ("fault: 120s", "fault: 0s", 12, 46, &["no fault would ever fire"]),
    ("recovery: 60s", "recovery: 0s", 33, 7, &["without a recovery phase"]),
    ("recovery: 60s", "recovery: 20s", 33, 7, &["over before 30s", "at most 20s"]),
    ("baseline: 60s", "baseline: 0s", 31, 7, &["speaks of a baseline"]),
    // Faults in the process.
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointError: {error: eio}",
        19,
        7,
        &["lacks `when.file`", "add `when: {file: \"*.safetensors\"}`"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointError: {error: eio}\n      when: {probability: 0.5}",
        20,
        7,
        &["lacks `when.file`", "add `file: \"*.safetensors\"`"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointError: {error: eio}\n      when: {file: \"\"}",
        20,
        20,
        &["matches no file"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointError: {error: eio}\n      when: {fil: \"*.gguf\"}",
        20,
        14,
        &["did you mean `file`"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointError: {error: eio}\n      when: {path: \"*.gguf\"}",
        20,
        14,
        &["`when.path` is for faults on the wire; `checkpointError` acts in the process", "write `file`"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointError: {error: eio}\n      when: {file: \"*.gguf\", model: m}",
        20,
        30,
        &["`when.model` is for faults on the wire", "remove it"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointError: {error: eio}\n      when: {file: \"*.gguf\", method: GET}",
        20,
        30,
        &["`when.method` is for faults on the wire"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointError: {error: eio}\n      when: {file: \"*.gguf\", stream: true}",
        20,
        30,
        &["`when.stream` is for faults on the wire"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointError: {error: eio}\n      when: {file: \"*.gguf\", headers: {a: b}}",
        20,
        30,
        &["`when.headers` is for faults on the wire"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointError: {error: eperm}\n      when: {file: \"*.gguf\"}",
        19,
        32,
        &["cannot be `eperm`", "`eio`"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointError: {}\n      when: {file: \"*.gguf\"}",
        19,
        7,
        &["lacks `error`"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointCorrupt: {count: 3}\n      when: {file: \"*.gguf\"}",
        19,
        7,
        &["lacks `how`"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointCorrupt: {how: bitflip}\n      when: {file: \"*.gguf\"}",
        19,
        32,
        &["did you mean `bitFlip`"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointCorrupt: {how: bitFlip, count: 0}\n      when: {file: \"*.gguf\"}",
        19,
        48,
        &["from 1 to 1000000"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointCorrupt: {how: header, count: 2}\n      when: {file: \"*.gguf\"}",
        19,
        47,
        &["`how: bitFlip` or `how: zeroPage`"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointCorrupt: {how: truncate, keep: 1}\n      when: {file: \"*.gguf\"}",
        19,
        48,
        &["too large", "from 0 to less than 1"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointCorrupt: {how: shape, keep: 0.5}\n      when: {file: \"*.gguf\"}",
        19,
        45,
        &["only with `how: truncate`"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointSlow: {}\n      when: {file: \"*.gguf\"}",
        19,
        23,
        &["lacks what it needs", "neither is given"],
    ),
    (
        "stall: {atToken: 3, for: 2s}",
        "checkpointSlow: {bytesPerSecond: 0}\n      when: {file: \"*.gguf\"}",
        19,
        40,
        &["too small", "at least 1"],
    ),
    // SLA lines: the place is in the text.
    ("- ttft p99 < 800ms", "- ttft < 800ms", 30, 12, &["did you mean `ttft p99 < 800ms`"]),
    ("- ttft p99 < 800ms", "- \"ttft p99 < 800\"", 30, 19, &["needs a unit", "`800ms`"]),
    ("- ttft p99 < 800ms", "- ttftt p99 < 800ms", 30, 7, &["no metric", "did you mean `ttft`"]),
    ("- ttft p99 < 800ms", "- ttft p99 > 800ms", 30, 16, &["be bad", "did you mean `<`"]),
    ("- error rate > 50% for 10s", "- error rate < 50%", 35, 18, &["is good", "did you mean `>`"]),
    ("- error rate > 50% for 10s", "- recovers within 3s", 35, 7, &["cannot end an experiment"]),
    ("- ttft p99 < 800ms", "- {ttft: 800ms}", 30, 7, &["a mapping", "text is wanted"]),
    // YAML itself.
    ("  seed: 7", "\tseed: 7", 13, 1, &["a tab cannot indent YAML"]),
    ("      when: {prob", "\t  when: {prob", 17, 1, &["a tab cannot indent YAML"]),
    ("recovers within 30s", "recovers in 8s", 33, 16, &["did you mean `recovers within 8s`"]),
    ("ttft p99 < 800ms", "goodput > 70%", 30, 17, &["did you mean `0.7x baseline`"]),
    ("error rate < 1%", "error rate < 1% for 3m", 32, 7, &["the fault phase is over before 3m", "for 2m"]),
    ("50% for 10s", "50% for 10m", 35, 7, &["the run is over before 10m"]),
    ("seed: 7", "seed: 7\n  owner: b", 14, 3, &["`owner` comes twice"]),
    ("seed: 7", "seed: !special 7", 13, 9, &["the tag `!special`"]),
    ("seed: 7", "seed: *nothing", 13, 9, &["no YAML", "unknown anchor"]),
    ("seed: 7", "seed: &me [*me]", 13, 14, &["inside the value"]),
    ("seed: 7", "? [a]\n  : 7", 13, 5, &["a list cannot be a key"]),
    ("owner: a", "owner: a: b", 6, 11, &["no YAML", "needs quotes"]),
    ("owner: a", "owner: \"a", 6, 10, &["never closed"]),
    ("kind: Scenario", "kind: Scenario\n---\nkind: Scenario", 3, 1, &["a second document", "one scenario"]),
];

#[test]
fn each_error_has_its_place_and_words_that_help() {
    let mut wrong = String::new();
    for (old, new, line, column, words) in ROWS {
        let text = with(old, new);
        let Err(errors) = load("bad.yaml", &text) else { panic!("`{new}` for `{old}` was taken") };
        let said = errors.iter().any(|error| {
            let said =
                format!("{}\n{}\n{}", error.message, error.label, error.help.clone().unwrap_or_default());
            (error.line, error.column) == (*line, *column) && words.iter().all(|word| said.contains(word))
        });
        let shown = errors.render(false).contains(&format!("bad.yaml:{line}:{column}\n"));
        if !said || !shown {
            wrong += &format!("`{new}` for `{old}`: wanted {words:?} at {line}:{column}, got\n{errors}\n\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Values in the form that people think of first. Each error shows the line to write, and that line is right.
#[test]
fn an_error_shows_the_line_to_write_and_the_line_is_right() {
    let mut wrong = String::new();
    for (old, new) in [
        (
            "target: # Where it runs.\n    url: http://127.0.0.1:8000\n    selector: {matchLabels: {app: vllm}}\n    containers: [server]\n    mode: {percent: 50}",
            "target: http://127.0.0.1:8000",
        ),
        (
            "target: # Where it runs.\n    url: http://127.0.0.1:8000\n    selector: {matchLabels: {app: vllm}}\n    containers: [server]\n    mode: {percent: 50}",
            "target: 127.0.0.1:8000",
        ),
        ("containers: [server]", "containers: server"),
        ("mode: {percent: 50}", "mode: percent"),
        ("mode: {percent: 50}", "mode: 30"),
        ("phases: {warmup: 5s, baseline: 60s, fault: 120s, recovery: 60s}", "phases: 90s"),
        ("slowTokens: {delay: {constant: 20ms}}", "slowTokens: 60ms"),
        ("slowTokens: {delay: {constant: 20ms}}", "slowTokens: {delay: 60}"),
        ("slowTokens: {delay: {constant: 20ms}}", "slowTokens: {delay: lognormal}"),
        ("stall: {atToken: 3, for: 2s}", "stall: 2s"),
        ("stall: {atToken: 3, for: 2s}", "stall: 3"),
        ("stall: {atToken: 3, for: 2s}", "httpError: 503"),
        ("stall: {atToken: 3, for: 2s}", "truncate: 12"),
        ("stall: {atToken: 3, for: 2s}", "latency: 200ms"),
        ("stall: {atToken: 3, for: 2s}", "rateLimit: 60"),
        ("stall: {atToken: 3, for: 2s}", "probeFlap: /health"),
        ("stall: {atToken: 3, for: 2s}", "probeFlap: {paths: /health}"),
        ("stall: {atToken: 3, for: 2s}", "blackhole: true"),
        ("- name: second\n      stall: {atToken: 3, for: 2s}", "- httpError"),
        ("- name: second\n      stall: {atToken: 3, for: 2s}", "- slowTokens"),
        ("api: openai-chat\n    arrival: {poisson: {rate: 20}}", "arrival: {poisson: 20}"),
        ("arrival: {poisson: {rate: 20}}", "arrival: {closed: 8}"),
        ("arrival: {poisson: {rate: 20}}", "arrival: 20"),
        ("arrival: {poisson: {rate: 20}}", "arrival: poisson"),
        ("arrival: {poisson: {rate: 20}}", "arrival: gamma"),
        ("prompt: {tokens: {constant: 512}}", "prompt: 64"),
        ("prompt: {tokens: {constant: 512}}", "prompt: prompts.jsonl"),
        ("prompt: {tokens: {constant: 512}}", "prompt: {tokens: 64}"),
        ("prompt: {tokens: {constant: 512}}", "prompt: {tokens: zipf}"),
        ("output: {tokens: {constant: 64}}", "output: 64"),
        ("timeouts: {stall: 10s}", "timeouts: 30s"),
        (
            "  sla:\n    - ttft p99 < 800ms\n    - itl p99 < 3x baseline\n    - error rate < 1%\n    - recovers within 30s",
            "  sla: ttft p99 < 800ms",
        ),
    ] {
        let text = with(old, new);
        let Err(errors) = load("bad.yaml", &text) else { panic!("`{new}` was taken") };
        let error = errors.iter().next().expect("never empty");
        let help = error.help.clone().unwrap_or_default();
        let Some(line) = help.strip_prefix("write `").and_then(|rest| rest.strip_suffix('`')) else {
            wrong += &format!("`{new}` shows no line to write:\n{errors}\n\n");
            continue;
        };
        // In the place of the innermost `key: value` or item that holds the mistake.
        let (key, value) = line.split_once(' ').expect("a key and a value");
        let at = new.rfind(key).expect("the key is in the mistake");
        let rest = &new[at + key.len()..];
        let end = rest.find('}').filter(|_| at > 0 && !rest.contains('{')).unwrap_or(rest.len());
        let right = format!("{}{key} {value}{}", &new[..at], &rest[end..]);
        // What other lines then say of it (a baseline of 0s, say) is another matter.
        if let Err(errors) = load("right.yaml", &with(old, &right))
            && errors.iter().any(|other| other.line == error.line)
        {
            wrong += &format!("`{new}` became `{right}`:\n{errors}\n\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn faults_as_a_mapping_are_shown_as_a_list() {
    let (head, rest) = GOOD.split_at(GOOD.find("  faults:").expect("it is there"));
    let tail = &rest[rest.find("  load:").expect("it is there")..];
    for faults in [
        "{name: a, stall: {atToken: 3, for: 2s}}",
        "{stall: {atToken: 3, for: 2s}, when: {probability: 0.5}}",
        "{slow: {latency: {delay: {constant: 1s}}}, \"on\": {httpError: {status: 503, message: \"no: way\"}}}",
    ] {
        let errors =
            load("bad.yaml", &format!("{head}  faults: {faults}\n{tail}")).expect_err("a mapping is no list");
        assert_eq!(errors.len(), 1, "{errors}");
        let help = errors.iter().next().and_then(|error| error.help.clone()).unwrap_or_default();
        let line = help.strip_prefix("write `").and_then(|rest| rest.strip_suffix('`')).unwrap_or_default();
        load("right.yaml", &format!("{head}  {line}\n{tail}"))
            .unwrap_or_else(|errors| panic!("{help}\n{errors}"));
    }
}

#[test]
fn what_is_outside_the_file_is_asked_about_with_its_place() {
    let text = with("{tokens: {constant: 512}}", "{file: a.jsonl}");
    let text = text.replace("headers: {x-team: a}", "headers: {x-a: \"a ${B} ${C}\", x-d: '${B}'}");
    let mut asked = Vec::new();
    let (_, warnings) = load_with("a.yaml", text.as_bytes(), &mut |outside| {
        asked.push(format!("{outside:?}"));
        (outside == Outside::Variable("C")).then(|| Remark::warning("not set", "set it"))
    })
    .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(asked.len(), 4, "{asked:?}");
    let warnings = warnings.expect("one is warned of");
    let warning = warnings.iter().next().expect("never empty");
    assert_eq!((warning.severity, warning.line, warning.column), (Severity::Warning, 27, 28));
    assert!(warnings.render(false).starts_with("warning: not set"), "{warnings}");
    let errors = load_with("a.yaml", text.as_bytes(), &mut |outside| match outside {
        Outside::PromptFile(file) => Some(Remark::error(format!("{file} is missing"), "a file")),
        Outside::Variable(_) => None,
    });
    let error = errors.expect_err("it is missing").iter().next().cloned().expect("never empty");
    assert_eq!((error.line, error.column, error.message.as_str()), (23, 20, "a.jsonl is missing"));
}

/// What can run and is in vain: what is replaced, the place, and words of the warning; none where all is well.
#[test]
fn what_can_never_happen_is_warned_of() {
    for (old, new, want) in [
        ("seed: 7", "seed: 7", None),
        ("probability: 0.5", "probability: 0", Some((17, 27, "never fires"))),
        ("atToken: 3", "atToken: 64", None),
        ("atToken: 3", "atToken: 65", Some((19, 24, "no answer gets to token 65: the load asks for 64"))),
        (
            "stall: {atToken: 3, for: 2s}",
            "disconnect: {afterTokens: 65}",
            Some((19, 33, "no answer gets to token 65")),
        ),
        (
            "rate: 20",
            "rate: 2",
            Some((30, 7, "p99 needs 299 requests, and about 240 come in the fault phase")),
        ),
        ("rate: 20", "rate: 2.5", None),
        (
            "ttft p99 < 800ms",
            "e2e p99.9 < 2x baseline",
            Some((30, 7, "needs 2995 requests, and about 1200 come in the baseline")),
        ),
        ("poisson: {rate: 20}", "closed: {concurrency: 1}", None),
        (
            "stall: {atToken: 3, for: 2s}",
            "checkpointError: {error: eio}\n      when: {file: /models/*}",
            None,
        ),
        (
            "stall: {atToken: 3, for: 2s}",
            "checkpointError: {error: eio}\n      when: {file: '*'}",
            Some((20, 20, "every file")),
        ),
        (
            "stall: {atToken: 3, for: 2s}",
            "checkpointError: {error: eio}\n      when: {file: m.gguf}",
            Some((20, 20, "relative path")),
        ),
    ] {
        let (_, warnings) = load_with("a.yaml", with(old, new).as_bytes(), &mut |_| None)
            .unwrap_or_else(|errors| panic!("{errors}"));
        let warning = warnings.and_then(|warnings| warnings.iter().next().cloned());
        let place = warning.as_ref().map(|warning| (warning.severity, warning.line, warning.column));
        assert_eq!(
            place,
            want.map(|(line, column, _)| (Severity::Warning, line, column)),
            "{new}: {warning:?}"
        );
        if let (Some(warning), Some((_, _, words))) = (warning, want) {
            assert!(warning.message.contains(words), "{new}: {warning:?}");
        }
    }
}

#[test]
fn one_blank_line_stands_between_two_errors_and_none_behind_the_last() {
    let errors = load("bad.yaml", &with("owner: a", "ownr: a").replace("seed: 7", "seed: x"));
    let text = errors.expect_err("two mistakes").render(false);
    assert!(text.contains("\n\nerror: ") && !text.contains("\n\n\n"), "{text}");
    assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{text:?}");
}

/// A file with one fault has one error: nothing is said twice, and nothing follows from what was said.
#[test]
fn one_mistake_is_one_error() {
    for (old, new) in [
        ("slowTokens:", "slowToken:"),
        ("{constant: 20ms}", "{lognormal: {median: 60ms, p99: 40ms}}"),
        ("probability: 0.5", "probability: 2"),
        ("fault: 120s", "fault: 2 minutes"),
        ("recovery: 60s", "recovery: 0s"),
        ("poisson: {rate", "poison: {rate"),
        ("atToken: 3", "atToken: 0"),
        ("- error rate < 1%", "- eror rate < 1%"),
        ("stall: {atToken: 3, for: 2s}", "checkpointError: {error: eio}"),
        ("stall: {atToken: 3, for: 2s}", "checkpointError: {error: eio}\n      when: {fil: a}"),
        ("stall: {atToken: 3, for: 2s}", "checkpointError: {error: eio}\n      when: {path: '*.gguf'}"),
        ("stall: {atToken: 3, for: 2s}", "checkpointSlow: {}\n      when: {file: '*.gguf'}"),
        (
            "stall: {atToken: 3, for: 2s}",
            "checkpointCorrupt: {how: header, keep: 2}\n      when: {file: '*.gguf'}",
        ),
    ] {
        let errors = load("bad.yaml", &with(old, new)).err().map_or(0, |errors| errors.len());
        assert_eq!(errors, 1, "`{new}` for `{old}`");
    }
}

#[test]
fn all_errors_are_shown_at_once_from_top_to_bottom() {
    let text = with("owner: a", "ownr: a").replace("probability: 0.5", "probability: 2");
    let text = text.replace("ttft p99", "ttft").replace("rate: 20", "rate: -1");
    let Err(errors) = load("bad.yaml", &text) else { panic!("taken") };
    let lines: Vec<usize> = errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [6, 17, 22, 30]);
}

#[test]
fn a_rendered_error_shows_the_line_with_a_caret_and_colours_only_where_asked() {
    let Err(errors) = load("bad.yaml", &with("owner: a", "ownr: a")) else { panic!("taken") };
    let plain = errors.render(false);
    assert!(plain.contains("6 |   ownr: a\n"), "{plain}");
    assert!(plain.contains("  |   ^^^^ "), "{plain}");
    assert!(!plain.contains('\u{1b}'), "{plain}");
    assert!(errors.render(true).contains('\u{1b}'));
}

#[test]
fn control_characters_of_a_file_never_reach_the_terminal() {
    for (old, new) in [
        ("owner: a", "\"ow\\x1b[31m\\x07ner\": a"),
        ("for: 2s", "for: \"2\\x1b[31ms\\x07\""),
        ("ttft p99 < 800ms", "\"ttft\\x1b[31m p99\\x07 < 1s\""),
        ("api: openai-chat", "api: \"\\x1b[31m\\x07\""),
        ("path: /v1/*", "path: \"\\x1b[31m\\x07\""),
    ] {
        let text = with(old, new);
        let Err(errors) = load("bad.yaml", &text) else { panic!("{new} was taken") };
        assert!(!errors.render(false).contains(['\u{1b}', '\u{7}']), "{errors}");
    }
}
