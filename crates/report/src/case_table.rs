//! Returns a table of the tests of a suite, with their failures.

use super::{CaseReport, CaseVerdict};
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, RateMark, Row, Table, Tone};

/// Maximum number of signatures of one test.
const SIGNATURES: usize = 3;

/// Returns a table of tests, with the failures of each below its row.
pub fn case_table(cases: &[&CaseReport], confidence: f64) -> Table {
    let columns = vec![
        Column::numbers("started"),
        Column::numbers("failed"),
        Column::numbers("rate").leaving(1),
        Column::numbers(format!("{confidence} % interval")).leaving(2),
        Column::rates(),
        Column::words("test"),
    ];
    let mut table = Table::new("Failures of each test", Place::Screen, columns);
    for case in cases {
        table.rows.push(Row::Cells(case_cells(case)));
        table.rows.extend(failure_notes(case));
    }
    table
}

fn case_cells(case: &CaseReport) -> Vec<Cell> {
    let interval = case.shown_interval();
    let rate = match (case.rate(), case.verdict) {
        (None, _) => String::new(),
        (Some(_), CaseVerdict::Passes) => "0 %".to_owned(),
        (Some(rate), _) => format!("{} %", words::percent_within(rate, interval)),
    };
    let interval_text = match case.verdict {
        CaseVerdict::NeverRan => String::new(),
        CaseVerdict::AlwaysFails => {
            format!("at least {} %", words::percent_at_least(interval[0]))
        }
        _ => words::format_interval(interval),
    };
    let counts = [case.trials, case.failures].map(|count| count.to_string());
    let picture = match case.verdict {
        CaseVerdict::NeverRan => Cell::Empty,
        _ => Cell::Rate(RateMark::of_share(case.failures, case.trials, interval)),
    };
    let texts = counts.into_iter().chain([rate, interval_text]);
    let name = Cell::text(&case.name);
    texts.map(Cell::text).chain([picture, name]).collect()
}

/// Returns the signatures of a test, and what a reader must know about its counts.
fn failure_notes(case: &CaseReport) -> Vec<Row> {
    let lines = case.signature_lines();
    let unshown = lines.len().saturating_sub(SIGNATURES);
    let more = (unshown > 0).then(|| format!("and {unshown} more signatures"));
    let remarks = more.into_iter().chain(case.remarks());
    let shown = lines.into_iter().take(SIGNATURES);
    shown
        .map(|line| Row::Note(line, Tone::Bad))
        .chain(remarks.map(|line| Row::Note(line, Tone::Plain)))
        .collect()
}
