//! Section of the times of trials: quantiles, and the distributions of passing and failing trials.

use super::parts::{page_section, scrolling_table};
use super::source::PageSource;
use crate::report::Durations;
use crate::report::page_text::PageText;
use crate::report::svg::{EcdfCurve, TimeAxis, draw_ecdf};
use crate::words;
use maud::{Markup, html};

/// Minimum number of times of a picture.
const FEWEST: usize = 3;

/// Returns the times of passing and failing trials.
pub(super) fn durations_section(source: &PageSource<'_>) -> Option<Markup> {
    let several = source.report.variants.len() > 1;
    let rows: Vec<(&str, &str, &Durations)> = source
        .report
        .variants
        .iter()
        .flat_map(|variant| {
            ["pass", "fail"].into_iter().filter_map(|name| {
                let result = if name == "pass" { "passed" } else { "failed" };
                Some((variant.name.as_str(), result, variant.durations.get(name)?))
            })
        })
        .collect();
    // The table of variants has the times of each.
    if rows.is_empty() || several {
        return None;
    }
    let table = html! {
        thead { tr {
            th scope="col" { span.hidden { "result" } }
            th.number scope="col" { "median" }
            th.number scope="col" { "90 % within" }
            th.number scope="col" { "longest" }
        } }
        tbody {
            @for (_, result, times) in &rows { tr {
                th scope="row" { (result) }
                @for time in [times.p50, times.p90, times.max] { td.number { (words::format_seconds(time)) } }
            } }
        }
    };
    let body = html! {
        (distribution_figure(source, &rows))
        (scrolling_table("Times of trials", &table))
    };
    Some(page_section("durations", "Durations", &body))
}

/// Draws the distributions of the times.
fn distribution_figure(source: &PageSource<'_>, rows: &[(&str, &str, &Durations)]) -> Markup {
    let trials = &source.trials;
    let (passes, fails) = (
        trials.pass_times.cumulative_shares(),
        trials.fail_times.cumulative_shares(),
    );
    if passes.len() + fails.len() < FEWEST {
        return html! {};
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
    let medians: Vec<String> = rows
        .iter()
        .map(|(_, result, times)| {
            format!(
                "median of trials that {result}: {}",
                words::format_seconds(times.p50)
            )
        })
        .collect();
    let label = format!(
        "Distribution of the times of trials; {}.",
        medians.join("; ")
    );
    html! {
        figure {
            figcaption {
                "Share of the trials that took at most this long."
                @if !trials.hangs.is_empty() { " Marks at the top: trials that hung." }
            }
            div.picture role="img" aria-label=(PageText(&label)) { (draw_ecdf(&curves, &trials.hangs, axis)) }
        }
    }
}
