//! What no schema can say: bounds that depend on each other, windows, names, SLA lines.
//!
//! Each part is looked at when it can be read as its type, also where another part of the file is wrong, so that one
//! run of the loader shows as much as can be known.

use super::diagnostic::{Problem, quoted};
use super::matchers;
use super::outside::variables;
use super::tree::{Data, Node};
use super::url::{base_url, is_path};
use crate::scenario::{Arrival, FaultEntry, Phases, PromptSource, Target, Timeouts, When};
use crate::sla::{self, Bound, Demand, Operator};
use crate::units::{DelayDist, LengthDist, TimeSpan};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Adds what is wrong with the meaning of the scenario under `root`. `instances`: the nodes of named types.
pub(super) fn check(root: &Node, instances: &[(&str, &Node)], problems: &mut Vec<Problem>) {
    let mut checker = Checker { problems };
    for (name, node) in instances {
        checker.instance(name, node);
    }
    let Some(spec) = root.get("spec") else { return };
    let phases: Option<(&Node, Phases)> = spec.get("phases").and_then(|node| Some((&**node, read(node)?)));
    if let Some(faults) = spec.get("faults") {
        checker.faults(faults, phases.as_ref());
    }
    for (field, abort) in [("sla", false), ("abort", true)] {
        for line in spec.get(field).map(|list| list.items()).unwrap_or_default() {
            checker.line(line, abort, phases.as_ref());
        }
    }
}

fn read<T: DeserializeOwned>(node: &Node) -> Option<T> {
    serde_json::from_value(node.json()).ok()
}

/// The place of a field below `node`, given as `uniform.max`: of its value, or of the last part that is there.
pub(super) fn place(node: &Node, field: &str) -> Range<usize> {
    let (mut node, mut at) = (node, node.span.clone());
    for part in field.split('.') {
        let Some(entry) = node.entry(part) else { break };
        node = &entry.value;
        at = match node.data {
            Data::Map(_) | Data::List(_) => entry.key_span.clone(),
            _ => node.span.clone(),
        };
    }
    at
}

/// The place of the key of `field`.
pub(super) fn key(node: &Node, field: &str) -> Range<usize> {
    node.entry(field).map_or_else(|| node.span.clone(), |entry| entry.key_span.clone())
}

struct Checker<'p> {
    problems: &'p mut Vec<Problem>,
}

impl Checker<'_> {
    fn say(&mut self, at: Range<usize>, message: impl Into<String>, label: impl Into<String>) {
        self.problems.push(Problem::new(at, message, label));
    }

    /// Problems that a type finds with its own fields, where nothing else is known to be wrong there already.
    fn fields<N: AsRef<str>>(&mut self, node: &Node, what: &str, wrong: Vec<(N, String)>) {
        for (field, right) in wrong {
            let field = field.as_ref();
            let at = place(node, field);
            let whole = field.split('.').try_fold(node, |node, part| node.get(part).map(|next| &**next));
            let whole = whole.map_or_else(|| at.clone(), |node| node.span.clone());
            if self.problems.iter().any(|known| whole.contains(&known.at.start) || known.at == at) {
                continue;
            }
            let name = if field.is_empty() { what.to_owned() } else { format!("{what}: {}", quoted(field)) };
            let message = match node.get(field.split('.').next().unwrap_or_default()) {
                None if !field.is_empty() => format!("{what} lacks what it needs"),
                _ => format!("{name} is not right"),
            };
            self.say(at, message, right);
        }
    }

    fn instance(&mut self, name: &str, node: &Node) {
        match name {
            "DelayDist" => {
                if let Some(dist) = read::<DelayDist>(node) {
                    self.fields(node, "the delay", dist.problems());
                }
            }
            "LengthDist" => {
                if let Some(dist) = read::<LengthDist>(node) {
                    self.fields(node, "the number of tokens", dist.problems());
                }
            }
            "Arrival" => {
                if let Some(arrival) = read::<Arrival>(node) {
                    self.fields(node, "the arrival of requests", arrival.problems());
                }
            }
            "Timeouts" => {
                if let Some(timeouts) = read::<Timeouts>(node) {
                    self.fields(node, "the timeouts", timeouts.problems());
                }
            }
            "PromptSource" => self.prompt(node),
            "Target" => self.target(node),
            "When" => self.matchers(node),
            "Load" => self.load(node),
            _ => {}
        }
    }

    fn prompt(&mut self, node: &Node) {
        let Some(prompt) = read::<PromptSource>(node) else { return };
        let start = node.entries().first().map_or_else(|| node.span.clone(), |entry| entry.key_span.clone());
        match (&prompt.tokens, &prompt.file) {
            (Some(_), Some(_)) => {
                let problem = Problem::new(
                    key(node, "file"),
                    "a prompt needs exactly one of `tokens` and `file`; found both",
                    "remove one of them",
                );
                self.problems.push(problem.also(key(node, "tokens"), "one is here already"));
            }
            (None, None) => self.say(
                start,
                "a prompt needs exactly one of `tokens` and `file`; found none",
                "add `tokens: {constant: 512}`, or `file:` with a file of JSON lines",
            ),
            _ => {}
        }
        let Some(prefix) = prompt.shared_prefix else { return };
        match &prompt.tokens {
            None => self.say(
                key(node, "sharedPrefix"),
                "`sharedPrefix` is for made-up prompts, and these come from a file",
                "remove it",
            ),
            Some(tokens) if tokens.longest().is_some_and(|longest| prefix > longest) => self.say(
                place(node, "sharedPrefix"),
                format!("the shared prefix of {prefix} tokens is longer than the longest prompt"),
                format!("at most {}", tokens.longest().unwrap_or_default()),
            ),
            Some(_) => {}
        }
    }

    fn load(&mut self, node: &Node) {
        self.headers(node);
        for entry in node.get("headers").map(|headers| headers.entries()).unwrap_or_default() {
            let text = entry.value.text().unwrap_or_default();
            for (column, _) in variables(text).into_iter().filter(|(_, name)| name.is_none()) {
                self.say(part(&entry.value, column, 2), "`${` is not closed", "write `${NAME}`");
            }
            // RFC 9110, 5.5: no control characters, but for the tab.
            if text.chars().any(|c| c.is_ascii_control() && c != '\t') {
                let message = format!("the header {} has a character that no header may", quoted(&entry.key));
                self.say(entry.value.span.clone(), message, "remove line ends and control characters");
            }
        }
        let api = node.get("api").and_then(|api| api.text());
        let model = node.get("model").and_then(|model| model.text());
        match (api, model) {
            (Some("other"), _) => {
                self.say(
                    place(node, "api"),
                    "no load can be made of the protocol `other`",
                    "a protocol to speak",
                );
            }
            (Some("triton-generate"), None) => self.say(
                place(node, "api"),
                "Triton's generate protocol has no list of models to take one from",
                "add `model:` to the load",
            ),
            (Some("triton-generate"), Some(model)) if !model.bytes().all(is_path) || model.is_empty() => {
                let message = format!("the model {} cannot be part of Triton's path", quoted(model));
                self.say(place(node, "model"), message, "letters, digits, dots, dashes");
            }
            _ => {}
        }
    }

    fn target(&mut self, node: &Node) {
        let Some(target) = read::<Target>(node) else { return };
        if let Some(url) = &target.url
            && let Err(why) = base_url(url)
        {
            self.say(
                place(node, "url"),
                format!("{} is no base URL of a server: {why}", quoted(url)),
                "such as http://127.0.0.1:8000",
            );
        }
    }

    fn matchers(&mut self, node: &Node) {
        let Some(when) = read::<When>(node) else { return };
        if let Some(method) = &when.method
            && (method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-'))
        {
            self.say(place(node, "method"), format!("{} is no HTTP method", quoted(method)), "such as POST");
        }
        if let Some(path) = &when.path
            && !path.starts_with(['/', '*'])
        {
            let right = format!("write /{path} or */{path}");
            self.say(place(node, "path"), format!("the path {} matches no request", quoted(path)), right);
        }
        self.headers(node);
    }

    fn headers(&mut self, node: &Node) {
        for entry in node.get("headers").map(|headers| headers.entries()).unwrap_or_default() {
            // The characters of a token: RFC 9110, 5.6.2.
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if entry.key.is_empty() || !entry.key.chars().all(token) {
                self.say(
                    entry.key_span.clone(),
                    format!("{} is no name of a header", quoted(&entry.key)),
                    "letters, digits and dashes",
                );
            }
        }
    }

    fn faults(&mut self, list: &Node, phases: Option<&(&Node, Phases)>) {
        let mut names: BTreeMap<&str, Range<usize>> = BTreeMap::new();
        for node in list.items() {
            if let Some(name_node) = node.get("name")
                && let Some(name) = name_node.text()
            {
                match names.get(name) {
                    None => drop(names.insert(name, name_node.span.clone())),
                    Some(first) => {
                        let problem = Problem::new(
                            name_node.span.clone(),
                            format!("two faults are called {}", quoted(name)),
                            "give it a name of its own: reports and seeds go by it",
                        );
                        self.problems.push(problem.also(first.clone(), "the first is here"));
                    }
                }
            }
            matchers::check(node, self.problems);
            if let Some(entry) = read::<FaultEntry>(node) {
                let kind = entry.fault.about().kind;
                if let Some(params) = node.get(kind) {
                    self.fields(params, &format!("`{kind}`"), entry.fault.problems());
                }
            }
            if let (Some((_, phases)), Some(node)) = (phases, node.get("when"))
                && let Some(when) = read::<When>(node)
            {
                self.window(node, &when, phases.fault);
            }
        }
        if let Some((node, phases)) = phases
            && phases.fault.0.is_zero()
            && !list.items().is_empty()
        {
            self.say(
                place(node, "fault"),
                "the fault phase is 0s long, so that no fault would ever fire",
                "how long the faults are armed, such as 60s",
            );
        }
    }

    fn window(&mut self, node: &Node, when: &When, phase: TimeSpan) {
        let zero = TimeSpan::default();
        if phase == zero {
            return;
        }
        let after = when.after.unwrap_or_default();
        if after >= phase {
            self.say(
                place(node, "after"),
                format!("the window opens after {after}, and the fault phase ends after {phase}"),
                format!("less than {phase}"),
            );
            return;
        }
        for field in ["for", "repeat"] {
            let span = if field == "for" { when.r#for } else { when.repeat };
            if span == Some(zero) {
                let message = format!("`when.{field}` is 0s, so that the fault would never fire");
                self.say(place(node, field), message, "more than 0s");
                return;
            }
        }
        let left = TimeSpan(phase.0 - after.0);
        let open = when.r#for.unwrap_or(left);
        if open > left {
            self.say(
                place(node, "for"),
                format!(
                    "the window ends after {}, and the fault phase after {phase}",
                    TimeSpan(after.0 + open.0)
                ),
                format!("at most {left}"),
            );
        }
        if let Some(ramp) = when.ramp
            && ramp > open
        {
            self.say(
                place(node, "ramp"),
                format!("the ramp of {ramp} is longer than the window, so that its value is never reached"),
                format!("at most {open}"),
            );
        }
        match (when.repeat, when.r#for) {
            (Some(_), None) => self.say(
                key(node, "repeat"),
                "`repeat` says when the window opens again, and without `for` it never shuts",
                "add `for:`, shorter than this",
            ),
            (Some(period), Some(length)) if period <= length => self.say(
                place(node, "repeat"),
                format!("the window opens again each {period}, and it is open for {length}: it never shuts"),
                format!("more than {length}"),
            ),
            _ => {}
        }
    }

    /// `for 60s`: longer than anybody would watch.
    fn hold(&mut self, node: &Node, hold: Duration, abort: bool, phases: &Phases) {
        let (what, watched) = match abort {
            true => {
                let all = [phases.warmup, phases.baseline, phases.fault, phases.recovery];
                ("the run", TimeSpan(all.iter().map(|phase| phase.0).sum()))
            }
            false => ("the fault phase", phases.fault),
        };
        if hold > watched.0 && !watched.0.is_zero() {
            let message = format!("{what} is over before {}", TimeSpan(hold));
            self.say(node.span.clone(), message, format!("at most `for {watched}`"));
        }
    }

    fn line(&mut self, node: &Node, abort: bool, phases: Option<&(&Node, Phases)>) {
        let Some(text) = node.text() else { return };
        let demand = match sla::parse(text) {
            Ok(line) => line.demand,
            Err(error) => {
                let at = part(node, error.column - 1, error.length);
                let label = match &error.suggestion {
                    Some(suggestion) => format!("did you mean `{suggestion}`?"),
                    None => "here".to_owned(),
                };
                self.say(at, error.message, label);
                return;
            }
        };
        let at = node.span.clone();
        let empty = |phase: TimeSpan| phase == TimeSpan::default();
        match demand {
            Demand::RecoversWithin(_) if abort => {
                self.say(
                    at,
                    "`recovers within` cannot end an experiment: faults are over by then",
                    "an SLA line",
                );
            }
            Demand::RecoversWithin(time) => {
                let Some((phases_node, phases)) = phases else { return };
                if empty(phases.recovery) {
                    let problem = Problem::new(
                        at,
                        "recovery cannot be seen without a recovery phase",
                        format!("it needs `phases.recovery` of {} or more", TimeSpan(time)),
                    );
                    self.problems.push(problem);
                } else if time > phases.recovery.0 {
                    let problem = Problem::new(
                        at.clone(),
                        format!("the recovery phase is over before {}", TimeSpan(time)),
                        format!("at most {}", phases.recovery),
                    );
                    self.problems.push(problem.also(place(phases_node, "recovery"), "it lasts this long"));
                }
                if empty(phases.baseline) {
                    self.say(
                        node.span.clone(),
                        "recovery is measured against a baseline, and the baseline phase is 0s long",
                        "it needs `phases.baseline`, such as 60s",
                    );
                }
            }
            Demand::Threshold { metric, operator, bound, hold, .. } => {
                if let (Some(hold), Some((_, phases))) = (hold, phases) {
                    self.hold(node, hold, abort, phases);
                }
                if matches!(bound, Bound::TimesBaseline(_))
                    && phases.is_some_and(|(_, phases)| empty(phases.baseline))
                {
                    self.say(
                        at.clone(),
                        "the line speaks of a baseline, and the baseline phase is 0s long",
                        "it needs `phases.baseline`, such as 60s",
                    );
                }
                if metric.less_is_better().is_some_and(|less| less == (operator.is_upper_bound() == abort)) {
                    let turned = match operator {
                        Operator::Less => ">",
                        Operator::LessOrEqual => ">=",
                        Operator::Greater => "<",
                        Operator::GreaterOrEqual => "<=",
                    };
                    let message = match abort {
                        true => format!("this would end the experiment while {metric} is good"),
                        false => format!("this demands that {metric} be bad"),
                    };
                    let symbol = operator.to_string();
                    let column = text.find(&symbol).map_or(0, |byte| text[..byte].chars().count());
                    self.say(part(node, column, symbol.len()), message, format!("did you mean `{turned}`?"));
                }
            }
        }
    }
}

/// The place of some characters of a text; of the whole text where the source does not have it letter by letter.
pub(super) fn part(node: &Node, column: usize, length: usize) -> Range<usize> {
    let Data::Text { text, verbatim: Some(start) } = &node.data else { return node.span.clone() };
    let byte = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(byte, _)| byte);
    start + byte(column)..start + byte(column + length)
}
