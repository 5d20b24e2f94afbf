//! Tests that holds provoke the failures of racy programs, and never make a correct program fail.

mod compiled;

use compiled::Compiled;
use provoke_holds::call_name;
use provoke_holds::code::CodeFile;
use provoke_holds::run::{HeldRun, run_programs};
use provoke_model::{
    CodePoint, CodeScope, CreationSide, Hold, HoldEnd, HoldObservation, HoldPlan, HoldPoint,
    Occurrence,
};
use provoke_test_needs::needs;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time after which a program hangs.
const HANG: Duration = Duration::from_secs(2);
/// Time after which a correct program hangs: a busy machine may stop it for seconds.
const CORRECT_HANG: Duration = Duration::from_secs(60);

/// Number of points of a correct program that are tried at most.
const MOST_POINTS: usize = 150;

impl Compiled {
    fn run(&self, plan: &HoldPlan) -> HeldRun {
        self.run_within(HANG, plan)
    }

    /// Runs a correct program, which must pass.
    fn assert_passes(&self, plan: &HoldPlan) -> HeldRun {
        let run = self.run_within(CORRECT_HANG, plan);
        assert!(!run.has_failed(), "{plan:?}: {run:?}");
        run
    }

    /// Returns the points that the program reaches after the creation of its first thread.
    fn reached_points(&self) -> Vec<CodePoint> {
        let learn = HoldPlan::Learn(CodeScope::Own);
        let mut reached = BTreeSet::new();
        for _ in 0..2 {
            let run = self.run(&learn);
            assert!(!run.has_failed() || run.holds.learned.len() > 1, "{run:?}");
            reached.extend(run.holds.learned.into_iter().filter_map(
                |learned| match learned.point {
                    HoldPoint::Code(point) => Some(point),
                    _ => None,
                },
            ));
        }
        reached.into_iter().collect()
    }

    /// Returns the system calls that the program makes while it has several threads or processes.
    fn reached_calls(&self) -> BTreeSet<HoldPoint> {
        let learn = HoldPlan::Learn(CodeScope::Named(Vec::new()));
        let learned = self.run(&learn).holds.learned.into_iter();
        let points = learned.map(|learned| learned.point);
        points
            .filter(|point| matches!(point, HoldPoint::Call { .. }))
            .collect()
    }

    /// Returns the failures in several runs with a hold.
    fn failures(&self, hold: &Hold, runs: u32) -> u32 {
        let plan = plan_of(hold.clone());
        (0..runs)
            .map(|_| u32::from(self.run(&plan).has_failed()))
            .sum()
    }
}

fn hold_at(point: HoldPoint, occurrence: u32) -> Hold {
    Hold {
        point,
        occurrence: Occurrence::Nth(occurrence),
        end: HoldEnd::OthersBlocked,
        limit: Duration::from_millis(50),
        watches: false,
        anchor: None,
    }
}

fn plan_of(hold: Hold) -> HoldPlan {
    HoldPlan::Hold {
        holds: vec![hold],
        total_limit: HANG / 5,
        evidence: false,
    }
}

fn hold_half(point: HoldPoint, seed: u64, end: HoldEnd) -> Hold {
    Hold {
        occurrence: Occurrence::Half(seed),
        end,
        limit: Duration::from_millis(5),
        ..hold_at(point, 1)
    }
}

/// Holds a correct program before its system calls, alone and in pairs.
fn assert_never_fails_before_calls(program: &Compiled) {
    let calls = program.reached_calls();
    let ends = [
        HoldEnd::OthersBlocked,
        HoldEnd::OthersProgressed(3),
        HoldEnd::Time,
    ];
    for (seed, point) in (0..).zip(&calls) {
        for end in ends {
            let plan = plan_of(hold_half(point.clone(), seed, end));
            let run = program.assert_passes(&plan);
            assert_eq!(run.holds.refused, None);
        }
        for other in &calls {
            let holds = [(point, seed), (other, seed + 1)].map(|(point, seed)| {
                let calls = u32::try_from(seed % 6 + 1).unwrap();
                hold_half(point.clone(), seed, HoldEnd::OthersProgressed(calls))
            });
            let plan = HoldPlan::Hold {
                holds: holds.to_vec(),
                total_limit: HANG / 5,
                evidence: false,
            };
            program.assert_passes(&plan);
        }
    }
}

/// Holds a correct program once at every point that it reaches, at the first or at a later arrival, and watches the
/// memory in some of the runs.
fn assert_never_fails(name: &str, options: &[&str]) {
    let program = Compiled::new(&format!("correct/{name}.c"), options);
    let points = program.reached_points();
    assert!(points.len() > 5, "{points:?}");
    let mut held = 0;
    // A static program reaches many points of the C library.
    let stride = points.len().div_ceil(MOST_POINTS);
    for (number, point) in points.into_iter().step_by(stride).enumerate() {
        for occurrence in [
            Occurrence::Nth(1),
            Occurrence::Nth(3),
            Occurrence::Half(number as u64),
        ] {
            let hold = Hold {
                occurrence,
                watches: number % 4 == 0,
                ..hold_at(HoldPoint::Code(point.clone()), 1)
            };
            let run = program.assert_passes(&plan_of(hold));
            held += run.holds.times[0];
        }
    }
    for side in [CreationSide::Creator, CreationSide::Created] {
        for occurrence in [Occurrence::Nth(1), Occurrence::Every] {
            let hold = Hold {
                occurrence,
                ..hold_at(HoldPoint::Start(side), 1)
            };
            let run = program.assert_passes(&plan_of(hold));
            held += run.holds.times[0];
        }
    }
    assert!(held > 5);
    assert_never_fails_before_calls(&program);
}

macro_rules! correct_programs {
    ($($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                needs!(provoke_test_needs::program("cc"));
                assert_never_fails(stringify!($name), &[]);
            }
        )+
    };
}

/// Programs that are correct under every schedule.
mod correct {
    use super::{Compiled, assert_never_fails, assert_never_fails_before_calls, needs};

    correct_programs![
        atomics, detached, exchange, executes, forks, generated, interrupts, locks, pipes, queue,
        recovers, rwlock, spawns, timers, vforks,
    ];

    #[test]
    fn a_stripped_program_never_fails() {
        needs!(provoke_test_needs::program("cc"));
        assert_never_fails("queue", &["-s"]);
    }

    #[test]
    fn a_program_at_a_fixed_address_never_fails() {
        needs!(provoke_test_needs::program("cc"));
        assert_never_fails("queue", &["-no-pie"]);
    }

    #[test]
    fn a_static_program_never_fails() {
        needs!(provoke_test_needs::program("cc"));
        assert_never_fails("detached", &["-static"]);
    }

    // Without the filter, a process that is created without the tracer would run into breakpoints.
    #[test]
    fn a_filtered_program_with_untraced_processes_never_fails() {
        needs!(provoke_test_needs::program("cc"));
        assert_never_fails("filtered", &[]);
        let program = Compiled::new("correct/filtered.c", &[]);
        assert!(program.reached_calls().len() > 2);
        assert_never_fails_before_calls(&program);
    }

    #[test]
    fn a_static_program_held_before_system_calls_never_fails() {
        needs!(provoke_test_needs::program("cc"));
        let program = Compiled::new("correct/vforks.c", &["-static"]);
        assert!(program.reached_calls().len() > 3);
        assert_never_fails_before_calls(&program);
    }
}

/// Returns the points before which the line of a function is reached.
fn points_with_failures(program: &Compiled, runs: u32) -> Vec<(CodePoint, u32)> {
    let points = program.reached_points();
    let failures = points.into_iter().map(|point| {
        let hold = hold_at(HoldPoint::Code(point.clone()), 1);
        let failures = program.failures(&hold, runs);
        (point, failures)
    });
    failures.filter(|(_, failures)| *failures > 0).collect()
}

#[test]
fn a_refcount_race_fails_in_every_run_if_held_between_load_and_store() {
    needs!(provoke_test_needs::program("cc"));
    let program = Compiled::new("racy/refcount.c", &[]);
    let failing = points_with_failures(&program, 4);
    // Between the load and the store of the count.
    assert!(
        failing.iter().any(|(_, failures)| *failures == 4),
        "{failing:?}"
    );
    assert!(failing.len() <= 6, "{failing:?}");
}

#[test]
fn a_watched_hold_reports_the_other_side_of_a_race() {
    needs!(provoke_test_needs::program("cc"));
    let program = Compiled::new("racy/refcount.c", &[]);
    let failing = points_with_failures(&program, 2);
    let watched = failing.iter().map(|(point, _)| {
        let hold = Hold {
            watches: true,
            ..hold_at(HoldPoint::Code(point.clone()), 1)
        };
        let plan = plan_of(hold);
        (0..5)
            .map(|_| program.run(&plan).holds.races.len())
            .sum::<usize>()
    });
    assert!(watched.sum::<usize>() > 0, "{failing:?}");
}

/// Returns the plan for a pair of holds before system calls of a sender and a receiver.
fn pair_plan(sender: u64, receiver: u64, seed: u64) -> HoldPlan {
    let holds = [(0, sender), (1, receiver)].map(|(process, call)| {
        let progress = u32::try_from((seed + u64::from(process) * 3) % 6 + 1).unwrap();
        let seed = seed * 2 + u64::from(process);
        hold_half(
            HoldPoint::Call { process, call },
            seed,
            HoldEnd::OthersProgressed(progress),
        )
    });
    HoldPlan::Hold {
        holds: holds.to_vec(),
        total_limit: HANG / 5,
        evidence: false,
    }
}

#[test]
fn two_processes_that_share_a_file_fail_under_a_pair_of_holds() {
    needs!(provoke_test_needs::program("cc"));
    let program = Compiled::new("racy/mailbox.c", &[]);
    let folder = tempfile::tempdir().unwrap();
    let commands = ["send", "receive"].map(|role| {
        let mut command = program.command.clone();
        command.extend([role.into(), folder.path().into()]);
        command
    });
    let run = |plan: &HoldPlan| {
        run_programs(&commands, &[], plan, &mut program.files.borrow_mut(), HANG).unwrap()
    };
    let learned = run(&HoldPlan::Learn(CodeScope::Own)).holds.learned;
    let names: BTreeSet<(u32, &str)> = learned
        .iter()
        .filter_map(|learned| match learned.point {
            HoldPoint::Call { process, call } => Some((process, call_name(call)?)),
            _ => None,
        })
        .collect();
    // The calls of the dynamic loader, such as `pread64` and its `read`, are not among them.
    let sender = ["close", "openat", "unlink", "write"].map(|name| (0, name));
    let receiver = ["close", "openat", "read"].map(|name| (1, name));
    assert!(
        names.is_subset(&sender.into_iter().chain(receiver).collect()),
        "{names:?}"
    );
    // The sender before `write`, so that the file is empty, and the receiver before `close`.
    assert!((0..200).any(|seed| run(&pair_plan(1, 3, seed)).has_failed()));
}

/// Compiles the plugin of `racy/plugin.c` next to the program.
fn compile_plugin(program: &Compiled) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/racy/plugin.c");
    let mut plugin = program.command[0].clone();
    plugin.push(".so");
    let compiled = Command::new("cc")
        .args(["-g", "-O1", "-shared", "-fPIC", "-DPLUGIN", "-o"])
        .arg(plugin)
        .arg(source)
        .status();
    assert!(compiled.unwrap().success());
}

#[test]
fn a_library_loaded_at_runtime_has_points() {
    needs!(provoke_test_needs::program("cc"));
    let program = Compiled::new("racy/plugin.c", &["-ldl"]);
    compile_plugin(&program);
    let failing = points_with_failures(&program, 5);
    let is_of_plugin = |point: &CodePoint| {
        Path::new(point.object.as_os_str())
            .extension()
            .is_some_and(|extension| extension == "so")
    };
    assert!(
        failing
            .iter()
            .any(|(point, failures)| is_of_plugin(point) && *failures == 5),
        "{failing:?}"
    );
}

/// Writes functions that are never called, with this number of bytes together.
fn write_unused_code(file: &Path, size: usize) {
    const FUNCTION: usize = 1 << 10;
    let functions = (0..size.div_ceil(FUNCTION)).map(|number| {
        format!(
            ".globl unused{number}\n.type unused{number}, @function\nunused{number}:\n.cfi_startproc\n\
             .skip {FUNCTION}, 0xc3\n.cfi_endproc\n.size unused{number}, {FUNCTION}\n"
        )
    });
    let code: String = std::iter::once(".text\n".to_owned())
        .chain(functions)
        .chain([".section .note.GNU-stack,\"\",@progbits\n".to_owned()])
        .collect();
    std::fs::write(file, code).unwrap();
}

#[test]
fn in_large_code_the_entries_of_functions_are_learned_first() {
    needs!(provoke_test_needs::program("cc"));
    let folder = tempfile::tempdir().unwrap();
    let unused = folder.path().join("unused.s");
    write_unused_code(&unused, 9 << 20);
    let program = Compiled::new("racy/refcount.c", &[unused.to_str().unwrap()]);
    let learn = |scope| program.run(&HoldPlan::Learn(scope)).holds;
    let code_points = |holds: &HoldObservation| -> Vec<(u64, HoldPoint)> {
        let learned = holds.learned.iter();
        let of_code = learned.filter(|learned| learned.point.as_code().is_some());
        of_code
            .map(|learned| (learned.function, learned.point.clone()))
            .collect()
    };
    let entries = learn(CodeScope::Own);
    assert!(entries.entries_only);
    let entries = code_points(&entries);
    assert!(!entries.is_empty());
    for (function, point) in &entries {
        assert_eq!(point.as_code().unwrap().address, *function);
    }
    let (function, entry) = &entries[0];
    let details = learn(CodeScope::Around(vec![hold_at(entry.clone(), 1)]));
    assert!(!details.entries_only);
    let details = code_points(&details);
    assert!(details.len() > 1);
    assert!(details.iter().all(|(of, _)| of == function));
}

#[test]
fn a_single_threaded_program_started_by_exec_has_points() {
    needs!(provoke_test_needs::program("cc"));
    let program = Compiled::new("racy/executed.c", &[]);
    let failing = points_with_failures(&program, 5);
    assert!(
        failing.iter().any(|(_, failures)| *failures >= 4),
        "{failing:?}"
    );
}

#[test]
fn functions_without_unwind_tables_have_points() {
    needs!(provoke_test_needs::program("cc"));
    let options = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let program = Compiled::new("racy/refcount.c", &options);
    let failing = points_with_failures(&program, 5);
    assert!(
        failing.iter().any(|(_, failures)| *failures == 5),
        "{failing:?}"
    );
}

#[test]
fn a_sleeping_thread_counts_as_running_until_it_wakes_up() {
    needs!(provoke_test_needs::program("cc"));
    let program = Compiled::new("racy/balance.c", &[]);
    let failing = points_with_failures(&program, 8);
    assert!(!failing.is_empty());
}

#[test]
fn a_thread_that_creates_a_thread_is_held() {
    needs!(provoke_test_needs::program("cc"));
    let program = Compiled::new("racy/order.c", &[]);
    let hold = hold_at(HoldPoint::Start(CreationSide::Creator), 1);
    assert_eq!(program.failures(&hold, 5), 5);
}

#[test]
fn an_inverted_lock_order_hangs() {
    needs!(provoke_test_needs::program("cc"));
    let program = Compiled::new("racy/abba.c", &[]);
    let points = program.reached_points();
    let hangs = points.into_iter().any(|point| {
        let hold = hold_at(HoldPoint::Code(point), 1);
        let has_hung = |_| program.run(&plan_of(hold.clone())).statuses.contains(&None);
        (0..3).any(has_hung)
    });
    assert!(hangs);
}

#[test]
fn a_point_that_is_never_reached_causes_no_hold() {
    needs!(provoke_test_needs::program("cc"));
    let program = Compiled::new("correct/locks.c", &[]);
    let hold = hold_at(HoldPoint::Start(CreationSide::Created), 9);
    let run = program.assert_passes(&plan_of(hold));
    assert_eq!(run.holds.times, [0]);
}

#[test]
fn a_program_that_traces_processes_is_refused() {
    needs!(provoke_test_needs::program("cc"));
    let program = Compiled::new("correct/traces.c", &[]);
    let run = program.run(&HoldPlan::Learn(CodeScope::Own));
    let refused = run.holds.refused.unwrap();
    assert!(
        refused.starts_with("it traces processes itself"),
        "{refused}"
    );
}

#[test]
fn a_hold_ends_at_its_time_limit() {
    needs!(provoke_test_needs::program("cc"));
    let program = Compiled::new("correct/atomics.c", &[]);
    // The other thread spins until this one has started.
    let hold = hold_at(HoldPoint::Start(CreationSide::Created), 1);
    let run = program.assert_passes(&plan_of(hold));
    assert_eq!(run.holds.times, [1]);
}

#[test]
fn a_file_that_is_not_an_elf_program_is_refused() {
    let here = PathBuf::from(file!());
    let missing = CodeFile::read(Path::new("/nonexistent")).unwrap_err();
    assert_eq!(missing.to_string(), "cannot read /nonexistent");
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let refused = CodeFile::read(&text).unwrap_err().to_string();
    assert!(
        refused.ends_with("Cargo.toml is not an x86-64 ELF file"),
        "{here:?} {refused}"
    );
}
