//! Reads the first line of a journal of format 1, in which a plan had no parts.

use provoke_model::{Event, FORMAT, parse_small_json};
use serde_json::{Map, Value};

/// Beginning of a journal of format 1.
const FORMAT_1: &[u8] = br#"{"run_started":{"format":1,"#;

/// Fields of format 1 that are no longer directly in `trials`.
const GOAL: [&str; 5] = ["scenario", "question", "alpha", "expect", "earlier_checks"];
const SETTINGS: [&str; 9] = [
    "scratch",
    "timeout",
    "grace",
    "settle",
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
    let mut event: Value = parse_small_json(json)?;
    if let Some(started) = event["run_started"].as_object_mut() {
        started.insert("format".to_owned(), FORMAT.into());
        if let Some(Value::Object(plan)) = started.get_mut("plan") {
            *plan = plan_in_parts(std::mem::take(plan));
        }
    }
    // A second parser of events, for values, would be a twentieth of the program.
    Event::from_json(&serde_json::to_vec(&event)?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::{Timeout, TrialConditions, TrialsPlan};
    use serde_json::json;
    use std::time::Duration;

    /// Returns the plan of a first line of format 1.
    fn trials_of(plan: &Value) -> serde_json::Result<TrialsPlan> {
        let line = json!({ "run_started": {
            "format": 1,
            "version": "0.1",
            "run": "old",
            "plan": plan,
            "host": provoke_model::Host::default(),
            "at": 0,
        }});
        // The format comes first, as in every journal of format 1.
        let fields = line["run_started"]
            .to_string()
            .replacen(r#""format":1"#, r#""old":1"#, 1);
        let line = format!(r#"{{"run_started":{{"format":1,{}}}"#, &fields[1..]);
        match parse_event(line.as_bytes())? {
            Event::RunStarted { format, plan, .. } => {
                assert_eq!(format, FORMAT);
                Ok(plan.trials)
            }
            other => panic!("{other:?}"),
        }
    }

    fn plan_of_format_1() -> Value {
        json!({
            "variants": [],
            "environment": [],
            "limits": [{ "resource": "nofile", "value": 64 }, { "resource": "as", "value": null }],
            "memory": 524_288_000,
            "pids": 64,
            "user": "nobody",
            "delay": 1_500_000,
            "timeout": { "after": 7_000_000 },
            "grace": 5_000_000,
            "settle": 2_000_000,
            "rules": provoke_model::Rules::default(),
            "stop": { "trials": 20 },
            "jobs": 1,
            "alpha": 50_000,
            "seed": 3,
            "keep": "fail",
            "keep_per_sig": 5,
        })
    }

    #[test]
    fn conditions_become_values_of_levers() {
        let trials = trials_of(&plan_of_format_1()).unwrap();
        let mut conditions = TrialConditions::default();
        for (lever, value) in [
            ("memory", "524288000"),
            ("pids", "64"),
            ("rlimit", "as=unlimited,nofile=64"),
            ("user", "nobody"),
            ("delay", "1500000us"),
        ] {
            conditions.set(lever, value.to_owned());
        }
        assert_eq!(trials.conditions, conditions);
        let timeout = Timeout::After(Duration::from_secs(7));
        assert_eq!(trials.settings.timeout, timeout);
    }

    #[test]
    fn a_damaged_plan_is_an_error() {
        for (field, value) in [
            ("stop", json!(7)),
            ("conditions", json!("no table")),
            ("settings", json!([])),
            ("limits", json!([7, { "resource": {} }])),
            ("alpha", json!("x")),
        ] {
            let mut plan = plan_of_format_1();
            plan[field] = value;
            let is_read = trials_of(&plan).is_ok();
            assert_eq!(is_read, !matches!(field, "stop" | "alpha"), "{field}");
        }
        assert!(trials_of(&json!(7)).is_err());
    }
}
