//! What is said of a value of the wrong kind.

use super::diagnostic::Problem;
use super::shape::{Shape, Step};
use super::tree::{Data, Entry, Node};
use super::words::{describe, list, noun, one_of_keys};
use serde_json::Value;

impl<'n> Shape<'n> {
    /// A node of another kind than the schema wants: what it is, what is wanted, and where it can be told the line to
    /// write.
    pub(super) fn wrong_type(&mut self, node: &'n Node, want: &str, schema: &'n Value, name: Option<&str>) {
        let place = self.place();
        let kinds = one_of_keys(schema);
        let is_dist = matches!(name, Some("DelayDist" | "LengthDist"));
        let write = || self.write_instead(node, schema, name);
        let problem = match (want, &node.data) {
            (_, Data::Null) => {
                let problem =
                    Problem::new(self.handle(node), format!("{place} has no value"), describe(schema, want));
                let empty = want == "object" && schema.get("required").is_none() && kinds.is_empty();
                problem.help(match self.way.last() {
                    Some(Step::Key(Entry { key, .. })) if empty => {
                        format!(
                            "write `{key}: {{}}` where nothing else is to be said, or leave the field out"
                        )
                    }
                    Some(Step::Item(_)) => "give it a value, or take it out of the list".to_owned(),
                    _ => "give it a value, or leave the field out".to_owned(),
                })
            }
            ("number" | "integer", Data::OddNumber) => Problem::new(
                node.span.clone(),
                format!("{place} is no number to reckon with"),
                match want {
                    "integer" => format!("a whole number from 0 to {}", u64::MAX),
                    _ => "a finite number is wanted".to_owned(),
                },
            ),
            ("string", Data::Number(_) | Data::Bool(_) | Data::OddNumber) => Problem::new(
                node.span.clone(),
                format!("{place} is {} here, and text is wanted", node.noun()),
                match &node.data {
                    Data::OddNumber => "put it in quotes".to_owned(),
                    _ => format!("put it in quotes: \"{}\"", node.json()),
                },
            ),
            ("number" | "integer", Data::Text { text, .. }) => {
                let problem = Problem::new(
                    node.span.clone(),
                    format!("{place} is text, and a number is wanted"),
                    describe(schema, want),
                );
                let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
                match percent {
                    Some(percent) => problem.help(format!("write {} for {text}", percent / 100.0)),
                    None if text.parse::<f64>().is_ok() => problem.help("write it without quotes"),
                    None => problem,
                }
            }
            ("boolean", Data::Text { text, .. }) => {
                let problem = Problem::new(
                    node.span.clone(),
                    format!("{place} is text, and true or false is wanted"),
                    "write true or false",
                );
                match text.to_lowercase().as_str() {
                    "yes" | "on" | "y" | "true" => problem.help("write `true`, without quotes"),
                    "no" | "off" | "n" | "false" => problem.help("write `false`, without quotes"),
                    _ => problem,
                }
            }
            ("object", Data::Text { .. } | Data::Number(_)) if kinds.contains(&"constant") && is_dist => {
                let message = format!("{place} is {}, and a distribution is wanted", node.noun());
                Problem::new(node.span.clone(), message, format!("one of {}", list(&kinds)))
                    .maybe_help(write())
            }
            ("object", Data::Text { text, .. }) if kinds.contains(&text.as_str()) => {
                let message = format!("{place} names `{text}` with nothing that belongs to it");
                Problem::new(node.span.clone(), message, describe(schema, want)).maybe_help(write())
            }
            ("array", Data::Text { .. } | Data::Map(_) | Data::Number(_) | Data::Bool(_)) => {
                let message = format!("{place} is {}, and a list is wanted", node.noun());
                let label = "write each item on a line of its own that begins with `- `";
                Problem::new(self.handle(node), message, label).maybe_help(write())
            }
            ("string", Data::Map(entries)) if self.is_line() => Problem::new(
                self.handle(node),
                format!("{place} is a mapping, and a line of text is wanted"),
                "a metric, an operator and a value",
            )
            .maybe_help(entries.first().and_then(as_line).map(|line| format!("write `- {line}`"))),
            _ => Problem::new(
                self.handle(node),
                format!("{place} is {}, and {} is wanted", node.noun(), noun(want)),
                describe(schema, want),
            )
            .maybe_help(write()),
        };
        self.problems.push(problem);
    }

    /// Whether this is an item of `spec.sla` or `spec.abort`.
    fn is_line(&self) -> bool {
        matches!(self.way.as_slice(), [.., Step::Key(Entry { key, .. }), Step::Item(_)] if key == "sla" || key == "abort")
    }
}

/// `ttft p95: 800ms` as the line that it was meant to be.
fn as_line(entry: &Entry) -> Option<String> {
    let bound = match &entry.value.data {
        Data::Text { text, .. } => text.trim().to_owned(),
        Data::Number(number) => number.to_string(),
        _ => return None,
    };
    let operator = if bound.starts_with(['<', '>']) { "" } else { "< " };
    let line = format!("{} {operator}{bound}", entry.key);
    crate::sla::parse(&line).is_ok().then_some(line)
}
