//! Describes a comparison of stored runs as a document.

use super::difference::Change;
use super::{
    ComparedRun, FactDifference, FactGroup, FailureDifference, RunComparison,
    RunsWithDistinguishingFacts, SuiteDifference, describe_odds, fact_lines,
};
use provoke_stats::real;
use provoke_words as words;
use provoke_words::document::{Cell, Column, Document, Place, Row, Table, Tone};

/// Maximum number of differences of one kind, unless all are requested.
const SHOWN: usize = 20;
/// Maximum number of tests of one run only that are named.
const NAMED_TESTS: usize = 3;
/// Names of the runs in the heads of columns.
const A: &str = "A";
const B: &str = "B";
const NO_DIFFERENCE: &str = "No relevant difference was found in program, files, libraries, packages, environment and machine.";

impl RunComparison {
    /// Returns whether the failure rates differ, and a table of the differences of each kind. Long tables, and
    /// differences that hardly ever matter, are shown only on request.
    pub fn document(&self, show_all: bool) -> Document {
        let mut document = Document {
            headline: describe_significance(self),
            ..Document::default()
        };
        for (letter, run) in [(A, &self.left), (B, &self.right)] {
            let result = format_result(run);
            let line = format!("{letter}  {}  {result}, on {}", run.run, run.host);
            document.facts.push(line);
        }
        document
            .facts
            .extend(self.tests.iter().flat_map(describe_tests));
        for run in [&self.left, &self.right] {
            if !run.surveyed {
                document.facts.push(format!(
                    "{} has no record of its environment: only what both recorded is compared.",
                    run.run
                ));
            }
        }
        let (trifles, relevant): (Vec<_>, Vec<_>) = self
            .differences
            .chunk_by(|a, b| a.group == b.group)
            .partition(|group| group[0].group == FactGroup::Trifle);
        if relevant.is_empty() {
            document.facts.push(NO_DIFFERENCE.to_owned());
        }
        let shown_trifles = if show_all { trifles.as_slice() } else { &[] };
        let shown = relevant.iter().chain(shown_trifles);
        let failures = failure_table(&self.failures, show_all).into_iter();
        let differences = shown.map(|group| difference_table(group, show_all));
        document.tables = failures.chain(differences).collect();
        for group in trifles.iter().filter(|_| !show_all) {
            let names: Vec<&str> = group.iter().map(|fact| fact.name.as_str()).collect();
            let title = FactGroup::Trifle.title();
            let line = format!("{title}: {} (--all shows them)", names.join(" "));
            document.facts.push(line);
        }
        document
    }
}

/// Returns a table of the failures with their counts in both runs, unless no run failed.
fn failure_table(failures: &[FailureDifference], show_all: bool) -> Option<Table> {
    let p_value = if failures.len() > 1 {
        "p (corrected)"
    } else {
        "p"
    };
    let columns = vec![
        Column::remarks("failure"),
        Column::numbers(A),
        Column::numbers(B),
        Column::numbers(p_value),
    ];
    let mut table = Table::new("Failures", Place::Screen, columns);
    let shown = if show_all { failures.len() } else { SHOWN };
    table
        .rows
        .extend(failures.iter().take(shown).map(|failure| {
            let p_value = failure
                .p_value
                .map_or_else(String::new, words::p_value_cell);
            Row::Cells(vec![
                Cell::text(&failure.title),
                Cell::text(failure.left.to_string()),
                Cell::text(failure.right.to_string()),
                Cell::text(p_value),
            ])
        }));
    table.rows.extend(rest_row(failures.len(), shown));
    (!failures.is_empty()).then_some(table)
}

/// Counts the rows that are not shown.
fn rest_row(rows: usize, shown: usize) -> Option<Row> {
    (rows > shown).then(|| Row::Gap(format!("and {} more: --all", rows - shown)))
}

/// Returns a table of differences of the same kind, with the values of both runs.
fn difference_table(group: &[FactDifference], show_all: bool) -> Table {
    let title = group[0].group.title();
    let columns = [title, A, B].map(Column::remarks).to_vec();
    let mut table = Table::new(title, Place::Screen, columns);
    let shown = if show_all { group.len() } else { SHOWN };
    for difference in group.iter().take(shown) {
        let [left, right] =
            [&difference.left, &difference.right].map(|value| value_cell(value.as_deref()));
        let cells = vec![Cell::text(&difference.name), left, right];
        table.rows.push(Row::Cells(cells));
        let note = difference.note.clone();
        table
            .rows
            .extend(note.map(|note| Row::Note(note, Tone::Faint)));
    }
    table.rows.extend(rest_row(group.len(), shown));
    table
}

fn value_cell(value: Option<&str>) -> Cell {
    match value {
        Some("") => Cell::text("(empty)"),
        Some(value) => Cell::text(value.replace("/./", "/")),
        None => Cell::text("-"),
    }
}

/// Describes the tests that fail at other rates, and the tests of one run only.
fn describe_tests(tests: &SuiteDifference) -> Vec<String> {
    let changed = [
        ("fails more often in B", &tests.worse),
        ("fails less often in B", &tests.better),
    ];
    let changes: usize = changed.iter().map(|(_, tests)| tests.len()).sum();
    let both = words::format_count(tests.in_both, "test");
    let mut lines = vec![format!(
        "{changes} of {both} in both runs changed significantly (false discovery rate: 5 %)"
    )];
    for (change, tests) in changed {
        lines.extend(tests.iter().take(SHOWN).map(|test| {
            let [left, right] = [test.left, test.right]
                .map(|counts| format!("{} of {}", counts.failures, counts.trials));
            format!("  {} {change}: {left} in A, {right} in B", test.name)
        }));
        if tests.len() > SHOWN {
            let rest = tests.len() - SHOWN;
            lines.push(format!("  and {rest} more: --json lists them"));
        }
    }
    for (run, names) in [(A, &tests.only_left), (B, &tests.only_right)] {
        if !names.is_empty() {
            let listed = words::list_first(names, NAMED_TESTS);
            lines.push(format!("  only in {run}: {listed}"));
        }
    }
    lines
}

/// Returns the answer, or `3 of 100 failed (3 %)`.
fn format_result(run: &ComparedRun) -> String {
    if let Some(answer) = &run.answer {
        return answer.clone();
    }
    let counts = format!("{} of {} failed", run.failures, run.trials);
    if run.trials == 0 {
        return counts;
    }
    format!("{counts} ({} %)", format_share(run))
}

/// Returns the share of trials that failed, in percent.
fn format_share(run: &ComparedRun) -> String {
    words::format_percent(real(run.failures) / real(run.trials))
}

/// Describes whether the failure rates differ significantly.
fn describe_significance(compared: &RunComparison) -> String {
    let RunComparison { left, right, .. } = compared;
    let is_equal = left.failures * right.trials == right.failures * left.trials;
    match (compared.p_value, &compared.not_comparable) {
        (Some(p), _) => {
            let test = describe_test(compared, p);
            if p > RunComparison::SIGNIFICANT {
                let changes = describe_changed_failures(compared);
                return match changes.join(", and ") {
                    text if !text.is_empty() => format!(
                        "{text}. All failures together do not differ significantly ({test})."
                    ),
                    _ if is_equal => format!(
                        "The measured failure rates are equal; {}.",
                        describe_significant(compared)
                    ),
                    _ => format!(
                        "The failure rates do not differ significantly ({test}); {}.",
                        describe_significant(compared)
                    ),
                };
            }
            let is_worse = left.failures * right.trials < right.failures * left.trials;
            let change = if is_worse { "more" } else { "less" };
            format!("{B} fails significantly {change} often than {A} ({test}).")
        }
        (None, reason) => {
            let reason = reason.as_deref().unwrap_or_default();
            format!("The failure rates are not compared: {reason}.")
        }
    }
}

/// Describes with how many failures of the second run the rates would differ significantly.
fn describe_significant(compared: &RunComparison) -> String {
    let [below, above] = compared.significant_failures;
    let below = below.map(|below| match below {
        0 => "none".to_owned(),
        _ => format!("at most {below}"),
    });
    let above = above.map(|above| format!("at least {above}"));
    let counts: Vec<String> = below.into_iter().chain(above).collect();
    let trials = compared.right.trials;
    if counts.is_empty() {
        return format!("no number of failures of {B} would be a significant difference");
    }
    let counts = counts.join(" or ");
    format!("a significant difference would be {counts} of the {trials} trials of {B}")
}

/// Names the first of the failures that are more frequent in the second run, and of those that are less frequent.
fn describe_changed_failures(compared: &RunComparison) -> Vec<String> {
    let words = [(Change::More, "more"), (Change::Less, "less")];
    let describe = |(change, word)| {
        let mut failures = compared.changed_failures(change);
        let first = failures.next()?;
        let others = match failures.count() {
            0 => String::new(),
            count => format!(
                " and {}",
                words::format_count(count as u64, "other failure")
            ),
        };
        let p_value = words::p_value(first.p_value?);
        Some(format!(
            "{B} fails significantly {word} often than {A} with {}{others} ({p_value})",
            first.title
        ))
    };
    words.into_iter().filter_map(describe).collect()
}

/// Describes the test of the failure rates, its result, and what it allows for.
fn describe_test(compared: &RunComparison, p_value: f64) -> String {
    let p_value = words::p_value(p_value);
    let test = match compared.stopped.as_slice() {
        [] => format!("Fisher's exact test: {p_value}"),
        [run] => format!(
            "{p_value}, by intervals that hold at any time, because {run} did not run a fixed number of trials"
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

impl RunsWithDistinguishingFacts {
    /// Returns the facts that distinguish the failing runs, and a table of the runs.
    pub fn document(&self) -> Document {
        let failing = self.runs.iter().filter(|run| run.failures > 0).count();
        let passing = self.runs.len() - failing;
        let (headline, by) = match (failing, passing) {
            (0, _) | (_, 0) => {
                let which = if failing == 0 { "none" } else { "all" };
                let text = format!(
                    "{which} of the runs failed: at least one failing and one passing run are needed"
                );
                (text, &[][..])
            }
            _ if self.by.is_empty() => {
                let text = "no recorded fact distinguishes the failing runs from the passing ones";
                (text.to_owned(), &[][..])
            }
            _ => ("it failed only where".to_owned(), self.by.as_slice()),
        };
        let mut facts = Vec::new();
        for line in fact_lines(by, usize::MAX) {
            facts.push(line.text);
            facts.extend(line.note.map(|note| format!("  {note}")));
        }
        if !by.is_empty() {
            facts.push(describe_odds("run", failing as u64, passing as u64));
        }
        Document {
            headline,
            facts,
            tables: vec![run_table(&self.runs)],
            ..Document::default()
        }
    }
}

fn run_table(runs: &[ComparedRun]) -> Table {
    let columns = vec![
        Column::words(""),
        Column::remarks("host"),
        Column::remarks("processor").leaving(2),
        Column::remarks("kernel").leaving(1),
        Column::numbers("failed"),
        Column::numbers("rate"),
    ];
    let rows = runs.iter().map(|run| {
        let counts = format!("{}/{}", run.failures, run.trials);
        let rate = format!("{} %", format_share(run));
        let cells = [&run.run, &run.host, &run.cpu, &run.kernel, &counts, &rate];
        cells.map(Cell::text).to_vec()
    });
    Table::new("Runs", Place::Screen, columns).with_rows(rows)
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
            significant_failures: [None, Some(9)],
            design_effect: 1.0,
            stopped: Vec::new(),
            not_comparable: None,
            failures: Vec::new(),
            tests: None,
            differences,
        }
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
        let rows = |all| many.document(all).tables.remove(0).rows;
        assert_eq!(rows(true).len(), 50);
        assert_eq!(rows(false).len(), 21);
        assert!(matches!(rows(false).last(), Some(Row::Gap(text)) if text == "and 30 more: --all"));
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
            compared.document(false).headline
        };
        assert_eq!(
            sentence(&[], 10.0),
            "B fails significantly less often than A (Fisher's exact test: p = 0.030; failures clump, so 10 trials count as one)."
        );
        assert_eq!(
            sentence(&["a"], 1.0),
            "B fails significantly less often than A (p = 0.030, by intervals that hold at any time, because a did not run a fixed number of trials)."
        );
    }

    #[test]
    fn equal_runs_are_reported_in_a_sentence() {
        let document = comparison(Vec::new()).document(false);
        let sentence = "The failure rates do not differ significantly (Fisher's exact test: p = 0.24); a significant difference would be at least 9 of the 30 trials of B.";
        assert_eq!(document.headline, sentence);
        assert_eq!(
            document.facts.last().map(String::as_str),
            Some(NO_DIFFERENCE)
        );
    }
}
