//! The values of `--cases`: finds test runners by their names and in commands.

use super::RUNNERS;
use super::command::split_runner_words;
use super::runner::{Exclusion, OrderControl, Runner};
use provoke_model::{CaseRunner, CasesPlan, Text};
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;

/// Returns the test runner of a command, if its words name one.
pub fn find_runner(command: &[Text]) -> Option<CaseRunner> {
    let words = split_runner_words(command).words;
    let runner = (0..words.len()).find_map(|first| {
        let mut runners = RUNNERS.iter();
        runners.find(|runner| (runner.recognize)(&words[first..]).is_some())
    })?;
    Some(CaseRunner {
        name: runner.name.to_owned(),
        argument: None,
    })
}

/// Returns the runner with a name.
pub fn runner_named(name: &str) -> Option<&'static Runner> {
    RUNNERS.iter().copied().find(|runner| runner.name == name)
}

/// Returns the forms of lists of cases that a runner leaves out.
pub fn exclusions() -> impl Iterator<Item = Exclusion> {
    RUNNERS.iter().filter_map(|runner| runner.exclusion)
}

/// Returns the runner of a plan; only another version of provoke may know it.
pub(crate) fn runner_of(plan: &CasesPlan) -> Result<&'static Runner, Diagnostic> {
    let name = &plan.runner.name;
    runner_named(name).ok_or_else(|| {
        Diagnostic::of_field(
            "cases",
            format!("`{name}` is not a test runner that this version of provoke knows"),
            "use the version of provoke that made the plan",
        )
    })
}

/// Returns whether each case of a suite runs in a separate process, so that no case can change another one.
pub fn isolates_cases(runner: &CaseRunner) -> bool {
    runner_named(&runner.name).is_some_and(|runner| runner.order == OrderControl::Isolated)
}

/// Reads the setting `cases`, but not `auto`.
pub fn parse_runner(text: &str) -> Result<CaseRunner, String> {
    let (name, argument) = match text.split_once(':') {
        Some((name, argument)) => (name, Some(argument).filter(|path| !path.is_empty())),
        None => (text, None),
    };
    let unknown = || {
        let values = words::join_names(
            "or",
            std::iter::once("auto".to_owned()).chain(setting_values()),
        );
        format!("`{text}` is not a test runner: {values}")
    };
    let runner = runner_named(name).ok_or_else(unknown)?;
    let argument = match (runner.argument, argument) {
        (Some(_), Some(path)) => Some(path.to_owned()),
        (Some(expected), None) if !text.contains(':') => match expected.required {
            Some(example) => {
                let example = example.replace('\'', "");
                return Err(format!(
                    "`{name}` needs the paths of the reports, such as `{name}:{example}`"
                ));
            }
            None => Some(String::new()),
        },
        (None, None) if !text.contains(':') => None,
        _ => return Err(unknown()),
    };
    Ok(CaseRunner {
        name: name.to_owned(),
        argument,
    })
}

/// Returns the values of the setting `cases`, such as `pytest` and `junit:GLOB`.
pub fn setting_values() -> impl Iterator<Item = String> {
    RUNNERS.iter().map(|runner| match runner.argument {
        Some(argument) => format!("{}:{}", runner.name, argument.mark),
        None => runner.name.to_owned(),
    })
}

/// Returns the ways to name a runner, for a hint.
pub fn describe_known_runners() -> String {
    let values = RUNNERS.iter().map(|runner| match runner.argument {
        Some(argument) => {
            let path = argument.required.unwrap_or(argument.mark);
            format!("{}:{path}", runner.name)
        }
        None => runner.name.to_owned(),
    });
    format!("name it: --cases={}", words::join_names("or", values))
}

/// Joins the names of runners in sentences, for help texts.
pub fn titles_of(is_included: impl Fn(&Runner) -> bool) -> String {
    let included = RUNNERS.iter().filter(|runner| is_included(runner));
    words::join_names("and", included.map(|runner| runner.title))
}

/// Returns the help of the setting `cases`.
pub fn describe_setting() -> String {
    let values = RUNNERS.iter().zip(setting_values()).map(|(runner, value)| {
        match runner.argument.and_then(|argument| argument.about) {
            Some(about) => format!("{value} ({about})"),
            None => value,
        }
    });
    format!(
        "Runners: {}. Without a value, the runner is recognized by the words of the command.",
        words::join_names("and", values)
    )
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
            ("bash --norc -c pytest", Some("pytest")),
            ("python3 tests.py", None),
            ("python -m unittest", None),
            ("cargo nextest run --release", Some("nextest")),
            ("cargo +nightly nextest run", Some("nextest")),
            ("cargo nextest list", None),
            ("cargo test", Some("libtest")),
            ("cargo +nightly t --lib", Some("libtest")),
            (
                "env A=1 target/debug/deps/it-0123456789abcdef a",
                Some("libtest"),
            ),
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
        assert_eq!(find_runner(&line).unwrap().name, "pytest");
    }

    #[test]
    fn a_runner_is_written_as_it_is_read() {
        for runner in RUNNERS {
            let text = match runner.argument {
                Some(argument) => format!("{}:{}", runner.name, argument.in_trial),
                None => runner.name.to_owned(),
            };
            assert_eq!(parse_runner(&text).unwrap().to_string(), text);
        }
        assert_eq!(
            parse_runner("jsonl:{dir}/a:b").unwrap().to_string(),
            "jsonl:{dir}/a:b"
        );
        for refused in ["", "jest", "junit", "junit:", "pytest:x"] {
            assert!(parse_runner(refused).is_err(), "{refused}");
        }
    }
}
