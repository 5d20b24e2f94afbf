//! Report in `JUnit` XML: a suite for each variant, a case for each trial, or for each test of the suite that the trials run.
//!
//! A run may have a million trials, which no CI server can show. So in a run of more than [`FOLDED_FROM`] trials all
//! passing trials are one case. Of each other outcome the first [`SHOWN`] trials have their own cases, and the rest are
//! one. Totals that a server computes from the cases are then too small; the properties of the suite are right.

use super::output::read_stream_end;
use super::{
    CaseReport, CaseVerdict, ExportError, IntervalBasis, Report, TrialClass, TrialRow,
    VariantReport, group_failures, headlines, rows,
};
use crate::store::{RunFolder, Secrets};
use provoke_model::{EvidenceDepth, Site};
use provoke_questions::{Answer, Verdict};
use provoke_sys::untrusted::shell_word;
use provoke_words as words;
use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestRerun, TestSuite};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// In a run of more trials, some trials share a case.
pub(super) const FOLDED_FROM: u64 = 10_000;
/// Number of trials of every outcome but `pass` that have their own cases in such a run.
const SHOWN: u64 = 1000;
/// Maximum number of bytes of output in the whole file.
const ALL_OUTPUT: usize = 16 << 20;
/// Maximum length of a command in a name, in characters.
const NAME: usize = 120;

/// Writes the trials of a run.
pub(super) fn write_junit(
    folder: &RunFolder,
    report: &Report,
    secrets: &Secrets,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let trials = |variant: &VariantReport| variant.trials + variant.other + variant.void;
    let trial_count: u64 = report.variants.iter().map(trials).sum();
    let mut suites: Vec<VariantSuite> = report
        .variants
        .iter()
        .map(|variant| VariantSuite::new(report, variant))
        .collect();
    let mut output_left = ALL_OUTPUT;
    for (suite, variant) in suites.iter_mut().zip(&report.variants) {
        suite.add_tests(report, variant);
    }
    rows::for_each_row(folder, report, |row| {
        let has_tests = |variant: &VariantReport| variant.suite.is_some();
        if let Some(suite) = suites.get_mut(row.index)
            && !report.variants.get(row.index).is_some_and(has_tests)
        {
            suite.add_case(&row, trial_count > FOLDED_FROM, |row| {
                let output = KeptOutput::read_streams(folder, row, secrets, output_left);
                output_left = output_left.saturating_sub(output.total_length());
                output
            });
        }
        Ok(())
    })?;
    let mut junit_report = quick_junit::Report::new(words::sanitize_line(&report.run));
    // Parsed, so that the time library of this crate's type need not be a dependency.
    junit_report.timestamp = report.begun.parse().ok();
    junit_report.time = try_duration(report.seconds);
    junit_report.add_test_suites(verdict_suite(report));
    junit_report.add_test_suites(suites.into_iter().map(VariantSuite::into_test_suite));
    let mut text = Vec::new();
    junit_report
        .serialize(&mut text)
        .map_err(io::Error::other)?;
    Ok(out.write_all(&text)?)
}

/// Returns whether the question decides the result, and not each trial.
fn is_decided_by_question(report: &Report) -> bool {
    report.max_rate.is_some() || matches!(report.answer, Some(Answer::Confirm(_)))
}

/// Returns the answer as its own case: all trials may pass and the question may be undecided.
fn verdict_suite(report: &Report) -> Option<TestSuite> {
    if let Some(limit) = &report.max_rate {
        let name = "the failure rate is at most the maximum";
        return Some(question_suite(
            report,
            "max-rate",
            name,
            &limit.sentence,
            &[],
        ));
    }
    let answer = report.answer.as_ref()?;
    let (kind, name) = match answer {
        Answer::Confirm(_) => ("confirm", "the bug is fixed"),
        Answer::Compare(_) => ("compare", "variants do not differ"),
        Answer::Bisect(_) => ("bisect", "the first bad candidate is found"),
        Answer::Ramp(_) => ("ramp", "the lowest failing level is found"),
        Answer::Reduce(_) => ("reduce", "the needed items are found"),
        Answer::Shrink(_) => ("shrink", "the smallest failing load is found"),
        Answer::Hunt(_) => ("hunt", "no schedule that was tried fails"),
    };
    let assumptions = answer.text().assumptions();
    Some(question_suite(
        report,
        kind,
        name,
        answer.text().sentence(),
        assumptions,
    ))
}

fn question_suite(
    report: &Report,
    kind: &str,
    name: &str,
    sentence: &str,
    assumptions: &[String],
) -> TestSuite {
    let mut status = match report.verdict {
        Verdict::Fixed
        | Verdict::NoDifference
        | Verdict::Clean
        | Verdict::Found
        | Verdict::BelowMaxRate => TestCaseStatus::success(),
        Verdict::Undecided | Verdict::CouldNotTest => {
            TestCaseStatus::non_success(NonSuccessKind::Error)
        }
        _ => TestCaseStatus::non_success(NonSuccessKind::Failure),
    };
    let sentence = words::sanitize_line(sentence);
    status.set_type(headlines::verdict_text(report.verdict));
    status.set_message(sentence.clone());
    let assumed = assumptions
        .iter()
        .map(|line| format!("assumes: {}", words::sanitize_line(line)));
    let sentences: Vec<String> = std::iter::once(sentence).chain(assumed).collect();
    let mut case = TestCase::new(name, status);
    case.set_classname("provoke");
    case.set_system_out(sentences.join("\n"));
    let mut suite = TestSuite::new(format!("provoke {kind}"));
    suite.add_test_case(case);
    suite
}

/// Returns the line of source code of each failed trial; trials without a stack have that of the same crash.
fn sites_of_trials(variant: &VariantReport) -> BTreeMap<u64, String> {
    let mut sites = BTreeMap::new();
    for group in group_failures(variant) {
        if let Some(site) = Site::naming_site(&group.signature.sites) {
            let site = words::sanitize_line(&site.to_string());
            sites.extend(group.measured_trials().map(|trial| (trial, site.clone())));
        }
    }
    sites
}

struct VariantSuite {
    suite: TestSuite,
    /// Class name of the cases. It is not the command, because servers treat its dots as package separators.
    class: String,
    /// Name of the run, for the replay command.
    run: String,
    /// Whether the question decides the result, so that a failed trial is not a failure of the suite.
    is_decided_by_question: bool,
    /// The line of source code of each failed trial, if it is known.
    sites: BTreeMap<u64, String>,
    /// Number of trials so far, and of those without a case, by class and outcome; and the seconds of the latter.
    seen: BTreeMap<(&'static str, String), (u64, u64, f64)>,
}

impl VariantSuite {
    fn new(report: &Report, variant: &VariantReport) -> Self {
        let name = if variant.name.is_empty() {
            &variant.command
        } else {
            &variant.name
        };
        let mut name = words::sanitize_line(name);
        if let Some((position, _)) = name.char_indices().nth(NAME) {
            name.truncate(position);
            name.push('…');
        }
        let mut suite = TestSuite::new(name);
        suite.timestamp = report.begun.parse().ok();
        suite.time = try_duration(variant.time_between_failures.exposure);
        suite.add_properties(suite_properties(report, variant));
        let host = words::sanitize_line(&report.host.name);
        suite.extra.insert("hostname".into(), host.into());
        Self {
            suite,
            class: match variant.name.as_str() {
                "" => "provoke".to_owned(),
                name => words::sanitize_line(name),
            },
            run: report.reference.clone(),
            sites: sites_of_trials(variant),
            is_decided_by_question: is_decided_by_question(report),
            seen: BTreeMap::new(),
        }
    }

    fn add_case(
        &mut self,
        row: &TrialRow,
        folds: bool,
        output: impl FnOnce(&TrialRow) -> KeptOutput,
    ) {
        // Captured trials do not belong to the measurement.
        if matches!(row.class, TrialClass::Capture | TrialClass::Alone) {
            return;
        }
        let (count, folded, seconds) = self
            .seen
            .entry((class_name(row.class), row.outcome.clone()))
            .or_default();
        *count += 1;
        if folds && (row.class == TrialClass::Pass || *count > SHOWN) {
            *folded += 1;
            *seconds += row.seconds.unwrap_or(0.0);
            return;
        }
        let mut status = self.case_status(class_name(row.class), &row.outcome);
        let detail = words::sanitize_line(&row.detail);
        status.set_message(if detail.is_empty() {
            describe_outcome(row)
        } else {
            format!("{}: {detail}", describe_outcome(row))
        });
        let failed = matches!(row.class, TrialClass::Fail | TrialClass::Other);
        if failed {
            status.set_description(self.describe_case(row));
        }
        let mut case = TestCase::new(format!("trial {}", row.trial), status);
        case.set_classname(self.class.as_str());
        case.time = row.seconds.and_then(try_duration);
        case.timestamp = row
            .started
            .and_then(|started| started.to_string().parse().ok());
        if row.class != TrialClass::Pass && row.kept.is_some() {
            let KeptOutput { stdout, err } = output(row);
            case.system_out = stdout.map(Into::into);
            case.system_err = err.map(Into::into);
        }
        if failed && self.is_decided_by_question {
            let text = format!("{}\n{}", describe_outcome(row), self.describe_case(row));
            let output = case
                .system_out
                .take()
                .map_or(String::new(), |stdout| format!("\n{}", stdout.as_str()));
            case.set_system_out(format!("{text}{output}"));
        }
        self.suite.add_test_case(case);
    }

    /// Adds a case for each test of the suite that the trials run.
    fn add_tests(&mut self, report: &Report, variant: &VariantReport) {
        let allowed = report.max_rate.as_ref().map(|check| check.allowed);
        let tests = variant.suite.iter().flat_map(|suite| &suite.cases);
        for test in tests {
            self.suite
                .add_test_case(test_case(test, &self.class, allowed));
        }
    }

    /// Returns the status of a case; a failed trial passes if the question decides.
    fn case_status(&self, class: &str, outcome: &str) -> TestCaseStatus {
        match class {
            FAIL | OTHER if self.is_decided_by_question => TestCaseStatus::success(),
            _ => status_of_class(class, outcome),
        }
    }

    /// Returns the text below the message of a failure.
    fn describe_case(&self, row: &TrialRow) -> String {
        let mut lines = Vec::new();
        if let Some(site) = self.sites.get(&row.trial) {
            lines.push(format!("at {site}"));
        }
        if !row.last_words.is_empty() {
            lines.push(format!(
                "last output: {}",
                words::sanitize_line(&row.last_words)
            ));
        }
        if let Some(folder) = &row.kept {
            lines.push(format!("kept in: {folder}"));
        }
        lines.push(format!(
            "repeat it: provoke replay {}#{}",
            shell_word(self.run.as_ref()),
            row.trial
        ));
        lines.join("\n")
    }

    fn into_test_suite(mut self) -> TestSuite {
        let suites = std::mem::take(&mut self.seen);
        for ((class, outcome), (_, folded, seconds)) in suites {
            if folded == 0 {
                continue;
            }
            let name = match class {
                PASS => words::format_count(folded, "more trial") + " that passed",
                _ => format!("{}: {outcome}", words::format_count(folded, "more trial")),
            };
            let mut status = self.case_status(class, &outcome);
            status.set_message(format!("{class}, {outcome}: folded into one case"));
            let mut case = TestCase::new(name, status);
            case.set_classname(self.class.as_str());
            case.time = try_duration(seconds);
            self.suite.add_test_case(case);
        }
        self.suite
    }
}

/// Returns the case of a test. A test that failed in some trials passes as flaky, unless its rate is above the allowed one.
fn test_case(test: &CaseReport, class: &str, allowed: Option<f64>) -> TestCase {
    let failed = format!(
        "failed in {} of {} ({})",
        test.failures,
        words::format_count(test.trials, "trial"),
        words::format_interval(test.shown_interval())
    );
    let is_above = allowed.is_some_and(|allowed| test.shown_interval()[0] > allowed);
    let mut status = match test.verdict {
        CaseVerdict::Passes => TestCaseStatus::success(),
        CaseVerdict::NeverRan => {
            let mut status = TestCaseStatus::skipped();
            status.set_message("not run: it did not pass or fail in any trial");
            status
        }
        CaseVerdict::Flaky | CaseVerdict::Crashes if !is_above => TestCaseStatus::success(),
        _ => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(failed.clone());
            status
        }
    };
    for signature in &test.signatures {
        let title = words::sanitize_line(&signature.title);
        let text = format!("{}x {title} ({})", signature.count, signature.id);
        if matches!(status, TestCaseStatus::Success { .. }) {
            let mut rerun = TestRerun::new(NonSuccessKind::Failure);
            rerun.set_type(title);
            rerun.set_message(failed.clone());
            rerun.set_description(text);
            status.add_rerun(rerun);
        } else if let TestCaseStatus::NonSuccess { description, .. } = &mut status {
            let earlier = description
                .take()
                .map_or_else(String::new, |earlier| format!("{}\n", earlier.as_str()));
            *description = Some(format!("{earlier}{text}").into());
        }
    }
    let mut case = TestCase::new(words::sanitize_line(&test.name), status);
    case.set_classname(class);
    case.time = test.mean_seconds.and_then(try_duration);
    let [low, high] = test.shown_interval();
    let properties = [
        ("trials", test.trials.to_string()),
        ("failures", test.failures.to_string()),
        ("rate.low", low.to_string()),
        ("rate.high", high.to_string()),
    ];
    for (name, value) in properties {
        case.add_property(Property::new(name, value));
    }
    case
}

const PASS: &str = "passed";
const FAIL: &str = "failed";
const OTHER: &str = "failed in another way";

fn class_name(class: TrialClass) -> &'static str {
    match class {
        TrialClass::Pass => PASS,
        TrialClass::Fail => FAIL,
        TrialClass::Other => OTHER,
        TrialClass::Void => "inconclusive",
        TrialClass::AfterDecision => "not counted: ended after the decision",
        TrialClass::Waiting => "not counted: a trial before it has not ended",
        TrialClass::Capture => "not counted: run to catch evidence",
        TrialClass::Held => "not counted: threads were held",
        TrialClass::Alone => "not counted: one failing test ran alone",
    }
}

/// Returns the status by outcome: the bug is a failure, another failure is an error, and an inconclusive trial is
/// skipped.
fn status_of_class(class: &str, outcome: &str) -> TestCaseStatus {
    let mut status = match class {
        PASS => return TestCaseStatus::success(),
        FAIL => TestCaseStatus::non_success(NonSuccessKind::Failure),
        OTHER => TestCaseStatus::non_success(NonSuccessKind::Error),
        _ => TestCaseStatus::skipped(),
    };
    if matches!(class, FAIL | OTHER) {
        status.set_type(outcome);
    }
    status
}

/// Describes the outcome of a trial.
fn describe_outcome(row: &TrialRow) -> String {
    match row.class {
        TrialClass::Pass | TrialClass::Void => "inconclusive".to_owned(),
        TrialClass::Fail => match (&row.title, row.depth) {
            (Some(title), Some(EvidenceDepth::Kernel | EvidenceDepth::Stack)) => {
                words::sanitize_line(title)
            }
            _ => row.words.clone(),
        },
        TrialClass::Other => format!("not the bug looked for: {}", row.words),
        TrialClass::AfterDecision
        | TrialClass::Waiting
        | TrialClass::Capture
        | TrialClass::Held
        | TrialClass::Alone => {
            format!("{} ({})", class_name(row.class), row.outcome)
        }
    }
}

fn suite_properties(report: &Report, variant: &VariantReport) -> Vec<Property> {
    let [low, high] = variant.rate.interval();
    let basis = match variant.rate.basis {
        IntervalBasis::Cp => "cp",
        IntervalBasis::Cs => "cs",
    };
    let mut properties = vec![
        ("command", words::sanitize_line(&variant.command)),
        (
            "verdict",
            headlines::verdict_text(report.verdict).to_owned(),
        ),
        (
            "stop_rule",
            headlines::stop_rule_text(variant.stop_rule).to_owned(),
        ),
        ("rate", headlines::rate_headline(variant, report.confidence)),
        ("rate.low", low.to_string()),
        ("rate.high", high.to_string()),
        (
            "rate.upper_one_sided",
            variant.rate.upper_one_sided.to_string(),
        ),
        ("rate.basis", basis.to_owned()),
        ("confidence", report.confidence.to_string()),
        ("trials", variant.trials.to_string()),
        ("failures", variant.failures.to_string()),
        ("other", variant.other.to_string()),
        ("void", variant.void.to_string()),
        ("jobs", report.jobs.to_string()),
        ("seed", report.seed.to_string()),
        ("provoke", words::sanitize_line(&report.version)),
    ];
    if let Some(point) = variant.rate.point {
        properties.push(("rate.point", point.to_string()));
    }
    if let Some(answer) = &report.answer {
        properties.push(("answer", words::sanitize_line(answer.text().sentence())));
        let granted = answer.text().assumptions().iter();
        properties
            .extend(granted.map(|line| ("answer.taken_for_granted", words::sanitize_line(line))));
    }
    properties
        .into_iter()
        .map(|(name, value)| Property::new(name, value))
        .collect()
}

fn try_duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// The kept output of a trial.
#[derive(Default)]
struct KeptOutput {
    stdout: Option<String>,
    err: Option<String>,
}

impl KeptOutput {
    fn read_streams(folder: &RunFolder, row: &TrialRow, secrets: &Secrets, at_most: usize) -> Self {
        if at_most == 0 {
            return Self::default();
        }
        let trial = folder.trials_path().join(row.trial.to_string());
        Self {
            stdout: read_stream_end(&trial, "stdout", secrets),
            err: read_stream_end(&trial, "stderr", secrets),
        }
    }

    fn total_length(&self) -> usize {
        [&self.stdout, &self.err]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum()
    }
}
