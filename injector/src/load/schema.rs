//! The JSON Schema of a scenario, from the types: for editors, for the reference, and for the check of a file.
//!
//! What schemars derives is correct; it is rewritten here into the few forms that editors complete well, that
//! Kubernetes accepts as a structural schema, and that [`super::shape`] walks: one-of keys become the properties of one
//! object of which exactly one is required, documented constants become an `enum`, and `null` is no value.

use crate::scenario::Scenario;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The JSON Schema (draft 2020-12) of a scenario file.
#[must_use]
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Scenario>().to_value();
    rewrite(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.insert("title".into(), "Brownout scenario".into());
        // Editors of Kubernetes resources complete these two; a default saves the typing.
        for (def, default) in [("ApiVersion", crate::scenario::API_VERSION), ("Kind", "Scenario")] {
            if let Some(Value::Object(def)) = root.get_mut("$defs").and_then(|defs| defs.get_mut(def)) {
                def.insert("default".into(), default.into());
            }
        }
    }
    schema
}

/// Rewrites a schema and all below it.
fn rewrite(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.values_mut().for_each(rewrite);
            drop_null(object);
            merge_one_of(object);
            // Whole numbers are written by schemars with their Rust width; the range says it in everyone's terms.
            if object.get("format").and_then(Value::as_str) == Some("uint32") {
                object.entry("maximum").or_insert(json!(u32::MAX));
            }
            if object.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
                object.remove("format");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        _ => {}
    }
}

/// A field that may be left out is left out, not null.
fn drop_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(any)) = object.get_mut("anyOf") {
        any.retain(|one| one.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = any.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
}

/// The `oneOf` that schemars makes of an enum, as one object or one `enum` where it is one.
fn merge_one_of(object: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = object.get("oneOf").cloned() else { return };
    let words: Vec<&Value> = branches.iter().filter(|branch| is_word(branch)).collect();
    let keys: Vec<&Value> = branches.iter().filter(|branch| single_key(branch).is_some()).collect();
    if words.len() + keys.len() != branches.len() {
        return;
    }
    let word_schema = (!words.is_empty()).then(|| word_schema(&words));
    let key_schema = (!keys.is_empty()).then(|| key_schema(&keys));
    object.remove("oneOf");
    match (word_schema, key_schema) {
        (Some(words), Some(keys)) => {
            object.insert("oneOf".into(), json!([words, keys]));
        }
        (Some(only), None) | (None, Some(only)) => {
            if let Value::Object(only) = only {
                object.extend(only);
            }
        }
        (None, None) => {}
    }
}

/// Whether a branch is one or several constants.
fn is_word(branch: &Value) -> bool {
    branch.get("const").is_some_and(Value::is_string) || branch.get("enum").is_some_and(Value::is_array)
}

/// The key and its schema, where a branch is an object of exactly one key.
fn single_key(branch: &Value) -> Option<(&String, &Value)> {
    let properties = branch.get("properties")?.as_object()?;
    let mut all = properties.iter();
    match (all.next(), all.next()) {
        (Some(one), None) => Some(one),
        _ => None,
    }
}

fn word_schema(words: &[&Value]) -> Value {
    let (mut values, mut descriptions) = (Vec::new(), Vec::new());
    for word in words {
        let description = word.get("description").cloned().unwrap_or_else(|| "".into());
        match (word.get("const"), word.get("enum")) {
            (Some(value), _) => {
                values.push(value.clone());
                descriptions.push(description);
            }
            (None, Some(Value::Array(all))) => {
                descriptions.extend(all.iter().map(|_| description.clone()));
                values.extend(all.iter().cloned());
            }
            _ => {}
        }
    }
    json!({"type": "string", "enum": values, "markdownEnumDescriptions": descriptions})
}

fn key_schema(branches: &[&Value]) -> Value {
    let (mut properties, mut one_of) = (Map::new(), Vec::new());
    for branch in branches {
        let Some((key, schema)) = single_key(branch) else { continue };
        let mut schema = schema.clone();
        if let (Value::Object(schema), Some(text)) = (&mut schema, branch.get("description")) {
            schema.insert("description".into(), text.clone());
        }
        properties.insert(key.clone(), schema);
        one_of.push(json!({"required": [key]}));
    }
    json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "oneOf": one_of,
    })
}
