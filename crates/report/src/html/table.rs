//! Parts that several sections of a page share: headings, tables, lists, figures.

use crate::page_text::PageText;
use crate::svg::{RateAxis, draw_probability, draw_rate};
use maud::{Markup, PreEscaped, Render as _, html};
use provoke_words as words;
use provoke_words::capitalize_first;
use provoke_words::document::{Cell, Column, Content, Row, Table, Tone};

/// Returns a section with its heading and its anchor.
pub(super) fn page_section(id: &str, heading: &'static str, body: &Markup) -> Markup {
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
        div.scroll tabindex="0" role="region" aria-label=(PageText(label)) { (table) }
    }
}

/// Largest number of columns beside each other on a narrow screen; the style sheet has a class for each number.
const NARROW_COLUMNS: usize = 6;

/// Returns the classes of a table. On a narrow screen, names, pictures and sentences have lines of their own, and the
/// other columns are beside each other, in two lines if they are many.
fn table_classes(table: &Table) -> Option<String> {
    let names = table.name_column();
    let columns = table.columns.iter().enumerate();
    let beside = columns.filter(|(index, column)| {
        let has_line = matches!(
            column.content,
            Content::Rates | Content::Remark | Content::Sentence
        );
        Some(*index) != names && !has_line && table.has_content(*index)
    });
    let beside = match beside.count() {
        many if many > NARROW_COLUMNS => many.div_ceil(2),
        few => few,
    };
    (1..=NARROW_COLUMNS)
        .contains(&beside)
        .then(|| format!("stacked columns-{beside}"))
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

/// Returns a table of a document, and what explains it.
pub(super) fn document_table(table: &Table, rows: usize) -> Markup {
    let axis = RateAxis::covering(table.rate_ends());
    let (classes, names) = (table_classes(table), table.name_column());
    let shown: Vec<bool> = (0..table.columns.len())
        .map(|column| table.has_content(column))
        .collect();
    let draw = |rows: &mut dyn Iterator<Item = &Row>, label: &str| {
        let columns = table
            .columns
            .iter()
            .enumerate()
            .zip(&shown)
            .filter(|(_, shown)| **shown);
        scrolling_table(
            label,
            &html! {
                table class=[classes.as_deref()] {
                    thead { tr { @for ((index, column), _) in columns { (column_head(column, names == Some(index), axis)) } } }
                    tbody { @for row in rows { (table_row(row, table, &shown, axis)) } }
                }
            },
        )
    };
    html! {
        @if !table.note.is_empty() { p { (PageText(&table.note)) } }
        (draw(&mut table.rows.iter().take(rows), &format!("{} (table)", table.title)))
        (left_out_note(table.rows.len().saturating_sub(rows), "row"))
        @if !table.legend.is_empty() { p.muted { (PageText(&capitalize_first(&table.legend.join("; ")))) "." } }
        @if let Some(folded) = &table.folded {
            details {
                summary { (PageText(&folded.label)) }
                (draw(&mut folded.rows.iter().take(rows), &folded.label))
                (left_out_note(folded.rows.len().saturating_sub(rows), "row"))
            }
        }
    }
}

fn column_head(column: &Column, has_names: bool, axis: RateAxis) -> Markup {
    let head = PageText(&column.head);
    match column.content {
        Content::Words => html! { th.name[has_names] scope="col" { (head) } },
        Content::Remark | Content::Sentence => html! { th.wide scope="col" { (head) } },
        Content::Numbers => html! { th.number scope="col" { (head) } },
        Content::Rates => html! { th.plot scope="col" { span.hidden { "picture" } (axis.draw()) } },
        Content::Shares => {
            html! { th.number scope="col" { (head) } th.plot scope="col" { span.hidden { "picture" } } }
        }
    }
}

fn table_row(row: &Row, table: &Table, shown: &[bool], axis: RateAxis) -> Markup {
    let mark = match row {
        Row::Gap(text) | Row::Note(text, _) | Row::Command(text) => {
            let columns = table.columns.iter().zip(shown).filter(|(_, shown)| **shown);
            let columns =
                columns.map(|(column, _)| 1 + usize::from(column.content == Content::Shares));
            return html! { tr { td.muted colspan=(columns.sum::<usize>()) { (PageText(text)) } } };
        }
        Row::Answer(_, why) => html! { " " span.warning { "← " (why) } },
        Row::Cells(_) => html! {},
    };
    let name = table.name_of(row);
    let cells = row.cells().iter().zip(&table.columns).zip(shown);
    let names = table.name_column();
    html! {
        tr {
            @for (index, ((cell, column), _)) in cells.enumerate().filter(|(_, (_, shown))| **shown) {
                @if names == Some(index) { (name_cell(name, &mark)) }
                @else { (table_cell(cell, column.content, axis, name)) }
            }
        }
    }
}

fn table_cell(cell: &Cell, content: Content, axis: RateAxis, name: &str) -> Markup {
    let text = match cell {
        Cell::Text(text, _) => text.as_str(),
        Cell::Empty | Cell::Rate(_) | Cell::Share(..) => "",
    };
    match (content, cell) {
        (Content::Shares, Cell::Share(share, is_answer)) => html! {
            td.number { (words::format_percent(*share)) " %" }
            td.plot { (draw_probability(*share, *is_answer)) }
        },
        (Content::Shares, _) => html! { td {} td.plot { (draw_probability(0.0, false)) } },
        (Content::Rates, Cell::Rate(rate)) => {
            html! { td.plot { (draw_rate(rate, axis, &rate.describe(name))) } }
        }
        (Content::Rates, _) => html! { td.plot {} },
        (Content::Words, Cell::Text(_, tone)) => {
            html! { td.standing[*tone != Tone::Plain] { (PageText(text)) } }
        }
        (Content::Words, _) => html! { td {} },
        (Content::Numbers, _) => html! { td.number { (PageText(text)) } },
        (Content::Remark | Content::Sentence, _) => html! { td.wide { (PageText(text)) } },
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
            p.muted { (words::format_count(count as u64, noun)) " more in the JSON report." }
        }
    }
}
