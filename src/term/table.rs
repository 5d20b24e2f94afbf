//! Draws a table of a document on the terminal, as wide as the room allows.

use super::pictures;
use super::screen::Screen;
use console::{
    Alignment, StyledObject, measure_text_width, pad_str, strip_ansi_codes, style, truncate_str,
};
use provoke_report::{RateAxis, wrap_text};
use provoke_words as words;
use provoke_words::document::{Cell, Column, Content, Row, Table, Tone};

/// Blanks between two columns.
const GAP: usize = 2;
/// Indent of a table.
const INDENT: usize = 2;
/// Minimum width of a remark or a sentence, as long as columns can be left out.
const REMARK: usize = 16;
/// A remark is cut below this width, or that of its head, only if all remarks are.
const READABLE: usize = 6;
/// Maximum width of a remark if the terminal is not known.
const LONGEST_REMARK: usize = 200;

/// Adds an indented table to a screen. One without heads belongs to the text above it.
pub(super) fn push_table(screen: &mut Screen, table: &Table) {
    push_table_at(INDENT, screen, table);
}

/// Adds a table with this indent.
pub(super) fn push_table_at(indent: usize, screen: &mut Screen, table: &Table) {
    let room = screen.width().map(|width| width.saturating_sub(indent));
    let layout = Layout::new(table, room);
    let columns = table.columns.iter().zip(&layout.widths);
    let heads = columns.map(|(column, width)| match measure_text_width(&column.head) {
        head if head > *width => String::new(),
        _ => faint(&column.head),
    });
    let heads: Vec<String> = heads.collect();
    let heads = layout.line(&heads, Some(&faint(&pictures::interval_head(layout.axis))));
    let push_lines = |screen: &mut Screen, lines: &[String]| {
        for line in lines {
            screen.push_row(&format!("{:indent$}{line}", ""));
        }
    };
    if !strip_ansi_codes(&heads).trim().is_empty() {
        screen.push_gap();
        push_lines(screen, &[heads]);
    }
    for row in &table.rows {
        match row {
            Row::Cells(cells) => push_lines(screen, &layout.row(cells, false)),
            Row::Answer(cells, _) => {
                let line = layout.row(cells, true).join(" ");
                screen.push_row(&format!("{} {line}", style(">").red().bold()));
            }
            Row::Gap(text) => push_lines(screen, &[faint(text)]),
            Row::Note(text, tone) => {
                screen.push_text(indent + 2, &toned(text, *tone).to_string());
            }
            Row::Command(line) => {
                let line = toned(line, Tone::Plain).bold();
                push_lines(screen, &[format!("    {line}")]);
            }
        }
    }
    if let Some(folded) = &table.folded {
        push_lines(screen, &layout.row(&folded.sum, false));
    }
    let legend = table.legend.iter().copied();
    let legend: Vec<&str> = legend.filter(|text| layout.explains(text)).collect();
    if !legend.is_empty() {
        screen.push_text(indent, &faint(&legend.join("; ")));
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
    /// Returns whether a line of the legend explains something that is shown: `pass, fail: median time` explains two columns.
    fn explains(&self, legend: &str) -> bool {
        let heads = legend.split_once(": ").map_or("", |(heads, _)| heads);
        let width_of = |head: &str| {
            let index = self.columns.iter().position(|column| column.head == head)?;
            Some(self.widths[index])
        };
        let named: Option<Vec<usize>> = heads.split(", ").map(width_of).collect();
        named.is_none_or(|widths| widths.iter().any(|width| *width > 0))
    }

    fn new(table: &'a Table, room: Option<usize>) -> Self {
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
        let Some(room) = room else {
            for (column, width) in columns.iter().zip(&mut layout.widths) {
                if column.content == Content::Remark {
                    *width = (*width).min(LONGEST_REMARK);
                }
            }
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
        layout.limit_remarks(room);
        layout
    }

    /// Returns the width of a line whose remarks have these widths.
    fn line_width(&self, remark: impl Fn(usize) -> usize) -> usize {
        let widths = self
            .columns
            .iter()
            .zip(&self.widths)
            .map(|(column, width)| {
                if is_flexible(column) {
                    remark(*width)
                } else {
                    *width
                }
            });
        let shown = widths.filter(|width| *width > 0);
        shown
            .map(|width| width + GAP)
            .sum::<usize>()
            .saturating_sub(GAP)
    }

    /// Shortens remarks and sentences until a line has room for them: by their priority to a readable width, then the
    /// longest.
    fn limit_remarks(&mut self, room: usize) {
        let excess = self.line_width(|width| width).saturating_sub(room);
        for _ in 0..excess {
            let cells = self.columns.iter().zip(&mut self.widths);
            let remarks = cells.filter(|(column, width)| is_flexible(column) && **width > 1);
            let next = remarks.max_by_key(|(column, width)| {
                let readable = measure_text_width(&column.head).max(READABLE);
                let priority = (**width > readable).then_some(column.cut_priority);
                (priority, **width)
            });
            if let Some((_, width)) = next {
                *width -= 1;
            }
        }
    }

    /// Returns the line of a row, and the lines on which its sentence goes on.
    fn row(&self, cells: &[Cell], is_answer: bool) -> Vec<String> {
        let mut texts: Vec<String> = cells.iter().map(text_of).collect();
        if is_answer && let Some(name) = texts.first_mut() {
            *name = style(&*name).red().bold().to_string();
        }
        let rate = cells.iter().find_map(|cell| match cell {
            Cell::Rate(rate) => Some(pictures::draw_interval(rate, self.axis)),
            _ => None,
        });
        let is_sentence = |column: &Column| column.content == Content::Sentence;
        let Some(index) = self.columns.iter().position(is_sentence) else {
            return vec![self.line(&texts, rate.as_deref())];
        };
        let room = Some(self.widths[index]);
        let lines = wrap_text("", 2, &texts[index], room, measure_text_width).into_iter();
        lines
            .map(|part| {
                texts[index] = part;
                let line = self.line(&texts, rate.as_deref());
                texts.iter_mut().for_each(String::clear);
                line
            })
            .collect()
    }

    /// Returns a line of texts, with a picture in the column of rates.
    fn line(&self, texts: &[String], picture: Option<&str>) -> String {
        let cells = self.columns.iter().zip(&self.widths).zip(texts);
        let padded = cells
            .filter(|((_, width), _)| **width > 0)
            .map(|((column, width), text)| {
                let text = match column.content {
                    Content::Rates => picture.unwrap_or_default().into(),
                    // A command in a sentence is not broken.
                    Content::Sentence => text.into(),
                    _ => truncate_str(text, *width, "…"),
                };
                let side = match column.content {
                    Content::Numbers | Content::Shares => Alignment::Right,
                    _ => Alignment::Left,
                };
                pad_str(&text, *width, side, None).into_owned()
            });
        let line = padded.collect::<Vec<_>>().join(&" ".repeat(GAP));
        line.trim_end().to_owned()
    }
}

/// Returns whether the width of a column can be less than that of its texts.
fn is_flexible(column: &Column) -> bool {
    matches!(column.content, Content::Remark | Content::Sentence)
}

fn text_of(cell: &Cell) -> String {
    match cell {
        Cell::Empty | Cell::Rate(_) => String::new(),
        Cell::Text(text, tone) => toned(text, *tone).to_string(),
        Cell::Share(share, _) => format!("{} %", words::format_percent(*share)),
    }
}
