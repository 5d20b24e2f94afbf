//! Writes the tests of a suite as CSV, and the failing ones as arguments that leave them out.

use super::csv::{into_io_error, make_safe};
use super::{
    CaseReport, ExportError, ExportOptions, Exporter, IsolatedTrials, MaskedRun, VariantReport,
};
use ::csv::WriterBuilder;
use provoke_model::{CaseEnd, CasePattern};
use std::collections::HashSet;
use std::io;

/// The names of the columns.
const COLUMNS: [&str; 27] = [
    "variant",
    "test",
    "verdict",
    "trials",
    "failures",
    "rate",
    "low",
    "high",
    "selected_low",
    "selected_high",
    "passed",
    "failed",
    "error",
    "skipped",
    "expected_failure",
    "unexpected_pass",
    "timed_out",
    "crashed",
    "not_run",
    "unknown",
    "retried",
    "mean_seconds",
    "longest_seconds",
    "signature",
    "title",
    "alone_trials",
    "alone_failures",
];

/// A table with one row for each test of a suite.
pub static CSV_CASES: Exporter = Exporter::new(
    "csv-cases",
    "Write CSV, one row per test of the suite",
    write,
);

fn write(
    run: &MaskedRun<'_>,
    _: &ExportOptions,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let mut table = WriterBuilder::new().has_headers(false).from_writer(out);
    table.write_record(COLUMNS).map_err(into_io_error)?;
    for variant in &run.report().variants {
        let cases = variant.suite.iter().flat_map(|suite| &suite.cases);
        for case in cases {
            let row = case_row(&variant.name, case);
            table.write_record(&row).map_err(into_io_error)?;
        }
    }
    Ok(table.flush()?)
}

fn case_row(variant: &str, case: &CaseReport) -> Vec<String> {
    let safe = |text: &str| {
        let mut text = text.to_owned();
        make_safe(&mut text);
        text
    };
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let verdict = serde_json::to_value(case.verdict).unwrap_or_default();
    let [low, high] = case.interval;
    let [selected_low, selected_high] = match case.selected_interval {
        Some([low, high]) => [Some(low), Some(high)],
        None => [None, None],
    };
    let mut row = vec![
        safe(variant),
        safe(&case.name),
        verdict.as_str().unwrap_or_default().to_owned(),
        case.trials.to_string(),
        case.failures.to_string(),
        number(case.rate()),
        low.to_string(),
        high.to_string(),
        number(selected_low),
        number(selected_high),
    ];
    let count_of = |end: CaseEnd| case.ends.get(end.name()).copied().unwrap_or(0);
    row.extend(CaseEnd::ALL.map(|end| count_of(end).to_string()));
    let first = case.signatures.first();
    let alone = case.run_alone.as_ref();
    let alone_counts = |count: fn(&IsolatedTrials) -> u64| {
        alone.map_or_else(String::new, |alone| count(alone).to_string())
    };
    row.extend([
        case.retried.to_string(),
        number(case.mean_seconds),
        case.longest_seconds.to_string(),
        first.map_or_else(String::new, |signature| signature.id.clone()),
        first.map_or_else(String::new, |signature| safe(&signature.title)),
        alone_counts(|alone| alone.trials),
        alone_counts(|alone| alone.failures),
    ]);
    row
}

/// Which tests to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseSelection {
    /// All tests.
    All,
    /// The tests that failed.
    Failing,
    /// The tests whose names match.
    Matching(CasePattern),
}

impl CaseSelection {
    /// Reads the value of a flag.
    pub fn from_text(text: &str) -> Self {
        match text {
            "" => Self::All,
            "failing" => Self::Failing,
            pattern => Self::Matching(CasePattern::new(pattern)),
        }
    }

    /// Returns whether a test is selected.
    pub fn includes_case(&self, case: &CaseReport) -> bool {
        match self {
            Self::All => true,
            Self::Failing => case.failures > 0,
            Self::Matching(pattern) => pattern.matches_text(&case.name),
        }
    }

    /// Returns the selected tests of the variants of a report, in their order, each once.
    pub fn select_cases<'a>(&self, variants: &'a [VariantReport]) -> Vec<&'a CaseReport> {
        let suites = variants.iter().filter_map(|variant| variant.suite.as_ref());
        let cases = suites.flat_map(|suite| &suite.cases);
        let mut selected: Vec<&CaseReport> = Vec::new();
        let mut names = HashSet::new();
        for case in cases {
            if self.includes_case(case) && names.insert(&case.name) {
                selected.push(case);
            }
        }
        selected
    }
}
