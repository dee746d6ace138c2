//! Every scenario that is shipped loads, and says enough for a stranger to run it.

use brownout_injector::fault::Acts;
use brownout_injector::load::load_with;
use brownout_injector::scenario::FaultEntry;
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
        let (scenario, warnings) =
            load_with(&name, &bytes, &mut |_| None).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(warnings.is_none(), "{}", warnings.map_or(String::new(), |warnings| warnings.render(false)));
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
        let on_the_wire = |entry: &&FaultEntry| entry.fault.about().acts == Acts::OnTheWire;
        let rules = spec.faults.iter().filter(on_the_wire).count();
        assert_eq!(Plan::compile(&scenario, None).rules.len(), rules, "{file}");
        // No command would take both.
        assert!(rules == 0 || rules == spec.faults.len(), "{file} has faults on the wire and in processes");
    }
}

/// The first thing that people copy is a file that is there, and whole examples in the book are right.
#[test]
fn the_books_examples_are_the_shipped_ones_or_load() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shipped: Vec<String> =
        shipped().iter().map(|(path, _)| std::fs::read_to_string(path).expect("it can be read")).collect();
    let docs = std::fs::read_dir(root.join("docs")).expect("the book is there");
    let pages = docs.map(|entry| entry.expect("it can be listed").path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    for page in pages.chain([root.join("README.md")]) {
        let text = std::fs::read_to_string(&page).expect("it can be read");
        for block in text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if !block.contains("apiVersion: brownout.dev") {
                continue;
            }
            let name = page.display().to_string();
            let scenario = load_bytes(&name, block.as_bytes()).unwrap_or_else(|errors| panic!("{errors}"));
            let like =
                shipped.iter().any(|file| file.contains(&format!("name: {}\n", scenario.metadata.name)));
            assert!(
                !like || shipped.iter().any(|file| file == block),
                "{name} shows a shipped scenario otherwise"
            );
        }
    }
    let readme = std::fs::read_to_string(root.join("README.md")).expect("it can be read");
    assert!(shipped.iter().any(|file| readme.contains(file.as_str())), "README.md shows no shipped scenario");
}
