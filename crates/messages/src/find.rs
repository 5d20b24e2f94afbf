//! Finds the line of an output that explains a failure best.

use super::forms::{DATA_RACE, JAVA_CRASH};
use super::{MessageMeaning, failed_tests, go, innermost_own_site, javascript, read_tell, table};

/// Bytes at the end of an output that are searched.
const TAIL: usize = 64 * 1024;

/// Bytes of a line that are kept.
const LONGEST: usize = 400;

/// Returns the line at the end of an output that explains best why a program failed.
///
/// Related parts of the next lines are appended: the message of an exception, or the function that
/// a sanitizer blames. [`read_tell`] parses the returned line.
pub fn find_message_line(tail: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&tail[tail.len().saturating_sub(TAIL)..]);
    let lines: Vec<&str> = text
        .lines()
        .map(|line| shorten_line(line.trim_end()))
        .collect();
    let mut best: Option<(u8, String)> = None;
    for index in 0..lines.len() {
        let Some((line, tell)) = read_with_context(&lines, index) else {
            continue;
        };
        let is_better = best.as_ref().is_none_or(|(rank, _)| match tell.rank {
            rank_here if first_counts(&tell) => rank_here < *rank,
            rank_here => rank_here <= *rank,
        });
        if is_better {
            best = Some((tell.rank, line));
        }
    }
    best.map(|(_, line)| shorten_line(&line).to_owned())
}

/// Returns whether the first of several such messages is the cause of the others: a panic makes the
/// threads panic that wait for the panicked thread, and the first error of a sanitizer causes the
/// next ones.
fn first_counts(tell: &MessageMeaning) -> bool {
    [
        table::RUST_PANIC.kind,
        table::SANITIZER.kind,
        table::GO_RACE.kind,
    ]
    .contains(&tell.kind)
}

fn shorten_line(line: &str) -> &str {
    let fits = |(position, c): &(usize, char)| position + c.len_utf8() <= LONGEST;
    let end = line.char_indices().take_while(fits).last();
    &line[..end.map_or(0, |(position, c)| position + c.len_utf8())]
}

/// Returns the message that begins at a line, with its related lines, and its meaning.
fn read_with_context(lines: &[&str], index: usize) -> Option<(String, MessageMeaning)> {
    let message = failed_tests::find_failed_tests(lines, index)
        .or_else(|| javascript::find_exception(&lines[index..]));
    if let Some(line) = message {
        let tell = read_tell(&line)?;
        return Some((line, tell));
    }
    if lines[index].starts_with("Traceback (most recent call last)") {
        return read_traceback(&lines[index + 1..]);
    }
    // An exception without a traceback is an ordinary log line.
    let tell = read_tell(lines[index]).filter(|tell| tell.kind != table::PYTHON_EXCEPTION.kind)?;
    let line = join_continuation(lines[index].trim(), &lines[index + 1..]);
    let tell = read_tell(&line).unwrap_or(tell);
    Some((line, tell))
}

/// Returns the exception at the end of a traceback, which is the first line without indentation.
fn read_traceback(lines: &[&str]) -> Option<(String, MessageMeaning)> {
    let last = lines
        .iter()
        .find(|line| !line.is_empty() && !line.starts_with(' '))?;
    let tell = read_tell(last).unwrap_or_else(|| table::PYTHON_EXCEPTION.make_tell(""));
    Some(((*last).to_owned(), tell))
}

fn join_continuation(line: &str, next: &[&str]) -> String {
    let following = next.first().map_or("", |line| line.trim());
    if line.contains("terminate called after throwing") && following.starts_with("what():") {
        return format!("{line}, {following}");
    }
    if line.contains("' panicked at ") || line.contains(") panicked at ") {
        // Since Rust 1.73 the message is on a separate line.
        let mut message = line.to_owned();
        if line.ends_with(':') {
            message.extend([" ", following]);
        }
        if let Some(second) = panic_in_destructor(next) {
            message.extend([
                "; then a destructor panicked at ",
                &second,
                ", which aborts",
            ]);
        }
        return message;
    }
    if line == DATA_RACE {
        return data_race(next);
    }
    if go::may_begin_trace(line) {
        let site = innermost_own_site(&go::calls_of_trace(next));
        return match site.and_then(|site| site.function) {
            Some(function) => format!("{line}, in {function}"),
            None => line.to_owned(),
        };
    }
    if line.contains("Exception in thread \"") {
        return match java_cause(next) {
            Some(cause) => format!("{line}; caused by {cause}"),
            None => line.to_owned(),
        };
    }
    if line.contains("ERROR: ") || line.contains("WARNING: ") {
        let short = line.split(" at pc ").next().unwrap_or(line);
        return match blamed_function(next) {
            Some(function) => format!("{}, in {function}", short.trim_end_matches([':', ','])),
            None => short.to_owned(),
        };
    }
    if line.contains("Fatal Python error: ") {
        // Other threads may come before the one that crashed.
        let is_current = |line: &&str| line.starts_with("Current thread ");
        let start = next.iter().position(is_current).unwrap_or(0);
        return match next[start..].iter().find_map(|line| python_frame(line)) {
            Some(frame) => format!("{line}, {frame}"),
            None => line.to_owned(),
        };
    }
    if line.contains(JAVA_CRASH) {
        let mut rest = next
            .iter()
            .skip_while(|line| !line.contains("Problematic frame:"));
        let frame = rest
            .nth(1)
            .map_or("", |line| line.trim_start_matches('#').trim());
        return format!("{JAVA_CRASH} Environment: {frame}");
    }
    line.to_owned()
}

/// Returns the innermost cause of a Java exception, whose calls these lines begin with.
fn java_cause<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let cause = |line: &&'a str| line.strip_prefix("Caused by: ");
    let trace = lines
        .iter()
        .take_while(|line| line.starts_with(char::is_whitespace) || cause(line).is_some());
    trace.filter_map(cause).last()
}

/// Returns place and message of the panic of a destructor that ran because of an earlier panic: a program aborts then, and
/// says so in a third panic.
fn panic_in_destructor(lines: &[&str]) -> Option<String> {
    const REASON: &str = "panic in a destructor during cleanup";
    let end = lines.iter().position(|line| line.contains(REASON))?;
    let mut places = (0..end).rev().filter_map(|index| {
        let (_, place) = lines[index].split_once("panicked at ")?;
        let message = lines[index + 1].trim();
        Some(format!("{place} {message}"))
    });
    places.find(|place| !place.ends_with(REASON))
}

/// Joins the functions in a report of Go's race detector: the innermost call is below each line
/// that ends with a goroutine.
fn data_race(lines: &[&str]) -> String {
    let report: Vec<&str> = lines
        .iter()
        .take_while(|line| !line.starts_with("====="))
        .map(|line| line.trim())
        .collect();
    let accesses = report.windows(2).filter(|pair| {
        let line = pair[0].to_lowercase();
        ["read at ", "write at "]
            .iter()
            .any(|access| line.contains(access))
    });
    let mut functions: Vec<&str> = accesses
        .map(|pair| pair[1].trim_end_matches("()"))
        .collect();
    // The order of the two accesses is random.
    functions.sort_unstable();
    match functions.as_slice() {
        [] => DATA_RACE.to_owned(),
        functions => format!("{DATA_RACE} in {}", functions.join(" and ")),
    }
}

/// Returns the function that a sanitizer blames: the innermost call of the first stack that does
/// not belong to the sanitizer, or else the function in its summary.
fn blamed_function<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let mut stack = lines
        .iter()
        .map(|line| line.trim())
        .skip_while(|line| !line.starts_with("#0 "))
        .take_while(|line| line.starts_with('#'));
    let frame =
        stack.find(|line| !line.contains("/libsanitizer/") && !line.contains("/compiler-rt/"));
    frame.and_then(in_frame).or_else(|| summary_function(lines))
}

/// Parses the function of `#1 0x55d0 in g(int) /src/a.c:12:3` or `#1 0x55d0 in g (/bin/a+0x12)`.
fn in_frame(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(" in ")?;
    let ends = [" /", " ../", " ("].iter().filter_map(|end| rest.find(end));
    let function = &rest[..ends.min().unwrap_or(rest.len())];
    is_name(function).then_some(function)
}

fn is_name(function: &str) -> bool {
    function.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns the function in the summary of a sanitizer: `SUMMARY: AddressSanitizer:
/// heap-use-after-free /src/a.c:12:3 in f`.
fn summary_function<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let line = lines.iter().find(|line| line.starts_with("SUMMARY: "))?;
    let (_, function) = line.rsplit_once(" in ")?;
    is_name(function).then_some(function)
}

/// Parses a line of `faulthandler`: ` File "/x/a.py", line 3 in f` becomes `in f (a.py:3)`.
fn python_frame(line: &str) -> Option<String> {
    let (path, rest) = line
        .trim()
        .strip_prefix("File \"")?
        .split_once("\", line ")?;
    let (number, function) = rest.split_once(" in ")?;
    let file = path.rsplit('/').next().unwrap_or(path);
    Some(format!("in {function} ({file}:{number})"))
}
