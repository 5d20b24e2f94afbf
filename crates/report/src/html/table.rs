//! Parts that several sections of a page share: headings, tables, lists, figures.

use crate::page_text::PageText;
use maud::{Markup, PreEscaped, Render as _, html};

/// Returns a section with its heading and its anchor.
pub(super) fn page_section(id: &'static str, heading: &'static str, body: &Markup) -> Markup {
    html! {
        section id=(id) aria-labelledby={ (id) "-heading" } {
            h2 id={ (id) "-heading" } { (heading) }
            (body)
        }
    }
}

/// Returns a table that scrolls if it is wider than the screen.
pub(super) fn scrolling_table(label: &str, table: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(PageText(label)) {
            table { (table) }
        }
    }
}

/// Names up to this length stay in one line.
const SHORT_NAME: usize = 28;

/// Maximum number of lines of a list.
const LINES: usize = 100;

/// Returns the head of a row with a name; a short name is not broken.
pub(super) fn name_cell(name: &str, mark: &Markup) -> Markup {
    let is_short = name.chars().count() <= SHORT_NAME;
    html! { th.short[is_short] scope="row" { (PageText(name)) (mark) } }
}

/// Returns lines of text as a list.
pub(super) fn text_list(lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            ul { @for line in lines.iter().take(LINES) { li { (sentence_text(line.trim())) } } }
            (left_out_note(lines.len().saturating_sub(LINES), "line"))
        }
    }
}

/// Returns a list of facts with their names.
pub(super) fn fact_list(facts: &[(&'static str, String)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in facts {
                div { dt { (name) } dd { (PageText(value)) } }
            }
        }
    }
}

/// Returns text in which numbers are not separated from their per cent sign.
pub(super) fn sentence_text(text: &str) -> Markup {
    let escaped = PageText(text).render().into_string();
    PreEscaped(escaped.replace(" %", "&nbsp;%"))
}

/// Returns a note that rows of a table were left out.
pub(super) fn left_out_note(count: usize, noun: &'static str) -> Markup {
    html! {
        @if count > 0 {
            p.muted { (provoke_words::format_count(count as u64, noun)) " more in the JSON report." }
        }
    }
}
