//! Traces a trial from fault to fault, and writes a core before a handler of the program runs.
//!
//! Main processes are seized before their first instruction, and whatever they start is
//! followed with them. Signals reach them as they would without us; the first fault of
//! each process is written down on the way. Whether it was one is seen in the end: what
//! a program survives is its own business (runtimes fault on purpose), and is forgotten.
//!
//! No state is kept of threads, but of processes with a fault, so that nothing can be
//! missed when a thread executes another program or numbers come again.

use super::snapshots::Snapshots;
use crate::model::{CoreSeen, Signal};
use crate::sys::child::Status;
use crate::sys::ptrace::Stop;
use crate::sys::threads;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

/// Faults that are kept of one trial.
const MOST: usize = 8;
/// A fault is written down in this time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who follows the processes of the present trial, if anybody does.
#[derive(Default)]
pub(super) struct Tracer {
    snapshots: Option<Snapshots>,
    /// Living processes with a fault.
    faulty: BTreeMap<i32, Fault>,
    /// Threads of processes that are stopped like by Ctrl-Z.
    stopped: BTreeSet<i32>,
    kept: Vec<CoreSeen>,
    complained: bool,
}

/// The first fault of a process.
struct Fault {
    signal: i32,
    /// None where there were enough already.
    core: Option<CoreSeen>,
    /// Others came after it.
    repeated: bool,
}

impl Tracer {
    /// A trial begins, which is followed if there is a place to write to.
    pub(super) fn begin(&mut self, snapshots: Option<Snapshots>) {
        let complained = self.complained;
        *self = Self {
            snapshots,
            complained,
            ..Self::default()
        };
    }

    /// True once: that nothing can be followed need not be said for every trial.
    pub(super) fn may_complain(&mut self) -> bool {
        !std::mem::replace(&mut self.complained, true)
    }

    /// Lets a thread go that has stopped.
    pub(super) fn stopped(&mut self, stop: Stop) {
        if stop.is_of_process() {
            self.stopped.insert(stop.tid);
        } else {
            self.stopped.remove(&stop.tid);
        }
        if let Some(signal) = stop.signal()
            && is_fault(signal)
        {
            self.fault(stop, signal);
        }
        stop.resume();
    }

    fn fault(&mut self, stop: Stop, signal: i32) {
        let known = self.faulty.contains_key(&stop.tid).then_some(stop.tid);
        let Some(pid) = known.or_else(|| threads::process_of(stop.tid)) else {
            return;
        };
        if let Some(first) = self.faulty.get_mut(&pid) {
            first.repeated = true;
            return;
        }
        let pending = self.faulty.values().filter(|fault| fault.core.is_some());
        let room = pending.count() + self.kept.len() < MOST;
        let until = Instant::now() + PATIENCE;
        let snapshots = self.snapshots.as_ref().filter(|_| room);
        let fault = Fault {
            signal,
            core: snapshots.and_then(|to| to.take("trace", pid, Some(stop), until)),
            repeated: false,
        };
        self.faulty.insert(pid, fault);
    }

    /// A process has ended: one of the plan's `own`, or another; and if `counts`, for
    /// reasons of its own.
    pub(super) fn ended(&mut self, pid: i32, status: Status, own: bool, counts: bool) {
        let Some(fault) = self.faulty.remove(&pid) else {
            return;
        };
        if counts && was_fatal(&fault, status, own) {
            self.kept.extend(fault.core);
        } else {
            forget(fault);
        }
    }

    /// Returns the cores of the trial that is over.
    pub(super) fn end(&mut self) -> Vec<CoreSeen> {
        std::mem::take(&mut self.faulty)
            .into_values()
            .for_each(forget);
        self.snapshots = None;
        std::mem::take(&mut self.kept)
    }

    /// Returns the state of a thread as it would be without us.
    pub(super) fn state(&self, tid: i32, state: char) -> char {
        if state == 't' && self.stopped.contains(&tid) {
            'T'
        } else {
            state
        }
    }
}

/// True for a signal that says that the program did what it may not do, or found out
/// itself that something is wrong.
fn is_fault(signal: i32) -> bool {
    Signal(signal).is_crash()
}

/// Says whether a process ended because of its first fault. Who dies of a signal like that
/// has not handled it. A handler may also say so itself, and exit; but a runtime that
/// faults on purpose does it again and again. Where it is not one of the plan's own
/// processes, of whose exit codes we are told anyway, the code must stand for the signal.
fn was_fatal(fault: &Fault, status: Status, own: bool) -> bool {
    match status {
        Status::Signaled(signal, _) => is_fault(signal),
        Status::Exited(0) => false,
        Status::Exited(code) if code == 128 + fault.signal || code == 256 - fault.signal => true,
        Status::Exited(_) => own && !fault.repeated,
    }
}

fn forget(fault: Fault) {
    if let Some(core) = fault.core {
        let _ = fs::remove_file(core.file.as_os_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fault_that_ended_its_process_is_kept() {
        let fault = |repeated| Fault {
            signal: 11,
            core: None,
            repeated,
        };
        let fatal = |repeated, status, own| was_fatal(&fault(repeated), status, own);
        for own in [true, false] {
            for repeated in [true, false] {
                assert!(fatal(repeated, Status::Signaled(11, false), own));
                assert!(fatal(repeated, Status::Signaled(6, false), own));
                assert!(fatal(repeated, Status::Exited(139), own));
                assert!(!fatal(repeated, Status::Signaled(15, false), own));
                assert!(!fatal(repeated, Status::Exited(0), own));
            }
        }
        assert!(fatal(false, Status::Exited(1), true));
        assert!(!fatal(true, Status::Exited(1), true));
        assert!(!fatal(false, Status::Exited(1), false));
    }
}
