//! The sample report and the picture in the README are what the code makes today.

mod common;

use brownout_runner::report::{files, html, junit, markdown, picture};
use std::path::Path;

/// Set to write the files anew instead of comparing them.
const BLESS: &str = "BROWNOUT_BLESS";

#[test]
fn the_samples_are_current() {
    let report = common::story(1.0).report();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, text) in [
        ("samples/report.json", files::to_json(&report)),
        ("samples/report.html", html::render(&report)),
        ("samples/report.md", markdown::render(&report)),
        ("samples/junit.xml", junit::render(&report)),
        ("../docs/report.svg", picture::render(&report)),
    ] {
        let path = root.join(path);
        if std::env::var_os(BLESS).is_some() {
            std::fs::create_dir_all(path.parent().expect("it lies in a folder"))
                .expect("the folder can be made");
            std::fs::write(&path, text).expect("the sample can be written");
            continue;
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "{} is not what the code makes today: run `{BLESS}=1 cargo test -p brownout-runner --test sample` and look at it",
            path.display()
        );
    }
}
