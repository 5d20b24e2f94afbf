//! Lists the lines of source code that a failure points at, or else the functions.

use super::diagnosis::diagnose_hang;
use super::frames::{self, StackCall};
use super::{find_crash, find_culprit, find_logged, runtime_calls};
use provoke_messages::{SourceOwner, bare_name, innermost_own_site};
use provoke_model::{
    Crash, FailureKind, Frame, Hang, HungThread, Observation, Site, VariantPlan, WaitObject,
};
use std::collections::BTreeSet;

/// Number of innermost calls of a stack that a failure points at.
const CALLS: usize = 2;
/// Maximum number of goroutines that a hang points at.
const GOROUTINES: usize = 4;

/// Returns the source lines that a failure of this kind points at.
pub fn failure_sites(
    kind: &FailureKind,
    variant: &VariantPlan,
    observation: &Observation,
) -> Vec<Site> {
    let main = find_culprit(kind, variant, observation);
    if let FailureKind::Hang { .. } = kind {
        return of_hang(observation, main.map(|main| main.pid));
    }
    let of_core = find_crash(kind, main, observation)
        .map(of_crash)
        .unwrap_or_default();
    if of_core.is_empty() {
        let logged = find_logged(kind, main, observation).and_then(|logged| logged.function);
        let logged = logged.and_then(|frame| of_frames(&[frame]));
        let site = logged.or_else(|| main?.site.clone());
        return site.into_iter().collect();
    }
    of_core
}

/// Returns the functions that a failure of this kind points at, as far as its stacks have names: the innermost ones of
/// the program.
pub fn failure_functions(
    kind: &FailureKind,
    variant: &VariantPlan,
    observation: &Observation,
) -> Vec<String> {
    let main = find_culprit(kind, variant, observation);
    let stacks: Vec<&[Frame]> = match (kind, &observation.hang) {
        (FailureKind::Hang { .. }, Some(hang)) => blocked_threads(hang, main.map(|main| main.pid))
            .into_iter()
            .map(|thread| thread.frames.as_slice())
            .collect(),
        _ => find_crash(kind, main, observation)
            .map(|crash| crash.frames.as_slice())
            .into_iter()
            .collect(),
    };
    let calls = stacks
        .into_iter()
        .flat_map(|stack| frames::all_counted(stack).into_iter().take(CALLS));
    let named = calls.filter(StackCall::is_named);
    let functions: BTreeSet<String> = named.map(|call| call.name).collect();
    functions.into_iter().collect()
}

/// Returns the source line that a crash points at, and the Python line that called it.
pub fn of_crash(crash: &Crash) -> Vec<Site> {
    let native = of_frames(&crash.frames);
    native
        .into_iter()
        .chain(of_runtime(&crash.python))
        .collect()
}

/// Returns the lines of threads that wait for each other, or of the thread that the others wait
/// for.
fn of_hang(observation: &Observation, main: Option<i32>) -> Vec<Site> {
    let Some(hang) = &observation.hang else {
        return Vec::new();
    };
    let of_thread = |thread: &HungThread| of_runtime(&thread.calls).or(of_frames(&thread.frames));
    let waiting = |thread: &HungThread| {
        let is_named = thread.lock.is_some() || !thread.calls.is_empty();
        let holder = thread
            .waits_for
            .filter(|_| is_named)
            .and_then(|tid| hang.find_thread(tid))
            .and_then(of_thread);
        let lock = thread.lock.clone();
        Some(Site {
            lock: lock.or_else(|| (!thread.calls.is_empty()).then(|| "a lock".to_owned())),
            holder: holder.map(Box::new),
            ..of_thread(thread)?
        })
    };
    let goroutines = diagnose_hang(hang, main).map_or(Vec::new(), |found| found.goroutines(hang));
    if hang.cycle.is_empty() && !goroutines.is_empty() {
        // A goroutine may wait for another one at the other end of a channel.
        let at_channels = hang.goroutines.iter().filter(|other| {
            let is_at_channel = other.state.starts_with("chan ");
            is_at_channel && goroutines.iter().all(|known| known.number != other.number)
        });
        let goroutines = goroutines
            .iter()
            .copied()
            .chain(at_channels)
            .take(GOROUTINES);
        let sites = goroutines.filter_map(|goroutine| of_runtime(&goroutine.calls));
        let mut sites: Vec<Site> = sites.collect();
        sites.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        sites.dedup();
        return sites;
    }
    let threads = blocked_threads(hang, main);
    let of_blocked = |thread: &&HungThread| match threads.len() {
        1 if hang.cycle.is_empty() => of_thread(thread),
        _ => waiting(thread),
    };
    let mut sites: Vec<Site> = threads.iter().filter_map(of_blocked).collect();
    if sites.is_empty() {
        // A program without lines, such as a command of the system: the nearest thread that waits for it has the line.
        let diagnosis = diagnose_hang(hang, main);
        let chain = diagnosis.map_or(Vec::new(), |diagnosis| diagnosis.chain);
        sites.extend(chain.into_iter().rev().find_map(of_thread));
    }
    // The thread at which the cycle was found is random, so sort the lines.
    sites.sort_by(|a, b| (&a.function, &a.file, a.line).cmp(&(&b.function, &b.file, b.line)));
    sites.dedup();
    if !sites.is_empty() && !hang.cycle.is_empty() {
        let is_main =
            |thread: &&HungThread| thread.tid == thread.pid && !hang.cycle.contains(&thread.tid);
        let joining = |thread: &HungThread| {
            let other = match thread.waits_on {
                Some(WaitObject::Join) => hang.find_thread(thread.waits_for?)?,
                _ => return None,
            };
            Some(Site {
                caller: None,
                joins: Some(Box::new(of_thread(other)?)),
                ..of_thread(thread)?
            })
        };
        sites.extend(hang.threads.iter().filter(is_main).filter_map(joining));
    }
    sites
}

/// Returns the threads that wait for each other or for locks, or the thread that the others wait for.
fn blocked_threads(hang: &Hang, main: Option<i32>) -> Vec<&HungThread> {
    if !hang.cycle.is_empty() {
        let in_cycle = hang.cycle.iter();
        return in_cycle.filter_map(|tid| hang.find_thread(*tid)).collect();
    }
    let Some(diagnosis) = diagnose_hang(hang, main) else {
        return Vec::new();
    };
    let waiters = runtime_calls::lock_waiters(hang, diagnosis.culprit.pid);
    if waiters.is_empty() {
        vec![diagnosis.culprit]
    } else {
        waiters
    }
}

/// Returns the innermost native call in the user's code, with its caller.
fn of_frames(frames: &[Frame]) -> Option<Site> {
    let real_calls = frames
        .iter()
        .filter(|frame| !StackCall::new(frame).is_glue());
    let mut sites: Vec<Site> = real_calls.filter_map(site_of_frame).collect();
    sites.retain(|site| !is_library_source(&site.file));
    innermost_own_site(&sites)
}

/// Returns the innermost call of a runtime's language in the user's code, with its caller.
fn of_runtime(calls: &[Frame]) -> Option<Site> {
    let of_program = calls.iter().filter(|call| call.module.is_none());
    let named = of_program.filter_map(|call| {
        let name = call.function.as_deref().filter(|name| *name != "<module>");
        Some(Site {
            function: name.map(|name| name.replace(".<locals>", "")),
            ..site_of_frame(call)?
        })
    });
    innermost_own_site(&named.collect::<Vec<Site>>())
}

/// Returns whether a source file belongs to a system library or a compiler, not to the program.
pub fn is_library_source(file: &str) -> bool {
    SourceOwner::of_file(file) == SourceOwner::Library
}

fn site_of_frame(frame: &Frame) -> Option<Site> {
    let (file, line) = frame.line.clone()?;
    Some(Site {
        file,
        line,
        function: frame.function.as_deref().map(bare_name),
        ..Site::default()
    })
}
