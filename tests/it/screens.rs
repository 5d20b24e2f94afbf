//! Tests the first screens of the answers at several widths.

use console::{measure_text_width, strip_ansi_codes};
use provoke::model::{
    Event, EvidenceDepth, Failure, FailureKind, Plan, Question, Signal, SignalEvidence, Signature,
    Site,
};
use provoke::questions;
use provoke::report::Report;
use provoke::state::State;
use provoke::term;
use std::time::Duration;

use crate::answers::{
    SETTINGS, Simulation, compare_plan, confirm_plan, failure, ramp_plan, reduction_plan,
    search_plan, shrink_plan_with_rate,
};
use crate::loop_and_fold::plan;

const WIDTHS: [usize; 3] = [60, 80, 120];

/// Returns a crash with a known stack and source line.
fn crash() -> Failure {
    let site = |line, function: &str, caller| Site {
        file: "/src/crash.c".to_owned(),
        line,
        function: Some(function.to_owned()),
        caller,
        ..Site::default()
    };
    let main = Box::new(site(30, "main", None));
    Failure {
        kind: FailureKind::Signal {
            signal: Signal::SEGV,
            witness: SignalEvidence::Seen { core: true },
        },
        signature: Signature {
            title: "SIGSEGV, null pointer + 0x18, in sum < main".to_owned(),
            depth: EvidenceDepth::Stack,
            ..failure(1).signature
        },
        sites: vec![site(20, "sum", Some(main))],
    }
}

/// Answers a question with trials that fail at these rates.
fn answered(plan: &Plan, rates: &[f64]) -> State {
    let mut simulation = Simulation::new(7, rates, SETTINGS[0]);
    simulation.failure = crash();
    simulation.time = Duration::from_millis(6);
    let mut state = simulation.answer_question(plan);
    let at = Duration::from_secs(2);
    state.apply_event(&Event::RunFinished { at }, questions::is_done);
    state
}

/// Compares a screen with its snapshots. Without colours, it must be the same text, and only commands may be longer
/// than a line.
fn assert_screens(name: &str, state: &State) {
    let report = Report::new(state, true);
    let folder = "provoke-out/20261122-035210-ecbc".as_ref();
    for width in WIDTHS {
        let shown = |colours: bool| {
            console::set_colors_enabled(colours);
            term::format_summary(&report, folder, "last", None, Vec::new(), Some(width))
        };
        let (plain, coloured) = (shown(false), shown(true));
        let stripped = strip_ansi_codes(&coloured);
        let stripped: Vec<&str> = stripped.lines().map(str::trim_end).collect();
        assert_eq!(stripped, plain.lines().collect::<Vec<_>>(), "{name}");
        assert!(coloured.contains('\u{1b}'), "{name}");
        assert!(!plain.contains('\u{1b}'), "{name}");
        let is_command = |line: &str| line.starts_with("  provoke");
        for line in plain.lines().filter(|line| !is_command(line)) {
            assert!(measure_text_width(line) <= width, "{name}: {line}");
        }
        insta::assert_snapshot!(format!("{name}_{width}"), plain);
    }
}

fn confirmation(exclude_half: Option<bool>) -> Plan {
    let mut plan = confirm_plan(10, 100);
    if let Question::Confirm(asked) = &mut plan.question {
        asked.exclude_half = exclude_half;
    }
    plan
}

// A single test, because colours are switched for the whole process.
#[test]
fn every_summary_fits_the_width_of_the_terminal() {
    let screens = vec![
        ("run", plan("runs = 100"), vec![0.03]),
        ("run_clean", plan("runs = 100"), vec![0.0]),
        ("run_always", plan("runs = 10"), vec![1.0]),
        (
            "max_rate_pass",
            plan("runs = 200\nmax-rate = 0.02"),
            vec![0.0],
        ),
        (
            "max_rate_fail",
            plan("runs = 200\nmax-rate = 0.02"),
            vec![0.2],
        ),
        (
            "max_rate_undecided",
            plan("runs = 100\nmax-rate = 0.02"),
            vec![0.0],
        ),
        ("confirm_fixed", confirmation(None), vec![0.0]),
        ("confirm_probably", confirmation(Some(false)), vec![0.0]),
        ("confirm_not_fixed", confirmation(None), vec![0.1]),
        (
            "compare",
            compare_plan("failing", 4, ""),
            vec![0.0, 0.3, 0.3, 0.0],
        ),
        (
            "compare_many",
            compare_plan("failing", 12, ""),
            [[0.0; 10].as_slice(), &[0.3, 0.3]].concat(),
        ),
        (
            "compare_rates",
            compare_plan("different", 2, "runs = 60"),
            vec![0.3, 0.0],
        ),
        (
            "compare_not_known",
            compare_plan("different", 2, "runs = 20"),
            vec![0.3, 0.2],
        ),
    ];
    for (name, plan, rates) in &screens {
        assert_screens(name, &answered(plan, rates));
    }
    for (name, (plan, rates)) in [
        ("bisect", search_plan(29, 18, 0.2)),
        ("reduce", reduction_plan(6, 0.6)),
        ("load", ramp_plan(&[1, 2, 4, 5, 6, 8], 4, 0.9)),
        ("load_clean", ramp_plan(&[1, 2, 4], 3, 0.0)),
        ("shrink", shrink_plan_with_rate(0.9)),
    ] {
        assert_screens(name, &answered(&plan, &rates));
    }
}
