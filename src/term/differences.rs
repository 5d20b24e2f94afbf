//! Shows the differences between two runs, in two columns.

use super::screen::Screen;
use console::{Alignment, measure_text_width, pad_str, style, truncate_str};
use provoke_stats::real;
use provoke_survey::{ComparedRun, FactDifference, FactGroup, RunComparison, SuiteDifference};
use provoke_words as words;
use std::fmt::Write as _;

/// Maximum number of differences of one kind, unless all are requested.
const SHOWN: usize = 20;
/// Maximum width of the column of names.
const NAMES: usize = 34;
/// Maximum width of the first run's column, if the width of lines is not limited.
const LEFT: usize = 48;
/// Minimum readable width of a column.
const NARROWEST: usize = 8;
/// Number of blanks before and between the columns.
const MARGINS: usize = 8;
/// Cell of a missing value.
const NOTHING: &str = "-";
/// Names of the runs in the heads of columns.
const A: &str = "A";
const B: &str = "B";
const NO_DIFFERENCE: &str =
    "No relevant difference was found in program, libraries, packages, environment and machine.";
/// A difference of failure rates is significant if its probability by chance is below this.
const SMALL: f64 = 0.05;

/// Shows a comparison of two runs. Without a width, lines may have any length.
pub fn format_differences(
    compared: &RunComparison,
    show_all: bool,
    width: Option<usize>,
) -> String {
    let mut screen = Screen::new(width);
    let RunComparison { left, right, .. } = compared;
    let [first, second] = [left, right].map(|run| words::sanitize_line(&run.run));
    let room = measure_text_width(&first).max(measure_text_width(&second));
    for (letter, name, run) in [(A, &first, left), (B, &second, right)] {
        let name = pad_str(name, room, Alignment::Left, None);
        let host = words::sanitize_line(&run.host);
        screen.push_hanging_text(
            0,
            3,
            &format!(
                "{}  {name}  {}, on {host}",
                style(letter).bold(),
                format_result(run)
            ),
        );
    }
    screen.push_text(
        0,
        &style(describe_significance(compared)).bold().to_string(),
    );
    if let Some(tests) = &compared.tests {
        write_tests(&mut screen, tests);
    }
    for run in [left, right].into_iter().filter(|run| !run.surveyed) {
        let name = words::sanitize_line(&run.run);
        screen.push_text(
            0,
            &format!(
                "{name} has no record of its environment: only what both recorded is compared."
            ),
        );
    }
    let mut matters = compared
        .differences
        .iter()
        .filter(|difference| difference.group != FactGroup::Trifle);
    if matters.next().is_none() {
        screen.push_text(0, NO_DIFFERENCE);
    }
    let mut out = screen.into_text();
    let names = compared
        .differences
        .iter()
        .filter(|difference| show_all || difference.group != FactGroup::Trifle)
        .map(|difference| measure_text_width(&difference.name))
        .max()
        .unwrap_or(0)
        .min(NAMES);
    for group in compared.differences.chunk_by(|a, b| a.group == b.group) {
        if group[0].group == FactGroup::Trifle && !show_all {
            let names: Vec<String> = group
                .iter()
                .map(|difference| words::sanitize_line(&difference.name))
                .collect();
            let names = names.join(" ");
            let _ = writeln!(
                out,
                "\n  {}: {names} (--all shows them)",
                FactGroup::Trifle.title()
            );
            continue;
        }
        let columns = ColumnWidths::fit_to(group, names, width);
        let title = pad_str(group[0].group.title(), names + 2, Alignment::Left, None);
        let left_title = pad_str(A, columns.left_width, Alignment::Left, None);
        let _ = writeln!(out, "\n  {}  {left_title}  {B}", style(title).bold());
        let shown_count = if show_all { group.len() } else { SHOWN };
        for difference in group.iter().take(shown_count) {
            write_difference(&mut out, difference, &columns);
        }
        if group.len() > shown_count {
            let _ = writeln!(out, "    and {} more: --all", group.len() - shown_count);
        }
    }
    out
}

/// Writes the tests that fail at other rates, and the tests of one run only.
fn write_tests(screen: &mut Screen, tests: &SuiteDifference) {
    let changed = [
        ("fails more often in B", &tests.worse),
        ("fails less often in B", &tests.better),
    ];
    let changes: usize = changed.iter().map(|(_, tests)| tests.len()).sum();
    let both = words::format_count(tests.in_both, "test");
    screen.push_text(
        0,
        &format!(
            "{changes} of {both} in both runs changed significantly (false discovery rate: 5 %)"
        ),
    );
    for (change, tests) in changed {
        for test in tests.iter().take(SHOWN) {
            let [left, right] = [test.left, test.right]
                .map(|counts| format!("{} of {}", counts.failures, counts.trials));
            let name = words::sanitize_line(&test.name);
            screen.push_text(2, &format!("{name} {change}: {left} in A, {right} in B"));
        }
        if tests.len() > SHOWN {
            let rest = tests.len() - SHOWN;
            screen.push_text(2, &format!("and {rest} more: --json lists them"));
        }
    }
    for (run, names) in [(A, &tests.only_left), (B, &tests.only_right)] {
        let shown: Vec<String> = names
            .iter()
            .take(3)
            .map(|name| words::sanitize_line(name))
            .collect();
        let more = match names.len().saturating_sub(shown.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if !shown.is_empty() {
            screen.push_text(2, &format!("only in {run}: {}{more}", shown.join(", ")));
        }
    }
}

/// Returns the answer, or `3 of 100 failed (3 %)`.
fn format_result(run: &ComparedRun) -> String {
    if let Some(answer) = &run.answer {
        return words::sanitize_line(answer);
    }
    let counts = format!("{} of {} failed", run.failures, run.trials);
    if run.trials == 0 {
        return counts;
    }
    let share = real(run.failures) / real(run.trials);
    format!("{counts} ({} %)", words::format_percent(share))
}

/// Describes whether the failure rates differ significantly.
fn describe_significance(compared: &RunComparison) -> String {
    let RunComparison { left, right, .. } = compared;
    let is_equal = left.failures * right.trials == right.failures * left.trials;
    match (compared.p_value, &compared.not_comparable) {
        (Some(_), _) if is_equal => {
            "The measured failure rates are equal; that does not exclude a difference.".to_owned()
        }
        (Some(p), _) => {
            let not = if p <= SMALL { "" } else { "do not " };
            format!(
                "The failure rates {not}differ significantly ({}).",
                describe_test(compared, p)
            )
        }
        (None, reason) => {
            let safe_reason = words::sanitize_line(reason.as_deref().unwrap_or_default());
            format!("The failure rates are not compared: {safe_reason}.")
        }
    }
}

/// Describes the test of the failure rates, its result, and what it allows for.
fn describe_test(compared: &RunComparison, p_value: f64) -> String {
    let p_value = words::p_value(p_value);
    let test = match compared.stopped.as_slice() {
        [] => format!("Fisher's exact test: {p_value}"),
        [run] => format!(
            "{p_value}, by intervals that hold at any time, because {} did not run a fixed number of trials",
            words::sanitize_line(run)
        ),
        _ => format!(
            "{p_value}, by intervals that hold at any time, because neither run has a fixed number of trials"
        ),
    };
    if compared.design_effect > 1.0 {
        let effect = words::format_number(compared.design_effect);
        format!("{test}; failures clump, so {effect} trials count as one")
    } else {
        test
    }
}

/// Widths of the columns.
struct ColumnWidths {
    names: usize,
    /// Width of the first run's column; the second run's column has the rest.
    left_width: usize,
    /// Width of the terminal; `None` if the width of lines is not limited.
    width: Option<usize>,
}

impl ColumnWidths {
    fn fit_to(group: &[FactDifference], names: usize, width: Option<usize>) -> Self {
        let longest = group
            .iter()
            .map(|difference| measure_text_width(&format_cell(difference.left.as_ref())))
            .max()
            .unwrap_or(0);
        let max = width.map_or(LEFT, |width| width.saturating_sub(names + MARGINS) / 2);
        Self {
            names,
            left_width: longest.min(max.max(NARROWEST)),
            width,
        }
    }
}

/// Returns the cell of a value.
fn format_cell(value: Option<&String>) -> String {
    match value {
        Some(value) if value.is_empty() => "(empty)".to_owned(),
        Some(value) => words::sanitize_line(value).replace("/./", "/"),
        None => NOTHING.to_owned(),
    }
}

fn write_difference(out: &mut String, difference: &FactDifference, columns: &ColumnWidths) {
    let ColumnWidths {
        names,
        left_width,
        width,
    } = *columns;
    let padded = |text: &str, to| {
        let text = match width {
            Some(_) => truncate_str(text, to, "…"),
            None => text.into(),
        };
        pad_str(&text, to, Alignment::Left, None).into_owned()
    };
    let cut = |text: &str, end: usize| match width {
        Some(width) => {
            let room = width.saturating_sub(end).max(NARROWEST);
            truncate_str(text, room, "…").into_owned()
        }
        None => text.to_owned(),
    };
    let _ = writeln!(
        out,
        "    {}  {}  {}",
        padded(&words::sanitize_line(&difference.name), names),
        padded(&format_cell(difference.left.as_ref()), left_width),
        cut(
            &format_cell(difference.right.as_ref()),
            names + left_width + MARGINS
        ),
    );
    if let Some(note) = &difference.note {
        let note = cut(&words::sanitize_line(note), 6);
        let _ = writeln!(out, "      {}", style(note).dim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(run: &str, failures: u64) -> ComparedRun {
        ComparedRun {
            run: run.to_owned(),
            failures,
            trials: 30,
            host: "tower".to_owned(),
            cpu: String::new(),
            kernel: String::new(),
            surveyed: true,
            answer: None,
        }
    }

    fn difference(
        group: FactGroup,
        name: &str,
        left: Option<&str>,
        right: Option<&str>,
    ) -> FactDifference {
        FactDifference {
            group,
            name: name.to_owned(),
            left: left.map(str::to_owned),
            right: right.map(str::to_owned),
            note: None,
        }
    }

    fn comparison(differences: Vec<FactDifference>) -> RunComparison {
        RunComparison {
            format: 1,
            left: run("a", 3),
            right: run("b", 0),
            p_value: Some(0.24),
            design_effect: 1.0,
            stopped: Vec::new(),
            not_comparable: None,
            tests: None,
            differences,
        }
    }

    #[test]
    fn differences_are_shown_side_by_side() {
        let long = "0123456789".repeat(9);
        let mut flags = difference(FactGroup::Processor, "cpu.flags", Some("avx2"), None);
        flags.note = Some("programs use avx2".to_owned());
        let all = comparison(vec![
            difference(
                FactGroup::Program,
                "program.build_id",
                Some(&long),
                Some(&long[1..]),
            ),
            difference(FactGroup::Variable, "X", None, Some("\u{1b}[31mred")),
            difference(FactGroup::Variable, "Y", Some(""), Some(&long)),
            flags,
            difference(FactGroup::Trifle, "OLDPWD", Some("/x"), None),
        ]);
        let text = format_differences(&all, false, Some(80));
        insta::assert_snapshot!(console::strip_ansi_codes(&text), @r"
        A  a  3 of 30 failed (10 %), on tower
        B  b  0 of 30 failed (0 %), on tower
        The failure rates do not differ significantly (Fisher's exact test: p = 0.24).

          program             A                             B
            program.build_id  012345678901234567890123456…  123456789012345678901234567…

          variables           A        B
            X                 -        \x1b[31mred
            Y                 (empty)  012345678901234567890123456789012345678901234567…

          processor           A     B
            cpu.flags         avx2  -
              programs use avx2

          unlikely to matter: OLDPWD (--all shows them)
        ");
        assert!(
            text.lines().all(|line| measure_text_width(line) <= 80),
            "{text}"
        );
    }

    #[test]
    fn long_lists_are_shortened_without_the_flag_all() {
        let many = (0..50).map(|n| {
            difference(
                FactGroup::Package,
                &format!("python.p{n:02}"),
                Some("1"),
                Some("2"),
            )
        });
        let many = comparison(many.collect());
        let shown = |all| format_differences(&many, all, None).lines().count();
        assert_eq!(shown(true) - shown(false), 29);
        assert!(format_differences(&many, false, None).contains("and 30 more: --all"));
    }

    #[test]
    fn the_sentence_names_what_the_test_allows_for() {
        let sentence = |stopped: &[&str], design_effect| {
            let compared = RunComparison {
                p_value: Some(0.03),
                design_effect,
                stopped: stopped.iter().map(|run| (*run).to_owned()).collect(),
                ..comparison(Vec::new())
            };
            describe_significance(&compared)
        };
        assert_eq!(
            sentence(&[], 10.0),
            "The failure rates differ significantly (Fisher's exact test: p = 0.030; failures clump, so 10 trials count as one)."
        );
        assert_eq!(
            sentence(&["a"], 1.0),
            "The failure rates differ significantly (p = 0.030, by intervals that hold at any time, because a did not run a fixed number of trials)."
        );
    }

    #[test]
    fn equal_runs_are_reported_in_a_sentence() {
        let text = format_differences(&comparison(Vec::new()), false, None);
        assert!(text.contains("do not differ significantly (Fisher's exact test: p = 0.24)"));
        assert!(text.contains("No relevant difference was found"));
    }
}
