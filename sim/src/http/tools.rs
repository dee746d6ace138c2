//! Tool calls: arguments that fit the tool's JSON schema, with the model's words in them.

use serde::Deserialize;
use serde_json::Value;

use super::error::ApiError;
use crate::answer::{Segment, Shape};
use crate::noise::join;

/// Bounds on what a schema may ask for.
const MAX_DEPTH: usize = 6;
const MAX_SEGMENTS: usize = 512;

/// A function the model may call: `{"name": ..., "parameters": {schema}}`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Function {
    pub(super) name: String,
    #[serde(default, alias = "input_schema")]
    pub(super) parameters: Value,
}

/// A chosen tool and the shape of its arguments.
pub(super) struct ToolCall {
    pub(super) name: String,
    pub(super) shape: Shape,
}

/// Calls the named function, or one picked by the prompt where any will do.
pub(super) fn choose(
    functions: &[Function],
    named: Option<&str>,
    prompt: &[u32],
) -> Result<ToolCall, ApiError> {
    let function = match named {
        Some(name) => functions.iter().find(|function| function.name == name).ok_or_else(|| {
            ApiError::invalid(format!("tool_choice names `{name}`, which is not among the tools"))
        })?,
        None => {
            let key = prompt.iter().fold(0, |hash, &token| join(hash, u64::from(token)));
            let at = key.checked_rem(functions.len() as u64);
            at.and_then(|at| functions.get(at as usize))
                .ok_or_else(|| ApiError::invalid("tool_choice asks for a call and there are no tools"))?
        }
    };
    let mut writer = SchemaWriter::default();
    writer.value(&function.parameters, 0);
    writer.flush();
    Ok(ToolCall { name: function.name.clone(), shape: Shape::Document(writer.segments) })
}

/// Walks a schema and writes a document that fits it.
#[derive(Default)]
struct SchemaWriter {
    segments: Vec<Segment>,
    pending: String,
}

impl SchemaWriter {
    fn value(&mut self, schema: &Value, depth: usize) {
        if let Some(options) =
            schema.get("enum").and_then(Value::as_array).filter(|options| !options.is_empty())
        {
            self.push(Segment::Choice(options.iter().map(Value::to_string).collect()));
            return;
        }
        if let Some(value) = schema.get("const") {
            self.pending.push_str(&value.to_string());
            return;
        }
        // A type may be a list such as ["string", "null"]: the first counts.
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
            kind => kind.and_then(Value::as_str),
        };
        let too_deep = depth >= MAX_DEPTH || self.segments.len() >= MAX_SEGMENTS;
        match kind {
            Some("string") => {
                self.pending.push('"');
                self.push(Segment::Word);
                self.pending.push(' ');
                self.push(Segment::Word);
                self.pending.push('"');
            }
            Some("integer" | "number") => self.push(Segment::Number),
            Some("boolean") => self.push(Segment::Choice(vec!["true".to_owned(), "false".to_owned()])),
            Some("null") => self.pending.push_str("null"),
            Some("array") => {
                self.pending.push('[');
                if let Some(items) = schema.get("items").filter(|_| !too_deep) {
                    self.value(items, depth + 1);
                }
                self.pending.push(']');
            }
            _ => {
                self.pending.push('{');
                let properties = schema.get("properties").and_then(Value::as_object);
                for (at, (name, property)) in properties.into_iter().flatten().enumerate() {
                    if too_deep {
                        break;
                    }
                    if at > 0 {
                        self.pending.push_str(", ");
                    }
                    self.pending.push_str(&Value::from(name.as_str()).to_string());
                    self.pending.push_str(": ");
                    self.value(property, depth + 1);
                }
                self.pending.push('}');
            }
        }
    }

    fn push(&mut self, segment: Segment) {
        self.flush();
        self.segments.push(segment);
    }

    /// Fixed text becomes tokens of about four characters, as a tokenizer would cut it.
    fn flush(&mut self) {
        let mut piece = String::new();
        for c in std::mem::take(&mut self.pending).chars() {
            piece.push(c);
            if piece.len() >= 4 {
                self.segments.push(Segment::Literal(std::mem::take(&mut piece)));
            }
        }
        if !piece.is_empty() {
            self.segments.push(Segment::Literal(piece));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_segments_of_a_schema_join_to_json_that_fits_it() {
        let parameters = json!({"type": "object", "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["C", "F"]},
            "flags": {"type": "array", "items": {"type": "boolean"}}, "deep": {"type": "object", "properties": {
                "note": {"type": ["string", "null"]}}}}});
        let functions = [Function { name: "weather".to_owned(), parameters }];
        let Ok(ToolCall { name, shape: Shape::Document(segments) }) = choose(&functions, None, &[1, 2])
        else {
            panic!("a call");
        };
        let text: String = segments
            .iter()
            .map(|segment| match segment {
                Segment::Literal(text) => text.clone(),
                Segment::Word => "river".to_owned(),
                Segment::Number => "7".to_owned(),
                Segment::Choice(of) => of[0].clone(),
            })
            .collect();
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(name, "weather");
        assert_eq!(
            value,
            json!({"city": "river river", "days": 7, "unit": "C", "flags": [true],
                   "deep": {"note": "river river"}})
        );
    }

    #[test]
    fn a_schema_nested_without_end_is_cut() {
        let mut schema = json!({"type": "string"});
        for _ in 0..100 {
            schema = json!({"type": "array", "items": schema});
        }
        let functions = [Function { name: "deep".to_owned(), parameters: schema }];
        let Ok(ToolCall { shape: Shape::Document(segments), .. }) = choose(&functions, Some("deep"), &[])
        else {
            panic!("a call");
        };
        assert!(segments.len() < 10);
    }
}
