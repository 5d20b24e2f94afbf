//! Changes a command so that its runner runs one case alone.

use super::command::RunnerCommand;
use super::registry::runner_of;
use provoke_model::{ActorPlan, ActorRole, CaseName, CasesPlan, Text, VariantPlan};
use provoke_words::diagnostic::Diagnostic;

/// Changes a variant so that its runner runs one case alone.
pub fn select_case(
    plan: &CasesPlan,
    variant: &mut VariantPlan,
    case: &CaseName,
) -> Result<(), Diagnostic> {
    let runner = runner_of(plan)?;
    let is_main = |actor: &&mut ActorPlan| actor.role == ActorRole::Main;
    for actor in variant.actors.iter_mut().filter(is_main) {
        let mut command = RunnerCommand::new(runner, actor);
        if plan.select.is_empty() {
            (runner.select)(case, &mut command)?;
        } else {
            let marks = [
                ("{case}", case.name.as_str()),
                ("{suite}", case.suite.as_str()),
            ];
            let words = plan.select.iter();
            command.append(words.map(|word| Text::from(word.as_str()).fill_marks(&marks)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_runner;

    fn selected_command(runner: &str, command: &str, suite: &str, name: &str) -> String {
        let plan = CasesPlan {
            select: if runner == "tap" {
                vec!["--only".to_owned(), "{suite}:{case}".to_owned()]
            } else {
                Vec::new()
            },
            runner: parse_runner(runner).unwrap(),
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
            selected_command("nextest", nextest, "crate::bin", "tests::a(1)"),
            r"cargo nextest run -E binary_id(=crate::bin) & test(=tests::a(1\)) -- --skip x"
        );
        assert_eq!(
            selected_command("go", "go test -run TestA -v ./...", "pkg", "TestA/x.y"),
            r"go test -run=^TestA$/^x\.y$ -v ./..."
        );
        assert_eq!(
            selected_command("ctest", "ctest -R Sum --test-dir b", "", "Sum.Adds/0"),
            r"ctest -R ^Sum\.Adds/0$ --test-dir b"
        );
        assert_eq!(
            selected_command("gtest", "./unit", "", "Sum.Adds"),
            "./unit --gtest_filter=Sum.Adds"
        );
        assert_eq!(
            selected_command("tap", "./run", "group", "a test"),
            "./run --only group:a test"
        );
        let unknown = selected_command("junit:*.xml", "./run", "", "a");
        assert_eq!(
            unknown,
            "it is not known how the JUnit reports can run one test alone"
        );
    }
}
