//! Variants side by side: one line each.

use super::summary::groups;
use crate::model::Find;
use crate::policy::Standing;
use crate::report::{Answer, Report, Variant, words};
use console::{measure_text_width, pad_str, style};
use std::fmt::Write as _;

/// Characters of what is said of a failure.
const TITLE: usize = 60;

/// Returns a table of the variants.
pub(super) fn variants(report: &Report) -> String {
    let confidence = format!("{} % interval", report.confidence);
    let heads = [
        "",
        "",
        "trials",
        "failed",
        "rate",
        &confidence,
        "a pass",
        "a failure",
        "",
    ];
    let heads = heads.map(str::to_owned);
    let rows = report.variants.iter().map(|one| row(report, one));
    let rows: Vec<[String; 9]> = rows.collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| measure_text_width(&row[column]));
        cells.max().unwrap_or(0)
    };
    let seen: Vec<bool> = (0..9).map(|column| width(column) > 0).collect();
    let widths: Vec<usize> = (0..9)
        .map(|column| width(column).max(heads[column].len()))
        .collect();
    let mut out = String::new();
    for cells in std::iter::once(&heads).chain(&rows) {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate().filter(|(column, _)| seen[*column]) {
            let side = match column {
                0 | 1 | 8 => console::Alignment::Left,
                _ => console::Alignment::Right,
            };
            let _ = write!(line, "  {}", pad_str(cell, widths[column], side, None));
        }
        let line = line.trim_end();
        let line = if std::ptr::eq(cells, &raw const heads) {
            style(line).dim().to_string()
        } else {
            line.to_owned()
        };
        let _ = writeln!(out, "{line}");
    }
    out
}

fn row(report: &Report, variant: &Variant) -> [String; 9] {
    let rate = &variant.rate;
    let time = |of: &str| {
        let took = variant.durations.get(of);
        took.map_or(String::new(), |took| words::seconds(took.p50))
    };
    let none = variant.trials == 0;
    let failed = match variant.failures {
        0 => "0".to_owned(),
        some => style(some).red().to_string(),
    };
    [
        style(words::sanitize(&variant.name)).bold().to_string(),
        standing(report, variant),
        variant.trials.to_string(),
        failed,
        match rate.point {
            Some(point) => format!("{} %", words::percent_within(point, rate.interval())),
            None => String::new(),
        },
        if none {
            String::new()
        } else {
            words::interval(rate.interval())
        },
        time("pass"),
        time("fail"),
        what(variant),
    ]
}

fn standing(report: &Report, variant: &Variant) -> String {
    let Some(Answer::Compare(answer)) = &report.answer else {
        return String::new();
    };
    let known = answer.variants.iter().find(|one| one.name == variant.name);
    let Some(known) = known.map(|one| one.standing) else {
        return String::new();
    };
    let word = style(words::standing(known));
    match known {
        Standing::Fails => word.red().to_string(),
        Standing::Clean => word.green().to_string(),
        Standing::Untestable => word.yellow().to_string(),
        // Of rates, it is not what was asked.
        Standing::Open if answer.find == Find::Different => String::new(),
        Standing::Open => word.dim().to_string(),
    }
}

/// Returns what its failures are, the most frequent first, and what it did besides.
fn what(variant: &Variant) -> String {
    let mut parts = Vec::new();
    let groups = groups(variant);
    let mut bugs = groups.iter().filter(|group| group.is.is_the_bug);
    if let Some(first) = bugs.next() {
        let title = words::sanitize(&first.is.title);
        let short: String = title.chars().take(TITLE).collect();
        let more = if short.len() < title.len() { "…" } else { "" };
        parts.push(format!("{short}{more}"));
    }
    let others = bugs.count();
    if others > 0 {
        parts.push(format!("{others} more signatures"));
    }
    if variant.other > 0 {
        parts.push(format!("{} not the bug", variant.other));
    }
    if variant.void > 0 {
        parts.push(format!("{} void", variant.void));
    }
    parts.join(", ")
}
