//! Draws a table of a document on the terminal, as wide as the room allows.

use super::pictures;
use super::screen::Screen;
use console::{Alignment, StyledObject, measure_text_width, pad_str, style, truncate_str};
use provoke_report::RateAxis;
use provoke_words as words;
use provoke_words::document::{Cell, Column, Content, Row, Table, Tone};

/// Blanks between two columns.
const GAP: usize = 2;
/// Indent of a table.
const INDENT: usize = 2;
/// Minimum width of a remark.
const REMARK: usize = 16;
/// Maximum width of a remark if the terminal is not known.
const LONGEST_REMARK: usize = 200;

/// Adds a table to a screen.
pub(super) fn push_table(screen: &mut Screen, table: &Table) {
    let layout = Layout::new(table, screen.width());
    let columns = table.columns.iter().zip(&layout.widths);
    let heads = columns.map(|(column, width)| match measure_text_width(&column.head) {
        head if head > *width => String::new(),
        _ => faint(&column.head),
    });
    let heads: Vec<String> = heads.collect();
    let heads = layout.line(&heads, Some(&faint(&pictures::interval_head(layout.axis))));
    screen.push_row(&format!("{:INDENT$}{heads}", ""));
    for row in &table.rows {
        screen.push_row(&match row {
            Row::Cells(cells) => format!("{:INDENT$}{}", "", layout.row(cells, false)),
            Row::Answer(cells, _) => {
                format!("{} {}", style(">").red().bold(), layout.row(cells, true))
            }
            Row::Gap(text) => format!("{:INDENT$}{}", "", faint(text)),
        });
    }
    if let Some(folded) = &table.folded {
        screen.push_row(&format!("{:INDENT$}{}", "", layout.row(&folded.sum, false)));
    }
    if !table.legend.is_empty() {
        screen.push_text(INDENT, &faint(&table.legend.join("; ")));
    }
}

/// Colours a text by its meaning.
pub(super) fn toned(text: &str, tone: Tone) -> StyledObject<String> {
    let text = style(words::sanitize_line(text));
    match tone {
        Tone::Plain => text,
        Tone::Good => text.green(),
        Tone::Bad => text.red(),
        Tone::Open => text.yellow(),
        Tone::Faint => text.dim(),
    }
}

fn faint(text: &str) -> String {
    toned(text, Tone::Faint).to_string()
}

/// The widths of the columns of a table.
struct Layout<'a> {
    columns: &'a [Column],
    /// 0 for a column that is left out.
    widths: Vec<usize>,
    axis: RateAxis,
}

impl<'a> Layout<'a> {
    fn new(table: &'a Table, terminal: Option<usize>) -> Self {
        let columns = &table.columns;
        let sum = table.folded.iter().map(|folded| folded.sum.as_slice());
        let rows: Vec<&[Cell]> = table.rows.iter().map(Row::cells).chain(sum).collect();
        let widest = |(index, column): (usize, &Column)| {
            let cells = rows.iter().filter_map(|row| row.get(index));
            let width = cells
                .map(|cell| measure_text_width(&text_of(cell)))
                .max()
                .unwrap_or(0);
            match column.content {
                Content::Rates => 0,
                // A column without any content has no head, and a name needs none.
                Content::Words => width,
                _ if width == 0 => 0,
                _ => width.max(measure_text_width(&column.head)),
            }
        };
        let full: Vec<usize> = columns.iter().enumerate().map(widest).collect();
        let axis = RateAxis::covering(table.rate_ends());
        let mut layout = Self {
            columns,
            widths: full,
            axis,
        };
        let Some(room) = terminal.map(|terminal| terminal.saturating_sub(INDENT)) else {
            layout.limit_remarks(LONGEST_REMARK);
            return layout;
        };
        let remark = |width: usize| width.min(REMARK);
        let last = columns
            .iter()
            .map(|column| column.leaves)
            .max()
            .unwrap_or(0);
        for order in 1..=last {
            if layout.line_width(remark) <= room {
                break;
            }
            let leaving = columns.iter().zip(&mut layout.widths);
            leaving
                .filter(|(column, _)| column.leaves == order)
                .for_each(|(_, width)| *width = 0);
        }
        let with_rates = layout.line_width(remark) + pictures::INTERVAL_WIDTH + GAP;
        let is_whole =
            layout
                .widths
                .iter()
                .zip(columns)
                .enumerate()
                .all(|(index, (width, column))| {
                    *width > 0 || column.leaves == 0 || !table.has_content(index)
                });
        if is_whole && with_rates <= room && table.rates().next().is_some() {
            for (column, width) in columns.iter().zip(&mut layout.widths) {
                if column.content == Content::Rates {
                    *width = pictures::INTERVAL_WIDTH;
                }
            }
        }
        let used = layout.line_width(|_| 0);
        layout.limit_remarks(room.saturating_sub(used + GAP));
        layout
    }

    /// Returns the width of a line whose remark has this width.
    fn line_width(&self, remark: impl Fn(usize) -> usize) -> usize {
        let widths = self
            .columns
            .iter()
            .zip(&self.widths)
            .map(|(column, width)| match column.content {
                Content::Remark => remark(*width),
                _ => *width,
            });
        let shown = widths.filter(|width| *width > 0);
        shown
            .map(|width| width + GAP)
            .sum::<usize>()
            .saturating_sub(GAP)
    }

    fn limit_remarks(&mut self, room: usize) {
        for (column, width) in self.columns.iter().zip(&mut self.widths) {
            if column.content == Content::Remark {
                *width = (*width).min(room);
            }
        }
    }

    fn row(&self, cells: &[Cell], is_answer: bool) -> String {
        let mut texts: Vec<String> = cells.iter().map(text_of).collect();
        if is_answer && let Some(name) = texts.first_mut() {
            *name = style(&*name).red().bold().to_string();
        }
        let rate = cells.iter().find_map(|cell| match cell {
            Cell::Rate(rate) => Some(pictures::draw_interval(rate, self.axis)),
            _ => None,
        });
        self.line(&texts, rate.as_deref())
    }

    /// Returns a line of texts, with a picture in the column of rates.
    fn line(&self, texts: &[String], picture: Option<&str>) -> String {
        let cells = self.columns.iter().zip(&self.widths).zip(texts);
        let padded = cells
            .filter(|((_, width), _)| **width > 0)
            .map(|((column, width), text)| {
                let (text, side) = match column.content {
                    Content::Words | Content::Remark => (text.as_str(), Alignment::Left),
                    Content::Numbers | Content::Shares => (text.as_str(), Alignment::Right),
                    Content::Rates => (picture.unwrap_or_default(), Alignment::Left),
                };
                pad_str(&truncate_str(text, *width, "…"), *width, side, None).into_owned()
            });
        let line = padded.collect::<Vec<_>>().join(&" ".repeat(GAP));
        line.trim_end().to_owned()
    }
}

fn text_of(cell: &Cell) -> String {
    match cell {
        Cell::Empty | Cell::Rate(_) => String::new(),
        Cell::Text(text, tone) => toned(text, *tone).to_string(),
        Cell::Share(share, _) => format!("{} %", words::format_percent(*share)),
    }
}
