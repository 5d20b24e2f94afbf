//! Fits the lines of the live display to the width of the terminal.

use console::{measure_text_width, truncate_str};
use std::cmp::Reverse;

/// Minimum width of the description of a trial, and of the words of its program.
const SHORTEST: usize = 16;

/// How much a part of the status matters on a narrow terminal, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Importance {
    /// What the running trial does.
    Detail,
    /// A picture of the progress, which other parts state in numbers.
    Picture,
    /// How often each kind of failure occurred.
    Count,
    /// How far the run is, and how long it takes.
    Progress,
}

/// A part of the status.
#[derive(Clone, Debug)]
pub(super) struct StatusPart {
    pub(super) importance: Importance,
    pub(super) text: String,
}

impl StatusPart {
    pub(super) fn new(importance: Importance, text: impl Into<String>) -> Self {
        Self {
            importance,
            text: text.into(),
        }
    }
}

/// Joins the parts of a status. If it does not fit, the least important part loses its last clause, or is left out.
pub(super) fn fit_status(mut parts: Vec<StatusPart>, columns: usize) -> String {
    loop {
        let status = join_parts(&parts);
        if measure_text_width(&status) <= columns {
            return status;
        }
        let least_important = parts
            .iter()
            .enumerate()
            .min_by_key(|(index, part)| (part.importance, Reverse(*index)));
        let Some((index, part)) = least_important else {
            return status;
        };
        match part.text.rfind(", ") {
            Some(end) => parts[index].text.truncate(end),
            None if parts.len() == 1 => return status,
            None => {
                parts.remove(index);
            }
        }
    }
}

/// Joins all parts of a status.
pub(super) fn join_parts(parts: &[StatusPart]) -> String {
    let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    texts.join(GAP)
}

/// Blanks between the parts of a status.
const GAP: &str = "   ";

/// Returns the line of a trial. On a terminal, its description is shortened so that its duration stays visible, and the
/// words of the program are left out if little room remains.
pub(super) fn fit_trial_line(
    head: &str,
    text: &str,
    time: &str,
    words: &str,
    columns: Option<usize>,
) -> String {
    let Some(columns) = columns else {
        return format!("{head}{text}  {time}{words}");
    };
    let used_width = measure_text_width(head) + 2 + measure_text_width(time);
    let text = truncate_str(text, columns.saturating_sub(used_width).max(SHORTEST), "…");
    let line = format!("{head}{text}  {time}");
    if measure_text_width(&line) + SHORTEST > columns {
        line
    } else {
        line + words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_passes_and_the_time_left_stay_in_a_narrow_status() {
        let parts = [
            (Importance::Picture, "#########..."),
            (Importance::Progress, "38 of 49 trials"),
            (Importance::Count, "14 exit 3"),
            (
                Importance::Progress,
                "fails at 21, 18 of 29 passes needed at 20",
            ),
            (Importance::Progress, "14 s, 6 s left"),
            (Importance::Detail, "20: load 900/s, 20 in flight"),
        ]
        .map(|(importance, text)| StatusPart::new(importance, text));
        let lines = [140, 120, 100, 80, 60].map(|columns| fit_status(parts.to_vec(), columns));
        insta::assert_snapshot!(lines.join("\n"), @"
        #########...   38 of 49 trials   14 exit 3   fails at 21, 18 of 29 passes needed at 20   14 s, 6 s left   20: load 900/s, 20 in flight
        #########...   38 of 49 trials   14 exit 3   fails at 21, 18 of 29 passes needed at 20   14 s, 6 s left   20: load 900/s
        38 of 49 trials   14 exit 3   fails at 21, 18 of 29 passes needed at 20   14 s, 6 s left
        38 of 49 trials   fails at 21, 18 of 29 passes needed at 20   14 s, 6 s left
        38 of 49 trials   fails at 21, 18 of 29 passes needed at 20
        ");
    }

    #[test]
    fn the_duration_in_a_trial_line_is_never_truncated() {
        let lines = [None, Some(60), Some(40), Some(20)].map(|columns| {
            let text = "SIGSEGV, null pointer, in sum < main";
            fit_trial_line("  #3  ", text, "23 ms", "  it said so", columns)
        });
        insta::assert_snapshot!(lines.join("\n"), @"
        #3  SIGSEGV, null pointer, in sum < main  23 ms  it said so
        #3  SIGSEGV, null pointer, in sum < main  23 ms
        #3  SIGSEGV, null pointer, in …  23 ms
        #3  SIGSEGV, null p…  23 ms
        ");
    }
}
