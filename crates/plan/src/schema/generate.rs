//! Generates the schema of scenario files from the types of the settings, and checks it.

use crate::Scenario;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// Generates the schema that [`SCENARIO_SCHEMA`](super::SCENARIO_SCHEMA) reads from a file.
fn generate_schema() -> Value {
    let mut schema = schemars::schema_for!(Scenario).to_value();
    tidy_schema(&mut schema);
    schema["title"] = json!("provoke scenario");
    schema
}

/// Adapts the schema of a Rust type to a TOML file: TOML has no null, a null default has no meaning, and editors do not
/// know the formats of Rust's integers.
fn tidy_schema(node: &mut Value) {
    match node {
        Value::Object(fields) => {
            unwrap_option(fields);
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = join_lines(text);
            }
            if fields.get("default").is_some_and(is_nothing) {
                fields.remove("default");
            }
            if let Some(format) = fields.remove("format")
                && fields.contains_key("minimum")
                && format == "uint32"
            {
                fields.insert("maximum".to_owned(), json!(u32::MAX));
            }
            fields.values_mut().for_each(tidy_schema);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy_schema),
        _ => {}
    }
}

fn unwrap_option(fields: &mut Map<String, Value>) {
    let null = json!({ "type": "null" });
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|name| name != "null");
        if let [single_type] = types.as_slice() {
            let only = single_type.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = fields.get_mut("anyOf")
        && choices.contains(&null)
    {
        choices.retain(|choice| *choice != null);
        if let [Value::Object(choice)] = choices.as_slice() {
            let only = choice.clone();
            fields.remove("anyOf");
            fields.extend(only);
        }
    }
}

/// Joins the lines of each paragraph of a comment.
fn join_lines(text: &str) -> String {
    let paragraphs = text
        .split("\n\n")
        .map(|paragraph| paragraph.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn in_repository(file: &str) -> std::path::PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(file)
}

/// Calls `act` for every object of the schema.
fn visit(node: &Value, act: &mut impl FnMut(&Map<String, Value>)) {
    match node {
        Value::Object(fields) => {
            act(fields);
            fields.values().for_each(|field| visit(field, act));
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, act)),
        _ => {}
    }
}

#[test]
fn the_checked_in_scenario_schema_is_up_to_date() {
    let now = generate_schema();
    // The file from which Cargo builds `SCENARIO_SCHEMA`.
    let file = in_repository("docs/scenario.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        let text = serde_json::to_string_pretty(&now).unwrap() + "\n";
        fs::write(&file, text).unwrap();
    }
    let then = fs::read_to_string(&file).unwrap_or_default();
    let then: Value = serde_json::from_str(&then).unwrap_or_default();
    let hint = "run the tests with UPDATE_SCHEMA=1 and look at what changed";
    assert!(then == now, "{hint}");
}

#[test]
fn every_field_has_a_description_and_other_fields_are_forbidden() {
    visit(&generate_schema(), &mut |node| {
        let Some(Value::Object(fields)) = node.get("properties") else {
            return;
        };
        assert_eq!(
            node["additionalProperties"],
            json!(false),
            "{:?}",
            fields.keys()
        );
        if node.contains_key("description") && !fields.contains_key("nofile") {
            for (name, field) in fields {
                assert!(field["description"].is_string(), "{name}");
            }
        }
    });
}

#[test]
fn the_schema_contains_no_null_and_no_rust_formats() {
    visit(&generate_schema(), &mut |node| {
        let text = Value::from(node.clone()).to_string();
        assert!(
            !text.contains("\"null\"") && !text.contains(":null") && !node.contains_key("format"),
            "{text}"
        );
    });
}

#[test]
fn the_reference_mentions_every_field() {
    let text = fs::read_to_string(in_repository("docs/scenario.md")).unwrap();
    visit(&generate_schema(), &mut |node| {
        if let Some(Value::Object(fields)) = node.get("properties") {
            // `provoke why --list` describes all conditions.
            let are_conditions = fields.contains_key("umask");
            for name in fields.keys().filter(|_| !are_conditions) {
                assert!(
                    text.contains(&format!("`{name}`")),
                    "`{name}` is not in docs/scenario.md"
                );
            }
        }
    });
}
