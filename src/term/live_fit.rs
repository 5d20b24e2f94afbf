//! Fits the lines of the live display to the width of the terminal.

use console::{measure_text_width, truncate_str};

/// Minimum width of the description of a trial, and of the words of its program.
const SHORTEST: usize = 16;

/// Leaves out the last details of a status that does not fit.
pub(super) fn fit_status(mut status: String, columns: usize) -> String {
    while measure_text_width(&status) > columns {
        let Some(end) = status.rfind(", ").max(status.rfind(GAP)) else {
            break;
        };
        status.truncate(end);
    }
    status
}

/// Blanks between the parts of a status.
pub(super) const GAP: &str = "   ";

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
