//! Shows what a machine can capture, and what to change.

use super::screen::Screen;
use crate::doctor::{CheckResult, CheckState, DoctorReport};
use console::style;
use provoke_words as words;

/// Width in columns of the names of checks, with the blanks before and after them.
const NAMES: usize = 17;

/// Shows what the machine can capture, then the suggested changes, then all checks.
pub fn format_checkup(checkup: &DoctorReport, width: Option<usize>) -> String {
    let mut screen = Screen::new(width);
    screen.push_text(0, &style("This machine can").bold().to_string());
    let can = checkup.can;
    for (count, message) in [
        (can.cores, "capture cores of crashes, with stacks"),
        (can.stacks_of_hangs, "capture stacks of hung processes"),
        (
            can.kernel_lines,
            "read the kernel's log of crashes and OOM kills",
        ),
        (can.oom_for_certain, "recognize OOM kills with certainty"),
        (can.holds, "hold threads, for `provoke hunt`"),
    ] {
        // Colour repeats what the text says.
        let mark = if count {
            style("yes").green()
        } else {
            style("no ").red().bold()
        };
        screen.push_text(2, &format!("{mark}  {message}"));
    }
    for (state, singular, many) in [
        (
            CheckState::Bad,
            "check failed: evidence is lost",
            "checks failed: evidence is lost",
        ),
        (
            CheckState::Better,
            "check can be improved",
            "checks can be improved",
        ),
        (CheckState::Ok, "check passed", "checks passed"),
    ] {
        let checks = || checkup.checks.iter().filter(|check| check.state == state);
        let title = words::plural_of(checks().count() as u64, singular, many);
        let title = match state {
            CheckState::Ok => style(title).green(),
            CheckState::Better => style(title).yellow(),
            CheckState::Bad => style(title).red().bold(),
        };
        if checks().next().is_some() {
            screen.push_gap();
            screen.push_text(0, &title.to_string());
        }
        for check in checks() {
            write_check(&mut screen, check);
        }
    }
    screen.into_text()
}

fn write_check(screen: &mut Screen, check: &CheckResult) {
    let observed = words::sanitize_line(&check.seen);
    let name_width = NAMES - 4;
    screen.push_hanging_text(
        2,
        NAMES,
        &format!("{:<name_width$}  {observed}", check.name),
    );
    for line in check.fix.iter().flat_map(|fix| fix_lines(fix)) {
        screen.push_row(&format!("{}{line}", " ".repeat(NAMES)));
    }
}

/// Returns how to fix something, with each command on a separate line.
fn fix_lines(fix: &str) -> Vec<String> {
    let fix = words::sanitize_line(fix);
    let mut lines = Vec::new();
    for part in fix.split("; ") {
        let (purpose, command) = match part.rsplit_once(": ") {
            Some((about, command)) => (Some(about), command),
            None => (None, part),
        };
        let command = command
            .strip_prefix('`')
            .and_then(|rest| rest.strip_suffix('`'))
            .unwrap_or(command);
        match purpose {
            Some(about) => {
                lines.extend([format!("{about}:"), format!("  {}", style(command).bold())]);
            }
            None => lines.push(style(command).bold().to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CaptureAbilities;

    #[test]
    fn the_summary_comes_first_and_commands_have_their_own_lines() {
        let check = |name, state, seen: &str, fix: Option<&str>| CheckResult {
            name,
            state,
            seen: seen.to_owned(),
            fix: fix.map(str::to_owned),
        };
        let found = DoctorReport {
            format: DoctorReport::FORMAT,
            can: CaptureAbilities {
                cores: false,
                stacks_of_hangs: true,
                kernel_lines: true,
                oom_for_certain: false,
                holds: true,
            },
            checks: vec![
                check(
                    "crash",
                    CheckState::Ok,
                    "a test program crashed, and its core was at /tmp/core",
                    None,
                ),
                check(
                    "core-limit",
                    CheckState::Bad,
                    "the hard limit for core files is 0",
                    Some(
                        "as root, before provoke: `ulimit -Hc unlimited`; in a service `LimitCORE=infinity`",
                    ),
                ),
                check(
                    "core-names",
                    CheckState::Better,
                    "all cores have the same name: a second crash in a directory overwrites the first",
                    Some("sysctl kernel.core_uses_pid=1"),
                ),
            ],
        };
        insta::assert_snapshot!(console::strip_ansi_codes(&format_checkup(&found, Some(60))), @"
        This machine can
          no   capture cores of crashes, with stacks
          yes  capture stacks of hung processes
          yes  read the kernel's log of crashes and OOM kills
          no   recognize OOM kills with certainty
          yes  hold threads, for `provoke hunt`

        1 check failed: evidence is lost
          core-limit     the hard limit for core files is 0
                         as root, before provoke:
                           ulimit -Hc unlimited
                         in a service `LimitCORE=infinity`

        1 check can be improved
          core-names     all cores have the same name: a second
                         crash in a directory overwrites the first
                         sysctl kernel.core_uses_pid=1

        1 check passed
          crash          a test program crashed, and its core was at
                         /tmp/core
        ");
    }
}
