//! Section of the failure rate: counts of results, and intervals on one axis.

use super::source::{PageDetail, PageSource};
use super::table::{left_out_note, page_section, scrolling_table};
use crate::page_text::PageText;
use crate::svg::{PointShape, RateAxis, Whisker};
use crate::{Masked, Report, VariantReport, headlines};
use maud::{Markup, html};
use provoke_questions::{Answer, StopRule};
use provoke_stats::real;
use provoke_words as words;
use std::collections::BTreeMap;

/// A failure rate beside others.
pub(super) struct RateRow {
    pub(super) name: String,
    pub(super) failures: u64,
    pub(super) trials: u64,
    pub(super) interval: [f64; 2],
    pub(super) point: Option<f64>,
    pub(super) shape: PointShape,
    /// The allowed rate.
    pub(super) limit: Option<f64>,
    pub(super) label: String,
}

impl RateRow {
    /// Draws the interval on an axis.
    pub(super) fn draw_whisker(&self, axis: RateAxis) -> Markup {
        Whisker {
            interval: self.interval,
            point: self.point,
            shape: self.shape,
            limit: self.limit,
            label: &self.label,
        }
        .draw(axis)
    }
}

/// Returns an axis for these rates and their limits.
pub(super) fn axis_of_rates<'a>(rows: impl IntoIterator<Item = &'a RateRow>) -> RateAxis {
    RateAxis::covering(rows.into_iter().flat_map(|row| {
        let limit = row.limit.map(|limit| [limit, limit]);
        std::iter::once(row.interval).chain(limit)
    }))
}

/// Returns the shape of the point of a measured rate.
fn shape_of_count(failures: u64) -> PointShape {
    if failures > 0 {
        PointShape::Filled
    } else {
        PointShape::Hollow
    }
}

/// Returns the counts and intervals of every variant; nothing for a question that has its own picture of them.
pub(super) fn rate_section(source: &PageSource<'_>, detail: &PageDetail) -> Option<Markup> {
    let report = source.report;
    let mut rows = rate_rows(report);
    let left_out = rows.len().saturating_sub(detail.rows);
    rows.truncate(detail.rows);
    if rows.is_empty() {
        return None;
    }
    let body = html! {
        (rate_picture(&rows))
        (left_out_note(left_out, "variant"))
        @match report.variants.as_slice() {
            [variant] => (tally_table(variant)),
            variants => {
                @for variant in variants.iter().take(detail.rows) {
                    @for line in headlines::uncounted_lines(variant) {
                        p.muted { (PageText(&variant.name)) ": " (PageText(&line)) "." }
                    }
                }
            }
        }
    };
    Some(page_section("rate", "How often", &body))
}

/// Returns the failure rates of a run; nothing for a question that has its own picture of them.
pub(super) fn rate_rows(report: Masked<&Report>) -> Vec<RateRow> {
    let limit = report.max_rate.as_ref().map(|check| check.allowed);
    let of_variant = |variant: &VariantReport| RateRow {
        name: variant.name.clone(),
        failures: variant.failures,
        trials: variant.trials,
        interval: variant.rate.interval(),
        point: variant.rate.point,
        shape: shape_of_count(variant.failures),
        limit,
        label: headlines::rate_headline(variant, report.confidence),
    };
    let variants = report.variants.iter().map(of_variant);
    match &report.answer {
        None => variants.collect(),
        Some(Answer::Confirm(answer)) => {
            let before = answer.baseline.as_ref().map(|baseline| {
                let (failures, trials) = (baseline.failures, baseline.trials);
                let alpha = 1.0 - report.confidence / 100.0;
                let interval =
                    StopRule::planned_interval(failures, trials, baseline.design_effect, alpha);
                let interval = [interval.lo, interval.hi];
                named_row("before", failures, trials, interval)
            });
            let now = variants.map(|row| RateRow {
                name: "now".to_owned(),
                ..row
            });
            before.into_iter().chain(now).collect()
        }
        Some(Answer::Hunt(answer)) => {
            let natural = answer.natural_interval.map(|interval| {
                let counts = answer.natural;
                named_row("plain", counts.failures, counts.trials, interval)
            });
            let control = answer.control_interval.map(|interval| {
                let counts = answer.control;
                named_row(
                    "traced without a hold",
                    counts.failures,
                    counts.trials,
                    interval,
                )
            });
            let held = answer
                .held
                .zip(answer.held_interval)
                .map(|(counts, interval)| {
                    named_row("with the hold", counts.failures, counts.trials, interval)
                });
            natural.into_iter().chain(control).chain(held).collect()
        }
        Some(_) => Vec::new(),
    }
}

fn named_row(name: &str, failures: u64, trials: u64, interval: [f64; 2]) -> RateRow {
    let share = real(failures) / real(trials.max(1));
    RateRow {
        name: name.to_owned(),
        failures,
        trials,
        interval,
        point: (failures > 0).then_some(share),
        shape: shape_of_count(failures),
        limit: None,
        label: format!(
            "{name}: {failures} of {} failed, interval {}",
            words::format_count(trials, "trial"),
            words::format_interval(interval)
        ),
    }
}

/// Draws the intervals below each other on one axis.
fn rate_picture(rows: &[RateRow]) -> Markup {
    let axis = axis_of_rates(rows);
    let limit = rows.iter().find_map(|row| row.limit);
    let named = rows.len() > 1;
    let table = html! {
        thead { tr {
            @if named { th.name scope="col" { span.hidden { "measured" } } }
            th.number scope="col" { "failed" }
            th.number scope="col" { "trials" }
            th.number scope="col" { "rate" }
            th.number scope="col" { "interval" }
            th.plot scope="col" { span.hidden { "picture" } (axis.draw()) }
        } }
        tbody {
            @for row in rows { tr {
                @if named { th scope="row" { (PageText(&row.name)) } }
                td.number { (row.failures) }
                td.number { (row.trials) }
                td.number { @if let Some(point) = row.point { (words::percent_within(point, row.interval)) " %" } @else { "–" } }
                td.number { (words::format_interval(row.interval)) }
                td.plot { (row.draw_whisker(axis)) }
            } }
        }
    };
    html! {
        table.rates { (table) }
        @if let Some(limit) = limit {
            p.muted { "Vertical line: the allowed rate of " (words::format_percent(limit)) " %." }
        }
    }
}

/// Returns the number of trials by result.
fn tally_table(variant: &VariantReport) -> Markup {
    if variant.kinds.is_empty() && variant.void_reasons.is_empty() {
        return html! {};
    }
    let mut outcomes: BTreeMap<(bool, &str), (u64, &str)> = BTreeMap::new();
    for kind in &variant.kinds {
        let words = kind.words.as_str();
        outcomes
            .entry((kind.is_the_bug, &kind.outcome))
            .or_insert((0, words))
            .0 += kind.count;
    }
    let mut failures: Vec<_> = outcomes.into_iter().collect();
    failures.sort_by_key(|((is_the_bug, _), (count, _))| std::cmp::Reverse((*is_the_bug, *count)));
    let passed = variant.trials - variant.failures.min(variant.trials);
    let share = |count: u64| {
        format!(
            "{} %",
            words::format_percent(real(count) / real(variant.trials.max(1)))
        )
    };
    let table = html! {
        thead { tr {
            th scope="col" { "result" }
            th.number scope="col" { "trials" }
            th.number scope="col" { "share" }
            th scope="col" { "meaning" }
        } }
        tbody {
            tr { th scope="row" { "passed" } td.number { (passed) } td.number { @if variant.trials > 0 { (share(passed)) } } td {} }
            @for ((is_the_bug, outcome), (count, meaning)) in failures {
                tr {
                    th scope="row" { (PageText(outcome)) }
                    td.number { (count) }
                    td.number { @if is_the_bug && variant.trials > 0 { (share(count)) } }
                    td.muted { (PageText(meaning)) @if !is_the_bug { " (not the bug looked for)" } }
                }
            }
            @for (reason, count) in &variant.void_reasons {
                tr { th scope="row" { "inconclusive" } td.number { (count) } td {} td.muted { (PageText(reason)) } }
            }
        }
    };
    scrolling_table("Trials by result", &table)
}
