//! Separate bugs of a baseline, each of which a fix must remove.

use super::{KnownBug, MeasuredBaseline};

impl MeasuredBaseline {
    /// Returns the bugs of the baseline with their failures, if there are several. Bugs that share a name are one.
    pub fn separate_bugs(&self) -> Vec<KnownBug> {
        let mut bugs = separate_bugs(&self.bugs);
        bugs.retain(|bug| bug.failures > 0);
        if bugs.len() < 2 { Vec::new() } else { bugs }
    }

    /// Returns the number of trials in which the failures of [`Self::separate_bugs`] were counted.
    pub fn trials_of_bugs(&self) -> u64 {
        self.runs.first().map_or(self.trials, |run| run.trials)
    }

    /// Returns the rarest of several separate bugs.
    pub fn rarest_bug(&self) -> Option<KnownBug> {
        self.separate_bugs()
            .into_iter()
            .min_by_key(|bug| bug.failures)
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
    use crate::SignatureId;

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
    fn a_fix_is_compared_with_the_rarest_of_separate_bugs() {
        let base = baseline(&[
            bug("often", &[1], 29),
            bug("seldom", &[2], 2),
            bug("seldom", &[2], 1),
        ]);
        assert_eq!(base.rarest_bug().unwrap().title, "seldom");
        assert_eq!(base.reference_counts(), (3, 100));
    }

    #[test]
    fn a_trial_in_which_two_tests_failed_counts_for_both() {
        let base = baseline(&[
            bug("a", &[1], 20),
            bug("a, b", &[3, 1, 2], 1),
            bug("b", &[2], 4),
        ]);
        let rarest = base.rarest_bug().unwrap();
        assert_eq!((rarest.title.as_str(), rarest.failures), ("b", 5));
    }

    #[test]
    fn a_single_bug_is_compared_with_all_of_its_failures() {
        let base = baseline(&[bug("exit 1", &[1], 3), bug("exit 1", &[1], 2)]);
        assert_eq!(base.rarest_bug(), None);
        assert_eq!(base.reference_counts(), (5, 100));
    }
}
