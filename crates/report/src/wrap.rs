//! Wraps text into lines.

/// Breaks a text at blanks, so that no line is longer than `room`, if its words allow that. The first line begins with
/// `head`, the others with `indent` blanks. Commands are not broken.
pub fn wrap_text(
    head: &str,
    hang: usize,
    text: &str,
    room: Option<usize>,
    measure: impl Fn(&str) -> usize,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = head.to_owned();
    let mut is_empty = true;
    for word in split_unbreakable(text) {
        let length = measure(&line) + measure(word) + usize::from(!is_empty);
        if !is_empty && !word.is_empty() && room.is_some_and(|room| length > room) {
            lines.push(line);
            line = " ".repeat(hang);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// Splits a text at blanks, except within a command.
fn split_unbreakable(text: &str) -> Vec<&str> {
    let mut units = Vec::new();
    let mut rest = text;
    loop {
        let is_flag =
            rest.starts_with('-') && units.last().is_some_and(|unit: &&str| unit.ends_with(':'));
        let length = match rest.strip_prefix('`').and_then(|quoted| quoted.find('`')) {
            Some(end) => end + 2 + word_length(&rest[end + 2..]),
            None if is_command(rest) => command_length(rest, &[]),
            None if is_flag => command_length(rest, &["or", "and", "if", "to"]),
            None if short_parentheses(rest).is_some() => {
                let end = short_parentheses(rest).unwrap_or(0);
                end + word_length(&rest[end..])
            }
            None => word_length(rest),
        };
        let (unit, remainder) = rest.split_at(length);
        units.push(unit);
        match remainder.strip_prefix(' ') {
            Some(next) => rest = next,
            None => return units,
        }
    }
}

/// Length in bytes of a parenthesized text that is not broken.
const SHORT: usize = 24;

/// Returns the length of a short text in parentheses at the beginning.
fn short_parentheses(text: &str) -> Option<usize> {
    let end = text.strip_prefix('(')?.find(')')? + 2;
    (end <= SHORT).then_some(end)
}

/// Units that are not separated from their number.
const UNITS: [&str; 8] = ["s", "ms", "µs", "bytes", "KiB", "MiB", "GiB", "h"];

/// Returns the length in bytes up to the next blank, not counting a blank between a number and its unit.
fn word_length(text: &str) -> usize {
    let is_unit = |text: &str| {
        let letters = text.find(|letter: char| !letter.is_alphabetic());
        UNITS.contains(&&text[..letters.unwrap_or(text.len())])
    };
    let mut blanks = text.match_indices(' ').map(|(at, _)| at);
    let end = blanks.find(|at| {
        let behind = &text[at + 1..];
        let follows_number = text[..*at].ends_with(|last: char| last.is_ascii_digit());
        !(behind.starts_with('%') || follows_number && is_unit(behind))
    });
    end.unwrap_or(text.len())
}

/// Returns whether a text is a command of provoke without quotes.
fn is_command(text: &str) -> bool {
    let mut words = text.split(' ');
    words.next() == Some("provoke") && words.next().is_some_and(|word| COMMANDS.contains(&word))
}

const COMMANDS: [&str; 14] = [
    "run", "confirm", "compare", "bisect", "reduce", "load", "scenario", "resume", "report",
    "replay", "explain", "list", "diff", "plan",
];

/// Returns the length of a command in bytes: it ends with the text, with a comma or semicolon after a word, or before
/// one of these words.
fn command_length(text: &str, ends: &[&str]) -> usize {
    let mut length = 0;
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end_matches(' ');
        if length > 0 && ends.contains(&bare) {
            break;
        }
        length += word.len();
        if bare.ends_with([',', ';']) {
            break;
        }
    }
    text[..length].trim_end_matches(' ').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_not_wrapped() {
        let lines = wrap_text(
            "- ",
            4,
            "run it again with `provoke resume last -n 20` or not",
            Some(24),
            str::len,
        );
        insta::assert_snapshot!(lines.join("\n"), @"
        - run it again with
            `provoke resume last -n 20`
            or not
        ");
        let text =
            "give counts: provoke plan --baseline 3/30, or --rate 5%, or: --width 1 % if known";
        let lines = wrap_text("", 2, text, Some(20), str::len);
        insta::assert_snapshot!(lines.join("\n"), @"
        give counts:
          provoke plan --baseline 3/30,
          or --rate 5%, or:
          --width 1 % if
          known
        ");
        let lines = wrap_text("", 2, "in main (thread 5), once", Some(16), str::len);
        assert_eq!(lines, ["in main", "  (thread 5),", "  once"]);
        let lines = wrap_text("", 2, "one ` alone is text", Some(12), str::len);
        assert_eq!(lines, ["one ` alone", "  is text"]);
    }
}
