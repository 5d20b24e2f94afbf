//! Splits a shell command line into its commands, and the operators between them.
//!
//! The result is only for warnings, so unsupported syntax is ignored: loops, groups, functions and
//! here-documents.

/// Operator behind a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShellOperator {
    /// `;` or a line end: run the next pipeline, if there is one.
    Next,
    /// `&&`: run the next pipeline if this one succeeds.
    And,
    /// `||`: run the next pipeline if this one fails.
    Or,
    /// `&`: run the next pipeline at once.
    Background,
}

/// Commands connected with pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pipeline {
    /// Words of each command, without quotes.
    pub(super) commands: Vec<Vec<String>>,
    pub(super) then: ShellOperator,
}

/// First words that make a command a compound command.
const COMPOUND: [&str; 19] = [
    "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "eval", "fi", "for", "function",
    "if", "select", "then", "until", "while", "{", "}",
];

/// Returns the pipelines of a line in order; `None` if the line has unsupported syntax.
pub(super) fn outline_line(line: &str) -> Option<Vec<Pipeline>> {
    let mut scanner = ShellScanner {
        rest: line,
        ..ShellScanner::default()
    };
    while scanner.step_once()? {}
    scanner.end_pipeline(ShellOperator::Next)?;
    Some(scanner.pipelines)
}

#[derive(Default)]
struct ShellScanner<'a> {
    rest: &'a str,
    /// The incomplete word, if there is one.
    word: Option<String>,
    command: Vec<String>,
    commands: Vec<Vec<String>>,
    pipelines: Vec<Pipeline>,
}

impl ShellScanner<'_> {
    /// Reads the next token. Returns false at the end, and `None` for unsupported syntax.
    fn step_once(&mut self) -> Option<bool> {
        for (operator, next_operator) in [("&&", ShellOperator::And), ("||", ShellOperator::Or)] {
            if self.take_operator(operator) {
                self.end_pipeline(next_operator)?;
                return Some(true);
            }
        }
        if self.take_operator("|&") || self.take_operator("|") {
            self.end_command()?;
            return Some(true);
        }
        // This `&` is part of a redirection.
        for redirection in ["&>", ">&", "<&", ">|"] {
            if self.take_operator(redirection) {
                self.current_word().push_str(redirection);
                return Some(true);
            }
        }
        if self.rest.starts_with("<<") {
            return None;
        }
        let Some(c) = self.rest.chars().next() else {
            return Some(false);
        };
        self.rest = &self.rest[c.len_utf8()..];
        match c {
            '\n' if self.word.is_none() && self.command.is_empty() => {}
            ';' | '\n' => self.end_pipeline(ShellOperator::Next)?,
            '&' => self.end_pipeline(ShellOperator::Background)?,
            '(' | ')' => return None,
            '#' if self.word.is_none() => {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
            }
            c if c.is_whitespace() => self.end_word(),
            '\\' => {
                let escaped = self.rest.chars().next()?;
                self.rest = &self.rest[escaped.len_utf8()..];
                if escaped != '\n' {
                    self.current_word().push(escaped);
                }
            }
            '\'' => {
                let (quoted, rest) = self.rest.split_once('\'')?;
                self.current_word().push_str(quoted);
                self.rest = rest;
            }
            '"' | '`' => {
                let length = closing_offset(self.rest, c)?;
                let quoted = &self.rest[..length];
                self.rest = &self.rest[length + 1..];
                self.current_word().push_str(quoted);
            }
            '$' if self.rest.starts_with(['(', '{']) => {
                let close = if self.rest.starts_with('(') { ')' } else { '}' };
                let length = closing_offset(&self.rest[1..], close)? + 2;
                let substitution = &self.rest[..length];
                self.rest = &self.rest[length..];
                let word = self.current_word();
                word.push('$');
                word.push_str(substitution);
            }
            c => self.current_word().push(c),
        }
        Some(true)
    }

    fn take_operator(&mut self, operator: &str) -> bool {
        match self.rest.strip_prefix(operator) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn current_word(&mut self) -> &mut String {
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        self.command.extend(self.word.take());
    }

    fn end_command(&mut self) -> Option<()> {
        self.end_word();
        let mut command = std::mem::take(&mut self.command);
        if command.first().is_some_and(|word| word == "!") {
            command.remove(0);
        }
        if command
            .first()
            .is_some_and(|word| COMPOUND.contains(&word.as_str()))
        {
            return None;
        }
        if !command.is_empty() {
            self.commands.push(command);
        }
        Some(())
    }

    fn end_pipeline(&mut self, next_operator: ShellOperator) -> Option<()> {
        self.end_command()?;
        let commands = std::mem::take(&mut self.commands);
        if !commands.is_empty() {
            self.pipelines.push(Pipeline {
                commands,
                then: next_operator,
            });
        }
        Some(())
    }
}

/// Returns the offset of the closing character, skipping nested quotes and substitutions.
fn closing_offset(text: &str, close: char) -> Option<usize> {
    let mut position = 0;
    while let Some(c) = text[position..].chars().next() {
        if c == close {
            return Some(position);
        }
        let inside = position + c.len_utf8();
        let nested = match c {
            '\\' => inside + text[inside..].chars().next()?.len_utf8(),
            '$' if text[inside..].starts_with('(') => {
                inside + 1 + closing_offset(&text[inside + 1..], ')')? + 1
            }
            // Other characters have no meaning within double quotes.
            _ if close == '"' => inside,
            '\'' if close != '`' => inside + text[inside..].find('\'')? + 1,
            '"' => inside + closing_offset(&text[inside..], '"')? + 1,
            '(' if close == ')' => inside + closing_offset(&text[inside..], ')')? + 1,
            _ => inside,
        };
        position = nested;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats an outline as `a b | c && d`.
    fn format_outline(line: &str) -> Option<String> {
        let pipelines = outline_line(line)?;
        let outlines = pipelines.iter().map(|pipeline| {
            let commands: Vec<String> = pipeline.commands.iter().map(|c| c.join(" ")).collect();
            format!("{} {:?}", commands.join(" | "), pipeline.then)
        });
        Some(outlines.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn operators_separate_commands() {
        for (line, expected) in [
            ("a b|c && d", "a b | c And; d Next"),
            ("a |& b || c", "a | b Or; c Next"),
            ("a & b;", "a Background; b Next"),
            ("a\n\nb # | c\n", "a Next; b Next"),
            ("a &&\n b", "a And; b Next"),
            ("a > x 2>&1 &> y >| z", "a > x 2>&1 &> y >| z Next"),
            ("! a", "a Next"),
            ("", ""),
        ] {
            assert_eq!(format_outline(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn quoted_and_substituted_operators_do_not_separate_commands() {
        for line in [
            "echo 'a | b; c'",
            r#"echo "a | b \" ; c""#,
            "echo $(a | b; c)",
            r#"echo $(a "$(b ')' | c)" | d)"#,
            r#"echo "x $(a " | " b) y | z""#,
            "echo `a | b`",
            r"echo a\|b\;c",
            "echo ${x:-a|b}",
            "echo $((1 | 2))",
        ] {
            let found = outline_line(line).unwrap();
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert_eq!(found[0].commands.len(), 1, "{line}: {found:?}");
        }
    }

    #[test]
    fn compound_and_unfinished_lines_have_no_outline() {
        for line in [
            "for i in 1 2; do x | y; done",
            "if a; then b; fi",
            "(a | b); c",
            "{ a; b; }",
            "f() { a; }",
            "cat <<EOF\na | b\nEOF",
            "[[ a || b ]]",
            "echo 'unfinished",
            "echo \"unfinished",
            "echo $(unfinished",
            "a \\",
        ] {
            assert_eq!(outline_line(line), None, "{line}");
        }
    }
}
