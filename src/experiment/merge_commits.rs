//! Continues a search inside the merge commit that a search found.

use provoke_model::{Candidate, Plan};
use provoke_prepare as prepare;
use provoke_questions as questions;
use provoke_questions::Verdict;
use provoke_report::Report;
use provoke_state::State;
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
        let name = questions::deciding_variant(report.answer.as_ref()?)?;
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
        let space = state.trials.space.as_ref()?;
        if space.first_parent || report.verdict != Verdict::Found {
            return None;
        }
        let root = Path::new(space.repository.as_ref()?.as_os_str());
        let line = prepare::commit_line(root, range, false).ok()?;
        let candidates = line.commits.into_iter().map(Into::into).collect();
        questions::search_merged(state, self.candidate.clone(), candidates)
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
