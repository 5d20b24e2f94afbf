//! Describes what a page says, but not how it looks: sentences, tables and commands. A renderer makes text, Markdown or
//! HTML of it.
//!
//! The texts are from outside: a renderer makes them safe for its format.

/// Meaning of a text for the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// It is neither good nor bad.
    #[default]
    Plain,
    /// It is good.
    Good,
    /// It is bad.
    Bad,
    /// It is not known, or doubtful.
    Open,
    /// It is less important than the text around it.
    Faint,
}

/// The answer to a question, or a part of a report.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The answer in one sentence.
    pub headline: String,
    /// Whether it is good.
    pub tone: Tone,
    /// Further facts, one line each.
    pub facts: Vec<String>,
    /// Drawings in characters.
    pub figures: Vec<Figure>,
    /// Tables.
    pub tables: Vec<Table>,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
}

/// A drawing in characters.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its heading.
    pub title: &'static str,
    /// Its lines.
    pub lines: Vec<String>,
}

/// Where a table is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the first screen, on pages and in Markdown.
    Screen,
    /// On pages and in Markdown.
    Page,
    /// The same, folded if the format allows it.
    Details,
}

impl Place {
    /// All places.
    pub const ALL: [Self; 3] = [Self::Screen, Self::Page, Self::Details];
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its heading.
    pub title: &'static str,
    /// Where it is shown.
    pub place: Place,
    /// Explains the table; may be empty.
    pub note: String,
    /// Explains marks and words in the cells, one line each.
    pub legend: Vec<&'static str>,
    /// Its columns. One without any content is not shown.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Rows that say the same about many things.
    pub folded: Option<FoldedRows>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its heading.
    pub head: String,
    /// Kind of its cells.
    pub content: Content,
    /// Order in which columns are left out if the table is too wide, from 1; 0 for a column that stays.
    pub leaves: u8,
    /// The texts of columns with a higher number are cut before those of others; with the same number, the longest first.
    pub cut_priority: u8,
}

/// Kind of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Names and words.
    Words,
    /// Numbers, which are aligned.
    Numbers,
    /// Probabilities.
    Shares,
    /// Pictures of rates on one axis. They are the first to be left out.
    Rates,
    /// A text that may be cut.
    Remark,
    /// A sentence, which is wrapped.
    Sentence,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub enum Row {
    /// One cell for each column.
    Cells(Vec<Cell>),
    /// One cell for each column, in the row that the answer is about, and the reason.
    Answer(Vec<Cell>, &'static str),
    /// Something that was left out.
    Gap(String),
    /// A sentence about the row above.
    Note(String, Tone),
    /// A command for the row above.
    Command(String),
}

/// Rows that say the same about many things.
#[derive(Clone, Debug)]
pub struct FoldedRows {
    /// Their common result.
    pub label: String,
    /// A row in place of all of them.
    pub sum: Vec<Cell>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub enum Cell {
    /// Nothing.
    #[default]
    Empty,
    /// A text.
    Text(String, Tone),
    /// A failure rate.
    Rate(RateMark),
    /// A probability, and whether it belongs to the answer.
    Share(f64, bool),
}

/// A failure rate on an axis.
#[derive(Clone, Debug)]
pub struct RateMark {
    /// Trials that failed.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// The interval.
    pub interval: [f64; 2],
    /// The estimate; `None` if it would mislead.
    pub point: Option<f64>,
    /// The shape of the point.
    pub shape: PointShape,
    /// A rate to compare with.
    pub limit: Option<f64>,
}

/// Shape of the point of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointShape {
    /// Failures were seen.
    Filled,
    /// No failure was seen, or it passed often enough.
    Hollow,
    /// Not known.
    Dash,
}

impl RateMark {
    /// Returns the mark of a measured rate.
    pub fn new(failures: u64, trials: u64, interval: [f64; 2], point: Option<f64>) -> Self {
        let shape = if failures > 0 {
            PointShape::Filled
        } else {
            PointShape::Hollow
        };
        Self {
            failures,
            trials,
            interval,
            point,
            shape,
            limit: None,
        }
    }

    /// Returns the mark of a rate whose estimate is the share of failures; without a failure, there is none.
    pub fn of_share(failures: u64, trials: u64, interval: [f64; 2]) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share is shown with few digits"
        )]
        let share = failures as f64 / trials.max(1) as f64;
        Self::new(failures, trials, interval, (failures > 0).then_some(share))
    }

    /// Describes it in words.
    pub fn describe(&self, name: &str) -> String {
        let trials = super::format_count(self.trials, "trial");
        let interval = super::format_interval(self.interval);
        let named = if name.is_empty() {
            String::new()
        } else {
            format!("{name}: ")
        };
        format!(
            "{named}{} of {trials} failed, interval {interval}",
            self.failures
        )
    }
}

impl Cell {
    /// Returns a cell with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::toned(text, Tone::Plain)
    }

    /// Returns a cell with a text that means something.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        if text.is_empty() {
            Self::Empty
        } else {
            Self::Text(text, tone)
        }
    }

    /// Returns a cell with a probability, if it is worth a number.
    pub fn share(probability: f64, is_answer: bool) -> Self {
        if probability > 0.005 {
            Self::Share(probability, is_answer)
        } else {
            Self::Empty
        }
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl Row {
    /// Returns its cells; none in a row that is one text.
    pub fn cells(&self) -> &[Cell] {
        match self {
            Self::Cells(cells) | Self::Answer(cells, _) => cells,
            Self::Gap(_) | Self::Note(..) | Self::Command(_) => &[],
        }
    }
}

impl Column {
    /// Returns a column of names and words.
    pub fn words(head: impl Into<String>) -> Self {
        Self::of(head, Content::Words)
    }

    /// Returns a column of numbers.
    pub fn numbers(head: impl Into<String>) -> Self {
        Self::of(head, Content::Numbers)
    }

    /// Returns a column of probabilities.
    pub fn shares(head: impl Into<String>) -> Self {
        Self::of(head, Content::Shares)
    }

    /// Returns a column of pictures of rates.
    pub fn rates() -> Self {
        Self::of("", Content::Rates)
    }

    /// Returns a column of texts that may be cut.
    pub fn remarks(head: impl Into<String>) -> Self {
        Self::of(head, Content::Remark)
    }

    /// Returns a column of sentences, which are wrapped.
    pub fn sentences(head: impl Into<String>) -> Self {
        Self::of(head, Content::Sentence)
    }

    /// Leaves it out if the table is too wide, in this order.
    #[must_use]
    pub fn leaving(self, order: u8) -> Self {
        Self {
            leaves: order,
            ..self
        }
    }

    /// Cuts its texts before those of columns with a lower number.
    #[must_use]
    pub fn with_cut_priority(self, cut_priority: u8) -> Self {
        Self {
            cut_priority,
            ..self
        }
    }

    fn of(head: impl Into<String>, content: Content) -> Self {
        Self {
            head: head.into(),
            content,
            leaves: 0,
            cut_priority: 0,
        }
    }
}

impl Table {
    /// Returns a table without rows.
    pub fn new(title: &'static str, place: Place, columns: Vec<Column>) -> Self {
        Self {
            title,
            place,
            note: String::new(),
            legend: Vec::new(),
            columns,
            rows: Vec::new(),
            folded: None,
        }
    }

    /// Adds rows of cells.
    #[must_use]
    pub fn with_rows(mut self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        self.rows.extend(rows.into_iter().map(Row::Cells));
        self
    }

    /// Returns whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.folded.is_none()
    }

    /// Returns all rows, with the rows that may be folded.
    pub fn all_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .chain(self.folded.iter().flat_map(|folded| &folded.rows))
    }

    /// Returns whether a column has any content.
    pub fn has_content(&self, column: usize) -> bool {
        self.all_rows()
            .any(|row| row.cells().get(column).is_some_and(|cell| !cell.is_empty()))
    }

    /// Returns the column with the names of its rows.
    pub fn name_column(&self) -> Option<usize> {
        let mut columns = self.columns.iter().enumerate();
        let is_name = |(index, column): &(usize, &Column)| {
            column.content == Content::Words && self.has_content(*index)
        };
        columns.find(is_name).map(|(index, _)| index)
    }

    /// Returns the name of a row; empty without any.
    pub fn name_of<'a>(&self, row: &'a Row) -> &'a str {
        let cell = self.name_column().and_then(|index| row.cells().get(index));
        match cell {
            Some(Cell::Text(name, _)) => name,
            _ => "",
        }
    }

    /// Returns the rates of its cells with the names of their rows.
    pub fn rates(&self) -> impl Iterator<Item = (&str, &RateMark)> {
        self.all_rows().filter_map(|row| {
            let name = self.name_of(row);
            let rate = row.cells().iter().find_map(|cell| match cell {
                Cell::Rate(rate) => Some(rate),
                _ => None,
            });
            rate.map(|rate| (name, rate))
        })
    }

    /// Returns the probabilities of its rows, with their first two cells; 0 for one that is not worth a number.
    pub fn shares(&self) -> impl Iterator<Item = (&str, &str, f64, bool)> {
        let column = self
            .columns
            .iter()
            .position(|column| column.content == Content::Shares);
        self.all_rows().filter_map(move |row| match row.cells() {
            [Cell::Text(name, _), second, ..] => {
                let second = match second {
                    Cell::Text(text, _) => text.as_str(),
                    _ => "",
                };
                match row.cells().get(column?)? {
                    Cell::Share(share, is_answer) => {
                        Some((name.as_str(), second, *share, *is_answer))
                    }
                    _ => Some((name.as_str(), second, 0.0, false)),
                }
            }
            _ => None,
        })
    }

    /// Returns the ends that the axis of its rates must contain.
    pub fn rate_ends(&self) -> impl Iterator<Item = [f64; 2]> {
        self.rates().flat_map(|(_, rate)| {
            let limit = rate.limit.map(|limit| [limit, limit]);
            std::iter::once(rate.interval).chain(limit)
        })
    }
}

/// A suggested command.
#[derive(Clone, Debug)]
pub struct SuggestedCommand {
    /// Purpose.
    pub purpose: String,
    /// The command line.
    pub line: String,
    /// Its cost, or what to replace in it.
    pub remark: String,
}

impl SuggestedCommand {
    /// Creates a command for a purpose.
    pub fn new(purpose: &str, line: impl Into<String>) -> Self {
        Self {
            purpose: purpose.to_owned(),
            line: line.into(),
            remark: String::new(),
        }
    }

    /// Adds a remark in parentheses.
    #[must_use]
    pub fn with_remark(mut self, remark: impl Into<String>) -> Self {
        self.remark = remark.into();
        self
    }
}
