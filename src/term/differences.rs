//! What differs between two runs, in two columns.

use crate::report::words;
use crate::survey::{Difference, Group};
use console::{Term, measure_text_width, pad_str, style, truncate_str};
use serde::Serialize;
use std::fmt::Write as _;

/// Differences of one kind that are shown, unless all are wanted.
const SHOWN: usize = 20;
/// The widest column of names.
const NAMES: usize = 34;
/// What stands where there is nothing.
const NOTHING: &str = "-";

/// Two runs and what differs between their surroundings; `provoke diff --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The version of this format; it changes when a field changes its name or its meaning.
    pub format: u32,
    /// The first run.
    pub left: Run,
    /// The second.
    pub right: Run,
    /// What differs, the most suspicious first.
    pub differences: Vec<Difference>,
}

/// A run in a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Its name.
    pub run: String,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Trials that count.
    pub trials: u64,
    /// The machine's name.
    pub host: String,
    /// Facts about its surroundings were recorded.
    pub surveyed: bool,
}

/// Returns a comparison as people read it.
pub fn differences(compared: &Compared, all: bool) -> String {
    let screen = Term::stdout();
    let width = screen.is_term().then(|| usize::from(screen.size().1));
    laid_out(compared, all, width)
}

/// Lays it out for a terminal of this width, or for a file of any.
fn laid_out(compared: &Compared, all: bool, width: Option<usize>) -> String {
    let mut out = String::new();
    let Compared { left, right, .. } = compared;
    let tally = |run: &Run| format!("{}/{} failed", run.failures, run.trials);
    let headline = [tally(left), tally(right)].join(" against ");
    let _ = writeln!(out, "  {}", style(headline).bold());
    for (place, run) in [("left ", left), ("right", right)] {
        let (name, host) = (words::sanitize(&run.run), words::sanitize(&run.host));
        let _ = writeln!(out, "  {place}  {name}   {}   on {host}", tally(run));
    }
    for run in [left, right].into_iter().filter(|run| !run.surveyed) {
        let name = words::sanitize(&run.run);
        let _ = writeln!(
            out,
            "  {name} has no record of its surroundings: only what is known of both is compared"
        );
    }
    let matters: Vec<&Difference> = compared
        .differences
        .iter()
        .filter(|one| one.group != Group::Trifle)
        .collect();
    if matters.is_empty() {
        let _ = writeln!(
            out,
            "  nothing differs that may matter and is known: not the program, its libraries and packages, nor the environment, nor the machine"
        );
    }
    let names = compared
        .differences
        .iter()
        .filter(|one| all || one.group != Group::Trifle);
    let names = names.map(|one| measure_text_width(&one.name)).max();
    let names = names.unwrap_or(0).min(NAMES);
    for group in compared.differences.chunk_by(|a, b| a.group == b.group) {
        if group[0].group == Group::Trifle && !all {
            let names: Vec<String> = group.iter().map(|one| words::sanitize(&one.name)).collect();
            let names = names.join(" ");
            let _ = writeln!(
                out,
                "\n  {}: {names} (--all shows them)",
                Group::Trifle.title()
            );
            continue;
        }
        let _ = writeln!(out, "\n  {}", style(group[0].group.title()).bold());
        let shown = if all { group.len() } else { SHOWN };
        for one in group.iter().take(shown) {
            row(&mut out, one, names, width);
        }
        if group.len() > shown {
            let _ = writeln!(out, "    and {} more: --all", group.len() - shown);
        }
    }
    out
}

fn row(out: &mut String, one: &Difference, names: usize, width: Option<usize>) {
    let cell = |value: &Option<String>| match value {
        Some(value) if value.is_empty() => "(empty)".to_owned(),
        Some(value) => words::sanitize(value),
        None => NOTHING.to_owned(),
    };
    let (left, right) = (cell(&one.left), cell(&one.right));
    let name = words::sanitize(&one.name);
    let cut = |text: &str, to: usize| truncate_str(text, to, "…").into_owned();
    let line = match width {
        // As much for the one as for the other, or what the other leaves.
        Some(width) => {
            let room = width.saturating_sub(names + 4 + 2 + 2).max(16);
            let [ours, theirs] = [&left, &right].map(|text| measure_text_width(text));
            let ours = ours.min((room / 2).max(room.saturating_sub(theirs)));
            let theirs = theirs.min(room - ours);
            let left = cut(&left, ours.max(1));
            let name = cut(&name, names);
            let column = (room / 2).max(ours);
            format!(
                "{}  {}  {}",
                pad_str(&name, names, console::Alignment::Left, None),
                pad_str(
                    &left,
                    column.min(room - theirs),
                    console::Alignment::Left,
                    None
                ),
                cut(&right, theirs.max(1)),
            )
        }
        None => format!(
            "{}  {left}  {right}",
            pad_str(&name, names, console::Alignment::Left, None)
        ),
    };
    let _ = writeln!(out, "    {line}");
    if let Some(note) = &one.note {
        let note = format!("    {}", words::sanitize(note));
        let note = match width {
            Some(width) => cut(&note, width.saturating_sub(2).max(16)),
            None => note,
        };
        let _ = writeln!(out, "  {}", style(note).dim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(run: &str, failures: u64) -> Run {
        Run {
            run: run.to_owned(),
            failures,
            trials: 30,
            host: "tower".to_owned(),
            surveyed: true,
        }
    }

    fn difference(group: Group, name: &str, left: Option<&str>, right: Option<&str>) -> Difference {
        Difference {
            group,
            name: name.to_owned(),
            left: left.map(str::to_owned),
            right: right.map(str::to_owned),
            note: None,
        }
    }

    fn compared(differences: Vec<Difference>) -> Compared {
        Compared {
            format: 1,
            left: run("a", 3),
            right: run("b", 0),
            differences,
        }
    }

    #[test]
    fn what_differs_stands_side_by_side() {
        let long = "0123456789".repeat(9);
        let mut flags = difference(Group::Processor, "cpu.flags", Some("avx2"), None);
        flags.note = Some("programs use avx2".to_owned());
        let all = compared(vec![
            difference(
                Group::Program,
                "program.build_id",
                Some(&long),
                Some(&long[1..]),
            ),
            difference(Group::Variable, "X", None, Some("\u{1b}[31mred")),
            difference(Group::Variable, "Y", Some(""), Some(&long)),
            flags,
            difference(Group::Trifle, "OLDPWD", Some("/x"), None),
        ]);
        let text = laid_out(&all, false, Some(80));
        insta::assert_snapshot!(console::strip_ansi_codes(&text), @"");
        assert!(
            text.lines().all(|line| measure_text_width(line) <= 80),
            "{text}"
        );
    }

    #[test]
    fn long_lists_are_cut_unless_all_is_wanted() {
        let many = (0..50).map(|n| {
            difference(
                Group::Package,
                &format!("python.p{n:02}"),
                Some("1"),
                Some("2"),
            )
        });
        let many = compared(many.collect());
        let shown = |all| laid_out(&many, all, None).lines().count();
        assert_eq!(shown(true) - shown(false), 29);
        assert!(laid_out(&many, false, None).contains("and 30 more: --all"));
    }

    #[test]
    fn where_nothing_differs_a_sentence_says_so() {
        let text = laid_out(&compared(Vec::new()), false, None);
        assert!(text.contains("3/30 failed against 0/30 failed"));
        assert!(text.contains("nothing differs that may matter"));
    }
}
