//! Decides when a trial is late or hung, from the times of earlier trials.

use provoke_model::{InconclusiveReason, Timeout, VariantId};
use provoke_state::{DurationHistogram, State};
use std::collections::BTreeMap;
use std::time::Duration;

/// Automatic timeout before the first trial has passed.
const FIRST_TIMEOUT: Duration = Duration::from_secs(300);
/// Minimum automatic timeout until [`PASSES_NEEDED`] trials have passed.
const EARLY_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of passing trials from which the automatic timeout is derived.
const PASSES_NEEDED: u64 = 5;
/// After that, a trial is hung if it takes this many times longer than the slowest one that passed, and at least
/// [`MIN_TIMEOUT`].
const HANGS: u32 = 20;
/// Minimum automatic timeout.
const MIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Part of a hunt's time limit that a trial may take before one has passed: one of this many parts. Each trial that is
/// stopped then doubles it. It is also the minimum timeout later, unless [`MIN_TIMEOUT`] is shorter.
const HUNT_PART: u32 = 10;
/// Minimum of this time, for programs that take long to start.
const MIN_HUNT_TIME: Duration = Duration::from_secs(1);
/// A trial is late if it takes this many times longer than the median, and longer than [`MIN_LATE`] and the wait for
/// leaked processes together.
const LATE: u32 = 5;
/// Minimum time after which a trial is late, without the wait for leaked processes.
const MIN_LATE: Duration = Duration::from_secs(1);
/// Time after which a trial is late if the median is not known.
const LATE_AT_FIRST: Duration = MIN_TIMEOUT;

/// The durations of passing trials in the order in which they end. The tallies of the state wait for trials that were
/// launched earlier, and one of those may hang.
#[derive(Default)]
pub(super) struct PassDurations {
    passes: BTreeMap<VariantId, DurationHistogram>,
}

impl PassDurations {
    pub(super) fn add_pass(&mut self, variant: VariantId, time: Duration) {
        self.passes.entry(variant).or_default().add_duration(time);
    }

    /// Returns the time after which a trial is late, if passing trials determine it.
    pub(super) fn known_to_be_late_after(&self, state: &State) -> Option<Duration> {
        let medians = self
            .known_times(state)
            .filter_map(|times| times.quantile_at(0.5));
        // A trial whose program has ended may wait for processes that it left.
        let least = MIN_LATE + state.trials.settings.leak_grace;
        Some((medians.max()? * LATE).max(least))
    }

    /// Returns the time after which a trial is late.
    pub(super) fn late_after(&self, state: &State) -> Duration {
        self.known_to_be_late_after(state).unwrap_or(LATE_AT_FIRST)
    }

    /// Returns the time after which a trial is hung.
    pub(super) fn hang_timeout(&self, state: &State) -> Duration {
        if let Timeout::After(time) = state.trials.settings.timeout {
            return time;
        }
        let slowest = |times: &mut dyn Iterator<Item = &DurationHistogram>| {
            times.filter_map(DurationHistogram::max_duration).max()
        };
        let early = || slowest(&mut self.passes(state));
        if let Some(budget) = time_limit_of_exploration(state) {
            let part = (budget / HUNT_PART).max(MIN_HUNT_TIME);
            return match early() {
                Some(slowest) => (slowest * HANGS).max(part.min(MIN_TIMEOUT)),
                None => part.saturating_mul(1 << unended_trials(state).min(10)),
            };
        }
        match slowest(&mut self.known_times(state)) {
            Some(slowest) => (slowest * HANGS).max(MIN_TIMEOUT),
            None => early().map_or(FIRST_TIMEOUT, |slowest| {
                (slowest * HANGS).clamp(EARLY_TIMEOUT, FIRST_TIMEOUT)
            }),
        }
    }

    /// Returns whether a trial that reaches the timeout may only be slow: nothing is known about its duration.
    pub(super) fn is_assumed(&self, state: &State) -> bool {
        let is_automatic = state.trials.settings.timeout == Timeout::Auto;
        let mut passes = self.passes(state);
        is_automatic
            && time_limit_of_exploration(state).is_some()
            && passes.all(|times| times.count() == 0)
    }

    /// Returns the durations of the variants that passed often enough. In a resumed run, only the state knows the
    /// earlier passes.
    fn known_times<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a DurationHistogram> {
        let enough = |times: &&DurationHistogram| times.count() >= PASSES_NEEDED;
        self.passes(state).filter(enough)
    }

    fn passes<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a DurationHistogram> {
        let counted = state.all_tallies().map(|(_, tally)| &tally.pass_times);
        self.passes.values().chain(counted)
    }
}

/// Returns the time limit of a hunt, which no trial of it may exceed.
fn time_limit_of_exploration(state: &State) -> Option<Duration> {
    let budget = state.stop.time_budget();
    budget.filter(|_| provoke_questions::of(state).explores())
}

/// Returns the number of plain trials that were stopped before one had passed.
fn unended_trials(state: &State) -> u64 {
    let mut unended = state
        .all_tallies()
        .filter_map(|(_, tally)| tally.void.get(&InconclusiveReason::StoppedEarly));
    unended.next().copied().unwrap_or(0)
}
