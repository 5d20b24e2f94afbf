//! Holds the threads of a traced process tree, driven by their stops.
//!
//! Nothing is changed until there is a second thread or process: before, no schedule can be provoked.

use crate::access::{LONGEST, accessed_memory};
use crate::code::CodeCache;
use crate::loader::{find_load_event, find_loader_code};
use crate::process::{MappedCode, TracedProcess, instruction_before};
use crate::scope::{is_in_scope, may_have_point};
use provoke_model::{
    AccessingThread, CodePoint, CodeScope, CreationSide, Hold, HoldEnd, HoldObservation, HoldPlan,
    HoldPoint, LearnedPoint, RacingAccess,
};
use provoke_sys::call_filter::CLONE3;
use provoke_sys::call_filter::{PTRACE, TRACED_CALLS, is_creation};
use provoke_sys::memory::read_mappings;
use provoke_sys::ptrace::ThreadStop;
use provoke_sys::threads::process_of;
use provoke_sys::timed_wait::longest_wait;
use provoke_sys::tracee::{self, Creation, GeneralRegisters, StopReason, WatchedAccess};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval between two looks at the other threads.
pub const LOOK_INTERVAL: Duration = Duration::from_micros(100);
/// Number of looks in a row at which the other threads must be blocked.
const LOOKS: u32 = 2;
/// Signals that usually end a process: its memory must be unchanged then.
const FATAL: [i32; 9] = [3, 4, 5, 6, 7, 8, 11, 24, 31];
const SIGTRAP: i32 = 5;
/// Bit of the mode of a file: its program runs as the owner of the file.
const SET_USER_ID: u32 = 0o4000;
/// Why a program that uses `ptrace` cannot be held.
const TRACES_ITSELF: &str = "it traces processes itself, and a process can have only one tracer";
/// Why a program that gains privileges cannot be held.
const GAINS_PRIVILEGES: &str =
    "it executes a set-user-ID program, which has no privileges while it is traced";
/// Index of the breakpoint at which the loader reports that it has loaded files.
const LOAD_EVENT: usize = usize::MAX;
/// Bytes of code from which on only the entries of its functions are points: each point costs time and memory.
const MAX_CODE: u64 = 8 << 20;
/// A thread that continues by itself within this time counts as running.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// Holds threads of one trial.
#[derive(Debug)]
pub struct HoldSession {
    plan: HoldPlan,
    files: CodeCache,
    processes: BTreeMap<i32, TracedProcess>,
    /// Numbers of the processes in the order of creation.
    process_numbers: BTreeMap<i32, u32>,
    threads: BTreeMap<i32, TracedThread>,
    /// New threads that stopped before their creators reported them. They stay stopped until then, because the memory
    /// of a new process may contain breakpoints.
    early: BTreeSet<i32>,
    created: u32,
    holds: Vec<HoldProgress>,
    /// The points that can be learned. A breakpoint has the index of its point.
    learnable: Vec<LearnedPoint>,
    known_points: BTreeMap<CodePoint, usize>,
    /// The points outside the code that were learned.
    known_events: BTreeSet<HoldPoint>,
    /// The code of the dynamic loader in each process.
    loaders: BTreeMap<i32, Option<Range<u64>>>,
    observation: HoldObservation,
    /// Total time of the holds that are over.
    held_for: Duration,
}

#[derive(Debug)]
struct TracedThread {
    pid: i32,
    /// The process whose memory it uses: after `vfork`, that of the creator until `exec`.
    memory: i32,
    /// Number in the order of creation.
    number: u32,
    activity: ThreadActivity,
    /// Whether its first stop was handled.
    is_attached: bool,
    /// The thread arrived at this breakpoint, and a stop came before its instruction ran.
    arrived_at: Option<u64>,
    /// A watchpoint to set at its next stop, for this hold.
    wanted_watch: Option<(usize, WatchedAccess)>,
    /// The watchpoint that is set.
    watch: Option<(usize, WatchedAccess)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadActivity {
    Running,
    /// It runs the instruction at a breakpoint that is not set meanwhile.
    Stepping(u64),
    /// A hold keeps it stopped.
    Held,
}

#[derive(Debug, Default)]
struct HoldProgress {
    arrivals: u32,
    held_thread: Option<HeldThread>,
    /// The access that the held thread is about to make, if it is watched in the other threads.
    watched: Option<WatchedAccess>,
    /// Number of threads that were held.
    times: u32,
}

#[derive(Debug)]
struct HeldThread {
    tid: i32,
    pid: i32,
    held_since: Instant,
    last_look: Instant,
    blocked_looks: u32,
    /// System calls of other processes since.
    progress: u32,
}

impl HoldSession {
    /// Begins a trial.
    pub fn begin(plan: HoldPlan, files: CodeCache) -> Self {
        Self {
            holds: plan
                .holds()
                .iter()
                .map(|_| HoldProgress::default())
                .collect(),
            plan,
            files,
            processes: BTreeMap::new(),
            process_numbers: BTreeMap::new(),
            threads: BTreeMap::new(),
            early: BTreeSet::new(),
            created: 0,
            learnable: Vec::new(),
            known_points: BTreeMap::new(),
            known_events: BTreeSet::new(),
            loaders: BTreeMap::new(),
            observation: HoldObservation::default(),
            held_for: Duration::ZERO,
        }
    }

    /// Adds a program of the trial, which is traced from its first instruction on.
    pub fn add_program(&mut self, pid: i32) {
        self.thread_mut(pid, pid).is_attached = true;
        if self.process_numbers.len() > 1 {
            let pids: Vec<i32> = self.process_numbers.keys().copied().collect();
            for pid in pids {
                self.begin_process(pid);
            }
        }
    }

    /// Notes why threads cannot be held.
    pub fn refuse(&mut self, reason: String) {
        self.observation.refused.get_or_insert(reason);
    }

    /// Ends the trial: returns what was observed, and the files for the next trial.
    pub fn finish(mut self) -> (HoldObservation, CodeCache) {
        self.end();
        self.observation.times = self.holds.iter().map(|hold| hold.times).collect();
        (self.observation, self.files)
    }

    /// Returns whether a thread is held now, so that [`Self::look`] must be called after [`LOOK_INTERVAL`].
    pub fn holds_a_thread(&self) -> bool {
        self.holds.iter().any(|hold| hold.held_thread.is_some())
    }

    /// Handles the stop of a thread, and calls `on_signal` before a signal of the program is delivered. After a racing
    /// access, the thread stays stopped until [`Self::continue_after_race`].
    pub fn handle_stop(
        &mut self,
        stop: ThreadStop,
        on_signal: impl FnOnce(ThreadStop, i32),
    ) -> Option<RacingAccess> {
        let tid = stop.tid;
        let Ok(reason) = tracee::reason_of_stop(stop) else {
            // The thread may have been killed.
            stop.resume_thread();
            return None;
        };
        self.end_step(tid, reason);
        self.set_wanted_watch(tid);
        match reason {
            StopReason::Created(creation) => self.thread_created(tid, creation),
            StopReason::Attached => self.thread_attached(tid),
            StopReason::Executed => {
                self.program_executed(tid);
                resume(tid, 0);
            }
            StopReason::Breakpoint => self.breakpoint_hit(tid),
            StopReason::SystemCall => self.call_begins(tid),
            StopReason::Stepped => resume(tid, 0),
            StopReason::Watchpoint(_) => return self.watched_access(tid),
            StopReason::Signal(signal) => {
                if FATAL.contains(&signal) {
                    let memory = self.memory_of(tid);
                    self.remove_breakpoints(memory);
                }
                on_signal(stop, signal);
                resume(tid, signal);
            }
            StopReason::ProcessStopped => stop.resume_thread(),
        }
        None
    }

    /// Records a racing access, and continues its thread.
    pub fn continue_after_race(&mut self, race: RacingAccess) {
        resume(race.other.tid, 0);
        self.observation.races.push(race);
    }

    /// Forgets a thread that has ended.
    pub fn thread_ended(&mut self, tid: i32) {
        self.threads.remove(&tid);
        self.early.remove(&tid);
        self.processes.remove(&tid);
        self.loaders.remove(&tid);
        for hold in &mut self.holds {
            if hold
                .held_thread
                .as_ref()
                .is_some_and(|held_thread| held_thread.tid == tid)
            {
                hold.held_thread = None;
            }
        }
    }

    /// Forgets what was known about the program that a process replaced. Its other threads have ended, and the thread that
    /// executed has the id of the first one.
    fn program_executed(&mut self, pid: i32) {
        self.processes.remove(&pid);
        self.loaders.remove(&pid);
        self.threads
            .retain(|tid, thread| *tid == pid || thread.pid != pid);
        if let Some(thread) = self.threads.get_mut(&pid) {
            thread.memory = pid;
            thread.activity = ThreadActivity::Running;
            thread.arrived_at = None;
            thread.wanted_watch = None;
            thread.watch = None;
        }
        for hold in &mut self.holds {
            if hold
                .held_thread
                .as_ref()
                .is_some_and(|held_thread| held_thread.pid == pid)
            {
                hold.held_thread = None;
            }
        }
        if gains_privileges(pid) {
            self.refuse(GAINS_PRIVILEGES.to_owned());
        }
        // The new program may race with other processes, although it has one thread.
        if self.created > 1 {
            self.begin_process(pid);
        }
    }

    /// Looks at the other threads, and releases a held thread if its hold is over.
    pub fn look(&mut self) {
        let now = Instant::now();
        let mut others_are_blocked = None;
        for index in 0..self.holds.len() {
            let Some(held_thread) = &self.holds[index].held_thread else {
                continue;
            };
            let Hold { end, limit, .. } = self.plan.holds()[index];
            let is_over = match end {
                _ if now.duration_since(held_thread.held_since) >= limit => true,
                HoldEnd::Time => false,
                HoldEnd::OthersBlocked | HoldEnd::OthersProgressed(_) => {
                    now.duration_since(held_thread.last_look) >= LOOK_INTERVAL && {
                        let blocked =
                            *others_are_blocked.get_or_insert_with(|| self.others_are_blocked());
                        self.note_look(index, now, blocked)
                    }
                }
            };
            if is_over {
                self.release(index);
                // The released thread runs: the others are looked at anew.
                for other_thread in self
                    .holds
                    .iter_mut()
                    .filter_map(|hold| hold.held_thread.as_mut())
                {
                    other_thread.blocked_looks = 0;
                }
                return;
            }
        }
    }

    /// Releases all held threads, and restores the memory of all processes.
    pub fn end(&mut self) {
        for index in 0..self.holds.len() {
            self.release(index);
        }
        for process in self.processes.values_mut() {
            process.remove_all();
        }
    }

    /// Records a look at the other threads; returns whether they have been blocked for long enough.
    fn note_look(&mut self, index: usize, now: Instant, blocked: bool) -> bool {
        let Some(held_thread) = &mut self.holds[index].held_thread else {
            return false;
        };
        held_thread.last_look = now;
        held_thread.blocked_looks = if blocked {
            held_thread.blocked_looks + 1
        } else {
            0
        };
        held_thread.blocked_looks >= LOOKS
    }

    fn release(&mut self, index: usize) {
        let Some(held_thread) = self.holds[index].held_thread.take() else {
            return;
        };
        self.holds[index].watched = None;
        self.held_for += held_thread.held_since.elapsed();
        if let Some(thread) = self.threads.get_mut(&held_thread.tid) {
            thread.activity = ThreadActivity::Running;
        }
        resume(held_thread.tid, 0);
    }

    /// Returns whether the time for all holds is not used up.
    fn has_time(&self) -> bool {
        match self.plan {
            HoldPlan::Learn(_) => false,
            HoldPlan::Hold { total_limit, .. } => self.held_for < total_limit,
        }
    }

    /// Returns whether a thread may be held at an arrival.
    fn may_hold(&self, index: usize) -> bool {
        let progress = &self.holds[index];
        let occurrence = self.plan.holds()[index].occurrence;
        self.has_time() && progress.held_thread.is_none() && occurrence.includes(progress.arrivals)
    }

    /// Returns whether no thread that is not held can run, now or soon.
    fn others_are_blocked(&self) -> bool {
        let threads = self.threads.iter();
        let mut others = threads.filter(|(_, thread)| thread.activity != ThreadActivity::Held);
        // A stop that is not handled yet counts as running.
        others.all(|(tid, _)| match thread_state(*tid) {
            Some('R' | 't' | 'D') => false,
            Some('S') => longest_wait(*tid).is_none_or(|wait| wait > SHORT_WAIT),
            _ => true,
        })
    }

    fn pid_of(&self, tid: i32) -> i32 {
        self.threads.get(&tid).map_or(tid, |thread| thread.pid)
    }

    /// Returns the process whose memory a thread uses.
    fn memory_of(&self, tid: i32) -> i32 {
        self.threads.get(&tid).map_or(tid, |thread| thread.memory)
    }

    /// Returns a thread, which may be new.
    fn thread_mut(&mut self, tid: i32, pid: i32) -> &mut TracedThread {
        let processes = u32::try_from(self.process_numbers.len()).unwrap_or(u32::MAX);
        self.process_numbers.entry(pid).or_insert(processes);
        let created = &mut self.created;
        self.threads.entry(tid).or_insert_with(|| {
            *created += 1;
            TracedThread {
                pid,
                memory: pid,
                number: *created - 1,
                activity: ThreadActivity::Running,
                is_attached: false,
                arrived_at: None,
                wanted_watch: None,
                watch: None,
            }
        })
    }

    fn thread_created(&mut self, creator: i32, creation: Creation) {
        let _ = tracee::follow_more(creator);
        let (pid, memory) = (self.pid_of(creator), self.memory_of(creator));
        self.begin_process(memory);
        let new_pid = if creation.own_memory || creation.creator_waits {
            creation.tid
        } else {
            process_of(creation.tid).unwrap_or(pid)
        };
        self.thread_mut(creation.tid, new_pid);
        if creation.own_memory {
            self.copy_process(memory, creation.tid);
            if let Some(loader) = self.loaders.get(&pid).cloned() {
                self.loaders.insert(creation.tid, loader);
            }
        } else {
            self.thread_mut(creation.tid, new_pid).memory = memory;
        }
        self.learn_event(creator, &HoldPoint::Start(CreationSide::Creator));
        if self.early.remove(&creation.tid) {
            self.thread_attached(creation.tid);
        }
        if !self.hold_at(creator, &HoldPoint::Start(CreationSide::Creator)) {
            resume(creator, 0);
        }
    }

    fn thread_attached(&mut self, tid: i32) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            self.early.insert(tid);
            return;
        };
        // Later stops of this kind answer a request to stop.
        let is_new = !std::mem::replace(&mut thread.is_attached, true);
        if is_new {
            self.watch_new_thread(tid);
            self.learn_event(tid, &HoldPoint::Start(CreationSide::Created));
        }
        let _ = tracee::follow_more(tid);
        if !(is_new && self.hold_at(tid, &HoldPoint::Start(CreationSide::Created))) {
            resume(tid, 0);
        }
    }

    fn call_begins(&mut self, tid: i32) {
        let Ok(call) = tracee::system_call(tid) else {
            return resume(tid, 0);
        };
        if is_creation(call) {
            let _ = tracee::keep_creation_traced(tid, call);
            return resume(tid, 0);
        }
        if call == PTRACE {
            self.refuse(TRACES_ITSELF.to_owned());
            return resume(tid, 0);
        }
        let pid = self.pid_of(tid);
        // The only thread of a trial cannot race.
        if self.created < 2 || self.is_in_loader(tid, pid) {
            return resume(tid, 0);
        }
        self.count_progress(pid);
        let process = self.process_numbers.get(&pid).copied().unwrap_or(u32::MAX);
        let point = HoldPoint::Call { process, call };
        self.learn_event(tid, &point);
        if !self.hold_at(tid, &point) {
            resume(tid, 0);
        }
    }

    /// Counts a system call of a process, and releases the threads of other processes that waited for it. They continue
    /// before the call is made, so that a window between two calls of this process is open.
    fn count_progress(&mut self, pid: i32) {
        for index in 0..self.holds.len() {
            let Some(held_thread) = &mut self.holds[index].held_thread else {
                continue;
            };
            held_thread.progress += u32::from(held_thread.pid != pid);
            let has_progressed = matches!(
                self.plan.holds()[index].end,
                HoldEnd::OthersProgressed(calls) if held_thread.progress >= calls
            );
            if has_progressed {
                self.release(index);
            }
        }
    }

    /// Returns whether a thread runs the dynamic loader, which loads libraries before `main` or later.
    fn is_in_loader(&mut self, tid: i32, pid: i32) -> bool {
        let loader = self.loaders.entry(pid);
        let loader = loader.or_insert_with(|| find_loader_code(pid));
        loader.as_ref().is_some_and(|code| {
            tracee::instruction_pointer(tid).is_ok_and(|address| code.contains(&address))
        })
    }

    /// Puts back the breakpoint that a thread stepped over.
    fn end_step(&mut self, tid: i32, reason: StopReason) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let ThreadActivity::Stepping(address) = thread.activity else {
            return;
        };
        thread.activity = ThreadActivity::Running;
        // Any stop can end a step: then the thread arrives at the same breakpoint again.
        let has_run = reason == StopReason::Stepped
            || tracee::instruction_pointer(tid).is_ok_and(|pointer| pointer != address);
        thread.arrived_at = (!has_run).then_some(address);
        if let Some(process) = self.processes.get(&thread.memory) {
            process.rearm_breakpoint(address);
        }
    }

    fn breakpoint_hit(&mut self, tid: i32) {
        let memory = self.memory_of(tid);
        let Ok(address) = tracee::instruction_pointer(tid).map(|pointer| pointer - 1) else {
            return resume(tid, 0);
        };
        let process = self.processes.get(&memory);
        let Some(point) = process.and_then(|process| process.point_at(address)) else {
            return pass_unknown_breakpoint(tid, memory, address);
        };
        let _ = tracee::set_instruction_pointer(tid, address);
        if point == LOAD_EVENT {
            self.files_were_loaded(memory);
            return self.step_over(tid, address);
        }
        match self.plan {
            HoldPlan::Learn(_) => {
                let thread = self.number_of(tid);
                let learned = self.learnable[point].clone();
                self.observation
                    .learned
                    .push(LearnedPoint { thread, ..learned });
                self.remove_everywhere(address);
                resume(tid, 0);
            }
            HoldPlan::Hold { .. } => self.arrive_at(tid, address, point),
        }
    }

    /// Holds a thread before an instruction, or lets it run the instruction.
    fn arrive_at(&mut self, tid: i32, address: u64, index: usize) {
        let Hold {
            occurrence,
            watches,
            ..
        } = self.plan.holds()[index];
        let thread = self.threads.get_mut(&tid);
        let arrives_again = thread.and_then(|thread| thread.arrived_at.take()) == Some(address);
        let progress = &mut self.holds[index];
        progress.arrivals += u32::from(!arrives_again);
        if occurrence.is_over(progress.arrivals) || !self.has_time() {
            self.remove_everywhere(address);
        }
        let is_held = !arrives_again && self.may_hold(index);
        if !is_held {
            return self.step_over(tid, address);
        }
        if watches {
            self.watch_others(index, tid, address);
        }
        // With a later arrival in view, the breakpoint stays: the thread steps over it when it is released.
        self.keep_held(index, tid);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.arrived_at = Some(address);
        }
    }

    fn step_over(&mut self, tid: i32, address: u64) {
        let process = self.processes.get(&self.memory_of(tid));
        if process.is_none_or(|process| process.point_at(address).is_none()) {
            return resume(tid, 0);
        }
        if let Some(process) = process {
            process.disarm_breakpoint(address);
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.activity = ThreadActivity::Stepping(address);
        }
        let _ = tracee::step_thread(tid);
    }

    /// Holds a thread at a point that is not in the code, if the plan says so.
    fn hold_at(&mut self, tid: i32, point: &HoldPoint) -> bool {
        for index in 0..self.holds.len() {
            if self.plan.holds()[index].point != *point {
                continue;
            }
            self.holds[index].arrivals += 1;
            if self.may_hold(index) {
                self.keep_held(index, tid);
                return true;
            }
        }
        false
    }

    fn keep_held(&mut self, index: usize, tid: i32) {
        let pid = self.pid_of(tid);
        let now = Instant::now();
        let progress = &mut self.holds[index];
        progress.times += 1;
        progress.held_thread = Some(HeldThread {
            tid,
            pid,
            held_since: now,
            last_look: now,
            blocked_looks: 0,
            progress: 0,
        });
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.activity = ThreadActivity::Held;
        }
    }

    /// Asks the other threads of a process to stop, so that their accesses to the memory that a held thread is about to
    /// access can be watched.
    fn watch_others(&mut self, hold: usize, held_tid: i32, address: u64) {
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
    fn watch_new_thread(&mut self, tid: i32) {
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

    fn set_wanted_watch(&mut self, tid: i32) {
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
    fn watched_access(&mut self, tid: i32) -> Option<RacingAccess> {
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
            },
            other: AccessingThread {
                thread: self.number_of(tid),
                tid,
                point: accessing.map(|(point, _)| point),
                // If only writes are watched, this is one.
                writes: access.writes_only || writes == Some(true),
                stack: Vec::new(),
            },
            memory: access.address,
            size: access.size,
            core: None,
        })
    }

    /// Sets the breakpoints of a process when it creates its first thread or process.
    fn begin_process(&mut self, pid: i32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        let Ok(mut process) = TracedProcess::open(pid) else {
            return;
        };
        let mut breakpoints = self.wanted_breakpoints(pid);
        if self.has_code_points() {
            let load_event = find_load_event(pid, &mut self.files);
            breakpoints.extend(load_event.map(|address| (address, LOAD_EVENT)));
        }
        let _ = process.set_breakpoints(breakpoints);
        self.processes.insert(pid, process);
    }

    /// Sets the breakpoints in files that a process has loaded, and forgets those in files that it has unloaded.
    fn files_were_loaded(&mut self, pid: i32) {
        let breakpoints = self.wanted_breakpoints(pid);
        let mappings = read_mappings(pid);
        if let (Some(process), Ok(mappings)) = (self.processes.get_mut(&pid), mappings) {
            process.forget_unmapped(&mappings);
            let _ = process.set_breakpoints(breakpoints);
        }
    }

    /// Returns whether the plan has points in the code.
    fn has_code_points(&self) -> bool {
        match &self.plan {
            HoldPlan::Learn(_) => true,
            HoldPlan::Hold { holds, .. } => holds.iter().any(|hold| hold.point.as_code().is_some()),
        }
    }

    /// Adds a process that was copied from another one, with or without its breakpoints.
    fn copy_process(&mut self, parent: i32, pid: i32) {
        let original = self.processes.get(&parent);
        if let Some(copy) = original.and_then(|process| process.copy_to(pid).ok()) {
            copy.rearm_all();
            self.processes.insert(pid, copy);
        }
    }

    /// Returns the addresses of the open points in a process, each with the index of its point.
    fn wanted_breakpoints(&mut self, pid: i32) -> Vec<(u64, usize)> {
        match &self.plan {
            HoldPlan::Learn(scope) => {
                let scope = scope.clone();
                let in_scope = |path: &Path| is_in_scope(&scope, path);
                let mapped = MappedCode::of_process(pid, &mut self.files, in_scope);
                let known_addresses = match &scope {
                    CodeScope::Own | CodeScope::Named(_) => None,
                    CodeScope::Around(holds) => Some(mapped.addresses_of_holds(holds)),
                };
                self.learnable_breakpoints(&mapped, known_addresses.as_deref())
            }
            HoldPlan::Hold {
                holds, evidence, ..
            } => {
                let evidence = *evidence;
                let is_wanted = |path: &Path| holds.iter().any(|hold| may_have_point(hold, path));
                let mapped = MappedCode::of_process(pid, &mut self.files, is_wanted);
                if evidence && self.observation.anchors.is_empty() {
                    let anchor_of = |hold: &Hold| mapped.anchor_of(hold.point.as_code()?);
                    self.observation.anchors = holds.iter().map(anchor_of).collect();
                }
                let holds = holds.iter().enumerate().zip(&self.holds);
                holds
                    .filter(|((_, hold), progress)| !hold.occurrence.is_over(progress.arrivals))
                    .filter_map(|((index, hold), _)| {
                        let point = hold.point.as_code()?;
                        let address = mapped.address_of_hold(point, hold.anchor.as_ref())?;
                        Some((address, index))
                    })
                    .collect()
            }
        }
    }

    /// Returns the points of a process that can be learned. If addresses are given, only their functions have points. In
    /// large code, only the entries of functions are points.
    fn learnable_breakpoints(
        &mut self,
        mapped: &MappedCode,
        known_addresses: Option<&[u64]>,
    ) -> Vec<(u64, usize)> {
        let mut breakpoints = Vec::new();
        let entries_only = known_addresses.is_none() && mapped.code_size() > MAX_CODE;
        self.observation.entries_only |= entries_only;
        for (file, bias) in mapped.files() {
            let is_wanted = |range: &Range<u64>| {
                let has = |address: &u64| range.contains(&address.wrapping_sub(bias));
                known_addresses.is_none_or(|addresses| addresses.iter().any(has))
            };
            let functions = file.functions().iter();
            for function in functions.filter(|function| is_wanted(&function.range)) {
                let entry = [function.entry()];
                let instructions = if entries_only {
                    &entry
                } else {
                    file.instructions_of(function)
                };
                for instruction in instructions {
                    let point = CodePoint {
                        object: file.path().as_os_str().into(),
                        address: instruction.address,
                    };
                    let index = *self.known_points.entry(point.clone()).or_insert_with(|| {
                        self.learnable.push(LearnedPoint {
                            point: HoldPoint::Code(point),
                            thread: 0,
                            function: function.range.start,
                            accesses_memory: instruction.accesses_memory,
                            name: None,
                            line: None,
                            is_library: false,
                        });
                        self.learnable.len() - 1
                    });
                    breakpoints.push((bias.wrapping_add(instruction.address), index));
                }
            }
        }
        breakpoints
    }

    /// Records a point that is not in the code, when it is reached for the first time.
    fn learn_event(&mut self, tid: i32, point: &HoldPoint) {
        let HoldPlan::Learn(scope) = &self.plan else {
            return;
        };
        if !scope.includes_kind(point) || self.known_events.contains(point) {
            return;
        }
        self.known_events.insert(point.clone());
        self.observation.learned.push(LearnedPoint {
            point: point.clone(),
            thread: self.number_of(tid),
            function: 0,
            accesses_memory: false,
            name: None,
            line: None,
            is_library: false,
        });
    }

    fn number_of(&self, tid: i32) -> u32 {
        self.threads.get(&tid).map_or(0, |thread| thread.number)
    }

    fn remove_everywhere(&mut self, address: u64) {
        for process in self.processes.values_mut() {
            process.remove_breakpoint(address);
        }
    }

    fn remove_breakpoints(&mut self, pid: i32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.remove_all();
        }
    }
}

/// Returns the system calls that the programs of a trial with this plan must be started with, so that its points are seen.
/// Others do not stop the programs.
pub fn traced_calls(plan: &HoldPlan) -> Vec<u64> {
    let is_progress = |hold: &Hold| matches!(hold.end, HoldEnd::OthersProgressed(_));
    if matches!(plan, HoldPlan::Learn(_)) {
        return TRACED_CALLS.into_iter().chain([PTRACE]).collect();
    }
    if plan.holds().iter().any(is_progress) {
        return TRACED_CALLS.to_vec();
    }
    let calls = plan.holds().iter().filter_map(|hold| match hold.point {
        HoldPoint::Call { call, .. } => Some(call),
        // A new process has a copy of the breakpoints, so it must not start without the tracer.
        HoldPoint::Code(_) => Some(CLONE3),
        HoldPoint::Start(_) | HoldPoint::Line { .. } => None,
    });
    calls.collect::<BTreeSet<u64>>().into_iter().collect()
}

/// Continues a thread that ran a breakpoint which was removed meanwhile, or one of the program itself.
fn pass_unknown_breakpoint(tid: i32, pid: i32, address: u64) {
    let process = TracedProcess::open(pid);
    if process.is_ok_and(|process| process.has_breakpoint_byte(address)) {
        resume(tid, SIGTRAP);
    } else {
        let _ = tracee::set_instruction_pointer(tid, address);
        resume(tid, 0);
    }
}

fn resume(tid: i32, signal: i32) {
    // The thread may have been killed meanwhile.
    let _ = tracee::continue_thread(tid, signal);
}

/// Returns whether the program of a process would have the privileges of another user if it were not traced.
fn gains_privileges(pid: i32) -> bool {
    let program = fs::metadata(format!("/proc/{pid}/exe"));
    let is_root = rustix::process::geteuid().is_root();
    !is_root && program.is_ok_and(|program| program.mode() & SET_USER_ID != 0)
}

/// Returns the state of a thread: `R` if it can run, `S` if it waits.
fn thread_state(tid: i32) -> Option<char> {
    let stat = fs::read(format!("/proc/{tid}/stat")).ok()?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(name_end + 2).map(|byte| char::from(*byte))
}
