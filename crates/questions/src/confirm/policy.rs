//! `confirm`: decides how many passing trials a fix needs, and runs until they passed or the bug occurs again.

use super::sweep::{SweepMemory, is_never_reached};
use crate::{
    HeldTrial, Policy, RequiredPasses, Step, StopRule, Verdict, trials_without_known_failure,
};
use provoke_model::{Baseline, ConfirmQuestion as Asked, SignatureId, VariantId};
use provoke_state::{SignatureFailures, State};
use provoke_stats::{
    chance_to_see, clean_runs_at_known_rate, clean_runs_needed_effective,
    clean_runs_to_exclude_half, real, unchanged_p_value_effective,
};
use std::time::Duration;

/// The fixed program, which is the only variant.
const FIXED_SIDE: VariantId = VariantId(0);
/// Number of other failures per required clean trial after which the run is given up; see [`FEW_OTHERS`].
const OTHERS: u64 = 2;
/// Number of other failures that is allowed in any case.
const FEW_OTHERS: u64 = 20;
/// By default, a fix that only halves the rate is excluded if that takes at most this much longer.
const LITTLE_TIME: Duration = Duration::from_secs(60);

/// Runs the fixed program until it shows the bug, or has passed as often as the baseline requires.
pub struct ConfirmPolicy;

/// Progress of a confirmation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfirmProgress {
    /// Clean trials so far.
    pub clean: u64,
    /// Required clean trials; `None` if no number is enough.
    pub needed: Option<u64>,
    /// Whether these also exclude a fix that only halves the rate.
    pub excludes_half: bool,
    /// Trials that showed the bug.
    pub failures: u64,
    /// The probability that an unchanged program passes as many trials.
    pub unchanged: f64,
    /// Whether all trials may be worth a single one, because they share processes that `setup` started.
    pub one_life: bool,
    /// Trials that failed with the exit status of the bug under a name that the baseline does not know: another bug, or
    /// the same in another place.
    pub doubtful: u64,
}

impl ConfirmProgress {
    /// Returns the progress; `None` for any other question.
    pub fn of_state(state: &State) -> Option<Self> {
        let question = state.goal.question.as_confirm()?;
        let tally = state.tally_of(FIXED_SIDE);
        let clean = tally.passes;
        let excludes_half = excludes_half(state, question);
        Some(Self {
            clean,
            needed: clean_needed(question, excludes_half, state.goal.alpha.to_probability()),
            excludes_half,
            failures: tally.failures,
            one_life: state.shares_a_life() && !question.independent,
            doubtful: doubtful_failures(state, question)
                .map(|group| group.trials.len() as u64)
                .sum(),
            unchanged: match &question.baseline {
                Baseline::Measured(base) => {
                    let (failures, trials) = base.reference_counts();
                    unchanged_p_value_effective(failures, trials, clean, base.design_effect())
                }
                Baseline::Assumed(millionths) => {
                    1.0 - chance_to_see(rate_of_millionths(*millionths), clean)
                }
            },
        })
    }

    /// Returns whether enough trials were clean, and none showed the bug.
    pub fn is_clean(&self) -> bool {
        self.failures == 0 && self.needed.is_some_and(|needed| self.clean >= needed)
    }

    /// Returns the number of missing clean trials.
    pub fn missing_trials(&self) -> Option<u64> {
        Some(self.needed?.saturating_sub(self.clean))
    }
}

/// Returns whether a fix that only halves the rate must be excluded: because the user requested it, or because it takes
/// little more time. Once the run is over, only the result counts.
fn excludes_half(state: &State, question: &Asked) -> bool {
    let alpha = state.goal.alpha.to_probability();
    let needed = |half| clean_needed(question, half, alpha);
    let decide = || {
        let (min, half) = needed(false).zip(needed(true))?;
        let passes = state.tally_of(FIXED_SIDE).passes;
        let may_go_on = !(state.stage.is_finished()
            || state.stage.is_budget_spent()
            || state.stage.stop_cause().is_some())
            && state
                .stop
                .trials
                .is_none_or(|trial_limit| trial_limit >= half);
        let seconds = seconds_of_a_pass(state, question)?;
        let is_quick = takes_little_time(half - min, state.trials.jobs, seconds);
        Some(passes >= half || may_go_on && is_quick)
    };
    state.stop.exclude_half
        || question
            .exclude_half
            .unwrap_or_else(|| decide().unwrap_or(false))
}

/// Returns the default number of trials that must pass: `min` for a fix, or `half` to exclude a fix that only halves the
/// rate as well.
pub fn required_by_default(
    min: u64,
    half: u64,
    jobs: u32,
    seconds_of_a_pass: Option<f64>,
) -> RequiredPasses {
    let is_quick = |seconds| takes_little_time(half - min, jobs, seconds);
    let excludes_half = seconds_of_a_pass.is_some_and(is_quick);
    RequiredPasses {
        trials: if excludes_half { half } else { min },
        excludes_half,
    }
}

fn takes_little_time(trials: u64, jobs: u32, seconds: f64) -> bool {
    let rounds = trials.div_ceil(u64::from(jobs));
    real(rounds) * seconds <= LITTLE_TIME.as_secs_f64()
}

/// Returns the duration of a passing trial with the overhead, in this run or else in the baseline, if it is known.
pub(crate) fn seconds_of_a_pass(state: &State, question: &Asked) -> Option<f64> {
    let pass_time = state.tally_of(FIXED_SIDE).pass_times.quantile_at(0.5);
    let baseline_seconds = || match &question.baseline {
        Baseline::Measured(base) => base.pass_seconds(),
        Baseline::Assumed(_) => None,
    };
    let seconds_here = pass_time.map(|time| time + state.mean_overhead());
    seconds_here
        .map(|time| time.as_secs_f64())
        .or_else(baseline_seconds)
}

/// Returns the number of clean trials that is enough, optionally to exclude a fix that only halves the rate as well.
pub(crate) fn clean_needed(question: &Asked, excludes_half: bool, alpha: f64) -> Option<u64> {
    match &question.baseline {
        Baseline::Measured(base) => clean_needed_for(
            base.reference_counts(),
            base.design_effect(),
            excludes_half,
            alpha,
        ),
        Baseline::Assumed(millionths) => {
            let share = if excludes_half { 2.0 } else { 1.0 };
            clean_runs_at_known_rate(rate_of_millionths(*millionths) / share, alpha)
        }
    }
}

/// Returns the same for these failures and trials of a baseline.
pub(super) fn clean_needed_for(
    (failures, trials): (u64, u64),
    design_effect: f64,
    excludes_half: bool,
    alpha: f64,
) -> Option<u64> {
    let rule = if excludes_half {
        clean_runs_to_exclude_half
    } else {
        clean_runs_needed_effective
    };
    rule(failures, trials, design_effect, alpha)
}

fn rate_of_millionths(millionths: u32) -> f64 {
    f64::from(millionths) / 1e6
}

impl Policy for ConfirmPolicy {
    fn next_step(&self, state: &State) -> Step {
        let Some(progress) = ConfirmProgress::of_state(state) else {
            return Step::Done;
        };
        let is_decided = progress.failures > 0
            || progress.one_life
            || progress.doubtful > 0
            || given_up(state, &progress)
            || sweep_failures(state) > 0;
        if !is_decided && (progress.is_clean() || is_never_reached(state)) {
            return sweep_step(state);
        }
        // No number of trials is enough if all of them are worth one.
        if is_decided {
            return Step::Done;
        }
        if state.stage.is_budget_spent() || !state.is_testable(FIXED_SIDE) {
            return Step::wait_or_done(state);
        }
        let under_way = state.expected_trials(FIXED_SIDE);
        let other_failures = state.tally_of(FIXED_SIDE).other;
        let trial_limit = state.stop.trials.unwrap_or(u64::MAX);
        let wanted_trials = progress
            .needed
            .unwrap_or(u64::MAX)
            .saturating_add(other_failures);
        if under_way < wanted_trials.min(trial_limit) {
            Step::Launch(FIXED_SIDE)
        } else if state.tally_of(FIXED_SIDE).finished_trials() >= trial_limit {
            Step::Done
        } else {
            Step::Wait
        }
    }

    fn next_held_trial(&self, state: &State) -> Option<HeldTrial> {
        let progress = ConfirmProgress::of_state(state)?;
        let memory: &SweepMemory = state.learned()?;
        if progress.is_clean() || is_never_reached(state) {
            memory.next_trial(state)
        } else {
            None
        }
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        match ConfirmProgress::of_state(state) {
            Some(progress) if progress.failures + sweep_failures(state) > 0 => Verdict::NotFixed,
            // Each of these trials may have shown the bug.
            Some(_) if trials_without_known_failure(state) > 0 => Verdict::Undecided,
            Some(progress) if progress.one_life || progress.doubtful > 0 => Verdict::Undecided,
            Some(progress) if progress.is_clean() => Verdict::Fixed,
            _ if is_never_reached(state) => Verdict::Undecided,
            _ if state.tally_of(FIXED_SIDE).finished_trials() == 0 => Verdict::CouldNotTest,
            _ => Verdict::Undecided,
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        let ran = state.tally_of(FIXED_SIDE).finished_trials();
        let trial_limit = state.stop.trials;
        match ConfirmProgress::of_state(state) {
            Some(progress) if progress.failures + sweep_failures(state) > 0 => StopRule::KthFailure,
            Some(progress) if progress.is_clean() => StopRule::PlannedN,
            Some(progress) if progress.one_life || progress.doubtful > 0 => StopRule::Decision,
            _ if trial_limit.is_some_and(|limit| ran >= limit) => StopRule::at_the_limit(state),
            _ => StopRule::from_outside(state),
        }
    }

    fn remaining_trials(&self, state: &State) -> Option<u64> {
        let progress = ConfirmProgress::of_state(state)?;
        let missing = progress.missing_trials()?;
        let waiting = state.completed_trials()
            - state
                .tally_of(FIXED_SIDE)
                .finished_trials()
                .min(state.completed_trials());
        Some(missing.saturating_sub(waiting))
    }
}

/// Returns the failures that may be the bug under a name that the baseline does not know.
pub(crate) fn doubtful_failures<'a>(
    state: &'a State,
    question: &'a Asked,
) -> impl Iterator<Item = &'a SignatureFailures> {
    let signatures: &[SignatureId] = match &question.baseline {
        Baseline::Measured(base) => &base.others,
        Baseline::Assumed(_) => &[],
    };
    let groups = state.tally_of(FIXED_SIDE).groups.values();
    groups.filter(move |group| {
        let also = group.signature.also.iter().map(|(_, id)| id);
        let mut names = also.chain([&group.signature.id]);
        !group.is_the_bug
            && names.clone().any(|id| question.doubts.contains(id))
            && !names.any(|id| signatures.contains(id))
    })
}

/// Returns the number of trials around the hold that showed the bug.
fn sweep_failures(state: &State) -> u64 {
    let has_sweep = state.learned::<SweepMemory>().is_some();
    if has_sweep {
        state.held_tally(FIXED_SIDE).failures
    } else {
        0
    }
}

/// Returns the next step of the trials around the hold.
fn sweep_step(state: &State) -> Step {
    let memory: Option<&SweepMemory> = state.learned();
    let is_complete = memory.is_none_or(|memory| memory.next_trial(state).is_none());
    if is_complete || state.stage.is_budget_spent() {
        return Step::wait_or_done(state);
    }
    Step::Launch(FIXED_SIDE)
}

/// Returns whether most trials showed other failures, so that enough clean trials are out of reach.
fn given_up(state: &State, progress: &ConfirmProgress) -> bool {
    let other_failures = state.tally_of(FIXED_SIDE).other;
    let needed = progress.needed.unwrap_or(u64::MAX);
    other_failures >= needed.saturating_mul(OTHERS).max(FEW_OTHERS)
}
