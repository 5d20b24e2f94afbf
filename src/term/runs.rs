//! Shows the stored runs as a table, one line each.

use super::document::format_table;
use crate::experiment::{StoredRun, run_table};
use console::Term;
use provoke_journal::RunFolder;
use provoke_words as words;
use provoke_words::untrusted::{Untrusted as _, shell_word};
use std::fmt::Write as _;
use std::path::{self, Path, PathBuf};

/// Lines of the list besides the runs: the heads, the number of runs, the prompt.
const LINES_BELOW: usize = 3;
/// Maximum number of other directories that are named.
const MAX_NEARBY: usize = 5;

/// Returns the table of stored runs. If it is longer than the terminal, the heads of the columns are repeated at the end.
pub fn format_runs(runs: &[StoredRun], width: Option<usize>) -> String {
    let mut table = format_table(&run_table(runs), width);
    let rows = Term::stdout()
        .size_checked()
        .map(|(rows, _)| usize::from(rows));
    if rows.is_some_and(|rows| runs.len() + LINES_BELOW >= rows)
        && let Some((heads, _)) = table.clone().split_once('\n')
    {
        let _ = writeln!(table, "{heads}");
    }
    table
}

/// Returns the number of stored runs in a directory, and the name of the newest.
pub fn describe_run_count(runs: usize, root: &Path) -> String {
    let last = RunFolder::find_run("last", root).map_or(String::new(), |last| {
        format!("; `last` is {}", last.shortest_reference(root).to_safe())
    });
    if runs == 0 {
        return format!("there are no runs in `{}`{last}", root.to_safe());
    }
    let count = words::format_count(runs as u64, "run");
    let folder = path::absolute(root).unwrap_or_else(|_| root.to_owned());
    format!("{count} in `{}`{last}", folder.to_safe())
}

/// Names other directories that contain runs, with the numbers of their runs; `None` without any.
pub fn format_runs_nearby(nearby: &[(PathBuf, usize)]) -> Option<String> {
    let (first, _) = nearby.first()?;
    let count: usize = nearby.iter().map(|(_, runs)| runs).sum();
    let mut names: Vec<String> = nearby
        .iter()
        .take(MAX_NEARBY)
        .map(|(folder, _)| format!("{}/", folder.to_safe()))
        .collect();
    if nearby.len() > MAX_NEARBY {
        names.push("…".to_owned());
    }
    Some(format!(
        "{} in {}: cd {} && provoke list",
        words::plural_of(count as u64, "more run", "more runs"),
        names.join(", "),
        shell_word(first.as_os_str())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::measure_text_width;
    use provoke_questions::Verdict;
    use provoke_report::RunListing;

    fn run(
        reference: &str,
        when: &str,
        asked: &'static str,
        result: &str,
        crash: &str,
        command: &str,
    ) -> StoredRun {
        StoredRun {
            reference: reference.to_owned(),
            when: when.to_owned(),
            listing: Some(RunListing {
                asked,
                verdict: Verdict::Found,
                result: result.to_owned(),
                crash: crash.to_owned(),
                command: command.to_owned(),
            }),
        }
    }

    #[test]
    fn the_run_table_is_truncated_to_the_width() {
        let runs = [
            run(
                "386f",
                "yesterday 14:02",
                "run",
                "3 of 100 failed",
                "SIGSEGV crash.c:20",
                "./crash --with arguments",
            ),
            run(
                "0a1b",
                "3 min ago",
                "bisect",
                "8ba5df4",
                "SIGABRT a_long_file_name.cpp:1042 +2",
                "./app",
            ),
            run(
                "9c2e",
                "1 min ago",
                "compare",
                "not known so far",
                "exit 1",
                "./app",
            ),
            StoredRun {
                reference: "last".to_owned(),
                when: String::new(),
                listing: None,
            },
        ];
        let shown =
            |width| console::strip_ansi_codes(&format_runs(&runs, Some(width))).into_owned();
        insta::assert_snapshot!(shown(80), @"
        RUN   WHEN             WHAT     RESULT            CRASH                  COMMAND
        386f  yesterday 14:02  run      3 of 100 failed   SIGSEGV crash.c:20     ./cras…
        0a1b  3 min ago        bisect   8ba5df4           SIGABRT a_long_file_…  ./app
        9c2e  1 min ago        compare  not known so far  exit 1                 ./app
        last                            cannot be read
        ");
        assert!(shown(60).lines().all(|line| measure_text_width(line) <= 60));
        insta::assert_snapshot!(shown(120), @"
        RUN   WHEN             WHAT     RESULT            CRASH                                 COMMAND
        386f  yesterday 14:02  run      3 of 100 failed   SIGSEGV crash.c:20                    ./crash --with arguments
        0a1b  3 min ago        bisect   8ba5df4           SIGABRT a_long_file_name.cpp:1042 +2  ./app
        9c2e  1 min ago        compare  not known so far  exit 1                                ./app
        last                            cannot be read
        ");
    }
}
