//! cargo nextest: each test runs in a separate process, and the JUnit report names them.

use super::command::{begins_with, cargo_subcommand, escape, split_runner_words};
use super::junit::{self, REPORT};
use super::runner::{Exclusion, OrderControl, RUNNER, Runner};
use super::setup::CASES_MARK;
use provoke_model::{CaseName, Text};

/// The settings of nextest, in the folder of the reports.
const CONFIG: &str = "nextest.toml";
/// Characters with a meaning in filter expressions.
const FILTER: &str = r"\),/";

/// cargo-nextest, by its JUnit report.
pub(crate) static NEXTEST: Runner = Runner {
    name: "nextest",
    title: "cargo nextest",
    recognize: |words| {
        if begins_with(words, "cargo-nextest", &["nextest", "run"]) {
            return Some(2);
        }
        let subcommand = cargo_subcommand(words)?;
        let is_run = words.get(subcommand).is_some_and(|word| word == "nextest")
            && matches!(
                words.get(subcommand + 1).map(String::as_str),
                Some("run" | "r")
            );
        is_run.then_some(subcommand + 1)
    },
    order: OrderControl::Isolated,
    exclusion: Some(Exclusion {
        name: "nextest-filter",
        write: write_exclusion,
    }),
    adapt: |command, _| {
        let config = format!("provoke:{CASES_MARK}/{CONFIG}");
        command.insert(["--tool-config-file".to_owned(), config])
    },
    set_up: |_, _, variant, setup| {
        let profile = variant
            .main_actor()
            .map_or_else(|| "default".to_owned(), |main| find_profile(&main.command));
        let config = format!("[profile.{profile}.junit]\npath = \"{CASES_MARK}/{REPORT}\"\n");
        setup.files.push((CONFIG.to_owned(), config));
    },
    select: |case, command| {
        command.remove_flag(&["-E", "--filterset", "--filter-expr"]);
        command.insert(["-E".to_owned(), write_filter(case)])
    },
    read: |report| report.read_file(REPORT, junit::read_nextest),
    ..RUNNER
};

/// Returns an expression for `cargo nextest run -E` that selects a test.
fn write_filter(case: &CaseName) -> String {
    let test = format!("test(={})", escape(&case.name, FILTER));
    if case.suite.is_empty() {
        return test;
    }
    let binary = escape(&case.suite, FILTER);
    format!("binary_id(={binary}) & {test}")
}

/// Returns an expression for `cargo nextest run -E` that leaves tests out.
fn write_exclusion(names: &[&CaseName]) -> String {
    let tests: Vec<String> = names
        .iter()
        .map(|name| format!("({})", write_filter(name)))
        .collect();
    if tests.is_empty() {
        "all()".to_owned()
    } else {
        format!("not ({})", tests.join(" | "))
    }
}

/// Returns the profile that a command uses.
fn find_profile(command: &[Text]) -> String {
    let words = split_runner_words(command).words;
    let mut profile = None;
    for (index, word) in words.iter().enumerate() {
        match word.as_str() {
            "--" => break,
            "-P" | "--profile" => profile = words.get(index + 1).cloned(),
            word => {
                if let Some(value) = word.strip_prefix("--profile=") {
                    profile = Some(value.to_owned());
                }
            }
        }
    }
    let is_name = |name: &String| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    profile
        .filter(is_name)
        .unwrap_or_else(|| "default".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_tests_have_the_binary_of_their_suite() {
        let case = |suite: &str, name: &str| CaseName {
            suite: suite.to_owned(),
            name: name.to_owned(),
        };
        let (unit, in_test) = (case("a", "b::c"), case("a::it", "b::c(1)"));
        assert_eq!(
            write_exclusion(&[&unit, &in_test]),
            r"not ((binary_id(=a) & test(=b::c)) | (binary_id(=a::it) & test(=b::c(1\))))"
        );
        assert_eq!(write_exclusion(&[]), "all()");
    }

    #[test]
    fn the_profile_of_nextest_is_that_of_the_command() {
        for (command, profile) in [
            ("cargo nextest run", "default"),
            ("cargo nextest run -P ci", "ci"),
            ("cargo nextest run --profile=ci-2 -- --profile x", "ci-2"),
            ("cargo nextest run --profile=a]b", "default"),
        ] {
            let words: Vec<Text> = command.split(' ').map(Text::from).collect();
            assert_eq!(find_profile(&words), profile, "{command}");
        }
    }
}
