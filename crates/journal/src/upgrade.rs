//! Reads the first line of a journal of format 1, in which a plan had no parts.

use provoke_model::{Event, FORMAT, parse_untrusted_json};
use serde_json::{Map, Value};

/// Beginning of a journal of format 1.
const FORMAT_1: &[u8] = br#"{"run_started":{"format":1,"#;

/// Fields of format 1 that are no longer directly in `trials`.
const GOAL: [&str; 5] = ["scenario", "question", "alpha", "expect", "earlier_checks"];
const SETTINGS: [&str; 10] = [
    "scratch",
    "timeout",
    "grace",
    "settle",
    "watch_engine",
    "capture",
    "cores",
    "no_cores",
    "keep",
    "keep_per_sig",
];

/// Parses an event of any format.
pub(super) fn parse_event(json: &[u8]) -> serde_json::Result<Event> {
    if !json.starts_with(FORMAT_1) {
        return Event::from_json(json);
    }
    let mut event: Value = parse_untrusted_json(json)?;
    if let Some(started) = event["run_started"].as_object_mut() {
        started.insert("format".to_owned(), FORMAT.into());
        if let Some(Value::Object(plan)) = started.get_mut("plan") {
            *plan = plan_in_parts(std::mem::take(plan));
        }
    }
    serde_json::from_value(event)
}

fn plan_in_parts(mut fields: Map<String, Value>) -> Map<String, Value> {
    let mut take = |names: &[&str]| -> Value {
        let moved = names.iter().filter_map(|name| fields.remove_entry(*name));
        Value::Object(moved.collect())
    };
    let (goal, settings) = (take(&GOAL), take(&SETTINGS));
    let conditions = take_conditions(&mut fields);
    let stop = fields.remove("stop").unwrap_or_default();
    fields.insert("conditions".to_owned(), conditions.into());
    fields.insert("settings".to_owned(), settings);
    let parts = [("goal", goal), ("stop", stop), ("trials", fields.into())];
    parts
        .map(|(name, part)| (name.to_owned(), part))
        .into_iter()
        .collect()
}

/// Takes the fields that are values of levers now.
fn take_conditions(fields: &mut Map<String, Value>) -> Map<String, Value> {
    let mut conditions = Map::new();
    for name in ["memory", "pids", "user"] {
        if let Some(value) = fields.remove(name) {
            conditions.insert(name.to_owned(), as_text(&value).into());
        }
    }
    if let Some(micros) = fields.remove("delay") {
        conditions.insert("delay".to_owned(), format!("{micros}us").into());
    }
    if let Some(Value::Array(limits)) = fields.remove("limits") {
        let limits = limits.iter().map(|limit| {
            let amount = match &limit["value"] {
                Value::Null => "unlimited".to_owned(),
                amount => as_text(amount),
            };
            format!("{}={amount}", as_text(&limit["resource"]))
        });
        let mut limits: Vec<String> = limits.collect();
        limits.sort();
        conditions.insert("rlimit".to_owned(), limits.join(",").into());
    }
    conditions
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or(value.to_string(), str::to_owned)
}
