//! Runs an experiment in the terminal, and writes its reports.

use super::args::OutputFlags;
use super::exit::Exit;
use super::signals::listen_for_signals;
use crate::experiment::{Experiment, ExperimentSettings, find_ourselves};
use crate::term::{self, TerminalObserver};
use provoke_model::Plan;
use provoke_report::{JUNIT, JUNIT_TRIALS, PageOptions};
use provoke_words::diagnostic::Diagnostic;
use tokio::runtime::{Builder, Runtime};

/// Begins and runs an experiment.
pub(super) fn begin_experiment(
    mut plan: Plan,
    output: &OutputFlags,
    mut observer: TerminalObserver,
) -> Result<Exit, Diagnostic> {
    find_ourselves(&mut plan.trials);
    let experiment = Experiment::begin(plan, settings_of_flags(output), &mut observer)?;
    run_experiment(experiment, output, observer)
}

/// Runs an experiment until its question is answered.
pub(super) fn run_experiment(
    experiment: Experiment,
    output: &OutputFlags,
    mut observer: TerminalObserver,
) -> Result<Exit, Diagnostic> {
    let outcome = build_runtime()?.block_on(async {
        let mut signals = listen_for_signals()?;
        let outcome = Box::pin(experiment.run_to_end(&mut signals, &mut observer)).await?;
        Ok::<_, Diagnostic>(outcome)
    })?;
    let run = &outcome.run;
    let page = PageOptions::default();
    let reports = &output.exports.0;
    let files = reports.write_reports(&run.folder, &run.state, &run.report, page)?;
    if !output.talk.quiet {
        term::print_written_files(&files);
    }
    let exit = match outcome.stopped {
        Some(signal) => Exit::Stopped(signal),
        None => Exit::of_verdict(run.report.verdict, run.state.goal.expect),
    };
    let has_junit = reports.has_format(&JUNIT) || reports.has_format(&JUNIT_TRIALS);
    output.ci.show_result(run, exit, has_junit);
    match outcome.error {
        Some(error) => Err(error),
        None => Ok(exit),
    }
}

pub(super) fn settings_of_flags(output: &OutputFlags) -> ExperimentSettings {
    ExperimentSettings {
        out: output.out.clone(),
        reports: output.exports.0.clone(),
    }
}

pub(super) fn build_runtime() -> Result<Runtime, Diagnostic> {
    let mut builder = Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}
