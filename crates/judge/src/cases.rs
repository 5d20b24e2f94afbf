//! Judges the cases of a trial, and the trial by the cases that the run looks for.

use super::{failure_of, find_failure};
use crate::signature::signature_of_case;
use provoke_model::{
    BugFilter, CaseEnd, CasePattern, CaseResult, Failure, FailureKind, InconclusiveReason,
    Observation, Outcome, Rules, Signature, TrialCases, VariantPlan,
};

/// Returns the signature of the failure of a case. A case that took its process with it has the signature of the crash,
/// and a case that was running when the trial timed out has that of the hang. `cases` are all cases of the trial.
pub fn case_signature(
    rules: &Rules,
    variant: &VariantPlan,
    observation: &Observation,
    cases: &[CaseResult],
    result: &CaseResult,
) -> Signature {
    match failure_of_process(rules, variant, observation, cases, result) {
        Some(failure) => failure.signature,
        None => signature_of_case(result.end, result.failure.as_ref()),
    }
}

/// Returns the failure of the process of a case that crashed or hung.
fn failure_of_process(
    rules: &Rules,
    variant: &VariantPlan,
    observation: &Observation,
    cases: &[CaseResult],
    result: &CaseResult,
) -> Option<Failure> {
    let kind = find_failure(rules, variant, observation)?;
    let fits = match result.end {
        CaseEnd::Crashed => matches!(kind, FailureKind::Signal { .. } | FailureKind::Oom { .. }),
        CaseEnd::TimedOut => kind.is_timeout(),
        _ => false,
    };
    let failure = fits.then(|| failure_of(kind, variant, observation))?;
    // The output of the trial may have the message of another case.
    let names_failure = |other: &CaseResult| {
        let message = other.failure.as_ref().map(|failure| &failure.message);
        let line = message.and_then(|message| message.lines().next());
        line.is_some_and(|line| !line.is_empty() && failure.signature.title.contains(line))
    };
    let mut others = cases.iter().filter(|other| other.case != result.case);
    let is_of_other = others.any(|other| other.end.is_failure() && names_failure(other));
    (!is_of_other).then_some(failure)
}

/// Judges a trial by the cases that the run looks for, whatever the trial itself ended with.
pub(super) fn judge_searched_cases(
    rules: &Rules,
    variant: &VariantPlan,
    observation: &Observation,
) -> Outcome {
    let Some(cases) = &observation.cases else {
        return Outcome::Inconclusive(InconclusiveReason::CaseNotRun);
    };
    let patterns: Vec<&CasePattern> = rules.searched_cases().collect();
    let is_searched = |result: &&CaseResult| {
        patterns
            .iter()
            .any(|pattern| pattern.matches_case(&result.case))
    };
    let searched: Vec<&CaseResult> = cases.results.iter().filter(is_searched).collect();
    if rules.search_passes() && searched.iter().any(|result| result.end.is_failure()) {
        return Outcome::Pass;
    }
    // A crash tells more than a failed assertion.
    let worst = searched
        .iter()
        .filter(|result| result.end.is_failure())
        .max_by_key(|result| result.end);
    if let Some(result) = worst {
        let failure = failure_of_process(rules, variant, observation, &cases.results, result);
        let failure = failure.unwrap_or_else(|| Failure {
            kind: FailureKind::Test,
            signature: signature_of_case(result.end, result.failure.as_ref()),
            sites: site_of_case(result),
            functions: Vec::new(),
        });
        return if is_other_bug(rules, &failure) {
            Outcome::Other(Box::new(failure))
        } else {
            Outcome::Fail(Box::new(failure))
        };
    }
    if let Some(result) = searched.iter().find(|result| result.end.is_pass()) {
        return if rules.search_passes() {
            Outcome::Fail(Box::new(Failure {
                kind: FailureKind::TestPassed,
                signature: signature_of_case(result.end, None),
                sites: Vec::new(),
                functions: Vec::new(),
            }))
        } else {
            Outcome::Pass
        };
    }
    Outcome::Inconclusive(if searched.is_empty() && !plans_any(cases, &patterns) {
        InconclusiveReason::NoCase
    } else {
        InconclusiveReason::CaseNotRun
    })
}

fn site_of_case(result: &CaseResult) -> Vec<provoke_model::Site> {
    let failure = result.failure.iter();
    failure.filter_map(|failure| failure.site.clone()).collect()
}

/// Returns whether the run also looks for certain failures, and this is none of them.
fn is_other_bug(rules: &Rules, failure: &Failure) -> bool {
    let is_case = |filter: &&BugFilter| matches!(filter, BugFilter::Test(_) | BugFilter::Passes(_));
    let mut kinds = rules
        .only
        .iter()
        .filter(|filter| !is_case(filter))
        .peekable();
    kinds.peek().is_some() && !kinds.any(|filter| filter.covers_failure(failure))
}

/// Returns whether the trial planned a case that the run looks for, or did not announce its cases.
fn plans_any(cases: &TrialCases, patterns: &[&CasePattern]) -> bool {
    let Some(planned) = &cases.planned else {
        // A suite that reports nothing did not get so far.
        return cases.results.is_empty();
    };
    let is_searched = |case| patterns.iter().any(|pattern| pattern.matches_case(case));
    planned.iter().any(is_searched)
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::{CaseFailure, CaseName};

    fn judge(only: &[&str], planned: Option<&[&str]>, ends: &[(&str, CaseEnd)]) -> String {
        let rules = Rules {
            only: only.iter().map(|text| text.parse().unwrap()).collect(),
            ..Rules::default()
        };
        let result = |(name, end): &(&str, CaseEnd)| CaseResult {
            case: CaseName::without_suite(*name),
            end: *end,
            failure: Some(CaseFailure {
                message: format!("{name} failed"),
                ..CaseFailure::default()
            }),
            ..CaseResult::default()
        };
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| CaseName::without_suite(*name))
                .collect()
        };
        let observation = Observation {
            cases: Some(Box::new(TrialCases {
                planned: planned.map(names),
                results: ends.iter().map(result).collect(),
                complaints: Vec::new(),
            })),
            ..Observation::default()
        };
        match crate::judge_trial(&rules, &VariantPlan::default(), &observation) {
            Outcome::Pass => "pass".to_owned(),
            Outcome::Fail(failure) => format!("fail: {}", failure.signature.title),
            Outcome::Other(failure) => format!("other: {}", failure.signature.title),
            Outcome::Inconclusive(reason) => format!("void: {reason}"),
        }
    }

    #[test]
    fn a_trial_passes_and_fails_with_the_searched_case() {
        let ends = [
            ("a", CaseEnd::Failed),
            ("b", CaseEnd::Passed),
            ("c", CaseEnd::Skipped),
        ];
        let plan: &[&str] = &["a", "b", "c", "d"];
        assert_eq!(judge(&["test:a"], Some(plan), &ends), "fail: a failed");
        assert_eq!(judge(&["test:*"], Some(plan), &ends), "fail: a failed");
        assert_eq!(judge(&["test:b"], Some(plan), &ends), "pass");
        for not_run in ["test:c", "test:d"] {
            let outcome = judge(&[not_run], Some(plan), &ends);
            assert_eq!(outcome, "void: the test did not run");
        }
        assert_eq!(judge(&["test:e"], Some(plan), &ends), "void: no such test");
        assert_eq!(judge(&["test:e"], None, &ends), "void: no such test");
    }

    #[test]
    fn a_search_for_passes_reverses_the_outcome() {
        let ends = [("a", CaseEnd::Failed), ("b", CaseEnd::Passed)];
        assert_eq!(judge(&["passes:a"], None, &ends), "pass");
        assert_eq!(judge(&["passes:b"], None, &ends), "fail: passed");
        assert_eq!(judge(&["passes:c"], None, &ends), "void: no such test");
    }

    #[test]
    fn a_suite_that_reports_nothing_says_nothing_about_its_cases() {
        assert_eq!(judge(&["test:a"], None, &[]), "void: the test did not run");
    }

    #[test]
    fn other_filters_select_among_the_failures_of_the_case() {
        let ends = [("a", CaseEnd::Failed)];
        let outcome = judge(&["test:a", "SIGSEGV"], None, &ends);
        assert_eq!(outcome, "other: a failed");
    }
}
