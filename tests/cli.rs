//! The command line: help, bad input, exit codes.

mod common;

use common::{Server, brownout, folder, output, said, scenario, signal};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

#[test]
fn a_bad_file_gets_every_error_with_its_place_and_exit_code_2() {
    let dir = folder("bad-file");
    let file = scenario(
        &dir,
        "phases: {fault: 10}\nfaults:\n  - name: a\n    slowTokns: {delay: {constant: 1ms}}\nsla:\n  - ttft p99 <> 3\n",
    );
    let output = output(brownout(["validate"]).arg(&file));
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in ["scenario.yaml:5:", "scenario.yaml:8:", "did you mean `slowTokens`", "scenario.yaml:10:"] {
        assert!(said.contains(words), "`{words}` is not in:\n{said}");
    }
}

#[test]
fn what_cannot_run_says_why_in_one_line() {
    for (args, words) in [
        (&["validate", "no-such-file.yaml"][..], "no-such-file.yaml"),
        (&["run", "no-such-file.yaml"], "no-such-file.yaml"),
        (&["explain", "slowTokns"], "slowTokens"),
        (&["report", "no-such-folder"], "no-such-folder"),
        (&["compare", "no-such-folder", "no-such-folder"], "no-such-folder"),
        (&["proxy", "--upstream", "nonsense"], "nonsense"),
        (&["proxy", "--upstream", "http://127.0.0.1:99999"], "65535"),
        (&["proxy", "--upstream", "http://127.0.0.1:9/v1/chat/completions"], "endpoint"),
        (
            &["proxy", "--upstream", "http://127.0.0.1:9", "--listen", "localhost:8083"],
            "such as 127.0.0.1:8000",
        ),
        (&["proxy", "--upstream", "http://127.0.0.1:9", "--admin", ":9090"], "such as 127.0.0.1:8000"),
        (&["sim", "--listen", "8000"], "such as 127.0.0.1:8000"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let output = output(&mut brownout(args));
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: `{words}` is not in:\n{said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
}

#[test]
fn every_kind_is_explained() {
    let all = output(&mut brownout(["explain"]));
    let table = said(&all);
    for about in brownout_injector::Fault::ALL {
        assert!(table.contains(about.kind), "{} is not in:\n{table}", about.kind);
        let one = output(&mut brownout(["explain", about.kind]));
        let text = said(&one);
        let example = about.example.trim().lines().all(|line| text.contains(line.trim()));
        assert!(one.status.success() && example && text.contains(about.acts.name()), "{text}");
    }
}

#[test]
fn a_server_that_cannot_be_had_is_named_and_nothing_is_written() {
    let dir = folder("no-server");
    let load =
        "phases: {fault: 1s}\nload:\n  arrival: {constant: {rate: 1}}\n  prompt: {tokens: {constant: 8}}\n";
    let file = scenario(&dir, load);
    // Nothing listens on the discard port.
    for target in ["http://127.0.0.1:9", "http://127.0.0.1:9/v1"] {
        let output = output(brownout(["run"]).arg(&file).args(["--target", target]).current_dir(&dir));
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(target), "{said}");
        assert!(!dir.join("brownout-out").exists(), "a folder was made for nothing");
    }
}

#[test]
fn faults_in_processes_are_refused_where_only_the_wire_is_reached() {
    let dir = folder("in-process");
    let spec = "target: {url: 'http://127.0.0.1:9'}\nphases: {fault: 1s}\nload:\n  arrival: {constant: {rate: 1}}\n  \
                prompt: {tokens: {constant: 8}}\nfaults:\n  - name: bad-shard\n    checkpointCorrupt: {how: bitFlip}\n    \
                when: {file: '*.gguf'}\n";
    let file = scenario(&dir, spec);
    let file = file.to_str().expect("UTF-8");
    for args in [&["run", file][..], &["proxy", "--upstream", "http://127.0.0.1:9", "--scenario", file]] {
        let output = output(brownout(args).current_dir(&dir));
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        for words in ["`bad-shard` (checkpointCorrupt)", "brownout exec --scenario", " -- COMMAND"] {
            assert!(said.contains(words), "{args:?}: `{words}` is not in:\n{said}");
        }
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    }
    // The load alone has no faults: what it cannot have is the server.
    let load = output(brownout(["load", file]).current_dir(&dir));
    assert!(!said(&load).contains("exec") && said(&load).contains("127.0.0.1:9"), "{}", said(&load));
    let told = said(&output(&mut brownout(["validate", file])));
    assert!(told.contains("1 fault, phases total 1s, for `brownout exec` and `brownout load`"), "{told}");
}

#[test]
fn whoever_stops_reading_makes_no_noise() {
    for args in
        [&["explain"][..], &["explain", "latency"], &["schema"], &["schema", "--reference"], &["--help"]]
    {
        let mut child =
            brownout(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
}

#[test]
fn what_a_run_would_refuse_for_its_file_is_an_error_of_validate() {
    let dir = folder("as-a-run");
    let load = |load: &str| {
        let spec = format!(
            "target: {{url: 'http://127.0.0.1:9'}}\nphases: {{fault: 1s}}\nload:\n  model: m\n{load}"
        );
        scenario(&dir, &spec)
    };
    let some = "  arrival: {constant: {rate: 1}}\n";
    std::fs::write(dir.join("bad.jsonl"), "{\"prompt\": \"a\"}\n{}\n").expect("a file can be written");
    for (text, place, words) in [
        (format!("{some}  prompt: {{file: none.jsonl}}\n"), "10:20", "none.jsonl"),
        (format!("{some}  prompt: {{file: bad.jsonl}}\n"), "10:20", "bad.jsonl:2: neither"),
        (format!("{some}  prompt: {{file: '.'}}\n"), "10:20", "directory"),
        (
            "  arrival: {closed: {concurrency: 1000000}}\n  prompt: {tokens: {constant: 8}}\n".to_owned(),
            "9:37",
            "10000",
        ),
        (format!("{some}  prompt: {{tokens: {{constant: 4000001}}}}\n"), "10:33", "4000000"),
        (
            format!("{some}  prompt: {{tokens: {{constant: 8}}}}\n  api: other\n"),
            "11:10",
            "no load can be made",
        ),
    ] {
        let file = load(&text);
        for command in ["validate", "run", "load"] {
            let output = output(brownout([command]).arg(&file).current_dir(&dir));
            let said = said(&output);
            assert_eq!(output.status.code(), Some(2), "{command}: {said}");
            assert!(
                said.contains(&format!("scenario.yaml:{place}")) && said.contains(words),
                "{command}: {said}"
            );
            assert!(!said.contains("\n\n\n"), "{command}: {said}");
        }
    }
}

#[test]
fn a_scenario_without_load_is_good_and_said_to_be_for_the_proxy_alone() {
    let file = scenario(&folder("no-load"), "phases: {fault: 1s}");
    let told = output(brownout(["validate"]).arg(&file));
    assert!(
        told.status.success() && said(&told).contains("no load: for `brownout proxy` alone"),
        "{}",
        said(&told)
    );
}

#[test]
fn a_variable_that_is_not_set_is_a_warning_before_a_run_and_an_error_in_it() {
    let dir = folder("unset");
    let file = scenario(
        &dir,
        "target: {url: 'http://127.0.0.1:9'}\nphases: {fault: 1s}\nload:\n  model: m\n  arrival: {constant: {rate: 1}}\n  \
         prompt: {tokens: {constant: 8}}\n  headers: {authorization: \"Bearer ${BROWNOUT_TEST_KEY}\"}\n",
    );
    let place = "scenario.yaml:11:38";
    let told = output(brownout(["validate"]).arg(&file).env_remove("BROWNOUT_TEST_KEY"));
    let text = said(&told);
    assert!(told.status.success() && text.contains("scenario.yaml: ok"), "{text}");
    assert!(
        text.contains("warning: ") && text.contains(place) && text.contains("`BROWNOUT_TEST_KEY`"),
        "{text}"
    );
    let set = output(brownout(["validate"]).arg(&file).env("BROWNOUT_TEST_KEY", "k"));
    assert!(set.status.success() && !said(&set).contains("warning"), "{}", said(&set));
    for command in ["run", "load"] {
        let refused =
            output(brownout([command]).arg(&file).env_remove("BROWNOUT_TEST_KEY").current_dir(&dir));
        let text = said(&refused);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains("error: ") && text.contains(place), "{text}");
    }
}

#[test]
fn a_stand_in_server_that_is_killed_leaves_no_file() {
    let dir = folder("killed-sim");
    let entries = || std::fs::read_dir(&dir).expect("it is there").count();
    let mut command = brownout(["sim", "--listen", "127.0.0.1:0"]);
    command.env("TMPDIR", &dir);
    let sim = Server::spawn(command);
    assert_eq!(entries(), 0, "a file is left while it runs");
    // The drop kills it, with no chance to tidy up.
    drop(sim);
    assert_eq!(entries(), 0);
}

#[test]
fn whoever_stops_reading_errors_changes_no_exit_code() {
    let dir = folder("unread-errors");
    let load = "load:\n  model: m\n  arrival: {constant: {rate: 1}}\n  prompt: {tokens: {constant: 8}}\n";
    let warned = format!(
        "target: {{url: 'http://127.0.0.1:9'}}\nphases: {{fault: 1s}}\n{load}  headers: {{authorization: \"${{BROWNOUT_TEST_KEY}}\"}}\n"
    );
    let warned = scenario(&dir, &warned).display().to_string();
    for (args, code) in [
        (&["validate", "no-such-file.yaml"][..], 2),
        (&["validate", "/dev/null"], 2),
        (&["validate", &warned], 0),
        (&["run", &warned], 2),
        (&["load", "no-such-file.yaml"], 2),
        (&["explain", "slowTokns"], 2),
        (&["report", "no-such-folder"], 2),
        (&["compare", "no-such-folder", "no-such-folder"], 2),
        (&["proxy", "--upstream", "nonsense"], 2),
        (&["proxy", "--upstream", "http://127.0.0.1:9", "--scenario", "no-such-file.yaml"], 2),
        (&["frobnicate"], 2),
    ] {
        let with = |stderr: Stdio| {
            let mut command = brownout(args);
            command.stdout(Stdio::null()).stderr(stderr).env_remove("BROWNOUT_TEST_KEY");
            command.status().expect("the binary starts").code()
        };
        let (reader, nobody_reads) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        assert_eq!(with(nobody_reads.into()), Some(code), "{args:?}, into a pipe that nobody reads");
        assert_eq!(with(full.into()), Some(code), "{args:?}, onto a full disk");
    }
}

#[test]
fn a_demo_that_is_interrupted_says_how_far_it_came() {
    let out = folder("demo").join("out");
    let mut demo = brownout(["demo", "--quick", "--out"])
        .arg(out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stages = BufReader::new(demo.stderr.take().expect("piped")).lines();
    let begun = stages.any(|stage| stage.expect("text") == "stalled-streams: baseline");
    assert!(begun, "the second story did not begin");
    signal(demo.id(), "INT");
    let mut said = String::new();
    demo.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(demo.wait().expect("it was started").code(), Some(3), "{said}");
    assert!(said.contains("Ended after 1 of 5 stories: interrupted."), "{said}");
    assert!(!said.contains("exit code 0"), "{said}");
}
