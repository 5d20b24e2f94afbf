//! Writes the log of a search, which can be edited and used to continue the search.

use super::Report;
use provoke_questions::{Answer, CandidateReport};
use provoke_words as words;
use std::fmt::Write as _;

/// Returns the log of a search along a list; `None` for any other question.
pub fn bisect_log(report: &Report) -> Option<String> {
    let Some(Answer::Bisect(answer)) = &report.answer else {
        return None;
    };
    let mut out = format!(
        "# {}\n# Failures and trials of each tested candidate. Lines may be changed, removed or\n# added; the same search with --log THIS-FILE continues from here.\n",
        words::sanitize_line(&answer.sentence)
    );
    let is_known = |point: &&CandidateReport| point.trials > 0 || point.untestable.is_some();
    for point in answer.points.iter().filter(is_known) {
        let CandidateReport {
            name,
            failures,
            trials,
            ..
        } = point;
        let about = point.untestable.as_ref().or(point.about.as_ref());
        let remark = about.map_or(String::new(), |about| {
            format!("  # {}", words::sanitize_line(about))
        });
        let word = if *failures > 0 { "bad" } else { "good" };
        // Writing to a string cannot fail.
        let _ = match point.untestable {
            Some(_) => writeln!(out, "skip {name}{remark}"),
            None => writeln!(out, "{word} {name} {failures}/{trials}{remark}"),
        };
    }
    Some(out)
}
