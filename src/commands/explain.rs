//! `brownout explain`: what a fault kind does, its parameters, and what a run with it certifies.

use anyhow::{Result, bail};
use brownout_injector::Fault;
use brownout_injector::fault::{About, Acts, Layer};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// Width that running text is wrapped to.
const WIDTH: usize = 96;

/// Prints all kinds in a table, or all about one.
///
/// # Errors
/// A kind that does not exist.
pub(crate) fn run(kind: Option<&str>) -> Result<ExitCode> {
    let schema = brownout_injector::schema();
    let text = match kind {
        None => table(&schema),
        Some(name) => page(find(name)?, &schema),
    };
    // A reader that closes early (`| head`) has seen enough: that is no error.
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn find(name: &str) -> Result<&'static About> {
    if let Some(about) = Fault::kind(name) {
        return Ok(about);
    }
    match Fault::closest_kind(name) {
        Some(about) => bail!("there is no fault kind `{name}`; did you mean `{}`?", about.kind),
        None => bail!("there is no fault kind `{name}`; `brownout explain` lists them all"),
    }
}

/// All kinds, by layer, with a line each.
fn table(schema: &Value) -> String {
    let kinds = &schema["$defs"]["FaultEntry"]["properties"];
    let width = Fault::ALL.iter().map(|about| about.kind.len()).max().unwrap_or(0);
    let mut out = String::new();
    for layer in Layer::ALL {
        let here: Vec<&About> = Fault::ALL.iter().filter(|about| about.layer == layer).collect();
        if here.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{}: {}", layer.name(), layer.about());
        for about in here {
            let line = kinds[about.kind]["description"].as_str().unwrap_or_default();
            let mark = if about.acts == Acts::InTheProcess { '*' } else { ' ' };
            let _ = writeln!(out, "  {:width$} {mark} {line}", about.kind);
        }
        out.push('\n');
    }
    out.push_str("* acts in the process, under `brownout exec`; all others act on the wire, in the proxy.\n");
    out.push_str("`brownout explain KIND` tells all about one.\n");
    out
}

/// All about one kind.
fn page(about: &About, schema: &Value) -> String {
    let mut out = format!("{} ({})\n", about.kind, about.layer.name());
    for (head, text) in [
        ("What happens", about.meaning),
        ("Where it acts", about.acts.about()),
        ("What a passed run certifies", about.certifies),
        ("What it does not certify", about.does_not_certify),
    ] {
        let _ = write!(out, "\n{head}\n{}", wrapped(text, 2));
    }
    out.push_str("\nParameters\n");
    let definition = resolve(&schema["$defs"]["FaultEntry"]["properties"][about.kind], schema);
    match definition["properties"].as_object() {
        Some(fields) if !fields.is_empty() => parameters(definition, schema, 2, &mut out),
        _ => out.push_str("  none\n"),
    }
    out.push_str("\nExample\n");
    for line in about.example.lines() {
        let _ = writeln!(out, "  {line}");
    }
    out.push_str(match about.acts {
        Acts::OnTheWire => {
            "\nWhen it fires is said by `when`; without it, on every request of the fault phase.\n"
        }
        Acts::InTheProcess if about.needs_file() => {
            "\nWhich files it is about is said by `when.file`, and when it fires by the rest of `when`.\n"
        }
        Acts::InTheProcess => {
            "\nWhen it fires is said by `when`; without it, on every call of the fault phase.\n"
        }
    });
    out
}

fn resolve<'s>(node: &'s Value, schema: &'s Value) -> &'s Value {
    let name = node["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    name.map_or(node, |name| &schema["$defs"][name])
}

/// The fields of an object, each with its type, whether it must be given, and what it is.
fn parameters(object: &Value, schema: &Value, indent: usize, out: &mut String) {
    let required = object["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    // A one-of object's keys are its alternatives, of which none is required by itself.
    let one_of = object["oneOf"].is_array();
    for (name, field) in object["properties"].as_object().into_iter().flatten() {
        let definition = resolve(field, schema);
        let need = match &field["default"] {
            Value::Null if one_of => String::new(),
            Value::Null if required.iter().any(|known| known == name) => ", required".to_owned(),
            Value::Null => ", optional".to_owned(),
            Value::String(default) => format!(", default {default}"),
            default => format!(", default {default}"),
        };
        let _ = writeln!(out, "{:indent$}{name}: {}{need}", "", type_name(field, definition));
        let text = field["description"].as_str().or(definition["description"].as_str()).unwrap_or_default();
        out.push_str(&wrapped(text, indent + 4));
        let meanings =
            definition["markdownEnumDescriptions"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (word, meaning) in definition["enum"].as_array().into_iter().flatten().zip(meanings) {
            let text = format!("{}: {}", plain(word), plain(meaning));
            out.push_str(&wrapped(&text, indent + 4));
        }
        // Deep enough for all there are; a schema that contained itself would end here too.
        if definition["properties"].is_object() && indent < 16 {
            parameters(definition, schema, indent + 4, out);
        }
    }
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What may be written there, in words.
fn type_name(field: &Value, definition: &Value) -> String {
    if field["$ref"] == "#/$defs/TimeSpan" {
        return "time (as 250us, 60ms, 10s, 1m30s)".to_owned();
    }
    let bound = |key: &str| definition[key].as_f64();
    let range = match (bound("minimum"), bound("maximum").filter(|max| *max < f64::from(u32::MAX))) {
        (Some(min), Some(max)) => format!(" from {min} to {max}"),
        (Some(min), None) => format!(" from {min}"),
        (None, Some(max)) => format!(" up to {max}"),
        (None, None) => String::new(),
    };
    match plain(&definition["type"]) {
        "integer" => format!("whole number{range}"),
        "number" => format!("number{range}"),
        "boolean" => "true or false".to_owned(),
        "array" => "list of texts".to_owned(),
        "object" if definition["oneOf"].is_array() => "exactly one of these keys".to_owned(),
        "object" => "object".to_owned(),
        "string" if definition["enum"].is_array() => "one of these words".to_owned(),
        _ => "text".to_owned(),
    }
}

/// `text` in lines of at most [`WIDTH`] columns, each behind `indent` blanks.
fn wrapped(text: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            out.push('\n');
            column = 0;
        }
        if column == 0 {
            let _ = write!(out, "{:indent$}{word}", "");
            column = indent + length;
        } else {
            let _ = write!(out, " {word}");
            column += 1 + length;
        }
    }
    if column > 0 {
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_kind_once_with_a_line_of_its_own() {
        let table = table(&brownout_injector::schema());
        for about in Fault::ALL {
            let lines: Vec<&str> =
                table.lines().filter(|line| line.split_whitespace().next() == Some(about.kind)).collect();
            assert_eq!(lines.len(), 1, "{}: {table}", about.kind);
            assert!(lines[0].split_whitespace().count() > 3, "{lines:?}");
        }
    }

    #[test]
    fn a_page_has_all_parameters_and_fits_the_terminal() {
        let schema = brownout_injector::schema();
        for about in Fault::ALL {
            let page = page(about, &schema);
            let definition = resolve(&schema["$defs"]["FaultEntry"]["properties"][about.kind], &schema);
            // A kind without parameters has no properties.
            for name in definition["properties"].as_object().into_iter().flat_map(|fields| fields.keys()) {
                assert!(page.contains(&format!("\n  {name}: ")), "{name} is missing:\n{page}");
            }
            assert!(page.lines().all(|line| line.chars().count() <= WIDTH), "{page}");
        }
    }

    #[test]
    fn a_default_and_the_meaning_of_words_are_told() {
        let about = Fault::kind("truncate").expect("a kind");
        let page = page(about, &brownout_injector::schema());
        assert!(page.contains("afterTokens: whole number from 0, required"), "{page}");
        assert!(page.contains("finish: one of these words, default none"), "{page}");
        assert!(page.contains("length: With finish reason"), "{page}");
    }

    #[test]
    fn a_misspelt_kind_is_guessed() {
        let complaint = |name| find(name).expect_err("no such kind").to_string();
        assert!(complaint("slowtoken").contains("did you mean `slowTokens`?"));
        assert!(complaint("zzz").contains("`brownout explain` lists them all"));
    }
}
