//! Section of the slots and the hosts: the failure rate of each, on one axis.

use super::source::PageSource;
use super::table::{document_table, page_section, text_list};
use crate::{Masked, Report, host_lines, host_table};
use maud::{Markup, html};
use provoke_questions::{StopRule, rate_table};
use provoke_stats::real;
use provoke_words::document::{RateMark, Table};

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
    let mut rows: Vec<(u32, RateMark)> = source
        .trials
        .slots
        .iter()
        .map(|(slot, totals)| {
            let interval = StopRule::PlannedN.interval(totals.failures, totals.trials, alpha);
            let ends = interval.ends();
            let rate = RateMark::of_share(totals.failures, totals.trials, ends);
            (*slot, rate)
        })
        .collect();
    let all = rows.len();
    if all > ALL_SLOTS {
        let trials: u64 = rows.iter().map(|(_, rate)| rate.trials).sum();
        let rate = real(failures) / real(trials.max(1));
        let distance = |(_, slot): &(u32, RateMark)| {
            let expected = rate * real(slot.trials);
            (real(slot.failures) - expected).abs() / (expected * (1.0 - rate)).max(1e-9).sqrt()
        };
        rows.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
        rows.truncate(UNUSUAL);
    }
    let shown = rows.len();
    let rows = rows.into_iter();
    let table = Table {
        title: "Failure rate of each slot",
        ..rate_table(rows.map(|(slot, rate)| (format!("slot {slot}"), rate)))
    };
    let body = html! {
        p {
            "A slot runs one trial at a time. "
            @if all > shown {
                "The " (shown) " most unusual of " (all) " slots, which differ from the others at least a little by chance alone."
            } @else {
                "Slots that fail more often than others point to something that they do not share, such as a port or a processor."
            }
        }
        (document_table(&table, ALL_SLOTS))
    };
    Some(page_section("slots", "Slots", &body))
}

fn hosts_section(report: Masked<&Report>) -> Markup {
    let body = html! {
        (text_list(&host_lines(&report)))
        (document_table(&host_table(&report), usize::MAX))
    };
    page_section("hosts", "Hosts", &body)
}
