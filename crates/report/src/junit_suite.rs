//! Suites and cases that both JUnit reports contain: the verdict, the properties of a variant, the output of a trial.

use super::junit_xml::{Case, Detail, Document, Status, Suite};
use super::output::read_stream_end;
use super::{IntervalBasis, Masked, MaskedRun, Report, VariantReport, headlines};
use provoke_model::ExpectedResult;
use provoke_questions::Verdict;
use provoke_words as words;

/// Maximum length of a command in a name, in characters.
const NAME: usize = 120;
/// Maximum number of bytes of output in the whole file.
pub(super) const ALL_OUTPUT: usize = 16 << 20;

/// Returns a file with these suites.
pub(super) fn document(report: Masked<&Report>, suites: Vec<Suite>) -> Document {
    Document {
        name: words::sanitize_line(&report.run),
        started: report.started_at.clone(),
        seconds: report.seconds,
        suites,
    }
}

/// Returns whether the verdict passes. A difference that was not found passes, although the exit code is not 0.
pub(super) fn verdict_passes(report: Masked<&Report>) -> bool {
    match report.verdict {
        Verdict::Clean | Verdict::Failing => {
            report.expected.is_met(report.verdict == Verdict::Failing)
        }
        Verdict::Fixed | Verdict::NoDifference | Verdict::Found | Verdict::BelowMaxRate => true,
        _ => false,
    }
}

/// Returns the verdict as its own case: all trials may pass and the question may be undecided.
pub(super) fn verdict_suite(report: Masked<&Report>) -> Suite {
    let (kind, name) = match report.answer_text() {
        Some(answer) => answer.ci_test(),
        None => match report.expected {
            ExpectedResult::Fail => ("run", "a trial fails"),
            ExpectedResult::Any => ("run", "the failure rate is measured"),
            ExpectedResult::Pass | ExpectedResult::MaxRate(_) => ("run", "no trial fails"),
        },
    };
    let sentences = headlines::answer_sentences(&report).into_iter();
    let sentences = sentences.map(|sentence| words::sanitize_line(&sentence));
    let mut lines: Vec<String> = sentences.collect();
    let detail = Detail {
        kind: Some(headlines::verdict_text(report.verdict).to_owned()),
        message: Some(lines.join("; ")),
        text: None,
    };
    let status = match report.verdict {
        _ if verdict_passes(report) => Status::default(),
        Verdict::Undecided | Verdict::CouldNotTest => Status::Error(detail),
        _ => Status::Failed(detail),
    };
    let assumptions = report
        .document
        .iter()
        .flat_map(|document| &document.assumptions);
    lines.extend(assumptions.map(|line| format!("assumes: {}", words::sanitize_line(line))));
    if let [variant] = report.variants.as_slice() {
        let uncounted = headlines::uncounted_lines(variant);
        lines.extend(uncounted.iter().map(|line| words::sanitize_line(line)));
    }
    let case = Case {
        name: name.to_owned(),
        class: "provoke".to_owned(),
        status,
        stdout: Some(lines.join("\n")),
        ..Case::default()
    };
    Suite {
        name: format!("provoke {kind}"),
        cases: vec![case],
        ..Suite::default()
    }
}

/// Returns a suite for a variant, without cases.
pub(super) fn variant_suite(report: Masked<&Report>, variant: &VariantReport) -> Suite {
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
    Suite {
        name,
        host: Some(words::sanitize_line(&report.host.name)),
        started: Some(report.started_at.clone()),
        seconds: Some(variant.time_between_failures.exposure),
        properties: suite_properties(report, variant),
        cases: Vec::new(),
    }
}

/// Returns the class name of the cases of a variant. It is not the command, because servers treat its dots as package
/// separators.
pub(super) fn class_of_variant(variant: &VariantReport) -> String {
    match variant.name.as_str() {
        "" => "provoke".to_owned(),
        name => words::sanitize_line(name),
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
        ("rate", headlines::rate_headline(&report, variant)),
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
pub(super) struct KeptOutput {
    pub(super) stdout: Option<String>,
    pub(super) stderr: Option<String>,
}

impl KeptOutput {
    /// Reads the output of a trial, and takes its length from what is left of the whole file.
    pub(super) fn read_streams(run: &MaskedRun<'_>, trial: u64, output_left: &mut usize) -> Self {
        if *output_left == 0 {
            return Self::default();
        }
        let trial = run.trial_folder(trial);
        let output = Self {
            stdout: read_stream_end(&trial, "stdout", run.secrets()),
            stderr: read_stream_end(&trial, "stderr", run.secrets()),
        };
        let streams = [&output.stdout, &output.stderr].into_iter().flatten();
        let length: usize = streams.map(String::len).sum();
        *output_left = output_left.saturating_sub(length);
        output
    }
}
