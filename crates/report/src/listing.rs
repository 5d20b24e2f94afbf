//! Summarizes a run in one line of a list: question, result and failure.

use super::Report;
use super::derive::summarize;
use super::shared_failures::shared_failures;
use provoke_model::Site;
use provoke_questions::{Verdict, counts_of_all};
use provoke_state::State;

/// The cells of a line. Text of other programs in them is not escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunListing {
    /// The command of provoke for this question.
    pub asked: &'static str,
    /// The answer.
    pub verdict: Verdict,
    /// The answer in a few words.
    pub result: String,
    /// The most frequent failure; empty without failures.
    pub crash: String,
    /// The command of its trials.
    pub command: String,
}

impl RunListing {
    /// Derives the line from the state of a run.
    pub fn new(state: &State) -> Self {
        let report = Report::new(state, true);
        let result = result_text(&report);
        Self {
            asked: subcommand_name(state),
            verdict: report.verdict,
            result: if report.finished || report.same_deadlock {
                result
            } else if report.verdict == Verdict::CouldNotTest {
                "interrupted without a result".to_owned()
            } else {
                let result = result.trim_end_matches(" yet");
                format!("{} so far", result.trim_end_matches(" failed"))
            },
            crash: most_frequent_failure(&report),
            command: report.command,
        }
    }
}

fn subcommand_name(state: &State) -> &'static str {
    if state.trials.load.is_some() {
        "load"
    } else {
        provoke_questions::of(state).command()
    }
}

fn result_text(report: &Report) -> String {
    if report.verdict == Verdict::CouldNotTest {
        return "not tested".to_owned();
    }
    report
        .result_of_answer()
        .unwrap_or_else(|| format_rate(report))
}

fn format_rate(report: &Report) -> String {
    let counts = counts_of_all(&summarize(&report.variants));
    let mut loads = report
        .variants
        .iter()
        .filter_map(|variant| variant.load.as_ref());
    let refused = if loads.any(|load| load.refuses) {
        ", refused requests"
    } else {
        ""
    };
    format!("{counts} failed{refused}")
}

/// Returns the most frequent failure, with its line of source code if that is known.
fn most_frequent_failure(report: &Report) -> String {
    let failures = shared_failures(&report.variants);
    let bugs = failures
        .iter()
        .filter(|failure| failure.signature.is_the_bug);
    let Some(most_frequent) = bugs.clone().next() else {
        return String::new();
    };
    let signature = most_frequent.signature;
    let name = match Site::naming_site(&signature.sites) {
        Some(site) => format!("{} {}", signature.outcome, site.file_and_line()),
        None => signature.title.clone(),
    };
    match bugs.count() - 1 {
        0 => name,
        others => format!("{name} (+{others})"),
    }
}
