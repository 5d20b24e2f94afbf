//! Delays the system calls of traced processes that wait until data is on a disk.
//!
//! The thread itself sleeps: it makes a call that sleeps instead, and at the end of this call it goes back to the
//! instruction of the original one, which is then made. So other threads run meanwhile, and the tracer does not wait. A
//! signal ends the sleep early, and its handler runs before the call.

use super::fake_clock::{StopResult, write_words};
use provoke_sys::call_filter::is_creation;
use provoke_sys::ptrace::ThreadStop;
use provoke_sys::time_calls::CLOCK_NANOSLEEP;
use provoke_sys::tracee::{self, CallEntry, StopReason};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

const MSYNC: u64 = 26;
/// The numbers on x86-64 of `msync`, `fsync`, `fdatasync`, `sync`, `sync_file_range` and `syncfs`.
pub(super) const CALLS: [u64; 6] = [MSYNC, 74, 75, 162, 277, 306];
/// Flag of `msync`: it waits until the data is on the disk.
const MS_SYNC: u64 = 4;
/// Number of `CLOCK_MONOTONIC`.
const MONOTONIC: u64 = 1;

/// The delay, and the threads in it.
pub(super) struct SlowSync {
    delay: Duration,
    /// The original calls of threads that sleep.
    sleeping: BTreeMap<i32, CallEntry>,
    /// Threads that have slept, and are about to make their calls.
    rested: BTreeSet<i32>,
}

impl SlowSync {
    pub(super) fn new(delay: Duration) -> Self {
        Self {
            delay,
            sleeping: BTreeMap::new(),
            rested: BTreeSet::new(),
        }
    }

    /// Handles the stop of a thread before other parts of the tracer.
    pub(super) fn handle_stop(&mut self, stop: ThreadStop) -> StopResult {
        let tid = stop.tid;
        if stop.delivered_signal().is_some() {
            return StopResult::Stopped;
        }
        match tracee::reason_of_stop(stop) {
            Ok(StopReason::Executed) => self.forget_thread(tid),
            Ok(StopReason::SystemCall) => return self.call_begins(tid),
            Ok(StopReason::CallEnded) => {
                if let Some(call) = self.sleeping.remove(&tid)
                    && call.make_now().is_ok()
                {
                    self.rested.insert(tid);
                }
            }
            _ => {}
        }
        StopResult::Stopped
    }

    /// Forgets a thread that has ended, or executes another program.
    pub(super) fn forget_thread(&mut self, tid: i32) {
        self.sleeping.remove(&tid);
        self.rested.remove(&tid);
    }

    fn call_begins(&mut self, tid: i32) -> StopResult {
        let Some(call) = CallEntry::of_thread(tid) else {
            return StopResult::Stopped;
        };
        if is_creation(call.number) {
            let _ = tracee::keep_creation_traced(tid, call.number);
        }
        if !CALLS.contains(&call.number) || self.rested.remove(&tid) {
            return StopResult::Stopped;
        }
        let is_asynchronous = call.number == MSYNC && call.arguments[2] & MS_SYNC == 0;
        if is_asynchronous || self.delay.is_zero() || self.sleep_first(&call).is_err() {
            return StopResult::Stopped;
        }
        self.sleeping.insert(tid, call);
        let _ = tracee::continue_to_call_end(tid);
        StopResult::Continued
    }

    /// Lets a thread sleep instead of its call.
    fn sleep_first(&self, call: &CallEntry) -> io::Result<()> {
        let time = [self.delay.as_secs(), u64::from(self.delay.subsec_nanos())];
        let place = call.unused_stack(time.len() as u64);
        write_words(call.tid(), place, &time)?;
        call.make_first(CLOCK_NANOSLEEP, [MONOTONIC, 0, place, 0, 0, 0])
    }
}
