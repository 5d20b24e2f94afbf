//! Section of a hunt: the lines of the window with their failures, and both sides of each race.

use super::source::{PageDetail, PageSource};
use super::table::{page_section, scrolling_table};
use crate::page_text::PageText;
use crate::svg::{PointShape, RateAxis, Whisker};
use maud::{Markup, html};
use provoke_questions::{Answer, RaceSide, StopRule, WindowLine};
use provoke_stats::real;
use provoke_words as words;

/// Maximum number of races.
const RACES: usize = 10;

/// Returns the window and the races of a hunt.
pub(super) fn hunt_section(source: &PageSource<'_>, detail: &PageDetail) -> Option<Markup> {
    let Some(Answer::Hunt(answer)) = &source.report.answer else {
        return None;
    };
    if answer.window.is_empty() && answer.races.is_empty() {
        return None;
    }
    let window: Vec<&WindowLine> = answer.window.iter().take(detail.rows).collect();
    let body = html! {
        @if !window.is_empty() {
            p { "For each line: the trials of the search that were to hold a thread before one of its instructions, and their failures." }
            (window_table(&window, 1.0 - source.report.confidence / 100.0))
        }
        @for race in answer.races.iter().take(RACES) {
            h3 { "Data race on " (words::format_count(u64::from(race.size), "byte")) ", unless both accesses are atomic operations, seen in trial " (race.trial) }
            (scrolling_table(&format!("Both sides of the data race of trial {}", race.trial), &html! {
                thead { tr { th scope="col" { "thread" } th scope="col" { "access" } th scope="col" { "line" } th scope="col" { "calls, innermost first" } } }
                tbody {
                    (side_row(&race.held, "held before it "))
                    (side_row(&race.other, "meanwhile "))
                }
            }))
        }
    };
    Some(page_section("window", "Window", &body))
}

fn window_table(window: &[&WindowLine], alpha: f64) -> Markup {
    let rows: Vec<(&WindowLine, [f64; 2])> = window
        .iter()
        .map(|line| {
            let interval = StopRule::PlannedN.interval(line.failures, line.trials, alpha);
            (*line, [interval.lo, interval.hi])
        })
        .collect();
    let axis = RateAxis::covering(rows.iter().map(|(_, interval)| *interval));
    let table = html! {
        thead { tr {
            th scope="col" { "line" }
            th.number scope="col" { "failed" }
            th.number scope="col" { "trials" }
            th.plot scope="col" { span.hidden { "picture" } (axis.draw()) }
            th scope="col" { "source" }
        } }
        tbody {
            @for (line, interval) in rows {
                @let label = format!("{} of {} failed, interval {}", line.failures, words::format_count(line.trials, "trial"), words::format_interval(interval));
                @let is_clean = line.failures == 0;
                tr {
                    th scope="row" { (PageText(&line_name(line))) }
                    td.number { (line.failures) }
                    td.number { (line.trials) }
                    td.plot {
                        (Whisker {
                            interval,
                            point: (!is_clean).then(|| real(line.failures) / real(line.trials.max(1))),
                            shape: if is_clean { PointShape::Hollow } else { PointShape::Filled },
                            limit: None,
                            label: &label,
                        }.draw(axis))
                    }
                    td.wide { @if let Some(text) = &line.text { code { (PageText(text.trim())) } } }
                }
            }
        }
    };
    scrolling_table("Failures by the line at which a thread was held", &table)
}

/// Returns `refcount.c:7`, or the function without a line.
fn line_name(line: &WindowLine) -> String {
    let file = line
        .file
        .as_deref()
        .map(|file| file.rsplit('/').next().unwrap_or(file));
    match (file, line.line, &line.function) {
        (Some(file), Some(number), _) => format!("{file}:{number}"),
        (_, _, Some(function)) => function.clone(),
        (file, ..) => file.unwrap_or("unknown").to_owned(),
    }
}

fn side_row(side: &RaceSide, when: &'static str) -> Markup {
    let line = match (&side.file, side.line) {
        (Some(file), Some(line)) => format!("{}:{line}", file.rsplit('/').next().unwrap_or(file)),
        _ => String::new(),
    };
    html! {
        tr {
            th scope="row" { (side.thread) }
            td { (when) @if side.writes { "writes" } @else { "reads" } }
            td { (PageText(&line)) }
            td.wide { code { (PageText(&side.stack.join(" < "))) } }
        }
    }
}
