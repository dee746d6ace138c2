//! What the file alone shows to be in vain. It is no error, as the scenario can run; but who wrote it wants something
//! else.

use super::diagnostic::{Problem, Severity, quoted};
use super::meaning::place;
use super::tree::{Data, Node};
use crate::scenario::{Arrival, Load, Scenario};
use crate::sla::{self, Bound, Demand, Metric, Statistic};
use crate::units::TimeSpan;

/// Adds a warning for each fault that can never fire and each SLA line that can hardly pass. `root`: what the scenario
/// was read from.
pub(super) fn check(root: &Node, scenario: &Scenario, problems: &mut Vec<Problem>) {
    let Some(spec) = root.get("spec") else { return };
    let items = |field| spec.get(field).map(|list| list.items()).unwrap_or_default();
    let load = scenario.spec.load.as_ref();
    let mut warnings = Vec::new();
    for fault in items("faults") {
        warnings.extend(never(fault));
        warnings.extend(files(fault));
        warnings.extend(load.and_then(longest_answer).and_then(|longest| beyond(fault, longest)));
    }
    if let Some(rate) = load.and_then(|load| rate(&load.arrival)) {
        for (node, line) in items("sla").iter().zip(&scenario.spec.sla) {
            warnings.extend(too_few(node, line, rate, scenario));
        }
    }
    problems.extend(warnings.into_iter().map(|problem| Problem { severity: Severity::Warning, ..problem }));
}

fn number(node: &Node) -> Option<f64> {
    match &node.data {
        Data::Number(number) => number.as_f64(),
        _ => None,
    }
}

fn never(fault: &Node) -> Option<Problem> {
    let when = fault.get("when")?;
    (number(when.get("probability")?)? == 0.0)
        .then(|| Problem::new(place(when, "probability"), "the fault never fires", "more than 0"))
}

/// A pattern of paths that means fewer files, or more of them, than its author has in mind.
fn files(fault: &Node) -> Option<Problem> {
    let when = fault.get("when")?;
    let pattern = when.get("file")?.text()?;
    let (message, right) = match pattern {
        all if all.bytes().all(|byte| byte == b'*') => (
            "the pattern matches every file, those that the program itself is made of too".to_owned(),
            "such as \"*.safetensors\"".to_owned(),
        ),
        relative if !relative.starts_with(['/', '*']) => (
            format!("{} matches only a file that is opened by this relative path", quoted(relative)),
            format!("write \"*/{relative}\" for such a file in any folder"),
        ),
        _ => return None,
    };
    Some(Problem::new(place(when, "file"), message, right))
}

/// The most tokens that the load asks for, where the file tells. Prompts from a file and fields of the body may ask for
/// more.
fn longest_answer(load: &Load) -> Option<u32> {
    let asks = load.prompt.file.is_some()
        || load.body.keys().any(|key| key.contains("tokens") || key == "parameters");
    if asks { None } else { load.output.tokens.longest() }
}

fn beyond(fault: &Node, longest: u32) -> Option<Problem> {
    let (params, field) = fault.entries().iter().find_map(|entry| {
        let field = ["atToken", "afterTokens"].into_iter().find(|field| entry.value.get(field).is_some())?;
        Some((&entry.value, field))
    })?;
    let token = number(params.get(field)?)?;
    (token > f64::from(longest)).then(|| {
        let message = format!("no answer gets to token {token}: the load asks for {longest} at most");
        Problem::new(place(params, field), message, format!("at most {longest}"))
    })
}

const fn rate(arrival: &Arrival) -> Option<f64> {
    match arrival {
        Arrival::Constant { rate } | Arrival::Poisson { rate } | Arrival::Gamma { rate, .. } => Some(*rate),
        Arrival::Closed { .. } => None,
    }
}

/// A percentile of so few requests that not even the largest of them bounds it with 95 % confidence. Requests have many
/// gaps between tokens, so `itl` is left out.
fn too_few(node: &Node, line: &str, rate: f64, scenario: &Scenario) -> Option<Problem> {
    let Demand::Threshold { metric, statistic, bound, hold: None, .. } = sla::parse(line).ok()?.demand else {
        return None;
    };
    let Some(Statistic::Percentile(p)) = statistic.filter(|_| metric != Metric::Itl) else { return None };
    let share = (p / 100.0).max(1.0 - p / 100.0);
    let need = (0.05_f64.ln() / share.ln()).ceil();
    let phases = &scenario.spec.phases;
    let baseline = matches!(bound, Bound::TimesBaseline(_)).then_some(("baseline", phases.baseline));
    let (name, phase) =
        [Some(("fault", phases.fault)), baseline].into_iter().flatten().min_by_key(|(_, phase)| phase.0)?;
    let come = rate * phase.0.as_secs_f64();
    (come < need).then(|| {
        let message = format!(
            "p{p} needs {need} requests, and about {come:.0} come in the {name} phase: the line can hardly pass"
        );
        let longer = TimeSpan(std::time::Duration::from_secs((need / rate).ceil() as u64));
        let right = format!("a lower percentile, a higher rate, or a {name} phase of {longer} or more");
        Problem::new(node.span.clone(), message, right)
    })
}
