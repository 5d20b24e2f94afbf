//! Holds the trials that are chosen together.
//!
//! A decision depends on whole blocks only, so the order in which the trials of a block end does not matter.

/// Trials that are chosen together, and their outcomes.
#[derive(Debug, Clone)]
pub(super) struct Block<T> {
    sets: Vec<Vec<usize>>,
    outcomes: Vec<Option<T>>,
}

impl<T> Block<T> {
    pub(super) fn new(sets: Vec<Vec<usize>>) -> Self {
        let outcomes = sets.iter().map(|_| None).collect();
        Self { sets, outcomes }
    }

    /// Returns the conditions of the first trial that neither ended nor runs.
    pub(super) fn next_set(&self, running: &[Vec<usize>]) -> Option<&Vec<usize>> {
        let mut in_flight: Vec<&Vec<usize>> = running.iter().collect();
        let mut open = self.sets.iter().zip(&self.outcomes);
        open.find_map(|(set, outcome)| {
            if outcome.is_some() {
                return None;
            }
            match in_flight.iter().position(|other| *other == set) {
                Some(index) => {
                    in_flight.swap_remove(index);
                    None
                }
                None => Some(set),
            }
        })
    }

    /// Adds the outcome of the first open trial under these conditions; returns whether there was one.
    pub(super) fn record(&mut self, set: &[usize], outcome: T) -> bool {
        let mut trials = self.sets.iter().zip(&mut self.outcomes);
        let open = trials.find(|(planned, ended)| *planned == set && ended.is_none());
        if let Some((_, ended)) = open {
            *ended = Some(outcome);
            return true;
        }
        false
    }

    /// Returns whether all trials ended.
    pub(super) fn is_complete(&self) -> bool {
        self.outcomes.iter().all(Option::is_some)
    }

    /// Returns the number of trials.
    pub(super) fn size(&self) -> usize {
        self.sets.len()
    }

    /// Returns the trials that ended, in the planned order.
    pub(super) fn into_ended(self) -> impl Iterator<Item = (Vec<usize>, T)> {
        let trials = self.sets.into_iter().zip(self.outcomes);
        trials.filter_map(|(set, outcome)| Some((set, outcome?)))
    }
}
