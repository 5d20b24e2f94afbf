//! `run`, `scenario` and `resume`: three ways to begin the same experiment.

use super::args::{Flags, Output};
use super::baseline::Baseline;
use super::error::CliError;
use super::exit::Exit;
use super::experiment::{Experiment, surroundings};
use super::search::searched;
use crate::model::{Event, Plan};
use crate::policy;
use crate::scenario::{Actor, Ask, Refusal, Scenario, Surroundings};
use crate::store::{self, Folder, Journal, default_root};
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Run a command many times: tally, failure rate with its interval, evidence
///
/// The command is executed directly, without a shell. Its words may hold {trial}, {slot}, {seed},
/// {dir} and {variant}; it sees PROVOKE_TRIAL, PROVOKE_SLOT, PROVOKE_SEED, PROVOKE_DIR and
/// PROVOKE_VARIANT.
#[derive(Args)]
pub(super) struct Run {
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    output: Output,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Do what a scenario file says; flags given here win over the file
#[derive(Args)]
pub(super) struct FromFile {
    /// The scenario
    file: PathBuf,
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    output: Output,
    /// Another command than that of the file
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Go on with a run that was broken off
#[derive(Args)]
pub(super) struct Resume {
    /// The run: its folder, its name or the beginning or end of it, or `last`
    run: String,
    /// Go on though the run is another user's, or a copy
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    output: Output,
}

impl Run {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        refuse(&self.flags)?;
        let command = super::words(self.command)?;
        let flags = self.flags;
        let plan = from_words(move |scenario| flags.clone().overlay(command.clone(), scenario))?;
        begin(plan, &self.output)
    }
}

impl FromFile {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        refuse(&self.flags)?;
        let command = super::words(self.command)?;
        let flags = self.flags;
        let plan = from_file(&self.file, move |scenario| flags.overlay(command, scenario))?;
        begin(plan, &self.output)
    }
}

/// Makes a plan of what was typed, on top of what the baseline's own run was made of.
pub(super) fn from_words(overlay: impl Fn(&mut Scenario)) -> Result<Plan, CliError> {
    let here = std::env::current_dir().map_err(CliError::could_not)?;
    let mut scenario = Scenario::default();
    overlay(&mut scenario);
    let baseline = Baseline::of(&scenario)?;
    if let Some(again) = baseline.as_ref().and_then(|found| found.scenario.clone()) {
        let typed = scenario.command.is_some() || scenario.shell.is_some();
        let same_question = scenario.ask == Some(Ask::Confirm);
        let any_failure = scenario.any_failure;
        scenario = again;
        scenario.any_failure = any_failure;
        if !same_question {
            (scenario.exclude_half, scenario.independent) = (None, None);
        }
        if typed {
            // What is typed is meant as it stands here; what was said before, where it stood.
            scenario.move_to(&here);
        }
        if scenario.takes_any_failure() {
            scenario.only.clear();
        }
        overlay(&mut scenario);
        if typed && !scenario.actors.is_empty() {
            become_main(&mut scenario)?;
        }
    }
    let around = Surroundings {
        baseline: baseline.map(|found| found.measured),
        searched: searched(&scenario, &here)?,
        ..surroundings(here)
    };
    scenario.plan(around).map_err(|refusal| {
        if scenario.command.is_none() && scenario.shell.is_none() && scenario.actors.is_empty() {
            CliError::usage(anyhow::anyhow!("there is no command to run"))
                .hinted("give it after two dashes: -- ./program argument")
        } else {
            refusal.into()
        }
    })
}

/// Lets the command that was typed take the place of the main one among several processes.
pub(super) fn become_main(scenario: &mut Scenario) -> Result<(), CliError> {
    let is_main = |actor: &&mut Actor| actor.role.decides();
    let mut mains: Vec<&mut Actor> = scenario.actors.iter_mut().filter(is_main).collect();
    let [main] = mains.as_mut_slice() else {
        let error = anyhow::anyhow!("the baseline has {} main processes", mains.len());
        return Err(CliError::usage(error).hinted(
            "leave the command out to run them as they were, or say them in a scenario file: --file",
        ));
    };
    main.command = scenario.command.take();
    main.shell = scenario.shell.take();
    Ok(())
}

/// Makes a plan of a file, and of what was typed on top of it.
pub(super) fn from_file(
    file: &Path,
    overlay: impl FnOnce(&mut Scenario),
) -> Result<Plan, CliError> {
    let styled = console::colors_enabled_stderr();
    let mut plan = crate::scenario::plan_file(file, overlay, around)
        .map_err(|complaint| CliError::rendered(complaint.render(styled)))?;
    plan.scenario = Some(file.into());
    Ok(plan)
}

fn around(scenario: &Scenario, base: &Path) -> Result<Surroundings, Refusal> {
    let baseline = Baseline::of(scenario)?;
    Ok(Surroundings {
        baseline: baseline.map(|found| found.measured),
        searched: searched(scenario, base)?,
        ..surroundings(base.to_owned())
    })
}

impl Resume {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        let folder = Folder::find(&self.run, &default_root())?.trusted(self.trust)?;
        let mut journal = Journal::open(&folder.journal())?;
        let mut state = store::read(&folder.journal(), policy::is_done, |_, _| {})?;
        if state.finished {
            crate::term::say(&format!(
                "the run {} is finished; this is what it said:",
                state.run
            ));
            let experiment = Experiment {
                state,
                folder,
                journal,
                output: &self.output,
            };
            return experiment.conclude();
        }
        let resumed = Event::RunResumed {
            at: jiff::Timestamp::now().as_second(),
        };
        journal.add(&resumed)?;
        state.apply(&resumed, |_| false);
        Experiment {
            state,
            folder,
            journal,
            output: &self.output,
        }
        .run()
    }
}

pub(super) fn refuse(flags: &Flags) -> Result<(), CliError> {
    match flags.refusal() {
        Some(hint) => {
            Err(CliError::usage(anyhow::anyhow!("there is no flag `-p` here")).hinted(hint))
        }
        None => Ok(()),
    }
}

pub(super) fn begin(plan: Plan, output: &Output) -> Result<Exit, CliError> {
    Experiment::begin(plan, output)?.run()
}
