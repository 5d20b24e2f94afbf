//! Changes a command so that its runner runs one case alone.

use super::command::split_runner_words;
use super::error::{CaseSetupError, refuse, refuse_shell_line};
use super::insertion::insert_words;
use super::runner::find_position;
use crate::pytest;
use provoke_model::{ActorPlan, ActorRole, CaseName, CaseRunner, CasesPlan, Text, VariantPlan};

/// Changes a variant so that its runner runs one case alone.
pub fn select_case(
    plan: &CasesPlan,
    variant: &mut VariantPlan,
    case: &CaseName,
) -> Result<(), CaseSetupError> {
    let is_main = |actor: &&mut ActorPlan| actor.role == ActorRole::Main;
    for actor in variant.actors.iter_mut().filter(is_main) {
        select_case_of_actor(plan, actor, case)?;
    }
    Ok(())
}

fn select_case_of_actor(
    plan: &CasesPlan,
    actor: &mut ActorPlan,
    case: &CaseName,
) -> Result<(), CaseSetupError> {
    let runner = &plan.runner;
    if !plan.select.is_empty() {
        let marks = [
            ("{case}", case.name.as_str()),
            ("{suite}", case.suite.as_str()),
        ];
        let words = plan.select.iter();
        return append_words(
            runner,
            actor,
            words.map(|word| Text::from(word.as_str()).fill_marks(&marks)),
        );
    }
    match runner {
        CaseRunner::Pytest => {
            for (name, value) in [
                (pytest::SELECTION_VARIABLE, case.name.as_str()),
                (pytest::ALONE_VARIABLE, "1"),
            ] {
                let name = Text::from(name);
                actor.env.retain(|(own_name, _)| *own_name != name);
                actor.env.push((name, Some(value.into())));
            }
            Ok(())
        }
        CaseRunner::Nextest => {
            remove_flag(actor, runner, &["-E", "--filterset", "--filter-expr"]);
            let mut filter = format!("test(={})", escape(&case.name, r"\),/"));
            if !case.suite.is_empty() {
                let suite = escape(&case.suite, r"\),/");
                filter = format!("binary_id(={suite}) & {filter}");
            }
            insert_words(actor, runner, &["-E".to_owned(), filter])
        }
        CaseRunner::Go => {
            remove_flag(actor, runner, &["-run", "--run", "-test.run"]);
            let parts = case.name.split('/');
            let patterns: Vec<String> = parts
                .map(|part| format!("^{}$", escape(part, REGEX)))
                .collect();
            insert_words(actor, runner, &[format!("-run={}", patterns.join("/"))])
        }
        CaseRunner::Ctest => {
            remove_flag(actor, runner, &["-R", "--tests-regex"]);
            let pattern = format!("^{}$", escape(&case.name, REGEX));
            insert_words(actor, runner, &["-R".to_owned(), pattern])
        }
        // Of several filters, GoogleTest uses the last.
        CaseRunner::Gtest => {
            let filter = format!("--gtest_filter={}", case.name);
            append_words(runner, actor, [Text::from(filter)])
        }
        CaseRunner::Junit(_) | CaseRunner::Tap | CaseRunner::Jsonl(_) => Err(refuse(
            format!(
                "it is not known how {} can run one test alone",
                runner.name()
            ),
            "name the arguments that select one test: --case-args '--only {case}'; `{suite}` is the group of the test",
        )),
    }
}

/// Characters with a meaning in regular expressions.
const REGEX: &str = r"\.+*?()|[]{}^$";

/// Puts a backslash before characters.
fn escape(text: &str, characters: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if characters.contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn append_words(
    runner: &CaseRunner,
    actor: &mut ActorPlan,
    words: impl IntoIterator<Item = Text>,
) -> Result<(), CaseSetupError> {
    if split_runner_words(&actor.command).is_shell_line {
        return Err(refuse_shell_line(runner));
    }
    actor.command.extend(words);
    Ok(())
}

/// Removes a flag with its value from the arguments of the runner.
fn remove_flag(actor: &mut ActorPlan, runner: &CaseRunner, names: &[&str]) {
    let words = split_runner_words(&actor.command).words;
    let found = find_position(&words).filter(|(found_runner, _)| found_runner == runner);
    let Some((_, last)) = found else {
        return;
    };
    let mut kept: Vec<Text> = actor.command[..=last].to_vec();
    let mut arguments = actor.command[last + 1..].iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string();
        if text == "--" {
            kept.push(argument.clone());
            break;
        }
        if names.contains(&text.as_str()) {
            arguments.next();
            continue;
        }
        let name = text.split('=').next().unwrap_or_default();
        if !names.contains(&name) {
            kept.push(argument.clone());
        }
    }
    kept.extend(arguments.cloned());
    actor.command = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected_command(runner: CaseRunner, command: &str, suite: &str, name: &str) -> String {
        let plan = CasesPlan {
            select: if matches!(runner, CaseRunner::Tap) {
                vec!["--only".to_owned(), "{suite}:{case}".to_owned()]
            } else {
                Vec::new()
            },
            runner,
            shuffle: false,
            reruns: 10,
            strip: None,
        };
        let mut variant = VariantPlan {
            actors: vec![ActorPlan {
                name: String::new(),
                role: ActorRole::Main,
                command: command.split(' ').map(Text::from).collect(),
                copies: 1,
                env: Vec::new(),
                cwd: ".".into(),
                stdin: None,
                container: None,
            }],
            ..VariantPlan::default()
        };
        let case = CaseName {
            suite: suite.to_owned(),
            name: name.to_owned(),
        };
        match select_case(&plan, &mut variant, &case) {
            Ok(()) => {
                let words = variant.actors[0].command.iter().map(ToString::to_string);
                words.collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_runner_runs_one_test_by_its_own_filter() {
        let nextest = "cargo nextest run -E test(a) --filterset=test(b) -- --skip x";
        assert_eq!(
            selected_command(CaseRunner::Nextest, nextest, "crate::bin", "tests::a(1)"),
            r"cargo nextest run -E binary_id(=crate::bin) & test(=tests::a(1\)) -- --skip x"
        );
        assert_eq!(
            selected_command(
                CaseRunner::Go,
                "go test -run TestA -v ./...",
                "pkg",
                "TestA/x.y"
            ),
            r"go test -run=^TestA$/^x\.y$ -v ./..."
        );
        assert_eq!(
            selected_command(
                CaseRunner::Ctest,
                "ctest -R Sum --test-dir b",
                "",
                "Sum.Adds/0"
            ),
            r"ctest -R ^Sum\.Adds/0$ --test-dir b"
        );
        assert_eq!(
            selected_command(CaseRunner::Gtest, "./unit", "", "Sum.Adds"),
            "./unit --gtest_filter=Sum.Adds"
        );
        assert_eq!(
            selected_command(CaseRunner::Tap, "./run", "group", "a test"),
            "./run --only group:a test"
        );
        let unknown = selected_command(CaseRunner::Junit("*.xml".to_owned()), "./run", "", "a");
        assert_eq!(
            unknown,
            "it is not known how the JUnit reports can run one test alone"
        );
    }
}
