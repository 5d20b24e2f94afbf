//! Report in `JUnit` XML for people: a case for the verdict, for each failure by signature, and for each test of the suite
//! that the trials run.
//!
//! The file fails if the verdict does. If the verdict passes, such as a rate below the maximum, failures pass as flaky. If a
//! question about tests fails, such as whether one is fixed, other tests that failed in some trials are flaky.

use super::failure_evidence::FailureEvidence;
use super::junit_suite::{
    ALL_OUTPUT, KeptOutput, class_of_variant, document, variant_suite, verdict_passes,
    verdict_suite,
};
use super::junit_xml::{Case, Detail, Status, Suite};
use super::shared_failures::{SharedFailure, VariantGroup, shared_failures};
use super::{
    CaseReport, CaseVerdict, ExportError, ExportOptions, Exporter, Masked, MaskedRun, Report,
    VariantReport, rows, story,
};
use provoke_model::{EvidenceDepth, Site};
use provoke_questions::AnswerText;
use provoke_words as words;
use provoke_words::untrusted::shell_word;
use std::collections::BTreeSet;
use std::io;

/// Maximum number of failures with a case of their own.
const SHOWN: usize = 100;
/// Maximum number of listed trials.
const LISTED: usize = 12;

/// `JUnit` XML, for CI servers.
pub static JUNIT: Exporter = Exporter::new("junit", "Write JUnit XML for CI servers", write);

fn write(
    run: &MaskedRun<'_>,
    _: &ExportOptions,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let report = run.report();
    let variants = &report.get().variants;
    let tested = variants.iter().filter(|variant| variant.suite.is_some());
    let mut suites: Vec<Suite> = tested
        .map(|variant| suite_of_tests(report, variant))
        .collect();
    if suites.is_empty() {
        suites.push(suite_of_failures(run));
    } else {
        suites.insert(0, verdict_suite(report));
    }
    Ok(document(report, suites).write(out)?)
}

/// Returns the verdict and a case for each failure.
fn suite_of_failures(run: &MaskedRun<'_>) -> Suite {
    let report = run.report();
    let mut suite = verdict_suite(report);
    suite.host = Some(words::sanitize_line(&report.host.name));
    suite.started = Some(report.started_at.clone());
    suite.seconds = Some(report.seconds);
    if let [variant] = report.variants.as_slice() {
        suite.properties = variant_suite(report, variant).properties;
    }
    let failures = shared_failures(&report.get().variants);
    let mut cases = FailureCases {
        run,
        kept: rows::kept_trials(run.folder()),
        output_left: ALL_OUTPUT,
        names: suite.cases.iter().map(|case| case.name.clone()).collect(),
    };
    for failure in failures.iter().take(SHOWN) {
        suite.cases.push(cases.case_of_failure(failure));
    }
    let unshown = failures.get(SHOWN..).unwrap_or_default();
    if !unshown.is_empty() {
        let trials: usize = unshown.iter().map(|failure| failure.trials.len()).sum();
        let detail = Detail {
            message: Some(format!(
                "{} in {}: see the JSON report",
                words::format_count(unshown.len() as u64, "more failure"),
                words::format_count(trials as u64, "trial"),
            )),
            ..Detail::default()
        };
        suite.cases.push(Case {
            name: "further failures".to_owned(),
            class: "provoke".to_owned(),
            status: failure_status(report, true, detail),
            ..Case::default()
        });
    }
    suite
}

/// Returns the status of a failure: the bug is a failure, another failure is an error. If the verdict passes, both pass.
fn failure_status(report: Masked<&Report>, is_the_bug: bool, detail: Detail) -> Status {
    match is_the_bug {
        _ if verdict_passes(report) => Status::Passed(vec![detail]),
        true => Status::Failed(detail),
        false => Status::Error(detail),
    }
}

/// Makes the cases of failures.
struct FailureCases<'a> {
    run: &'a MaskedRun<'a>,
    /// Trials with kept evidence.
    kept: Vec<u64>,
    /// Number of bytes of output that the file may still contain.
    output_left: usize,
    /// Names of the cases so far: of cases with one name, servers show only one.
    names: BTreeSet<String>,
}

impl FailureCases<'_> {
    fn case_of_failure(&mut self, failure: &SharedFailure<'_>) -> Case {
        let report = self.run.report();
        let signature = failure.signature;
        let mut name = words::sanitize_line(&signature.title);
        if let Some(site) = Site::naming_site(&signature.sites) {
            let place = words::sanitize_line(&site.file_and_line());
            if !name.contains(&place) {
                name = format!("{name} at {place}");
            }
        }
        if !self.names.insert(name.clone()) {
            name = format!("{name} ({})", signature.id);
            self.names.insert(name.clone());
        }
        let is_kept = |trial: &&u64| self.kept.binary_search(trial).is_ok();
        let kept = failure.trials.iter().find(is_kept).copied();
        let detail = Detail {
            kind: Some(signature.outcome.clone()),
            message: Some(failure_message(failure)),
            text: Some(self.failure_text(failure, kept)),
        };
        let output = kept.map_or_else(KeptOutput::default, |trial| {
            KeptOutput::read_streams(self.run, trial, &mut self.output_left)
        });
        Case {
            name,
            class: "provoke".to_owned(),
            properties: vec![
                ("failures", failure.trials.len().to_string()),
                ("signature", signature.id.clone()),
            ],
            status: failure_status(report, signature.is_the_bug, detail),
            stdout: output.stdout,
            stderr: output.stderr,
            ..Case::default()
        }
    }

    /// Returns the text below the message of a failure: where, in which trials, and its evidence.
    fn failure_text(&self, failure: &SharedFailure<'_>, kept: Option<u64>) -> String {
        let signature = failure.signature;
        let evidence = FailureEvidence::read_from(&failure.most_frequent().group, self.run);
        let sites = signature.sites.iter();
        let mut lines: Vec<String> = sites.map(|site| format!("at {site}")).collect();
        lines.extend(evidence.source);
        if let Some(analysis) = &evidence.analysis {
            lines.extend(story::stack_lines(analysis));
        }
        let trials = words::trial_list(&failure.trials, LISTED);
        lines.push(match failure.trials.len() {
            1 => format!("trial: {trials}"),
            _ => format!("trials: {trials}"),
        });
        lines.extend(failure.most_frequent().group.describe_evidence(LISTED));
        if signature.depth > EvidenceDepth::Status {
            lines.push(format!("signature: {}", signature.id));
        }
        if let Some(trial) = kept {
            lines.push(format!("kept in: trials/{trial}"));
        }
        if let Some(trial) = kept.or(failure.trials.first().copied()) {
            let run = shell_word(self.run.report().reference.as_ref());
            lines.push(format!("repeat it: provoke replay {run}#{trial}"));
        }
        let lines = lines.iter().map(|line| words::sanitize_line(line));
        lines.collect::<Vec<String>>().join("\n")
    }
}

/// Returns how often a failure occurred, in which variants, and what it means.
fn failure_message(failure: &SharedFailure<'_>) -> String {
    let VariantGroup { variant, .. } = failure.most_frequent();
    let count = failure.trials.len() as u64;
    let in_trials = match failure.groups.as_slice() {
        // Trials with another failure are not among the counted ones.
        [_] if failure.signature.is_the_bug => {
            let trials = words::format_count(variant.trials, "trial");
            format!("{count} of {trials} failed")
        }
        _ => format!("{} failed", words::format_count(count, "trial")),
    };
    let in_variants = match failure.variant_names() {
        names if names.is_empty() => String::new(),
        names => format!(" in {names}"),
    };
    let not_the_bug = if failure.signature.is_the_bug {
        ""
    } else {
        ", not the bug looked for"
    };
    let mut kinds = variant.kinds.iter();
    let kind = kinds.find(|kind| kind.outcome == failure.signature.outcome);
    let meaning = kind.map_or(String::new(), |kind| format!(": {}", kind.words));
    words::sanitize_line(&format!("{in_trials}{in_variants}{not_the_bug}{meaning}"))
}

/// Returns a suite with a case for each test.
fn suite_of_tests(report: Masked<&Report>, variant: &VariantReport) -> Suite {
    let class = class_of_variant(variant);
    let tests = variant.suite.iter().flat_map(|suite| &suite.cases);
    Suite {
        cases: tests.map(|test| test_case(report, test, &class)).collect(),
        ..variant_suite(report, variant)
    }
}

/// Returns the case of a test. A test that failed fails if that decides the verdict: without a question, if no trial is to
/// fail, or if its rate is above the allowed one. Otherwise, one that failed in some trials passes as flaky.
fn test_case(report: Masked<&Report>, test: &CaseReport, class: &str) -> Case {
    let failed = format!(
        "failed in {} of {} ({})",
        test.failures,
        words::format_count(test.trials, "trial"),
        words::format_interval(test.shown_interval())
    );
    let details = test.signatures.iter().map(|signature| {
        let title = words::sanitize_line(&signature.title);
        let text = format!("{}x {title} ({})", signature.count, signature.id);
        (title, text)
    });
    let answer = report.answer_text();
    let allowed = answer.and_then(AnswerText::allowed_rate);
    let passes = match test.verdict {
        CaseVerdict::Passes => true,
        _ if answer.is_none() => verdict_passes(report),
        CaseVerdict::Flaky | CaseVerdict::Crashes => {
            allowed.is_none_or(|allowed| test.shown_interval()[0] <= allowed)
        }
        _ => false,
    };
    let status = match test.verdict {
        CaseVerdict::NeverRan => Status::Skipped(Detail {
            message: Some("not run: it did not pass or fail in any trial".to_owned()),
            ..Detail::default()
        }),
        _ if passes => {
            let failures = details.map(|(title, text)| Detail {
                kind: Some(title),
                message: Some(failed.clone()),
                text: Some(text),
            });
            Status::Passed(failures.collect())
        }
        _ => {
            let lines: Vec<String> = details.map(|(_, text)| text).collect();
            Status::Failed(Detail {
                kind: None,
                message: Some(failed),
                text: Some(lines.join("\n")).filter(|text| !text.is_empty()),
            })
        }
    };
    let [low, high] = test.shown_interval();
    Case {
        name: words::sanitize_line(&test.name),
        class: class.to_owned(),
        seconds: test.mean_seconds,
        properties: vec![
            ("trials", test.trials.to_string()),
            ("failures", test.failures.to_string()),
            ("rate.low", low.to_string()),
            ("rate.high", high.to_string()),
        ],
        status,
        ..Case::default()
    }
}
