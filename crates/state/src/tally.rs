//! Counts the trials of one variant, in launch order and bounded memory.

use super::{RateSeries, RequestTotals, SuiteCounts, TrialFacts};
use hdrhistogram::Histogram;
use provoke_model::{
    Failure, FailureKind, FailureName, InconclusiveReason, Outcome, Signature, SignatureId, Site,
    TrialId,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of [`Tally::early_failures`]: no question needs more.
const EARLY: usize = 32;

/// Leaks of trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeakCounts {
    /// Trials with a leak.
    pub trials: u64,
    /// Processes.
    pub processes: u64,
}

/// Counts of one variant.
#[derive(Debug, Default)]
pub struct Tally {
    /// Trials that passed.
    pub passes: u64,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Trials with another failure.
    pub other: u64,
    /// Inconclusive trials, by reason.
    pub void: BTreeMap<InconclusiveReason, u64>,
    /// Trials that showed the bug, by kind of failure.
    pub failed: BTreeMap<FailureKind, Vec<TrialId>>,
    /// Trials with another failure, by kind of failure.
    pub failed_otherwise: BTreeMap<FailureKind, Vec<TrialId>>,
    /// Failures by signature.
    pub groups: BTreeMap<SignatureId, SignatureFailures>,
    /// Leaks, with any outcome.
    pub leaks: LeakCounts,
    /// Processes that could not be killed, and may still run.
    pub unkillable: u64,
    /// Trials in which the kernel refused to start processes or threads.
    pub with_refused_forks: u64,
    /// Trials whose descendants outlived the main process, but not the leak grace.
    pub ended_in_grace: u64,
    /// Trials in which a helper ended before the main process.
    pub helpers_ended_early: u64,
    /// Durations of passing trials.
    pub pass_times: DurationHistogram,
    /// Durations of failing trials.
    pub fail_times: DurationHistogram,
    /// Total duration of counted trials.
    pub exposure: Duration,
    /// Observations of the clients, if the trials are of a service.
    pub requests: RequestTotals,
    /// The cases of the trials, if the trials are runs of a suite.
    pub suite: SuiteCounts,
    /// Number of batches of parallel trials by their trials and failures, without the last batch.
    batches: BTreeMap<(u32, u32), u64>,
    /// The positions of failures among the counted trials, from 1.
    failure_places: Vec<u64>,
    /// Failures and trials in the order in which they count.
    pub rate_series: RateSeries,
    /// The first failures, each with the number of trials counted up to it.
    pub early_failures: Vec<(TrialId, u64)>,
    /// Whether the last counted trial failed.
    pub ended_in_failure: bool,
    batch_size: u64,
    batch: (u64, u32, u32),
}

/// Failures of one signature.
#[derive(Debug)]
pub struct SignatureFailures {
    /// Which failure it is.
    pub signature: Signature,
    /// Kind of its first failure.
    pub kind: FailureKind,
    /// The lines of source code that it points at, from the first trial that has any.
    pub sites: Vec<Site>,
    /// The functions that it points at, from the first trial, if no line is known.
    pub functions: Vec<String>,
    /// Whether it is the bug.
    pub is_the_bug: bool,
    /// Whether some of its trials are not counted. A search counts every failure as the bug until it knows which one it
    /// looks for.
    pub has_uncounted: bool,
    /// Its trials.
    pub trials: Vec<TrialId>,
}

impl SignatureFailures {
    /// Returns the name by which the failures are recognized.
    pub fn name(&self) -> FailureName<'_> {
        FailureName {
            kind: &self.kind,
            signature: &self.signature,
        }
    }

    /// Returns one of the failures.
    pub fn to_failure(&self) -> Failure {
        Failure {
            kind: self.kind.clone(),
            signature: self.signature.clone(),
            sites: self.sites.clone(),
            functions: self.functions.clone(),
        }
    }
}

/// A histogram of durations. Most variants of a search are never tried, so it is created with the first duration.
#[derive(Debug, Default)]
pub struct DurationHistogram(Option<Histogram<u64>>);

impl DurationHistogram {
    /// Adds a duration.
    pub fn add_duration(&mut self, time: Duration) {
        let new_histogram = || Histogram::new(2).expect("two digits are within bounds");
        // The histogram grows as needed; it refuses only durations beyond half a million years.
        let _ = self
            .0
            .get_or_insert_with(new_histogram)
            .record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }

    /// Returns the duration that this share does not exceed, within about one per cent.
    pub fn quantile_at(&self, share: f64) -> Option<Duration> {
        let times = self.0.as_ref()?;
        Some(Duration::from_micros(times.value_at_quantile(share)))
    }

    /// Returns the durations in ascending order, each with its number.
    pub fn counts(&self) -> impl Iterator<Item = (Duration, u64)> {
        let recorded = self.0.iter().flat_map(Histogram::iter_recorded);
        recorded.map(|value| {
            let time = Duration::from_micros(value.value_iterated_to());
            (time, value.count_at_value())
        })
    }

    /// Returns the longest duration.
    pub fn max_duration(&self) -> Option<Duration> {
        Some(Duration::from_micros(self.0.as_ref()?.max()))
    }
}

impl Tally {
    pub(super) fn new(jobs: u32) -> Self {
        Self {
            batch_size: u64::from(jobs),
            ..Self::default()
        }
    }

    pub(super) fn add_trial(&mut self, id: TrialId, facts: &TrialFacts) {
        self.unkillable += facts.unkillable;
        self.with_refused_forks += u64::from(facts.has_refused_forks);
        if let Some(record) = &facts.cases {
            self.suite.add_trial(id, record);
        }
        if let Outcome::Inconclusive(void) = facts.outcome {
            *self.void.entry(void).or_default() += 1;
            return;
        }
        self.ended_in_grace += u64::from(facts.ended_in_grace);
        self.helpers_ended_early += u64::from(facts.helper_ended_early);
        self.leaks.trials += u64::from(facts.leaked_processes > 0);
        // A host can report any number.
        let processes = self.leaks.processes.saturating_add(facts.leaked_processes);
        self.leaks.processes = processes;
        if let Some(load) = &facts.load {
            self.requests.add_service_run(load);
        }
        match &facts.outcome {
            Outcome::Pass => {
                self.passes += 1;
                self.pass_times.add_duration(facts.elapsed);
            }
            Outcome::Fail(failure) => {
                self.failures += 1;
                self.fail_times.add_duration(facts.elapsed);
                let kind = failure.kind.clone();
                self.failed.entry(kind).or_default().push(id);
                self.group_failure(id, failure, true);
            }
            Outcome::Other(failure) => {
                self.other += 1;
                let kind = failure.kind.clone();
                self.failed_otherwise.entry(kind).or_default().push(id);
                self.group_failure(id, failure, false);
                return;
            }
            Outcome::Inconclusive(_) => unreachable!("handled above"),
        }
        self.exposure = self.exposure.saturating_add(facts.elapsed);
        self.follow_failures(id, matches!(facts.outcome, Outcome::Fail(_)));
    }

    fn group_failure(&mut self, id: TrialId, failure: &Failure, is_the_bug: bool) {
        let group = self.groups.entry(failure.signature.id);
        let new_group = || SignatureFailures {
            signature: failure.signature.clone(),
            kind: failure.kind.clone(),
            sites: Vec::new(),
            functions: Vec::new(),
            is_the_bug,
            has_uncounted: false,
            trials: Vec::new(),
        };
        let group = group.or_insert_with(new_group);
        group.trials.push(id);
        group.has_uncounted |= !is_the_bug;
        if group.sites.is_empty() {
            group.sites.clone_from(&failure.sites);
        }
        if group.functions.is_empty() {
            group.functions.clone_from(&failure.functions);
        }
    }

    /// Records the data for the tests of dependence and drift.
    fn follow_failures(&mut self, id: TrialId, failed: bool) {
        self.ended_in_failure = failed;
        self.rate_series.add_trial(failed);
        if failed {
            self.failure_places.push(self.counted_trials());
            if self.early_failures.len() < EARLY {
                self.early_failures.push((id, self.counted_trials()));
            }
        }
        if self.batch_size < 2 {
            return;
        }
        let number = (id.0 - 1) / self.batch_size;
        if number != self.batch.0 {
            let (_, runs, failures) = self.batch;
            *self.batches.entry((runs, failures)).or_default() += 1;
            self.batch = (number, 0, 0);
        }
        self.batch.1 += 1;
        self.batch.2 += u32::from(failed);
    }

    /// Returns the positions of failures among the counted trials, from 1.
    pub fn failure_places(&self) -> &[u64] {
        &self.failure_places
    }

    /// Returns the trials and failures of the batches of parallel trials before the last one, each with the number of
    /// such batches.
    pub fn complete_batches(&self) -> impl Iterator<Item = ((u32, u32), u64)> {
        self.batches.iter().map(|(batch, count)| (*batch, *count))
    }

    /// Returns the trials and failures of the last batch of parallel trials.
    pub fn last_batch(&self) -> (u32, u32) {
        let (_, trials, failures) = self.batch;
        (trials, failures)
    }

    /// Returns the failures and the trials of the half with fewer failures.
    pub fn quieter_half(&self) -> (u64, u64) {
        let middle = self.counted_trials() / 2;
        let early = self
            .failure_places
            .partition_point(|position| *position <= middle) as u64;
        let late = self.failures - early;
        let (first, second) = ((early, middle), (late, self.counted_trials() - middle));
        if early * second.1 <= late * first.1 {
            first
        } else {
            second
        }
    }

    /// Returns the number of counted trials: the denominator of the rate.
    pub fn counted_trials(&self) -> u64 {
        self.passes + self.failures
    }

    /// Returns the number of trials that ran and ended by themselves.
    pub fn finished_trials(&self) -> u64 {
        self.counted_trials() + self.other
    }

    /// Returns how often the rarest of several different failures occurred that are the bug.
    pub fn rarest_failure_count(&self) -> Option<u64> {
        let rarest = self.failure_counts().map(|(count, _)| count).min()?;
        (rarest < self.failures).then_some(rarest)
    }

    /// Returns each group of failures that are the bug, with the number of all that are the same failure.
    pub fn failure_counts(&self) -> impl Iterator<Item = (u64, &SignatureFailures)> {
        let bugs = || self.groups.values().filter(|group| group.is_the_bug);
        bugs().map(move |group| {
            let same = bugs().filter(|other| group.name().is_same(other.name()));
            (same.map(|other| other.trials.len() as u64).sum(), group)
        })
    }

    /// Returns the title of the most frequent failure that is the bug.
    pub fn title_of_bugs(&self) -> Option<String> {
        self.most_frequent_title(true)
    }

    /// Returns the title of the most frequent failure that is not the bug.
    pub fn title_of_others(&self) -> Option<String> {
        self.most_frequent_title(false)
    }

    fn most_frequent_title(&self, is_the_bug: bool) -> Option<String> {
        let groups = self.groups.values();
        let matching = groups.filter(|group| group.is_the_bug == is_the_bug);
        let most_frequent = matching.max_by_key(|group| group.trials.len())?;
        Some(most_frequent.signature.title.clone())
    }

    /// Returns the number of failed trials whose evidence does not show whether they are the bug.
    pub fn trials_without_known_failure(&self) -> u64 {
        self.void
            .get(&InconclusiveReason::UnknownFailure)
            .copied()
            .unwrap_or(0)
    }

    /// Returns the number of inconclusive trials, without warm-up trials.
    pub fn void_total(&self) -> u64 {
        self.void
            .iter()
            .filter(|(void, _)| **void != InconclusiveReason::Warmup)
            .map(|(_, count)| count)
            .sum()
    }
}
