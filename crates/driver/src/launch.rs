//! Launches trials, and prepares their variants.

use super::lease::Lease;
use super::{Driver, LoopState, TaskResult};
use provoke_exec::PreparationResult;
use provoke_model::{Event, HoldPlan, Trial, TrialPurpose, TrialsPlan, VariantId, trial_seed};
use provoke_questions::{RerunPolicy, Step, next_extra_step};
use provoke_state::State;
use tokio::time::Instant;

impl LoopState<'_, '_> {
    /// Fills the free slots, and prepares variants that will probably be tried next.
    pub(super) fn launch_trials(&mut self) {
        self.choose_setting();
        let TrialsPlan { waves, jobs, .. } = self.driver.state.trials;
        if self.under_way.is_empty() {
            self.wave = jobs;
        }
        self.at_once = self.max_trials_at_once();
        while !self.driver.state.stage.is_decided()
            && (!waves || self.wave > 0)
            && self.has_free_slot()
        {
            let Some(trial) = self.next_trial() else {
                break;
            };
            self.wave -= u32::from(waves);
            let (id, variant, slot) = (trial.id.0, trial.variant.0, trial.slot.0);
            tracing::debug!(target: "trial", id, variant, slot, timeout = ?trial.timeout, "launch");
            self.emit_event(&Event::TrialStarted(trial.clone()));
            self.add_to_lease(trial);
        }
        self.start_leases();
        while !self.driver.state.stage.is_decided()
            && !self.driver.state.stage.runs_extra_trials()
            && let Some(step) = self.policy().step_ahead(self.driver.state)
            && self.get_ready(&step)
        {}
    }

    /// Begins the search under the setting that the policy chose.
    fn choose_setting(&mut self) {
        let state = &*self.driver.state;
        if state.undecided_raise().is_none() || state.stage.is_decided() || state.has_open_trials()
        {
            return;
        }
        let step = self.policy().next_step(state);
        if let Step::Use(_) = step {
            self.get_ready(&step);
        }
    }

    /// Returns whether another trial may be launched. While settings are tried, the policy limits the parallel trials.
    fn has_free_slot(&self) -> bool {
        let state = &*self.driver.state;
        let slots = match state.undecided_raise() {
            // The slot of the last trial is not free yet, and another may be beyond the jobs of the setting.
            Some(_) if self.under_way.values().any(Lease::has_ended) => return false,
            Some(_) => state.trials.most_jobs(),
            None => state.trials.jobs,
        };
        !self.free.is_empty() && self.busy_slots() < slots as usize
    }

    fn next_trial(&mut self) -> Option<Trial> {
        loop {
            let state = &*self.driver.state;
            let timeout = self.pace.hang_timeout(state);
            if let Some(trial) = state.to_repeat()
                && !self.stops_at_time_limit()
            {
                let trial = Trial {
                    slot: self.best_slot(trial.variant)?,
                    timeout,
                    ..trial.clone()
                };
                return self.is_ready(trial.variant).then_some(trial);
            }
            let capturing = state.stage.runs_extra_trials();
            let step = if capturing {
                next_extra_step(state)
            } else {
                self.policy().next_step(state)
            };
            if let Step::Launch(variant) = step {
                let id = state.next_id();
                let held_trial = if capturing {
                    None
                } else {
                    self.policy().next_held_trial(state)
                };
                let timeout = held_trial
                    .as_ref()
                    .and_then(|held| held.timeout)
                    .unwrap_or(timeout);
                let purpose = if state.stage.reruns_tests() {
                    let (_, case) = RerunPolicy::next_case(state)?;
                    TrialPurpose::RerunTest(Box::new(case))
                } else if capturing {
                    TrialPurpose::CaptureEvidence
                } else if held_trial.is_some() {
                    TrialPurpose::ExploreSchedule
                } else {
                    TrialPurpose::Measure
                };
                let planned = state.trials.held.as_ref();
                let hold = match (held_trial, planned) {
                    (Some(held), Some(planned)) => {
                        Some(held.plan.with_holds(&planned.holds, timeout))
                    }
                    (Some(held), None) => Some(held.plan),
                    (None, planned) => planned.map(|planned| {
                        HoldPlan::within_timeout(planned.holds.clone(), timeout, true)
                    }),
                };
                let trial = Trial {
                    id,
                    variant,
                    slot: self.best_slot(variant)?,
                    seed: trial_seed(state.trials.seed, id),
                    timeout,
                    purpose,
                    hold: hold.map(Box::new),
                };
                return self.is_ready(variant).then_some(trial);
            }
            if !self.get_ready(&step) {
                return None;
            }
        }
    }

    /// Returns whether a variant can be tried now. After a resumption it is prepared again first.
    fn is_ready(&mut self, variant: VariantId) -> bool {
        let state = &*self.driver.state;
        let variant = state.runs_as(variant);
        let (ready, preparing) = (
            state.is_ready(variant),
            state.preparation.running.contains(&variant),
        );
        if !ready && !preparing {
            self.get_ready(&Step::Make(variant));
        }
        ready
    }

    /// Performs a step that precedes a trial; returns false for any other step.
    fn get_ready(&mut self, step: &Step) -> bool {
        match step {
            Step::Choose(choice) => {
                tracing::debug!(target: "run", "choose a variant");
                self.emit_event(&Event::VariantChosen(choice.clone()));
                let Driver {
                    state, executor, ..
                } = &*self.driver;
                if let Some(id) = state.find_variant(choice) {
                    executor.learn_variant(id, state.trials.variant_plan(id));
                }
                true
            }
            Step::Make(id) => {
                tracing::debug!(target: "run", variant = id.0, "prepare a variant");
                self.emit_event(&Event::PreparationStarted(*id));
                let halt = self.stop_preparation.subscribe();
                let preparing = self.driver.executor.make_variant(*id, halt);
                let task = self
                    .tasks
                    .spawn(async { TaskResult::Prepared(preparing.await) });
                self.preparing.insert(task.id(), (*id, Instant::now()));
                true
            }
            Step::Use(variant) => {
                tracing::info!(target: "run", variant = variant.0, "continue under this setting");
                self.emit_event(&Event::SettingChosen(*variant));
                let Driver {
                    state, executor, ..
                } = &*self.driver;
                executor.learn_variant(State::FAILING, state.trials.variant_plan(State::FAILING));
                true
            }
            Step::Launch(_) | Step::Wait | Step::Done => false,
        }
    }

    pub(super) fn variant_made(
        &mut self,
        variant: VariantId,
        started: Instant,
        result: PreparationResult,
    ) {
        let time = self.working_time();
        let is_ready = matches!(result, PreparationResult::Ready { .. });
        tracing::debug!(target: "run", variant = variant.0, is_ready, took = ?started.elapsed(), "prepared");
        match result {
            PreparationResult::Ready { build } => {
                let removed = self.driver.executor.make_room();
                let took = started.elapsed();
                self.emit_event(&Event::VariantMade {
                    variant,
                    took,
                    gone: removed,
                    build,
                    at: time,
                });
            }
            PreparationResult::Failed(reason) => self.give_up(variant, &reason),
            PreparationResult::Broken(reason) => {
                let name = &self.driver.state.trials.variant_plan(variant).name;
                self.emit_warning(format!("cannot build `{name}`: {reason}"));
                self.cannot_make = true;
            }
            PreparationResult::Halted => {}
        }
    }
}
