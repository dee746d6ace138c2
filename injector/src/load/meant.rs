//! What a value of the wrong form was likely meant to be, so that an error can show the line to write. Nothing is
//! shown that the schema would refuse again.

use super::shape::{NONE, Shape, Step};
use super::tree::{self, Data, Node};
use super::url::base_url;
use super::words::one_of_keys;
use crate::fault::Fault;
use crate::units::TimeSpan;
use serde_json::Value;

/// The longest line that is shown.
const LONGEST: usize = 160;

/// Values for the keys of which an object has exactly one, by the name of the type; the first is what a bare number or
/// text is taken for. Fault kinds have their own examples.
const EXAMPLES: [(&str, &str, &str); 14] = [
    ("Arrival", "poisson", "{rate: 20}"),
    ("Arrival", "constant", "{rate: 20}"),
    ("Arrival", "gamma", "{rate: 20, burstiness: 4}"),
    ("Arrival", "closed", "{concurrency: 8}"),
    ("DelayDist", "constant", "100ms"),
    ("DelayDist", "uniform", "{min: 50ms, max: 200ms}"),
    ("DelayDist", "normal", "{mean: 100ms, stddev: 20ms}"),
    ("DelayDist", "lognormal", "{median: 60ms, p99: 400ms}"),
    ("LengthDist", "constant", "512"),
    ("LengthDist", "uniform", "{min: 64, max: 512}"),
    ("LengthDist", "normal", "{mean: 256, stddev: 64}"),
    ("LengthDist", "zipf", "{max: 512, exponent: 1.1}"),
    ("Mode", "percent", "50"),
    ("Mode", "fixed", "1"),
];

/// The fields that a bare value is tried as, for types where that is not the first one that is required.
const FIELDS: [(&str, &[&str]); 4] = [
    ("Target", &["url"]),
    ("PromptSource", &["tokens", "file"]),
    ("When", &["probability", "path"]),
    ("Timeouts", &["request"]),
];

impl<'n> Shape<'n> {
    /// "write `key: value`", where it can be told what the node was meant to be.
    pub(super) fn write_instead(&self, node: &Node, schema: &'n Value, name: Option<&str>) -> Option<String> {
        if !self.guesses {
            return None;
        }
        let value = self.meant(&node.data, schema, name).filter(|value| value.len() <= LONGEST)?;
        Some(match self.way.last()? {
            Step::Key(entry) => format!("write `{}: {value}`", entry.key),
            Step::Item(_) => format!("write `- {value}`"),
        })
    }

    /// What `data` was likely meant to be, as one line of YAML that fits the schema.
    fn meant(&self, data: &Data, schema: &'n Value, name: Option<&str>) -> Option<String> {
        let (schema, name) = match self.resolve(schema) {
            (resolved, Some(name)) => (resolved, Some(name)),
            (schema, None) => (schema, name),
        };
        if name == Some("TimeSpan") {
            return match data {
                Data::Text { text, .. } => text.parse::<TimeSpan>().is_ok().then(|| text.clone()),
                Data::Number(number) => Some(format!("{number}s")),
                _ => None,
            };
        }
        let all: Vec<&'n Value> = match schema.get("oneOf") {
            Some(Value::Array(branches)) if schema.get("type").is_none() => branches.iter().collect(),
            _ => vec![schema],
        };
        all.into_iter().find_map(|schema| {
            let text = match schema.get("type")?.as_str()? {
                "array" => self.meant_list(data, schema.get("items")?),
                "object" => self.meant_object(data, schema, name),
                _ => flow(data),
            }?;
            self.fits(&text, schema).then_some(text)
        })
    }

    /// Whether the schema takes this line.
    fn fits(&self, text: &str, schema: &'n Value) -> bool {
        let (Some(root), problems) = tree::parse(text) else { return false };
        let mut shape =
            Shape { defs: self.defs, way: Vec::new(), guesses: false, problems, instances: Vec::new() };
        shape.node(&root, schema);
        shape.problems.is_empty()
    }

    fn meant_list(&self, data: &Data, items: &'n Value) -> Option<String> {
        // Faults under their names, as the keys of a mapping.
        if let (Data::Map(entries), (_, Some("FaultEntry"))) = (data, self.resolve(items))
            && entries
                .iter()
                .all(|entry| matches!(entry.value.data, Data::Map(_)) && Fault::kind(&entry.key).is_none())
        {
            let named = |entry: &tree::Entry| {
                let body = flow(&entry.value.data)?;
                Some(format!("{{name: {}, {}", plain(&entry.key), body.strip_prefix('{')?))
            };
            let all: Option<Vec<String>> = entries.iter().map(named).collect();
            return Some(format!("[{}]", all?.join(", ")));
        }
        Some(format!("[{}]", self.meant(data, items, None)?))
    }

    fn meant_object(&self, data: &Data, schema: &'n Value, name: Option<&str>) -> Option<String> {
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or_else(|| &NONE);
        let kinds = one_of_keys(schema);
        match data {
            Data::Map(entries)
                if name == Some("FaultEntry") && !entries.iter().any(|entry| entry.key == "name") =>
            {
                let kind = entries.iter().find(|entry| kinds.contains(&entry.key.as_str()))?;
                return Some(format!("{{name: {}, {}", dashed(&kind.key), flow(data)?.strip_prefix('{')?));
            }
            Data::Map(_) => return flow(data),
            Data::Text { text, .. } if kinds.contains(&text.as_str()) => {
                return match name {
                    Some("FaultEntry") => {
                        Some(format!("{{name: {}, {text}: {}}}", dashed(text), kind_example(text)?))
                    }
                    name => Some(format!("{{{text}: {}}}", example(name?, text)?)),
                };
            }
            Data::Text { .. } | Data::Number(_) | Data::Bool(_) => {}
            Data::Null | Data::OddNumber | Data::List(_) => return None,
        }
        if !kinds.is_empty() {
            let kind = EXAMPLES.iter().find(|(of, ..)| name == Some(*of))?.1;
            let text = match (name, data) {
                // A bare number is a delay in milliseconds, and any other time in seconds.
                (Some("DelayDist"), Data::Number(number)) => format!("{number}ms"),
                _ => self.meant(data, properties.get(kind)?, None)?,
            };
            return Some(format!("{{{kind}: {text}}}"));
        }
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let fields: Vec<&str> = match FIELDS.iter().find(|(of, _)| name == Some(*of)) {
            Some((_, fields)) => fields.to_vec(),
            None if required.is_empty() => properties.keys().map(String::as_str).collect(),
            None => required.clone(),
        };
        for field in fields {
            let value = match (name, data) {
                (Some("Target"), Data::Text { text, .. }) => {
                    Some(["", "http://"].map(|scheme| format!("{scheme}{text}")))
                        .and_then(|all| all.into_iter().find(|url| base_url(url).is_ok()))
                }
                _ => self.meant(data, properties.get(field)?, None),
            };
            let Some(value) = value else { continue };
            let mut all = vec![format!("{field}: {value}")];
            for other in required.iter().filter(|other| **other != field) {
                all.push(format!("{other}: {}", self.other_field(name, other)?));
            }
            return Some(format!("{{{}}}", all.join(", ")));
        }
        (required.is_empty() && matches!(data, Data::Bool(true))).then(|| "{}".to_owned())
    }

    /// The line that a missing field could be, after the examples of the type.
    pub(super) fn example_of(&self, name: Option<&str>, field: &str) -> Option<String> {
        self.other_field(name, field).map(|value| format!("such as `{field}: {value}`"))
    }

    /// What stands for a field that must be there too: what the examples of the type say.
    fn other_field(&self, name: Option<&str>, field: &str) -> Option<String> {
        let name = name?;
        let kind = name[..1].to_lowercase() + &name[1..];
        let (root, _) = tree::parse(kind_example(&kind)?);
        flow(&root?.get(field)?.data)
    }
}

fn example(of: &str, key: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|(name, one, _)| *name == of && *one == key).map(|(.., value)| *value)
}

/// The parameters of a fault kind's own example, which has them on one line.
fn kind_example(kind: &str) -> Option<&'static str> {
    let lines = Fault::kind(kind)?.example.lines();
    lines.map(str::trim_start).find_map(|line| line.strip_prefix(kind)?.strip_prefix(": "))
}

/// `httpError` as `http-error`.
fn dashed(word: &str) -> String {
    word.chars().fold(String::new(), |mut out, c| {
        if c.is_uppercase() {
            out.push('-');
        }
        out.extend(c.to_lowercase());
        out
    })
}

/// A text as it can stand in a flow collection: with quotes only where it needs some.
fn plain(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./:*".contains(c);
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(safe)
        && !text.ends_with(':')
        && tree::core_schema(text).is_none();
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

/// A value on one line; nothing for one that would be too long.
fn flow(data: &Data) -> Option<String> {
    let text = match data {
        Data::Text { text, .. } if text.parse::<TimeSpan>().is_ok() => text.clone(),
        Data::Text { text, .. } => plain(text),
        Data::List(items) if items.len() <= LONGEST => {
            let items: Option<Vec<String>> = items.iter().map(|item| flow(&item.data)).collect();
            format!("[{}]", items?.join(", "))
        }
        Data::Map(entries) if entries.len() <= LONGEST => {
            let entry =
                |entry: &tree::Entry| Some(format!("{}: {}", plain(&entry.key), flow(&entry.value.data)?));
            let entries: Option<Vec<String>> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries?.join(", "))
        }
        Data::List(_) | Data::Map(_) | Data::OddNumber => return None,
        Data::Null => "null".to_owned(),
        Data::Bool(is) => is.to_string(),
        Data::Number(number) => number.to_string(),
    };
    (text.len() <= LONGEST).then_some(text)
}
