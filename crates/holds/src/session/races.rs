//! Watches the memory that a held thread is about to access, and describes the accesses of other threads to it.

use super::{HoldProgress, HoldSession, ThreadActivity, resume};
use crate::access::{LONGEST, accessed_memory};
use crate::process::instruction_before;
use provoke_model::{AccessingThread, RacingAccess};
use provoke_sys::tracee::{self, GeneralRegisters, WatchedAccess};

impl HoldSession {
    /// Asks the other threads of a process to stop, so that their accesses to the memory that a held thread is about to
    /// access can be watched.
    pub(super) fn watch_others(&mut self, hold: usize, held_tid: i32, address: u64) {
        let mut code = [0; LONGEST];
        let memory = self.memory_of(held_tid);
        let process = self.processes.get(&memory);
        let is_read = process.is_some_and(|process| process.read_code(address, &mut code).is_ok());
        if !is_read {
            return;
        }
        let registers = GeneralRegisters::of_thread(held_tid);
        let access = registers.and_then(|registers| accessed_memory(&code, address, &registers));
        let Some(access) = access else {
            return;
        };
        self.holds[hold].watched = Some(access);
        let others = self.threads.iter_mut();
        for (tid, thread) in
            others.filter(|(tid, thread)| **tid != held_tid && thread.memory == memory)
        {
            thread.wanted_watch = Some((hold, access));
            if thread.activity != ThreadActivity::Held {
                let _ = tracee::interrupt_thread(*tid);
            }
        }
    }

    /// Watches the memory in a thread that was created during a hold: threads do not inherit watchpoints.
    pub(super) fn watch_new_thread(&mut self, tid: i32) {
        let memory = self.memory_of(tid);
        let of_process = |hold: &HoldProgress| {
            let held_thread = hold.held_thread.as_ref()?;
            if self.memory_of(held_thread.tid) != memory {
                return None;
            }
            hold.watched
        };
        let watched_access = self
            .holds
            .iter()
            .enumerate()
            .find_map(|(index, hold)| Some((index, of_process(hold)?)));
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.wanted_watch = watched_access;
        }
        self.set_wanted_watch(tid);
    }

    pub(super) fn set_wanted_watch(&mut self, tid: i32) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        if let Some((hold, access)) = thread.wanted_watch.take()
            && tracee::watch(tid, Some(access)).is_ok()
        {
            thread.watch = Some((hold, access));
        }
    }

    /// Handles an access to watched memory. It is a race only while the other thread is still held.
    pub(super) fn watched_access(&mut self, tid: i32) -> Option<RacingAccess> {
        let thread = self.threads.get_mut(&tid);
        let watch = thread.and_then(|thread| thread.watch.take());
        let _ = tracee::watch(tid, None);
        let race = watch.and_then(|(hold, access)| self.describe_race(tid, hold, access));
        if race.is_none() {
            resume(tid, 0);
        }
        race
    }

    fn describe_race(
        &mut self,
        tid: i32,
        hold: usize,
        access: WatchedAccess,
    ) -> Option<RacingAccess> {
        let held_tid = self.holds[hold].held_thread.as_ref()?.tid;
        let pointer = tracee::instruction_pointer(tid).ok()?;
        let accessing = instruction_before(self.pid_of(tid), pointer, &mut self.files);
        if accessing
            .as_ref()
            .is_some_and(|(_, instruction)| instruction.is_atomic)
        {
            return None;
        }
        let writes = accessing
            .as_ref()
            .map(|(_, instruction)| instruction.writes_memory);
        let point = self.plan.holds()[hold].point.as_code().cloned();
        Some(RacingAccess {
            hold,
            held: AccessingThread {
                thread: self.number_of(held_tid),
                tid: held_tid,
                point,
                writes: !access.writes_only,
                stack: Vec::new(),
                in_libraries: 0,
            },
            other: AccessingThread {
                thread: self.number_of(tid),
                tid,
                point: accessing.map(|(point, _)| point),
                // If only writes are watched, this is one.
                writes: access.writes_only || writes == Some(true),
                stack: Vec::new(),
                in_libraries: 0,
            },
            memory: access.address,
            size: access.size,
            core: None,
        })
    }

    /// Records a racing access, and continues its thread.
    pub fn continue_after_race(&mut self, race: RacingAccess) {
        resume(race.other.tid, 0);
        self.observation.races.push(race);
    }
}
