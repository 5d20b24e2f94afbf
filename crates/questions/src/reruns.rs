//! Runs each failing case of a suite alone after the measurement, to see whether it fails without the other cases.
//!
//! These trials are counted separately: a case that is chosen because it failed, and that runs under other conditions,
//! does not change the measured rate.

use super::{CapturePolicy, Step};
use provoke_model::{CaseEnd, CaseName, VariantId};
use provoke_state::State;
use std::cmp::Reverse;

/// Maximum number of cases of a variant that run alone; those with the most failures are chosen.
const MOST_CASES: usize = 20;
/// Number of trials of a case without a result after which it is given up.
const INCONCLUSIVE_LIMIT: u64 = 2;

/// Runs failing cases alone.
pub struct RerunPolicy;

impl RerunPolicy {
    /// Returns whether the completed measurement saw cases fail that are to run alone.
    pub fn is_wanted(state: &State) -> bool {
        !state.stage.runs_extra_trials() && Self::next_case(state).is_some()
    }

    /// Returns the cases of a variant that run alone, and the number of failing cases that are left out.
    pub fn chosen_cases(state: &State, variant: VariantId) -> (Vec<u32>, usize) {
        let is_searched = |number: u32| {
            let mut patterns = state.trials.rules.searched_cases().peekable();
            let name = state.case_names.name_of(number);
            patterns.peek().is_none()
                || name.is_some_and(|name| patterns.any(|pattern| pattern.matches_case(name)))
        };
        let failing = state.tally_of(variant).suite.failing_cases();
        let mut ranked: Vec<(bool, u64, u32)> = failing
            .filter(|(number, _)| is_searched(*number))
            .map(|(number, case)| {
                let crashes = case.count_of(CaseEnd::Crashed) > 0;
                (crashes, case.failures(), number)
            })
            .collect();
        ranked.sort_by_key(|(crashes, failures, number)| {
            (Reverse(*crashes), Reverse(*failures), *number)
        });
        let left_out = ranked.len().saturating_sub(MOST_CASES);
        ranked.truncate(MOST_CASES);
        let numbers = ranked.into_iter().map(|(_, _, number)| number);
        (numbers.collect(), left_out)
    }

    /// Returns the numbers of completed and of planned trials.
    pub fn completed_and_planned(state: &State) -> (u64, u64) {
        let wanted = wanted_reruns(state);
        all_cases(state).fold((0, 0), |(completed, planned), (variant, number)| {
            let counts = state.isolated_counts(variant, number);
            let done = counts.completed().min(wanted);
            let is_given_up = is_given_up(state, variant, number);
            (
                completed + done,
                planned + if is_given_up { done } else { wanted },
            )
        })
    }

    /// Returns the case that the next trial runs alone.
    pub fn next_case(state: &State) -> Option<(VariantId, CaseName)> {
        let wanted = wanted_reruns(state);
        let (variant, number) = all_cases(state)
            .filter(|(variant, number)| {
                let counts = state.isolated_counts(*variant, *number);
                counts.completed() + counts.underway < wanted
                    && !is_given_up(state, *variant, *number)
            })
            .min_by_key(|(variant, number)| {
                let counts = state.isolated_counts(*variant, *number);
                counts.completed() + counts.underway
            })?;
        Some((variant, state.case_names.name_of(number)?.clone()))
    }

    fn next_step(state: &State) -> Step {
        match Self::next_case(state) {
            Some((variant, _)) => Step::Launch(variant),
            None => Step::wait_or_done(state),
        }
    }
}

/// Returns the next step after the measurement: a failing case runs alone, or a trial captures evidence.
pub fn next_extra_step(state: &State) -> Step {
    if state.stage.reruns_tests() {
        RerunPolicy::next_step(state)
    } else {
        CapturePolicy.next_step(state)
    }
}

fn wanted_reruns(state: &State) -> u64 {
    let cases = state.trials.cases.as_ref();
    cases.map_or(0, |cases| u64::from(cases.reruns))
}

fn all_cases(state: &State) -> impl Iterator<Item = (VariantId, u32)> {
    let is_wanted = wanted_reruns(state) > 0;
    let variants = state.all_tallies().map(|(id, _)| id);
    variants
        .filter(move |id| is_wanted && state.is_testable(*id))
        .flat_map(|id| {
            let (numbers, _) = RerunPolicy::chosen_cases(state, id);
            numbers.into_iter().map(move |number| (id, number))
        })
}

/// Returns whether the first trials of a case had no result: the runner does not find it, for example.
fn is_given_up(state: &State, variant: VariantId, number: u32) -> bool {
    let counts = state.isolated_counts(variant, number);
    counts.passes + counts.failures == 0 && counts.without_result >= INCONCLUSIVE_LIMIT
}
