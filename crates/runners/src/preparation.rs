//! Prepares trials for the report of their cases: arguments and variables of the runner, and files in the trial's folder.

use super::command::RunnerCommand;
use super::registry::{runner_named, runner_of};
use super::runner::OrderControl;
use super::selection::select_case;
use super::setup::{CaseSetup, TrialPlace};
use provoke_model::{
    ActorPlan, ActorRole, CaseName, CaseOrder, CaseRunner, CasesPlan, Text, VariantPlan,
};
use provoke_sys::files;
use provoke_words::diagnostic::Diagnostic;
use std::io::{self, Write as _};
use std::path::Path;

impl CaseSetup {
    /// Returns the setup of the trials of a variant. The names of selected cases move from a variable of the variant to a
    /// file, because a variable can have only 128 KiB.
    pub fn take_from(
        plan: &CasesPlan,
        order: Option<&CaseOrder>,
        variant: &mut VariantPlan,
    ) -> Self {
        let mut setup = Self::default();
        if let Ok(runner) = runner_of(plan) {
            setup.spools_stdout = runner.reads_stdout;
            (runner.set_up)(plan, order, variant, &mut setup);
        }
        setup
    }

    /// Adds the arguments and variables that are the same in all trials of a variant. `trials` is the folder with the
    /// folders of the trials.
    pub fn adapt_variant(
        plan: &CasesPlan,
        order: Option<&CaseOrder>,
        variant: &mut VariantPlan,
        environment: &[(Text, Text)],
        trials: &Path,
    ) -> Result<(), Diagnostic> {
        let runner = runner_of(plan)?;
        let place = TrialPlace {
            order,
            environment,
            trials,
        };
        let is_main = |actor: &&mut ActorPlan| actor.role == ActorRole::Main;
        for actor in variant.actors.iter_mut().filter(is_main) {
            (runner.adapt)(&mut RunnerCommand::new(runner, actor), &place)?;
        }
        Ok(())
    }

    /// Checks before the first trial whether cases can be found in the trials of a variant.
    pub fn check_variant(plan: &CasesPlan, variant: &VariantPlan) -> Result<(), Diagnostic> {
        let mains = variant
            .actors
            .iter()
            .filter(|actor| actor.role.decides_outcome());
        let processes: u32 = mains.map(|actor| actor.copies).sum();
        if processes != 1 {
            return Err(Diagnostic::of_field(
                "cases",
                "the tests of several processes cannot be told apart",
                "leave out `cases`, or run one copy of one main process",
            ));
        }
        let order = plan.order();
        if let Some(reason) = order.and_then(|order| order_obstacle(&plan.runner, &order)) {
            let message = format!("`shuffle` is not possible here: {reason}");
            return Err(Diagnostic::of_field("cases", message, "leave it out"));
        }
        let contained = variant.actors.iter().any(|actor| actor.container.is_some());
        if contained {
            return Err(Diagnostic::of_field(
                "cases",
                "the cases of a runner in a container cannot be read",
                "run the suite without `image`, or leave out `cases`",
            ));
        }
        let mut tried = variant.clone();
        if plan.reruns > 0 {
            select_case(plan, &mut tried, &CaseName::default())?;
        }
        Self::adapt_variant(plan, None, &mut tried, &[], Path::new("/"))
    }

    /// Writes the file that all trials share into `trials`.
    pub fn write_shared_file(plan: &CasesPlan, trials: &Path) -> io::Result<()> {
        let Some(file) = runner_of(plan).map_err(io::Error::other)?.shared_file else {
            return Ok(());
        };
        let folder = trials.join(file.folder);
        files::create_folders(&folder)?;
        files::create_readable(&folder.join(file.name))?.write_all(file.text.as_bytes())
    }

    /// Removes this file.
    pub fn remove_shared_file(plan: &CasesPlan, trials: &Path) {
        if let Some(file) = runner_of(plan).ok().and_then(|runner| runner.shared_file) {
            let _ = files::remove_tree(&trials.join(file.folder));
        }
    }
}

/// Returns why a runner cannot run its cases in this order, if it cannot.
pub fn order_obstacle(runner: &CaseRunner, order: &CaseOrder) -> Option<String> {
    let runner = runner_named(&runner.name)?;
    match runner.order {
        OrderControl::SeedOrReverse => None,
        OrderControl::Seed if *order != CaseOrder::Reverse => None,
        OrderControl::Seed => Some(format!(
            "{} runs its tests in a random order, but not in the reverse one",
            runner.title
        )),
        OrderControl::Isolated => Some(format!(
            "{} runs each test in a separate process, so the order changes nothing",
            runner.title
        )),
        OrderControl::Fixed(reason) => Some(reason.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_runner;

    fn variant(command: &str, env: &[(&str, Option<&str>)]) -> VariantPlan {
        let variables = env
            .iter()
            .map(|(name, value)| (Text::from(*name), value.map(Text::from)));
        VariantPlan {
            actors: vec![ActorPlan {
                name: String::new(),
                role: ActorRole::Main,
                command: command.split(' ').map(Text::from).collect(),
                copies: 1,
                env: variables.collect(),
                cwd: ".".into(),
                stdin: None,
                container: None,
            }],
            ..VariantPlan::default()
        }
    }

    fn cases(runner: &str, shuffle: bool) -> CasesPlan {
        CasesPlan {
            runner: parse_runner(runner).unwrap(),
            shuffle,
            reruns: 0,
            select: Vec::new(),
            strip: None,
        }
    }

    fn adapted_command(runner: &str, shuffle: bool, command: &str) -> String {
        let mut variant = variant(command, &[]);
        let plan = cases(runner, shuffle);
        match CaseSetup::adapt_variant(
            &plan,
            plan.order().as_ref(),
            &mut variant,
            &[],
            Path::new("/t"),
        ) {
            Ok(()) => {
                let words = variant.actors[0].command.iter().map(ToString::to_string);
                words.collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn arguments_are_inserted_behind_the_name_of_the_runner() {
        let command = adapted_command("go", true, "env A=1 go test -v ./...");
        assert_eq!(
            command,
            "env A=1 go test -json -count=1 -shuffle={seed} -v ./..."
        );
        let command = adapted_command("go", false, "go test -json -count=2 .");
        assert_eq!(command, "go test -json -count=2 .");
        let command = adapted_command("ctest", false, "ctest --test-dir b");
        assert_eq!(
            command,
            "ctest --output-junit {cases}/junit.xml --test-dir b"
        );
        let command = adapted_command("nextest", false, "cargo nextest run -P ci");
        assert_eq!(
            command,
            "cargo nextest run --tool-config-file provoke:{cases}/nextest.toml -P ci"
        );
        let command = adapted_command("libtest", false, "cargo test -q -p a -- --quiet b");
        assert_eq!(
            command,
            r#"cargo test --config target."cfg(all())".runner=["sh","{cases}/libtest.sh","cargo"] -p a -- b"#
        );
        let command = adapted_command("libtest", false, "env A=1 t/deps/it-0123456789abcdef -q");
        assert_eq!(
            command,
            "env A=1 sh {cases}/libtest.sh binary t/deps/it-0123456789abcdef"
        );
        let command = adapted_command("ctest", false, "make test");
        assert_eq!(command, "the command does not contain `ctest`");
    }

    #[test]
    fn the_seed_of_an_order_is_passed_to_the_runner() {
        for (runner, command, expected) in [
            ("go", "go test .", "go test -json -count=1 -shuffle=7 ."),
            ("gtest", "./t", "./t --gtest_shuffle --gtest_random_seed=7"),
        ] {
            let mut variant = variant(command, &[]);
            let order = Some(&CaseOrder::OfSeed(7));
            let plan = cases(runner, false);
            let place = Path::new("/t");
            CaseSetup::adapt_variant(&plan, order, &mut variant, &[], place).unwrap();
            let words = variant.actors[0].command.iter().map(ToString::to_string);
            assert_eq!(words.collect::<Vec<_>>().join(" "), expected);
        }
    }

    #[test]
    fn the_plugin_comes_before_the_variables_of_the_user() {
        let plan = cases("pytest", false);
        let env = [("PYTHONPATH", Some("/own")), ("PYTEST_PLUGINS", None)];
        let mut variant = variant("pytest", &env);
        let inherited = [
            (Text::from("PYTHONPATH"), Text::from("/inherited")),
            (Text::from("PYTEST_PLUGINS"), Text::from("a,b")),
        ];
        CaseSetup::adapt_variant(&plan, None, &mut variant, &inherited, Path::new("/t")).unwrap();
        let value_of = |name: &str| {
            let mut env = variant.actors[0].env.iter();
            let value = env.find(|(own_name, _)| *own_name == Text::from(name));
            value
                .and_then(|(_, value)| value.as_ref())
                .unwrap()
                .to_string()
        };
        assert_eq!(value_of("PYTHONPATH"), "/t/pytest-plugin:/own");
        // The user removed this variable.
        assert_eq!(value_of("PYTEST_PLUGINS"), "provoke_runners");
    }

    #[test]
    fn a_random_order_is_refused_where_it_changes_nothing() {
        let variant = variant("cargo nextest run", &[]);
        let error = CaseSetup::check_variant(&cases("nextest", true), &variant);
        assert!(error.unwrap_err().message.contains("separate process"));
    }
}
