//! Shows several runs as columns, and the facts that distinguish the failing ones.

use super::columns::Columns;
use console::style;
use provoke_stats::real;
use provoke_survey::{ComparedRun, RunsWithDistinguishingFacts, describe_odds, fact_lines};
use provoke_words as words;
use std::fmt::Write as _;

/// Shows several runs and the distinguishing facts.
pub fn format_distinguishing_facts(distinguished: &RunsWithDistinguishingFacts) -> String {
    let mut out = String::new();
    write_run_table(&mut out, &distinguished.runs);
    let failing = distinguished
        .runs
        .iter()
        .filter(|run| run.failures > 0)
        .count();
    let passing = distinguished.runs.len() - failing;
    if failing == 0 || passing == 0 {
        let which = if failing == 0 { "none" } else { "all" };
        let _ = writeln!(
            out,
            "  {which} of the runs failed: at least one failing and one passing run are needed"
        );
        return out;
    }
    if distinguished.by.is_empty() {
        let _ = writeln!(
            out,
            "  no recorded fact distinguishes the failing runs from the passing ones"
        );
        return out;
    }
    let _ = writeln!(out, "  {}", style("it failed only where").bold());
    for line in fact_lines(&distinguished.by, usize::MAX) {
        let _ = writeln!(out, "    {}", line.text);
        if let Some(note) = line.note {
            let _ = writeln!(out, "      {}", style(words::sanitize_line(note)).dim());
        }
    }
    let odds = describe_odds("run", failing as u64, passing as u64);
    let _ = writeln!(out, "  {odds}");
    out
}

fn write_run_table(out: &mut String, runs: &[ComparedRun]) {
    let heads = ["", "host", "processor", "kernel", "failed", "rate"].map(str::to_owned);
    let rows = runs.iter().map(|run| {
        let rate = real(run.failures) / real(run.trials);
        [
            words::sanitize_line(&run.run),
            words::sanitize_line(&run.host),
            words::sanitize_line(&run.cpu),
            words::sanitize_line(&run.kernel),
            format!("{}/{}", run.failures, run.trials),
            format!("{} %", words::format_percent(rate)),
        ]
    });
    let rows: Vec<[String; 6]> = std::iter::once(heads).chain(rows).collect();
    let columns = Columns::fit_to(rows.iter(), 4);
    for (number, row) in rows.iter().enumerate() {
        let line = columns.line(row);
        let line = line.trim_end();
        let _ = match number {
            0 => writeln!(out, "  {}", style(line).dim()),
            _ => writeln!(out, "  {line}"),
        };
    }
}
