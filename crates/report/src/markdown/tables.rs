//! Writes the tables of a report in Markdown: counts, outcomes, signatures, and facts in which variants differ.

use super::escape::{escape_markdown, inline_code};
use crate::{CaseReport, Masked, Report, case_table};
use provoke_words as words;
use provoke_words::capitalize_first;
use provoke_words::document::{Cell, Column, Content, Row, Table};
use std::io;

/// Maximum number of rows of a table of the answer.
const ROWS: usize = 100;

/// Writes a table of a document, unless it is empty.
pub(super) fn write_table(table: &Table, out: &mut dyn io::Write) -> io::Result<()> {
    if table.is_empty() {
        return Ok(());
    }
    let is_shown = |(index, column): &(usize, &Column)| {
        column.content != Content::Rates && table.has_content(*index)
    };
    let columns: Vec<(usize, &Column)> =
        table.columns.iter().enumerate().filter(is_shown).collect();
    let heads: Vec<&str> = columns
        .iter()
        .map(|(_, column)| column.head.as_str())
        .collect();
    let names = table.name_column();
    // The first column shows what is not in cells.
    let first = names.or_else(|| Some(columns.first()?.0));
    let lines = columns.iter().map(|(_, column)| match column.content {
        Content::Words | Content::Remark | Content::Sentence => "---",
        Content::Numbers | Content::Shares | Content::Rates => "---:",
    });
    let lines: Vec<&str> = lines.collect();
    writeln!(out, "{}:", table.title)?;
    if !table.note.is_empty() {
        writeln!(out, "\n{}", escape_markdown(&table.note))?;
    }
    writeln!(out)?;
    writeln!(out, "| {} |\n| {} |", heads.join(" | "), lines.join(" | "))?;
    for row in table.all_rows().take(ROWS) {
        let (gap, mark) = match row {
            Row::Gap(text) | Row::Note(text, _) | Row::Command(text) => (Some(text), String::new()),
            Row::Answer(_, why) => (None, format!(" **← {why}**")),
            Row::Cells(_) => (None, String::new()),
        };
        let cells = columns
            .iter()
            .map(|(index, _)| match (row.cells().get(*index), gap) {
                (None, Some(text)) if first == Some(*index) => escape_markdown(text),
                (Some(Cell::Text(name, _)), _) if names == Some(*index) => {
                    inline_code(name) + &mark
                }
                (Some(Cell::Text(text, _)), _) => escape_markdown(text),
                (Some(Cell::Share(share, _)), _) => format!("{} %", words::format_percent(*share)),
                _ => String::new(),
            });
        writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    writeln!(out)?;
    if !table.legend.is_empty() {
        let legend = capitalize_first(&table.legend.join("; "));
        writeln!(out, "{}.\n", escape_markdown(&legend))?;
    }
    let rows_left = table.all_rows().count().saturating_sub(ROWS);
    if rows_left > 0 {
        let more_text = words::format_count(rows_left as u64, "more row");
        writeln!(out, "{more_text} in the JSON report.\n")?;
    }
    Ok(())
}

/// Returns a table with each note in the last cell of the row above it: Markdown has no row that spans its columns.
pub(super) fn with_notes_in_cells(mut table: Table) -> Table {
    let mut rows: Vec<Row> = Vec::new();
    for row in table.rows {
        if let Row::Note(note, _) = &row
            && let Some(Row::Cells(cells)) = rows.last_mut()
            && let Some(Cell::Text(text, _)) = cells.last_mut()
        {
            *text += "; ";
            *text += note;
        } else {
            rows.push(row);
        }
    }
    table.rows = rows;
    table
}

/// Maximum number of failing tests of a suite.
const TESTS: usize = 50;

/// Writes the tests of a suite that failed.
pub(super) fn write_suite(report: Masked<&Report>, out: &mut dyn io::Write) -> io::Result<()> {
    for variant in report.listed_variants() {
        let Some(suite) = &variant.suite else {
            continue;
        };
        let name = match variant.name.as_str() {
            "" => String::new(),
            name => format!("{}: ", inline_code(name)),
        };
        writeln!(
            out,
            "### Tests\n\n{name}{}.\n",
            escape_markdown(&suite.headline())
        )?;
        let failing: Vec<&CaseReport> = suite.failing().take(TESTS).collect();
        write_table(&case_table(&failing, report.confidence), out)?;
        for line in suite.remaining_lines() {
            writeln!(out, "- {}", escape_markdown(&line))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes what the clients of services measured.
pub(super) fn write_load_lines(report: Masked<&Report>, out: &mut dyn io::Write) -> io::Result<()> {
    for variant in report.listed_variants() {
        let Some(load) = &variant.load else {
            continue;
        };
        if !variant.name.is_empty() {
            writeln!(out, "{}:\n", inline_code(&variant.name))?;
        }
        for line in load.traffic_lines() {
            writeln!(out, "* {}", words::sanitize_line(&line))?;
        }
        writeln!(out)?;
        for table in load.death_tables() {
            write_table(&table, out)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_words::document::{Place, Tone};

    #[test]
    fn a_note_is_in_the_last_cell_of_the_row_above_it() {
        let columns = vec![Column::words("failure"), Column::words("which")];
        let mut table = Table::new("Failures", Place::Details, columns);
        let cells = ["SIGSEGV", "2, 7"].map(Cell::text).to_vec();
        let note = "stack from extra trial 1002".to_owned();
        table.rows = vec![Row::Cells(cells), Row::Note(note, Tone::Plain)];
        let mut out = Vec::new();
        write_table(&with_notes_in_cells(table), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(
            out.contains("| 2, 7; stack from extra trial 1002 |\n"),
            "{out}"
        );
    }
}
