//! What a machine can capture, and what to change, as people read it.

use crate::doctor::{Check, Checkup, State};
use crate::report::words;
use console::style;
use std::fmt::Write as _;

/// Returns what was looked at, what it means, and what to do.
pub fn checkup(checkup: &Checkup) -> String {
    let mut out = String::new();
    let width = checkup.checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or(0);
    for check in &checkup.checks {
        row(&mut out, check, width);
    }
    let can = checkup.can;
    let yes = |it| {
        if it {
            style("yes").green()
        } else {
            style("no").red()
        }
    };
    let _ = writeln!(
        out,
        "\n  This machine can capture: cores {}, stacks of hangs {}, lines of the kernel log {}, OOM kills with certainty {}.",
        yes(can.cores),
        yes(can.stacks_of_hangs),
        yes(can.kernel_lines),
        yes(can.oom_for_certain),
    );
    out
}

fn row(out: &mut String, check: &Check, width: usize) {
    // The words say what the colours say.
    let mark = match check.state {
        State::Ok => style("✓ ok    ").green(),
        State::Better => style("! better").yellow(),
        State::Bad => style("✗ bad   ").red().bold(),
    };
    let seen = words::sanitize(&check.seen);
    let _ = writeln!(out, "  {mark}  {:<width$}  {seen}", check.name);
    if let Some(fix) = &check.fix {
        let fix = words::sanitize(fix);
        let _ = writeln!(
            out,
            "  {:8}  {:width$}  {} {fix}",
            "",
            "",
            style("fix:").dim()
        );
    }
}
