//! Describes in plain words which value the schema expects.

use provoke_words as words;
use serde_json::Value;
use toml::de::DeValue;

/// Follows a reference within the schema.
pub(super) fn resolve_link<'a>(schema: &'a Value, node: &'a Value) -> &'a Value {
    match node.get("$ref").and_then(Value::as_str) {
        Some(link) => schema.pointer(link.trim_start_matches('#')).unwrap_or(node),
        None => node,
    }
}

fn shape_branches(shape: &Value) -> impl Iterator<Item = &Value> {
    let several = ["anyOf", "oneOf"]
        .into_iter()
        .filter_map(|name| shape[name].as_array());
    std::iter::once(shape).chain(several.flatten())
}

/// Returns the allowed types; empty if any type is allowed.
pub(super) fn allowed_types(shape: &Value) -> Vec<&str> {
    let mut types = Vec::new();
    for branch in shape_branches(shape) {
        match &branch["type"] {
            Value::String(name) => types.push(name.as_str()),
            Value::Array(names) => types.extend(names.iter().filter_map(Value::as_str)),
            _ if branch["const"].is_boolean() => types.push("boolean"),
            _ => {}
        }
    }
    types.dedup();
    types
}

/// Returns the allowed strings; empty if any string is allowed.
pub(super) fn allowed_texts(shape: &Value) -> Vec<&str> {
    let listed = shape_branches(shape)
        .filter_map(|branch| branch["enum"].as_array())
        .flatten();
    let single = shape_branches(shape).map(|branch| &branch["const"]);
    listed.chain(single).filter_map(Value::as_str).collect()
}

/// Returns the schema's name for the type of a value.
pub(super) fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "string",
        DeValue::Integer(_) => "integer",
        DeValue::Float(_) => "number",
        DeValue::Boolean(_) => "boolean",
        DeValue::Datetime(_) => "date",
        DeValue::Array(_) => "array",
        DeValue::Table(_) => "object",
    }
}

/// Describes an expected type.
pub(super) fn type_words(kind: &str) -> &'static str {
    match kind {
        "string" => "text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "`true` or `false`",
        "array" => "a list",
        "object" => "a table",
        _ => "a date",
    }
}

/// Joins quoted names, with `or` before the last one.
pub(super) fn list_alternatives(names: &[&str]) -> String {
    words::join_names("or", names.iter().map(|name| format!("`{name}`")))
}

/// Returns the purpose of a field, without the final period.
pub(super) fn field_purpose(node: &Value) -> Option<&str> {
    node["description"]
        .as_str()
        .map(|text| first_paragraph(text).trim_end_matches('.'))
}

/// Returns the short form of a description.
pub(super) fn first_paragraph(text: &str) -> &str {
    text.split_once("\n\n").map_or(text, |(first, _)| first)
}

/// Returns an example of a field and its purpose.
pub(super) fn field_example(field: &str, node: &Value, shape: &Value) -> String {
    let example = node["examples"].get(0).or_else(|| shape["examples"].get(0));
    let sample = match (example, allowed_types(shape).as_slice()) {
        (Some(sample), _) => toml::Value::try_from(sample)
            .map(|sample| sample.to_string())
            .ok(),
        (None, ["integer"]) => Some("1".to_owned()),
        (None, ["boolean"]) => Some("true".to_owned()),
        _ => None,
    };
    let purpose = field_purpose(node).or_else(|| field_purpose(shape));
    match (sample, purpose) {
        (Some(sample), Some(purpose)) => format!("for example `{field} = {sample}`: {purpose}"),
        (Some(sample), None) => format!("for example `{field} = {sample}`"),
        (None, Some(purpose)) => format!("`{field}`: {purpose}"),
        (None, None) => "see docs/scenario.md".to_owned(),
    }
}
