//! Tests the text of the pages of all answers, and compares their numbers with the JSON report.

#[path = "../../crates/report/src/html/page_tree.rs"]
mod page_tree;

use page_tree::{assert_harmless, text_lines};
use provoke::model::{Event, FORMAT, Host, Survey};
use provoke::report::{ExportOptions, Format, Report, export_report};
use provoke::state::State;
use provoke::store::{Journal, RunFolder};
use provoke::words;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

use crate::screens::answered_questions;

/// Returns reports of an answered question. The journal has no trials, so the pages have no pictures of single trials.
fn export(state: &State, folder: &Path, format: Format) -> String {
    let path = folder.join(format.name());
    let folder = RunFolder::create_run(Some(&path), folder).unwrap();
    let started = Event::RunStarted {
        format: FORMAT,
        version: "0.1.0".to_owned(),
        run: "20261122-035210-ecbc".to_owned(),
        plan: Box::new(state.plan.clone()),
        host: Host::default(),
        survey: Survey::default(),
        at: 1_763_704_800,
    };
    let mut journal = Journal::open_for_append(&folder.journal_path()).unwrap();
    journal.add_event(&started).unwrap();
    let report = Report {
        version: "0.1.0".to_owned(),
        ..Report::new(state, true)
    };
    let mut text = Vec::new();
    export_report(
        format,
        &folder,
        &report,
        &ExportOptions::default(),
        &mut text,
    )
    .unwrap();
    String::from_utf8(text).unwrap()
}

/// The numbers of a JSON report.
#[derive(Default)]
struct JsonNumbers {
    integers: BTreeSet<u64>,
    intervals: BTreeSet<String>,
}

impl JsonNumbers {
    fn add_value(&mut self, value: &Value) {
        match value {
            Value::Number(number) => self.integers.extend(number.as_u64()),
            Value::Array(values) => {
                if let [Value::Number(low), Value::Number(high)] = values.as_slice()
                    && let Some(ends) = low.as_f64().zip(high.as_f64())
                {
                    self.intervals.insert(words::format_interval(ends.into()));
                }
                for value in values {
                    self.add_value(value);
                }
            }
            Value::Object(fields) => {
                for value in fields.values() {
                    self.add_value(value);
                }
            }
            _ => {}
        }
    }
}

/// Sections whose numbers are computed from single trials, or that only the page has.
const OWN_NUMBERS: [&str; 2] = ["slots", "window"];

#[test]
fn the_page_of_every_verdict_has_the_numbers_of_the_json_report() {
    let folder = tempfile::tempdir().unwrap();
    let mut checked = 0;
    for (name, state) in answered_questions() {
        let place = folder.path().join(name);
        let page = export(&state, &place, Format::Html);
        let json: Value = serde_json::from_str(&export(&state, &place, Format::Json)).unwrap();
        let mut numbers = JsonNumbers::default();
        numbers.add_value(&json);
        let elements = assert_harmless(&page);
        let is_number = |(name, value): &(String, String)| name == "class" && value == "number";
        for cell in elements.iter().filter(|element| element.name == "td") {
            let text = cell.text.trim();
            if !cell.attributes.iter().any(is_number) {
                continue;
            }
            if let Ok(integer) = text.parse() {
                assert!(numbers.integers.contains(&integer), "{name}: {text}");
                checked += 1;
            }
            if text.contains(" to ")
                && text.ends_with('%')
                && !OWN_NUMBERS.contains(&&*cell.section)
            {
                // The interval before a fix is that of another run.
                let is_known = numbers.intervals.contains(text) || name.starts_with("confirm");
                assert!(is_known, "{name}: {text}");
                checked += 1;
            }
        }
    }
    assert!(checked > 200, "{checked}");
}

#[test]
fn the_page_of_every_verdict_reads_well() {
    let folder = tempfile::tempdir().unwrap();
    for (name, state) in answered_questions() {
        let page = export(&state, &folder.path().join(name), Format::Html);
        insta::assert_snapshot!(format!("page_{name}"), text_lines(&page));
    }
}
