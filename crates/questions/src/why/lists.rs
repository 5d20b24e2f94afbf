//! Lists conditions in sentences, and says how often to repeat trials under them.

use crate::FailureCounts;
use provoke_stats::real;
use provoke_words as words;

/// Conditions that a sentence lists.
const LISTED: usize = 4;

/// Lists conditions that have an effect without the others.
pub(super) fn list_each(names: &[&str]) -> String {
    match names {
        [] | [_] => list_names(names),
        _ => format!("each of {}", list_names(names)),
    }
}

pub(super) fn list_names(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [others @ .., last] if names.len() <= LISTED => format!("{} and {last}", others.join(", ")),
        _ => words::list_first(names, LISTED),
    }
}

/// Returns how many trials show a failure with a probability of 95 %, at the measured rate; at least 5.
pub(super) fn trials_to_reproduce(counts: FailureCounts) -> u64 {
    let rate = real(counts.failures) / real(counts.trials.max(1));
    let trials = provoke_stats::clean_runs_at_known_rate(rate, 0.05);
    trials.unwrap_or_default().max(5)
}
