//! Formats text for a terminal: lines fit its width, and commands are never broken.

use console::{Term, measure_text_width, style};
use provoke_report::wrap_text;
use provoke_words as words;
use provoke_words::document::SuggestedCommand;
use std::borrow::Cow;

/// Minimum width, in columns, to which lines are wrapped.
const NARROWEST: usize = 40;
/// Maximum width of lines, because longer ones are hard to read.
const WIDEST: usize = 100;
/// Width of help texts without a terminal.
const HELP_WIDTH: usize = 80;

/// Returns the width for text on stdout; `None` if stdout is not a terminal.
pub fn stdout_width() -> Option<usize> {
    let (_, columns) = Term::stdout().size_checked()?;
    Some(usize::from(columns).max(NARROWEST))
}

/// Returns the width of the terminal on stderr; `None` if stderr is not a terminal.
pub(super) fn stderr_columns() -> Option<usize> {
    let (_, columns) = Term::stderr().size_checked()?;
    Some(usize::from(columns))
}

/// Returns the width for prose on stdout.
pub fn page_width() -> usize {
    stdout_width().unwrap_or(WIDEST).min(WIDEST)
}

/// Returns the width for help texts.
pub fn help_width() -> usize {
    let terminal = Term::stdout().size_checked();
    terminal.map_or(HELP_WIDTH, |(_, columns)| usize::from(columns).min(WIDEST))
}

/// Returns a page for stdout. If it is longer than the terminal, its answer is repeated at the end, because the beginning
/// scrolls off the screen.
pub(super) fn with_answer_last(page: &str) -> Cow<'_, str> {
    match Term::stdout().size_checked() {
        Some((rows, columns)) => repeat_answer(page, usize::from(rows), usize::from(columns)),
        None => page.into(),
    }
}

/// Repeats the first paragraph of a page at its end, if the page does not fit into these rows; only the first sentence of
/// a paragraph that would fill more than half of them.
fn repeat_answer(page: &str, rows: usize, columns: usize) -> Cow<'_, str> {
    let rows_of = |text: &str| -> usize {
        let rows_of_line = |line| measure_text_width(line).div_ceil(columns.max(1)).max(1);
        text.lines().map(rows_of_line).sum()
    };
    let Some((answer, rest)) = page.split_once("\n\n") else {
        return page.into();
    };
    // The prompt of the shell needs a row, too.
    if rest.trim().is_empty() || rows_of(page) < rows {
        return page.into();
    }
    let answer = if rows_of(answer) <= rows / 2 {
        answer
    } else {
        first_sentence(answer, columns)
    };
    format!("{}\n\n{}\n", page.trim_end(), answer.trim_end()).into()
}

/// Returns the first sentence of a paragraph, whose further lines begin with a word that did not fit into the line before.
fn first_sentence(paragraph: &str, columns: usize) -> &str {
    let width = columns.clamp(NARROWEST, WIDEST);
    let mut end = 0;
    let mut used = width;
    for line in paragraph.split_inclusive('\n') {
        let word = line.split_whitespace().next().unwrap_or_default();
        if used + 1 + measure_text_width(word) <= width {
            break;
        }
        used = measure_text_width(line.trim_end());
        end += line.len();
    }
    &paragraph[..end]
}

/// Wraps lines for stderr, if that is a terminal.
pub(super) fn for_stderr(text: &str) -> String {
    let terminal = Term::stderr();
    if !terminal.is_term() {
        return text.to_owned();
    }
    // A terminal that does not report its width counts as 80 columns wide.
    let (_, columns) = terminal.size();
    break_lines(text, usize::from(columns).clamp(NARROWEST, WIDEST))
}

/// Wraps longer lines with a small indent.
fn break_lines(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let head = &line[..indent];
        lines.extend(wrap_text(
            head,
            indent + 2,
            content,
            Some(width),
            measure_text_width,
        ));
    }
    lines.join("\n")
}

/// Splits a note into its text, and the indented lines of output below it.
pub(super) fn split_note(note: &str) -> (String, Vec<String>) {
    let mut lines = note.lines().map(words::sanitize_line);
    let text = lines.next().unwrap_or_default();
    (text, lines.map(|line| format!("      {line}")).collect())
}

/// Lines of a screen.
pub struct Screen {
    /// Width of lines; `None` if lines are not wrapped.
    width: Option<usize>,
    text: String,
}

impl Screen {
    /// Creates a screen for stdout; its lines are wrapped if that is a terminal.
    pub fn on_stdout() -> Self {
        Self::new(stdout_width())
    }

    pub(super) fn new(width: Option<usize>) -> Self {
        Self {
            width,
            text: String::new(),
        }
    }

    /// Adds a line unchanged: a row of a table, or output of a program.
    pub fn push_row(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Separates two parts, unless nothing was written yet.
    pub fn push_gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Returns the width of the terminal; `None` if the text is for something else.
    pub(super) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Adds text with an indent, wrapped to the width.
    pub fn push_text(&mut self, indent: usize, text: &str) {
        self.push_hanging_text(indent, indent + 2, text);
    }

    /// Adds a line with an indent, without what does not fit into the width.
    pub(super) fn push_cut_line(&mut self, indent: usize, line: &str) {
        let room = self.width.map_or(usize::MAX, |width| width - indent);
        let line = words::shorten_text(line, room);
        self.push_row(&format!("{}{line}", " ".repeat(indent)));
    }

    /// Adds text with one indent for its first line and another for further lines.
    pub fn push_hanging_text(&mut self, indent: usize, hang: usize, text: &str) {
        let room = self.width.map(|width| width.min(WIDEST));
        for line in wrap_text(&" ".repeat(indent), hang, text, room, measure_text_width) {
            self.push_row(&line);
        }
    }

    /// Adds commands with their purposes in a column; a command that does not fit has a separate line.
    pub fn push_commands(&mut self, commands: &[SuggestedCommand]) {
        let purposes = commands.iter().map(|command| command.purpose.len());
        let column = purposes.max().unwrap_or(0) + 3;
        let width = self.width;
        let fits = |command: &SuggestedCommand| {
            let length = column + measure_text_width(&command.line);
            width.is_none_or(|width| length <= width)
        };
        for command in commands {
            let SuggestedCommand {
                purpose,
                line,
                remark,
            } = command;
            let in_columns = fits(command);
            let command_line = style(line).bold().to_string();
            let row = if in_columns {
                format!("{purpose:column$}{command_line}")
            } else {
                let mark = if purpose.ends_with('?') { "" } else { ":" };
                self.push_row(&format!("{purpose}{mark}"));
                format!("  {command_line}")
            };
            if remark.is_empty() {
                self.push_row(&row);
                continue;
            }
            let remark = format!("# {remark}");
            let length = measure_text_width(&row) + 3 + measure_text_width(&remark);
            if self.width.is_none_or(|width| length <= width) {
                self.push_row(&format!("{row}   {}", style(remark).dim()));
            } else {
                self.push_row(&row);
                self.push_remark(if in_columns { column } else { 4 }, &remark);
            }
        }
    }

    /// Adds a remark below its command; further lines are indented like its text.
    fn push_remark(&mut self, indent: usize, remark: &str) {
        let head = " ".repeat(indent);
        for line in wrap_text(&head, indent + 2, remark, self.width, measure_text_width) {
            self.push_row(&style(line).dim().to_string());
        }
    }

    /// Returns the text of the screen.
    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_with_a_hanging_indentation() {
        let mut screen = Screen::new(Some(24));
        screen.push_text(2, "one two three four five six seven");
        screen.push_text(0, "averyveryverylongwordthatdoesnotfit at all");
        insta::assert_snapshot!(screen.into_text(), @"
          one two three four
            five six seven
        averyveryverylongwordthatdoesnotfit
          at all
        ");
        let mut number = Screen::new(Some(40));
        number.push_text(0, "the rate of this program is now at most 3.1 % in all");
        insta::assert_snapshot!(number.into_text(), @"
        the rate of this program is now at most
          3.1 % in all
        ");
        let mut unbroken = Screen::new(None);
        unbroken.push_text(2, &"word ".repeat(60));
        assert_eq!(unbroken.into_text().lines().count(), 1);
    }

    #[test]
    fn a_page_longer_than_the_terminal_repeats_its_answer() {
        let page = "FAIL\n  1 of 2\n\na row of the table\n\nsaved in   out\n";
        // The page has six rows, and the prompt follows.
        assert_eq!(repeat_answer(page, 7, 80), page);
        insta::assert_snapshot!(repeat_answer(page, 6, 80), @"
        FAIL
          1 of 2

        a row of the table

        saved in   out

        FAIL
          1 of 2
        ");
        // In a narrow terminal, a line has several rows.
        assert_ne!(repeat_answer(page, 7, 10), page);
        let long_answer = "it fails in 20 of 20 new trials if a\n  thread is held\n  failure: exit 1\n\nthe rest\n";
        insta::assert_snapshot!(repeat_answer(long_answer, 5, 40), @"
        it fails in 20 of 20 new trials if a
          thread is held
          failure: exit 1

        the rest

        it fails in 20 of 20 new trials if a
          thread is held
        ");
        let one_paragraph = "one\ntwo\nthree\n";
        assert_eq!(repeat_answer(one_paragraph, 2, 80), one_paragraph);
    }

    #[test]
    fn errors_are_wrapped_with_a_hanging_indentation() {
        let text = "error: the run has 2 variants\n  caused by: the file has too many lines\n\nhint: `provoke list --all` shows them";
        insta::assert_snapshot!(break_lines(text, 24), @"
        error: the run has 2
          variants
          caused by: the file
            has too many lines

        hint:
          `provoke list --all`
          shows them
        ");
    }

    #[test]
    fn a_command_is_never_wrapped() {
        let commands = [
            SuggestedCommand::new("is it fixed?", "provoke confirm -- CMD")
                .with_remark("70 passing trials, 0.4 s"),
            SuggestedCommand::new("saved in", "provoke-out/20261122-035210-ecbc"),
        ];
        let shown = |width| {
            let mut screen = Screen::new(Some(width));
            screen.push_commands(&commands);
            console::strip_ansi_codes(&screen.into_text()).into_owned()
        };
        insta::assert_snapshot!(shown(80), @"
        is it fixed?   provoke confirm -- CMD   # 70 passing trials, 0.4 s
        saved in       provoke-out/20261122-035210-ecbc
        ");
        insta::assert_snapshot!(shown(50), @"
        is it fixed?   provoke confirm -- CMD
                       # 70 passing trials, 0.4 s
        saved in       provoke-out/20261122-035210-ecbc
        ");
        insta::assert_snapshot!(shown(40), @"
        is it fixed?   provoke confirm -- CMD
                       # 70 passing trials,
                         0.4 s
        saved in:
          provoke-out/20261122-035210-ecbc
        ");
    }
}
