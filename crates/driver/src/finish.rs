//! Judges a finished trial, and keeps or removes its evidence.

use super::{LoopState, identical_failures};
use provoke_exec::{drop_evidence, remove_cores};
use provoke_judge as judge;
use provoke_model::{
    Ending, Event, HoldPlan, InconclusiveReason, KeepRule, Observation, Outcome, SlotId, Trial,
    TrialId,
};
use provoke_state::State;
use std::time::Duration;

impl LoopState<'_, '_> {
    pub(super) async fn finish_trial(
        &mut self,
        slot: SlotId,
        id: TrialId,
        mut observation: Observation,
    ) {
        let lease = self.under_way.get_mut(&slot);
        let Some(trial) = lease.and_then(|lease| lease.take_first(id)) else {
            return;
        };
        let state = &*self.driver.state;
        let mut outcome = judge::judge_trial(
            &state.trials.rules,
            state.trials.variant_plan(trial.variant),
            &observation,
        );
        if trial.id.0 <= state.trials.warmup
            && !matches!(
                outcome,
                Outcome::Inconclusive(InconclusiveReason::Interrupted)
            )
        {
            outcome = Outcome::Inconclusive(InconclusiveReason::Warmup);
        }
        if was_stopped_early(
            &trial,
            &observation,
            &outcome,
            self.pace.hang_timeout(state),
            self.pace.is_assumed(state),
        ) {
            outcome = Outcome::Inconclusive(InconclusiveReason::StoppedEarly);
        }
        if state.trials.held.is_some()
            && !counts_under_holds(state, &trial, &observation)
            && !is_inconclusive(&outcome)
        {
            outcome = Outcome::Inconclusive(InconclusiveReason::NotHeld);
        }
        if let Outcome::Fail(failure) = &outcome
            && !state.is_the_bug(failure)
        {
            outcome = Outcome::Other(failure.clone());
        }
        let elapsed = observation.elapsed;
        tracing::debug!(target: "trial", id = id.0, ?elapsed, outcome = outcome.word(), "judged");
        let folder = self.driver.evidence.join(trial.id.0.to_string());
        if self.worth_keeping(&trial, &observation, &outcome) {
            let with_cores = self.limit_cores(&outcome, &mut observation);
            tracing::debug!(target: "trial", id = id.0, with_cores, "keep the evidence");
            let executor = &self.driver.executor;
            executor.keep_output(trial.slot, folder, with_cores).await;
            self.kept_cores.count_arrived(&mut observation);
        } else {
            drop_evidence(&folder, &mut observation);
        }
        if let Some(hook) = &observation.conclude {
            let text = format!("the `conclude` command failed: {}", hook.ending);
            self.emit_warning(text);
        }
        if let Some(first_words) = &mut self.first_words {
            let hang = observation.hang.as_ref();
            let is_proved = hang.is_some_and(|hang| !hang.ended_before.is_zero());
            let words = if is_proved {
                Some(identical_failures::DEADLOCK.to_owned())
            } else {
                judge::last_words(&observation)
            };
            first_words.extend(words.map(|words| (trial.id, words)));
        }
        self.cannot_start |= cannot_start(&observation);
        if outcome == Outcome::Pass && trial.rerun_test().is_none() {
            self.pace.add_pass(trial.variant, observation.elapsed);
            self.plain_passes.add_pass(trial.variant, &observation);
        }
        if outcome == Outcome::Inconclusive(InconclusiveReason::Lost)
            && let Some(lease) = self.under_way.get_mut(&slot)
        {
            lease.is_lost = true;
        }
        if let Outcome::Inconclusive(void) = outcome {
            self.last_void
                .insert(trial.variant, inconclusive_reason(void, &observation));
        }
        self.record_cases(&trial, &mut observation);
        let time = self.working_time();
        self.emit_event(&Event::TrialFinished {
            trial: trial.id,
            at: time,
            seen: Box::new(observation),
            outcome,
        });
    }

    /// Removes the cores of a failure if the run keeps enough of them; returns whether they are kept.
    fn limit_cores(&mut self, outcome: &Outcome, observation: &mut Observation) -> bool {
        let signature = outcome.any_failure().map(|failure| failure.signature.id);
        let Some(reason) = signature.and_then(|id| self.kept_cores.add_failure(id, observation))
        else {
            return true;
        };
        remove_cores(observation);
        if !std::mem::replace(&mut self.cores_note_shown, true) {
            self.emit_warning(format!("further cores are read and removed: {reason}"));
        }
        false
    }

    fn worth_keeping(&self, trial: &Trial, observation: &Observation, outcome: &Outcome) -> bool {
        let state = &*self.driver.state;
        if matches!(
            outcome,
            Outcome::Inconclusive(InconclusiveReason::Interrupted | InconclusiveReason::Lost)
        ) {
            return observation.hang.is_some() && state.trials.settings.keep != KeepRule::None;
        }
        match (state.trials.settings.keep, outcome) {
            (KeepRule::All, _) => true,
            (KeepRule::Fail, Outcome::Fail(failure) | Outcome::Other(failure)) => {
                let arrived = state.arrived_failures(trial.variant, failure.signature.id);
                arrived < state.trials.settings.keep_per_sig
            }
            (KeepRule::Fail, Outcome::Pass | Outcome::Inconclusive(_)) | (KeepRule::None, _) => {
                false
            }
        }
    }
}

/// Returns whether the kernel refused a program of a trial for a permanent reason.
fn cannot_start(observation: &Observation) -> bool {
    let reasons = [
        "No such file",
        "Exec format error",
        "Permission denied",
        "Not a directory",
    ];
    observation.actors.iter().any(|actor| match &actor.ending {
        Ending::NotStarted(why) => reasons.iter().any(|reason| why.contains(reason)),
        _ => false,
    })
}

/// Returns why a trial was inconclusive.
fn inconclusive_reason(void: InconclusiveReason, observation: &Observation) -> String {
    let detail = match void {
        InconclusiveReason::Unprepared => observation
            .prepare
            .as_ref()
            .map(|hook| hook.ending.to_string()),
        InconclusiveReason::NotStarted => observation.not_started(),
        InconclusiveReason::Lost => observation.lost.clone(),
        InconclusiveReason::NotReady => observation.not_ready(),
        InconclusiveReason::NotHeld => observation
            .holds
            .as_ref()
            .and_then(|holds| holds.refused.clone()),
        _ => None,
    };
    match detail {
        Some(detail) => format!("{void}: {detail}"),
        None => void.to_string(),
    }
}

/// Returns whether a trial counts as one under the holds of its plan. Reaching them may depend on the outcome, so trials that
/// do not reach them count, too, as soon as one has shown that the program can.
fn counts_under_holds(state: &State, trial: &Trial, observation: &Observation) -> bool {
    let plan = trial.hold.as_deref();
    let holds = observation.holds.as_deref();
    plan.zip(holds).is_some_and(|(plan, observation)| {
        observation.reached_all(plan)
            || observation.refused.is_none() && state.tally_of(trial.variant).finished_trials() > 0
    })
}

/// Returns whether a trial of a hunt may only be slow: one of its threads can continue, and it was stopped before it is known
/// how long the program takes, or in a shorter time than plain trials have, or while it learned.
fn was_stopped_early(
    trial: &Trial,
    observation: &Observation,
    outcome: &Outcome,
    plain_timeout: Duration,
    is_assumed: bool,
) -> bool {
    let hangs = matches!(outcome, Outcome::Fail(failure) if failure.kind.is_timeout());
    let is_proved = observation
        .hang
        .as_ref()
        .is_some_and(|hang| !hang.ended_before.is_zero() || !hang.cycle.is_empty());
    let learns = matches!(trial.hold.as_deref(), Some(HoldPlan::Learn(_)));
    let explores_in_less_time =
        trial.explores_schedule() && (learns || trial.timeout < plain_timeout);
    hangs && !is_proved && (is_assumed || explores_in_less_time)
}

fn is_inconclusive(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Inconclusive(_))
}
