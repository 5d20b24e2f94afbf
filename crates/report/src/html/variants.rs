//! Section of the variants of a comparison: their rates on one axis, and how they differ.

use super::rate::RateRow;
use super::source::{PageDetail, PageSource};
use super::table::{left_out_note, name_cell, page_section, scrolling_table};
use crate::page_text::PageText;
use crate::svg::{PointShape, RateAxis};
use crate::{Masked, Report, VariantReport, group_failures, headlines};
use maud::{Markup, html};
use provoke_model::CompareGoal;
use provoke_questions::{Answer, Comparison, VariantResult, VariantVerdict};
use provoke_stats::real;
use provoke_words as words;

/// From this number on, variants without a failure have their own table.
const MANY: usize = 8;

/// Returns the variants of a comparison.
pub(super) fn variants_section(source: &PageSource<'_>, detail: &PageDetail) -> Option<Markup> {
    let report = source.report;
    let Some(Answer::Compare(answer)) = &report.answer else {
        return None;
    };
    let left_out = report.variants.len().saturating_sub(detail.rows);
    let body = html! {
        p {
            "Each line is the " (report.confidence) " % interval of a failure rate. "
            @if answer.find == CompareGoal::Failing {
                "Filled: it fails. Hollow: it passed often enough. Tick: not known."
            }
        }
        (variants_tables(report, answer, detail))
        (left_out_note(left_out, "variant"))
        (factors_table(answer, detail))
        (contrasts_table(answer, detail))
    };
    Some(page_section("variants", "Variants", &body))
}

/// Returns a table of the variants. If many of them passed, these have their own table, which is folded.
fn variants_tables(report: Masked<&Report>, answer: &Comparison, detail: &PageDetail) -> Markup {
    let passed = |variant: &&VariantReport| {
        result_of(answer, variant).is_some_and(|result| result.standing.has_passed())
            && variant.failures == 0
    };
    let (passed, others): (Vec<&VariantReport>, Vec<&VariantReport>) =
        report.variants.iter().take(detail.rows).partition(passed);
    let tested = || report.variants.iter().filter(|variant| variant.trials > 0);
    let axis = RateAxis::covering(tested().map(|variant| variant.rate.interval()));
    let table = |variants: &[&VariantReport], label: &str| {
        let has_failures = variants
            .iter()
            .any(|variant| !variant.signatures.is_empty() || variant.trials == 0);
        let table = html! {
            thead { tr {
                th scope="col" { "variant" }
                th scope="col" { span.hidden { "result" } }
                th.number scope="col" { "failed" }
                th.number scope="col" { "trials" }
                th.number scope="col" { "interval" }
                th.plot scope="col" { span.hidden { "picture" } (axis.draw()) }
                th.number scope="col" { "median time" }
                @if has_failures { th scope="col" { "most frequent failure" } }
            } }
            tbody {
                @for variant in variants { (variant_row(variant, result_of(answer, variant), answer, axis, has_failures)) }
            }
        };
        scrolling_table(label, &table)
    };
    if passed.len() < MANY || others.is_empty() {
        let all: Vec<&VariantReport> = others.into_iter().chain(passed).collect();
        return table(&all, "Variants with their failure rates");
    }
    html! {
        (table(&others, "Variants with their failure rates"))
        details {
            summary { (passed.len()) " variants without a failure" }
            (table(&passed, "Variants without a failure"))
        }
    }
}

/// Returns the rate of a variant for a picture; `None` without a trial.
pub(super) fn variant_rate(variant: &VariantReport, answer: &Comparison) -> Option<RateRow> {
    if variant.trials == 0 {
        return None;
    }
    let standing = result_of(answer, variant).map(|result| result.standing);
    let shape = match standing {
        Some(VariantVerdict::Open | VariantVerdict::Untestable)
            if answer.find == CompareGoal::Failing =>
        {
            PointShape::Dash
        }
        Some(standing) if standing.has_passed() => PointShape::Hollow,
        _ if variant.failures == 0 => PointShape::Hollow,
        _ => PointShape::Filled,
    };
    let interval = variant.rate.interval();
    let label = format!(
        "{}: {} of {} failed, interval {}",
        variant.name,
        variant.failures,
        words::format_count(variant.trials, "trial"),
        words::format_interval(interval)
    );
    Some(RateRow {
        name: variant.name.clone(),
        failures: variant.failures,
        trials: variant.trials,
        interval,
        point: Some(real(variant.failures) / real(variant.trials)),
        shape,
        limit: answer.floor,
        label,
    })
}

fn result_of<'a>(answer: &'a Comparison, variant: &VariantReport) -> Option<&'a VariantResult> {
    let mut results = answer.variants.iter();
    results.find(|result| result.name == variant.name)
}

fn variant_row(
    variant: &VariantReport,
    result: Option<&VariantResult>,
    answer: &Comparison,
    axis: RateAxis,
    has_failures: bool,
) -> Markup {
    let standing = result.map(|result| result.standing);
    let word = match standing {
        // In a comparison of rates, this was not the question.
        Some(VariantVerdict::Open) if answer.find == CompareGoal::Different => "",
        Some(standing) => headlines::standing_word(standing, variant.failures),
        None => "",
    };
    let median = variant
        .durations
        .get("pass")
        .or_else(|| variant.durations.get("fail"));
    let rate = variant_rate(variant, answer);
    let groups = group_failures(variant);
    let why = result.and_then(|result| result.why.as_deref());
    html! {
        tr {
            (name_cell(&variant.name, &html! {}))
            td.standing { (word) }
            td.number { (variant.failures) }
            td.number { (variant.trials) }
            td.number { @if let Some(rate) = &rate { (words::format_interval(rate.interval)) } }
            td.plot {
                @if let Some(rate) = &rate { (rate.draw_whisker(axis)) }
            }
            td.number { @if let Some(median) = median { (words::format_seconds(median.p50)) } }
            @if has_failures {
                td.wide {
                    @if let Some(why) = why { span.muted { (PageText(why)) } }
                    @else if let Some(group) = groups.first() {
                        (PageText(&group.signature.title))
                        @if groups.len() > 1 { span.muted { ", and " (words::format_count(groups.len() as u64 - 1, "other signature")) } }
                    }
                }
            }
        }
    }
}

/// Returns the variants by setting.
fn factors_table(answer: &Comparison, detail: &PageDetail) -> Markup {
    if answer.factors.len() < 2 {
        return html! {};
    }
    let table = html! {
        thead { tr {
            th scope="col" { "setting" }
            th scope="col" { "value" }
            th.number scope="col" { "variants" }
            th.number scope="col" { "of them fail" }
            th.number scope="col" { "trials" }
            th.number scope="col" { "of them failed" }
        } }
        tbody {
            @for factor in &answer.factors {
                @for level in factor.levels.iter().take(detail.rows) {
                    tr {
                        th scope="row" { (PageText(&factor.name)) }
                        td { (PageText(&level.level)) }
                        td.number { (level.variants) }
                        td.number { (level.failing) }
                        td.number { (level.trials) }
                        td.number { (level.failures) }
                    }
                }
            }
        }
    };
    let rows: usize = answer
        .factors
        .iter()
        .map(|factor| factor.levels.len())
        .sum();
    html! {
        details open[rows <= MANY] {
            summary { "By setting" }
            (scrolling_table("Variants by setting", &table))
        }
    }
}

/// Returns the comparisons of two variants each.
fn contrasts_table(answer: &Comparison, detail: &PageDetail) -> Markup {
    if answer.contrasts.is_empty() {
        return html! {};
    }
    let table = html! {
        thead { tr {
            th scope="col" { "variant" }
            th scope="col" { "compared with" }
            th.number scope="col" { "pairs" }
            th.number scope="col" { "fails more often by" }
            th.number scope="col" { "evidence" }
            th scope="col" { "result" }
        } }
        tbody {
            @for contrast in answer.contrasts.iter().take(detail.rows) {
                tr {
                    th scope="row" { (PageText(&contrast.other)) }
                    td { (PageText(&contrast.reference)) }
                    td.number { (contrast.pairs) }
                    td.number { (contrast.describe_difference()) }
                    td.number { (words::format_number(contrast.evidence)) " of " (words::format_number(contrast.enough)) }
                    td { @if contrast.differs { strong { "differs" } } @else { "no difference found" } }
                }
            }
        }
    };
    html! {
        h3 { "Compared in pairs" }
        (scrolling_table("Comparisons of two variants", &table))
        (left_out_note(answer.contrasts.len().saturating_sub(detail.rows), "comparison"))
    }
}
