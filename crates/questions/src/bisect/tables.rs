//! Table of the candidates of a search, and its log.

use super::BisectAnswer;
use super::candidates::CandidateReport;
use provoke_stats::real;
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, Row, Table};
use std::fmt::Write as _;

impl BisectAnswer {
    /// Returns the candidates that were tested or may be the answer.
    pub(super) fn candidate_table(&self) -> Table {
        let columns = vec![
            Column::words("candidate"),
            Column::numbers("failed"),
            Column::numbers("rate").leaving(1),
            Column::shares("likely"),
            Column::remarks(""),
        ];
        let mut table = Table::new("Candidates", Place::Screen, columns);
        "Likely: the probability that a candidate is the answer. Candidates that were neither tested nor likely are left out."
            .clone_into(&mut table.note);
        let mut next_place = self.points.first().map_or(0, |point| point.place);
        for point in &self.points {
            if point.place > next_place {
                table
                    .rows
                    .push(Row::Gap(format!("{} not tried", point.place - next_place)));
            }
            next_place = point.place + 1;
            let is_culprit = self.culprits.contains(&point.name);
            let cells = candidate_cells(point, is_culprit);
            table.rows.push(match (is_culprit, &self.after_fix) {
                (false, _) => Row::Cells(cells),
                (true, None) => Row::Answer(cells, "first bad"),
                (true, Some(_)) => Row::Answer(cells, "last bad"),
            });
        }
        table
    }

    /// Returns a log of the trials, which can be edited and used to continue the search.
    pub(super) fn log(&self) -> String {
        let mut out = format!(
            "# {}\n# Failures and trials of each tested candidate. Lines may be changed, removed or\n# added; the same search with --log THIS-FILE continues from here.\n",
            words::sanitize_line(&self.sentence)
        );
        let is_known = |point: &&CandidateReport| point.trials > 0 || point.untestable.is_some();
        for point in self.points.iter().filter(is_known) {
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
        out
    }
}

fn candidate_cells(point: &CandidateReport, is_culprit: bool) -> Vec<Cell> {
    let mut failed = match (point.untestable.as_deref(), point.trials) {
        (Some(_), _) if point.other > 0 => "given up".to_owned(),
        (Some(_), _) => "not testable".to_owned(),
        (None, 0) if point.other == 0 => String::new(),
        (None, trials) => format!("{} of {trials}", point.failures),
    };
    if point.other > 0 {
        let _ = write!(failed, ", {} in another way", point.other);
    }
    let rate = real(point.failures) / real(point.trials.max(1));
    let rate = (rate > 0.0).then(|| format!("{} %", words::format_percent(rate)));
    vec![
        Cell::text(&*point.name),
        Cell::text(failed),
        Cell::text(rate.unwrap_or_default()),
        Cell::share(point.probability, is_culprit),
        Cell::text(point.about.as_deref().unwrap_or_default()),
    ]
}
