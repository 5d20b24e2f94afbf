//! Counts the cases of the trials of one variant, in bounded memory.

use provoke_model::{
    CaseEnd, CaseFailure, CaseName, CasePattern, CaseRecord, Failure, FailureKind,
    InconclusiveReason, NumberList, Outcome, Signature, SignatureId, TrialId,
};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Maximum number of positions of cases that are kept for the search of order dependence: 5,000 cases in 1,000 trials.
const MOST_POSITIONS: usize = 5_000_000;
/// Maximum number of failures of cases whose trials are kept.
const MOST_FAILING_TRIALS: usize = 5_000_000;
/// Maximum number of signatures that are kept in full.
const MOST_SIGNATURES: usize = 10_000;
/// Maximum number of different complaints about the reports of the runner.
const MOST_COMPLAINTS: usize = 20;
/// Number of failures from which a trial with more than half of its cases failing is noted: of a few cases, half fail easily.
const MANY_FAILURES: usize = 10;
/// Maximum number of signatures of one case.
const MOST_SIGNATURES_OF_CASE: usize = 50;

/// The names of the cases of a run, by their numbers.
#[derive(Debug, Default)]
pub struct CaseNames {
    names: Vec<CaseName>,
    numbers: HashMap<CaseName, u32>,
    /// The failures that the run has seen, in full.
    signatures: BTreeMap<SignatureId, (Signature, Option<Box<CaseFailure>>)>,
}

impl CaseNames {
    /// Adds names, each once.
    pub(super) fn add_names(&mut self, names: &[CaseName]) {
        for name in names {
            // Further names come from a damaged file.
            let Ok(number) = u32::try_from(self.names.len()) else {
                return;
            };
            if !self.numbers.contains_key(name) {
                self.numbers.insert(name.clone(), number);
            }
            self.names.push(name.clone());
        }
    }

    /// Adds the failures that a trial was the first to show.
    pub(super) fn add_failures(&mut self, record: &CaseRecord) {
        for group in &record.failures {
            if let Some(signature) = &group.signature
                && self.signatures.len() < MOST_SIGNATURES
            {
                let first = || (Signature::clone(signature), group.failure.clone());
                self.signatures
                    .entry(group.signature_id)
                    .or_insert_with(first);
            }
        }
    }

    /// Returns the number of a case.
    pub fn number_of(&self, name: &CaseName) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Returns the name of a case.
    pub fn name_of(&self, number: u32) -> Option<&CaseName> {
        self.names.get(number as usize)
    }

    /// Returns the names, by number.
    pub fn all_names(&self) -> &[CaseName] {
        &self.names
    }

    /// Returns a failure of cases that the run has seen.
    pub fn signature_of(&self, id: SignatureId) -> Option<&Signature> {
        self.signatures.get(&id).map(|(signature, _)| signature)
    }

    /// Returns the outcome of a trial for a run that looks for certain cases, from the record of its cases. The trial
    /// itself may have ended in any way.
    pub fn judge_record(
        &self,
        record: &CaseRecord,
        patterns: &[CasePattern],
        outcome: &Outcome,
    ) -> Outcome {
        let is_searched = |number: u32| {
            let name = self.name_of(number);
            name.is_some_and(|name| patterns.iter().any(|pattern| pattern.matches_case(name)))
        };
        for group in &record.failures {
            if !group.cases.decode().into_iter().any(is_searched) {
                continue;
            }
            let own_failure = outcome.any_failure();
            if let Some(failure) =
                own_failure.filter(|failure| failure.signature.id == group.signature_id)
            {
                return Outcome::Fail(Box::new(failure.clone()));
            }
            let signature = group.signature.as_deref();
            let words = group
                .failure
                .as_deref()
                .or_else(|| self.words_of(group.signature_id));
            if let Some(signature) = signature.or_else(|| self.signature_of(group.signature_id)) {
                return Outcome::Fail(Box::new(Failure {
                    kind: FailureKind::Test,
                    signature: signature.clone(),
                    sites: words
                        .and_then(|failure| failure.site.clone())
                        .into_iter()
                        .collect(),
                    functions: Vec::new(),
                }));
            }
        }
        let ends = record.decode_ends();
        let numbered = (0..).zip(&ends);
        let searched = numbered.filter_map(|(number, end)| end.filter(|_| is_searched(number)));
        let searched_ends: Vec<CaseEnd> = searched.collect();
        if searched_ends.iter().any(|end| end.is_pass()) {
            return Outcome::Pass;
        }
        let has_report = ends.iter().any(Option::is_some);
        Outcome::Inconclusive(if searched_ends.is_empty() && has_report {
            InconclusiveReason::NoCase
        } else {
            InconclusiveReason::CaseNotRun
        })
    }

    /// Returns the words of the runner about the first case with a failure.
    pub fn words_of(&self, id: SignatureId) -> Option<&CaseFailure> {
        self.signatures.get(&id)?.1.as_deref()
    }
}

/// The counts of all cases of a variant.
#[derive(Debug, Default)]
pub struct SuiteCounts {
    /// Trials with a report of their cases.
    pub trials: u64,
    /// Trials without a single case in their report.
    pub empty_trials: u64,
    /// Each case, by number.
    pub cases: Vec<CaseCounts>,
    /// Trials in which more than half of the cases failed.
    pub wholesale_failures: Vec<TrialId>,
    /// Failures in these trials, by number of the case.
    wholesale_counts: Vec<(u32, u32)>,
    /// Problems of the reports of the runner, with the number of trials.
    pub complaints: BTreeMap<String, u64>,
    /// Trials in which the runner repeated a case.
    pub retrying_trials: u64,
    /// Trials whose cases ran in another order than that of their numbers.
    pub reordered_trials: u64,
    orders: Vec<TrialOrder>,
    kept_positions: usize,
    kept_failures: usize,
    /// Trials whose orders were not kept, because there were too many.
    pub dropped_orders: u64,
}

/// The counts of one case.
#[derive(Clone, Debug, Default)]
pub struct CaseCounts {
    ends: [u32; CaseEnd::ALL.len()],
    /// The trials in which it failed.
    pub failing_trials: Vec<u32>,
    /// Its failures, by signature.
    pub signatures: Vec<(SignatureId, u32)>,
    /// Trials in which the runner repeated it.
    pub retried: u32,
    timed: u32,
    total_time: Duration,
    /// Its longest duration.
    pub longest: Duration,
}

/// The order of the cases in a trial.
#[derive(Debug)]
pub struct TrialOrder {
    /// The trial.
    pub trial: TrialId,
    /// The cases in the order of their starts, for each process that ran cases; empty for the order of their numbers.
    pub processes: Vec<Vec<u32>>,
    /// How each case ended, by number.
    pub ends: Vec<Option<CaseEnd>>,
}

impl CaseCounts {
    /// Returns the number of trials in which the case ended like this.
    pub fn count_of(&self, end: CaseEnd) -> u64 {
        let index = CaseEnd::ALL.iter().position(|other_end| *other_end == end);
        index.map_or(0, |index| u64::from(self.ends[index]))
    }

    fn count_if(&self, fits: impl Fn(CaseEnd) -> bool) -> u64 {
        let ends = CaseEnd::ALL.into_iter().filter(|end| fits(*end));
        ends.map(|end| self.count_of(end)).sum()
    }

    /// Returns the number of trials in which the case failed.
    pub fn failures(&self) -> u64 {
        self.count_if(CaseEnd::is_failure)
    }

    /// Returns the number of trials in which the case passed or failed: the denominator of its rate.
    pub fn counted_trials(&self) -> u64 {
        self.failures() + self.count_if(CaseEnd::is_pass)
    }

    /// Returns the number of trials that planned the case.
    pub fn planned_trials(&self) -> u64 {
        self.count_if(|_| true)
    }

    /// Returns whether the runner skipped it in every trial that planned it.
    pub fn is_always_skipped(&self) -> bool {
        self.count_of(CaseEnd::Skipped) == self.planned_trials()
    }

    /// Returns its mean duration.
    pub fn mean_time(&self) -> Option<Duration> {
        (self.timed > 0).then(|| self.total_time / self.timed)
    }
}

impl SuiteCounts {
    /// Adds a trial.
    pub(super) fn add_trial(&mut self, trial: TrialId, record: &CaseRecord) {
        for complaint in &record.complaints {
            if self.complaints.len() < MOST_COMPLAINTS || self.complaints.contains_key(complaint) {
                *self.complaints.entry(complaint.clone()).or_default() += 1;
            }
        }
        let ends = record.decode_ends();
        if ends.iter().all(Option::is_none) {
            self.empty_trials += 1;
            return;
        }
        self.trials += 1;
        if self.cases.len() < ends.len() {
            self.cases.resize_with(ends.len(), CaseCounts::default);
        }
        let mut durations = record.decode_durations();
        let short_number = u32::try_from(trial.0).unwrap_or(u32::MAX);
        for (case, end) in self.cases.iter_mut().zip(&ends) {
            let Some(end) = end else { continue };
            let index = CaseEnd::ALL.iter().position(|other_end| other_end == end);
            case.ends[index.expect("all ends are listed")] += 1;
            if end.is_failure() && self.kept_failures < MOST_FAILING_TRIALS {
                self.kept_failures += 1;
                case.failing_trials.push(short_number);
            }
            if (end.is_failure() || end.is_pass())
                && let Some(duration) = durations.next()
            {
                case.timed += 1;
                case.total_time += duration;
                case.longest = case.longest.max(duration);
            }
        }
        for group in &record.failures {
            for number in group.cases.decode() {
                if let Some(case) = self.cases.get_mut(number as usize) {
                    case.add_signature(group.signature_id);
                }
            }
        }
        let retried = record.retried.decode();
        self.retrying_trials += u64::from(!retried.is_empty());
        for number in retried {
            if let Some(case) = self.cases.get_mut(number as usize) {
                case.retried += 1;
            }
        }
        self.note_wholesale_failure(trial, &ends);
        self.add_order(trial, record, ends);
    }

    /// Notes a trial in which more than half of the cases failed: its machine is the more likely cause.
    fn note_wholesale_failure(&mut self, trial: TrialId, ends: &[Option<CaseEnd>]) {
        let ended = ends.iter().flatten();
        let ran = ended
            .clone()
            .filter(|end| end.is_failure() || end.is_pass());
        let failed = ended.filter(|end| end.is_failure()).count();
        if failed < MANY_FAILURES || 2 * failed <= ran.count() {
            return;
        }
        self.wholesale_failures.push(trial);
        for (number, end) in (0..).zip(ends) {
            if end.is_some_and(CaseEnd::is_failure) {
                match self
                    .wholesale_counts
                    .binary_search_by_key(&number, |(number, _)| *number)
                {
                    Ok(index) => self.wholesale_counts[index].1 += 1,
                    Err(index) => self.wholesale_counts.insert(index, (number, 1)),
                }
            }
        }
    }

    /// Returns the number of failures of a case in trials in which more than half of the cases failed.
    pub fn wholesale_failures_of(&self, number: u32) -> u64 {
        let index = self
            .wholesale_counts
            .binary_search_by_key(&number, |(number, _)| *number);
        index.map_or(0, |index| u64::from(self.wholesale_counts[index].1))
    }

    /// Keeps the order and the ends of a trial, for the search of tests that depend on each other.
    fn add_order(&mut self, trial: TrialId, record: &CaseRecord, ends: Vec<Option<CaseEnd>>) {
        self.reordered_trials += u64::from(!record.orders.is_empty());
        if self.kept_positions + ends.len() > MOST_POSITIONS {
            self.dropped_orders += 1;
            return;
        }
        self.kept_positions += ends.len();
        let decode_order = |list: &NumberList| {
            let mut order = list.decode();
            order.retain(|number| (*number as usize) < ends.len());
            order
        };
        self.orders.push(TrialOrder {
            trial,
            processes: record.orders.iter().map(decode_order).collect(),
            ends,
        });
    }

    /// Returns the orders and ends of the trials.
    pub fn trial_orders(&self) -> &[TrialOrder] {
        &self.orders
    }

    /// Returns the numbers of the cases that failed.
    pub fn failing_cases(&self) -> impl Iterator<Item = (u32, &CaseCounts)> {
        (0..)
            .zip(&self.cases)
            .filter(|(_, case)| case.failures() > 0)
    }
}

impl CaseCounts {
    fn add_signature(&mut self, id: SignatureId) {
        let mut counts = self.signatures.iter_mut();
        if let Some((_, count)) = counts.find(|(known_id, _)| *known_id == id) {
            *count += 1;
        } else if self.signatures.len() < MOST_SIGNATURES_OF_CASE {
            self.signatures.push((id, 1));
        }
    }
}
