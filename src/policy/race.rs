//! `compare`, if some variants may not fail at all: finds the variants that fail.
//!
//! Variants take turns in shuffled blocks. A variant that fails is known to fail, and leaves. What a
//! variant needs to leave without a failure depends on the question:
//!
//! * With a floor, it is clean after enough passes: a variant that fails at the floor, or more
//!   often, would rarely pass that many times. That holds for any rates of the variants.
//! * Without one, it fails less often than a reference, if at all. That is all that few passes can
//!   show: a variant that fails at 3 % passes four times as a clean one does. The reference is a
//!   baseline that was given, or the variant that failed first: that one continues until it has
//!   failed often enough *again*. Earlier trials count on neither side, because it was
//!   chosen for having failed while the others had not.

use super::blocks::next_in_block;
use super::{Policy, Step, StopRule, Verdict, nothing_counts, untold};
use crate::model::{Measured, Question, VariantId};
use crate::state::{State, Tally};
use provoke_stats::{
    cheapest_baseline, clean_runs_at_known_rate, clean_runs_needed_effective, race_alpha,
};

/// So many trials may fail otherwise in any case, before a variant is given up.
const FEW_OTHERS: u64 = 20;

/// Runs every variant until it has failed, or has passed often enough.
pub struct Race;

/// The result for one variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
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

impl Standing {
    /// True when a variant passed often enough to leave.
    pub fn passed(self) -> bool {
        matches!(self, Self::FailsLess | Self::Clean)
    }
}

/// What a race rests on.
struct Course<'a> {
    state: &'a State,
    /// The rate, in millionths, from which on a variant is said to fail.
    floor: Option<u32>,
    /// The failures and trials that clean variants are held against, as far as they are known.
    baseline: Option<Measured>,
    /// Whose these are, where they were not given.
    reference: Option<VariantId>,
    /// How often each variant had passed when that one was chosen.
    passed_before: &'a [u64],
    /// The clean trials that are enough, once that is known.
    needed: Option<u64>,
}

impl<'a> Course<'a> {
    fn of(state: &'a State) -> Self {
        let asked = match &state.plan.question {
            Question::Compare(compare) => Some(compare),
            _ => None,
        };
        match asked.and_then(|asked| asked.floor) {
            Some(floor) => Self::with_floor(state, floor),
            None => Self::with_reference(
                state,
                asked.and_then(|asked| asked.baseline.as_deref().cloned()),
            ),
        }
    }

    /// Each variant is judged alone, and each may be wrongly called clean.
    fn with_floor(state: &'a State, floor: u32) -> Self {
        let variants = state.plan.variants.len() as u64;
        let level = race_alpha(variants + 1, state.plan.alpha.value());
        Self {
            state,
            floor: Some(floor),
            baseline: None,
            reference: None,
            passed_before: &[],
            needed: clean_runs_at_known_rate(f64::from(floor) / 1e6, level),
        }
    }

    fn with_reference(state: &'a State, given: Option<Measured>) -> Self {
        let variants = state.plan.variants.len() as u64;
        // Measured on the way, the baseline is that of one of them, which is not judged by it.
        let judged_by = if given.is_some() {
            variants + 1
        } else {
            variants
        };
        let level = race_alpha(judged_by, state.plan.alpha.value());
        let first = state.first_failure.as_ref().filter(|_| given.is_none());
        let reference = first.map(|first| first.variant);
        let enough = match reference {
            None => 0,
            Some(id) if state.is_testable(id) => cheapest_baseline(level),
            // It will never fail more often than it has.
            Some(id) => (state.tally(id).failures - 1).clamp(1, cheapest_baseline(level)),
        };
        let measured = reference.map(|id| since_chosen(state.tally(id), enough));
        let baseline = given.or(measured);
        let known = baseline.as_ref().filter(|base| base.failures >= enough);
        let needed = known.and_then(|base| {
            let (failures, trials) = base.counts();
            clean_runs_needed_effective(failures, trials, base.effect(), level)
        });
        Self {
            state,
            floor: None,
            baseline,
            reference,
            passed_before: first.map_or(&[], |first| &first.passes),
            needed,
        }
    }

    /// Returns how often a variant had passed when it began to count.
    fn before(&self, variant: VariantId) -> u64 {
        self.passed_before
            .get(variant.index())
            .copied()
            .unwrap_or(0)
    }

    /// Returns how often a variant has passed since that began to count.
    fn clean(&self, variant: VariantId) -> u64 {
        self.state.tally(variant).passes - self.before(variant)
    }

    fn is_enough(&self, variant: VariantId) -> bool {
        self.needed
            .is_some_and(|needed| self.clean(variant) >= needed)
    }

    /// True when nothing more can be known of the variants that pass: the reference can
    /// no longer be tried.
    fn is_lost(&self) -> bool {
        let tried = |id| self.state.is_testable(id);
        self.needed.is_none() && self.reference.is_some_and(|id| !tried(id))
    }

    fn standing(&self, variant: VariantId) -> Standing {
        let tally = self.state.tally(variant);
        let enough = self.is_enough(variant);
        if tally.failures > 0 {
            Standing::Fails
        // Each trial of which it is not known may have been a failure.
        } else if enough && tally.untold() == 0 {
            match self.floor {
                Some(_) => Standing::Clean,
                None => Standing::FailsLess,
            }
        } else if enough || self.state.is_testable(variant) {
            Standing::Open
        } else {
            Standing::Untestable
        }
    }

    /// True when this one is no longer launched.
    fn is_closed(&self, variant: VariantId) -> bool {
        let tally = self.state.tally(variant);
        let all = self.state.plan.stop.trials;
        let known = if tally.failures > 0 {
            self.reference != Some(variant) || self.needed.is_some()
        } else {
            self.is_enough(variant) || self.is_lost()
        };
        // Most of its trials fail otherwise: it would never pass often enough.
        let given_up = tally.other >= FEW_OTHERS.max(2 * tally.passes);
        known
            || given_up
            || all.is_some_and(|all| tally.ran() >= all)
            || !self.state.is_testable(variant)
    }
}

/// Returns what a variant did since its first failure, until it had failed often enough again:
/// what was under way then is counted for it, but not here.
fn since_chosen(tally: &Tally, enough: u64) -> Measured {
    let (_, before) = tally.early_failures[0];
    let last = usize::try_from(enough).unwrap_or(usize::MAX);
    let end = tally.early_failures.get(last);
    let (failures, trials) = match end {
        Some((_, trials)) => (enough, *trials),
        None => (tally.failures - 1, tally.trials()),
    };
    Measured {
        failures,
        trials: trials - before,
        ..Measured::default()
    }
}

impl Race {
    /// Returns what is known of every variant.
    pub fn standings(state: &State) -> Vec<Standing> {
        let course = Course::of(state);
        let all = state.tallies();
        all.map(|(id, _)| course.standing(id)).collect()
    }

    /// Returns the failures and trials of the reference, and the variant that it is, where they were
    /// not given.
    pub fn baseline(state: &State) -> Option<(Measured, Option<VariantId>)> {
        let course = Course::of(state);
        Some((course.baseline?, course.reference))
    }

    /// Returns how many passes are enough, once that is known.
    pub fn needed(state: &State) -> Option<u64> {
        Course::of(state).needed
    }
}

impl Policy for Race {
    fn next(&self, state: &State) -> Step {
        let course = Course::of(state);
        let ids = || state.tallies().map(|(id, _)| id);
        let open = |id: &VariantId| !course.is_closed(*id);
        let candidate = |id: &VariantId| state.tally(*id).failures == 0 && open(id);
        // A reference is of use only to variants that have not failed.
        if !ids().any(|id| candidate(&id)) {
            return Step::Done;
        }
        if state.budget_spent {
            return Step::finish(state);
        }
        let all = state.plan.stop.trials.unwrap_or(u64::MAX);
        let room = |id: &VariantId| {
            let aside = state.tally(*id).other + course.before(*id);
            let wanted = course.needed.unwrap_or(u64::MAX).saturating_add(aside);
            state.underway(*id) < wanted.min(all)
        };
        let next = next_in_block(state, ids().filter(|id| open(id) && room(id)));
        next.map_or(Step::Wait, Step::Launch)
    }

    fn verdict(&self, state: &State) -> Verdict {
        if nothing_counts(state) && untold(state) == 0 {
            return Verdict::CouldNotTest;
        }
        let course = Course::of(state);
        let standings = state.tallies().map(|(id, _)| course.standing(id));
        let standings: Vec<Standing> = standings.collect();
        let needed = course.needed.is_some();
        let any = |wanted| standings.contains(&wanted);
        let any_passed = standings.iter().any(|standing| standing.passed());
        match () {
            () if any(Standing::Fails) && any_passed => Verdict::Different,
            () if any(Standing::Fails) && any(Standing::Open) => Verdict::Undecided,
            () if any(Standing::Fails) => Verdict::Failing,
            () if !state.finished || untold(state) > 0 => Verdict::Undecided,
            // None of those that could be tried, that is.
            () if any(Standing::Untestable) => Verdict::Undecided,
            // Time ends where it ends, and a rate to be held against was not reached.
            () if any(Standing::Open) && (state.budget_spent || needed) => Verdict::Undecided,
            () => Verdict::Clean,
        }
    }

    fn stop_rule(&self, state: &State, variant: VariantId) -> StopRule {
        let all = state.plan.stop.trials;
        let ran = state.tally(variant).ran();
        match Course::of(state).standing(variant) {
            Standing::Fails => StopRule::KthFailure,
            Standing::FailsLess | Standing::Clean => StopRule::PlannedN,
            _ if all.is_some_and(|all| ran >= all) => StopRule::at_the_limit(state),
            _ => StopRule::from_outside(state),
        }
    }

    fn left(&self, state: &State) -> Option<u64> {
        let course = Course::of(state);
        let needed = course.needed?;
        let open = state.tallies().filter(|(id, _)| !course.is_closed(*id));
        Some(
            open.map(|(id, _)| needed.saturating_sub(course.clean(id)))
                .sum(),
        )
    }
}
