//! Runs one trial again with the same command, input, seed, environment and directory, once or until it fails.

use super::preflight::fit_to_this_machine;
use super::trial_evidence::LARGEST;
use provoke_exec::{Executor as _, PreparationResult, StopUrgency};
use provoke_local::LocalExecutor;
use provoke_model::{Observation, Signal, Trial, TrialsPlan};
use provoke_state::State;
use provoke_sys::files;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

/// Limits of repeating a trial.
#[derive(Clone, Copy, Debug)]
pub struct RerunLimits {
    /// Maximum number of repetitions.
    pub trials: u64,
    /// Maximum time.
    pub time: Duration,
}

/// Runs a trial as it ran before; its output is kept below `scratch`.
pub(super) async fn rerun_trial(
    trials: &TrialsPlan,
    trial: &Trial,
    scratch: &Path,
) -> Result<Observation, Diagnostic> {
    let mut observation = None;
    with_executor(trials, trial, scratch, async |executor| {
        let (_halt, halted) = watch::channel(StopUrgency::No);
        observation = Some(executor.run_trial(trial.clone(), halted).await);
        Ok(())
    })
    .await?;
    Ok(observation.expect("it ran"))
}

/// Repeats a trial until `each` breaks, a limit is reached, or a signal arrives; returns the signal. `listen` is called
/// before the first repetition. The output of the last repetition is kept below `scratch`.
pub(super) async fn repeat_trial(
    trials: &TrialsPlan,
    trial: &Trial,
    scratch: &Path,
    limits: &RerunLimits,
    listen: impl FnOnce() -> io::Result<UnboundedReceiver<Signal>>,
    mut each: impl FnMut(&Observation) -> ControlFlow<()>,
) -> Result<Option<Signal>, Diagnostic> {
    let mut stopped = None;
    with_executor(trials, trial, scratch, async |executor| {
        let mut signals = listen()?;
        let started_at = Instant::now();
        for _ in 0..limits.trials {
            let remaining = limits.time.saturating_sub(started_at.elapsed());
            if remaining.is_zero() {
                break;
            }
            match run_once(executor, trial, &mut signals, remaining).await {
                Ok(observation) if each(&observation).is_continue() => {}
                Ok(_) => break,
                Err(signal) => {
                    stopped = signal;
                    break;
                }
            }
        }
        Ok(())
    })
    .await?;
    Ok(stopped)
}

/// Runs the trial once; returns an error if a signal or the time limit ended it.
async fn run_once(
    executor: &LocalExecutor,
    trial: &Trial,
    signals: &mut UnboundedReceiver<Signal>,
    time_left: Duration,
) -> Result<Observation, Option<Signal>> {
    let (halt, halted) = watch::channel(StopUrgency::No);
    let mut running = executor.run_trial(trial.clone(), halted);
    let signal = tokio::select! {
        seen = &mut running => return Ok(seen),
        signal = signals.recv() => signal,
        () = tokio::time::sleep(time_left) => None,
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
async fn with_executor(
    trials: &TrialsPlan,
    trial: &Trial,
    scratch: &Path,
    run: impl AsyncFnOnce(&LocalExecutor) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    let mut trials = trials.clone();
    trials.jobs = trial.slot.0.saturating_add(1).min(4096);
    fit_to_this_machine(&mut trials)?;
    let executor = LocalExecutor::new(&trials, scratch)?;
    let result = match make_variant(&executor, &trials, trial).await {
        Ok(()) => run(&executor).await,
        Err(error) => Err(error),
    };
    executor
        .keep_output(trial.slot, scratch.join(KEPT), true)
        .await;
    executor.close().await;
    result
}

/// Name of the directory for the output of a trial.
const KEPT: &str = "kept";

/// Returns the lines of output of the last trial, each after the name of its file.
pub(super) fn kept_output(scratch: &Path) -> Vec<String> {
    let kept = files::folder_entries(&scratch.join(KEPT));
    let lines_of_file = |path: PathBuf| {
        let bytes = files::read_itself(&path, LARGEST).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let name = path.file_name().unwrap_or_default();
        let lines = text.lines().map(provoke_words::sanitize_line);
        lines
            .map(|line| format!("{}: {line}", name.to_safe()))
            .collect::<Vec<_>>()
    };
    kept.into_iter().flatten().flat_map(lines_of_file).collect()
}

/// Prepares the variant of a trial again without running the trial.
pub(super) async fn prepare_trial(
    trials: &TrialsPlan,
    trial: &Trial,
    scratch: &Path,
) -> Result<(), Diagnostic> {
    let executor = LocalExecutor::new(trials, scratch)?;
    let preparation = make_variant(&executor, trials, trial).await;
    executor.close().await;
    preparation
}

/// Prepares the variant of a trial again, if it belongs to a search: its directory may have been removed.
async fn make_variant(
    executor: &LocalExecutor,
    trials: &TrialsPlan,
    trial: &Trial,
) -> Result<(), Diagnostic> {
    // A variant with a setting runs in the directory of the failing variant.
    let id = match trials.variant_plan(trial.variant).setting {
        Some(_) => State::FAILING,
        None => trial.variant,
    };
    let variant = trials.variant_plan(id);
    if !variant.is_made() {
        return Ok(());
    }
    let (_halt, halted) = watch::channel(StopUrgency::No);
    match executor.make_variant(id, halted).await {
        PreparationResult::Failed(reason) | PreparationResult::Broken(reason) => {
            let message = format!("the variant `{}` cannot be tested: {reason}", variant.name);
            Err(Diagnostic::could_not(message))
        }
        PreparationResult::Ready { .. } | PreparationResult::Halted => Ok(()),
    }
}
