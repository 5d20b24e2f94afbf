//! Finds a setting under which the failing variant fails more often, before a search.
//!
//! Settings take turns with the conditions of the plan, so that a change of the machine affects all of them. First every
//! setting has one turn. Then the setting with the highest failure rate has all further turns, until it is used or
//! dropped. During a turn only trials of that setting run.

use super::searched_failure::takes_any_failure;
use super::{is_spent, launch_or_make};
use crate::Step;
use provoke_model::{Failure, FailureName, TrialId, VariantId, trial_seed};
use provoke_state::{State, TriedOutcome, TriedSetting, TriedSettings};
use provoke_stats::raise::{
    PILOT, Sample, SettingVerdict, is_short, setting_budget, standing_of_setting,
};
use provoke_stats::real;

/// Trials of a turn, at least.
const TURN: u64 = 4;
/// Number of trials per slot in a turn without waves, so that starts are not synchronized.
const ROUNDS: u64 = 2;
/// Makes the order of turns independent of the seeds of trials.
const ORDER: u64 = 0x7261_6973_6521_2121;

/// Failures under each setting, and which setting they justify.
pub struct RaiseDecision<'a> {
    state: &'a State,
    /// Trials under the conditions of the plan.
    pub natural: Sample,
    /// Trials under each setting, and their verdict.
    pub settings: Vec<(&'a TriedSetting, Sample, SettingVerdict)>,
}

/// The next turn, or the choice.
enum RaiseStep {
    /// Run trials of this variant.
    Turn(VariantId),
    /// Begin the search under the setting of this variant.
    Use(VariantId),
}

impl<'a> RaiseDecision<'a> {
    /// Returns the trials of the settings; `None` if the plan has no settings.
    pub fn of_state(state: &'a State) -> Option<Self> {
        state.raise.as_ref().map(|raise| Self::new(state, raise))
    }

    fn new(state: &'a State, raise: &'a TriedSettings) -> Self {
        let natural = counted_sample(state, raise, raise.natural_trials());
        let count = raise.tried_settings().len() as u64;
        let settings = raise.tried_settings().iter().map(|setting| {
            let sample = counted_sample(state, raise, setting);
            let standing = match standing_of_setting(&natural, &sample, count) {
                _ if !state.is_testable(setting.variant) => SettingVerdict::Dropped,
                standing => standing,
            };
            (setting, sample, standing)
        });
        Self {
            state,
            settings: settings.collect(),
            natural,
        }
    }

    /// Returns the setting that raises the rate most.
    pub fn raising_setting(&self) -> Option<VariantId> {
        self.best_setting(SettingVerdict::Raises)
            .map(|(setting, _)| setting.variant)
    }

    /// Returns the number of trials under settings.
    pub fn spent_trials(&self) -> u64 {
        let settings = self.settings.iter().map(|(setting, ..)| setting);
        settings.map(|setting| setting.outcomes.len() as u64).sum()
    }

    /// Returns whether the bug occurred without a setting, or any failure is the bug.
    pub fn knows_the_bug(&self) -> bool {
        self.natural.failure_count() > 0 || takes_any_failure(&self.state.goal, &self.state.trials)
    }

    fn best_setting(&self, verdict: SettingVerdict) -> Option<(&'a TriedSetting, &Sample)> {
        let matching = self
            .settings
            .iter()
            .filter(|(_, _, standing)| *standing == verdict);
        let rate = |sample: &Sample| real(sample.failure_count()) / real(sample.len().max(1));
        let best = matching
            .max_by(|(_, a, _), (_, b, _)| rate(a).total_cmp(&rate(b)).then(b.len().cmp(&a.len())));
        best.map(|(setting, sample, _)| (*setting, sample))
    }

    fn next_action(&self, natural: VariantId) -> RaiseStep {
        let state = self.state;
        let limit = state
            .goal
            .question
            .as_search()
            .map_or(0, |question| question.reproduce);
        if let Some(variant) = self.raising_setting() {
            return if self.knows_the_bug() {
                RaiseStep::Use(variant)
            } else if state.tally_of(natural).finished_trials() < limit {
                RaiseStep::Turn(natural)
            } else {
                RaiseStep::Use(natural)
            };
        }
        if is_short(&self.natural) {
            return RaiseStep::Use(natural);
        }
        if state.launched_trials(natural) < PILOT {
            return RaiseStep::Turn(natural);
        }
        let versions = state
            .trials
            .space
            .as_ref()
            .map_or(0, |space| space.len() as u64);
        let budget = setting_budget(&self.natural, versions, state.goal.alpha.to_probability());
        if self.spent_trials() >= budget {
            return RaiseStep::Use(natural);
        }
        let Some((leader, _)) = self.best_setting(SettingVerdict::Open) else {
            return RaiseStep::Use(natural);
        };
        let fresh = self
            .settings
            .iter()
            .map(|(setting, ..)| setting.variant)
            .filter(|id| state.launched_trials(*id) == 0 && state.is_testable(*id));
        let order =
            |id: &VariantId| trial_seed(state.trials.seed ^ ORDER, TrialId(u64::from(id.0)));
        let variant = fresh.min_by_key(order).unwrap_or(leader.variant);
        // Trials without a setting count for the search if no setting is used.
        let ahead = state.launched_trials(variant) + trials_per_turn(state, variant);
        if state.launched_trials(natural) < ahead
            && state.tally_of(natural).finished_trials() < limit
        {
            RaiseStep::Turn(natural)
        } else {
            RaiseStep::Turn(variant)
        }
    }
}

/// Returns the next step until a setting is chosen; `None` after that, or if the plan has no settings.
pub(crate) fn next_step(state: &State) -> Option<Step> {
    let raise = state.undecided_raise()?;
    let natural = raise.natural_trials().variant;
    let over = is_spent(state) || !state.is_testable(State::FAILING) || !state.is_testable(natural);
    if state.has_open_trials() {
        return Some(match state.last_launched() {
            Some(variant) if !over && is_in_turn(state, variant) && has_room(state, variant) => {
                Step::Launch(variant)
            }
            _ => Step::Wait,
        });
    }
    if over {
        return Some(Step::Use(natural));
    }
    if !state.is_ready(State::FAILING) {
        return Some(launch_or_make(state, State::FAILING));
    }
    let going = state
        .last_launched()
        .filter(|id| is_in_turn(state, *id))
        .filter(|id| state.is_testable(*id));
    if let Some(variant) = going {
        return Some(Step::Launch(variant));
    }
    Some(
        match RaiseDecision::new(state, raise).next_action(natural) {
            RaiseStep::Turn(variant) => Step::Launch(variant),
            RaiseStep::Use(variant) => Step::Use(variant),
        },
    )
}

/// Returns the number of trials in a turn, a multiple of the parallel trials.
fn trials_per_turn(state: &State, variant: VariantId) -> u64 {
    let plan = state.trials.variant_plan(variant);
    let jobs = u64::from(state.trials.jobs_of(plan));
    let waves = plan.setting.map_or(state.trials.waves, |setting| {
        setting.waves || setting.jobs.is_none() && state.trials.waves
    });
    let rounds = if waves || jobs == 1 { 1 } else { ROUNDS };
    (jobs * rounds).max(TURN.next_multiple_of(jobs))
}

/// Returns whether the turn of a variant has begun and is not complete.
fn is_in_turn(state: &State, variant: VariantId) -> bool {
    !state
        .launched_trials(variant)
        .is_multiple_of(trials_per_turn(state, variant))
}

/// Returns whether another trial of the variant may start now.
fn has_room(state: &State, variant: VariantId) -> bool {
    let plan = state.trials.variant_plan(variant);
    let jobs = u64::from(state.trials.jobs_of(plan));
    let setting = plan.setting.unwrap_or_default();
    let waves = setting.waves || setting.jobs.is_none() && state.trials.waves;
    let running = state.running_trials().count() as u64;
    let begins_a_wave = state.launched_trials(variant).is_multiple_of(jobs);
    state.is_testable(variant) && running < jobs && !(waves && begins_a_wave)
}

/// Returns the trials of a setting that count: passes, and failures that also occurred under the conditions of the plan.
/// Until a failure occurs there, every failure counts.
fn counted_sample(state: &State, raise: &TriedSettings, setting: &TriedSetting) -> Sample {
    let natural = raise.natural_trials();
    let bugs: Vec<FailureName> = natural
        .outcomes
        .iter()
        .filter_map(|(_, outcome)| match outcome {
            TriedOutcome::Failed(failure, _) => Some(FailureName::from(&**failure)),
            _ => None,
        })
        .collect();
    let counts_any = takes_any_failure(&state.goal, &state.trials)
        || setting.variant == natural.variant
        || bugs.is_empty();
    let is_bug =
        |failure: &Failure| counts_any || bugs.iter().any(|bug| bug.is_same(failure.into()));
    let runs = setting
        .outcomes
        .iter()
        .filter_map(|(batch, outcome)| match outcome {
            TriedOutcome::Passed => Some((*batch, false)),
            TriedOutcome::Failed(failure, _) => is_bug(failure).then_some((*batch, true)),
            TriedOutcome::Otherwise => None,
        });
    Sample {
        runs: runs.collect(),
        seconds: setting.time.as_secs_f64(),
    }
}
