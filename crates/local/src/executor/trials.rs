//! Runs the trials of a slot, and reads their evidence.

use super::ExecutorContext;
use crate::service::ServiceContext;
use crate::slot_handle::SlotHandle;
use provoke_exec::StopUrgency;
use provoke_model::{Observation, ServiceOwner, Trial, TrialId, TrialSettings};
use provoke_runners::EarlierReports;
use provoke_slot::wire::{SlotOrder, VariantRecipe};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Time for operations without another limit: examining a hang, killing processes, querying a
/// container engine.
const TO_LOOK_AND_KILL: Duration = Duration::from_secs(120);

/// A slot that runs trials in turn.
struct RunningTrials<'a> {
    slot_entry: &'a mut Option<SlotHandle>,
    halt: &'a mut watch::Receiver<StopUrgency>,
    /// How urgently the slot was asked to stop.
    urgency: StopUrgency,
}

impl ExecutorContext {
    /// Runs trials in turn until the first that is not plain; see [`provoke_exec::Executor::run_trials`].
    pub(super) async fn run_trials(
        self: &Arc<Self>,
        slot_entry: &mut Option<SlotHandle>,
        trials: &[Trial],
        halt: &mut watch::Receiver<StopUrgency>,
        report: &mut (dyn FnMut(TrialId, Observation) + Send),
    ) {
        let dumps = trials.iter().any(|trial| self.dumps_cores(trial));
        let _dump_guard = match &self.one_dump {
            Some(one_dump) if dumps => Some(one_dump.lock().await),
            _ => None,
        };
        let earlier = self.find_earlier_reports(&trials[0]).await;
        let began = SystemTime::now();
        let mut failure = self.begin_trials(slot_entry, trials).await.err();
        let mut running = RunningTrials {
            slot_entry,
            halt,
            urgency: StopUrgency::No,
        };
        for trial in trials {
            let result = match failure.take() {
                Some(error) => Err(error),
                None => self.finish_trial(&mut running, trial).await,
            };
            let (observation, continues) = match result {
                Ok((observation, continues)) => {
                    let observation = self
                        .read_evidence(trial, began, earlier.clone(), observation)
                        .await;
                    (observation, continues)
                }
                Err(error) => {
                    tracing::warn!(target: "trial", id = trial.id.0, slot = trial.slot.0, "lost with its slot");
                    let observation = Observation {
                        lost: Some(self.reap_lost_slot(running.slot_entry, &error)),
                        ..Observation::default()
                    };
                    (observation, false)
                }
            };
            report(trial.id, observation);
            if !continues {
                break;
            }
        }
    }

    /// Returns the reports of test runners that exist before a trial. The next write to one of them changes its time.
    async fn find_earlier_reports(&self, trial: &Trial) -> EarlierReports {
        let Some(cases) = &self.cases else {
            return EarlierReports::default();
        };
        let recipe = self.recipe_of(trial.variant);
        let (reports, wait) = cases.earlier_reports(trial, &recipe.variant);
        tokio::time::sleep(wait).await;
        reports
    }

    /// Orders a slot to run trials in turn. A trial of a service is ordered when its clients are ready.
    async fn begin_trials(
        &self,
        slot_entry: &mut Option<SlotHandle>,
        trials: &[Trial],
    ) -> io::Result<()> {
        if self.load_context.is_some() {
            return Ok(());
        }
        let slot = self.started_slot(slot_entry)?;
        for trial in trials {
            match (trial.rerun_test(), &self.cases) {
                (Some(case), Some(cases)) => {
                    let recipe = cases.isolated_recipe(&self.recipe_of(trial.variant), case)?;
                    slot.learn_once(trial.variant, recipe).await?;
                }
                _ => {
                    slot.learn_variant(trial.variant, || self.recipe_of(trial.variant))
                        .await?;
                }
            }
        }
        slot.forget_stop();
        slot.send_order(&SlotOrder::Run(trials.to_vec())).await
    }

    /// Waits for the end of a trial, in the order of [`ExecutorContext::begin_trials`]. Returns its observation, and
    /// whether the slot continues with the next trial; an error means that the slot is lost.
    async fn finish_trial(
        &self,
        running: &mut RunningTrials<'_>,
        trial: &Trial,
    ) -> io::Result<(Observation, bool)> {
        let RunningTrials {
            slot_entry,
            halt,
            urgency,
        } = running;
        let recipe = self.recipe_of(trial.variant);
        if let Some(load_context) = &self.load_context {
            let observation = self
                .run_service_trial(load_context, slot_entry, trial, &recipe, halt)
                .await?;
            return Ok((observation, false));
        }
        let slot = slot_entry.as_mut().expect("the trials were begun");
        slot.answer_within(longest_duration(trial, &recipe));
        let mut observation = slot.finish_trial(trial.id, halt, urgency).await?;
        let continues = observation.is_plain();
        self.complete_trial(slot, &mut observation);
        Ok((observation, continues))
    }

    /// Runs a trial of a service under load; an error means that the slot is lost.
    async fn run_service_trial(
        &self,
        load_context: &ServiceContext,
        slot_entry: &mut Option<SlotHandle>,
        trial: &Trial,
        recipe: &Arc<VariantRecipe>,
        halt: &mut watch::Receiver<StopUrgency>,
    ) -> io::Result<Observation> {
        let variant = &recipe.variant;
        if load_context.load.owner != ServiceOwner::Provoke {
            return Ok(load_context.attach_to_service(trial, variant, halt).await);
        }
        if let Some(observation) = load_context.in_the_way(trial, variant).await {
            return Ok(observation);
        }
        let slot = self.started_slot(slot_entry)?;
        slot.learn_variant(trial.variant, || Arc::clone(recipe))
            .await?;
        tracing::debug!(target: "trial", id = trial.id.0, "start the service and its clients");
        slot.forget_stop();
        slot.answer_within(longest_duration(trial, recipe));
        let mut observation = load_context
            .run_under_load(slot, trial, variant, halt)
            .await?;
        self.complete_trial(slot, &mut observation);
        Ok(observation)
    }

    /// Marks the observation as lost if the slot could not measure it, and takes the complaints of the slot.
    fn complete_trial(&self, slot: &mut SlotHandle, observation: &mut Observation) {
        if slot.was_stopped() {
            observation.lost = Some("its slot was stopped by a signal and continued".to_owned());
        }
        if !slot.complaints.is_empty() {
            let mut complaints = self.complaints.lock().expect("no panic");
            complaints.append(&mut slot.complaints);
        }
    }

    /// Returns whether the kernel may dump cores of this trial.
    fn dumps_cores(&self, trial: &Trial) -> bool {
        trial.captures_evidence() || self.common.settings.dumps_cores()
    }

    /// Collects the evidence of a trial, before the next trial of the slot starts.
    async fn read_evidence(
        self: &Arc<Self>,
        trial: &Trial,
        began: SystemTime,
        earlier: EarlierReports,
        mut observation: Observation,
    ) -> Observation {
        observation.around = self.usage.sample_size();
        let dumped = self.dumps_cores(trial);
        let reads_more = dumped || leaves_more(&observation);
        if !reads_more && self.cases.is_none() {
            return observation;
        }
        tracing::debug!(target: "trial", id = trial.id.0, dumped, reads_more, "read the evidence");
        let (trial, recipe) = (trial.clone(), self.recipe_of(trial.variant));
        let looked = self.spawn_blocking(move |shared| {
            let variant = &recipe.variant;
            if dumped {
                shared
                    .collector
                    .collect_cores(&trial, variant, began, &mut observation);
            }
            if reads_more {
                shared
                    .collector
                    .examine_cores(trial.id.0, &recipe, &mut observation);
                shared
                    .collector
                    .name_places(&recipe, began, &mut observation);
                shared.collector.name_hold_points(variant, &mut observation);
                shared.collector.name_path_points(variant, &mut observation);
            }
            if let Some(cases) = &shared.cases {
                cases.read_cases(&trial, &recipe, earlier, &mut observation);
            }
            observation
        });
        // Only a bug in provoke can cause an error here; only this trial is lost.
        looked.await.unwrap_or_else(|error| Observation {
            lost: Some(error),
            ..Observation::default()
        })
    }
}

/// Returns the longest time that a slot may take for a trial.
fn longest_duration(trial: &Trial, recipe: &VariantRecipe) -> Duration {
    let hooks = [&recipe.prepare, &recipe.conclude];
    let hook_count = hooks.into_iter().flatten().map(|_| 1).sum();
    // With pauses, a process runs for a third of the time.
    let factor = if recipe.start.pauses.is_some() { 4 } else { 1 };
    let timeout = trial.timeout.saturating_mul(factor);
    longest_trial(timeout, &recipe.settings, hook_count)
}

/// Returns the longest time that a slot may take for a trial with this time limit and number of hooks: the sum of all time
/// limits.
pub fn longest_trial(timeout: Duration, settings: &TrialSettings, hook_count: u32) -> Duration {
    let hooks = provoke_slot::HOOK_TIMEOUT
        .saturating_add(settings.grace)
        .saturating_mul(hook_count);
    [settings.grace, settings.leak_grace, hooks, TO_LOOK_AND_KILL]
        .into_iter()
        .fold(timeout, Duration::saturating_add)
}

/// Returns whether evidence remains to be read after the trial: cores that provoke wrote, lines of the
/// kernel log, or points that have no names yet.
fn leaves_more(observation: &Observation) -> bool {
    let leaked = &observation.residue.leaked;
    let traced = !observation.cores.is_empty();
    traced
        || observation.hang.is_some()
        || !observation.kernel.is_empty()
        || leaked.iter().any(|process| process.core.is_some())
        || observation.holds.as_ref().is_some_and(|holds| {
            !holds.learned.is_empty() || !holds.races.is_empty() || holds.path.is_some()
        })
}
