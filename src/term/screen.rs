//! Formats text for a terminal: lines fit its width, and commands are never broken.

use crate::report::wrap_text;
use console::{Term, measure_text_width, style};

/// Minimum width, in columns, to which lines are wrapped.
const NARROWEST: usize = 40;
/// Maximum width of lines, because longer ones are hard to read.
const WIDEST: usize = 100;

/// Returns the width for text on stdout; `None` if stdout is not a terminal.
pub fn stdout_width() -> Option<usize> {
    let (_, columns) = Term::stdout().size_checked()?;
    Some(usize::from(columns).max(NARROWEST))
}

/// Returns the width for prose on stdout.
pub fn page_width() -> usize {
    stdout_width().unwrap_or(WIDEST).min(WIDEST)
}

/// Width of a terminal that does not report its own.
const USUAL: usize = 80;

/// Wraps lines for stderr, if that is a terminal.
pub(super) fn for_stderr(text: &str) -> String {
    let terminal = Term::stderr();
    if !terminal.is_term() {
        return text.to_owned();
    }
    let columns = terminal
        .size_checked()
        .map_or(USUAL, |(_, columns)| usize::from(columns));
    break_lines(text, columns.clamp(NARROWEST, WIDEST))
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

/// A suggested command.
pub struct SuggestedCommand {
    /// Purpose.
    purpose: String,
    line: String,
    /// Its cost, or what to replace in it.
    remark: String,
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

    /// Adds text with an indent, wrapped to the width.
    pub fn push_text(&mut self, indent: usize, text: &str) {
        self.push_hanging_text(indent, indent + 2, text);
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
        let purposes = commands.iter().map(|one| one.purpose.len());
        let column = purposes.max().unwrap_or(0) + 3;
        let fits = |command: &SuggestedCommand| {
            let length = column + measure_text_width(&command.line);
            self.width.is_none_or(|width| length <= width)
        };
        let in_columns = commands.iter().all(fits);
        for SuggestedCommand {
            purpose,
            line,
            remark,
        } in commands
        {
            let shown = style(line).bold().to_string();
            let mut row = if in_columns {
                format!("{purpose:column$}{shown}")
            } else {
                let mark = if purpose.ends_with('?') { "" } else { ":" };
                self.push_row(&format!("{purpose}{mark}"));
                format!("  {shown}")
            };
            if !remark.is_empty() {
                let remark = style(format!("# {remark}")).dim().to_string();
                let length = measure_text_width(&row) + 3 + measure_text_width(&remark);
                if self.width.is_none_or(|width| length <= width) {
                    row = format!("{row}   {remark}");
                } else {
                    self.push_row(&row);
                    row = format!(
                        "{}{remark}",
                        " ".repeat(if in_columns { column } else { 2 })
                    );
                }
            }
            self.push_row(&row);
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
    fn lines_are_broken_at_the_width_with_a_hanging_indentation() {
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
    fn an_error_is_broken_with_a_hanging_indentation() {
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
    fn a_command_is_never_broken() {
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
        is it fixed?
          provoke confirm -- CMD
          # 70 passing trials, 0.4 s
        saved in:
          provoke-out/20261122-035210-ecbc
        ");
    }
}
