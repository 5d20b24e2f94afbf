//! Decides when a trial is late or hung, from the times of earlier trials.

use crate::model::{Timeout, VariantId};
use crate::state::{State, Times};
use std::collections::BTreeMap;
use std::time::Duration;

/// The automatic timeout before the first trial has passed.
const FIRST_TIMEOUT: Duration = Duration::from_secs(300);
/// The automatic timeout is at least this long before enough trials have passed ...
const EARLY_TIMEOUT: Duration = Duration::from_secs(60);
/// ... which are this many.
const PASSES_NEEDED: u64 = 5;
/// After that, a trial is hung if it takes this many times longer than the slowest one that passed ...
const HANGS: u32 = 20;
/// ... and at least this long.
const LEAST_TIMEOUT: Duration = Duration::from_secs(10);
/// A trial that takes this many times longer than the median is late ...
const LATE: u32 = 5;
/// ... and at least this long.
const LEAST_LATE: Duration = Duration::from_secs(1);
/// A trial is late after this time while the median is not known.
const LATE_AT_FIRST: Duration = LEAST_TIMEOUT;

/// The times of passing trials in the order in which they end. The tallies of the state wait for trials that were
/// launched earlier, and one of those may hang.
#[derive(Default)]
pub(super) struct Pace {
    passes: BTreeMap<VariantId, Times>,
}

impl Pace {
    pub(super) fn add_pass(&mut self, variant: VariantId, time: Duration) {
        self.passes.entry(variant).or_default().add(time);
    }

    /// Returns after which time a trial is late, if that is known from trials that passed.
    pub(super) fn known_to_be_late_after(&self, state: &State) -> Option<Duration> {
        let medians = self.known(state).filter_map(|times| times.quantile(0.5));
        Some((medians.max()? * LATE).max(LEAST_LATE))
    }

    /// Returns after which time a trial is late.
    pub(super) fn late_after(&self, state: &State) -> Duration {
        self.known_to_be_late_after(state).unwrap_or(LATE_AT_FIRST)
    }

    /// Returns after which time a trial is hung.
    pub(super) fn timeout(&self, state: &State) -> Duration {
        match state.plan.timeout {
            Timeout::After(time) => time,
            Timeout::Auto => {
                let slowest =
                    |times: &mut dyn Iterator<Item = &Times>| times.filter_map(Times::max).max();
                let early = || slowest(&mut self.passes(state));
                match slowest(&mut self.known(state)) {
                    Some(slowest) => (slowest * HANGS).max(LEAST_TIMEOUT),
                    None => early().map_or(FIRST_TIMEOUT, |slowest| {
                        (slowest * HANGS).clamp(EARLY_TIMEOUT, FIRST_TIMEOUT)
                    }),
                }
            }
        }
    }

    /// Returns the times of the variants that passed often enough. A resumed run has passes that only the state knows.
    fn known<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a Times> {
        let enough = |times: &&Times| times.count() >= PASSES_NEEDED;
        self.passes(state).filter(enough)
    }

    fn passes<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a Times> {
        let counted = state.tallies().map(|(_, tally)| &tally.pass_times);
        self.passes.values().chain(counted)
    }
}
