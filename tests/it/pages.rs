//! Tests the text of the pages of all answers, and compares their numbers with the JSON report.

#[path = "../../crates/report/src/html/page_tree.rs"]
mod page_tree;

use page_tree::{assert_harmless, text_lines};
use provoke_model::Survey;
use provoke_report::{HTML, JSON, MaskedRun, PageOptions, RunOfTrend, RunOrder, export_trend};
use provoke_words as words;
use serde_json::Value;
use std::collections::BTreeSet;

use crate::answered::{RecordedRun, answered, answered_questions};
use crate::loop_and_fold::plan;

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
    for (name, run) in answered_questions() {
        let folder = run.write_folder(&folder.path().join(name));
        let page = run.export(&folder, &HTML);
        let json: Value = serde_json::from_str(&run.export(&folder, &JSON)).unwrap();
        let mut numbers = JsonNumbers::default();
        numbers.add_value(&json);
        let elements = assert_harmless(&page);
        let is_number = |(name, value): &(String, String)| name == "class" && value == "number";
        for cell in elements.iter().filter(|element| element.name == "td") {
            let text = cell.text.trim();
            if !cell.attributes.iter().any(is_number) {
                continue;
            }
            // Evidence has its threshold beside it.
            let counts = (cell.section == "candidates").then(|| text.split(" of "));
            let parts: Vec<&str> = counts.map_or_else(|| vec![text], Iterator::collect);
            for integer in parts.iter().filter_map(|part| part.parse().ok()) {
                assert!(numbers.integers.contains(&integer), "{name}: {text}");
                checked += 1;
            }
            if text.contains(" to ")
                && text.ends_with('%')
                && !OWN_NUMBERS.contains(&&*cell.section)
            {
                // The interval before a fix is that of another run; for `differ`, the JSON report has counts.
                let is_own = name.starts_with("confirm") || name == "differ";
                let is_known = numbers.intervals.contains(text) || is_own;
                assert!(is_known, "{name}: {text}");
                checked += 1;
            }
        }
    }
    assert!(checked > 150, "{checked}");
}

#[test]
fn the_page_of_every_verdict_reads_well() {
    let folder = tempfile::tempdir().unwrap();
    for (name, run) in answered_questions() {
        let folder = run.write_folder(&folder.path().join(name));
        let page = run.export(&folder, &HTML);
        insta::assert_snapshot!(format!("page_{name}"), text_lines(&page));
    }
}

/// Returns the page about several runs; the first one has a commit.
fn trend_page(mut runs: Vec<RecordedRun>, order: RunOrder) -> String {
    for (number, run) in (1..).zip(&mut runs) {
        run.state.origin.run = format!("20261122-03521{number}-ecbc");
    }
    let commit = "0123456789abcdef".to_owned();
    let facts = &mut runs[0].state.origin.survey.0;
    facts.insert(Survey::COMMIT.to_owned(), commit);
    let place = tempfile::tempdir().unwrap();
    let written: Vec<_> = runs
        .iter()
        .map(|run| {
            let path = place.path().join(&run.state.origin.run);
            (run.write_folder(&path), run.report())
        })
        .collect();
    let shown: Vec<RunOfTrend<'_>> = runs
        .iter()
        .zip(&written)
        .map(|(run, (folder, report))| RunOfTrend {
            run: MaskedRun::new(folder, report).unwrap(),
            state: &run.state,
        })
        .collect();
    let mut page = Vec::new();
    export_trend(&shown, order, &PageOptions::default(), &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

#[test]
fn the_page_of_several_runs_reads_well() {
    let rates = [0.0, 0.3, 0.1];
    let run = |rate: &f64| answered(&plan("runs = 100"), &[*rate]);
    let three = rates.iter().map(run).collect();
    let page = trend_page(three, RunOrder::Commit);
    insta::assert_snapshot!("trend_three", text_lines(&page));
    let two = rates[..2].iter().map(run).collect();
    let page = trend_page(two, RunOrder::Time);
    insta::assert_snapshot!("trend_two", text_lines(&page));
    let questions = answered_questions();
    let is_used = |name: &&str| ["run_always", "compare_rates", "confirm_fixed"].contains(name);
    let others = questions.into_iter().filter(|(name, _)| is_used(name));
    let page = trend_page(others.map(|(_, run)| run).collect(), RunOrder::Given);
    insta::assert_snapshot!("trend_not_comparable", text_lines(&page));
}
