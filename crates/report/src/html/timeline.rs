//! Section of the trials in the order of their launch: each result, and the failure rate in windows.

use super::source::PageSource;
use super::table::page_section;
use super::trials::{ResultKind, TrialTotals};
use crate::page_text::PageText;
use crate::svg::{CELLS_PER_ROW, draw_cells, draw_column_bars, draw_swatch, draw_windows};
use crate::{Masked, RateWindow, Report, VariantReport};
use maud::{Markup, html};
use provoke_words as words;

/// Maximum number of columns of a strip.
pub(super) const COLUMNS: usize = 480;

/// Returns the results of the trials in the order of their launch.
pub(super) fn timeline_section(source: &PageSource<'_>) -> Option<Markup> {
    let (report, trials) = (source.report, &source.trials);
    let count = number_of_trials(trials);
    if count < 2 {
        return None;
    }
    let body = html! {
        (strip_figure(trials, count))
        @if let Some(windows) = windows_figure(report) { (windows) }
    };
    Some(page_section("time", "Over time", &body))
}

/// Returns the number of trials with a result.
pub(super) fn number_of_trials(trials: &TrialTotals) -> u64 {
    trials.kinds.iter().map(|kind| kind.count).sum()
}

/// Returns the results of all trials in words.
pub(super) fn describe_results(trials: &TrialTotals, count: u64) -> String {
    let results: Vec<String> = trials
        .kinds
        .iter()
        .filter(|kind| kind.count > 0)
        .map(|kind| format!("{} {}", kind.count, kind.name))
        .collect();
    format!(
        "Results of {} in the order of their launch: {}.",
        words::format_count(count, "trial"),
        results.join(", ")
    )
}

/// Returns the results of all trials: a cell each, or bars for columns of many trials.
fn strip_figure(trials: &TrialTotals, count: u64) -> Markup {
    let label = describe_results(trials, count);
    if let Some(cells) = trials.strip.cells() {
        let classes: Vec<&str> = trials.kinds.iter().map(|kind| kind.class).collect();
        let per_row = CELLS_PER_ROW.min(cells.len());
        return html! {
            figure {
                figcaption {
                    "Every trial in the order of its launch"
                    @if cells.len() > CELLS_PER_ROW { ", " (per_row) " in a row" }
                    "."
                }
                div.picture role="img" aria-label=(PageText(&label)) { (draw_cells(&cells, &classes)) }
                ul.legend {
                    @for (index, kind) in trials.kinds.iter().enumerate().filter(|(_, kind)| kind.count > 0) {
                        li { (draw_swatch(index, kind.class)) (PageText(&kind.name)) " " span.muted { (kind.count) } }
                    }
                }
            }
        };
    }
    let (columns, width) = trials.strip.columns(COLUMNS);
    let of_kind =
        |index: usize| -> Vec<u64> { columns.iter().map(|column| column[index]).collect() };
    let shown: Vec<(usize, &ResultKind)> = trials
        .kinds
        .iter()
        .enumerate()
        .filter(|(index, kind)| *index > 0 && kind.count > 0)
        .collect();
    html! {
        figure {
            figcaption {
                (words::format_count(count, "trial")) " in the order of their launch, " (width) " in a column. "
                @if shown.is_empty() { "All of them passed." }
                @else { "The height of a bar is the number of such trials; each row has its own scale." }
            }
            @if !shown.is_empty() {
                div.kinds role="img" aria-label=(PageText(&label)) {
                    @for (index, kind) in shown {
                        @let counts = of_kind(index);
                        span { (PageText(&kind.name)) " " span.muted { (kind.count) } }
                        (draw_column_bars(&counts, kind.class))
                        span.muted { "max " (counts.iter().max().copied().unwrap_or(0)) }
                    }
                }
            }
        }
    }
}

/// Returns the variant whose failure rate during the run is shown: the only one, if it has one.
pub(super) fn windowed_variant(report: Masked<&Report>) -> Option<&VariantReport> {
    match report.get().variants.as_slice() {
        [variant] if !variant.windows.is_empty() => Some(variant),
        _ => None,
    }
}

/// Returns a sentence about the change of the failure rate during the run.
fn trend_sentence(variant: &VariantReport) -> Option<String> {
    let trend = variant.trend?;
    let p_value = words::p_value(trend.p_value);
    Some(if trend.warns && trend.u > 0.0 {
        format!("The failure rate rose during the run (Laplace's trend test, {p_value}).")
    } else if trend.warns {
        format!("The failure rate fell during the run (Laplace's trend test, {p_value}).")
    } else {
        format!("The rate did not clearly change during the run (Laplace's trend test, {p_value}).")
    })
}

/// Returns the counts of windows in words.
pub(super) fn describe_windows(windows: &[RateWindow]) -> String {
    let counts: Vec<String> = windows
        .iter()
        .map(|window| format!("{} of {}", window.failures, window.trials))
        .collect();
    format!(
        "Failures in {} windows, in order: {}.",
        windows.len(),
        counts.join(", ")
    )
}

/// Draws the failure rate in windows of equal numbers of trials.
fn windows_figure(report: Masked<&Report>) -> Option<Markup> {
    let variant = windowed_variant(report)?;
    let windows = &variant.windows;
    let size = windows.first()?.trials;
    let trend = trend_sentence(variant);
    let label = describe_windows(windows);
    Some(html! {
        figure {
            figcaption {
                "Failure rate in windows of " (words::format_count(size, "trial")) ", each with its "
                (report.confidence) " % interval. Dashed line: the rate of the whole run. "
                @if let Some(trend) = trend { (trend) }
            }
            div.picture role="img" aria-label=(PageText(&label)) { (draw_windows(windows, variant.rate.point)) }
        }
    })
}
