//! Variants side by side: one line each.

use super::summary::groups;
use crate::model::Find;
use crate::policy::Standing;
use crate::report::answer::{Bisection, LevelOfLoad, Threshold};
use crate::report::{Answer, Report, Variant, words};
use console::{Alignment, Term, measure_text_width, pad_str, style, truncate_str};
use provoke_stats as stats;
use std::fmt::Write as _;

/// So much is said of a failure, however narrow the terminal is.
const TITLE: usize = 24;
/// Cells of a row before what its failures are.
const CELLS: usize = 8;

/// Returns a table of the variants.
pub(super) fn variants(report: &Report) -> String {
    let confidence = format!("{} % interval", report.confidence);
    let heads = [
        "",
        "",
        if report.variants.iter().any(|one| one.load.is_some()) {
            "lives"
        } else {
            "trials"
        },
        "failed",
        "rate",
        &confidence,
        "a pass",
        "a failure",
    ];
    let head = (
        heads.map(|head| style(head).dim().to_string()),
        String::new(),
    );
    let rows = report
        .variants
        .iter()
        .map(|one| (row(report, one), what(one)));
    let rows: Vec<([String; CELLS], String)> = rows.collect();
    let width = |column: usize| {
        let cells = rows
            .iter()
            .map(|(cells, _)| measure_text_width(&cells[column]));
        // A column without a cell needs no head.
        match cells.max() {
            None | Some(0) => 0,
            Some(widest) => widest.max(heads[column].len()),
        }
    };
    let widths: [usize; CELLS] = std::array::from_fn(width);
    let used: usize = widths.iter().map(|width| width + 2).sum();
    let terminal = Term::stdout().size_checked();
    let room =
        terminal.map(|(_, columns)| usize::from(columns).saturating_sub(used + 2).max(TITLE));
    let mut out = String::new();
    for (cells, what) in std::iter::once(&head).chain(&rows) {
        let mut line = String::new();
        let shown = (0..).zip(cells.iter().zip(widths));
        for (column, (cell, width)) in shown.filter(|(_, (_, width))| *width > 0) {
            let side = if column < 2 {
                Alignment::Left
            } else {
                Alignment::Right
            };
            let _ = write!(line, "  {}", pad_str(cell, width, side, None));
        }
        let what = room.map_or_else(|| what.into(), |room| truncate_str(what, room, "…"));
        let _ = writeln!(out, "{}", format!("{line}  {what}").trim_end());
    }
    out
}

/// Characters of the longest bar.
const BAR: u32 = 24;

/// Returns what is known of the places of a search: those that were tried, and those that may be
/// the first that fails, with a bar as long as that is likely.
pub(super) fn points(answer: &Bisection) -> String {
    let names = answer
        .points
        .iter()
        .map(|point| words::sanitize(&point.name));
    let names: Vec<String> = names.collect();
    let width = names.iter().map(|name| measure_text_width(name)).max();
    let width = width.unwrap_or(0);
    let mut out = String::new();
    let mut before = None;
    for (point, name) in answer.points.iter().zip(&names) {
        if before.is_some_and(|before| before + 1 < point.place) {
            let skipped = point.place - before.unwrap_or(0) - 1;
            let text = format!("  {}", words::plural(skipped, "more"));
            let _ = writeln!(out, "{}", style(text.replace("mores", "more")).dim());
        }
        before = Some(point.place);
        let mut seen = match (point.untestable.as_deref(), point.trials) {
            (Some(_), _) if point.other > 0 => "given up".to_owned(),
            (Some(_), _) => "not tried".to_owned(),
            (None, 0) if point.other == 0 => String::new(),
            (None, trials) => format!("{}/{trials} failed", point.failures),
        };
        if point.other > 0 {
            let _ = write!(seen, ", {} otherwise", point.other);
        }
        let length = f64::from(BAR) * point.probability;
        let bar = "#".repeat(usize::try_from(stats::whole(length)).unwrap_or(0));
        let likely = if point.probability >= 0.005 {
            format!(
                "{:>5} %  {}",
                words::percent(point.probability),
                style(bar).cyan()
            )
        } else {
            String::new()
        };
        let about = point.about.as_deref().map_or(String::new(), |about| {
            let about = words::sanitize(about);
            style(truncate_str(&about, TITLE * 2, "…"))
                .dim()
                .to_string()
        });
        let bar = pad_str(&likely, 8 + BAR as usize, Alignment::Left, None);
        let line = format!(
            "  {}  {seen:<14} {}  {about}",
            pad_str(name, width, Alignment::Left, None),
            if about.is_empty() {
                likely.as_str().into()
            } else {
                bar
            },
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// Returns what is known of the levels of load that were tried, and how the service crashed there.
pub(super) fn levels(report: &Report, answer: &Threshold) -> String {
    let interval = format!("{} %", report.confidence);
    let heads = [
        "clients",
        "lives",
        "crashed",
        &interval,
        "served before death",
    ];
    let row = |level: &LevelOfLoad| {
        let rate = level.interval.map_or(String::new(), |ends| {
            if level.one_sided {
                format!("0 .. {} %", words::percent_bound(ends[1]))
            } else {
                words::interval(ends)
            }
        });
        let served = level.served_before_death.as_ref();
        [
            level.clients.to_string(),
            level.lives.to_string(),
            level.failures.to_string(),
            format!("{rate}{}", if level.one_sided { " (*)" } else { "    " }),
            served.map_or(String::new(), |[least, median, most]| {
                format!("{least} / {median} / {most}")
            }),
        ]
    };
    let levels = answer.levels.iter().zip(&report.variants);
    let tried = levels.filter(|(level, _)| level.lives > 0);
    let rows: Vec<([String; 5], String)> = tried
        .map(|(level, variant)| (row(level), what(variant)))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let fill = |column: usize, cell: &str| {
        let cells = rows.iter().map(|(row, _)| row[column].len());
        let width = cells.max().unwrap_or(0).max(heads[column].len());
        pad_str(cell, width, Alignment::Right, None).into_owned()
    };
    let line = |cells: [&str; 5]| {
        let cells: Vec<String> = (0..).zip(cells).map(|(at, cell)| fill(at, cell)).collect();
        cells.join("  ")
    };
    let mut out = String::new();
    let _ = writeln!(out, "  {}", style(line(heads)).dim());
    for (row, crashes) in &rows {
        let numbers = line(row.each_ref().map(String::as_str));
        let _ = writeln!(out, "{}", format!("  {numbers}  {crashes}").trim_end());
    }
    if answer.levels.iter().any(|level| level.one_sided) {
        let note = "(*) at most: no life failed. Served: least / median / most";
        let _ = writeln!(out, "  {}", style(note).dim());
    }
    out
}

fn row(report: &Report, variant: &Variant) -> [String; CELLS] {
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
        Standing::FailsLess | Standing::Clean => word.green().to_string(),
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
        parts.push(words::sanitize(&first.is.title));
    }
    let others = bugs.count();
    if others > 0 {
        parts.push(words::plural(others as u64, "other signature"));
    }
    if variant.other > 0 {
        parts.push(format!("{} not the bug", variant.other));
    }
    if variant.void > 0 {
        parts.push(format!("{} void", variant.void));
    }
    parts.join(", ")
}
