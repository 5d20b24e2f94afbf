//! Recognizes test runners by the words of a command.

use super::command::{file_name, is_python, split_runner_words};
use provoke_model::{CaseRunner, Text};

/// Returns the test runner of a command, if its words name one.
pub fn find_runner(command: &[Text]) -> Option<CaseRunner> {
    let words = split_runner_words(command).words;
    find_position(&words).map(|(runner, _)| runner)
}

/// Returns the runner, and the index of the last word of its name.
pub(super) fn find_position(words: &[String]) -> Option<(CaseRunner, usize)> {
    (0..words.len()).find_map(|index| {
        let next = |offset: usize| words.get(index + offset).map(String::as_str);
        // Flags of the program may come first, such as in `python -X dev -m pytest`.
        let module = || {
            let flags = &words[index + 1..];
            let flag = flags.iter().position(|word| word == "-m")?;
            let is_module = flags.get(flag + 1).is_some_and(|word| word == "pytest");
            is_module.then_some(index + flag + 2)
        };
        match file_name(&words[index]) {
            "pytest" | "py.test" => Some((CaseRunner::Pytest, index)),
            name if is_python(name) => module().map(|last| (CaseRunner::Pytest, last)),
            "cargo" => {
                let subcommand = 1 + usize::from(next(1).is_some_and(|word| word.starts_with('+')));
                let runs = next(subcommand) == Some("nextest")
                    && matches!(next(subcommand + 1), Some("run" | "r"));
                runs.then_some((CaseRunner::Nextest, index + subcommand + 1))
            }
            "cargo-nextest" if next(1) == Some("nextest") && next(2) == Some("run") => {
                Some((CaseRunner::Nextest, index + 2))
            }
            "go" if next(1) == Some("test") => Some((CaseRunner::Go, index + 1)),
            "ctest" => Some((CaseRunner::Ctest, index)),
            _ => None,
        }
    })
}

/// Returns the ways to name a runner, for a hint.
pub fn describe_known_runners() -> &'static str {
    "name it: --cases=pytest, nextest, go, ctest, gtest, tap, junit:'reports/*.xml' or jsonl:FILE"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_recognized_by_the_words_of_its_command() {
        let runners = [
            ("pytest -q", Some("pytest")),
            ("/venv/bin/pytest", Some("pytest")),
            ("env A=1 python3.11 -X dev -m pytest tests", Some("pytest")),
            ("uv run pytest", Some("pytest")),
            ("python3 tests.py", None),
            ("python -m unittest", None),
            ("cargo nextest run --release", Some("nextest")),
            ("cargo +nightly nextest run", Some("nextest")),
            ("cargo nextest list", None),
            ("cargo test", None),
            ("go test ./...", Some("go")),
            ("go vet", None),
            ("ctest --test-dir build", Some("ctest")),
            ("./unit_tests --gtest_filter=A.*", None),
        ];
        for (command, runner) in runners {
            let words: Vec<Text> = command.split(' ').map(Text::from).collect();
            let name = find_runner(&words).map(|runner| runner.to_string());
            assert_eq!(name.as_deref(), runner, "{command}");
        }
    }

    #[test]
    fn a_runner_is_recognized_in_a_shell_line() {
        let line = ["sh", "-ec", "cd tests && pytest -q | tee log"].map(Text::from);
        assert_eq!(find_runner(&line), Some(CaseRunner::Pytest));
    }
}
