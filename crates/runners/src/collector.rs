//! Collector of the results of one trial: joins entries of the same case, within limits.

use super::limits::{MOST_CASES, MOST_COMPLAINTS, MOST_FAILURES, MOST_NAMES, PER_FAILURE};
use super::text::{clip_message, clip_name};
use provoke_model::{CaseEnd, CaseFailure, CaseName, CaseResult, TrialCases};
use provoke_words as words;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// Builds the [`TrialCases`] of one trial.
#[derive(Default)]
pub(crate) struct CaseCollector {
    cases: TrialCases,
    /// Positions in the results.
    positions: HashMap<CaseName, usize>,
    planned: HashSet<CaseName>,
    has_too_many: bool,
}

impl CaseCollector {
    /// Adds planned cases.
    pub(crate) fn plan_cases(&mut self, cases: impl IntoIterator<Item = CaseName>) {
        let mut planned = self.cases.planned.take().unwrap_or_default();
        for case in cases {
            let case = clip_case(&case);
            if planned.len() >= MOST_CASES {
                self.has_too_many = true;
            } else if self.planned.insert(case.clone()) {
                planned.push(case);
            }
        }
        self.cases.planned = Some(planned);
    }

    /// Returns the position of the result of a case, and whether it is new; `None` if there are too many cases.
    ///
    /// A new result has the end [`CaseEnd::Unknown`] and no attempt.
    pub(crate) fn find_or_insert(&mut self, case: &CaseName) -> Option<(usize, bool)> {
        let case = clip_case(case);
        if let Some(position) = self.positions.get(&case) {
            return Some((*position, false));
        }
        let position = self.cases.results.len();
        if position >= MOST_CASES {
            self.has_too_many = true;
            return None;
        }
        self.positions.insert(case.clone(), position);
        self.cases.results.push(CaseResult {
            case,
            ..CaseResult::default()
        });
        Some((position, true))
    }

    /// Returns the position of a case that has a result.
    pub(crate) fn position_of(&self, case: &CaseName) -> Option<usize> {
        self.positions.get(case).copied()
    }

    pub(crate) fn result_mut(&mut self, position: usize) -> &mut CaseResult {
        &mut self.cases.results[position]
    }

    /// Adds a whole result; a result of the same case is joined with it. Returns whether the case is new.
    pub(crate) fn add_result(&mut self, result: CaseResult) -> bool {
        let Some((position, is_new)) = self.find_or_insert(&result.case) else {
            return false;
        };
        let present = &mut self.cases.results[position];
        if is_new {
            let case = std::mem::take(&mut present.case);
            *present = CaseResult { case, ..result };
        } else {
            let attempts = present.attempts.max(1) + result.attempts.max(1);
            join_results(present, result);
            present.attempts = attempts;
        }
        is_new
    }

    pub(crate) fn complain(&mut self, complaint: impl Into<String>) {
        let complaint = clip_message(&complaint.into());
        let complaints = &mut self.cases.complaints;
        if complaints.len() < MOST_COMPLAINTS && !complaints.contains(&complaint) {
            complaints.push(complaint);
        }
    }

    /// Returns the cases of the trial. A single attempt is not worth a number.
    pub(crate) fn finish(mut self) -> TrialCases {
        if self.has_too_many {
            self.complain(format!(
                "the trial has more than {MOST_CASES} cases; the rest is ignored"
            ));
        }
        self.limit_text();
        for result in &mut self.cases.results {
            if result.attempts == 1 {
                result.attempts = 0;
            }
        }
        self.cases
    }
}

impl CaseCollector {
    /// Leaves out what does not fit into a line of the journal.
    fn limit_text(&mut self) {
        let (results, planned) = (&mut self.cases.results, &mut self.cases.planned);
        let fitting_results = count_fitting(results.iter().map(|result| &result.case));
        let fitting_plan = planned
            .as_ref()
            .map(|planned| count_fitting(planned.iter()));
        let is_shortened =
            fitting_results < results.len() || fitting_plan < planned.as_ref().map(Vec::len);
        results.truncate(fitting_results);
        if let (Some(planned), Some(fitting)) = (planned, fitting_plan) {
            planned.truncate(fitting);
        }
        let (mut room, mut left_out) = (MOST_FAILURES, 0);
        for result in &mut self.cases.results {
            let Some(failure) = &result.failure else {
                continue;
            };
            match room.checked_sub(length_as_json(failure) + PER_FAILURE) {
                Some(rest) => room = rest,
                None => {
                    result.failure = None;
                    left_out += 1;
                }
            }
        }
        if is_shortened {
            self.complain(format!(
                "the names of the cases have more than {} MiB; the rest is ignored",
                MOST_NAMES >> 20
            ));
        }
        if left_out > 0 {
            self.complain(format!(
                "the failures of the trial have more than {} MiB; the messages of {left_out} are left out",
                MOST_FAILURES >> 20
            ));
        }
    }
}

/// Returns how many of the names fit into the limit.
fn count_fitting<'a>(names: impl Iterator<Item = &'a CaseName>) -> usize {
    let mut room = MOST_NAMES;
    let fits = |name: &&CaseName| {
        let rest = room.checked_sub(length_as_json(name));
        room = rest.unwrap_or(0);
        rest.is_some()
    };
    names.take_while(fits).count()
}

fn length_as_json(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

fn clip_case(case: &CaseName) -> CaseName {
    CaseName {
        suite: clip_name(&case.suite),
        name: clip_name(&case.name),
    }
}

/// Joins two results of one case in one trial: the worse end counts, and both messages are kept.
pub(crate) fn join_results(present: &mut CaseResult, added: CaseResult) {
    present.elapsed += added.elapsed;
    present.pid = present.pid.or(added.pid);
    join_ends(present, added.end, added.failure);
}

/// Adds an end of a case: the worse end counts, and both messages are kept.
pub(crate) fn join_ends(present: &mut CaseResult, end: CaseEnd, failure: Option<CaseFailure>) {
    let is_worse = severity_of(end) > severity_of(present.end);
    if is_worse {
        present.end = end;
    }
    present.failure = match (present.failure.take(), failure) {
        (Some(before), Some(added)) => {
            let (mut first, second) = if is_worse {
                (added, before)
            } else {
                (before, added)
            };
            if !second.message.is_empty() && second.message != first.message {
                let separator = if first.message.is_empty() { "" } else { "\n" };
                first.message = clip_message(&[first.message, second.message].join(separator));
            }
            first.signal = first.signal.or(second.signal);
            Some(first)
        }
        (before, added) => before.or(added),
    };
}

/// Orders the ends of a case by how much they say about a failure.
fn severity_of(end: CaseEnd) -> u8 {
    match end {
        CaseEnd::NotRun => 0,
        CaseEnd::Unknown => 1,
        CaseEnd::Passed => 2,
        CaseEnd::Skipped => 3,
        CaseEnd::ExpectedFailure => 4,
        CaseEnd::UnexpectedPass => 5,
        CaseEnd::Error => 6,
        CaseEnd::Failed => 7,
        CaseEnd::TimedOut => 8,
        CaseEnd::Crashed => 9,
    }
}

/// Returns the complaint about cases that the runner retried.
pub(crate) fn describe_retries(cases: usize) -> String {
    format!(
        "the runner retried {}: only the first attempt counts; switch retries off, for example with `--reruns 0` \
         (pytest) or `--retries 0` (nextest)",
        words::format_count(cases as u64, "case")
    )
}

/// Joins the reports of one trial, such as several XML files.
pub fn merge_reports(reports: impl IntoIterator<Item = TrialCases>) -> TrialCases {
    let mut collector = CaseCollector::default();
    for report in reports {
        if let Some(planned) = report.planned {
            collector.plan_cases(planned);
        }
        for result in report.results {
            collector.add_result(result);
        }
        for complaint in report.complaints {
            collector.complain(complaint);
        }
    }
    collector.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, end: CaseEnd, message: &str) -> CaseResult {
        let failure = CaseFailure {
            message: message.to_owned(),
            ..CaseFailure::default()
        };
        CaseResult {
            case: CaseName::without_suite(name),
            end,
            failure: (!message.is_empty()).then_some(failure),
            ..CaseResult::default()
        }
    }

    fn report(results: Vec<CaseResult>) -> TrialCases {
        TrialCases {
            results,
            ..TrialCases::default()
        }
    }

    #[test]
    fn the_worse_end_of_two_entries_counts_and_both_messages_are_kept() {
        let merged = merge_reports([
            report(vec![result("a", CaseEnd::Error, "teardown")]),
            report(vec![
                result("b", CaseEnd::Passed, ""),
                result("a", CaseEnd::Failed, "call"),
            ]),
        ]);
        assert_eq!(merged.results.len(), 2);
        assert_eq!(merged.results[0].end, CaseEnd::Failed);
        assert_eq!(merged.results[0].attempts, 2);
        let failure = merged.results[0].failure.as_ref().unwrap();
        assert_eq!(failure.message, "call\nteardown");
        assert_eq!(merged.results[1].attempts, 0);
    }

    #[test]
    fn cases_and_complaints_have_a_limit() {
        let mut collector = CaseCollector::default();
        for index in 0..MOST_CASES + 5 {
            collector.add_result(result(&index.to_string(), CaseEnd::Passed, ""));
        }
        for index in 0..100 {
            collector.complain(index.to_string());
        }
        let cases = collector.finish();
        assert_eq!(cases.results.len(), MOST_CASES);
        assert_eq!(cases.complaints.len(), MOST_COMPLAINTS);
    }

    #[test]
    fn the_text_of_a_trial_has_a_limit() {
        let mut collector = CaseCollector::default();
        let message = "\u{1}".repeat(1000);
        for index in 0..20_000 {
            let name = format!("{index}{}", "x".repeat(1000));
            collector.plan_cases([CaseName::without_suite(name.clone())]);
            collector.add_result(result(&name, CaseEnd::Failed, &message));
        }
        let cases = collector.finish();
        // A name has 1,016 bytes as JSON, and a message 6,000.
        let names = MOST_NAMES / 1020;
        assert!((names..names + 100).contains(&cases.results.len()));
        assert_eq!(cases.planned.unwrap().len(), cases.results.len());
        let failures = cases.results.iter().filter(|case| case.failure.is_some());
        let failures = failures.count();
        let expected = MOST_FAILURES / (6000 + PER_FAILURE + 30);
        assert!((expected..expected + 100).contains(&failures), "{failures}");
        assert_eq!(cases.results[failures].end, CaseEnd::Failed);
        assert_eq!(
            cases.complaints,
            [
                "the names of the cases have more than 16 MiB; the rest is ignored".to_owned(),
                format!(
                    "the failures of the trial have more than 8 MiB; the messages of {} are left out",
                    cases.results.len() - failures
                ),
            ]
        );
        let json = serde_json::to_vec(&cases.results).unwrap();
        assert!(json.len() < 40 << 20);
    }
}
