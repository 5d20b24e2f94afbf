//! Tests that the paths of threads are recorded, and that recording does not change what programs do.

mod compiled;

use compiled::Compiled;
use object::{Object as _, ObjectSymbol as _};
use provoke_holds::code::CodeFile;
use provoke_holds::run::HeldRun;
use provoke_model::{
    BlockKind, CodePoint, CodeScope, Hold, HoldEnd, HoldPlan, HoldPoint, Occurrence, PathDetail,
    PathPart, PathPlace, PathPlan, Text, TrialPath,
};
use provoke_sys::process::descendant_pids;
use provoke_test_needs::{needs, program};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Time after which a program hangs: a busy machine may stop it for seconds.
const HANG: Duration = Duration::from_secs(60);
const SIGUSR1: i32 = 10;

fn plan_with(arrivals: u32) -> PathPlan {
    PathPlan {
        scope: CodeScope::Own,
        detail: PathDetail::Blocks,
        arrivals,
        part: PathPart::All,
        inside: Vec::new(),
        holds: Vec::new(),
        total_limit: Duration::ZERO,
    }
}

fn record(program: &Compiled, plan: &PathPlan) -> HeldRun {
    program.run_within(HANG, &HoldPlan::Record(plan.clone()))
}

/// Returns the path of a program that passes.
fn path_of(program: &Compiled, plan: &PathPlan) -> TrialPath {
    let run = record(program, plan);
    assert!(!run.has_failed(), "{run:?}");
    path_of_run(run)
}

fn path_of_run(run: HeldRun) -> TrialPath {
    assert_eq!(run.holds.refused, None);
    *run.holds.path.unwrap()
}

/// Addresses of the functions of a program.
struct Functions(BTreeMap<String, Range<u64>>);

impl Functions {
    fn of_program(program: &Compiled) -> Self {
        let content = std::fs::read(&program.command[0]).unwrap();
        let file = object::File::parse(&*content).unwrap();
        let named = file.symbols().filter(|symbol| symbol.size() > 0);
        let ranges = named.map(|symbol| {
            let range = symbol.address()..symbol.address() + symbol.size();
            (symbol.name().unwrap().to_owned(), range)
        });
        Self(ranges.collect())
    }

    /// Returns the function of a point.
    fn name_of(&self, path: &TrialPath, point: u32) -> &str {
        let PathPlace::Code(_, address, _) = place(path, point) else {
            return "";
        };
        let mut functions = self.0.iter();
        let function = functions.find(|(_, range)| range.contains(address));
        function.map_or("", |(name, _)| name)
    }

    /// Returns the arrivals in functions: the number of the thread, the function, and what begins there.
    fn arrivals<'a>(&'a self, path: &TrialPath, wanted: &[&str]) -> Vec<(u32, &'a str, BlockKind)> {
        let events = path.events.0.iter();
        let arrivals = events.filter_map(|event| {
            let PathPlace::Code(_, _, kind) = place(path, event.point) else {
                return None;
            };
            Some((event.thread, self.name_of(path, event.point), *kind))
        });
        arrivals
            .filter(|(_, name, _)| wanted.contains(name))
            .collect()
    }
}

fn place(path: &TrialPath, point: u32) -> &PathPlace {
    &path.points[usize::try_from(point).unwrap()]
}

/// Returns the points in the code that a path reached.
fn addresses(path: &TrialPath) -> Vec<(u64, BlockKind)> {
    let code = path.points.iter().filter_map(|place| match place {
        PathPlace::Code(_, address, kind) => Some((*address, *kind)),
        _ => None,
    });
    code.collect()
}

#[test]
fn each_kind_of_block_is_recorded_in_order() {
    needs!(program("cc"));
    for options in [&[][..], &["-static"], &["-no-pie"]] {
        let program = Compiled::new("recorded/kinds.c", options);
        let path = path_of(&program, &plan_with(4));
        let functions = Functions::of_program(&program);
        let expected = [
            (0, "kinds", BlockKind::Function),
            (0, "kinds", BlockKind::NotTaken),
            (0, "called", BlockKind::Function),
            (0, "kinds", BlockKind::Return),
            (0, "kinds", BlockKind::Other),
            (0, "kinds", BlockKind::Taken),
        ];
        assert_eq!(functions.arrivals(&path, &["kinds", "called"]), expected);
        assert!(!path.is_cut);
    }
}

#[test]
fn a_plan_for_functions_records_only_their_entries() {
    needs!(program("cc"));
    let program = Compiled::new("recorded/kinds.c", &[]);
    let plan = PathPlan {
        detail: PathDetail::Functions,
        ..plan_with(4)
    };
    let path = path_of(&program, &plan);
    let functions = Functions::of_program(&program);
    let expected = ["main", "kinds", "called"].map(|name| (0, name, BlockKind::Function));
    assert_eq!(
        functions.arrivals(&path, &["kinds", "called", "main"]),
        expected
    );
}

#[test]
fn the_blocks_of_chosen_functions_are_recorded_as_well() {
    needs!(program("cc"));
    let program = Compiled::new("recorded/kinds.c", &[]);
    let functions = Functions::of_program(&program);
    let inside = vec![CodePoint {
        object: program.command[0].clone().into(),
        address: functions.0["called"].start,
    }];
    let of = |plan: PathPlan| {
        let path = path_of(&program, &plan);
        functions.arrivals(&path, &["kinds", "called"])
    };
    let all = of(plan_with(4)).into_iter();
    let expected: Vec<_> = all
        .filter(|(_, name, kind)| *name == "called" || *kind == BlockKind::Function)
        .collect();
    let plan = PathPlan {
        detail: PathDetail::Functions,
        inside,
        ..plan_with(4)
    };
    assert_eq!(of(plan), expected);
}

/// Returns the points that a program reaches after the creation of its first thread.
fn learned_points(program: &Compiled) -> BTreeSet<CodePoint> {
    let run = program.run_within(HANG, &HoldPlan::Learn(CodeScope::Own));
    let learned = run.holds.learned.into_iter();
    let points = learned.filter_map(|learned| learned.point.as_code().cloned());
    points.collect()
}

/// Records a program while a thread is held at a point.
fn record_held(program: &Compiled, point: &CodePoint, arrivals: u32) -> HeldRun {
    let hold = Hold {
        point: HoldPoint::Code(point.clone()),
        occurrence: Occurrence::Nth(1),
        end: HoldEnd::OthersBlocked,
        limit: Duration::from_millis(50),
        watches: true,
        anchor: None,
    };
    let plan = HoldPlan::Record(plan_with(arrivals)).with_holds(&[hold], HANG);
    program.run_within(HANG, &plan)
}

#[test]
fn threads_are_held_while_the_other_points_are_recorded() {
    needs!(program("cc"));
    let program = Compiled::new("racy/refcount.c", &["-O1"]);
    let mut failures = 0;
    for point in learned_points(&program) {
        let run = record_held(&program, &point, 4);
        failures += u32::from(run.has_failed());
        let held = run.holds.times.clone();
        let path = path_of_run(run);
        let is_recorded = |address| addresses(&path).iter().any(|(other, _)| *other == address);
        if held == [1] {
            assert!(!is_recorded(point.address), "{point:?}: {path:?}");
        }
        assert!(addresses(&path).len() > 2, "{path:?}");
    }
    assert!(failures > 0);
}

#[test]
fn a_correct_program_passes_while_it_is_held_and_recorded() {
    needs!(program("cc"));
    let program = Compiled::new("correct/queue.c", &[]);
    for point in learned_points(&program).iter().step_by(5) {
        let run = record_held(&program, point, 1000);
        assert!(!run.has_failed(), "{point:?}: {run:?}");
    }
}

#[test]
fn a_stripped_program_has_the_same_points() {
    needs!(program("cc"));
    let points_with = |options: &[&str]| {
        let program = Compiled::new("recorded/kinds.c", options);
        addresses(&path_of(&program, &plan_with(4)))
    };
    let points = points_with(&[]);
    assert!(points.len() > 6);
    assert_eq!(points, points_with(&["-s"]));
}

#[test]
fn threads_that_take_turns_are_recorded_in_order() {
    needs!(program("cc"));
    let program = Compiled::new("recorded/turns.c", &[]);
    let functions = Functions::of_program(&program);
    for arrivals in [1, 4] {
        let path = path_of(&program, &plan_with(arrivals));
        let entries = functions.arrivals(&path, &["alone", "first", "second"]);
        let count = usize::try_from(arrivals).unwrap();
        let turns = [(0, "first"), (1, "second")].repeat(count);
        let expected: Vec<(u32, &str)> = [(0, "alone")]
            .into_iter()
            .chain(turns)
            .chain([(0, "alone")].repeat(count))
            .collect();
        let seen: Vec<(u32, &str)> = entries
            .iter()
            .filter(|(_, _, kind)| *kind == BlockKind::Function)
            .map(|(thread, name, _)| (*thread, *name))
            .collect();
        assert_eq!(seen, expected);
    }
}

#[test]
fn instructions_that_depend_on_their_place_do_the_same_elsewhere() {
    needs!(program("cc"));
    for options in [&[][..], &["-static"], &["-no-pie"]] {
        let program = Compiled::new("recorded/instructions.c", options);
        for arrivals in [1, 4, 1000] {
            let path = path_of(&program, &plan_with(arrivals));
            let functions = Functions::of_program(&program);
            let arrivals_in = functions.arrivals(&path, &["mixed"]);
            assert!(arrivals_in.len() > 15, "{arrivals_in:?}");
        }
    }
}

#[test]
fn correct_programs_pass_while_their_paths_are_recorded() {
    needs!(program("cc"));
    let names = [
        "atomics",
        "detached",
        "exchange",
        "executes",
        "filtered",
        "forks",
        "generated",
        "interrupts",
        "locks",
        "pipes",
        "queue",
        "rwlock",
        "spawns",
        "timers",
        "vforks",
    ];
    let everything = PathPlan {
        scope: CodeScope::Named(vec!["/".to_owned()]),
        ..plan_with(4)
    };
    for name in names {
        let program = Compiled::new(&format!("correct/{name}.c"), &[]);
        for plan in [plan_with(4), plan_with(1000), everything.clone()] {
            path_of(&program, &plan);
        }
    }
}

#[test]
fn half_of_the_points_are_recorded() {
    needs!(program("cc"));
    let program = Compiled::new("recorded/kinds.c", &[]);
    let file: Text = program.command[0].clone().into();
    let all: BTreeSet<_> = addresses(&path_of(&program, &plan_with(4)))
        .into_iter()
        .collect();
    for seed in 0..4 {
        let part = PathPart::Half(seed);
        let plan = PathPlan {
            part,
            ..plan_with(4)
        };
        let half: BTreeSet<_> = addresses(&path_of(&program, &plan)).into_iter().collect();
        let included = all.iter().copied();
        let expected: BTreeSet<_> = included
            .filter(|(address, _)| part.includes(&file, *address))
            .collect();
        assert_eq!(half, expected);
    }
}

#[test]
fn in_very_large_code_only_the_entries_of_functions_are_points() {
    needs!(program("cc"));
    let folder = tempfile::tempdir().unwrap();
    let unused = folder.path().join("unused.s");
    let code = ".text\n.globl unused\n.type unused, @function\nunused:\n.cfi_startproc\n\
                .rept 110000\n  jc 1f\n  nop\n1:\n.endr\n  ret\n.cfi_endproc\n\
                .size unused, . - unused\n.section .note.GNU-stack,\"\",@progbits\n";
    std::fs::write(&unused, code).unwrap();
    let program = Compiled::new("recorded/kinds.c", &[unused.to_str().unwrap()]);
    let run = record(&program, &plan_with(4));
    assert!(run.holds.entries_only && !run.has_failed());
    let points = addresses(&path_of_run(run));
    assert!(points.len() > 3);
    assert!(points.iter().all(|(_, kind)| *kind == BlockKind::Function));
}

/// Returns the functions in which the first thread was when it ended, the innermost first. A stack may also contain the
/// addresses of calls that have returned, so functions that had only such calls are left out.
fn functions_at_end(how: &str, expected_failure: bool) -> Vec<String> {
    let mut program = Compiled::new("recorded/kinds.c", &["-fno-optimize-sibling-calls"]);
    program.command.push(how.into());
    let run = record(&program, &plan_with(4));
    assert_eq!(run.has_failed(), expected_failure);
    let path = path_of_run(run);
    let functions = Functions::of_program(&program);
    let end = path.ends.iter().find(|end| end.thread == 0).unwrap();
    let names = end
        .active
        .iter()
        .map(|point| functions.name_of(&path, *point));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.retain(|name| ["inner", "outer", "main"].contains(&&**name));
    names.dedup();
    names
}

#[test]
fn calls_that_have_not_returned_are_recorded_at_the_end() {
    needs!(program("cc"));
    let crash = functions_at_end("crash", true);
    assert_eq!(crash, ["inner", "outer", "main"]);
    let exit = functions_at_end("exit", true);
    assert_eq!(exit, ["inner", "outer", "main"]);
}

#[test]
fn calls_have_classes_and_files() {
    needs!(program("cc"));
    let program = Compiled::new("recorded/calls.c", &[]);
    let path = path_of(&program, &plan_with(4));
    let events = path.events.0.iter();
    let seen: Vec<String> = events
        .filter(|event| event.thread == 0)
        .filter_map(|event| match place(&path, event.point) {
            PathPlace::Call(name, class, file) => {
                let file = file.as_deref().unwrap_or("-");
                Some(format!("{name} {class} {file}"))
            }
            PathPlace::Signal(signal) => Some(format!("signal {signal}")),
            _ => None,
        })
        .collect();
    let expected = [
        "poll timeout -",
        "read EAGAIN pipe",
        "write ok pipe",
        "read short pipe",
        "openat ok null",
        "read eof null",
        "openat ENOENT job.N",
        "access ENOENT file",
        &format!("signal {SIGUSR1}"),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_child_has_its_own_number_and_its_own_path() {
    needs!(program("cc"));
    let program = Compiled::new("recorded/calls.c", &[]);
    let path = path_of(&program, &plan_with(4));
    let functions = Functions::of_program(&program);
    let child = functions.arrivals(&path, &["child"]);
    assert_eq!(child.first(), Some(&(1, "child", BlockKind::Function)));
    assert!(path.events.0.iter().all(|event| event.thread < 2));
}

#[test]
fn a_program_that_is_killed_has_its_calls_at_the_end() {
    needs!(program("cc"));
    let mut program = Compiled::new("recorded/calls.c", &[]);
    program.command.push("wait".into());
    let plan = HoldPlan::Record(plan_with(4));
    let run = program.run_within(Duration::from_secs(1), &plan);
    assert_eq!(run.statuses, [None]);
    let path = path_of_run(run);
    let functions = Functions::of_program(&program);
    let active = path.ends[0].active.iter();
    let mut names = active.map(|point| functions.name_of(&path, *point));
    assert_eq!(names.next(), Some("main"));
}

#[test]
fn recording_leaves_nothing_behind() {
    needs!(program("cc"));
    let program = Compiled::new("recorded/turns.c", &[]);
    let file = Path::new(&program.command[0]);
    let before = std::fs::read(file).unwrap();
    path_of(&program, &plan_with(4));
    assert_eq!(std::fs::read(file).unwrap(), before);
    let own_pid = std::process::id().cast_signed();
    assert_eq!(descendant_pids(own_pid).len(), 0);
}

#[test]
fn points_are_the_blocks_of_the_file() {
    needs!(program("cc"));
    let program = Compiled::new("recorded/turns.c", &[]);
    let path = path_of(&program, &plan_with(4));
    let file = CodeFile::read(Path::new(&program.command[0])).unwrap();
    let functions = file.functions().iter();
    let blocks: BTreeSet<(u64, BlockKind)> = functions
        .flat_map(|function| file.blocks_of(function).starts.iter().copied())
        .collect();
    let reached = addresses(&path);
    assert!(reached.iter().all(|point| blocks.contains(point)));
    assert_eq!(path.files, [program.command[0].clone().into()]);
}
