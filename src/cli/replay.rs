//! `replay`: runs one trial again.

use super::error::CliError;
use super::exit::Exit;
use super::experiment::run_and_trial;
use super::replay_outcome::TrialReplay;
use super::rerun::{RerunLimits, build_runtime, make_variant};
use super::seeds;
use crate::exec::LocalExecutor;
use crate::model::{ActorPlan, Event, Outcome, Plan, Trial, TrialId};
use crate::policy;
use crate::scenario::{DEFAULT_DURATION, DEFAULT_RUNS, DurationValue};
use crate::slot::{CommandLine, PlaceholderValues, words_by_hand};
use crate::state::State;
use crate::store::{self, RunFolder, StoreError, default_root, let_through};
use crate::sys::files::PrivateFolder;
use crate::term;
use crate::untrusted::{Untrusted as _, shell_lines};
use clap::Args;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;
use std::process::{Command, Stdio};

/// Rerun one trial with the same command, input and seed
///
/// The environment and the working directory are those of the trial, too.
///
/// With --wrap, the command runs in this terminal under another program: 'gdb --args', 'rr record'.
/// With --seeds, several trials of a run are rerun, to find out whether the seed determines the outcome.
/// Exits with 0 if the trial passes, with 1 if it fails, and with 125 if it is inconclusive.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReplayArgs {
    /// The trial, as RUN#TRIAL, such as last#17; of a RUN alone, its first failing trial
    #[arg(value_name = "RUN[#TRIAL]")]
    trial: String,
    /// Repeat the trial until it fails in the same way
    ///
    /// Exits with 1 when it has failed, with 0 if it has not within the limits, and with 128+n if it was
    /// stopped by signal n. A trial that passed is repeated until it fails in any way.
    #[arg(long, conflicts_with_all = ["seeds", "wrap", "show"])]
    until_fail: bool,
    /// With --until-fail, repeat the trial at most N times [default: 100]
    #[arg(short = 'n', long, value_name = "N", requires = "until_fail")]
    runs: Option<NonZeroU64>,
    /// With --until-fail, stop after this time, such as 30s or 2h [default: 10m]
    #[arg(short, long, value_name = "TIME", requires = "until_fail")]
    duration: Option<DurationValue>,
    /// Rerun N failing and N passing trials with their seeds [default: 5]
    ///
    /// Reports whether the seed determines the outcome.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "5",
        require_equals = true,
        conflicts_with_all = ["wrap", "show"]
    )]
    seeds: Option<NonZeroUsize>,
    /// Run the command in this terminal, with PREFIX in front of it
    #[arg(long, value_name = "PREFIX")]
    wrap: Option<String>,
    /// Print the command, its environment and its seed; do not run it
    #[arg(long)]
    show: bool,
    /// Rerun a trial although the run belongs to another user or was copied
    #[arg(long)]
    trust: bool,
}

const EXAMPLES: &str = "\
Examples:
  Rerun trial 17 of the last run:
    provoke replay last#17
  Rerun it until it fails again, at most 1000 times:
    provoke replay last#17 --until-fail -n 1000
  Rerun it in a debugger:
    provoke replay last#17 --wrap 'gdb --args'
  Find out whether the seed determines the outcome:
    provoke replay last --seeds";

/// A trial of a run, and its outcome.
struct SelectedTrial {
    folder: RunFolder,
    state: State,
    trial: Trial,
    /// `None` if it did not end.
    outcome: Option<Outcome>,
}

impl ReplayArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        if let Some(most) = self.seeds {
            let folder =
                RunFolder::find_run(&self.trial, &default_root())?.check_trust(self.trust)?;
            return seeds::replay_seeds(&folder, most.get());
        }
        let SelectedTrial {
            folder,
            state,
            trial,
            outcome,
        } = choose_trial(&self.trial)?;
        if self.show {
            return show_command(&state.plan, &trial);
        }
        folder.check_trust(self.trust)?;
        let scratch = PrivateFolder::new("replay").map_err(CliError::could_not)?;
        if state.plan.user.is_some() {
            let_through(scratch.path()).map_err(CliError::could_not)?;
        }
        if let Some(wrap) = &self.wrap {
            return in_terminal(&state.plan, &trial, wrap, scratch.path());
        }
        let again = TrialReplay::new(&state, trial, outcome, run_of(&self.trial));
        if self.until_fail {
            let limits = RerunLimits {
                trials: self.runs.map_or(DEFAULT_RUNS, NonZeroU64::get),
                time: self.duration.map_or(DEFAULT_DURATION, |span| span.0),
            };
            again.until_it_fails(scratch.path(), &limits)
        } else {
            again.run_once(scratch.path())
        }
    }
}

/// Finds a trial; for a run without a number, the first that failed.
fn choose_trial(text: &str) -> Result<SelectedTrial, CliError> {
    let (run, id) = if text.contains('#') {
        run_and_trial(text).map(|(run, id)| (run, Some(id)))?
    } else {
        (text, None)
    };
    let folder = RunFolder::find_run(run, &default_root()).map_err(|error| match error {
        StoreError::NoRun { .. } if text.parse::<u64>().is_ok() => CliError::usage(error)
            .with_hint(format!("a trial of the last run is written last#{text}")),
        error => error.into(),
    })?;
    let mut found: Option<(Trial, Option<Outcome>)> = None;
    let mut started: BTreeMap<TrialId, Trial> = BTreeMap::new();
    let state = store::read_run(
        &folder.journal_path(),
        policy::is_done,
        |event, _| match event {
            Event::TrialStarted(trial) if id.is_none_or(|id| trial.id == id) => {
                if id.is_some() {
                    found = Some((trial.clone(), None));
                } else {
                    started.insert(trial.id, trial.clone());
                }
            }
            Event::TrialFinished { trial, outcome, .. } => match &mut found {
                Some((wanted, ended)) if wanted.id == *trial => *ended = Some(outcome.clone()),
                None if id.is_none() => {
                    let trial = started.remove(trial);
                    let failed = matches!(outcome, Outcome::Fail(_));
                    let failing = trial.filter(|trial| failed && !trial.capture);
                    found = failing.map(|trial| (trial, Some(outcome.clone())));
                }
                _ => {}
            },
            _ => {}
        },
    )?;
    let Some((trial, outcome)) = found else {
        return Err(not_there(&state, id));
    };
    if id.is_none() {
        term::print_message(&format!(
            "{} is the first failing trial of the run {}",
            trial.id,
            state.run.to_safe()
        ));
    }
    Ok(SelectedTrial {
        folder,
        state,
        trial,
        outcome,
    })
}

/// Returns the part that names the run.
fn run_of(text: &str) -> &str {
    match text.rsplit_once('#') {
        Some(("", _)) => "last",
        Some((run, _)) => run,
        None => text,
    }
}

fn not_there(state: &State, id: Option<TrialId>) -> CliError {
    let last = state.next_id().0 - 1;
    match id {
        Some(id) => CliError::usage(anyhow::anyhow!("the run {} has no trial {id}", state.run))
            .with_hint(format!("choose a trial from #1 to #{last}")),
        None => CliError::usage(anyhow::anyhow!("no trial of the run {} failed", state.run))
            .with_hint("to repeat one that passed, give its number, such as last#1"),
    }
}

/// Runs the main command in this terminal, for example under a debugger.
fn in_terminal(plan: &Plan, trial: &Trial, wrap: &str, scratch: &Path) -> Result<Exit, CliError> {
    build_runtime()?.block_on(async {
        let executor = LocalExecutor::new(plan, scratch).map_err(CliError::could_not)?;
        let made = make_variant(&executor, plan, trial).await;
        executor.close_slots().await;
        made
    })?;
    let prefix = shlex::split(wrap)
        .filter(|words| !words.is_empty())
        .ok_or_else(|| {
            CliError::usage(anyhow::anyhow!("`{wrap}` is not a command prefix"))
                .with_hint("check that every quote is closed")
        })?;
    let (numbers, actor) = main_actor(plan, trial, plan.scratch.then_some(scratch));
    if actor.container.is_some() {
        let error =
            anyhow::anyhow!("the command runs in a container, and `{wrap}` would run outside");
        return Err(CliError::usage(error).with_hint(
            "leave --wrap out to rerun the trial; `wrap` in the scenario runs in the container",
        ));
    }
    let process = CommandLine::new(&plan.environment, actor, &numbers);
    let mut command = Command::new(&prefix[0]);
    command
        .args(&prefix[1..])
        .args(process.argv)
        .current_dir(process.cwd);
    command.env_clear().envs(process.environment);
    if let Some(file) = process.stdin {
        let open = fs::File::open(file).map_err(CliError::could_not)?;
        command.stdin(Stdio::from(open));
    }
    let status = command.status().map_err(|error| {
        CliError::could_not(
            anyhow::Error::new(error).context(format!("cannot run `{}`", prefix[0])),
        )
    })?;
    term::print_message(&format!("{} under `{wrap}`: {status}", trial.id));
    Ok(if status.success() {
        Exit::Hoped
    } else {
        Exit::OtherWay
    })
}

/// Prints shell commands for a trial: its differences from this shell are the numbers, the variables that were set for
/// it, its directory and its input.
fn show_command(plan: &Plan, trial: &Trial) -> Result<Exit, CliError> {
    let scratch = plan.scratch.then(|| Path::new("/tmp"));
    let (numbers, actor) = main_actor(plan, trial, scratch);
    let process = CommandLine::new(&plan.environment, actor, &numbers);
    let contained = words_by_hand(actor, &numbers, &plan.limits, plan.memory);
    let quoted = |word: &OsStr| shell_lines(word).into_string();
    let set = |name: &OsStr| actor.env.iter().any(|(own, _)| own.as_os_str() == name);
    let ours = |name: &OsStr| name.to_string_lossy().starts_with("PROVOKE_");
    let mut words = vec!["env".to_owned()];
    for (name, _) in actor.env.iter().filter(|(_, value)| value.is_none()) {
        words.extend(["-u".to_owned(), quoted(name.as_os_str())]);
    }
    if let Some(contained) = contained {
        // `env` is only needed if there are variables to remove.
        words.retain(|_| actor.env.iter().any(|(_, value)| value.is_none()));
        words.extend(contained.iter().map(|word| quoted(word)));
    } else {
        for (name, value) in process
            .environment
            .iter()
            .filter(|(name, _)| set(name) || ours(name))
        {
            words.push(format!("{}={}", quoted(name), quoted(value)));
        }
        words.extend(process.argv.iter().map(|word| quoted(word)));
    }
    let input = process
        .stdin
        .map_or(OsStr::new("/dev/null"), Path::as_os_str);
    term::print_result(&format!(
        "cd {} && {} < {}\n",
        quoted(process.cwd.as_os_str()),
        words.join(" "),
        quoted(input),
    ))
    .map_err(CliError::could_not)?;
    Ok(Exit::Hoped)
}

/// Returns the numbers of a trial, and the actor that decides its outcome.
fn main_actor<'a>(
    plan: &'a Plan,
    trial: &Trial,
    scratch: Option<&Path>,
) -> (PlaceholderValues, &'a ActorPlan) {
    let variant = plan.variant_plan(trial.variant);
    let main = variant
        .actors
        .iter()
        .find(|actor| actor.role.decides_outcome());
    (
        PlaceholderValues::new(trial, &variant.name, scratch),
        main.expect("every plan has one"),
    )
}
