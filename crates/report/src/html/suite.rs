//! Section of the tests of a suite: their rates on one axis, and the trials in which they failed.

use super::source::{PageDetail, PageSource};
use super::table::{document_table, left_out_note, page_section, text_list};
use crate::page_text::PageText;
use crate::svg::draw_case_dots;
use crate::{CaseReport, SuiteReport, VariantReport, case_table};
use maud::{Markup, html};

/// Maximum number of tests in the picture of trials.
const DOT_ROWS: usize = 60;

/// Returns the tests of each variant.
pub(super) fn suite_section(source: &PageSource<'_>, detail: &PageDetail) -> Option<Markup> {
    let report = source.report;
    let variants: Vec<(&VariantReport, &SuiteReport)> = report
        .listed_variants()
        .into_iter()
        .filter_map(|variant| Some((variant, variant.suite.as_ref()?)))
        .take(detail.rows)
        .collect();
    if variants.is_empty() {
        return None;
    }
    let body = html! {
        @for (variant, suite) in &variants {
            @if !variant.name.is_empty() { h3 { (PageText(&variant.name)) } }
            p { (PageText(&suite.headline())) "." }
            @let failing: Vec<&CaseReport> = suite.failing().collect();
            @if !failing.is_empty() { (document_table(&case_table(&failing, report.confidence), detail.rows)) }
            (dot_picture(suite, variant))
            (text_list(&suite.remaining_lines()))
        }
    };
    Some(page_section("tests", "Which tests", &body))
}

/// Returns a picture with a column for each trial in which a test failed, and a row for each test.
fn dot_picture(suite: &SuiteReport, variant: &VariantReport) -> Markup {
    let mut failing: Vec<&CaseReport> = suite.failing().collect();
    // A test that fails in every trial shows no relation to the others.
    failing.retain(|case| !case.failing_trials.is_empty());
    if failing.len() < 2 || variant.trials + variant.other < 2 {
        return html! {};
    }
    let left_out = failing.len().saturating_sub(DOT_ROWS);
    failing.truncate(DOT_ROWS);
    let rows: Vec<(&str, &[u64])> = failing
        .iter()
        .map(|case| (case.name.as_str(), case.failing_trials.as_slice()))
        .collect();
    let trials: u64 = rows
        .iter()
        .flat_map(|(_, trials)| trials.iter().copied())
        .max()
        .unwrap_or(0)
        .max(variant.trials + variant.other);
    html! {
        h3 { "Trials in which each test failed" }
        p.muted { "Each row is a test, each column a trial from 1 to " (trials) "; a mark is a failure. Tests with marks in the same columns fail together." }
        (draw_case_dots(&rows, trials))
        (left_out_note(left_out, "failing test"))
    }
}
