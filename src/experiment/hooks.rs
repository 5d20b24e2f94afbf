//! Runs the hooks of a run around its trials.

use super::observer::ExperimentObserver;
use super::preflight::check_commands;
use super::run::Experiment;
use provoke_exec::{Executor, StopUrgency};
use provoke_model::{
    Event, FailedHook, Signal, StopCause, Text, TrialsPlan, VariantId, VariantPlan,
};
use provoke_questions as questions;
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

/// Result of a hook of the whole run.
enum RunHookResult {
    Done,
    Failed(FailedHook),
    /// provoke received a signal, and stopped the hook.
    Stopped(Signal),
}

impl Experiment {
    /// Runs `setup`, the trials, and always `cleanup`.
    pub(super) async fn between_hooks(
        &mut self,
        executor: &Arc<dyn Executor>,
        signals: &mut UnboundedReceiver<Signal>,
        observer: &mut dyn ExperimentObserver,
    ) -> Result<(), Diagnostic> {
        let hooks = self.state.trials.hooks.clone();
        if let Some(setup) = &hooks.setup {
            match run_hook(executor, None, setup, signals).await? {
                RunHookResult::Done => {}
                RunHookResult::Failed(hook) => return Err(hook_failed(&hook)),
                RunHookResult::Stopped(signal) => return self.stopped_by(signal),
            }
        }
        let mut set_up = Vec::new();
        let ready = self.set_up(executor, signals, &mut set_up, observer).await;
        if let Ok(true) = ready {
            self.repeat_trials(Arc::clone(executor), signals, observer)
                .await;
        }
        executor.stop_starting().await;
        set_up.extend(executor.set_up());
        for id in set_up {
            let VariantPlan { name, hooks, .. } = self.state.trials.variant_plan(id);
            if let Some(cleanup) = hooks.cleanup.clone() {
                let name = match name.as_str() {
                    "" => "`cleanup`".to_owned(),
                    name => format!("the `cleanup` of `{name}`"),
                };
                self.clean_up(executor, signals, Some(id), &cleanup, &name, observer)
                    .await;
            }
        }
        let kept_variants = questions::of(&self.state).kept_variants(&self.state);
        if self.state.stage.is_finished() && self.state.trials.space.is_some() {
            executor.clean_up(&self.folder.variants_path(), &kept_variants);
        }
        if let Some(cleanup) = &hooks.cleanup {
            self.clean_up(executor, signals, None, cleanup, "`cleanup`", observer)
                .await;
        }
        ready.map(drop)
    }

    /// Runs the `setup` of each variant, and checks for its commands, which `setup` may have created. A variant without
    /// its commands is given up, unless no other is left. Returns whether trials can begin; `set_up_variants` receives
    /// the variants that were set up.
    async fn set_up(
        &mut self,
        executor: &Arc<dyn Executor>,
        signals: &mut UnboundedReceiver<Signal>,
        set_up_variants: &mut Vec<VariantId>,
        observer: &mut dyn ExperimentObserver,
    ) -> Result<bool, Diagnostic> {
        if self.state.trials.space.is_some() {
            return Ok(true);
        }
        let ids: Vec<VariantId> = (0..)
            .map(VariantId)
            .take(self.state.trials.variants.len())
            .filter(|id| self.state.is_testable(*id))
            .collect();
        let mut failed: Vec<(VariantId, Diagnostic)> = Vec::new();
        for &id in &ids {
            if let Some(setup) = self.state.trials.variant_plan(id).hooks.setup.clone() {
                match run_hook(executor, Some(id), &setup, signals).await? {
                    RunHookResult::Done => {}
                    RunHookResult::Failed(hook) => {
                        failed.push((id, hook_failed(&hook)));
                        continue;
                    }
                    RunHookResult::Stopped(signal) => {
                        return self.stopped_by(signal).map(|()| false);
                    }
                }
            }
            set_up_variants.push(id);
            // Commands on other hosts are checked there.
            if self.state.trials.hosts.is_none()
                && let Err(error) = check_commands(&self.state.trials, id)
            {
                failed.push((id, error));
            }
        }
        if failed.len() == ids.len() {
            return match none_left(&self.state.trials, failed) {
                Some(error) => Err(error),
                // No variant was left before, so there is nothing to do.
                None => Ok(true),
            };
        }
        for (variant, error) in failed {
            let reason = error.in_a_line();
            let name = &self.state.trials.variant_plan(variant).name;
            let text = words::sanitize_line(&format!("cannot test the variant `{name}`: {reason}"));
            self.announced.push(text.clone());
            self.warn_user(text, observer);
            let time = self.state.worked;
            let event = Event::VariantUntestable {
                variant,
                why: reason,
                at: time,
            };
            self.journal.add_event(&event)?;
            self.state.apply_event(&event, questions::is_done);
        }
        Ok(true)
    }

    async fn clean_up(
        &mut self,
        executor: &Arc<dyn Executor>,
        signals: &mut UnboundedReceiver<Signal>,
        variant: Option<VariantId>,
        command: &Text,
        name: &str,
        observer: &mut dyn ExperimentObserver,
    ) {
        match run_hook(executor, variant, command, signals).await {
            Ok(RunHookResult::Done) => {}
            Ok(RunHookResult::Failed(hook)) => {
                self.warn_user(format!("{name} failed: {}", hook.ending), observer);
            }
            Ok(RunHookResult::Stopped(_)) => {
                self.warn_user(format!("{name} did not finish: it was stopped"), observer);
            }
            Err(error) => self.warn_user(
                format!("{name} did not finish: {}", error.in_a_line()),
                observer,
            ),
        }
    }

    /// Records that the run was interrupted before its first trial.
    pub(super) fn stopped_by(&mut self, signal: Signal) -> Result<(), Diagnostic> {
        let stopped = Event::RunStopped {
            why: StopCause::Signal(signal),
            at: self.state.worked,
        };
        self.journal.add_event(&stopped)?;
        self.state.apply_event(&stopped, |_| false);
        Ok(())
    }
}

/// Runs a hook of the whole run to its end: others may follow it.
async fn run_hook(
    executor: &Arc<dyn Executor>,
    variant: Option<VariantId>,
    command: &Text,
    signals: &mut UnboundedReceiver<Signal>,
) -> Result<RunHookResult, Diagnostic> {
    let (halt, halted) = watch::channel(StopUrgency::No);
    let mut running = pin!(executor.run_hook(variant, command, halted));
    tokio::select! {
        seen = &mut running => Ok(match seen? {
            None => RunHookResult::Done,
            Some(seen) => RunHookResult::Failed(seen),
        }),
        Some(signal) = signals.recv() => {
            halt.send_replace(StopUrgency::Gently);
            tokio::select! {
                _ = &mut running => {}
                Some(_) = signals.recv() => {
                    halt.send_replace(StopUrgency::Now);
                    drop(running.await);
                }
            }
            Ok(RunHookResult::Stopped(signal))
        }
    }
}

fn hook_failed(hook: &FailedHook) -> Diagnostic {
    let output = hook.output.trim();
    let cause = if output.is_empty() {
        "it printed nothing"
    } else {
        output
    };
    Diagnostic::could_not(format!("`setup` failed: {}", hook.ending)).because(cause)
}

/// Returns the error if no variant is left: one error for all of them, or one for each.
fn none_left(trials: &TrialsPlan, failed: Vec<(VariantId, Diagnostic)>) -> Option<Diagnostic> {
    let errors: Vec<(VariantId, String)> = failed
        .iter()
        .map(|(id, error)| (*id, error.in_a_line()))
        .collect();
    let alike = errors.iter().all(|(_, reason)| *reason == errors[0].1);
    let (_, first) = failed.into_iter().next()?;
    if alike {
        return Some(first);
    }
    let lines = errors
        .iter()
        .map(|(id, reason)| format!("{}: {reason}", trials.variant_plan(*id).name));
    let message = format!("none of the {} variants can be tested", errors.len());
    Some(Diagnostic::could_not(message).because(lines.collect::<Vec<_>>().join("\n    ")))
}
