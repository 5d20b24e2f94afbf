//! Runs one trial again with the same command, input, seed, environment and directory, once or until it fails.

use super::error::CliError;
use super::signals::{Signals, listen_for_signals};
use crate::exec::{Executor as _, LocalExecutor, PreparationResult, StopUrgency};
use crate::model::{Observation, Plan, Signal, Trial};
use crate::report::words;
use crate::state::State;
use crate::term;
use crate::untrusted::Untrusted as _;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Limits of repeating a trial.
pub(super) struct RerunLimits {
    pub(super) trials: u64,
    pub(super) time: Duration,
}

/// Runs a trial as it ran before; its output is kept in the directory `kept` below `scratch`.
pub(super) fn rerun_trial(
    plan: &Plan,
    trial: &Trial,
    scratch: &Path,
) -> Result<Observation, CliError> {
    let mut seen = None;
    with_executor(plan, trial, scratch, async |executor| {
        let (_halt, halted) = watch::channel(StopUrgency::No);
        seen = Some(executor.run_trial(trial.clone(), halted).await);
        Ok(())
    })?;
    Ok(seen.expect("it ran"))
}

/// Repeats a trial until `each` breaks, a limit is reached, or a signal arrives; returns the signal. The output of the
/// last repetition is kept in the directory `kept` below `scratch`.
pub(super) fn repeat_trial(
    plan: &Plan,
    trial: &Trial,
    scratch: &Path,
    limits: &RerunLimits,
    mut each: impl FnMut(&Observation) -> ControlFlow<()>,
) -> Result<Option<Signal>, CliError> {
    let mut stopped = None;
    with_executor(plan, trial, scratch, async |executor| {
        let mut signals = listen_for_signals().map_err(CliError::could_not)?;
        let begun = Instant::now();
        for _ in 0..limits.trials {
            let left = limits.time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            match run_once(executor, trial, &mut signals, left).await {
                Ok(seen) if each(&seen).is_continue() => {}
                Ok(_) => break,
                Err(signal) => {
                    stopped = signal;
                    break;
                }
            }
        }
        Ok(())
    })?;
    Ok(stopped)
}

/// Runs the trial once; returns an error if a signal or the time limit ended it.
async fn run_once(
    executor: &LocalExecutor,
    trial: &Trial,
    signals: &mut Signals,
    left: Duration,
) -> Result<Observation, Option<Signal>> {
    let (halt, halted) = watch::channel(StopUrgency::No);
    let mut running = executor.run_trial(trial.clone(), halted);
    let signal = tokio::select! {
        seen = &mut running => return Ok(seen),
        signal = signals.recv() => signal,
        () = tokio::time::sleep(left) => None,
    };
    halt.send_replace(StopUrgency::Gently);
    tokio::select! {
        _ = &mut running => {}
        Some(_) = signals.recv() => {
            halt.send_replace(StopUrgency::Now);
            running.await;
        }
    }
    Err(signal)
}

/// Starts the executor of the trial, prepares its variant, and keeps its output.
fn with_executor(
    plan: &Plan,
    trial: &Trial,
    scratch: &Path,
    run: impl AsyncFnOnce(&LocalExecutor) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut plan = plan.clone();
    plan.jobs = trial.lane.0.saturating_add(1).min(4096);
    build_runtime()?.block_on(async {
        let executor = LocalExecutor::new(&plan, scratch).map_err(CliError::could_not)?;
        let done = match make_variant(&executor, &plan, trial).await {
            Ok(()) => run(&executor).await,
            Err(error) => Err(error),
        };
        executor.keep_output(trial.lane, scratch.join(KEPT)).await;
        executor.close_slots().await;
        done
    })
}

/// Name of the directory for the output of a trial.
const KEPT: &str = "kept";

/// Prints the output of the last trial.
pub(super) fn say_output(scratch: &Path) {
    for file in fs::read_dir(scratch.join(KEPT))
        .into_iter()
        .flatten()
        .flatten()
    {
        let text = fs::read(file.path()).unwrap_or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            let line = words::sanitize_line(line);
            term::say_as_it_is(&format!("{}: {line}", file.file_name().to_safe()));
        }
    }
}

/// Prepares the variant of a trial again, if it belongs to a search: its directory may have been removed.
pub(super) async fn make_variant(
    executor: &LocalExecutor,
    plan: &Plan,
    trial: &Trial,
) -> Result<(), CliError> {
    // A variant with a setting runs in the directory of the failing variant.
    let id = match plan.variant_plan(trial.variant).setting {
        Some(_) => State::FAILING,
        None => trial.variant,
    };
    let variant = plan.variant_plan(id);
    if !variant.is_made() {
        return Ok(());
    }
    let (_halt, halted) = watch::channel(StopUrgency::No);
    match executor.make_variant(id, halted).await {
        PreparationResult::Failed(why) | PreparationResult::Broken(why) => {
            let what = format!("the variant `{}` cannot be tested: {why}", variant.name);
            Err(CliError::could_not(anyhow::Error::msg(what)))
        }
        PreparationResult::Ready { .. } | PreparationResult::Halted => Ok(()),
    }
}

pub(super) fn build_runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::could_not)
}
