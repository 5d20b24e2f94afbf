//! Report in `JUnit` XML with all trials: a suite for each variant, a case for each trial.
//!
//! A run may have a million trials, which no CI server can show. So in a run of more than [`FOLDED_FROM`] trials all
//! passing trials are one case. Of each other outcome the first [`SHOWN`] trials have their own cases, and the rest are
//! one. Totals that a server computes from the cases are then too small; the properties of the suite are right.

use super::junit_suite::{
    ALL_OUTPUT, KeptOutput, class_of_variant, document, variant_suite, verdict_suite,
};
use super::junit_xml::{Case, Detail, Status, Suite};
use super::{
    ExportError, ExportOptions, Exporter, Masked, MaskedRun, Report, TrialClass, TrialRow,
    VariantReport, group_failures, rows,
};
use provoke_model::{EvidenceDepth, Site};
use provoke_questions::RateMeaning;
use provoke_words as words;
use provoke_words::untrusted::shell_word;
use std::collections::BTreeMap;
use std::io;

/// In a run of more trials, some trials share a case.
pub(super) const FOLDED_FROM: u64 = 10_000;
/// Number of trials of every outcome but `pass` that have their own cases in such a run.
const SHOWN: u64 = 1000;

/// `JUnit` XML with a case for each trial.
pub static JUNIT_TRIALS: Exporter = Exporter::new(
    "junit-trials",
    "Write JUnit XML, one test case per trial",
    write,
);

fn write(
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
    rows::for_each_row(run, |row| {
        if let Some(suite) = suites.get_mut(row.index) {
            suite.add_case(&row, trial_count > FOLDED_FROM, |row| {
                KeptOutput::read_streams(run, row.trial, &mut output_left)
            });
        }
        Ok(())
    })?;
    let verdict = report.answer_text().map(|_| verdict_suite(report));
    let suites = suites.into_iter().map(VariantSuite::into_suite);
    let document = document(report, verdict.into_iter().chain(suites).collect());
    Ok(document.write(out)?)
}

/// Returns whether the question decides the result, and not each trial.
fn is_decided_by_question(report: Masked<&Report>) -> bool {
    matches!(
        report.rate_meaning(),
        RateMeaning::OfFix | RateMeaning::Limited
    )
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
        Self {
            suite: variant_suite(report, variant),
            class: class_of_variant(variant),
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
