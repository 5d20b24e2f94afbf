//! Shows documents on the terminal.

use super::screen::Screen;
use super::table::{push_table, push_table_at, toned};
use provoke_words as words;
use provoke_words::document::{Document, Table, Tone};

/// Returns the text of documents, wrapped to this width, with an empty line between two of them.
pub fn format_documents(documents: &[Document], width: Option<usize>) -> String {
    let mut screen = Screen::new(width);
    for document in documents {
        screen.push_gap();
        let headline = toned(&document.headline, document.tone).bold();
        screen.push_text(0, &headline.to_string());
        push_facts(&mut screen, document);
        for table in &document.tables {
            push_table(&mut screen, table);
        }
        if !document.assumptions.is_empty() {
            screen.push_gap();
            push_assumptions(&mut screen, document);
        }
    }
    screen.into_text()
}

/// Returns the text of a table without an indent: scripts read the first word of each line.
pub fn format_table(table: &Table, width: Option<usize>) -> String {
    let mut screen = Screen::new(width);
    push_table_at(0, &mut screen, table);
    screen.into_text()
}

/// Adds the facts and the drawings of a document.
pub(super) fn push_facts(screen: &mut Screen, document: &Document) {
    push_lines(screen, &document.facts);
    for figure in &document.figures {
        for line in &figure.lines {
            screen.push_cut_line(2, &words::sanitize_line(line));
        }
    }
}

/// Adds lines of text.
pub(super) fn push_lines(screen: &mut Screen, lines: &[String]) {
    for line in lines {
        screen.push_text(2, &words::sanitize_line(line));
    }
}

/// Adds the assumptions of a document.
pub(super) fn push_assumptions(screen: &mut Screen, document: &Document) {
    for assumption in &document.assumptions {
        let text = toned(&format!("assumes: {assumption}"), Tone::Faint);
        screen.push_text(2, &text.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{CaptureAbilities, CheckResult, CheckState, DoctorReport};
    use console::measure_text_width;
    use provoke_survey::{ComparedRun, FactDifference, FactGroup, RunComparison};

    fn run(run: &str, failures: u64) -> ComparedRun {
        ComparedRun {
            run: run.to_owned(),
            failures,
            trials: 30,
            host: "tower".to_owned(),
            cpu: String::new(),
            kernel: String::new(),
            surveyed: true,
            answer: None,
        }
    }

    fn difference(
        group: FactGroup,
        name: &str,
        left: Option<&str>,
        right: Option<&str>,
    ) -> FactDifference {
        FactDifference {
            group,
            name: name.to_owned(),
            left: left.map(str::to_owned),
            right: right.map(str::to_owned),
            note: None,
        }
    }

    fn comparison(differences: Vec<FactDifference>) -> RunComparison {
        RunComparison {
            significant_failures: [None, Some(11)],
            format: 1,
            left: run("a", 3),
            right: run("b", 0),
            p_value: Some(0.24),
            design_effect: 1.0,
            stopped: Vec::new(),
            not_comparable: None,
            failures: Vec::new(),
            tests: None,
            differences,
        }
    }

    #[test]
    fn differences_are_shown_side_by_side() {
        let long = "0123456789".repeat(9);
        let mut flags = difference(FactGroup::Processor, "cpu.flags", Some("avx2"), None);
        flags.note = Some("programs use avx2".to_owned());
        let all = comparison(vec![
            difference(
                FactGroup::Program,
                "program.build_id",
                Some(&long),
                Some(&long[1..]),
            ),
            difference(FactGroup::Variable, "X", None, Some("\u{1b}[31mred")),
            difference(FactGroup::Variable, "Y", Some(""), Some(&long)),
            flags,
            difference(FactGroup::Trifle, "OLDPWD", Some("/x"), None),
        ]);
        let text = format_documents(&[all.document(false)], Some(80));
        insta::assert_snapshot!(console::strip_ansi_codes(&text), @r"
        The failure rates do not differ significantly (Fisher's exact test: p = 0.24); a
          significant difference would be at least 11 of the 30 trials of B.
          A  a  3 of 30 failed (10 %), on tower
          B  b  0 of 30 failed (0 %), on tower
          unlikely to matter: OLDPWD (--all shows them)

          program           A                              B
          program.build_id  0123456789012345678901234567…  1234567890123456789012345678…

          variables  A        B
          X          -        \x1b[31mred
          Y          (empty)  012345678901234567890123456789012345678901234567890123456…

          processor  A     B
          cpu.flags  avx2  -
            programs use avx2
        ");
        assert!(
            text.lines().all(|line| measure_text_width(line) <= 80),
            "{text}"
        );
    }

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
        insta::assert_snapshot!(console::strip_ansi_codes(&format_documents(&found.documents(), Some(60))), @"
        This machine can
          no   capture cores of crashes, with stacks
          yes  capture stacks of hung processes
          yes  read the kernel's log of crashes and OOM kills
          no   recognize OOM kills with certainty
          yes  hold threads, for `provoke hunt`

        1 check failed: evidence is lost
          core-limit  the hard limit for core files is 0
            as root, before provoke:
              ulimit -Hc unlimited
              in a service `LimitCORE=infinity`

        1 check can be improved
          core-names  all cores have the same name: a second crash
                        in a directory overwrites the first
              sysctl kernel.core_uses_pid=1

        1 check passed
          crash  a test program crashed, and its core was at
                   /tmp/core
        ");
    }
}
