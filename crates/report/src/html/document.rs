//! Sections of the tables and the drawings of an answer.

use super::source::{PageDetail, PageSource};
use super::table::{document_table, page_section};
use crate::page_text::PageLines;
use maud::{Markup, html};
use provoke_words::document::{Figure, Place, Table};

/// Returns the tables. Those of details are folded, below the table before them.
pub(super) fn table_sections(source: &PageSource<'_>, detail: &PageDetail) -> Markup {
    let tables = source.report.tables(&Place::ALL);
    let is_detail = |table: &Table| table.place == Place::Details;
    let sections = tables.chunk_by(|_, next| is_detail(next));
    html! {
        @for section in sections {
            (page_section(&anchor_of(section[0].title), section[0].title, &html! {
                @for table in section {
                    @if is_detail(table) {
                        details { summary { (table.title) } (document_table(table, detail.rows)) }
                    } @else { (document_table(table, detail.rows)) }
                }
            }))
        }
    }
}

/// Returns the drawings in characters.
pub(super) fn figure_sections(source: &PageSource<'_>) -> Markup {
    let report = source.report.get();
    let document = report.document.as_ref();
    let figures = document.map_or(&[][..], |document| &document.figures);
    let section = |figure: &Figure| {
        let lines = figure.lines.join("\n");
        page_section(
            &anchor_of(figure.title),
            figure.title,
            &html! { pre.layout tabindex="0" { code { (PageLines(&lines)) } } },
        )
    };
    html! { @for figure in figures { (section(figure)) } }
}

/// Returns the anchor of a section: `load-levels`.
fn anchor_of(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}
