//! Finds what an earlier run found out about failing trials of the same program.

use super::earlier_runs::{facts_of_start, make_side};
use super::stored_runs::read_state;
use provoke_journal as journal;
use provoke_journal::{RunFolder, default_root};
use provoke_model::VariantId;
use provoke_questions as questions;
use provoke_state::State;
use provoke_survey::{TrialSimilarity, compare_variants};
use provoke_words as words;

/// Returns the answer of the newest search for differences in trials like those of a variant: of the same program, built in
/// the same way, under the same conditions.
pub(super) fn find_difference(state: &State, variant: VariantId) -> Option<String> {
    let mut runs = RunFolder::all_runs(&default_root()).unwrap_or_default();
    runs.reverse();
    runs.iter()
        .filter(|folder| is_like(folder, state, variant))
        .find_map(|folder| {
            let found = read_state(folder).ok()?;
            let sentence = questions::found_difference(&found)?;
            let run = folder.shortest_reference(&default_root());
            let sentence = words::sanitize_line(&sentence);
            Some(format!("{sentence} (provoke differ, run {run})"))
        })
}

/// Returns whether a run searched for differences in trials like those of a variant.
fn is_like(folder: &RunFolder, state: &State, variant: VariantId) -> bool {
    let Ok(start) = journal::read_start(&folder.journal_path()) else {
        return false;
    };
    let here = make_side(&state.trials, &state.origin.host, &state.origin.survey);
    let is_same = matches!(
        compare_variants((here, variant), (facts_of_start(&start), VariantId(0))),
        TrialSimilarity::Same(_)
    );
    start.plan.goal.question.as_differ().is_some()
        && is_same
        && folder.clone().check_trust(false).is_ok()
}
