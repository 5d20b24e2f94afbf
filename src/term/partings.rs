//! Several runs side by side, and what parts those that failed from the others.

use crate::report::words;
use crate::stats::real;
use crate::survey::{Parted, Parting, Run};
use console::{Alignment, measure_text_width, pad_str, style};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// What is said of a run in a row.
const CELLS: usize = 6;

/// Returns it as people read it.
pub fn partings(parted: &Parted) -> String {
    let mut out = String::new();
    table(&mut out, &parted.runs);
    let failing = parted.runs.iter().filter(|run| run.failures > 0).count();
    let others = parted.runs.len() - failing;
    if failing == 0 || others == 0 {
        let which = if failing == 0 { "none" } else { "every one" };
        let _ = writeln!(
            out,
            "  {which} of the runs failed: it takes some that did and some that did not to tell what parts them"
        );
        return out;
    }
    if parted.by.is_empty() {
        let _ = writeln!(
            out,
            "  nothing that is known parts those that failed from the others"
        );
        return out;
    }
    let _ = writeln!(out, "  {}", style("it fails only where").bold());
    for alike in parted.by.chunk_by(is_told_with) {
        let names: Vec<String> = alike.iter().map(|one| words::sanitize(&one.name)).collect();
        let _ = writeln!(
            out,
            "    {}: {} {}",
            alike[0].group.title(),
            names.join(" "),
            is(&alike[0]),
        );
        if let Some(note) = &alike[0].note {
            let _ = writeln!(out, "      {}", style(words::sanitize(note)).dim());
        }
    }
    let _ = writeln!(
        out,
        "  {} of {} runs failed; chance alone gives a fact that {} have to just those in {} % of cases",
        failing,
        parted.runs.len(),
        words::plural(failing as u64, "run"),
        words::percent(parted.chance),
    );
    out
}

/// True where one line says both.
fn is_told_with(a: &Parting, b: &Parting) -> bool {
    a.group == b.group && a.failing == b.failing && a.others == b.others && a.note == b.note
}

/// Says what it was where it failed, and what elsewhere.
fn is(one: &Parting) -> String {
    let nothing = BTreeSet::from([None]);
    let there = BTreeSet::from([Some("there".to_owned())]);
    match (&one.failing, &one.others) {
        (failing, others) if *failing == nothing && *others == there => "is absent".to_owned(),
        (failing, others) if *failing == there && *others == nothing => "is there".to_owned(),
        (failing, others) => format!("is {}; elsewhere {}", listed(failing), listed(others)),
    }
}

fn listed(values: &BTreeSet<Option<String>>) -> String {
    let values = values.iter().map(|value| match value {
        None => "absent".to_owned(),
        Some(value) if value.is_empty() => "empty".to_owned(),
        Some(value) => words::sanitize(value),
    });
    values.collect::<Vec<_>>().join(" or ")
}

fn table(out: &mut String, runs: &[Run]) {
    let heads = ["", "host", "processor", "kernel", "failed", "rate"].map(str::to_owned);
    let rows = runs.iter().map(|run| {
        let rate = real(run.failures) / real(run.trials);
        [
            words::sanitize(&run.run),
            words::sanitize(&run.host),
            words::sanitize(&run.cpu),
            words::sanitize(&run.kernel),
            format!("{}/{}", run.failures, run.trials),
            format!("{} %", words::percent(rate)),
        ]
    });
    let rows: Vec<[String; CELLS]> = std::iter::once(heads).chain(rows).collect();
    let widest = |column: usize| {
        rows.iter()
            .map(|row| measure_text_width(&row[column]))
            .max()
    };
    let widths: [usize; CELLS] = std::array::from_fn(|column| widest(column).unwrap_or(0));
    for (number, row) in rows.iter().enumerate() {
        let cells = row
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                let side = if column < 4 {
                    Alignment::Left
                } else {
                    Alignment::Right
                };
                pad_str(cell, width, side, None).into_owned()
            });
        let line = cells.collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        let _ = match number {
            0 => writeln!(out, "  {}", style(line).dim()),
            _ => writeln!(out, "  {line}"),
        };
    }
}
