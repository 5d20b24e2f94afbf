//! Finds the bug of a baseline that these passing trials alone do not exclude, because it is too rare.

use provoke_model::{KnownBug, MeasuredBaseline};
use provoke_stats as stats;
use provoke_words as words;
use serde::Serialize;

/// The rarest bug of a baseline with several ones, if it needs more passing trials than all of them together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RareBug {
    /// Its title.
    pub title: String,
    /// Its failures in the baseline.
    pub failures: u64,
    /// Trials of that baseline.
    pub trials: u64,
    /// Passing trials that show that this bug is fixed.
    pub clean_needed: u64,
}

impl RareBug {
    /// Returns the rarest bug of the baseline, if this number of passing trials is not enough for it.
    pub(super) fn of_baseline(base: &MeasuredBaseline, clean: u64, alpha: f64) -> Option<Self> {
        let trials = base.runs.first().map_or(base.trials, |run| run.trials);
        let bugs = separate_bugs(&base.bugs);
        if bugs.len() < 2 {
            return None;
        }
        let counted = bugs.into_iter().filter(|bug| bug.failures > 0);
        let rarest = counted.min_by_key(|bug| bug.failures)?;
        let clean_needed = stats::clean_runs_needed_effective(
            rarest.failures,
            trials,
            base.design_effect(),
            alpha,
        )?;
        (clean_needed > clean).then_some(Self {
            title: rarest.title,
            failures: rarest.failures,
            trials,
            clean_needed,
        })
    }

    /// States that this bug was tested together with others only.
    pub(super) fn describe(&self) -> String {
        format!(
            "the bugs of the baseline were tested together; the rarest one ({}: {} of {}) alone needs {}",
            words::sanitize_line(&self.title),
            self.failures,
            self.trials,
            words::format_count(self.clean_needed, "passing trial"),
        )
    }
}

/// Returns the bugs with all of their failures. A trial in which several tests failed counts for each of them. Bugs that share
/// a name are one: failures with different evidence can have the same cause.
fn separate_bugs(bugs: &[KnownBug]) -> Vec<KnownBug> {
    let contains =
        |bug: &KnownBug, other: &KnownBug| other.names.iter().all(|name| bug.names.contains(name));
    let is_of_several = |bug: &&KnownBug| {
        let mut others = bugs.iter();
        others.any(|other| contains(bug, other) && !contains(other, bug))
    };
    let mut separate: Vec<KnownBug> = Vec::new();
    for bug in bugs.iter().filter(|bug| !is_of_several(bug)) {
        match separate.iter_mut().find(|known| known.is_same(bug)) {
            Some(known) => {
                known.failures += bug.failures;
                known.names.extend(&bug.names);
            }
            None => separate.push(bug.clone()),
        }
    }
    for bug in bugs.iter().filter(is_of_several) {
        for known in separate.iter_mut().filter(|known| known.is_same(bug)) {
            known.failures += bug.failures;
        }
    }
    separate
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::SignatureId;

    fn bug(title: &str, names: &[u32], failures: u64) -> KnownBug {
        KnownBug {
            title: title.to_owned(),
            names: names.iter().copied().map(SignatureId).collect(),
            by_core: false,
            widest: SignatureId(0),
            failures,
        }
    }

    fn baseline(bugs: &[KnownBug]) -> MeasuredBaseline {
        MeasuredBaseline {
            failures: bugs.iter().map(|bug| bug.failures).sum(),
            trials: 100,
            bugs: bugs.to_vec(),
            ..MeasuredBaseline::default()
        }
    }

    #[test]
    fn the_rarest_bug_needs_as_many_trials_as_it_does_alone() {
        let base = baseline(&[
            bug("often", &[1], 29),
            bug("seldom", &[2], 2),
            bug("seldom", &[2], 1),
        ]);
        let rare = RareBug::of_baseline(&base, 50, 0.05).unwrap();
        assert_eq!((rare.title.as_str(), rare.failures), ("seldom", 3));
        let alone = stats::clean_runs_needed(3, 100, 0.05).unwrap();
        assert_eq!(rare.clean_needed, alone);
        assert_eq!(RareBug::of_baseline(&base, alone, 0.05), None);
    }

    #[test]
    fn a_trial_in_which_two_tests_failed_counts_for_both() {
        let base = baseline(&[
            bug("a", &[1], 20),
            bug("a, b", &[3, 1, 2], 1),
            bug("b", &[2], 4),
        ]);
        let rare = RareBug::of_baseline(&base, 1, 0.05).unwrap();
        assert_eq!((rare.title.as_str(), rare.failures), ("b", 5));
    }

    #[test]
    fn a_single_bug_is_not_tested_with_others() {
        let base = baseline(&[bug("exit 1", &[1], 3), bug("exit 1", &[1], 2)]);
        assert_eq!(RareBug::of_baseline(&base, 1, 0.05), None);
    }
}
