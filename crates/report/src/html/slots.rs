//! Section of the slots and the hosts: the failure rate of each, on one axis.

use super::source::PageSource;
use super::table::{document_table, page_section, text_list};
use crate::{HostDifference, Masked, Report, host_table};
use maud::{Markup, html};
use provoke_questions::StopRule;
use provoke_stats::real;
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, RateMark, Table};

/// Maximum number of slots that are all shown.
const ALL_SLOTS: usize = 32;
/// Minimum number of failures.
const FEWEST: u64 = 5;
/// Number of the most unusual slots of many.
const UNUSUAL: usize = 16;

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
    let mut rows: Vec<(u64, RateMark)> = source
        .trials
        .slots
        .iter()
        .map(|(slot, totals)| {
            let interval = StopRule::PlannedN.interval(totals.failures, totals.trials, alpha);
            let ends = [interval.lo, interval.hi];
            let rate = RateMark::of_share(totals.failures, totals.trials, ends);
            (u64::from(*slot), rate)
        })
        .collect();
    let all = rows.len();
    if all > ALL_SLOTS {
        let trials: u64 = rows.iter().map(|(_, rate)| rate.trials).sum();
        let rate = real(failures) / real(trials.max(1));
        let distance = |(_, slot): &(u64, RateMark)| {
            let expected = rate * real(slot.trials);
            (real(slot.failures) - expected).abs() / (expected * (1.0 - rate)).max(1e-9).sqrt()
        };
        rows.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
        rows.truncate(UNUSUAL);
    }
    let shown = rows.len();
    let body = html! {
        p {
            "A slot runs one trial at a time. "
            @if all > shown {
                "The " (shown) " most unusual of " (all) " slots, which differ from the others at least a little by chance alone."
            } @else {
                "Slots that fail more often than others point to something that they do not share, such as a port or a processor."
            }
        }
        (document_table(&slot_table(rows), ALL_SLOTS))
    };
    Some(page_section("slots", "Slots", &body))
}

fn slot_table(rows: Vec<(u64, RateMark)>) -> Table {
    let columns = vec![
        Column::words("slot"),
        Column::numbers("failed"),
        Column::numbers("trials"),
        Column::numbers("interval"),
        Column::rates(),
    ];
    let rows = rows.into_iter().map(|(slot, rate)| {
        vec![
            Cell::text(format!("slot {slot}")),
            Cell::text(rate.failures.to_string()),
            Cell::text(rate.trials.to_string()),
            Cell::text(words::format_interval(rate.interval)),
            Cell::Rate(rate),
        ]
    });
    Table::new("Failure rate of each slot", Place::Page, columns).with_rows(rows)
}

fn hosts_section(report: Masked<&Report>) -> Markup {
    let lines = report
        .host_difference
        .as_ref()
        .map_or_else(Vec::new, HostDifference::text_lines);
    let body = html! {
        (text_list(&lines))
        (document_table(&host_table(&report), usize::MAX))
    };
    page_section("hosts", "Hosts", &body)
}
