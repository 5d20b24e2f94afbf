//! Sections of a service under load: the levels of a ramp, the steps of a smaller load, latencies and deaths.

use super::rate::RateRow;
use super::source::{PageDetail, PageSource};
use super::table::{page_section, scrolling_table, text_list};
use crate::LoadTotals;
use crate::bars::count_ranges;
use crate::page_text::PageText;
use crate::svg::{PointShape, RateAxis, draw_count_bars};
use maud::{Markup, html};
use provoke_model::LoadGoal;
use provoke_questions::{Answer, AnswerText as _, LoadLevelReport, Shrinking, Threshold};
use provoke_stats::real;
use provoke_words as words;

/// Maximum number of kinds of requests.
const KINDS: usize = 20;

/// Returns the levels of load, or the steps of a smaller load.
pub(super) fn levels_section(source: &PageSource<'_>, detail: &PageDetail) -> Option<Markup> {
    match &source.report.answer {
        Some(Answer::Ramp(answer)) => Some(page_section(
            "levels",
            "Load levels",
            &levels(answer, detail),
        )),
        Some(Answer::Shrink(answer)) => Some(page_section(
            "smaller",
            "Smaller loads",
            &smaller_loads(answer, detail),
        )),
        _ => None,
    }
}

fn levels(answer: &Threshold, detail: &PageDetail) -> Markup {
    let tested = || {
        answer
            .levels
            .iter()
            .take(detail.rows)
            .filter(|level| level.trials > 0 || level.untestable.is_some())
    };
    let intervals = tested().filter_map(|level| level.interval);
    let axis = RateAxis::covering(intervals.chain([[0.0, answer.detect]]));
    let has_refusals = answer.levels.iter().any(|level| level.refused > 0);
    let failed = match answer.find {
        LoadGoal::Death => "died",
        LoadGoal::Refusal => "failed",
    };
    let table = html! {
        thead { tr {
            th.number scope="col" { "clients" }
            th.number scope="col" { (failed) }
            th.number scope="col" { "trials" }
            th.number scope="col" { "interval" }
            th.plot scope="col" { span.hidden { "picture" } (axis.draw()) }
            th.number scope="col" { "responses before the death" }
            @if has_refusals { th.number scope="col" { "refused requests" } }
        } }
        tbody { @for level in tested() { (level_row(answer, level, axis, has_refusals)) } }
    };
    html! {
        p {
            "The failure rate at each number of clients. Hollow and dashed: no trial failed. Vertical line: the rate of "
            (words::format_percent(answer.detect)) " % at which a level counts as failing. "
            @if let Some((clean, fails)) = answer.clean_to.zip(answer.fails_from) {
                "The boundary is between " (clean) " and " (fails) " clients."
            }
        }
        (scrolling_table("Failures by number of clients", &table))
        p.muted { "Responses before the death: minimum, median and maximum." }
    }
}

/// Returns the rate at a level for a picture; `None` if it was not tested.
pub(super) fn level_rate(answer: &Threshold, level: &LoadLevelReport) -> Option<RateRow> {
    let interval = level.interval?;
    let is_clean = level.failures == 0;
    let clients = words::format_count(level.clients, "client");
    let label = format!(
        "{clients}: {} of {} died, {}",
        level.failures,
        words::format_count(level.trials, "trial"),
        interval_of_level(level),
    );
    Some(RateRow {
        name: clients,
        failures: level.failures,
        trials: level.trials,
        interval,
        point: (!is_clean).then(|| real(level.failures) / real(level.trials.max(1))),
        shape: if is_clean {
            PointShape::Hollow
        } else {
            PointShape::Filled
        },
        limit: Some(answer.detect),
        label,
    })
}

fn interval_of_level(level: &LoadLevelReport) -> String {
    level.interval.map_or_else(String::new, |ends| {
        if level.one_sided {
            format!("at most {} %", words::percent_bound(ends[1]))
        } else {
            words::format_interval(ends)
        }
    })
}

fn level_row(
    answer: &Threshold,
    level: &LoadLevelReport,
    axis: RateAxis,
    has_refusals: bool,
) -> Markup {
    html! {
        tr {
            th.number scope="row" { (level.clients) }
            td.number { (level.failures) }
            td.number { (level.trials) }
            td.number { (interval_of_level(level)) }
            td.plot {
                @if let Some(reason) = &level.untestable { span.muted { "not testable: " (PageText(reason)) } }
                @else if let Some(rate) = level_rate(answer, level) { (rate.draw_whisker(axis)) }
            }
            td.number {
                @if let Some([min, median, max]) = level.served_before_death { (min) " / " (median) " / " (max) }
            }
            @if has_refusals { td.number { (level.refused) " of " (level.requests) } }
        }
    }
}

fn smaller_loads(answer: &Shrinking, detail: &PageDetail) -> Markup {
    let table = html! {
        thead { tr {
            th scope="col" { "load" }
            th.number scope="col" { "died" }
            th.number scope="col" { "trials" }
            th scope="col" { "result" }
        } }
        tbody {
            tr { th scope="row" { "the whole load" } td.number { (answer.before.failures) } td.number { (answer.before.trials) } td {} }
            @for step in answer.tried.iter().take(detail.rows) {
                tr {
                    th scope="row" { (PageText(&step.what)) }
                    td.number { (step.crashed) }
                    td.number { (step.trials) }
                    td {
                        @match step.crashes {
                            Some(true) => "still crashes",
                            Some(false) if step.trials == 0 => "not testable",
                            Some(false) => "needed",
                            None => "not known yet",
                        }
                    }
                }
            }
            @if let Some(alone) = answer.alone {
                tr { th scope="row" { "the remaining load, in new trials" } td.number { (alone.failures) } td.number { (alone.trials) } td {} }
            }
        }
    };
    // The table has a row for each of the first lines.
    let further: Vec<String> = answer
        .detail_lines()
        .into_iter()
        .skip(answer.tried.len())
        .collect();
    html! {
        (scrolling_table("Smaller loads that were tried", &table))
        (text_list(&further))
    }
}

/// Returns what the clients of a service measured.
pub(super) fn load_section(source: &PageSource<'_>, detail: &PageDetail) -> Option<Markup> {
    let report = source.report;
    let measured = || {
        let variants = report
            .variants
            .iter()
            .filter_map(|variant| Some((variant, variant.load.as_ref()?)));
        variants.filter(|(_, load)| load.trials > 0)
    };
    measured().next()?;
    let several = report.variants.len() > 1;
    let body = html! {
        @for (variant, load) in measured().take(detail.rows / 10) {
            @if several {
                details {
                    summary { (PageText(&variant.name)) }
                    (load_of_variant(&variant.name, load))
                }
            } @else { (load_of_variant("", load)) }
        }
    };
    Some(page_section("load", "Load", &body))
}

fn load_of_variant(name: &str, load: &LoadTotals) -> Markup {
    let label = |table: &str| match name {
        "" => table.to_owned(),
        name => format!("{table} of {name}"),
    };
    // The table has the latencies.
    let mut lines = load.traffic_lines();
    lines.retain(|line| !line.starts_with("latency "));
    html! {
        @if load.unreliable {
            p.warning { "The latencies are unreliable: the load generator was late." }
        }
        (text_list(&lines))
        (latency_table(load, &label("Latencies")))
        (deaths(load, &label("Responses before each death")))
        (kinds_table(load, &label("Requests in flight at deaths")))
    }
}

fn latency_table(load: &LoadTotals, label: &str) -> Markup {
    let rows: Vec<_> = [
        (
            "from the schedule",
            load.latency.filter(|_| load.latency_from_send.is_some()),
        ),
        (
            "latency",
            load.latency.filter(|_| load.latency_from_send.is_none()),
        ),
        ("from the actual send", load.latency_from_send),
        ("sent late by", load.late),
    ]
    .into_iter()
    .filter_map(|(name, times)| Some((name, times?)))
    .collect();
    if rows.is_empty() {
        return html! {};
    }
    let table = html! {
        thead { tr {
            th scope="col" { span.hidden { "time" } }
            th.number scope="col" { "median" }
            th.number scope="col" { "90 %" }
            th.number scope="col" { "99 %" }
            th.number scope="col" { "longest" }
        } }
        tbody {
            @for (name, times) in rows { tr {
                th scope="row" { (name) }
                @for time in [times.p50, times.p90, times.p99, times.max] { td.number { (words::format_seconds(time)) } }
            } }
        }
    };
    scrolling_table(label, &table)
}

/// Returns the numbers of responses before each death.
fn deaths(load: &LoadTotals, label: &str) -> Markup {
    let ranges = count_ranges(&load.served_before_death);
    if ranges.is_empty() {
        return html! {};
    }
    let highest = ranges.iter().map(|range| range.count).max().unwrap_or(1);
    let table = html! {
        thead { tr { th.number scope="col" { "responses" } th.number scope="col" { "deaths" } th.plot scope="col" { span.hidden { "picture" } } } }
        tbody {
            @for range in &ranges { tr {
                th.number scope="row" { (range.start) " to " (range.end) }
                td.number { (range.count) }
                td.plot { (draw_count_bars(range.count, highest, "k1")) }
            } }
        }
    };
    html! {
        h3 { "Responses before each death" }
        (scrolling_table(label, &table))
    }
}

/// Returns the kinds of requests in flight at deaths.
fn kinds_table(load: &LoadTotals, label: &str) -> Markup {
    if load.kinds.len() < 2 || load.served_before_death.is_empty() {
        return html! {};
    }
    let kinds = load.kinds.iter().take(KINDS);
    let highest = kinds.clone().map(|kind| kind.at_deaths).max().unwrap_or(1);
    let table = html! {
        thead { tr {
            th scope="col" { "request" }
            th.number scope="col" { "sent" }
            th.number scope="col" { "deaths with one in flight" }
            th.plot scope="col" { span.hidden { "picture" } }
            th.number scope="col" { "p" }
        } }
        tbody {
            @for kind in kinds { tr {
                th scope="row" { (PageText(&kind.name)) }
                td.number { (kind.sent) }
                td.number { (kind.at_deaths) }
                td.plot { (draw_count_bars(kind.at_deaths, highest, "k1")) }
                td.number { @if let Some(p_value) = kind.p_value { (words::p_value(p_value)) } }
            } }
        }
    };
    html! {
        h3 { "Requests in flight at deaths" }
        (scrolling_table(label, &table))
    }
}
