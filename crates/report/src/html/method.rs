//! Sections of the environment, and of how the numbers were measured.

use super::source::{PageDetail, PageSource};
use super::table::{document_table, fact_list, page_section, text_list};
use crate::page_text::PageText;
use crate::results_table::times_table;
use crate::variant_facts::{describe_machine, describe_origin, measurement_lines};
use crate::{IntervalBasis, Masked, Report, VariantReport};
use maud::{Markup, html};
use provoke_model::CaptureMode;
use provoke_words as words;
use provoke_words::capitalize_first;

/// Returns the machine, the versions, and the facts in which variants differ.
pub(super) fn environment_section(source: &PageSource<'_>) -> Markup {
    let report = source.report;
    let capture = match report.capture {
        CaptureMode::Auto => "in extra trials, which do not count",
        CaptureMode::Off => "never",
        CaptureMode::On => "in every trial",
        CaptureMode::Trace => "in every trial, under a tracer",
    };
    let mut facts = vec![
        ("Machine", describe_machine(&report)),
        ("Cores dumped", capture.to_owned()),
        ("Seed", report.seed.to_string()),
        (
            "Mean overhead",
            format!("{} a trial", words::format_seconds(report.overhead_seconds)),
        ),
    ];
    if source.options.with_host && !report.host.name.is_empty() {
        facts.insert(0, ("Host", report.host.name.clone()));
    }
    let builds: Vec<String> = source.issue.describe_builds().collect();
    let body = html! {
        (fact_list(&facts))
        @if !builds.is_empty() {
            details { summary { "Versions and builds" } (text_list(&builds)) }
        }
    };
    page_section("environment", "Environment", &body)
}

/// Returns how the numbers were measured, and what they rely on.
pub(super) fn method_section(source: &PageSource<'_>, detail: &PageDetail) -> Markup {
    let report = source.report;
    let several = report.variants.len() > 1;
    let lines = measurement_lines(&report, detail.rows);
    let assumptions: Vec<String> = report
        .document
        .iter()
        .flat_map(|document| &document.assumptions)
        .map(|assumption| capitalize_first(assumption))
        .collect();
    let body = html! {
        p {
            (interval_text(report)) " The confidence is " (report.confidence) " %."
            @if report.answer.is_none() {
                " They assume that the failure rate does not change over a longer time than the run; the run cannot show that."
            }
        }
        @if several {
            details {
                summary { "Trials of each variant" }
                (text_list(&lines))
                (document_table(&times_table(&report), detail.rows))
            }
        } @else { (text_list(&lines)) }
        @if !assumptions.is_empty() {
            h3 { "The answer assumes" }
            (text_list(&assumptions))
        }
        @if !source.issue.around.is_empty() {
            h3 { "Load and conditions" }
            (text_list(&source.issue.around))
        }
        p.muted { "docs/statistics.md of provoke explains the methods, docs/assumptions.md what would make them wrong." }
        p.muted { (PageText(&describe_origin(&report))) }
    };
    page_section("method", "How this was measured", &body)
}

/// Describes the kind of the intervals.
fn interval_text(report: Masked<&Report>) -> &'static str {
    let is_sequence = |variant: &VariantReport| variant.rate.basis == IntervalBasis::Cs;
    if report.variants.iter().any(is_sequence) {
        "Intervals are confidence sequences, which hold whenever a run is stopped, for any reason."
    } else {
        "Intervals are exact (Clopper-Pearson): the number of trials, or of failures, was planned."
    }
}
