//! Finds the failed tests in the output of test runners.

use super::MessageMeaning;
use super::table::FAILED_TEST;
use std::fmt::Write as _;

/// Prefix that [`find`] puts before the names.
const FAILED: &str = "failed tests: ";
/// Separator of the names.
const BETWEEN: &str = ", ";
/// Limit of the names in bytes, so that the line is never truncated within a name.
const ROOM: usize = 360;

/// Returns the failed tests, if a test runner's list of them begins or ends at this line.
pub(super) fn find_failed_tests(lines: &[&str], index: usize) -> Option<String> {
    let line = lines[index];
    let mut names: Vec<&str> = if line.contains(" short test summary info ") {
        let listed = lines[index + 1..].iter();
        listed.filter_map(|line| of_pytest(line)).collect()
    } else if line.starts_with("FAILED (") {
        let titles = lines[..index].windows(2);
        titles.filter_map(|pair| of_unittest(pair)).collect()
    } else if line == "FAIL" || line.starts_with("FAIL\t") {
        let listed = lines[..index].iter();
        listed.filter_map(|line| of_go(line)).collect()
    } else {
        return None;
    };
    names.sort_unstable();
    names.dedup();
    let mut list = String::new();
    for (name, after) in names.iter().zip((0..names.len()).rev()) {
        if list.len() + name.len() > ROOM {
            let _ = write!(list, "{BETWEEN}and {} more", after + 1);
            break;
        }
        if !list.is_empty() {
            list.push_str(BETWEEN);
        }
        list.push_str(name);
    }
    (!list.is_empty()).then(|| format!("{FAILED}{list}"))
}

/// Parses `FAILED test_a.py::test_b[1] - KeyError: 'x'`; pytest truncates the message to the width
/// of the terminal.
fn of_pytest(line: &str) -> Option<&str> {
    let name = line
        .strip_prefix("FAILED ")
        .or(line.strip_prefix("ERROR "))?
        .split(" - ")
        .next()?
        .trim();
    name.contains(".py").then_some(name)
}

/// Parses `FAIL: test_b (test_a.T.test_b)` below a line of equals signs.
fn of_unittest<'a>(pair: &[&'a str]) -> Option<&'a str> {
    let [rule, title] = pair else { return None };
    let title = title
        .strip_prefix("FAIL: ")
        .or(title.strip_prefix("ERROR: "))?;
    (rule.starts_with("=====")).then_some(title)
}

/// Parses `--- FAIL: TestB (0.00s)`; subtests are indented.
fn of_go(line: &str) -> Option<&str> {
    let name = line.strip_prefix("--- FAIL: ")?;
    name.split(" (").next()
}

/// Parses `failed tests: test_a.py::test_b, test_a.py::test_c`.
pub(super) fn read_failed_tests(line: &str) -> Option<MessageMeaning> {
    let names = line.strip_prefix(FAILED)?;
    let mut parts: Vec<String> = names.split(BETWEEN).map(str::to_owned).collect();
    parts.retain(|name| !name.starts_with("and "));
    if parts.len() == 1 {
        parts.clear();
    }
    Some(MessageMeaning {
        parts,
        ..FAILED_TEST.make_tell(names)
    })
}
