//! Section of a service under load: latencies, deaths and requests.

use super::source::{PageDetail, PageSource};
use super::table::{document_table, page_section, text_list};
use crate::LoadTotals;
use crate::page_text::PageText;
use maud::{Markup, html};

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
                    summary { (PageText(&variant.title())) }
                    (load_of_variant(load))
                }
            } @else { (load_of_variant(load)) }
        }
    };
    Some(page_section("load", "Load", &body))
}

fn load_of_variant(load: &LoadTotals) -> Markup {
    let tables = load.death_tables();
    html! {
        @if load.unreliable {
            p.warning { "The latencies are unreliable: the load generator was late." }
        }
        (text_list(&load.traffic_lines()))
        @for table in tables.iter().filter(|table| !table.is_empty()) {
            h3 { (table.title) }
            (document_table(table, table.rows.len()))
        }
    }
}
