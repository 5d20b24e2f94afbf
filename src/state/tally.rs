//! Counts the trials of one variant, in launch order and bounded memory.

use super::{Ended, Lives};
use crate::model::{Failure, Kind, Outcome, Signature, SignatureId, Site, TrialId, Void};
use hdrhistogram::Histogram;
use provoke_stats::{self as stats, Batches, Clumping, Trend, real};
use std::collections::BTreeMap;
use std::time::Duration;

/// So many failures are known by their place: no question needs more.
const EARLY: usize = 32;

/// What trials left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaks {
    /// Trials that left anything.
    pub trials: u64,
    /// Processes.
    pub processes: u64,
    /// Containers, volumes and networks.
    pub objects: u64,
}

/// Counts of one variant.
#[derive(Debug, Default)]
pub struct Tally {
    /// Trials that passed.
    pub passes: u64,
    /// Trials that showed the bug looked for.
    pub failures: u64,
    /// Trials that failed otherwise.
    pub other: u64,
    /// Trials that said nothing, by reason.
    pub void: BTreeMap<Void, u64>,
    /// Which trials failed, by kind: the bug looked for.
    pub failed: BTreeMap<Kind, Vec<TrialId>>,
    /// Which trials failed otherwise, by kind.
    pub failed_otherwise: BTreeMap<Kind, Vec<TrialId>>,
    /// Failures by what they are.
    pub groups: BTreeMap<SignatureId, Group>,
    /// What was left behind, whatever the outcome.
    pub leaks: Leaks,
    /// Processes that could not be killed, and may still live.
    pub unkillable: u64,
    /// Trials whose descendants outlived the main process, but not the grace.
    pub settled: u64,
    /// Trials in which a helper ended before the main process.
    pub helpers_ended_early: u64,
    /// How long passing trials took.
    pub pass_times: Times,
    /// How long failing trials took.
    pub fail_times: Times,
    /// All the time that counted trials took.
    pub exposure: Duration,
    /// What the clients of its lives saw, where it is a service.
    pub lives: Lives,
    /// Failures among trials that ran side by side, without the last batch.
    batches: Batches,
    /// The places of failures among the counted trials, from 1.
    failure_places: Vec<u64>,
    /// The first failures, and how many trials counted with each.
    pub early_failures: Vec<(TrialId, u64)>,
    /// The last trial that counts was a failure.
    pub ended_in_failure: bool,
    batch_size: u64,
    batch: (u64, u32, u32),
}

/// Failures of one signature.
#[derive(Debug)]
pub struct Group {
    /// Which failure it is.
    pub signature: Signature,
    /// How it showed first.
    pub kind: Kind,
    /// The lines of source code that it points at, of the first trial that has any.
    pub sites: Vec<Site>,
    /// It is the bug looked for.
    pub is_the_bug: bool,
    /// In which trials.
    pub trials: Vec<TrialId>,
}

/// How long trials took. Most variants of a search are never tried, so there is nothing until
/// there is a time.
#[derive(Debug, Default)]
pub struct Times(Option<Histogram<u64>>);

impl Times {
    /// Adds one more.
    pub fn add(&mut self, time: Duration) {
        let new = || Histogram::new(2).expect("two digits are within bounds");
        // It grows as needed; only a time beyond half a million years is refused.
        let _ = self
            .0
            .get_or_insert_with(new)
            .record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns how many there are.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }

    /// Returns the time that a share of them did not exceed, within a per cent or so.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let times = self.0.as_ref()?;
        Some(Duration::from_micros(times.value_at_quantile(share)))
    }

    /// Returns the longest time.
    pub fn max(&self) -> Option<Duration> {
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

    pub(super) fn add(&mut self, id: TrialId, ended: &Ended) {
        self.unkillable += ended.unkillable;
        if let Outcome::Void(void) = ended.outcome {
            *self.void.entry(void).or_default() += 1;
            return;
        }
        self.settled += u64::from(ended.settled);
        self.helpers_ended_early += u64::from(ended.helper_ended_early);
        let (processes, objects) = ended.leaked;
        self.leaks.trials += u64::from(processes + objects > 0);
        self.leaks.processes += processes;
        self.leaks.objects += objects;
        if let Some(load) = &ended.load {
            self.lives.add(load);
        }
        match &ended.outcome {
            Outcome::Pass => {
                self.passes += 1;
                self.pass_times.add(ended.elapsed);
            }
            Outcome::Fail(failure) => {
                self.failures += 1;
                self.fail_times.add(ended.elapsed);
                let kind = failure.kind.clone();
                self.failed.entry(kind).or_default().push(id);
                self.group(id, failure, true);
            }
            Outcome::Other(failure) => {
                self.other += 1;
                let kind = failure.kind.clone();
                self.failed_otherwise.entry(kind).or_default().push(id);
                self.group(id, failure, false);
                return;
            }
            Outcome::Void(_) => unreachable!("handled above"),
        }
        self.exposure = self.exposure.saturating_add(ended.elapsed);
        self.follow(id, matches!(ended.outcome, Outcome::Fail(_)));
    }

    fn group(&mut self, id: TrialId, failure: &Failure, is_the_bug: bool) {
        let group = self.groups.entry(failure.signature.id);
        let new = || Group {
            signature: failure.signature.clone(),
            kind: failure.kind.clone(),
            sites: Vec::new(),
            is_the_bug,
            trials: Vec::new(),
        };
        let group = group.or_insert_with(new);
        group.trials.push(id);
        if group.sites.is_empty() {
            group.sites.clone_from(&failure.sites);
        }
    }

    /// Keeps what the checks for dependence and drift need.
    fn follow(&mut self, id: TrialId, failed: bool) {
        self.ended_in_failure = failed;
        if failed {
            self.failure_places.push(self.trials());
            if self.early_failures.len() < EARLY {
                self.early_failures.push((id, self.trials()));
            }
        }
        if self.batch_size < 2 {
            return;
        }
        let number = (id.0 - 1) / self.batch_size;
        if number != self.batch.0 {
            let (_, runs, failures) = self.batch;
            self.batches.add(runs, failures);
            self.batch = (number, 0, 0);
        }
        self.batch.1 += 1;
        self.batch.2 += u32::from(failed);
    }

    /// Looks for clumps of failures. `ended_by_failure` says that the run stopped because its last
    /// trial failed, so that the place of that failure was not free.
    pub fn clumping(&self, ended_by_failure: bool) -> Clumping {
        let ended_by_failure = ended_by_failure && self.ended_in_failure;
        let mut batches = self.batches.clone();
        let (_, runs, failures) = self.batch;
        let last = u32::from(ended_by_failure && runs > 0);
        batches.add(runs - last, failures - last);
        Clumping {
            batches: batches.dependence(),
            order: stats::clumps(&self.failure_places, self.trials(), ended_by_failure),
        }
    }

    /// Looks for a change of the rate. The failure that ended the run is at its end by that rule
    /// alone, so it is left out.
    pub fn trend(&self, ended_by_failure: bool) -> Option<Trend> {
        let left_out = usize::from(ended_by_failure && self.ended_in_failure);
        let places = &self.failure_places[..self.failure_places.len() - left_out];
        let failures = places.len() as u64;
        // Trial i of n stands at i - 1/2.
        let mean = real(places.iter().sum()) / real(failures.max(1)) - 0.5;
        stats::laplace(failures, mean, real(self.trials()))
    }

    /// Returns the failures and the trials of that half which has fewer failures.
    pub fn quieter_half(&self) -> (u64, u64) {
        let middle = self.trials() / 2;
        let early = self.failure_places.partition_point(|at| *at <= middle) as u64;
        let late = self.failures - early;
        let (first, second) = ((early, middle), (late, self.trials() - middle));
        if early * second.1 <= late * first.1 {
            first
        } else {
            second
        }
    }

    /// Returns the trials that count: the denominator of the rate.
    pub fn trials(&self) -> u64 {
        self.passes + self.failures
    }

    /// Returns the trials that ran and ended by themselves.
    pub fn ran(&self) -> u64 {
        self.trials() + self.other
    }

    /// Returns the trials that failed, of which it is not known whether it was the bug.
    pub fn untold(&self) -> u64 {
        self.void.get(&Void::Untold).copied().unwrap_or(0)
    }

    /// Returns the trials that said nothing; warming up is not meant to.
    pub fn void_total(&self) -> u64 {
        self.void
            .iter()
            .filter(|(void, _)| **void != Void::Warmup)
            .map(|(_, count)| count)
            .sum()
    }
}
