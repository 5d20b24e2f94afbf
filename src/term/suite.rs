//! Draws the tests of a suite that failed: one row each, with their failures below.

use super::columns::Columns;
use super::screen::Screen;
use console::style;
use provoke_report::{CaseReport, CaseSelection, CaseVerdict, Report, SuiteReport};
use provoke_words as words;

/// Maximum number of tests on the first screen.
const SHOWN: usize = 20;
/// Minimum width of a terminal for a table; in a narrower one, each test has several lines.
const TABLE_WIDTH: usize = 90;
/// Maximum number of signatures of one test.
const SIGNATURES: usize = 3;

/// Writes the suite and the tests that failed.
pub(super) fn write_suite(
    screen: &mut Screen,
    suite: &SuiteReport,
    confidence: f64,
    reference: &str,
    width: Option<usize>,
) {
    screen.push_text(2, &words::sanitize_line(&suite.headline()));
    let failing: Vec<&CaseReport> = suite.failing().collect();
    if !failing.is_empty() {
        let shown = &failing[..failing.len().min(SHOWN)];
        write_cases(screen, shown, confidence, width);
    }
    if failing.len() > SHOWN {
        let rest = words::format_count((failing.len() - SHOWN) as u64, "more failing test");
        screen.push_text(
            2,
            &format!("and {rest}: provoke report {reference} --cases"),
        );
    }
    for line in suite.remaining_lines() {
        screen.push_text(2, &words::sanitize_line(&line));
    }
}

/// Returns the selected tests of every variant.
pub fn format_cases(report: &Report, selection: &CaseSelection, width: Option<usize>) -> String {
    let mut screen = Screen::new(width);
    for variant in &report.variants {
        let Some(suite) = &variant.suite else {
            continue;
        };
        screen.push_gap();
        let name = match variant.name.as_str() {
            "" => String::new(),
            name => format!("{name}: "),
        };
        screen.push_text(
            0,
            &words::sanitize_line(&format!("{name}{}", suite.headline())),
        );
        let cases: Vec<&CaseReport> = suite
            .cases
            .iter()
            .filter(|case| selection.includes_case(case))
            .collect();
        if cases.is_empty() {
            screen.push_text(2, "none of them matches");
            continue;
        }
        write_cases(&mut screen, &cases, report.confidence, width);
        for line in suite.remaining_lines() {
            screen.push_text(2, &words::sanitize_line(&line));
        }
    }
    screen.into_text()
}

/// Writes tests, as a table if the terminal is wide enough.
pub(super) fn write_cases(
    screen: &mut Screen,
    cases: &[&CaseReport],
    confidence: f64,
    width: Option<usize>,
) {
    if width.is_some_and(|width| width < TABLE_WIDTH) {
        for case in cases {
            write_narrow_case(screen, case);
        }
        return;
    }
    let interval_head = format!("{confidence} % interval");
    let heads = ["started", "failed", "rate", &interval_head].map(str::to_owned);
    let rows: Vec<[String; 4]> = cases.iter().map(|case| case_cells(case)).collect();
    let columns = Columns::fit_to(std::iter::once(&heads).chain(&rows), 0);
    let indent = 2 + columns.line_width() + 2;
    let head = format!("  {}  test", columns.line(&heads));
    screen.push_row(&style(head).dim().to_string());
    for (case, cells) in cases.iter().zip(&rows) {
        let name = words::sanitize_line(&case.name);
        let row = format!("  {}  {}", columns.line(cells), style(name).bold());
        screen.push_row(&row);
        write_failures(screen, case, indent);
    }
}

fn write_narrow_case(screen: &mut Screen, case: &CaseReport) {
    let name = words::sanitize_line(&case.name);
    screen.push_row(&format!("  {}", style(name).bold()));
    let [started, failed, rate, interval] = case_cells(case);
    let counts = format!("failed in {failed} of {started}: {rate} ({interval})");
    screen.push_text(4, &counts);
    write_failures(screen, case, 4);
}

fn case_cells(case: &CaseReport) -> [String; 4] {
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
    [
        case.trials.to_string(),
        case.failures.to_string(),
        rate,
        interval_text,
    ]
}

fn write_failures(screen: &mut Screen, case: &CaseReport, indent: usize) {
    let lines = case.signature_lines();
    for line in lines.iter().take(SIGNATURES) {
        let line = style(words::sanitize_line(line)).red();
        screen.push_text(indent, &line.to_string());
    }
    if lines.len() > SIGNATURES {
        let rest = lines.len() - SIGNATURES;
        screen.push_text(indent, &format!("and {rest} more signatures"));
    }
    for remark in case.remarks() {
        screen.push_text(indent, &words::sanitize_line(&remark));
    }
}
