//! Holds a tree against the JSON Schema: fields, types, ranges, one-of keys. All problems are collected, none stops it.

use super::diagnostic::{Problem, closest, quoted};
use super::tree::{Data, Entry, Node};
use super::words::{PATTERNS, first_sentence, list, near_time, one_of_keys};
use crate::fault::Fault;
use crate::units::TimeSpan;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::LazyLock;

/// Problems that are collected of one file.
const MOST_PROBLEMS: usize = 1000;

/// The most places that are named for a field that stands in none of them.
const MOST_HOLDERS: usize = 4;

/// The properties of a schema that names none.
pub(super) static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// A schema that says nothing.
static NOTHING: Value = Value::Null;

/// A step on the way from the root to a node.
#[derive(Clone, Copy)]
pub(super) enum Step<'n> {
    Key(&'n Entry),
    Item(usize),
}

/// A walk over a tree along a schema.
pub(super) struct Shape<'n> {
    pub(super) defs: &'n Map<String, Value>,
    pub(super) way: Vec<Step<'n>>,
    /// Whether errors show what was likely meant. Not while just that is tried.
    pub(super) guesses: bool,
    /// What is wrong.
    pub(super) problems: Vec<Problem>,
    /// The nodes that are instances of a named type, for those who know what it means.
    pub(super) instances: Vec<(&'n str, &'n Node)>,
}

impl<'n> Shape<'n> {
    /// Walks the whole tree under `root`.
    pub(super) fn walk(root: &'n Node, schema: &'n Value) -> Self {
        let defs = schema.get("$defs").and_then(Value::as_object).unwrap_or_else(|| &NONE);
        let mut shape =
            Self { defs, way: Vec::new(), guesses: true, problems: Vec::new(), instances: Vec::new() };
        shape.node(root, schema);
        shape
    }

    /// The schema that a `$ref` stands for, with the name of the type.
    pub(super) fn resolve(&self, schema: &'n Value) -> (&'n Value, Option<&'n str>) {
        let name = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|reference| reference.strip_prefix("#/$defs/"));
        match name.and_then(|name| Some((self.defs.get(name)?, name))) {
            Some((target, name)) => (target, Some(name)),
            None => (schema, None),
        }
    }

    /// Whether so much is wrong that more is of no use to anyone; keeps a hostile file from costing time.
    fn enough(&self) -> bool {
        self.problems.len() >= MOST_PROBLEMS
    }

    pub(super) fn node(&mut self, node: &'n Node, schema: &'n Value) {
        if self.enough() {
            return;
        }
        let (schema, name) = self.resolve(schema);
        if let Some(name) = name {
            self.instances.push((name, node));
        }
        if name == Some("TimeSpan") {
            return self.time_span(node, schema);
        }
        if schema.get("type").is_none()
            && let Some(Value::Array(branches)) = schema.get("oneOf")
        {
            return self.alternatives(node, schema, name, branches);
        }
        match (schema.get("type").and_then(Value::as_str), &node.data) {
            (Some("object"), Data::Map(entries)) => self.object(node, entries, schema, name),
            (Some("array"), Data::List(items)) => {
                if items.is_empty() && schema.get("minItems").is_some() {
                    self.say(node, format!("{} is empty", self.place()), "at least one is needed here");
                }
                for (i, item) in items.iter().enumerate() {
                    if let Some(schema) = schema.get("items") {
                        self.way.push(Step::Item(i));
                        self.node(item, schema);
                        self.way.pop();
                    }
                }
            }
            (Some("string"), Data::Text { text, .. }) => self.string(node, text, schema),
            (Some("boolean"), Data::Bool(_)) => {}
            (Some("number"), Data::Number(number)) => {
                self.range(node, number.as_f64().unwrap_or(f64::NAN), schema);
            }
            (Some("integer"), Data::Number(number)) => {
                if number.is_f64() {
                    self.say(node, format!("{} must be a whole number", self.place()), "not a whole number");
                } else {
                    self.range(node, number.as_f64().unwrap_or(f64::NAN), schema);
                }
            }
            (Some(want), _) => self.wrong_type(node, want, schema, name),
            (None, _) => self.anything(node),
        }
    }

    fn say(&mut self, node: &Node, message: String, label: impl Into<String>) {
        self.problems.push(Problem::new(node.span.clone(), message, label));
    }

    /// The current place as `spec.faults[2].when`, in quotes.
    pub(super) fn place(&self) -> String {
        let mut out = String::new();
        for step in &self.way {
            match step {
                Step::Key(entry) if out.is_empty() => out.push_str(&entry.key),
                Step::Key(entry) => drop(write!(out, ".{}", entry.key)),
                Step::Item(i) => drop(write!(out, "[{i}]")),
            }
        }
        if out.is_empty() { "the scenario".to_owned() } else { quoted(&out) }
    }

    /// Where a problem with the whole of the current node is shown: at its key, where it has one.
    pub(super) fn handle(&self, node: &Node) -> Range<usize> {
        match self.way.last() {
            Some(Step::Key(entry)) => entry.key_span.clone(),
            _ => node.span.clone(),
        }
    }

    /// A value of which nothing is said but that JSON can write it.
    fn anything(&mut self, node: &'n Node) {
        match &node.data {
            Data::OddNumber => self.wrong_type(node, "number", &NOTHING, None),
            Data::List(items) => items.iter().for_each(|item| self.anything(item)),
            Data::Map(entries) => entries.iter().for_each(|entry| self.anything(&entry.value)),
            _ => {}
        }
    }

    fn time_span(&mut self, node: &'n Node, schema: &'n Value) {
        let place = self.place();
        match &node.data {
            Data::Text { text, .. } => {
                if let Err(error) = text.parse::<TimeSpan>() {
                    let mut problem = Problem::new(
                        node.span.clone(),
                        format!("{place}: {error}"),
                        "such as 60ms, 10s or 1m30s",
                    );
                    if let Some(near) = near_time(text) {
                        problem = problem.help(format!("did you mean `{near}`?"));
                    }
                    self.problems.push(problem);
                }
            }
            Data::Number(number) => self.say(
                node,
                format!("{place} needs a unit, such as {number}ms"),
                format!("write {number}ms, {number}s or {number}m"),
            ),
            Data::Null => self.wrong_type(node, "string", schema, None),
            _ => self.say(
                node,
                format!("{place} is {}, and a length of time is wanted", node.noun()),
                "such as 60ms, 10s or 1m30s",
            ),
        }
    }

    /// A word or an object with one key, as `mode: one` or `mode: {percent: 50}`.
    fn alternatives(&mut self, node: &'n Node, schema: &'n Value, name: Option<&str>, branches: &'n [Value]) {
        let wanted = if matches!(node.data, Data::Map(_)) { "object" } else { "string" };
        let branch = branches.iter().find(|branch| branch.get("type").is_some_and(|kind| kind == wanted));
        let words: Vec<String> = branches
            .iter()
            .flat_map(|branch| {
                let words = branch.get("enum").and_then(Value::as_array).into_iter().flatten();
                let words = words.filter_map(Value::as_str).map(|word| format!("`{word}`"));
                words
                    .chain(one_of_keys(branch).into_iter().map(|key| format!("`{key}: ...`")))
                    .collect::<Vec<_>>()
            })
            .collect();
        match (branch, &node.data) {
            (Some(branch), Data::Map(entries)) => self.object(node, entries, branch, None),
            (Some(branch), Data::Text { text, .. }) => {
                let mut keys = branches.iter().flat_map(one_of_keys);
                match keys.find(|key| key == text) {
                    Some(key) => {
                        let message = format!("{} needs a number with `{text}`", self.place());
                        let problem = Problem::new(node.span.clone(), message, format!("`{key}: ...`"));
                        let write = self.write_instead(node, schema, name);
                        self.problems.push(problem.maybe_help(write));
                    }
                    None => self.string(node, text, branch),
                }
            }
            _ => {
                let message = format!("{} cannot be {}", self.place(), node.noun());
                let label = format!("one of {}", words.join(", "));
                let problem = Problem::new(self.handle(node), message, label);
                let help = self.write_instead(node, schema, name).unwrap_or_else(|| first_sentence(schema));
                self.problems.push(problem.help(help));
            }
        }
    }

    fn string(&mut self, node: &'n Node, text: &str, schema: &'n Value) {
        if let Some(Value::Array(words)) = schema.get("enum") {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            if !words.contains(&text) {
                let mut problem = Problem::new(
                    node.span.clone(),
                    format!("{} cannot be {}", self.place(), quoted(text)),
                    match words.as_slice() {
                        [only] => format!("it is always `{only}`"),
                        _ => format!("one of {}", list(&words)),
                    },
                );
                if let Some(close) = closest(text, words.iter().copied())
                    && words.len() > 1
                {
                    problem = problem.help(format!("did you mean `{close}`?"));
                }
                self.problems.push(problem);
            }
        }
        let length = text.chars().count() as u64;
        if schema.get("maxLength").and_then(Value::as_u64).is_some_and(|max| length > max) {
            let max = schema["maxLength"].as_u64().unwrap_or_default();
            self.say(node, format!("{} has {length} characters", self.place()), format!("at most {max}"));
        }
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && let Some(known) = PATTERNS.iter().find(|known| known.pattern == pattern)
            && !(known.fits)(text)
        {
            self.say(node, format!("{} cannot be {}", self.place(), quoted(text)), known.meaning);
        }
    }

    fn range(&mut self, node: &'n Node, number: f64, schema: &'n Value) {
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        let (min, max) = (bound("minimum"), bound("maximum"));
        let (above, below) = (bound("exclusiveMinimum"), bound("exclusiveMaximum"));
        let low = min.is_some_and(|min| number < min) || above.is_some_and(|min| number <= min);
        let high = max.is_some_and(|max| number > max) || below.is_some_and(|max| number >= max);
        if low || high || number.is_nan() {
            let label = match (min, max, above) {
                (Some(min), Some(max), _) => format!("from {min} to {max}"),
                (Some(min), None, _) if below.is_some() => {
                    format!("from {min} to less than {}", below.unwrap_or_default())
                }
                (Some(min), None, _) => format!("at least {min}"),
                (None, Some(max), None) => format!("at most {max}"),
                (None, max, Some(min)) => {
                    format!("more than {min}{}", max.map_or(String::new(), |max| format!(", at most {max}")))
                }
                (None, None, None) => "out of range".to_owned(),
            };
            let side = if low { "too small" } else { "too large" };
            let problem = Problem::new(node.span.clone(), format!("{} is {side}", self.place()), label);
            let percent = max.or(below) == Some(1.0) && number > 1.0 && number <= 100.0;
            self.problems.push(
                problem.maybe_help(percent.then(|| format!("write {} for {number} %", number / 100.0))),
            );
        }
    }

    fn object(&mut self, node: &'n Node, entries: &'n [Entry], schema: &'n Value, name: Option<&str>) {
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or_else(|| &NONE);
        let more = schema.get("additionalProperties");
        let present: BTreeSet<&str> = entries
            .iter()
            .map(|entry| entry.key.as_str())
            .filter(|key| properties.contains_key(*key))
            .collect();
        let mut unknown = false;
        for entry in entries {
            if self.enough() {
                return;
            }
            self.way.push(Step::Key(entry));
            match (properties.get(&entry.key), more) {
                (Some(property), _) => self.node(&entry.value, property),
                (None, Some(Value::Object(_))) => {
                    self.node(&entry.value, more.unwrap_or(&Value::Null));
                }
                (None, Some(Value::Bool(false))) => {
                    self.way.pop();
                    unknown = true;
                    let problem = self.unknown_field(entry, &present, properties, name);
                    self.problems.push(problem);
                    continue;
                }
                (None, _) => self.anything(&entry.value),
            }
            self.way.pop();
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for field in required.filter_map(Value::as_str) {
            if !present.contains(field) {
                let at = self.start(node);
                let label =
                    properties.get(field).map(|property| self.describe_field(property)).unwrap_or_default();
                let problem = Problem::new(at, format!("{} lacks `{field}`", self.place()), label);
                self.problems.push(problem.maybe_help(self.example_of(name, field)));
            }
        }
        self.exactly_one(node, entries, schema, name, unknown);
    }

    /// Where a problem with a whole mapping is shown: its key, or its first key.
    fn start(&self, node: &Node) -> Range<usize> {
        match (self.way.last(), node.entries().first()) {
            (Some(Step::Item(_)) | None, Some(first)) => first.key_span.clone(),
            _ => self.handle(node),
        }
    }

    fn exactly_one(
        &mut self,
        node: &'n Node,
        entries: &'n [Entry],
        schema: &Value,
        name: Option<&str>,
        unknown: bool,
    ) {
        let kinds = one_of_keys(schema);
        if kinds.is_empty() {
            return;
        }
        let what = match name {
            Some("FaultEntry") => "a fault needs exactly one kind".to_owned(),
            _ => format!("{} needs exactly one of {}", self.place(), list(&kinds)),
        };
        let found: Vec<&Entry> = entries.iter().filter(|entry| kinds.contains(&entry.key.as_str())).collect();
        match found.as_slice() {
            [_] => {}
            // The unknown field was likely meant to be the kind; it has its own message.
            [] if unknown => {}
            [] => {
                let at = self.start(node);
                let label = if name == Some("FaultEntry") {
                    format!("add one of {}", list(&kinds))
                } else {
                    "none is here".to_owned()
                };
                self.problems.push(Problem::new(at, format!("{what}; found none"), label));
            }
            [first, second, ..] => {
                let names: Vec<String> = found.iter().map(|entry| format!("`{}`", entry.key)).collect();
                let label = match name {
                    Some("FaultEntry") => "make it a fault of its own, with its own name",
                    _ => "remove one of them",
                };
                self.problems.push(
                    Problem::new(
                        second.key_span.clone(),
                        format!("{what}; found {}", names.join(" and ")),
                        label,
                    )
                    .also(first.key_span.clone(), "one is here already"),
                );
            }
        }
    }

    fn unknown_field(
        &self,
        entry: &Entry,
        present: &BTreeSet<&str>,
        properties: &'n Map<String, Value>,
        name: Option<&str>,
    ) -> Problem {
        let key = entry.key.as_str();
        let place = self.place();
        let what = if name == Some("FaultEntry") { "field or fault kind" } else { "field" };
        let known: Vec<&str> = properties.keys().map(String::as_str).collect();
        let open = known.iter().copied().filter(|known| !present.contains(known));
        let label =
            if known.len() > 12 { "unknown".to_owned() } else { format!("known are {}", list(&known)) };
        let problem =
            Problem::new(entry.key_span.clone(), format!("unknown {what} {} in {place}", quoted(key)), label);
        if key == "<<" {
            return problem.help("merge keys are no part of YAML 1.2: write the fields out");
        }
        if Fault::kind(key).is_some() {
            return problem
                .help(format!("`{key}` is a kind of fault: indent it like the `name:` of its fault"));
        }
        // A field one level too high, as `probability` beside `when`: better than a word that looks like it.
        let holders: Vec<&str> = properties
            .iter()
            .filter(|(_, schema)| {
                self.resolve(schema).0.get("properties").is_some_and(|below| below.get(key).is_some())
            })
            .map(|(holder, _)| holder.as_str())
            .collect();
        let here = holders.iter().find(|holder| present.contains(**holder));
        match (here, holders.as_slice()) {
            (Some(holder), _) | (None, [holder]) => problem.help(format!("`{key}` belongs under `{holder}`")),
            (None, [_, ..]) if holders.len() <= MOST_HOLDERS => {
                problem.help(format!("`{key}` belongs under one of {}", list(&holders)))
            }
            _ => match closest(key, open).or_else(|| closest(key, known.iter().copied())) {
                Some(close) => problem.help(format!("did you mean `{close}`?")),
                None if name == Some("FaultEntry") => {
                    problem.help("`brownout explain` lists the fault kinds")
                }
                None => problem,
            },
        }
    }

    fn describe_field(&self, property: &'n Value) -> String {
        let text = first_sentence(property);
        if text.is_empty() { first_sentence(self.resolve(property).0) } else { text }
    }
}
