//! Returns tables of the trials by result, of their times, and of the failures by signature.

use super::shared_failures::shared_failures;
use super::{Durations, Report, VariantReport, captured_failures};
use provoke_model::EvidenceDepth;
use provoke_stats::real;
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, Row, Table, Tone};

/// Maximum length of a list of trials.
const LISTED: usize = 10;

/// Returns the number of trials by result, of each listed variant.
pub(super) fn results_table(report: &Report) -> Table {
    let columns = vec![
        Column::words("variant"),
        Column::words("result"),
        Column::numbers("trials"),
        Column::numbers("share"),
        Column::words("evidence"),
        Column::remarks("meaning"),
        Column::words("which"),
    ];
    let variants = report.listed_variants();
    let rows = variants.into_iter().flat_map(result_rows);
    Table::new("Trials by result", Place::Page, columns).with_rows(rows)
}

/// Returns a row for each result; none if all trials passed.
fn result_rows(variant: &VariantReport) -> Vec<Vec<Cell>> {
    if variant.kinds.is_empty() && variant.void_reasons.is_empty() {
        return Vec::new();
    }
    let row =
        |result: &str, count: u64, is_counted: bool, [evidence, meaning, which]: [&str; 3]| {
            let share = real(count) / real(variant.trials.max(1));
            let share = format!("{} %", words::format_percent(share));
            vec![
                Cell::text(&variant.name),
                Cell::text(result),
                Cell::text(count.to_string()),
                Cell::text(if is_counted && variant.trials > 0 {
                    share
                } else {
                    String::new()
                }),
                Cell::text(evidence),
                Cell::text(meaning),
                Cell::text(which),
            ]
        };
    let passed = row("passed", variant.trials - variant.failures, true, [""; 3]);
    let failed = variant.kinds.iter().map(|kind| {
        let aside = if kind.is_the_bug {
            ""
        } else {
            " (not the bug looked for)"
        };
        let meaning = format!("{}{aside}", kind.words);
        let trials = words::trial_list(&kind.trials, LISTED);
        let label = kind.label.as_deref().unwrap_or_default();
        row(
            &kind.outcome,
            kind.count,
            kind.is_the_bug,
            [label, &meaning, &trials],
        )
    });
    let uncounted = variant.void_reasons.iter();
    let uncounted =
        uncounted.map(|(reason, count)| row("inconclusive", *count, false, ["", reason, ""]));
    std::iter::once(passed)
        .chain(failed)
        .chain(uncounted)
        .collect()
}

/// Returns the failures of all variants by signature, if the evidence shows more than the exit status.
pub(super) fn failure_table(report: &Report) -> Table {
    let columns = vec![
        Column::words("failure"),
        Column::words("signature"),
        Column::numbers("count"),
        Column::words("variants"),
        Column::words("which"),
    ];
    let mut table = Table::new("Failures by signature", Place::Details, columns);
    for failure in shared_failures(&report.variants) {
        let signature = failure.signature;
        if signature.depth == EvidenceDepth::Status {
            continue;
        }
        table.rows.push(Row::Cells(vec![
            Cell::text(&signature.title),
            Cell::text(&signature.id),
            Cell::text(failure.trials.len().to_string()),
            Cell::text(failure.variant_names()),
            Cell::text(words::trial_list(&failure.trials, LISTED)),
        ]));
        let evidence = failure.most_frequent().group.describe_evidence(LISTED);
        let notes = evidence
            .into_iter()
            .map(|line| Row::Note(line, Tone::Plain));
        table.rows.extend(notes);
    }
    for failure in captured_failures(&report.variants) {
        let trials = words::trial_list(&failure.trials, LISTED);
        table.rows.push(Row::Cells(vec![
            Cell::text(&failure.signature.title),
            Cell::text(&failure.signature.id),
            Cell::Empty,
            Cell::text(failure.variant_names()),
            Cell::text(format!("extra trials {trials}")),
        ]));
    }
    table
}

/// Returns the times of passing and of failing trials, of each listed variant.
pub(super) fn times_table(report: &Report) -> Table {
    let columns = vec![
        Column::words("variant"),
        Column::words("result"),
        Column::numbers("median"),
        Column::numbers("90 % within"),
        Column::numbers("longest"),
    ];
    let variants = report.listed_variants().into_iter();
    let rows = variants.flat_map(|variant| {
        variant.times().map(|(result, times)| {
            let [p50, p90, max] = [times.p50, times.p90, times.max].map(words::format_seconds);
            let texts = [variant.name.clone(), result.to_owned(), p50, p90, max];
            texts.map(Cell::text).to_vec()
        })
    });
    Table::new("Times of trials", Place::Details, columns).with_rows(rows)
}

impl VariantReport {
    /// Returns the times of its trials by result.
    pub(super) fn times(&self) -> impl Iterator<Item = (&'static str, &Durations)> {
        let results = [("pass", "passed"), ("fail", "failed")];
        let times = |(name, result)| Some((result, self.durations.get(name)?));
        results.into_iter().filter_map(times)
    }
}
