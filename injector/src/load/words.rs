//! What the schema says, in words for messages.

use crate::units::TimeSpan;
use serde_json::Value;

/// The length of time that a text with a blank or a long unit was meant to be: `10 seconds`.
pub(super) fn near_time(text: &str) -> Option<String> {
    let text: String = text.to_lowercase().split_whitespace().collect();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let unit = match &text[digits..] {
        "sec" | "secs" | "second" | "seconds" => "s",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hr" | "hrs" | "hour" | "hours" => "h",
        "msec" | "msecs" | "millis" | "milliseconds" => "ms",
        "µs" | "μs" | "usec" | "micros" | "microseconds" => "us",
        unit @ ("h" | "m" | "s" | "ms" | "us" | "ns") => unit,
        _ => return None,
    };
    let near = format!("{}{unit}", &text[..digits]);
    near.parse::<TimeSpan>().is_ok().then_some(near)
}

/// A pattern of the schema, for those who have no use for a regular expression.
pub(super) struct Pattern {
    /// As the schema has it.
    pub(super) pattern: &'static str,
    /// Whether a text matches it.
    pub(super) fits: fn(&str) -> bool,
    /// What it means, in words.
    pub(super) meaning: &'static str,
}

/// All patterns of the schema; a test holds that none is missing.
pub(super) const PATTERNS: [Pattern; 3] = [
    Pattern {
        pattern: r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        fits: |text| is_name(text, true),
        meaning: "lower-case letters, digits, dashes and dots, with a letter or digit at both ends",
    },
    Pattern {
        pattern: r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        fits: |text| is_name(text, false),
        meaning: "lower-case letters, digits and dashes, with a letter or digit at both ends",
    },
    Pattern {
        pattern: r"^([0-9]+(\.[0-9]+)?(h|ms|m|us|ns|s))+$",
        fits: |text| text.parse::<TimeSpan>().is_ok(),
        meaning: "a length of time, such as 60ms",
    },
];

fn is_name(text: &str, dots: bool) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(letter)
        && text.ends_with(letter)
        && text.chars().all(|c| letter(c) || c == '-' || (dots && c == '.'))
}

/// The keys of which an object has exactly one.
pub(super) fn one_of_keys(schema: &Value) -> Vec<&str> {
    let branches = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    branches.filter_map(|branch| branch.get("required")?.get(0)?.as_str()).collect()
}

pub(super) fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

pub(super) fn first_sentence(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let end = text.find(". ").unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}

pub(super) fn describe(schema: &Value, want: &str) -> String {
    match first_sentence(schema) {
        text if text.is_empty() => format!("{} is wanted here", noun(want)),
        text => text,
    }
}

pub(super) fn noun(kind: &str) -> &str {
    match kind {
        "object" => "a mapping",
        "array" => "a list",
        "string" => "text",
        "boolean" => "true or false",
        "integer" => "a whole number",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests {
    use super::PATTERNS;
    use serde_json::Value;

    /// The walk over a tree knows these and no others; a schema that says more would be believed to be checked.
    const KNOWN: [&str; 19] = [
        "$defs",
        "$ref",
        "$schema",
        "additionalProperties",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "markdownEnumDescriptions",
        "maxLength",
        "maximum",
        "minItems",
        "minimum",
        "oneOf",
        "pattern",
        "properties",
        "required",
        "title",
    ];

    fn visit(schema: &Value, found: &mut dyn FnMut(&str, &Value)) {
        match schema {
            Value::Object(object) => {
                for (word, value) in object {
                    found(word, value);
                    match word.as_str() {
                        "properties" | "$defs" => {
                            value
                                .as_object()
                                .into_iter()
                                .flatten()
                                .for_each(|(_, schema)| visit(schema, found));
                        }
                        "default" | "enum" | "required" | "markdownEnumDescriptions" => {}
                        _ => visit(value, found),
                    }
                }
            }
            Value::Array(all) => all.iter().for_each(|schema| visit(schema, found)),
            _ => {}
        }
    }

    #[test]
    fn every_word_of_the_schema_is_understood() {
        visit(&crate::schema(), &mut |word, value| {
            assert!(
                word == "type" || word.starts_with("exclusiveM") || KNOWN.contains(&word),
                "{word}: {value}"
            );
            if word == "pattern" {
                let known = PATTERNS.iter().any(|known| Some(known.pattern) == value.as_str());
                assert!(known, "the pattern {value} has no meaning in words");
            }
            if word == "format" {
                assert!(value == "double" || value == "float", "the format {value} is not checked");
            }
        });
    }
}
