//! Samples of real reports, and short descriptions of their cases.

use provoke_model::{CaseResult, TrialCases};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Opens a file of `tests/samples`.
pub(crate) fn open_sample(name: &str) -> BufReader<File> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    BufReader::new(File::open(folder.join(name)).unwrap())
}

/// Describes each result on a line: name, end, attempts, kind, first line of the message, site.
pub(crate) fn describe_results(cases: &TrialCases) -> Vec<String> {
    cases.results.iter().map(describe_result).collect()
}

fn describe_result(result: &CaseResult) -> String {
    let mut parts = vec![result.case.to_string(), format!("{:?}", result.end)];
    if result.attempts > 0 {
        parts.push(format!("x{}", result.attempts));
    }
    let Some(failure) = &result.failure else {
        return parts.join(" ");
    };
    if !failure.kind.is_empty() {
        parts.push(format!("[{}]", failure.kind));
    }
    if let Some(signal) = failure.signal {
        parts.push(format!("signal {}", signal.0));
    }
    if !failure.message.is_empty() {
        parts.push(failure.message.replace('\n', " / "));
    }
    if let Some(site) = &failure.site {
        parts.push(format!("at {site}"));
    }
    parts.join(" ")
}
