//! Continues a search inside the merge commit that a search found.

use provoke_model::{BugFilter, Candidate, Plan, VariantChoices, trial_seed};
use provoke_prepare as prepare;
use provoke_questions::{BisectProgress, Verdict};
use provoke_report::Report;
use provoke_state::State;
use std::collections::BTreeMap;
use std::path::Path;

/// A merge that is the culprit.
pub(super) struct CulpritMerge {
    /// The commit.
    candidate: Candidate,
    /// The merged commits, as `BASE..TIP` for each branch.
    ranges: Vec<String>,
}

impl CulpritMerge {
    /// Returns the merge if it is the culprit.
    pub(super) fn from_answer(state: &State, report: &Report) -> Option<Self> {
        let space = state.trials.space.as_ref()?;
        let root = space.repository.as_ref()?;
        let name = report.answer.as_ref()?.text().deciding_variant()?;
        let ranges = prepare::merged_ranges(Path::new(root.as_os_str()), name);
        let mut candidates = space.choices.as_candidates().iter();
        let candidate = candidates.find(|candidate| candidate.name == name)?.clone();
        (!ranges.is_empty()).then_some(Self { candidate, ranges })
    }

    /// Returns the search of the merged commits within the remaining budget; `None` if it is not wanted, or not
    /// possible.
    pub(super) fn plan_merged_search(&self, state: &State, report: &Report) -> Option<Plan> {
        let [range] = self.ranges.as_slice() else {
            return None;
        };
        let mut plan = state.plan();
        let space = plan.trials.space.as_mut()?;
        if space.first_parent || report.verdict != Verdict::Found {
            return None;
        }
        let root = Path::new(space.repository.as_ref()?.as_os_str());
        let line = prepare::commit_line(root, range, false).ok()?;
        let mut candidates: Vec<Candidate> = line.commits.into_iter().map(Into::into).collect();
        let question = plan.goal.question.as_bisect_mut()?;
        if question.fixed {
            candidates.reverse();
        }
        space.choices = VariantChoices::Candidates(candidates);
        space.merge = Some(self.candidate.clone());
        // The counts and weights are for other candidates; the setting of this search is kept.
        question.search.keep_setting();
        (space.known, space.weights) = (Vec::new(), Vec::new());
        // A branch that does not fail in this many trials does not fail at the rate of the merge.
        let alpha = plan.goal.alpha.to_probability();
        let clean =
            BisectProgress::of_state(state).and_then(|search| search.clean_trials_needed(alpha));
        question.search.reproduce = question.search.reproduce.max(clean.unwrap_or(0));
        if plan.trials.rules.only.is_empty() && !question.search.any_failure {
            plan.trials.rules.only = searched_bugs(state);
        }
        with_what_is_left(plan, state)
    }

    /// Describes the next search.
    pub(super) fn describe_next(&self, goes_on: bool) -> String {
        let ranges = self.ranges.join(", or --git ");
        if goes_on {
            format!(
                "it is a merge: searching the commits that it brought, --git {ranges} (--first-parent stops here)"
            )
        } else {
            format!("it is a merge; to search the commits that it brought, use --git {ranges}")
        }
    }
}

/// Limits the plan of a following search to the remaining trials and time; returns `None` if none are left. It has
/// another seed, so its trials are not those of this search again, and the trials of this search count as earlier ones.
pub(super) fn with_what_is_left(mut plan: Plan, state: &State) -> Option<Plan> {
    let remaining =
        |limit: u64, spent: u64| limit.checked_sub(spent).filter(|remaining| *remaining > 0);
    if let Some(max) = plan.stop.trials {
        let ran = state
            .all_tallies()
            .map(|(_, tally)| tally.finished_trials())
            .sum();
        plan.stop.trials = Some(remaining(max, ran)?);
    }
    if let Some(max) = plan.stop.duration_us {
        let worked = u64::try_from(state.worked.as_micros()).unwrap_or(u64::MAX);
        plan.stop.duration_us = Some(remaining(max, worked)?);
    }
    plan.trials.seed = trial_seed(plan.trials.seed, state.next_id());
    Some(plan)
}

/// Returns the searched failures: a following search looks for the same ones.
pub(super) fn searched_bugs(state: &State) -> Vec<BugFilter> {
    let groups = state.tally_of(State::FAILING).groups.values();
    let bugs: BTreeMap<String, BugFilter> = groups
        .filter(|group| group.is_the_bug)
        .map(|group| (group.kind.name(), BugFilter::of_kind(&group.kind)))
        .collect();
    bugs.into_values().collect()
}
