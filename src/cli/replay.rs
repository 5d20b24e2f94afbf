//! `replay`: runs one trial again.

use super::execute::Execute;
use super::execution::build_runtime;
use super::exit::Exit;
use super::signals::listen_for_signals;
use crate::experiment::{ReplayEnding, RerunLimits, StoredTrial, TrialReplay};
use crate::term::{self, ProgressLine};
use clap::Args;
use provoke_model::Outcome;
use provoke_plan::{DEFAULT_DURATION, DEFAULT_RUNS, DurationValue};
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::num::NonZeroU64;
use std::path::Path;

/// Rerun one trial with the same command, input and seed
///
/// The environment and the working directory are those of the trial, too.
///
/// With --wrap, the command runs in this terminal under another program: 'gdb --args', 'rr record'.
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
    #[arg(long, conflicts_with_all = ["wrap", "show"])]
    until_fail: bool,
    /// With --until-fail, repeat the trial at most N times [default: 100]
    #[arg(short = 'n', long, value_name = "N", requires = "until_fail")]
    runs: Option<NonZeroU64>,
    /// With --until-fail, stop after this time, such as 30s or 2h [default: 10m]
    #[arg(short, long, value_name = "TIME", requires = "until_fail")]
    duration: Option<DurationValue>,
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
    provoke replay last#17 --wrap 'gdb --args'";

impl Execute for ReplayArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let selected = StoredTrial::find(&self.trial)?;
        let run = selected.state.origin.run.to_safe();
        if !self.trial.contains('#') {
            let trial = selected.trial.id;
            term::print_message(&format!(
                "{trial} is the first failing trial of the run {run}"
            ));
        } else if self.trial.starts_with("last#") && selected.outcome == Some(Outcome::Pass) {
            term::print_message(&format!(
                "the last run is {run}: {}",
                selected.command_line()
            ));
        }
        let missing = selected.only_in_replay();
        if (self.show || self.wrap.is_some()) && !missing.is_empty() {
            term::print_message(&format!(
                "without {}, which `provoke replay {}` repeats",
                missing.join(", "),
                self.trial
            ));
        }
        if self.show {
            term::print_result(&selected.shell_line())?;
            return Ok(Exit::GoodAnswer);
        }
        let selected = selected.check_trust(self.trust)?;
        let scratch = selected.scratch_folder()?;
        match &self.wrap {
            Some(wrap) => {
                let running = selected.run_wrapped(wrap, scratch.path());
                let status = build_runtime()?.block_on(running)?;
                let replay = TrialReplay::new(&selected);
                term::print_message(&replay.describe_wrapped(wrap, status));
                Ok(Exit::good_if(status.success()))
            }
            None => self.replay_trial(&selected, scratch.path()),
        }
    }
}

impl ReplayArgs {
    fn replay_trial(&self, selected: &StoredTrial, scratch: &Path) -> Result<Exit, Diagnostic> {
        let replay = TrialReplay::new(selected);
        let runtime = build_runtime()?;
        let limits = self.limits();
        let result = if let Some(limits) = &limits {
            term::print_rerun_limits(selected.trial.id, limits);
            let counter = ProgressLine::default();
            let on_trial = |count, passed| {
                counter.show_text(&format!("{count} of {}   {passed} passed", limits.trials));
            };
            let repeating =
                replay.run_until_it_fails(scratch, limits, listen_for_signals, on_trial);
            runtime.block_on(repeating)?
        } else {
            runtime.block_on(replay.run_once(scratch))?
        };
        for line in &result.output {
            term::say_as_it_is(line);
        }
        let reference = selected.reference();
        term::print_result(&term::format_replay(&result, &reference, limits.as_ref()))?;
        Ok(match result.ending {
            ReplayEnding::Passed => Exit::GoodAnswer,
            ReplayEnding::Failed => Exit::OtherAnswer,
            ReplayEnding::Inconclusive => Exit::CouldNotTest,
            ReplayEnding::Stopped(signal) => Exit::Stopped(signal),
        })
    }

    /// Returns the limits of the repetitions; `None` without `--until-fail`.
    fn limits(&self) -> Option<RerunLimits> {
        self.until_fail.then(|| RerunLimits {
            trials: self.runs.map_or(DEFAULT_RUNS, NonZeroU64::get),
            time: self.duration.map_or(DEFAULT_DURATION, |span| span.0),
        })
    }
}
