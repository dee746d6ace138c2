//! Every scenario that is shipped loads, and says enough for a stranger to run it.

use brownout_injector::{Fault, Plan, Scenario, load_bytes};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn shipped() -> Vec<(PathBuf, Scenario)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("scenarios are shipped")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("the file can be read");
        let name = path.display().to_string();
        let scenario = load_bytes(&name, &bytes).unwrap_or_else(|errors| panic!("{errors}"));
        (path, scenario)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn each_scenario_loads_and_is_called_as_its_file() {
    for (path, scenario) in shipped() {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        assert_eq!(stem.as_ref(), Some(&scenario.metadata.name), "{}", path.display());
    }
}

#[test]
fn together_they_show_every_fault_kind() {
    let scenarios = shipped();
    let shown: BTreeSet<&str> = scenarios
        .iter()
        .flat_map(|(_, scenario)| scenario.spec.faults.iter().map(|entry| entry.fault.about().kind))
        .collect();
    let missing: Vec<&str> =
        Fault::ALL.iter().map(|about| about.kind).filter(|kind| !shown.contains(kind)).collect();
    assert!(missing.is_empty(), "no scenario shows {missing:?}");
}

#[test]
fn each_scenario_tells_its_story_and_has_something_to_judge() {
    for (path, scenario) in shipped() {
        let spec = &scenario.spec;
        let file = path.display();
        assert!(spec.description.is_some(), "{file} has no description");
        assert!(spec.certifies.is_some(), "{file} does not say what it certifies");
        assert!(!spec.sla.is_empty(), "{file} has no SLA");
        assert_eq!(Plan::compile(&scenario, None).rules.len(), spec.faults.len(), "{file}");
    }
}
