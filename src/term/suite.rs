//! Shows the tests of a suite that failed.

use super::document::push_lines;
use super::screen::Screen;
use super::table::push_table;
use provoke_report::{CaseReport, CaseSelection, Report, SuiteReport, case_table};
use provoke_words as words;

/// Maximum number of tests on the first screen.
const SHOWN: usize = 20;

/// Writes the suite and the tests that failed.
pub(super) fn write_suite(
    screen: &mut Screen,
    suite: &SuiteReport,
    confidence: f64,
    reference: &str,
) {
    screen.push_text(2, &words::sanitize_line(&suite.headline()));
    let failing: Vec<&CaseReport> = suite.failing().collect();
    if !failing.is_empty() {
        let shown = &failing[..failing.len().min(SHOWN)];
        push_table(screen, &case_table(shown, confidence));
    }
    if failing.len() > SHOWN {
        let rest = words::format_count((failing.len() - SHOWN) as u64, "more failing test");
        screen.push_text(
            2,
            &format!("and {rest}: provoke report {reference} --cases"),
        );
    }
    push_lines(screen, &suite.remaining_lines());
}

/// Returns the selected tests of every variant.
pub fn format_cases(report: &Report, selection: &CaseSelection, width: Option<usize>) -> String {
    let mut screen = Screen::new(width);
    for variant in report.listed_variants() {
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
        push_table(&mut screen, &case_table(&cases, report.confidence));
        push_lines(&mut screen, &suite.remaining_lines());
    }
    screen.into_text()
}
