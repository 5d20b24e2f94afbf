//! Schema of scenario files, for editors and for provoke's own check.

#[cfg(test)]
mod describe;
#[cfg(test)]
mod generate;

use crate::settings::{lever_schema, under_schema};
use provoke_levers::LEVERS;
use serde_json::Value;
use std::sync::LazyLock;

/// The JSON schema of a scenario file. A test generates the file from the types of the settings, so the program contains no
/// code for that. Levers that the file does not have yet are added.
pub static SCENARIO_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../scenario.schema.json");
    let mut schema: Value = serde_json::from_str(text).expect("a test generated the schema");
    schema["properties"]["under"] = under_schema();
    for lever in LEVERS.iter().filter(|lever| lever.flag.is_some()) {
        let property = &mut schema["properties"][lever.name];
        if property.is_null() {
            *property = lever_schema(lever);
        }
    }
    schema
});
