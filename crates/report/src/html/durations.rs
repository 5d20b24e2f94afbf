//! Section of the times of trials: quantiles, and the distributions of passing and failing trials.

use super::source::PageSource;
use super::table::{document_table, page_section};
use super::trials::TrialTotals;
use crate::page_text::PageText;
use crate::results_table::times_table;
use crate::svg::{EcdfCurve, LabelledDrawing, TimeAxis, draw_ecdf};
use crate::{Masked, Report, VariantReport};
use maud::{Markup, html};
use provoke_words as words;

/// Minimum number of times of a picture.
const FEWEST: usize = 3;

/// Returns the times of passing and failing trials.
pub(super) fn durations_section(source: &PageSource<'_>) -> Option<Markup> {
    let table = times_table(&source.report);
    // The table of variants has the times of each.
    if table.is_empty() || source.report.variants.len() > 1 {
        return None;
    }
    let body = html! {
        (distribution_figure(source))
        (document_table(&table, table.rows.len()))
    };
    Some(page_section("durations", "Durations", &body))
}

/// Draws the distributions of the times; `None` with too few times.
pub(super) fn draw_distributions(trials: &TrialTotals) -> Option<LabelledDrawing> {
    let (passes, fails) = (
        trials.pass_times.cumulative_shares(),
        trials.fail_times.cumulative_shares(),
    );
    if passes.len() + fails.len() < FEWEST {
        return None;
    }
    let ends = [&passes, &fails].into_iter().flat_map(|steps| {
        let (first, last) = (steps.first(), steps.last());
        first.into_iter().chain(last).map(|(time, _)| *time)
    });
    let axis = TimeAxis::covering(ends.chain(trials.hangs.iter().copied()));
    let curve = |steps, class, label, label_share, label_is_left| EcdfCurve {
        class,
        label,
        label_share,
        label_is_left,
        steps,
    };
    let curves: Vec<EcdfCurve<'_>> = [
        (!passes.is_empty()).then(|| curve(&passes, "passes", "passed", 0.75, false)),
        (!fails.is_empty()).then(|| curve(&fails, "fails", "failed", 0.45, true)),
    ]
    .into_iter()
    .flatten()
    .collect();
    Some(draw_ecdf(&curves, &trials.hangs, axis))
}

/// Describes the times in words.
pub(super) fn describe_times(report: Masked<&Report>) -> String {
    let variants = report.get().variants.iter();
    let medians: Vec<String> = variants
        .flat_map(VariantReport::times)
        .map(|(result, times)| {
            format!(
                "median of trials that {result}: {}",
                words::format_seconds(times.p50)
            )
        })
        .collect();
    format!(
        "Distribution of the times of trials; {}.",
        medians.join("; ")
    )
}

/// Returns the distributions of the times as a figure.
fn distribution_figure(source: &PageSource<'_>) -> Markup {
    let Some(distributions) = draw_distributions(&source.trials) else {
        return html! {};
    };
    html! {
        figure {
            figcaption {
                "Share of the trials that took at most this long."
                @if !source.trials.hangs.is_empty() { " Marks at the top: trials that hung." }
            }
            div.picture role="img" aria-label=(PageText(&describe_times(source.report))) { (distributions) }
        }
    }
}
