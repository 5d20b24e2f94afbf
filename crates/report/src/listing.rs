//! Summarizes a run in one line of a list: question, result and failure.

use super::{Report, group_failures};
use provoke_model::Site;
use provoke_questions::Verdict;
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

/// Returns `3 of 100`: failures and trials of all variants.
fn format_counts(report: &Report) -> String {
    let trials: u64 = report.variants.iter().map(|variant| variant.trials).sum();
    let failures: u64 = report.variants.iter().map(|variant| variant.failures).sum();
    format!("{failures} of {trials}")
}

fn format_rate(report: &Report) -> String {
    let counts = format_counts(report);
    let mut loads = report
        .variants
        .iter()
        .filter_map(|variant| variant.load.as_ref());
    let refused = if loads.any(|load| load.refuses) {
        ", refused requests"
    } else {
        ""
    };
    match report.max_rate.as_ref().map(|_| report.verdict) {
        None => format!("{counts} failed{refused}"),
        Some(Verdict::BelowMaxRate) => format!("PASS {counts}"),
        Some(Verdict::AboveMaxRate) => format!("FAIL {counts}"),
        Some(_) => format!("UNDECIDED {counts}"),
    }
}

/// Returns the most frequent failure, with its line of source code if that is known.
fn most_frequent_failure(report: &Report) -> String {
    let groups: Vec<_> = report.variants.iter().flat_map(group_failures).collect();
    let bugs = groups.iter().filter(|group| group.signature.is_the_bug);
    let mut ids: Vec<(&str, usize)> = Vec::new();
    for group in bugs.clone() {
        let count = group.measured_trials().count();
        match ids.iter_mut().find(|(id, _)| *id == group.signature.id) {
            Some((_, sum)) => *sum += count,
            None => ids.push((&group.signature.id, count)),
        }
    }
    // Of equally frequent failures, the first.
    let most_frequent = ids.iter().rev().max_by_key(|(_, count)| *count);
    let Some(seen) =
        most_frequent.and_then(|(id, _)| bugs.clone().find(|group| group.signature.id == *id))
    else {
        return String::new();
    };
    let name = match Site::naming_site(&seen.signature.sites) {
        Some(site) => format!("{} {}", seen.signature.outcome, site.file_and_line()),
        None => seen.signature.title.clone(),
    };
    match ids.len() - 1 {
        0 => name,
        others => format!("{name} (+{others})"),
    }
}
