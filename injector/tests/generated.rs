//! What is generated from the types and committed is current. `BLESS=1 cargo test -p brownout-injector --test generated`
//! writes it anew.

use std::path::Path;

/// Compares a committed file with what it should be.
fn check(file: &str, want: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, want).expect("the file can be written");
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        have == want,
        "{file} is not what the types say; BLESS=1 cargo test --test generated writes it anew"
    );
}

#[test]
fn the_committed_schema_is_current() {
    let schema = serde_json::to_string_pretty(&brownout_injector::schema()).expect("JSON can be written");
    check("docs/scenario.schema.json", &(schema + "\n"));
}

#[test]
fn the_committed_reference_is_current() {
    check("docs/scenario.md", &brownout_injector::reference());
}
