//! Simulates a program whose threads are held: both threads drop a reference to an object, and it crashes if one of them
//! is held after it has read the count of references, and before it writes the count.

use crate::loop_and_fold::hash;
use provoke_model::{
    AccessingThread, BlockKind, CodePoint, CodeScope, Frame, Hold, HoldEnd, HoldObservation,
    HoldPlan, HoldPoint, LearnedPoint, Occurrence, PathEvent, PathEvents, PathPlace, RacingAccess,
    TrialPath,
};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Its source.
pub(crate) const SOURCE: &str = "crates/holds/tests/racy/refcount.c";
/// Addresses and lines of its instructions.
const INSTRUCTIONS: [(u64, u32); 7] = [
    (0x1139, 5),
    (0x1141, 6),
    (0x1145, 7),
    (0x1148, 8),
    (WRITE, 8),
    (0x1153, 9),
    (0x1159, 9),
];
/// The instructions between the read and the write.
const WINDOW: RangeInclusive<u64> = 0x1148..=WRITE;
const WRITE: u64 = 0x1150;

/// Returns the observation of a trial, and whether the program crashes.
pub(crate) fn hold_threads(plan: &HoldPlan, drawn: f64) -> (HoldObservation, bool) {
    let mut observation = HoldObservation::default();
    if let HoldPlan::Learn(_) = plan {
        observation.learned = INSTRUCTIONS.map(learned_point).to_vec();
    }
    if let HoldPlan::Record(_) = plan {
        let fails = drawn < DECIDED_RATE;
        observation.path = Some(Box::new(path_of_drop(fails, drawn)));
        return (observation, fails);
    }
    if plan.holds().is_empty() {
        return (observation, false);
    }
    observation.times = vec![1; plan.holds().len()];
    if plan.watches() {
        observation.races.push(RacingAccess {
            hold: 0,
            held: writing_thread(1),
            other: writing_thread(2),
            memory: 0x0040_52a0,
            size: 4,
            core: None,
        });
    }
    let is_in_window = |hold: &Hold| {
        let point = hold.point.as_code();
        point.is_some_and(|point| WINDOW.contains(&point.address))
    };
    let crashes = plan.holds().iter().any(is_in_window);
    (observation, crashes)
}

/// Returns the observation of a recorded trial that fails by chance, whatever its threads do.
pub(crate) fn record_without_cause(plan: &HoldPlan, drawn: f64) -> (HoldObservation, bool) {
    let (mut observation, fails) = hold_threads(plan, drawn);
    let overlaps = hash(drawn.to_bits(), 1).is_multiple_of(4);
    observation.path = Some(Box::new(path_of_drop(overlaps, drawn)));
    (observation, fails)
}

/// Returns the path of both threads: one after the other, or both between the read and the write at once.
fn path_of_drop(overlaps: bool, drawn: f64) -> TrialPath {
    path_of(&INSTRUCTIONS, overlaps.then_some(4), drawn)
}

/// Returns the path of two threads: one after the other, or the second one when the first one has reached this number of
/// points.
fn path_of(instructions: &[(u64, u32)], overlap: Option<u32>, drawn: f64) -> TrialPath {
    let points = instructions
        .iter()
        .enumerate()
        .map(|(index, (address, _))| {
            let kind = match index {
                0 => BlockKind::Function,
                _ => BlockKind::Other,
            };
            PathPlace::Code(0, *address, kind)
        });
    let arrive = |thread: u32, points: std::ops::Range<u32>| {
        points.map(move |point| PathEvent { thread, point })
    };
    let last = u32::try_from(instructions.len()).unwrap();
    // Which thread is first means nothing.
    let (first, second) = if hash(drawn.to_bits(), 2).is_multiple_of(2) {
        (1, 2)
    } else {
        (2, 1)
    };
    let reached = overlap.unwrap_or(last);
    let events = arrive(first, 0..reached)
        .chain(arrive(second, 0..last))
        .chain(arrive(first, reached..last));
    TrialPath {
        files: vec!["/program".into()],
        points: points.collect(),
        events: PathEvents(events.collect()),
        ..TrialPath::default()
    }
}

/// Returns the same for a program with much code, of which only the entries of functions are learned at first: it also
/// crashes if a thread is held at the entry of its function.
pub(crate) fn hold_threads_in_large_code(plan: &HoldPlan, drawn: f64) -> (HoldObservation, bool) {
    let (mut observation, crashes) = hold_threads(plan, drawn);
    if let HoldPlan::Learn(CodeScope::Own) = plan {
        observation.learned.truncate(1);
        observation.entries_only = true;
    }
    let is_at_entry = |hold: &Hold| hold.point == HoldPoint::Code(code_point(INSTRUCTIONS[0].0));
    (observation, crashes || plan.holds().iter().any(is_at_entry))
}

/// Failure rate of a program in which no hold makes a difference.
pub(crate) const DECIDED_RATE: f64 = 0.3;

/// Returns the same for a program that fails by chance: whether it fails is decided before the first thread is created, and
/// only failing trials reach the last instruction.
pub(crate) fn hold_threads_after_decision(plan: &HoldPlan, drawn: f64) -> (HoldObservation, bool) {
    let fails = drawn < DECIDED_RATE;
    let (mut observation, _) = hold_threads(plan, drawn);
    let (last, _) = INSTRUCTIONS[INSTRUCTIONS.len() - 1];
    let is_reached = |hold: &Hold| fails || hold.point != HoldPoint::Code(code_point(last));
    observation.times = plan
        .holds()
        .iter()
        .map(|hold| u32::from(is_reached(hold)))
        .collect();
    (observation, fails)
}

/// Returns the hold of a thread between the read and the write.
pub(crate) fn hold_in_window() -> Hold {
    Hold {
        point: HoldPoint::Code(code_point(*WINDOW.start())),
        occurrence: Occurrence::Nth(1),
        end: HoldEnd::OthersBlocked,
        limit: Duration::from_millis(100),
        watches: false,
        anchor: None,
    }
}

/// Addresses of a longer program: it fails if one thread waits behind its test until another one is in its update.
const LONGER: RangeInclusive<u64> = 0x2000..=0x203f;
const TEST: u64 = 0x2010;
const UPDATE: u64 = 0x2020;

/// Returns the observation of the longer program. Of recorded trials, some fail.
pub(crate) fn hold_two_threads(plan: &HoldPlan, drawn: f64) -> (HoldObservation, bool) {
    let mut observation = HoldObservation::default();
    match plan {
        HoldPlan::Learn(_) => {
            let learned = LONGER.map(|address| LearnedPoint {
                point: HoldPoint::Code(code_point(address)),
                function: *LONGER.start(),
                ..learned_point((address, 1))
            });
            observation.learned = learned.collect();
            (observation, false)
        }
        HoldPlan::Record(_) => {
            let fails = drawn < DECIDED_RATE;
            let points = [*LONGER.start(), TEST - 4, TEST, UPDATE];
            let points = points.map(|address| (address, 1));
            observation.path = Some(Box::new(TrialPath {
                files: vec![code_point(0).object],
                ..path_of(&points, fails.then_some(2), drawn)
            }));
            (observation, fails)
        }
        _ => {
            observation.times = vec![1; plan.holds().len()];
            let addresses = plan.holds().iter().filter_map(|hold| hold.point.as_code());
            let addresses: Vec<u64> = addresses.map(|point| point.address).collect();
            let fails = addresses == [TEST, UPDATE];
            (observation, fails)
        }
    }
}

/// Returns the same if no trial fails while it is recorded.
pub(crate) fn hold_two_threads_unrecorded(plan: &HoldPlan, drawn: f64) -> (HoldObservation, bool) {
    match plan {
        HoldPlan::Record(_) => hold_two_threads(plan, 1.0),
        _ => hold_two_threads(plan, drawn),
    }
}

/// Returns the observation of a program that was fixed: no hold makes it crash.
pub(crate) fn hold_threads_of_fixed_program(
    plan: &HoldPlan,
    drawn: f64,
) -> (HoldObservation, bool) {
    (hold_threads(plan, drawn).0, false)
}

/// Returns the same for a program whose window was moved.
pub(crate) fn hold_threads_of_moved_window(plan: &HoldPlan, drawn: f64) -> (HoldObservation, bool) {
    let (observation, _) = hold_threads(plan, drawn);
    let is_later = |hold: &Hold| {
        let point = hold.point.as_code();
        point.is_some_and(|point| point.address > WRITE)
    };
    let crashes = plan.holds().iter().any(is_later);
    (observation, crashes)
}

fn code_point(address: u64) -> CodePoint {
    CodePoint {
        object: "/src/refcount".into(),
        address,
    }
}

fn learned_point((address, line): (u64, u32)) -> LearnedPoint {
    LearnedPoint {
        point: HoldPoint::Code(code_point(address)),
        thread: 1,
        function: INSTRUCTIONS[0].0,
        accesses_memory: true,
        name: Some("drop".to_owned()),
        line: Some((SOURCE.to_owned(), line)),
        is_library: false,
    }
}

fn writing_thread(number: u32) -> AccessingThread {
    AccessingThread {
        thread: number,
        tid: 100,
        point: Some(code_point(WRITE)),
        writes: true,
        stack: vec![Frame {
            offset: WRITE,
            function: Some("drop".to_owned()),
            line: Some((SOURCE.to_owned(), 8)),
            ..Frame::default()
        }],
        in_libraries: 0,
    }
}
