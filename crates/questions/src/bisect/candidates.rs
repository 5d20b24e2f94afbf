//! Names and reports the candidates of a search.

use super::{BisectPolicy, BisectProgress};
use crate::{Policy as _, Reproduction, Verdict};
use provoke_model::{AlternatingSection, Candidate};
use provoke_state::State;
use serde::Serialize;

/// Untested candidates below this probability are left out.
const UNLIKELY: f64 = 0.005;

/// One candidate of a search.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CandidateReport {
    /// Its position in the list, from 0.
    #[serde(rename = "position")]
    pub place: u64,
    /// Its name.
    pub name: String,
    /// A description, if the name is not one: the subject of a commit.
    pub about: Option<String>,
    /// Counted trials.
    pub trials: u64,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Trials that failed in another way; not counted.
    pub other: u64,
    /// The most frequent of these other failures; null without any.
    pub other_failure: Option<String>,
    /// The probability that it is the first bad one.
    pub probability: f64,
    /// Why it is not testable.
    pub untestable: Option<String>,
}

impl CandidateReport {
    /// Returns the failure of a candidate that only failed in another way.
    pub(super) fn only_failure(&self) -> Option<&str> {
        if self.trials == 0 {
            self.other_failure.as_deref()
        } else {
            None
        }
    }
}

/// Returns the section of a longer list that is searched.
pub(super) fn searched_section(state: &State) -> Option<&AlternatingSection> {
    state.trials.space.as_ref()?.section.as_ref()
}

/// Returns whether a fix is searched instead of a bug.
pub(super) fn is_fixed(state: &State) -> bool {
    state
        .goal
        .question
        .as_bisect()
        .is_some_and(|question| question.fixed)
}

/// Returns the noun for the candidates: commits have a subject.
pub(super) fn candidate_noun(state: &State) -> &'static str {
    let is_commit = |candidate: &Candidate| candidate.about.is_some();
    if candidates_of(state).iter().any(is_commit) {
        "commit"
    } else {
        "version"
    }
}

/// Returns the candidates, the good end first.
pub(super) fn candidates_of(state: &State) -> &[Candidate] {
    let space = state.trials.space.as_ref();
    space.map_or(&[], |space| space.choices.as_candidates())
}

/// Returns the names of the good end and of the bad one.
pub(super) fn end_names(state: &State) -> (&str, &str) {
    match candidates_of(state) {
        [first, .., last] => (&first.name, &last.name),
        _ => ("", ""),
    }
}

/// Returns the failures and the trials of a candidate without the counts of earlier runs.
pub(super) fn own_counts(state: &State, search: &BisectProgress, index: usize) -> (u64, u64) {
    let (failures, trials) = search.bisection.failures_and_runs(index);
    if state.variant_at_place(index) != Some(State::FAILING) {
        return (failures, trials);
    }
    let reproduction = Reproduction::of_state(state);
    let (earlier_failures, earlier_trials) = reproduction.map_or((0, 0), |reproduction| {
        reproduction.counted_earlier(&state.goal)
    });
    (
        failures.saturating_sub(earlier_failures),
        trials.saturating_sub(earlier_trials),
    )
}

/// Reports the candidates that were tested, and those that may be the answer.
pub(super) fn candidates_seen(
    state: &State,
    search: &BisectProgress,
    masses: &[f64],
) -> Vec<CandidateReport> {
    let candidates = candidates_of(state);
    let last = candidates.len() - 1;
    // Without a culprit, its probability is not shown.
    let searched = BisectPolicy.verdict_of(state) != Verdict::NotThere;
    let candidate_of = |(index, Candidate { name, about }): (usize, &Candidate)| {
        let variant = state.variant_at_place(index);
        let (failures, trials) = own_counts(state, search, index);
        let reason = variant.and_then(|id| state.untestable.get(&id));
        let point = CandidateReport {
            place: index as u64,
            name: name.clone(),
            about: about.clone(),
            trials,
            failures,
            other: variant.map_or(0, |id| state.tally_of(id).other),
            other_failure: variant.and_then(|id| state.tally_of(id).title_of_others()),
            probability: match masses.get(index) {
                Some(mass) if searched => *mass,
                _ => 0.0,
            },
            untestable: reason.cloned(),
        };
        let tells = point.trials > 0
            || point.probability >= UNLIKELY && searched
            || point.untestable.is_some()
            || point.other > 0
            || index == 0
            || index == last;
        tells.then_some(point)
    };
    candidates
        .iter()
        .enumerate()
        .filter_map(candidate_of)
        .collect()
}
