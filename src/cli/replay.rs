//! `replay`: one trial again, exactly.

use super::error::CliError;
use super::exit::Exit;
use super::experiment::run_and_trial;
use super::seeds;
use crate::exec::{Executor as _, Halt, Local, Made};
use crate::model::{ActorPlan, Event, Keep, Observation, Outcome, Plan, Trial};
use crate::oracle;
use crate::report::words;
use crate::slot::{CommandLine, Numbers, words_by_hand};
use crate::state::State;
use crate::store::{self, Folder, default_root, let_through};
use crate::sys::files::PrivateFolder;
use crate::term;
use crate::untrusted::{Untrusted as _, shell_lines};
use clap::Args;
use std::ffi::OsStr;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use tokio::sync::watch;

/// Rerun one trial with the same command, input and seed
///
/// The environment and the working directory are those of the trial, too.
///
/// With --wrap, the command runs in this terminal under another program: 'gdb --args', 'rr record'.
/// With --seeds, several trials of a run are rerun, to find out whether the seed determines the outcome.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Replay {
    /// The trial, as RUN#TRIAL, such as last#17; with --seeds, the RUN
    trial: String,
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
  Rerun it in a debugger:
    provoke replay last#17 --wrap 'gdb --args'
  Find out whether the seed determines the outcome:
    provoke replay last --seeds";

impl Replay {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        if let Some(most) = self.seeds {
            let folder = Folder::find(&self.trial, &default_root())?.trusted(self.trust)?;
            return seeds::replay(&folder, most.get());
        }
        let (run, id) = run_and_trial(&self.trial)?;
        let folder = Folder::find(run, &default_root())?;
        let mut found: Option<Trial> = None;
        let state = store::read(
            &folder.journal(),
            |_| false,
            |event, _| match event {
                Event::TrialStarted(trial) if trial.id == id => found = Some(trial.clone()),
                _ => {}
            },
        )?;
        let trial = found.ok_or_else(|| {
            let last = state.next_id().0 - 1;
            CliError::usage(anyhow::anyhow!("the run {} has no trial {id}", state.run))
                .hinted(format!("choose a trial from #1 to #{last}"))
        })?;
        let mut plan = state.plan;
        if self.show {
            return show(&plan, &trial);
        }
        folder.trusted(self.trust)?;
        let scratch = PrivateFolder::new("replay").map_err(CliError::could_not)?;
        if plan.user.is_some() {
            let_through(scratch.path()).map_err(CliError::could_not)?;
        }
        match &self.wrap {
            Some(wrap) => in_terminal(&plan, &trial, wrap, scratch.path()),
            None => {
                plan.keep = Keep::None;
                again(&plan, &trial, scratch.path())
            }
        }
    }
}

/// Runs a trial as it ran before; what it says is kept in the folder `kept` of this one.
pub(super) fn rerun(plan: &Plan, trial: &Trial, scratch: &Path) -> Result<Observation, CliError> {
    let runtime = runtime()?;
    let mut plan = plan.clone();
    plan.jobs = trial.lane.0.saturating_add(1).min(4096);
    let kept = scratch.join("kept");
    runtime.block_on(async {
        let executor = Local::new(&plan, scratch).map_err(CliError::could_not)?;
        let (_halt, halted) = watch::channel(Halt::No);
        let seen = match make(&executor, &plan, trial).await {
            Ok(()) => Ok(executor.run(trial.clone(), halted).await),
            Err(error) => Err(error),
        };
        executor.keep(trial.lane, kept.clone()).await;
        executor.close().await;
        seen
    })
}

/// Runs the trial as it ran before, and shows what it says.
fn again(plan: &Plan, trial: &Trial, scratch: &Path) -> Result<Exit, CliError> {
    let seen = rerun(plan, trial, scratch)?;
    let kept = scratch.join("kept");
    for file in fs::read_dir(&kept).into_iter().flatten().flatten() {
        let text = fs::read(file.path()).unwrap_or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            term::say(&format!(
                "{}: {}",
                file.file_name().safe(),
                words::sanitize(line)
            ));
        }
    }
    let outcome = oracle::judge(&plan.rules, plan.variant(trial.variant), &seen);
    let (text, exit) = match &outcome {
        Outcome::Pass => ("ok".to_owned(), Exit::Hoped),
        Outcome::Fail(failure) | Outcome::Other(failure) => {
            let kind = &failure.kind;
            (format!("{kind}: {}", kind.words()), Exit::OtherWay)
        }
        Outcome::Void(void) => (void.to_string(), Exit::CouldNotTest),
    };
    term::tell(&format!(
        "{} {text}   {}\n",
        trial.id,
        words::seconds(seen.elapsed.as_secs_f64())
    ))
    .map_err(CliError::could_not)?;
    Ok(exit)
}

/// Makes the variant of a trial again, where a search made it: its folder may be gone.
async fn make(executor: &Local, plan: &Plan, trial: &Trial) -> Result<(), CliError> {
    // A variant with a setting runs in the folder of the failing variant.
    let id = match plan.variant(trial.variant).setting {
        Some(_) => State::FAILING,
        None => trial.variant,
    };
    let variant = plan.variant(id);
    if !variant.is_made() {
        return Ok(());
    }
    let (_halt, halted) = watch::channel(Halt::No);
    match executor.make(id, halted).await {
        Made::Failed(why) | Made::Broken(why) => {
            let what = format!("the variant `{}` cannot be tried: {why}", variant.name);
            Err(CliError::could_not(anyhow::Error::msg(what)))
        }
        Made::Ready { .. } | Made::Halted => Ok(()),
    }
}

/// Runs the main command in this terminal, under a debugger or the like.
fn in_terminal(plan: &Plan, trial: &Trial, wrap: &str, scratch: &Path) -> Result<Exit, CliError> {
    runtime()?.block_on(async {
        let executor = Local::new(plan, scratch).map_err(CliError::could_not)?;
        let made = make(&executor, plan, trial).await;
        executor.close().await;
        made
    })?;
    let prefix = shlex::split(wrap)
        .filter(|words| !words.is_empty())
        .ok_or_else(|| {
            CliError::usage(anyhow::anyhow!("`{wrap}` is not a command prefix"))
                .hinted("check that every quote is closed")
        })?;
    let (numbers, actor) = main_actor(plan, trial, plan.scratch.then_some(scratch));
    if actor.container.is_some() {
        let error =
            anyhow::anyhow!("the command runs in a container, and `{wrap}` would run outside");
        return Err(CliError::usage(error).hinted(
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
    term::say(&format!("{} under `{wrap}`: {status}", trial.id));
    Ok(if status.success() {
        Exit::Hoped
    } else {
        Exit::OtherWay
    })
}

/// Prints what can be pasted into a shell. What it has beyond this shell: the numbers, the
/// variables that were set for it, its folder and its input.
fn show(plan: &Plan, trial: &Trial) -> Result<Exit, CliError> {
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
        // Its variables are words of its own; without any to remove there is nothing to set up.
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
    term::tell(&format!(
        "cd {} && {} < {}\n",
        quoted(process.cwd.as_os_str()),
        words.join(" "),
        quoted(input),
    ))
    .map_err(CliError::could_not)?;
    Ok(Exit::Hoped)
}

/// Returns the numbers of a trial, and the actor that decides it.
fn main_actor<'a>(
    plan: &'a Plan,
    trial: &Trial,
    scratch: Option<&Path>,
) -> (Numbers, &'a ActorPlan) {
    let variant = plan.variant(trial.variant);
    let main = variant.actors.iter().find(|actor| actor.role.decides());
    (
        Numbers::new(trial, &variant.name, scratch),
        main.expect("every plan has one"),
    )
}

fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::could_not)
}
