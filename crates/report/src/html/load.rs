//! Section of a service under load: latencies, deaths and requests.

use super::source::{PageDetail, PageSource};
use super::table::{page_section, scrolling_table, text_list};
use crate::LoadTotals;
use crate::bars::count_ranges;
use crate::page_text::PageText;
use crate::svg::draw_count_bars;
use maud::{Markup, html};
use provoke_words as words;

/// Maximum number of kinds of requests.
const KINDS: usize = 20;

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
