//! Schema of scenario files, for editors and for provoke's own check.

#[cfg(test)]
mod describe;
#[cfg(test)]
mod generate;

use serde_json::Value;
use std::sync::LazyLock;

/// The JSON schema of a scenario file. A test generates the file from the types of the settings, so the program contains no
/// code for that.
pub static SCENARIO_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../scenario.schema.json");
    serde_json::from_str(text).expect("a test generated the schema")
});
