//! Section of the results of the trials.

use super::source::{PageDetail, PageSource};
use super::table::{page_section, scrolling_table};
use crate::page_text::PageText;
use crate::{VariantReport, headlines};
use maud::{Markup, html};
use provoke_questions::DescribedVariants;
use provoke_stats::real;
use provoke_words as words;
use std::collections::BTreeMap;

/// Returns the number of trials by result; of several variants, only the trials that do not count.
pub(super) fn results_section(source: &PageSource<'_>, detail: &PageDetail) -> Option<Markup> {
    let report = source.report;
    if report.described_variants() != DescribedVariants::Each {
        return None;
    }
    let body = match report.variants.as_slice() {
        [variant] => tally_table(variant)?,
        variants => {
            let shown = variants.iter().take(detail.rows);
            let lines = shown.flat_map(|variant| {
                let lines = headlines::uncounted_lines(variant).into_iter();
                lines.map(|line| format!("{}: {line}.", variant.name))
            });
            let lines: Vec<String> = lines.collect();
            (!lines.is_empty())
                .then(|| html! { @for line in &lines { p.muted { (PageText(line)) } } })?
        }
    };
    Some(page_section("results", "Results", &body))
}

/// Returns the number of trials by result.
fn tally_table(variant: &VariantReport) -> Option<Markup> {
    if variant.kinds.is_empty() && variant.void_reasons.is_empty() {
        return None;
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
    Some(scrolling_table("Trials by result", &table))
}
