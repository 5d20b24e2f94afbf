//! Finds the line of source code that a message names.

use provoke_model::Site;
use std::ops::Range;

/// Returns the source line of the last failure in an output: the innermost call of a Python
/// traceback or of a JavaScript stack, or the place of a panic or an assertion.
pub fn find_site(text: &str) -> Option<Site> {
    let lines: Vec<&str> = text.lines().collect();
    (0..lines.len())
        .rev()
        .find_map(|index| site_of_traceback(&lines[index..]).or_else(|| of_line(lines[index])))
}

/// Parses `Traceback (most recent call last):`, calls, then the exception. The innermost call is
/// the last.
fn site_of_traceback(lines: &[&str]) -> Option<Site> {
    if !lines[0]
        .trim()
        .starts_with("Traceback (most recent call last)")
    {
        return None;
    }
    let is_call = |line: &&&str| line.starts_with(' ');
    let call_lines: Vec<&&str> = lines[1..].iter().take_while(is_call).collect();
    let mut calls = call_lines
        .into_iter()
        .rev()
        .filter_map(|line| python_call(line));
    let innermost = calls.next()?;
    Some(Site {
        caller: calls.next().map(Box::new),
        ..innermost
    })
}

/// Parses `File "job.py", line 4, in loss`.
fn python_call(line: &str) -> Option<Site> {
    let rest = line.trim().strip_prefix("File \"")?;
    let (file, rest) = rest.split_once("\", line ")?;
    let (line, function) = rest.split_once(", in ").unwrap_or((rest, ""));
    let mut site = site_at(file, line)?;
    site.function =
        Some(function.to_owned()).filter(|name| !name.is_empty() && *name != "<module>");
    Some(site)
}

fn of_line(line: &str) -> Option<Site> {
    // Rust: `thread 'main' panicked at src/main.rs:4:5:`; until 1.73 the message precedes the
    // place.
    if let Some((_, rest)) = line.split_once(" panicked at ") {
        let site = rest.rsplit(", ").find_map(first_place);
        return site.or_else(|| first_place(rest));
    }
    // C: `prog: a.c:12: int f(int): Assertion `x > 0' failed.`
    if let Some((location, _)) = line.split_once(": Assertion ") {
        return location.split(' ').find_map(first_place);
    }
    // Sanitizers: `SUMMARY: AddressSanitizer: heap-use-after-free /src/a.c:12:3 in f`.
    if let Some((_, rest)) = line.split_once("SUMMARY: ")
        && rest.contains("Sanitizer: ")
    {
        let (location, function) = rest.rsplit_once(" in ")?;
        let mut site = location.rsplit(' ').find_map(first_place)?;
        site.function = Some(function.trim().to_owned());
        return Some(site);
    }
    // Node.js: `    at loss (/src/job.js:4:11)`.
    let call = line.trim().strip_prefix("at ")?;
    let location = call.rsplit(['(', ' ']).next()?.trim_end_matches(')');
    first_place(location)
}

/// Parses `file:line` or `file:line:column` at the start of a text.
fn first_place(text: &str) -> Option<Site> {
    let mut fields = text.trim().split(':');
    site_at(fields.next()?, fields.next()?)
}

/// Plausible line numbers.
const LINES: Range<u32> = 1..10_000_000;

fn site_at(file: &str, line: &str) -> Option<Site> {
    let line = line
        .trim()
        .parse()
        .ok()
        .filter(|line| LINES.contains(line))?;
    let is_file = file.contains('.') && !file.contains(['<', '>', ' ']);
    is_file.then(|| Site {
        file: file.to_owned(),
        line,
        ..Site::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site_text(text: &str) -> String {
        find_site(text).map_or("none".to_owned(), |site| site.to_string())
    }

    #[test]
    fn the_site_is_the_innermost_call_of_the_last_traceback() {
        let text = "Traceback (most recent call last):\n  File \"old.py\", line 1, in <module>\nKeyError: 1\nretrying\nTraceback (most recent call last):\n  File \"/src/job.py\", line 7, in <module>\n    loss(i, 0.02)\n  File \"/src/job.py\", line 4, in loss\n    raise ValueError\nValueError: loss is nan\n";
        assert_eq!(site_text(text), "job.py:4 in loss, called from job.py:7");
        assert_eq!(site_text("  File \"job.py\", line 7, in f"), "none");
    }

    #[test]
    fn sites_of_panics_assertions_sanitizers_and_scripts_are_found() {
        for (text, expected) in [
            (
                "thread 'main' panicked at src/main.rs:4:5:\nno",
                "main.rs:4",
            ),
            (
                "thread 'a' (7) panicked at 'no, never', src/lib.rs:9:1",
                "lib.rs:9",
            ),
            (
                "prog: dir/a.c:12: int f(int): Assertion `x > 0' failed.",
                "a.c:12",
            ),
            (
                "SUMMARY: AddressSanitizer: heap-use-after-free /src/a.c:12:3 in f",
                "a.c:12 in f",
            ),
            ("Error: no\n    at loss (/src/job.js:4:11)\n", "job.js:4"),
            ("SUMMARY: ThreadSanitizer: data race", "none"),
            ("everything is fine: 12:30:01", "none"),
            ("panicked at nowhere:0:0", "none"),
        ] {
            assert_eq!(site_text(text), expected, "{text}");
        }
    }
}
