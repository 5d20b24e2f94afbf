//! `run`, `scenario` and `resume`: three ways to start an experiment.

use super::args::{ExperimentFlags, OutputFlags};
use super::baseline::{BaselineRun, ResolvedBaseline};
use super::error::CliError;
use super::exit::Exit;
use super::experiment::{Experiment, current_surroundings};
use super::search::find_searched;
use crate::model::{Event, Plan, Question, ResumeLimits};
use crate::policy::{self, Step};
use crate::report::words;
use crate::scenario::{Actor, DurationValue, PlanContext, PlanError, QuestionSettings, Scenario};
use crate::state::State;
use crate::store::{self, Journal, RunFolder, default_root};
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Run a command many times; report how often and how it fails
///
/// The command runs directly, without a shell. Its arguments may contain {trial}, {slot}, {seed},
/// {dir} and {variant}; its environment has PROVOKE_TRIAL, PROVOKE_SLOT, PROVOKE_SEED, PROVOKE_DIR and
/// PROVOKE_VARIANT. If the first five trials all fail with the same exit code and message, a run without
/// -n stops, because the command is probably wrong (--keep-going runs all trials).
#[derive(Args)]
#[command(override_usage = "provoke run [OPTIONS] [--] CMD...", after_help = RUN_EXAMPLES)]
pub(super) struct RunArgs {
    /// Do not stop if the first trials all fail in the same way
    ///
    /// Without -n, --max-fail, --width, --expect and --max-rate, a run of one variant stops if its first
    /// five trials all fail with the same exit code and message. Such a run is not used as a baseline.
    #[arg(long, help_heading = "When to stop", hide_short_help = true)]
    keep_going: bool,
    #[command(flatten)]
    flags: ExperimentFlags,
    #[command(flatten)]
    output: OutputFlags,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  Run a program 100 times, 4 trials in parallel:
    provoke run -n 100 -j 4 -- ./program --arg
  Run a test for 8 hours, or until it has failed three times:
    provoke run -d 8h --max-fail 3 -- pytest -q test_flaky.py
  Try it:
    provoke run -n 30 -- provoke victim segv --rate 10%";

/// Run an experiment from a scenario file
///
/// Flags given here override the file.
#[derive(Args)]
#[command(after_help = SCENARIO_EXAMPLES)]
pub(super) struct ScenarioArgs {
    /// The scenario file (TOML)
    file: PathBuf,
    #[command(flatten)]
    flags: ExperimentFlags,
    #[command(flatten)]
    output: OutputFlags,
    /// Run this command instead of the command in the file
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const SCENARIO_EXAMPLES: &str = "\
Examples:
  Run an experiment:
    provoke scenario crash.toml
  Run it with more trials and another command:
    provoke scenario crash.toml -n 500 -- ./program --arg";

/// Resume an interrupted run
#[derive(Args)]
#[command(after_help = RESUME_EXAMPLES)]
pub(super) struct ResumeArgs {
    /// The run: its directory, its name, the start or end of the name, or `last`
    run: String,
    /// Go on until each variant has this many trials in all
    #[arg(short = 'n', long, value_name = "N", help_heading = LIMITS)]
    runs: Option<u64>,
    /// Go on until the run has taken this long in all
    #[arg(short, long, value_name = "TIME", help_heading = LIMITS)]
    duration: Option<DurationValue>,
    /// Go on until a fix that merely halves the failure rate is ruled out
    #[arg(long, help_heading = LIMITS)]
    exclude_half: bool,
    /// Resume a run that belongs to another user or was copied
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    output: OutputFlags,
}

const LIMITS: &str = "New limits, instead of those of the run";

const RESUME_EXAMPLES: &str = "\
Examples:
  Resume the last run:
    provoke resume last
  Resume a run by the end of its name:
    provoke resume ab12
  Continue a finished run until it has 500 trials:
    provoke resume last -n 500";

impl RunArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        refuse_flags(&self.flags)?;
        let command = super::utf8_words(self.command)?;
        let stops_early = self.flags.may_stop_early() && !self.keep_going;
        let (mut plan, _) = from_words(|scenario| self.flags.overlay_scenario(&command, scenario))?;
        plan.stop.all_alike = stops_early && plan.variants.len() == 1;
        begin_experiment(plan, &self.output)
    }
}

impl ScenarioArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        refuse_flags(&self.flags)?;
        let command = super::utf8_words(self.command)?;
        let plan = from_file(&self.file, |scenario| {
            self.flags.overlay_scenario(&command, scenario);
        })?;
        begin_experiment(plan, &self.output)
    }
}

/// Makes a plan from the command line, based on the scenario of the baseline's run. Also returns the run of the
/// baseline, if no flag names it.
pub(super) fn from_words(
    overlay: impl Fn(&mut Scenario),
) -> Result<(Plan, Option<BaselineRun>), CliError> {
    let here = std::env::current_dir().map_err(CliError::could_not)?;
    let mut scenario = Scenario::default();
    overlay(&mut scenario);
    let baseline = ResolvedBaseline::of_scenario(&scenario)?;
    if let Some(again) = baseline.as_ref().and_then(|found| found.scenario.clone()) {
        let typed = scenario.program.command.is_some() || scenario.program.shell.is_some();
        let same_question = scenario.outline.ask == Some(QuestionSettings::Confirm);
        let any_failure = scenario.count.any_failure;
        scenario = again;
        scenario.count.any_failure = any_failure;
        if !same_question {
            (scenario.confirm.exclude_half, scenario.confirm.independent) = (None, None);
        }
        if typed {
            // The typed command belongs to this directory, the other settings to that of the baseline.
            scenario.move_to(&here);
        }
        if scenario.takes_any_failure() {
            scenario.judge.only.clear();
        }
        overlay(&mut scenario);
        if typed && !scenario.outline.actors.is_empty() {
            become_main(&mut scenario)?;
        }
    }
    let (measured, chosen) = baseline.map(|found| (found.measured, found.chosen)).unzip();
    let around = PlanContext {
        baseline: measured,
        searched: find_searched(&scenario, &here)?,
        ..current_surroundings(here)
    };
    let plan = scenario.to_plan(around).map_err(|refusal| {
        if scenario.program.command.is_none() && scenario.program.shell.is_none() && scenario.outline.actors.is_empty() {
            let hint = if scenario.load.is_some() {
                "add the command that starts the service: -- ./server; or test a service that runs already: --attach PID"
            } else {
                "add the program and its arguments: -- ./program argument"
            };
            CliError::usage(anyhow::anyhow!("there is no command to run")).with_hint(hint)
        } else {
            refusal.into()
        }
    })?;
    Ok((plan, chosen.flatten()))
}

/// Replaces the command of the main process by the typed command.
pub(super) fn become_main(scenario: &mut Scenario) -> Result<(), CliError> {
    let is_main = |actor: &&mut Actor| actor.role.decides_outcome();
    let mut mains: Vec<&mut Actor> = scenario.outline.actors.iter_mut().filter(is_main).collect();
    let [main] = mains.as_mut_slice() else {
        let error = anyhow::anyhow!("the baseline has {} main processes", mains.len());
        return Err(CliError::usage(error).with_hint(
            "leave the command out to run the same processes, or define them in a scenario file: --file FILE",
        ));
    };
    main.command = scenario.program.command.take();
    main.shell = scenario.program.shell.take();
    Ok(())
}

/// Makes a plan from a scenario file and the flags.
pub(super) fn from_file(
    file: &Path,
    overlay: impl FnOnce(&mut Scenario),
) -> Result<Plan, CliError> {
    let styled = console::colors_enabled_stderr();
    let mut plan = crate::scenario::plan_file(file, overlay, scenario_surroundings)
        .map_err(|complaint| CliError::already_rendered(complaint.render_message(styled)))?;
    plan.scenario = Some(file.into());
    Ok(plan)
}

fn scenario_surroundings(scenario: &Scenario, base: &Path) -> Result<PlanContext, PlanError> {
    let baseline = ResolvedBaseline::of_scenario(scenario)?;
    Ok(PlanContext {
        baseline: baseline.map(|found| found.measured),
        searched: find_searched(scenario, base)?,
        ..current_surroundings(base.to_owned())
    })
}

impl ResumeArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let folder = RunFolder::find_run(&self.run, &default_root())?.check_trust(self.trust)?;
        let mut journal = Journal::open_for_append(&folder.journal_path())?;
        let mut state = store::read_run(&folder.journal_path(), policy::is_done, |_, _| {})?;
        if let Some(limits) = self.chosen_limits(&state)? {
            let changed = Event::LimitsChanged(limits);
            state.apply_event(&changed, |_| false);
            self.check_open(&state)?;
            journal.add_event(&changed)?;
        }
        if state.finished {
            crate::term::print_message(&format!("the run {} is finished; its result:", state.run));
            let experiment = Experiment {
                state,
                folder,
                journal,
                output: &self.output,
                printed: Vec::new(),
            };
            return experiment.conclude_run();
        }
        let resumed = Event::RunResumed {
            at: jiff::Timestamp::now().as_second(),
        };
        journal.add_event(&resumed)?;
        state.apply_event(&resumed, |_| false);
        Experiment {
            state,
            folder,
            journal,
            output: &self.output,
            printed: Vec::new(),
        }
        .run_to_end()
    }

    /// Returns the limits that the flags set, if they set any.
    fn chosen_limits(&self, state: &State) -> Result<Option<ResumeLimits>, CliError> {
        let limits = ResumeLimits {
            trials: self.runs,
            duration_us: self.duration.map(DurationValue::to_micros),
            exclude_half: self.exclude_half,
            answered_by: state.decided.then_some(state.last_counted),
        };
        let asks = limits.trials.is_some() || limits.duration_us.is_some() || limits.exclude_half;
        if !asks {
            return Ok(None);
        }
        if self.exclude_half && !matches!(state.plan.question, Question::Confirm(_)) {
            let error = anyhow::anyhow!("--exclude-half is for runs of `provoke confirm`");
            return Err(CliError::usage(error));
        }
        Ok(Some(limits))
    }

    /// Refuses limits that leave no trial to run.
    fn check_open(&self, state: &State) -> Result<(), CliError> {
        let time_is_up = state
            .plan
            .stop
            .time_budget()
            .is_some_and(|limit| limit <= state.worked);
        if !time_is_up && policy::policy_of_plan(&state.plan).next_step(state) != Step::Done {
            return Ok(());
        }
        let error = anyhow::anyhow!("under these limits, the run {} is complete", state.run);
        Err(CliError::usage(error).with_hint(format!(
            "it has {} in {}, and -n and -d are totals; `provoke report {}` shows the result",
            words::format_count(state.last_counted.0, "trial"),
            words::format_seconds(state.worked.as_secs_f64()),
            self.run,
        )))
    }
}

pub(super) fn refuse_flags(flags: &ExperimentFlags) -> Result<(), CliError> {
    match flags.refusal_hint() {
        Some(hint) => {
            Err(CliError::usage(anyhow::anyhow!("there is no flag `-p` here")).with_hint(hint))
        }
        None => Ok(()),
    }
}

pub(super) fn begin_experiment(plan: Plan, output: &OutputFlags) -> Result<Exit, CliError> {
    Experiment::begin_run(plan, output)?.run_to_end()
}
