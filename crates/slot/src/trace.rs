//! Traces a trial from fault to fault, and writes a core before a handler of the program runs.
//!
//! Main processes are seized before their first instruction, and their descendants are traced with
//! them. Signals reach them as without tracing. The first fault of each process is recorded. Only
//! the end of the process shows whether the fault was fatal: faults that a program survives are
//! dropped, because runtimes fault on purpose.
//!
//! The tracer keeps state only for processes with a fault, not for threads, so that nothing is
//! missed when a thread executes another program or numbers are reused.

use super::fake_clock::{FakeClock, StopResult};
use super::hold::TrialHolds;
use super::slow_sync::{self, SlowSync};
use super::snapshots::SnapshotFolder;
use provoke_levers::TrialStart;
use provoke_model::{CoreObservation, Signal};
use provoke_sys::child::WaitStatus;
use provoke_sys::ptrace::ThreadStop;
use provoke_sys::snapshot::CoreThreads;
use provoke_sys::{files, threads};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// Limit of faults that are recorded of one trial.
const MAX_CORES: usize = 8;
/// Time limit for recording a fault.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tracer of the present trial's processes, if tracing is enabled.
#[derive(Default)]
pub(super) struct Tracer {
    snapshots: Option<SnapshotFolder>,
    /// Living processes with a fault.
    faulty: BTreeMap<i32, FirstFault>,
    /// Threads of processes that are stopped as by Ctrl-Z.
    stopped: BTreeSet<i32>,
    kept_cores: Vec<CoreObservation>,
    complained: bool,
    /// Clock of the processes, if it is not that of the machine.
    clock: Option<FakeClock>,
    /// Delay of the calls that write data to disks.
    slow_sync: Option<SlowSync>,
    /// Holds of threads.
    pub(super) holds: TrialHolds,
}

/// First fault of a process.
struct FirstFault {
    signal: i32,
    /// `None` if the limit of faults was reached.
    core: Option<CoreObservation>,
    /// More faults followed.
    repeated: bool,
}

impl Tracer {
    /// Starts a trial. Faults are recorded if there is a folder for cores.
    pub(super) fn begin_trial(
        &mut self,
        snapshots: Option<SnapshotFolder>,
        clock: Option<FakeClock>,
        start: &TrialStart,
    ) {
        *self = Self {
            snapshots,
            clock,
            slow_sync: start.sync_delay.map(SlowSync::new),
            complained: self.complained,
            holds: std::mem::take(&mut self.holds),
            ..Self::default()
        };
    }

    /// Returns true at the first call only, so that one complaint is made per slot.
    pub(super) fn may_complain(&mut self) -> bool {
        !std::mem::replace(&mut self.complained, true)
    }

    /// Handles the stop of a thread, and continues it unless it is held.
    pub(super) fn handle_stop(&mut self, stop: ThreadStop) {
        if stop.is_of_process() {
            self.stopped.insert(stop.tid);
        } else {
            self.stopped.remove(&stop.tid);
        }
        if let Some(clock) = &mut self.clock
            && clock.handle_stop(stop) == StopResult::Continued
        {
            return;
        }
        if let Some(slow_sync) = &mut self.slow_sync
            && slow_sync.handle_stop(stop) == StopResult::Continued
        {
            return;
        }
        let mut holds = std::mem::take(&mut self.holds);
        let is_handled = holds.handle_stop(stop, |stop, signal| self.signal_arrives(stop, signal));
        self.holds = holds;
        if is_handled {
            return;
        }
        if let Some(signal) = stop.delivered_signal() {
            self.signal_arrives(stop, signal);
        }
        stop.resume_thread();
    }

    /// Forgets a thread or a process that has ended.
    pub(super) fn thread_ended(&mut self, tid: i32) {
        self.holds.thread_ended(tid);
        if let Some(clock) = &mut self.clock {
            clock.thread_ended(tid);
        }
        if let Some(slow_sync) = &mut self.slow_sync {
            slow_sync.forget_thread(tid);
        }
    }

    /// Returns the calls that conditions of the trial delay.
    pub(super) fn delayed_calls(&self) -> &'static [u64] {
        if self.slow_sync.is_some() {
            &slow_sync::CALLS
        } else {
            &[]
        }
    }

    /// Returns whether the tracer sets conditions of the trial, which does not start without it.
    pub(super) fn sets_conditions(&self) -> bool {
        self.has_clock() || self.slow_sync.is_some()
    }

    /// Returns whether the processes of the trial have another clock than the machine.
    pub(super) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Returns why a program does not run as it would with another clock, once per trial.
    pub(super) fn clock_complaint(&mut self) -> Option<String> {
        self.clock.as_mut()?.take_complaint()
    }

    fn signal_arrives(&mut self, stop: ThreadStop, signal: i32) {
        if is_fault(signal) {
            self.record_fault(stop, signal);
        }
    }

    fn record_fault(&mut self, stop: ThreadStop, signal: i32) {
        let known_fault = self.faulty.contains_key(&stop.tid).then_some(stop.tid);
        let Some(pid) = known_fault.or_else(|| threads::process_of(stop.tid)) else {
            return;
        };
        if let Some(first) = self.faulty.get_mut(&pid) {
            first.repeated = true;
            return;
        }
        let pending = self.faulty.values().filter(|fault| fault.core.is_some());
        let has_room = pending.count() + self.kept_cores.len() < MAX_CORES;
        let deadline = Instant::now() + PATIENCE;
        let fault = FirstFault {
            signal,
            core: match &self.snapshots {
                Some(snapshots) if has_room => {
                    snapshots.write_core("trace", pid, CoreThreads::Fault(stop), deadline)
                }
                _ => None,
            },
            repeated: false,
        };
        self.faulty.insert(pid, fault);
    }

    /// Handles the end of a process. `is_own` marks a process of the plan; `counts` is false if
    /// provoke ended the process.
    pub(super) fn process_ended(
        &mut self,
        pid: i32,
        status: WaitStatus,
        is_own: bool,
        counts: bool,
    ) {
        let Some(fault) = self.faulty.remove(&pid) else {
            return;
        };
        if counts && was_fatal(&fault, status, is_own) {
            self.kept_cores.extend(fault.core);
        } else {
            forget_fault(fault);
        }
    }

    /// Returns the cores of the finished trial.
    pub(super) fn take_cores(&mut self) -> Vec<CoreObservation> {
        std::mem::take(&mut self.faulty)
            .into_values()
            .for_each(forget_fault);
        self.snapshots = None;
        std::mem::take(&mut self.kept_cores)
    }

    /// Returns the state that a thread would have without tracing.
    pub(super) fn own_state(&self, tid: i32, state: char) -> char {
        match state {
            't' if self.stopped.contains(&tid) => 'T',
            // It asks for the time, and runs otherwise.
            't' if self.clock.is_some() => 'R',
            _ => state,
        }
    }
}

/// Returns whether the signal reports an error that the CPU, the kernel or the program itself
/// detected.
fn is_fault(signal: i32) -> bool {
    Signal(signal).is_crash()
}

/// Returns whether a process ended because of its first fault.
///
/// A process that dies of such a signal has not handled it. A handler may also report the fault and
/// exit, but a runtime that faults on purpose does so repeatedly. The exit code of a process
/// outside of the plan must stand for the signal; exit codes of the plan's own processes are
/// reported anyway.
fn was_fatal(fault: &FirstFault, status: WaitStatus, is_own: bool) -> bool {
    match status {
        WaitStatus::Signaled(signal, _) => is_fault(signal),
        WaitStatus::Exited(0) => false,
        WaitStatus::Exited(code) if code == 128 + fault.signal || code == 256 - fault.signal => {
            true
        }
        WaitStatus::Exited(_) => is_own && !fault.repeated,
    }
}

fn forget_fault(fault: FirstFault) {
    if let Some(core) = fault.core {
        let _ = files::remove_file(Path::new(core.file.as_os_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fault_that_ended_its_process_is_fatal() {
        let fault = |repeated| FirstFault {
            signal: 11,
            core: None,
            repeated,
        };
        let fatal = |repeated, status, own| was_fatal(&fault(repeated), status, own);
        for own in [true, false] {
            for repeated in [true, false] {
                assert!(fatal(repeated, WaitStatus::Signaled(11, false), own));
                assert!(fatal(repeated, WaitStatus::Signaled(6, false), own));
                assert!(fatal(repeated, WaitStatus::Exited(139), own));
                assert!(!fatal(repeated, WaitStatus::Signaled(15, false), own));
                assert!(!fatal(repeated, WaitStatus::Exited(0), own));
            }
        }
        assert!(fatal(false, WaitStatus::Exited(1), true));
        assert!(!fatal(true, WaitStatus::Exited(1), true));
        assert!(!fatal(false, WaitStatus::Exited(1), false));
    }
}
