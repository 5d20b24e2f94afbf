//! Section of the slots and the hosts: the failure rate of each, on one axis.

use super::source::PageSource;
use super::table::{page_section, scrolling_table, text_list};
use crate::page_text::PageText;
use crate::svg::{PointShape, RateAxis, Whisker};
use crate::{HostDifference, HostReport, Masked, Report};
use maud::{Markup, html};
use provoke_questions::StopRule;
use provoke_stats::real;
use provoke_words as words;

/// Maximum number of slots that are all shown.
const ALL_SLOTS: usize = 32;
/// Minimum number of failures.
const FEWEST: u64 = 5;
/// Number of the most unusual slots of many.
const UNUSUAL: usize = 16;

/// A slot or a host with its trials.
struct PlaceRow {
    name: String,
    trials: u64,
    failures: u64,
    interval: [f64; 2],
    note: String,
}

/// Returns the failure rate on each host, or in each slot.
pub(super) fn slots_section(source: &PageSource<'_>) -> Option<Markup> {
    let report = source.report;
    if !report.hosts.is_empty() {
        return Some(hosts_section(report));
    }
    let failures: u64 = report.variants.iter().map(|variant| variant.failures).sum();
    if source.trials.slots.len() < 2 || report.variants.len() > 1 || failures < FEWEST {
        return None;
    }
    let alpha = 1.0 - report.confidence / 100.0;
    let mut rows: Vec<PlaceRow> = source
        .trials
        .slots
        .iter()
        .map(|(slot, totals)| {
            let interval = StopRule::PlannedN.interval(totals.failures, totals.trials, alpha);
            PlaceRow {
                name: format!("slot {slot}"),
                trials: totals.trials,
                failures: totals.failures,
                interval: [interval.lo, interval.hi],
                note: String::new(),
            }
        })
        .collect();
    let all = rows.len();
    if all > ALL_SLOTS {
        let trials: u64 = rows.iter().map(|row| row.trials).sum();
        let rate = real(failures) / real(trials.max(1));
        let distance = |row: &PlaceRow| {
            let expected = rate * real(row.trials);
            (real(row.failures) - expected).abs() / (expected * (1.0 - rate)).max(1e-9).sqrt()
        };
        rows.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
        rows.truncate(UNUSUAL);
    }
    let body = html! {
        p {
            "A slot runs one trial at a time. "
            @if all > rows.len() {
                "The " (rows.len()) " most unusual of " (all) " slots, which differ from the others at least a little by chance alone."
            } @else {
                "Slots that fail more often than others point to something that they do not share, such as a port or a processor."
            }
        }
        (place_table("Failure rate of each slot", &rows))
    };
    Some(page_section("slots", "Slots", &body))
}

fn hosts_section(report: Masked<&Report>) -> Markup {
    let row = |host: &HostReport| PlaceRow {
        name: host.name.clone(),
        trials: host.trials,
        failures: host.failures,
        interval: host.interval.unwrap_or([0.0, 1.0]),
        note: host
            .lost
            .clone()
            .map_or_else(String::new, |reason| format!("lost: {reason}")),
    };
    let rows: Vec<PlaceRow> = report.hosts.iter().map(row).collect();
    let lines = report
        .host_difference
        .as_ref()
        .map_or_else(Vec::new, HostDifference::text_lines);
    let body = html! {
        (text_list(&lines))
        (place_table("Failure rate on each host", &rows))
    };
    page_section("hosts", "Hosts", &body)
}

fn place_table(label: &str, rows: &[PlaceRow]) -> Markup {
    let axis = RateAxis::covering(rows.iter().map(|row| row.interval));
    let has_notes = rows.iter().any(|row| !row.note.is_empty());
    let table = html! {
        thead { tr {
            th scope="col" { span.hidden { "name" } }
            th.number scope="col" { "failed" }
            th.number scope="col" { "trials" }
            th.number scope="col" { "interval" }
            th.plot scope="col" { span.hidden { "picture" } (axis.draw()) }
            @if has_notes { th scope="col" { "note" } }
        } }
        tbody {
            @for row in rows { tr {
                th scope="row" { (PageText(&row.name)) }
                td.number { (row.failures) }
                td.number { (row.trials) }
                td.number { @if row.trials > 0 { (words::format_interval(row.interval)) } }
                td.plot { @if row.trials > 0 { (row.whisker(axis)) } }
                @if has_notes { td.muted { (PageText(&row.note)) } }
            } }
        }
    };
    scrolling_table(label, &table)
}

impl PlaceRow {
    fn whisker(&self, axis: RateAxis) -> Markup {
        let label = format!(
            "{}: {} of {} failed, interval {}",
            self.name,
            self.failures,
            words::format_count(self.trials, "trial"),
            words::format_interval(self.interval)
        );
        let is_clean = self.failures == 0;
        Whisker {
            interval: self.interval,
            point: (!is_clean).then(|| real(self.failures) / real(self.trials)),
            shape: if is_clean {
                PointShape::Hollow
            } else {
                PointShape::Filled
            },
            limit: None,
            label: &label,
        }
        .draw(axis)
    }
}
