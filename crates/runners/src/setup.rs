//! Prepares trials for the report of their cases: arguments and variables of the runner, and files in the trial's folder.

use super::command::split_runner_words;
use super::error::{CaseSetupError, refuse, refuse_shell_line};
use super::insertion::insert_words;
use super::selection::select_case;
use crate::pytest;
use provoke_model::{ActorPlan, ActorRole, CaseName, CaseRunner, CasesPlan, Text, VariantPlan};
use provoke_sys::files;
use std::io::{self, Write as _};
use std::path::Path;

/// Stands in arguments, values and files for the folder of the trial's reports.
pub(crate) const CASES_MARK: &str = "{cases}";
/// Name of the folder of the plugin, beside the folders of the trials.
const PLUGIN_FOLDER: &str = "pytest-plugin";
/// The stream of cases, in the folder of the reports.
pub(super) const STREAM: &str = "stream.jsonl";
/// A JUnit report, in the folder of the reports.
pub(super) const JUNIT: &str = "junit.xml";
/// The names of the only cases to run, in the folder of the reports.
const SELECTION: &str = "selection.jsonl";
/// The settings of nextest, in the folder of the reports.
const NEXTEST_CONFIG: &str = "nextest.toml";

/// What a slot prepares for the cases of its trials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseSetup {
    /// Variables of the trial; the values may contain marks.
    pub variables: Vec<(String, String)>,
    /// Files in the folder of the reports; their texts may contain marks.
    pub files: Vec<(String, String)>,
    /// Whether the complete stdout is written to the folder of the reports.
    pub spools_stdout: bool,
}

impl CaseSetup {
    /// Returns the setup of the trials of a variant. The names of selected cases move from a variable of the variant to a
    /// file, because a variable can have only 128 KiB.
    pub fn take_from(plan: &CasesPlan, variant: &mut VariantPlan) -> Self {
        let mut setup = Self {
            spools_stdout: plan.runner.reads_stdout(),
            ..Self::default()
        };
        match &plan.runner {
            CaseRunner::Pytest => {
                setup.add_variable(pytest::STREAM_VARIABLE, &format!("{CASES_MARK}/{STREAM}"));
                if plan.shuffle {
                    setup.add_variable(pytest::SHUFFLE_VARIABLE, "{seed}");
                }
                if let Some(names) = take_selection(variant) {
                    setup.files.push((SELECTION.to_owned(), names));
                    setup.add_variable(
                        pytest::SELECTION_FILE_VARIABLE,
                        &format!("{CASES_MARK}/{SELECTION}"),
                    );
                }
            }
            CaseRunner::Jsonl(file) if file.is_empty() => {
                setup.add_variable(pytest::STREAM_VARIABLE, &format!("{CASES_MARK}/{STREAM}"));
            }
            CaseRunner::Nextest => {
                let profile = variant.main_actor().map_or_else(
                    || "default".to_owned(),
                    |main| nextest_profile(&main.command),
                );
                let config =
                    format!("[profile.{profile}.junit]\npath = \"{CASES_MARK}/{JUNIT}\"\n");
                setup.files.push((NEXTEST_CONFIG.to_owned(), config));
            }
            _ => {}
        }
        setup
    }

    fn add_variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Adds the arguments and variables that are the same in all trials of a variant. `trials` is the folder with the
    /// folders of the trials.
    pub fn adapt_variant(
        plan: &CasesPlan,
        variant: &mut VariantPlan,
        environment: &[(Text, Text)],
        trials: &Path,
    ) -> Result<(), CaseSetupError> {
        let is_main = |actor: &&mut ActorPlan| actor.role == ActorRole::Main;
        for actor in variant.actors.iter_mut().filter(is_main) {
            adapt_actor(plan, actor, environment, trials)?;
        }
        Ok(())
    }

    /// Checks before the first trial whether cases can be found in the trials of a variant.
    pub fn check_variant(plan: &CasesPlan, variant: &VariantPlan) -> Result<(), CaseSetupError> {
        let mains = variant
            .actors
            .iter()
            .filter(|actor| actor.role.decides_outcome());
        let processes: u32 = mains.map(|actor| actor.copies).sum();
        if processes != 1 {
            return Err(refuse(
                "the tests of several processes cannot be told apart",
                "leave out `cases`, or run one copy of one main process",
            ));
        }
        if plan.shuffle
            && !matches!(
                plan.runner,
                CaseRunner::Pytest | CaseRunner::Go | CaseRunner::Gtest
            )
        {
            let reason = match plan.runner {
                CaseRunner::Nextest => {
                    "cargo nextest runs each test in a separate process, so the order changes nothing"
                }
                CaseRunner::Ctest => {
                    "ctest runs each test in a separate process, so the order changes nothing"
                }
                _ => "provoke cannot change the order of an unknown runner",
            };
            return Err(refuse(
                format!("`shuffle` is not possible here: {reason}"),
                "leave it out",
            ));
        }
        let contained = variant.actors.iter().any(|actor| actor.container.is_some());
        if contained {
            return Err(refuse(
                "the cases of a runner in a container cannot be read",
                "run the suite without `image`, or leave out `cases`",
            ));
        }
        let mut tried = variant.clone();
        if plan.reruns > 0 {
            select_case(plan, &mut tried, &CaseName::default())?;
        }
        Self::adapt_variant(plan, &mut tried, &[], Path::new("/"))
    }

    /// Writes the files that all trials share into `trials`.
    pub fn write_shared_files(plan: &CasesPlan, trials: &Path) -> io::Result<()> {
        if plan.runner != CaseRunner::Pytest {
            return Ok(());
        }
        let folder = trials.join(PLUGIN_FOLDER);
        files::create_folders(&folder)?;
        let file = format!("{}.py", pytest::PLUGIN_MODULE);
        files::create_readable(&folder.join(file))?.write_all(pytest::PLUGIN.as_bytes())
    }

    /// Removes these files.
    pub fn remove_shared_files(trials: &Path) {
        // Without the setting `cases` there is no such folder.
        let _ = files::remove_tree(&trials.join(PLUGIN_FOLDER));
    }
}

/// Removes the names of the only cases to run. Returns each as a line of JSON, which contains no marks.
fn take_selection(variant: &mut VariantPlan) -> Option<String> {
    let is_main = |actor: &&mut ActorPlan| actor.role == ActorRole::Main;
    let main = variant.actors.iter_mut().find(is_main)?;
    let selection = Text::from(pytest::SELECTION_VARIABLE);
    let index = main.env.iter().position(|(name, _)| *name == selection)?;
    let (_, names) = main.env.remove(index);
    Some(pytest::encode_names(names?.to_string().lines()))
}

/// Adds the arguments and variables of the runner to an actor.
fn adapt_actor(
    plan: &CasesPlan,
    actor: &mut ActorPlan,
    environment: &[(Text, Text)],
    trials: &Path,
) -> Result<(), CaseSetupError> {
    match &plan.runner {
        CaseRunner::Pytest => {
            let folder = trials.join(PLUGIN_FOLDER);
            prepend_variable(actor, environment, "PYTHONPATH", folder.as_path(), ":");
            let module = Path::new(pytest::PLUGIN_MODULE);
            prepend_variable(actor, environment, "PYTEST_PLUGINS", module, ",");
        }
        CaseRunner::Go => {
            let mut words = vec!["-json".to_owned()];
            // With the same files, go reports the result of an earlier run.
            words.push("-count=1".to_owned());
            if plan.shuffle {
                words.push("-shuffle={seed}".to_owned());
            }
            let is_given = |word: &String| {
                let name = word.split('=').next().unwrap_or_default();
                let bare_name = name.trim_start_matches('-');
                actor.command.iter().any(|own| {
                    let own = own.to_string();
                    own.starts_with('-')
                        && own.trim_start_matches('-').split('=').next() == Some(bare_name)
                })
            };
            words.retain(|word| !is_given(word));
            insert_words(actor, &plan.runner, &words)?;
        }
        CaseRunner::Ctest => {
            let report = format!("{CASES_MARK}/{JUNIT}");
            insert_words(actor, &plan.runner, &["--output-junit".to_owned(), report])?;
        }
        CaseRunner::Nextest => {
            let config = format!("provoke:{CASES_MARK}/{NEXTEST_CONFIG}");
            insert_words(
                actor,
                &plan.runner,
                &["--tool-config-file".to_owned(), config],
            )?;
        }
        CaseRunner::Gtest if plan.shuffle => {
            if split_runner_words(&actor.command).is_shell_line {
                return Err(refuse_shell_line(&plan.runner));
            }
            actor
                .command
                .extend(["--gtest_shuffle", "--gtest_random_seed={short_seed}"].map(Text::from));
        }
        CaseRunner::Gtest | CaseRunner::Junit(_) | CaseRunner::Tap | CaseRunner::Jsonl(_) => {}
    }
    Ok(())
}

/// Puts a value before that of a variable of an actor, or of the environment.
fn prepend_variable(
    actor: &mut ActorPlan,
    environment: &[(Text, Text)],
    name: &str,
    value: &Path,
    separator: &str,
) {
    let name = Text::from(name);
    let own = actor.env.iter().find(|(own_name, _)| *own_name == name);
    let inherited = || {
        let inherited = environment
            .iter()
            .find(|(other_name, _)| *other_name == name);
        inherited.map(|(_, value)| value.clone())
    };
    let old_value = match own {
        Some((_, own_value)) => own_value.clone(),
        None => inherited(),
    };
    let mut new_value = value.as_os_str().to_owned();
    if let Some(old_value) = old_value.filter(|old_value| !old_value.as_os_str().is_empty()) {
        new_value.push(separator);
        new_value.push(old_value.as_os_str());
    }
    actor.env.retain(|(own_name, _)| *own_name != name);
    actor.env.push((name, Some(new_value.into())));
}

/// Returns the profile that a command of nextest uses.
fn nextest_profile(command: &[Text]) -> String {
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

    fn cases(runner: CaseRunner, shuffle: bool) -> CasesPlan {
        CasesPlan {
            runner,
            shuffle,
            reruns: 0,
            select: Vec::new(),
            strip: None,
        }
    }

    fn adapted_command(runner: CaseRunner, shuffle: bool, command: &str) -> String {
        let mut variant = variant(command, &[]);
        let plan = cases(runner, shuffle);
        match CaseSetup::adapt_variant(&plan, &mut variant, &[], Path::new("/t")) {
            Ok(()) => {
                let words = variant.actors[0].command.iter().map(ToString::to_string);
                words.collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn arguments_are_inserted_behind_the_name_of_the_runner() {
        let command = adapted_command(CaseRunner::Go, true, "env A=1 go test -v ./...");
        assert_eq!(
            command,
            "env A=1 go test -json -count=1 -shuffle={seed} -v ./..."
        );
        let command = adapted_command(CaseRunner::Go, false, "go test -json -count=2 .");
        assert_eq!(command, "go test -json -count=2 .");
        let command = adapted_command(CaseRunner::Ctest, false, "ctest --test-dir b");
        assert_eq!(
            command,
            "ctest --output-junit {cases}/junit.xml --test-dir b"
        );
        let command = adapted_command(CaseRunner::Nextest, false, "cargo nextest run -P ci");
        assert_eq!(
            command,
            "cargo nextest run --tool-config-file provoke:{cases}/nextest.toml -P ci"
        );
        let command = adapted_command(CaseRunner::Ctest, false, "make test");
        assert_eq!(command, "the command does not contain `ctest`");
    }

    #[test]
    fn the_plugin_comes_before_the_variables_of_the_user() {
        let plan = cases(CaseRunner::Pytest, false);
        let env = [("PYTHONPATH", Some("/own")), ("PYTEST_PLUGINS", None)];
        let mut variant = variant("pytest", &env);
        let inherited = [
            (Text::from("PYTHONPATH"), Text::from("/inherited")),
            (Text::from("PYTEST_PLUGINS"), Text::from("a,b")),
        ];
        CaseSetup::adapt_variant(&plan, &mut variant, &inherited, Path::new("/t")).unwrap();
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
    fn the_profile_of_nextest_is_that_of_the_command() {
        for (command, profile) in [
            ("cargo nextest run", "default"),
            ("cargo nextest run -P ci", "ci"),
            ("cargo nextest run --profile=ci-2 -- --profile x", "ci-2"),
            ("cargo nextest run --profile=a]b", "default"),
        ] {
            let words: Vec<Text> = command.split(' ').map(Text::from).collect();
            assert_eq!(nextest_profile(&words), profile, "{command}");
        }
    }

    #[test]
    fn a_random_order_is_refused_where_it_changes_nothing() {
        let variant = variant("cargo nextest run", &[]);
        let error = CaseSetup::check_variant(&cases(CaseRunner::Nextest, true), &variant);
        assert!(error.unwrap_err().message.contains("separate process"));
    }
}
