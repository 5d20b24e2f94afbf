//! Tests the first screens of the answers at several widths.

use console::{measure_text_width, strip_ansi_codes};
use provoke::doctor::{CaptureAbilities, CheckResult, CheckState, DoctorReport};
use provoke::experiment::{AskedForecast, ResultFile, StoredRun, TrialForecast};
use provoke::term;
use provoke_model::{
    Alpha, Autopsy, Crash, Fault, Frame, MeasuredBaseline, Module, Signal, Thread,
};
use provoke_plan::RateValue;
use provoke_report::RunListing;
use provoke_report::story::crash_story;
use provoke_survey::{ComparedRun, FactDifference, FactGroup, FailureDifference, RunComparison};

use crate::answered::{RecordedRun, answered, answered_hunt, answered_questions, confirmation};
use crate::answers::{reduction_plan, search_plan};
use crate::held_program::SOURCE;
use crate::loop_and_fold::plan;

const WIDTHS: [usize; 3] = [60, 80, 120];

/// Compares the summary of a run with its snapshots.
fn assert_summary(name: &str, run: &RecordedRun) {
    let report = run.report();
    let folder = "provoke-out/20261122-035210-ecbc".as_ref();
    assert_screens(name, |width| {
        term::format_summary(&report, folder, "last", None, Vec::new(), Some(width))
    });
}

/// Compares a screen with its snapshots. Without colours, it must be the same text.
fn assert_screens(name: &str, format: impl Fn(usize) -> String) {
    for width in WIDTHS {
        let shown = |colours: bool| {
            console::set_colors_enabled(colours);
            format(width)
        };
        let (plain, coloured) = (shown(false), shown(true));
        let stripped = strip_ansi_codes(&coloured);
        let stripped: Vec<&str> = stripped.lines().map(str::trim_end).collect();
        assert_eq!(stripped, plain.lines().collect::<Vec<_>>(), "{name}");
        assert!(coloured.contains('\u{1b}'), "{name}");
        assert!(!plain.contains('\u{1b}'), "{name}");
    }
    console::set_colors_enabled(false);
    assert_plain_screens(name, format);
}

/// Compares a screen without colours with its snapshots. Only commands may be longer than a line.
fn assert_plain_screens(name: &str, format: impl Fn(usize) -> String) {
    let is_command = |line: &str| line.starts_with("  provoke");
    for width in WIDTHS {
        let text = format(width);
        for line in text.lines().filter(|line| !is_command(line)) {
            assert!(measure_text_width(line) <= width, "{name}: {line}");
        }
        insta::assert_snapshot!(format!("{name}_{width}"), text);
    }
}

/// Returns a file of each kind that a search writes.
fn result_files() -> Vec<ResultFile> {
    vec![
        ResultFile::Log("provoke-out/last/log".into()),
        ResultFile::SmallestLoad("provoke-out/last/a load.toml".into()),
        ResultFile::Patch("provoke-out/last/reduced.patch".into()),
        ResultFile::Reduced("provoke-out/last/parse.c".into()),
        ResultFile::UnneededFiles("provoke-out/last/unneeded.txt".into()),
        ResultFile::Removed(3),
    ]
}

/// Returns one stored run of each kind.
fn stored_runs() -> Vec<StoredRun> {
    let runs = [
        answered(&plan("runs = 100"), &[0.03]),
        answered(&confirmation(None), &[0.0]),
        answered(&search_plan(29, 18, 0.2).0, &search_plan(29, 18, 0.2).1),
        answered_hunt(),
    ];
    let stored = ["ecbc", "2c31", "9f04", "last"].into_iter().zip(&runs);
    let stored = stored.map(|(reference, run)| StoredRun {
        reference: reference.to_owned(),
        when: "today 03:52".to_owned(),
        listing: Some(RunListing::new(&run.state)),
    });
    stored.collect()
}

/// Returns a comparison of two runs on different machines.
fn two_runs() -> RunComparison {
    let run = |name: &str, failures, host: &str| ComparedRun {
        run: name.to_owned(),
        failures,
        trials: 100,
        answer: None,
        host: host.to_owned(),
        cpu: "Example CPU".to_owned(),
        kernel: "6.1.0".to_owned(),
        surveyed: true,
    };
    let difference = |group, name: &str, left: Option<&str>, right: Option<&str>| FactDifference {
        group,
        name: name.to_owned(),
        left: left.map(str::to_owned),
        right: right.map(str::to_owned),
        note: None,
    };
    RunComparison {
        significant_failures: [None, Some(40)],
        format: RunComparison::FORMAT,
        left: run("20261122-035210-ecbc", 31, "tower"),
        right: run("20261122-041133-2c31", 0, "laptop"),
        p_value: Some(1.4e-11),
        design_effect: 1.0,
        stopped: Vec::new(),
        not_comparable: None,
        failures: vec![
            FailureDifference {
                signature: "5c1f0a9e".to_owned(),
                title: "SIGSEGV in parse_header at src/parse/header.c:118, called by read_request"
                    .to_owned(),
                left: 29,
                right: 0,
                p_value: Some(8.3e-11),
            },
            FailureDifference {
                signature: "c70d11b2".to_owned(),
                title: "exit 1".to_owned(),
                left: 2,
                right: 0,
                p_value: Some(0.49),
            },
        ],
        tests: None,
        differences: vec![
            difference(
                FactGroup::Library,
                "library.libparse.so.2",
                Some("/usr/lib/libparse.so.2.1 (build 9a2f1c77d0e4)"),
                Some("/usr/lib/libparse.so.2.0 (build 41c0be55a913)"),
            ),
            difference(FactGroup::Variable, "MALLOC_ARENA_MAX", None, Some("1")),
            difference(FactGroup::Trifle, "OLDPWD", Some("/src"), None),
        ],
    }
}

/// Returns the forecast of a failure that was seen 3 times in 30 trials.
fn forecast() -> (TrialForecast, AskedForecast) {
    let baseline = MeasuredBaseline {
        failures: 3,
        trials: 30,
        ..MeasuredBaseline::default()
    };
    let asked = AskedForecast {
        cases: None,
        width: Some(RateValue(20_000)),
        max_rate: Some(RateValue(200_000)),
        variants: 4,
        versions: 64,
        trial_seconds: Some(4.0),
        jobs: 2,
    };
    let forecast = TrialForecast::new(None, Some(baseline), Alpha::default());
    (forecast.ok().unwrap(), asked)
}

/// Returns the results of a machine that loses evidence.
fn checkup() -> DoctorReport {
    let check = |name, state, seen: &str, fix: Option<&str>| CheckResult {
        name,
        state,
        seen: seen.to_owned(),
        fix: fix.map(str::to_owned),
    };
    let core_fix = "write cores next to the program: `sysctl -w kernel.core_pattern=core.%p`";
    DoctorReport {
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
                "core_pattern",
                CheckState::Bad,
                "|/usr/share/apport/apport %p %s: the kernel gives cores to a program that discards cores of unpackaged programs",
                Some(core_fix),
            ),
            check(
                "py_spy",
                CheckState::Better,
                "not installed: Python calls of native crashes are not shown",
                Some("pip install py-spy"),
            ),
            check("holds", CheckState::Ok, "a thread was held", None),
        ],
    }
}

/// Returns the analysis of a crash with two threads.
fn autopsy() -> Autopsy {
    let frame = |offset, function: &str, line| Frame {
        offset,
        module: Some("refcount".to_owned()),
        function: Some(function.to_owned()),
        line: Some((SOURCE.to_owned(), line)),
        ..Frame::default()
    };
    let frames = vec![frame(0x1145, "drop", 7), frame(0x1200, "main", 16)];
    let thread = |tid, frames| Thread {
        tid,
        frames,
        ..Thread::default()
    };
    Autopsy {
        crash: Crash {
            pid: 100,
            program: "refcount".to_owned(),
            signal: Some(Signal::SEGV),
            fault: Fault {
                class: "null pointer".to_owned(),
                detail: "offset 0x18: a field of an object whose pointer is null".to_owned(),
                address: Some(0x18),
                instruction: Some("mov eax, [rax+18h]".to_owned()),
                ..Fault::default()
            },
            frames: frames.clone(),
            thread: 1,
            ..Crash::default()
        },
        threads: vec![
            thread(100, frames),
            thread(101, vec![frame(0x1139, "drop", 5)]),
        ],
        registers: vec![("rax".to_owned(), 0), ("rip".to_owned(), 0x1145)],
        modules: vec![Module {
            path: "/src/refcount".to_owned(),
            base: 0x40_0000,
            build_id: Some("9a2f1c77d0e4".to_owned()),
            symbols: "lines".to_owned(),
        }],
        ..Autopsy::default()
    }
}

// A single test, because colours are switched for the whole process.
#[test]
fn every_first_screen_fits_the_width_of_the_terminal() {
    for (name, run) in answered_questions() {
        assert_summary(name, &run);
    }
    let (plan_of_reduction, rates) = reduction_plan(6, 0.6);
    let report = answered(&plan_of_reduction, &rates).report();
    assert_screens("result_files", |width| {
        let folder = "provoke-out/20261122-035210-ecbc".as_ref();
        let files = result_files().iter().map(term::describe_file).collect();
        term::format_summary(&report, folder, "last", None, files, Some(width))
    });
    assert_screens("list", |width| {
        term::format_runs(&stored_runs(), Some(width))
    });
    assert_screens("diff", |width| {
        term::format_documents(&[two_runs().document(false)], Some(width))
    });
    assert_screens("diff_many", |width| {
        let mut runs = two_runs();
        let variable = runs.differences[1].clone();
        runs.differences = vec![variable; 50];
        term::format_documents(&[runs.document(false)], Some(width))
    });
    assert_screens("plan", |width| {
        let (forecast, asked) = forecast();
        let source = "measured by the newest `provoke run` with failures, last: ./parse input.json";
        let document = forecast.document(&asked, Some(source.to_owned()));
        term::format_documents(&[document], Some(width))
    });
    assert_screens("doctor", |width| {
        term::format_documents(&checkup().documents(), Some(width))
    });
    let autopsy = autopsy();
    assert_plain_screens("explain", |width| crash_story(&autopsy, false, width));
}
