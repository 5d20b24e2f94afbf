//! The command of a stored trial, to run it by hand.

use super::rerun::prepare_trial;
use super::stored_trial::StoredTrial;
use provoke_levers as levers;
use provoke_levers::TrialStart;
use provoke_model::{ActorPlan, Trial, TrialConditions, TrialsPlan};
use provoke_slot::{CommandLine, PlaceholderValues, words_by_hand};
use provoke_sys::files;
use provoke_sys::private_folder::PrivateFolder;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::{Untrusted as _, shell_lines};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::{fs, io};

impl StoredTrial {
    /// Creates a temporary directory in which the trial can run.
    pub fn scratch_folder(&self) -> io::Result<PrivateFolder> {
        let scratch = PrivateFolder::new("replay")?;
        if levers::user_of(&self.conditions()).is_some() {
            files::let_through(scratch.path())?;
        }
        Ok(scratch)
    }

    /// Returns the conditions of the trial.
    pub(super) fn conditions(&self) -> TrialConditions {
        let trials = &self.state.trials;
        trials.conditions_of(trials.variant_plan(self.trial.variant))
    }

    /// Runs the main command of the trial in this terminal with these words in front, for example under a debugger.
    pub async fn run_wrapped(
        &self,
        prefix: &str,
        scratch: &Path,
    ) -> Result<ExitStatus, Diagnostic> {
        let mut command = self.wrapped_command(prefix, scratch).await?;
        command.status().map_err(|error| {
            let program = command.get_program().to_string_lossy();
            Diagnostic::could_not(format!("cannot run `{program}`")).because(error)
        })
    }

    /// Returns the main command of the trial with these words in front; prepares its variant.
    async fn wrapped_command(&self, prefix: &str, scratch: &Path) -> Result<Command, Diagnostic> {
        let (trials, trial) = (&self.state.trials, &self.trial);
        prepare_trial(trials, trial, scratch).await?;
        let words = shlex::split(prefix)
            .filter(|words| !words.is_empty())
            .ok_or_else(|| {
                Diagnostic::usage(format!("`{prefix}` is not a command prefix"))
                    .with_hint("check that every quote is closed")
            })?;
        let (numbers, actor) =
            main_actor(trials, trial, trials.settings.scratch.then_some(scratch));
        if actor.container.is_some() {
            let message =
                format!("the command runs in a container, and `{prefix}` would run outside");
            return Err(Diagnostic::usage(message).with_hint(
                "leave --wrap out to rerun the trial; `wrap` in the scenario runs in the container",
            ));
        }
        let conditions = self.conditions();
        let mut set = levers::set_levers(&conditions);
        let only_in_trials = |lever: &levers::Lever| lever.name == "user" || lever.flag.is_none();
        if let Some((lever, value)) = set.find(|(lever, _)| only_in_trials(lever)) {
            let condition = format!("{}={value}", lever.name);
            let message = format!(
                "the trial ran under `{}`, and `{prefix}` would run without it",
                condition.to_safe()
            );
            return Err(Diagnostic::usage(message).with_hint(
                "leave --wrap out to rerun the trial; `wrap` in the scenario runs under all conditions",
            ));
        }
        let process = CommandLine::new(&trials.environment, actor, &numbers);
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(process.argv)
            .current_dir(process.cwd);
        command.env_clear().envs(process.environment);
        if let Some(file) = process.stdin {
            command.stdin(Stdio::from(fs::File::open(file)?));
        }
        Ok(command)
    }

    /// Returns what only a replay repeats, and neither the shell line of the trial nor its command with words in front.
    pub fn only_in_replay(&self) -> Vec<String> {
        let trials = &self.state.trials;
        let hold = self.trial.hold.as_ref().map(|_| "the hold of a thread");
        let cases = trials.cases.as_ref().filter(|cases| cases.shuffle);
        let order = cases.map(|_| "the order of the tests");
        // The engine is given the conditions of a container.
        let variant = trials.variant_plan(self.trial.variant);
        let mut actors = variant.actors.iter();
        let is_contained = actors.any(|actor| actor.container.is_some());
        let conditions = self.conditions();
        let set = levers::set_levers(&conditions).filter(|_| !is_contained);
        let flags = set.map(|(lever, value)| match (lever.flag, value) {
            (Some(_), _) => format!("--{}", lever.name),
            (None, "") => format!("--under {}", lever.name),
            (None, value) => format!("--under {}={value}", lever.name),
        });
        let others = hold.into_iter().chain(order).map(str::to_owned);
        others.chain(flags).collect()
    }

    /// Returns the main command of the trial as it was typed.
    pub fn command_line(&self) -> String {
        provoke_report::command_line(&self.state.trials, self.trial.variant)
    }

    /// Returns the shell line of the trial. Its differences from this shell are the numbers, the variables that were set
    /// for the trial, its directory and its input.
    pub fn shell_line(&self) -> String {
        let (trials, trial) = (&self.state.trials, &self.trial);
        let scratch = trials.settings.scratch.then(|| Path::new("/tmp"));
        let (numbers, actor) = main_actor(trials, trial, scratch);
        // A user that does not exist here is of no use in a container.
        let start = TrialStart::new(&self.conditions()).unwrap_or_default();
        let process = CommandLine::new(&trials.environment, actor, &numbers);
        let process = process.with_variables(&start.variables);
        let contained = words_by_hand(actor, &numbers, &start);
        let input = process
            .stdin
            .map_or(OsStr::new("/dev/null"), Path::as_os_str);
        let words = match &contained {
            Some(words) => contained_words(actor, words),
            None => process_words(actor, &process),
        };
        format!(
            "cd {} && {} < {}\n",
            quoted(process.cwd.as_os_str()),
            words.join(" "),
            quoted(input),
        )
    }
}

fn quoted(word: &OsStr) -> String {
    shell_lines(word).into_string()
}

/// Returns the words that remove variables; `env` alone if there are none.
fn env_words(actor: &ActorPlan) -> Vec<String> {
    let removed = actor
        .env
        .iter()
        .filter(|(_, value)| value.is_none())
        .flat_map(|(name, _)| ["-u".to_owned(), quoted(name.as_os_str())]);
    std::iter::once("env".to_owned()).chain(removed).collect()
}

/// Returns the command of a trial in a container.
fn contained_words(actor: &ActorPlan, words: &[OsString]) -> Vec<String> {
    let command = words.iter().map(|word| quoted(word));
    if actor.env.iter().any(|(_, value)| value.is_none()) {
        env_words(actor).into_iter().chain(command).collect()
    } else {
        command.collect()
    }
}

/// Returns the command of a trial, with the variables that were set for it.
fn process_words(actor: &ActorPlan, process: &CommandLine) -> Vec<String> {
    let set = |name: &OsStr| {
        actor
            .env
            .iter()
            .any(|(own_name, _)| own_name.as_os_str() == name)
    };
    let is_own = |name: &OsStr| name.to_string_lossy().starts_with("PROVOKE_");
    let variables = process
        .environment
        .iter()
        .filter(|(name, _)| set(name) || is_own(name))
        .map(|(name, value)| format!("{}={}", quoted(name), quoted(value)));
    let command = process.argv.iter().map(|word| quoted(word));
    env_words(actor)
        .into_iter()
        .chain(variables)
        .chain(command)
        .collect()
}

/// Returns the numbers of a trial, and the actor that decides its outcome.
fn main_actor<'a>(
    trials: &'a TrialsPlan,
    trial: &Trial,
    scratch: Option<&Path>,
) -> (PlaceholderValues, &'a ActorPlan) {
    let variant = trials.variant_plan(trial.variant);
    let main = variant.main_actor();
    (
        PlaceholderValues::new(trial, &variant.name, scratch),
        main.expect("every plan has one"),
    )
}
