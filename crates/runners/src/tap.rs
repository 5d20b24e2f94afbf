//! Reader of TAP, versions 12 to 14: `ok 1 - name`, `not ok 2 - name # TODO reason`.
//!
//! Subtests are indented by four spaces and belong to the line that follows them. Their cases have the name of that line
//! as their suite. Comments after a failed test are its message. Blocks of YAML are ignored.

use super::collector::{CaseCollector, join_ends};
use super::limits::{DEEPEST_NESTING, LONGEST_MESSAGE, MOST_CASES};
use super::lines::read_lines;
use super::runner::{RUNNER, Runner};
use super::text::clip_message;
use super::trial_report::STDOUT;
use provoke_model::{CaseEnd, CaseFailure, CaseName, CaseResult, TrialCases};
use std::io::BufRead;

/// Any program, by the Test Anything Protocol on its stdout.
pub(crate) static TAP: Runner = Runner {
    name: "tap",
    title: "the TAP output",
    reads_stdout: true,
    read: |report| report.read_file(STDOUT, read_tap),
    ..RUNNER
};

/// A test line.
struct TapTest {
    number: Option<u64>,
    name: String,
    end: CaseEnd,
    reason: String,
}

/// One level of a document.
#[derive(Default)]
struct TapLevel {
    /// The number of tests that the plan announces.
    planned: Option<u64>,
    /// Whether the plan came after the tests, so that only a summary can follow.
    is_summary: bool,
    tests: u64,
    /// Results of the subtests that the next line closes.
    inner: Vec<CaseResult>,
    results: Vec<CaseResult>,
}

/// Reads a TAP document.
pub fn read_tap(input: impl BufRead) -> TrialCases {
    let mut collector = CaseCollector::default();
    let mut levels = vec![TapLevel::default()];
    let mut yaml_indent: Option<usize> = None;
    let mut is_deep = false;
    let mut tests = 0;
    let complaint = read_lines(input, |line| {
        let text = line.text.trim_start_matches(' ');
        let indent = line.text.len() - text.len();
        if let Some(start) = yaml_indent {
            if text.trim_end() == "..." && indent == start {
                yaml_indent = None;
            }
            return;
        }
        if text.trim_end() == "---" && indent % 4 == 2 {
            yaml_indent = Some(indent);
            return;
        }
        let depth = indent / 4;
        if indent % 4 != 0 || depth > levels.len() {
            return;
        }
        if depth >= DEEPEST_NESTING {
            is_deep = true;
            return;
        }
        if let Some(reason) = text.strip_prefix("Bail out!") {
            collector.complain(format!("the tests bailed out: {}", reason.trim()));
        } else if let Some(planned) = parse_plan(text) {
            let level = level_at(&mut levels, depth);
            level.planned = Some(planned);
            level.is_summary = level.tests > 0;
        } else if tests > MOST_CASES {
            // The collector complains about the number.
        } else if let Some(test) = parse_test(text) {
            tests += 1;
            add_test(&mut levels, depth, test, &mut collector);
        } else if let Some(comment) = text.strip_prefix('#') {
            add_comment(level_at(&mut levels, depth), comment.trim());
        }
    });
    close_levels(&mut levels, 1, &mut collector);
    let top = levels.remove(0);
    let unfinished = top.planned.unwrap_or_default().saturating_sub(top.tests);
    for result in top.results.into_iter().chain(top.inner) {
        collector.add_result(result);
    }
    if top.planned.is_none() && top.tests > 0 {
        collector.complain("the TAP document has no plan: it may have ended early");
    }
    if unfinished > 0 {
        collector.complain(format!(
            "{unfinished} of {} planned tests have no result: the program ended before them",
            top.planned.unwrap_or_default()
        ));
    }
    if is_deep {
        collector.complain(format!(
            "the TAP document has more than {DEEPEST_NESTING} levels; deeper ones are ignored"
        ));
    }
    if let Some(complaint) = complaint {
        collector.complain(complaint);
    }
    collector.finish()
}

fn level_at(levels: &mut Vec<TapLevel>, depth: usize) -> &mut TapLevel {
    while levels.len() <= depth {
        levels.push(TapLevel::default());
    }
    &mut levels[depth]
}

/// Closes the levels from `depth` on, whose closing line is missing.
fn close_levels(levels: &mut Vec<TapLevel>, depth: usize, collector: &mut CaseCollector) {
    while levels.len() > depth.max(1) {
        let Some(level) = levels.pop() else {
            return;
        };
        if let Some(outer) = levels.last_mut() {
            outer.inner.extend(level.results);
            outer.inner.extend(level.inner);
        } else {
            collector.complain("the TAP document is damaged");
        }
    }
}

fn add_test(
    levels: &mut Vec<TapLevel>,
    depth: usize,
    test: TapTest,
    collector: &mut CaseCollector,
) {
    close_levels(levels, depth + 1, collector);
    let level = level_at(levels, depth);
    level.tests += 1;
    // A test without a name has its number.
    let name = if test.name.is_empty() {
        format!("test {}", test.number.unwrap_or(level.tests))
    } else {
        test.name
    };
    for mut inner in std::mem::take(&mut level.inner) {
        inner.case.suite = if inner.case.suite.is_empty() {
            name.clone()
        } else {
            format!("{name} > {}", inner.case.suite)
        };
        level.results.push(inner);
    }
    let failure = CaseFailure {
        message: clip_message(&test.reason),
        ..CaseFailure::default()
    };
    let mut result = CaseResult {
        case: CaseName::without_suite(name),
        attempts: 1,
        ..CaseResult::default()
    };
    let failure = (!failure.message.is_empty()).then_some(failure);
    join_ends(&mut result, test.end, failure);
    level.results.push(result);
}

/// Adds a comment to the message of the test before it, if it failed.
fn add_comment(level: &mut TapLevel, comment: &str) {
    // Subtests are announced by a comment, and summaries follow the last test.
    if comment.starts_with("Subtest: ") || level.planned == Some(level.tests) && level.is_summary {
        return;
    }
    if let Some(result) = level.results.last_mut()
        && result.end == CaseEnd::Failed
    {
        let failure = result.failure.get_or_insert_default();
        if failure.message.len() < LONGEST_MESSAGE {
            failure.message = clip_message(&format!("{}\n{comment}", failure.message));
        }
    }
}

/// Parses `1..4`, also `1..0 # SKIP reason`.
fn parse_plan(text: &str) -> Option<u64> {
    let rest = text.strip_prefix("1..")?;
    rest.split([' ', '#']).next()?.parse().ok()
}

fn parse_test(text: &str) -> Option<TapTest> {
    let (is_ok, rest) = match text.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, text.strip_prefix("ok")?),
    };
    // `okay` is not a test line.
    if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
        return None;
    }
    let rest = rest.trim();
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = rest.split_at(digits);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = split_directive(rest);
    let (word, reason) = directive.split_once(' ').unwrap_or((directive, ""));
    let word = word.to_ascii_lowercase();
    let end = if word.starts_with("skip") {
        CaseEnd::Skipped
    } else if word.starts_with("todo") {
        if is_ok {
            CaseEnd::UnexpectedPass
        } else {
            CaseEnd::ExpectedFailure
        }
    } else if is_ok {
        CaseEnd::Passed
    } else {
        CaseEnd::Failed
    };
    Some(TapTest {
        number: number.parse().ok(),
        name: unescape_name(name),
        end,
        reason: reason.trim().to_owned(),
    })
}

/// Splits the name from `SKIP reason` or `TODO reason` after the last ` # `. Other uses of `#` belong to the name.
fn split_directive(text: &str) -> (&str, &str) {
    let marks = text.match_indices('#').filter(|(index, _)| {
        let before = text[..*index].trim_end_matches(' ');
        // A backslash makes it a character of the name.
        !before.ends_with('\\')
    });
    marks
        .filter_map(|(index, _)| {
            let directive = text[index + 1..].trim_start();
            let word = directive.get(..4)?.to_ascii_lowercase();
            (word == "skip" || word == "todo").then(|| (text[..index].trim_end(), directive))
        })
        .next_back()
        .unwrap_or((text, ""))
}

fn unescape_name(name: &str) -> String {
    name.replace("\\#", "#")
        .replace("\\\\", "\\")
        .trim()
        .to_owned()
}
