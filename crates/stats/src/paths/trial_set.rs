//! A set of trials, by their indices.

/// A set of trials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TrialSet(Vec<u64>);

impl TrialSet {
    /// Returns the set of the trials for which a condition holds.
    pub(super) fn new(is_member: impl IntoIterator<Item = bool>) -> Self {
        let mut words = Vec::new();
        for (trial, is_member) in is_member.into_iter().enumerate() {
            if trial % 64 == 0 {
                words.push(0);
            }
            words[trial / 64] |= u64::from(is_member) << (trial % 64);
        }
        Self(words)
    }

    pub(super) fn contains(&self, trial: usize) -> bool {
        self.0[trial / 64] >> (trial % 64) & 1 == 1
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| ones(*word)).sum()
    }

    /// Returns the number of trials that are in both sets.
    pub(super) fn count_common(&self, other: &Self) -> usize {
        let words = self.0.iter().zip(&other.0);
        words.map(|(word, other)| ones(word & other)).sum()
    }

    /// Returns the set of those of the given trials that are members, renumbered.
    pub(super) fn project(&self, trials: &[usize]) -> Self {
        Self::new(trials.iter().map(|trial| self.contains(*trial)))
    }
}

fn ones(word: u64) -> usize {
    usize::try_from(word.count_ones()).expect("at most 64")
}
