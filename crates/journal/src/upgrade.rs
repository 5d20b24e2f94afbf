//! Reads the first line of a journal of format 1, in which a plan had no parts.

use provoke_model::{Event, FORMAT, parse_untrusted_json};
use serde_json::{Map, Value};

/// Beginning of a journal of format 1.
const FORMAT_1: &[u8] = br#"{"run_started":{"format":1,"#;

/// Fields of format 1 that are no longer directly in `trials`.
const GOAL: [&str; 5] = ["scenario", "question", "alpha", "expect", "earlier_checks"];
const CONDITIONS: [&str; 5] = ["limits", "memory", "pids", "user", "delay"];
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
    let (goal, conditions, settings) = (take(&GOAL), take(&CONDITIONS), take(&SETTINGS));
    let stop = fields.remove("stop").unwrap_or_default();
    fields.insert("conditions".to_owned(), conditions);
    fields.insert("settings".to_owned(), settings);
    let parts = [("goal", goal), ("stop", stop), ("trials", fields.into())];
    parts
        .map(|(name, part)| (name.to_owned(), part))
        .into_iter()
        .collect()
}
