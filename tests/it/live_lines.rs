//! Compares the lines that a run prints while it goes on with golden files. A copy of this program prints them, so that
//! its output can be read; `script` gives it a terminal.

use console::strip_ansi_codes;
use provoke::experiment::ExperimentObserver as _;
use provoke::term::{ObserverSettings, ProgressDisplay, TerminalObserver, say_as_it_is};
use provoke_questions as questions;
use provoke_state::{EventSink as _, State};
use regex::Regex;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::answered::{RecordedRun, answered_questions};
use crate::atlas::random_runs;
use crate::golden::{EMPTY_DIGEST, GoldenFolder, continue_digest};
use crate::limited;
use crate::needs::{needs, program};

/// The variable that selects how a copy of this program prints runs.
const SHOWN: &str = "PROVOKE_TEST_LIVE_LINES";
/// Begins the lines of a run.
const BEGINNING: &str = "=== ";
/// Number of random states of each question.
const STATES: u64 = 40;

/// Prints the lines of all runs.
fn print_runs(display: ProgressDisplay) {
    for (name, run) in answered_questions() {
        say_as_it_is(&format!("{BEGINNING}{name}"));
        print_run(&run, display, false);
    }
    for (name, run) in random_runs(STATES) {
        say_as_it_is(&format!("{BEGINNING}{name}"));
        print_run(&run, display, name.ends_with('3'));
    }
}

fn print_run(run: &RecordedRun, display: ProgressDisplay, every_trial: bool) {
    let mut events = run.events.iter();
    let started_at = events.next().unwrap().clone();
    let mut state = State::begin_fold(started_at, questions::begin_memory).unwrap();
    let mut observer = TerminalObserver::new(ObserverSettings {
        quiet: false,
        display,
        every_trial,
        stdout_is_taken: true,
        was_stopped: || false,
    });
    observer.begin_trials(&state);
    let status_at = [run.events.len() / 2, run.events.len() - 1];
    for (index, event) in (1..).zip(events) {
        state.apply_event(event, questions::is_done);
        observer.on_event(event, &state);
        if status_at.contains(&index) && display == ProgressDisplay::MovingLine {
            observer.on_tick(&state);
        }
    }
    observer.end_trials();
}

/// Returns the lines of all runs.
fn shown_lines(display: &str) -> String {
    let test = "live_lines::the_lines_of_running_experiments_are_golden";
    let own = std::env::current_exe().unwrap();
    let line = format!(
        "stty cols 250 rows 50 2>/dev/null; exec '{}' --exact {test} --nocapture >/dev/null",
        own.display()
    );
    let mut command = if display == "moving" {
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]);
        script
    } else {
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]);
        shell
    };
    command
        .env(SHOWN, display)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    let output = limited::output(&mut command).unwrap();
    assert!(output.status.success());
    let shown = if display == "moving" {
        output.stdout
    } else {
        output.stderr
    };
    String::from_utf8(shown).unwrap()
}

/// Removes colours, repetitions, and times that this machine measured.
fn without_times(text: &str) -> String {
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        let time = r"(?:\d+[dhm] )?[\d.]+ ?(?:ms|[dhms])\b";
        Regex::new(&format!(
            r"(more trials?, ){time}|[\d.]+ ms\b|{time}( left\b| of \d)"
        ))
        .unwrap()
    });
    let mut shown: Vec<String> = Vec::new();
    // A line above the live line is filled with spaces.
    for line in strip_ansi_codes(&text.replace("          ", "\n")).split(['\r', '\n']) {
        let mut line = TIME.replace_all(line.trim(), "${1}TIME${2}").into_owned();
        // A longer time has fewer spaces before it.
        while line.contains("  TIME") {
            line = line.replace("  TIME", " TIME");
        }
        if !line.is_empty() && shown.last().is_none_or(|last| *last != line) {
            shown.push(line);
        }
    }
    shown.join("\n") + "\n"
}

#[test]
fn the_lines_of_running_experiments_are_golden() {
    match std::env::var(SHOWN).as_deref() {
        Ok("ticks") => return print_runs(ProgressDisplay::Ticks),
        Ok("moving") => return print_runs(ProgressDisplay::MovingLine),
        Ok(_) => return print_runs(ProgressDisplay::Failures),
        Err(_) => {}
    }
    needs!(program("script"));
    let dump = std::env::var_os("ATLAS");
    let mut golden = GoldenFolder::open("live");
    for display in ["failures", "moving"] {
        let text = without_times(&shown_lines(display));
        if let Some(dump) = &dump {
            fs::create_dir_all(dump).unwrap();
            fs::write(Path::new(dump).join(format!("live.{display}.txt")), &text).unwrap();
        }
        let mut digests = String::new();
        let mut shown = String::new();
        for run in text.split(BEGINNING).skip(1) {
            let (name, lines) = run.split_once('\n').unwrap();
            if name.contains('-') {
                let digest = continue_digest(EMPTY_DIGEST, lines);
                let _ = writeln!(digests, "{name} {digest:016x}");
            } else {
                let _ = writeln!(shown, "{BEGINNING}{name}\n{lines}");
            }
        }
        golden.compare(&format!("{display}.txt"), &shown);
        golden.compare(&format!("{display}.digests.txt"), &digests);
    }
    golden.finish();
}
