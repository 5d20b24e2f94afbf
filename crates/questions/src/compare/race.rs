//! `compare`, if some variants may not fail at all: finds the variants that fail.
//!
//! Variants take turns in shuffled blocks. A variant that fails is known to fail, and leaves. The requirement for a
//! variant to leave without a failure depends on the question:
//!
//! * With a floor, it is clean after enough passes: a variant that fails at the floor, or more often, would rarely pass
//!   that many times. This is valid for any rates of the variants.
//! * Without a floor, it fails less often than a reference, if at all. A few passes cannot show more: a variant that
//!   fails at 3 % passes four times as a clean one does. The reference is a given baseline, or the variant that failed
//!   first, which continues until it has failed often enough *again*. Earlier trials count on neither side, because it
//!   was chosen for having failed while the others had not.

use crate::blocks::step_in_block;
use crate::{Policy, Step, StopRule, Verdict, nothing_counts, trials_without_known_failure};
use provoke_model::{MeasuredBaseline, VariantId};
use provoke_state::{State, Tally};
use provoke_stats::{
    cheapest_baseline, clean_runs_at_known_rate, clean_runs_needed_effective, race_alpha,
};

/// Number of other failures that is allowed in any case before a variant is given up.
const FEW_OTHERS: u64 = 20;

/// Runs every variant until it has failed, or has passed often enough.
pub struct RacePolicy;

/// The result for one variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum VariantVerdict {
    /// It failed.
    Fails,
    /// It fails less often than the reference, if it fails at all.
    FailsLess,
    /// It passed so often that its failure rate is below the floor.
    Clean,
    /// Not known yet.
    Open,
    /// Not testable.
    Untestable,
}

impl VariantVerdict {
    /// Returns whether a variant passed often enough to leave.
    pub fn has_passed(self) -> bool {
        matches!(self, Self::FailsLess | Self::Clean)
    }
}

/// Progress of a race.
struct RaceProgress<'a> {
    state: &'a State,
    /// The rate, in millionths, from which on a variant counts as failing.
    floor: Option<u32>,
    /// The reference failures and trials, as far as they are known.
    baseline: Option<MeasuredBaseline>,
    /// The variant of the reference, if it was not given.
    reference: Option<VariantId>,
    /// Number of passes of each variant when the reference was chosen.
    passed_before: &'a [u64],
    /// Required clean trials, once they are known.
    needed: Option<u64>,
}

impl<'a> RaceProgress<'a> {
    fn of_state(state: &'a State) -> Self {
        let compare_question = state.goal.question.as_compare();
        match compare_question.and_then(|question| question.floor) {
            Some(floor) => Self::with_floor(state, floor),
            None => Self::with_reference(
                state,
                compare_question.and_then(|question| question.baseline.as_deref().cloned()),
            ),
        }
    }

    /// Each variant is judged alone, and each may be wrongly called clean.
    fn with_floor(state: &'a State, floor: u32) -> Self {
        let variants = state.trials.variants.len() as u64;
        let level = race_alpha(variants + 1, state.goal.alpha.to_probability());
        Self {
            state,
            floor: Some(floor),
            baseline: None,
            reference: None,
            passed_before: &[],
            needed: clean_runs_at_known_rate(f64::from(floor) / 1e6, level),
        }
    }

    fn with_reference(state: &'a State, given: Option<MeasuredBaseline>) -> Self {
        let variants = state.trials.variants.len() as u64;
        // A baseline measured in the race comes from one variant, which is not judged by it.
        let judged_by = if given.is_some() {
            variants + 1
        } else {
            variants
        };
        let level = race_alpha(judged_by, state.goal.alpha.to_probability());
        let first_failure = if given.is_none() {
            state.first_failure.as_ref()
        } else {
            None
        };
        let reference = first_failure.map(|failure| failure.variant);
        let enough = match reference {
            None => 0,
            Some(id) if state.is_testable(id) => cheapest_baseline(level),
            // The reference can no longer be launched, so its present failures must be enough.
            Some(id) => (state.tally_of(id).failures - 1).clamp(1, cheapest_baseline(level)),
        };
        let own_baseline = reference.map(|id| since_chosen(state.tally_of(id), enough));
        let baseline = given.or(own_baseline);
        let measured = baseline.as_ref().filter(|base| base.failures >= enough);
        let needed = measured.and_then(|base| {
            let (failures, trials) = base.counts_of_all_bugs();
            clean_runs_needed_effective(failures, trials, base.design_effect(), level)
        });
        Self {
            state,
            floor: None,
            baseline,
            reference,
            passed_before: first_failure.map_or(&[], |failure| &failure.passes),
            needed,
        }
    }

    /// Returns the number of passes of a variant before its trials began to count.
    fn passes_before(&self, variant: VariantId) -> u64 {
        self.passed_before
            .get(variant.index())
            .copied()
            .unwrap_or(0)
    }

    /// Returns the number of passes of a variant since its trials began to count.
    fn passes_since(&self, variant: VariantId) -> u64 {
        self.state.tally_of(variant).passes - self.passes_before(variant)
    }

    fn is_enough(&self, variant: VariantId) -> bool {
        self.needed
            .is_some_and(|needed| self.passes_since(variant) >= needed)
    }

    /// Returns whether the passing variants can no longer be decided, because the reference is not testable.
    fn is_lost(&self) -> bool {
        let is_testable = |id| self.state.is_testable(id);
        self.needed.is_none() && self.reference.is_some_and(|id| !is_testable(id))
    }

    fn standing_of(&self, variant: VariantId) -> VariantVerdict {
        let tally = self.state.tally_of(variant);
        let enough = self.is_enough(variant);
        if tally.failures > 0 {
            VariantVerdict::Fails
        // Each failure whose evidence is missing may have been the bug.
        } else if enough && tally.trials_without_known_failure() == 0 {
            match self.floor {
                Some(_) => VariantVerdict::Clean,
                None => VariantVerdict::FailsLess,
            }
        } else if enough || self.state.is_testable(variant) {
            VariantVerdict::Open
        } else {
            VariantVerdict::Untestable
        }
    }

    /// Returns whether this variant is no longer launched.
    fn is_closed(&self, variant: VariantId) -> bool {
        let tally = self.state.tally_of(variant);
        let trial_limit = self.state.stop.trials;
        let is_known = if tally.failures > 0 {
            self.reference != Some(variant) || self.needed.is_some()
        } else {
            self.is_enough(variant) || self.is_lost()
        };
        // If most of its trials show other failures, it would never pass often enough.
        let given_up = tally.other >= FEW_OTHERS.max(2 * tally.passes);
        is_known
            || given_up
            || trial_limit.is_some_and(|limit| tally.finished_trials() >= limit)
            || !self.state.is_testable(variant)
    }
}

/// Returns the counts of a variant since its first failure, until it had failed often enough again: trials that were
/// running then count for the variant, but not here.
fn since_chosen(tally: &Tally, enough: u64) -> MeasuredBaseline {
    let (_, earlier_trials) = tally.early_failures[0];
    let last = usize::try_from(enough).unwrap_or(usize::MAX);
    let end = tally.early_failures.get(last);
    let (failures, trials) = match end {
        Some((_, trials)) => (enough, *trials),
        None => (tally.failures - 1, tally.counted_trials()),
    };
    MeasuredBaseline {
        failures,
        trials: trials - earlier_trials,
        ..MeasuredBaseline::default()
    }
}

impl RacePolicy {
    /// Returns the result of every variant.
    pub fn all_standings(state: &State) -> Vec<VariantVerdict> {
        let course = RaceProgress::of_state(state);
        let tallies = state.all_tallies();
        tallies.map(|(id, _)| course.standing_of(id)).collect()
    }

    /// Returns the failures and trials of the reference, and its variant if the reference was not given.
    pub fn reference_counts(state: &State) -> Option<(MeasuredBaseline, Option<VariantId>)> {
        let course = RaceProgress::of_state(state);
        Some((course.baseline?, course.reference))
    }

    /// Returns the required number of passes, once it is known.
    pub fn needed_passes(state: &State) -> Option<u64> {
        RaceProgress::of_state(state).needed
    }
}

impl Policy for RacePolicy {
    fn next_step(&self, state: &State) -> Step {
        let course = RaceProgress::of_state(state);
        let ids = || state.all_tallies().map(|(id, _)| id);
        let open = |id: &VariantId| !course.is_closed(*id);
        let candidate = |id: &VariantId| state.tally_of(*id).failures == 0 && open(id);
        // A reference is useful only while some variants have not failed.
        if !ids().any(|id| candidate(&id)) {
            return Step::Done;
        }
        let trial_limit = state.stop.trials.unwrap_or(u64::MAX);
        let room = |id: &VariantId| {
            let aside = state.tally_of(*id).other + course.passes_before(*id);
            let wanted_trials = course.needed.unwrap_or(u64::MAX).saturating_add(aside);
            state.expected_trials(*id) < wanted_trials.min(trial_limit)
        };
        step_in_block(state, ids().filter(|id| open(id) && room(id)))
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        if nothing_counts(state) && trials_without_known_failure(state) == 0 {
            return Verdict::CouldNotTest;
        }
        let course = RaceProgress::of_state(state);
        let standings: Vec<VariantVerdict> = state
            .all_tallies()
            .map(|(id, _)| course.standing_of(id))
            .collect();
        let needed = course.needed.is_some();
        let has_verdict = |verdict| standings.contains(&verdict);
        let any_passed = standings.iter().any(|standing| standing.has_passed());
        match () {
            () if has_verdict(VariantVerdict::Fails) && any_passed => Verdict::Different,
            () if has_verdict(VariantVerdict::Fails) && has_verdict(VariantVerdict::Open) => {
                Verdict::Undecided
            }
            () if has_verdict(VariantVerdict::Fails) => Verdict::Failing,
            () if !state.stage.is_finished() || trials_without_known_failure(state) > 0 => {
                Verdict::Undecided
            }
            // This applies to the testable variants only.
            () if has_verdict(VariantVerdict::Untestable) => Verdict::Undecided,
            // The time budget ended the race, or the reference rate was never established.
            () if has_verdict(VariantVerdict::Open)
                && (state.stage.is_budget_spent() || needed) =>
            {
                Verdict::Undecided
            }
            () => Verdict::Clean,
        }
    }

    fn stop_rule(&self, state: &State, variant: VariantId) -> StopRule {
        let trial_limit = state.stop.trials;
        let ran = state.tally_of(variant).finished_trials();
        match RaceProgress::of_state(state).standing_of(variant) {
            VariantVerdict::Fails => StopRule::KthFailure,
            VariantVerdict::FailsLess | VariantVerdict::Clean => StopRule::PlannedN,
            _ if trial_limit.is_some_and(|limit| ran >= limit) => StopRule::at_the_limit(state),
            _ => StopRule::from_outside(state),
        }
    }

    fn remaining_trials(&self, state: &State) -> Option<u64> {
        let course = RaceProgress::of_state(state);
        let needed = course.needed?;
        let open = state.all_tallies().filter(|(id, _)| !course.is_closed(*id));
        Some(
            open.map(|(id, _)| needed.saturating_sub(course.passes_since(id)))
                .sum(),
        )
    }
}
