//! Tells the failure of an answer from the other failures of its trials.

use super::examined_failure::ExaminedFailure;
use crate::FailureCounts;
use provoke_model::VariantId;
use provoke_state::{SignatureFailures, State, Tally};

/// Failures in trials of the answer that are not the failure of the answer, and the most frequent one.
pub(super) struct OtherFailures {
    with_hold: Option<(FailureCounts, String)>,
    plain: Option<(FailureCounts, String)>,
}

impl OtherFailures {
    pub(super) fn new(state: &State, failure: Option<&ExaminedFailure>) -> Self {
        let plain = state.tally_of(VariantId(0));
        let held_tally = state.held_tally(VariantId(0));
        let with_hold = match failure {
            Some(failure) => counts_of_others(failure.others.count(), failure.held.trials)
                .zip(failure.others.title().map(str::to_owned)),
            None => counts_of_others(held_tally.other, held_tally.finished_trials())
                .zip(held_tally.title_of_others()),
        };
        let plain_others = plain
            .groups
            .values()
            .filter(|group| !is_examined_failure(group, failure));
        let count = plain_others.clone().map(|group| group.trials.len() as u64);
        let most_frequent = plain_others.max_by_key(|group| group.trials.len());
        Self {
            with_hold,
            plain: counts_of_others(count.sum(), plain.finished_trials())
                .zip(most_frequent.map(|group| group.signature.title.clone())),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.with_hold.is_none() && self.plain.is_none()
    }

    pub(super) fn in_words(&self) -> String {
        let places = [
            (&self.with_hold, "with the thread held"),
            (&self.plain, "without a hold"),
        ];
        let describe = |(others, place): (&Option<(FailureCounts, String)>, _)| {
            let (counts, title) = others.as_ref()?;
            let counts_text = counts.in_words();
            Some(format!(
                "; {place}, it failed in another way in {counts_text}: {title}"
            ))
        };
        let texts: Vec<String> = places.into_iter().filter_map(describe).collect();
        texts.concat()
    }
}

fn counts_of_others(failures: u64, trials: u64) -> Option<FailureCounts> {
    (failures > 0).then_some(FailureCounts { failures, trials })
}

/// Returns whether failures are the bug, and the failure that happens more often under the hold, if one is known.
pub(super) fn is_examined_failure(
    group: &SignatureFailures,
    failure: Option<&ExaminedFailure>,
) -> bool {
    let is_covered = |failure: &ExaminedFailure| failure.name.covers(&group.to_failure());
    group.is_the_bug && failure.is_none_or(is_covered)
}

/// Returns the counted trials and their failures, of the failure that happens more often under the hold if one is known.
pub(super) fn count_failure(tally: &Tally, failure: Option<&ExaminedFailure>) -> FailureCounts {
    let examined = tally.groups.values();
    let examined = examined.filter(|group| is_examined_failure(group, failure));
    FailureCounts {
        failures: examined.map(|group| group.trials.len() as u64).sum(),
        trials: tally.counted_trials(),
    }
}
