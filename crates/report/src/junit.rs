//! Report in `JUnit` XML: a suite for each variant, a case for each trial, or for each test of the suite that the trials run.
//!
//! A run may have a million trials, which no CI server can show. So in a run of more than [`FOLDED_FROM`] trials all
//! passing trials are one case. Of each other outcome the first [`SHOWN`] trials have their own cases, and the rest are
//! one. Totals that a server computes from the cases are then too small; the properties of the suite are right.

use super::junit_xml::{Case, Detail, Document, Status, Suite};
use super::output::read_stream_end;
use super::{
    CaseReport, CaseVerdict, ExportError, ExportOptions, Exporter, IntervalBasis, Masked,
    MaskedRun, Report, TrialClass, TrialRow, VariantReport, group_failures, headlines, rows,
};
use provoke_model::{EvidenceDepth, Site};
use provoke_questions::{AnswerText, RateMeaning, Verdict};
use provoke_words as words;
use provoke_words::untrusted::shell_word;
use std::collections::BTreeMap;
use std::io;

/// In a run of more trials, some trials share a case.
pub(super) const FOLDED_FROM: u64 = 10_000;
/// Number of trials of every outcome but `pass` that have their own cases in such a run.
const SHOWN: u64 = 1000;
/// Maximum number of bytes of output in the whole file.
const ALL_OUTPUT: usize = 16 << 20;
/// Maximum length of a command in a name, in characters.
const NAME: usize = 120;

/// `JUnit` XML, for CI servers.
#[derive(Clone, Copy, Debug)]
pub struct Junit;

impl Exporter for Junit {
    fn name(&self) -> &'static str {
        "junit"
    }

    fn about(&self) -> &'static str {
        "Write JUnit XML for CI servers"
    }

    fn write(
        &self,
        run: &MaskedRun<'_>,
        _: &ExportOptions,
        out: &mut dyn io::Write,
    ) -> Result<(), ExportError> {
        let report = run.report();
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
        rows::for_each_row(run, |row| {
            let has_tests = |variant: &VariantReport| variant.suite.is_some();
            if let Some(suite) = suites.get_mut(row.index)
                && !report.variants.get(row.index).is_some_and(has_tests)
            {
                suite.add_case(&row, trial_count > FOLDED_FROM, |row| {
                    let output = KeptOutput::read_streams(run, row, output_left);
                    output_left = output_left.saturating_sub(output.total_length());
                    output
                });
            }
            Ok(())
        })?;
        let suites = suites.into_iter().map(VariantSuite::into_suite);
        let document = Document {
            name: words::sanitize_line(&report.run),
            started: report.started_at.clone(),
            seconds: report.seconds,
            suites: verdict_suite(report).into_iter().chain(suites).collect(),
        };
        Ok(document.write(out)?)
    }
}

/// Returns whether the question decides the result, and not each trial.
fn is_decided_by_question(report: Masked<&Report>) -> bool {
    matches!(
        report.rate_meaning(),
        RateMeaning::OfFix | RateMeaning::Limited
    )
}

/// Returns the answer as its own case: all trials may pass and the question may be undecided.
fn verdict_suite(report: Masked<&Report>) -> Option<Suite> {
    let (kind, name) = report.answer_text()?.ci_test();
    let document = report.document.as_ref()?;
    let sentence = words::sanitize_line(&document.headline);
    let detail = Detail {
        kind: Some(headlines::verdict_text(report.verdict).to_owned()),
        message: Some(sentence.clone()),
        text: None,
    };
    let status = match report.verdict {
        Verdict::Fixed
        | Verdict::NoDifference
        | Verdict::Clean
        | Verdict::Found
        | Verdict::BelowMaxRate => Status::default(),
        Verdict::Undecided | Verdict::CouldNotTest => Status::Error(detail),
        _ => Status::Failed(detail),
    };
    let assumed = document
        .assumptions
        .iter()
        .map(|line| format!("assumes: {}", words::sanitize_line(line)));
    let sentences: Vec<String> = std::iter::once(sentence).chain(assumed).collect();
    let case = Case {
        name: name.to_owned(),
        class: "provoke".to_owned(),
        status,
        stdout: Some(sentences.join("\n")),
        ..Case::default()
    };
    Some(Suite {
        name: format!("provoke {kind}"),
        cases: vec![case],
        ..Suite::default()
    })
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

/// The trials of a class and an outcome.
#[derive(Default)]
struct SeenTrials {
    count: u64,
    /// Number of trials without a case of their own.
    folded: u64,
    /// Total duration of the trials without a case, in seconds.
    seconds: f64,
}

struct VariantSuite {
    suite: Suite,
    /// Class name of the cases. It is not the command, because servers treat its dots as package separators.
    class: String,
    /// Name of the run, for the replay command.
    run: String,
    /// Whether the question decides the result, so that a failed trial is not a failure of the suite.
    is_decided_by_question: bool,
    /// The line of source code of each failed trial, if it is known.
    sites: BTreeMap<u64, String>,
    seen: BTreeMap<(TrialClass, String), SeenTrials>,
}

impl VariantSuite {
    fn new(report: Masked<&Report>, variant: &VariantReport) -> Self {
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
        let suite = Suite {
            name,
            host: Some(words::sanitize_line(&report.host.name)),
            started: Some(report.started_at.clone()),
            seconds: Some(variant.time_between_failures.exposure),
            properties: suite_properties(report, variant),
            cases: Vec::new(),
        };
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
        let seen = self
            .seen
            .entry((row.class, row.outcome.clone()))
            .or_default();
        seen.count += 1;
        if folds && (row.class == TrialClass::Pass || seen.count > SHOWN) {
            seen.folded += 1;
            seen.seconds += row.seconds.unwrap_or(0.0);
            return;
        }
        let detail = words::sanitize_line(&row.detail);
        let message = if detail.is_empty() {
            describe_outcome(row)
        } else {
            format!("{}: {detail}", describe_outcome(row))
        };
        let failed = matches!(row.class, TrialClass::Fail | TrialClass::Other);
        let status = self.case_status(row.class, || Detail {
            kind: failed.then(|| row.outcome.clone()),
            message: Some(message),
            text: failed.then(|| self.describe_case(row)),
        });
        let KeptOutput { mut stdout, stderr } =
            if row.class != TrialClass::Pass && row.kept.is_some() {
                output(row)
            } else {
                KeptOutput::default()
            };
        if failed && self.is_decided_by_question {
            let text = format!("{}\n{}", describe_outcome(row), self.describe_case(row));
            let output = stdout.map_or(String::new(), |stdout| format!("\n{stdout}"));
            stdout = Some(text + &output);
        }
        self.suite.cases.push(Case {
            name: format!("trial {}", row.trial),
            class: self.class.clone(),
            started: row.started.map(|started| format!("{started:.3}")),
            seconds: row.seconds,
            status,
            stdout,
            stderr,
            ..Case::default()
        });
    }

    /// Adds a case for each test of the suite that the trials run.
    fn add_tests(&mut self, report: Masked<&Report>, variant: &VariantReport) {
        let allowed = report.answer_text().and_then(AnswerText::allowed_rate);
        let tests = variant.suite.iter().flat_map(|suite| &suite.cases);
        for test in tests {
            self.suite.cases.push(test_case(test, &self.class, allowed));
        }
    }

    /// Returns the status by outcome: the bug is a failure, another failure is an error, and an inconclusive trial is
    /// skipped. A failed trial passes if the question decides.
    fn case_status(&self, class: TrialClass, detail: impl FnOnce() -> Detail) -> Status {
        match class {
            TrialClass::Pass => Status::default(),
            TrialClass::Fail | TrialClass::Other if self.is_decided_by_question => {
                Status::default()
            }
            TrialClass::Fail => Status::Failed(detail()),
            TrialClass::Other => Status::Error(detail()),
            _ => Status::Skipped(detail()),
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

    fn into_suite(mut self) -> Suite {
        for ((class, outcome), seen) in std::mem::take(&mut self.seen) {
            if seen.folded == 0 {
                continue;
            }
            let count = words::format_count(seen.folded, "more trial");
            let name = match class {
                TrialClass::Pass => count + " that passed",
                _ => format!("{count}: {outcome}"),
            };
            let failed = matches!(class, TrialClass::Fail | TrialClass::Other);
            let status = self.case_status(class, || Detail {
                kind: failed.then(|| outcome.clone()),
                message: Some(format!(
                    "{}, {outcome}: folded into one case",
                    class_name(class)
                )),
                text: None,
            });
            self.suite.cases.push(Case {
                name,
                class: self.class.clone(),
                seconds: Some(seen.seconds),
                status,
                ..Case::default()
            });
        }
        self.suite
    }
}

/// Returns the case of a test. A test that failed in some trials passes as flaky, unless its rate is above the allowed one.
fn test_case(test: &CaseReport, class: &str, allowed: Option<f64>) -> Case {
    let failed = format!(
        "failed in {} of {} ({})",
        test.failures,
        words::format_count(test.trials, "trial"),
        words::format_interval(test.shown_interval())
    );
    let is_above = allowed.is_some_and(|allowed| test.shown_interval()[0] > allowed);
    let details = test.signatures.iter().map(|signature| {
        let title = words::sanitize_line(&signature.title);
        let text = format!("{}x {title} ({})", signature.count, signature.id);
        (title, text)
    });
    let passes = match test.verdict {
        CaseVerdict::Passes => true,
        CaseVerdict::Flaky | CaseVerdict::Crashes => !is_above,
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

fn class_name(class: TrialClass) -> &'static str {
    match class {
        TrialClass::Pass => "passed",
        TrialClass::Fail => "failed",
        TrialClass::Other => "failed in another way",
        TrialClass::Inconclusive => "inconclusive",
        TrialClass::AfterDecision => "not counted: ended after the decision",
        TrialClass::Waiting => "not counted: a trial before it has not ended",
        TrialClass::Capture => "not counted: run to catch evidence",
        TrialClass::Held => "not counted: threads were held",
        TrialClass::Alone => "not counted: one failing test ran alone",
    }
}

/// Describes the outcome of a trial.
fn describe_outcome(row: &TrialRow) -> String {
    match row.class {
        TrialClass::Pass | TrialClass::Inconclusive => "inconclusive".to_owned(),
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

fn suite_properties(
    report: Masked<&Report>,
    variant: &VariantReport,
) -> Vec<(&'static str, String)> {
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
    if report.answer.is_some()
        && let Some(document) = &report.document
    {
        properties.push(("answer", words::sanitize_line(&document.headline)));
        let granted = document.assumptions.iter();
        properties
            .extend(granted.map(|line| ("answer.taken_for_granted", words::sanitize_line(line))));
    }
    properties
}

/// The kept output of a trial.
#[derive(Default)]
struct KeptOutput {
    stdout: Option<String>,
    stderr: Option<String>,
}

impl KeptOutput {
    fn read_streams(run: &MaskedRun<'_>, row: &TrialRow, at_most: usize) -> Self {
        if at_most == 0 {
            return Self::default();
        }
        let trial = run.trial_folder(row.trial);
        Self {
            stdout: read_stream_end(&trial, "stdout", run.secrets()),
            stderr: read_stream_end(&trial, "stderr", run.secrets()),
        }
    }

    fn total_length(&self) -> usize {
        [&self.stdout, &self.stderr]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum()
    }
}
