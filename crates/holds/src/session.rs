//! Holds the threads of a traced process tree, driven by their stops.
//!
//! Nothing is changed until there is a second thread or process: before, no schedule can be provoked. This file follows
//! processes and threads. `breakpoints` handles the points in the code, `holding` holds and releases threads, `races`
//! watches the memory that a held thread is about to access, and `recording` records the paths of threads instead.

mod breakpoints;
mod holding;
mod races;
mod recording;

pub use holding::LOOK_INTERVAL;

use crate::call_result::PendingCall;
use crate::code::CodeCache;
use crate::loader::find_loader_code;
use crate::process::TracedProcess;
use provoke_model::{
    CodePoint, CreationSide, Hold, HoldEnd, HoldObservation, HoldPlan, HoldPoint, LearnedPoint,
    RacingAccess,
};
use provoke_sys::call_filter::{
    CLONE3, PTRACE, TRACED_CALLS, call_name, is_creation, recorded_calls,
};
use provoke_sys::ptrace::ThreadStop;
use provoke_sys::threads::process_of;
use provoke_sys::tracee::{self, Creation, StopReason, WatchedAccess};
use recording::PathRecorder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Signals that usually end a process: its memory must be unchanged then.
const FATAL: [i32; 9] = [3, 4, 5, 6, 7, 8, 11, 24, 31];
/// Why a program that uses `ptrace` cannot be held.
const TRACES_ITSELF: &str = "it traces processes itself, and a process can have only one tracer";
/// Why a program that gains privileges cannot be held.
const GAINS_PRIVILEGES: &str =
    "it executes a set-user-ID program, which has no privileges while it is traced";

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
    /// The first processes of the trial, which run its programs.
    programs: BTreeSet<i32>,
    /// The code of the dynamic loader in each process.
    loaders: BTreeMap<i32, Option<Range<u64>>>,
    observation: HoldObservation,
    /// Total time of the holds that are over.
    held_for: Duration,
    /// The paths of the threads, if they are recorded.
    recorder: Option<PathRecorder>,
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
    /// The system call whose result will be recorded.
    call: Option<PendingCall>,
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
            recorder: PathRecorder::of_plan(&plan),
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
            programs: BTreeSet::new(),
            loaders: BTreeMap::new(),
            observation: HoldObservation::default(),
            held_for: Duration::ZERO,
        }
    }

    /// Adds a program of the trial, which is traced from its first instruction on.
    pub fn add_program(&mut self, pid: i32) {
        self.thread_mut(pid, pid).is_attached = true;
        self.programs.insert(pid);
        if self.process_numbers.len() > 1 && self.recorder.is_some() {
            self.note_company();
        } else if self.process_numbers.len() > 1 {
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
        if let Some(recorder) = self.recorder {
            let (path, entries_only) = recorder.finish();
            self.observation.path = Some(Box::new(path));
            self.observation.entries_only |= entries_only;
        }
        (self.observation, self.files)
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
        if matches!(
            reason,
            StopReason::Signal(_) | StopReason::Watchpoint(_) | StopReason::Attached
        ) {
            self.leave_moved_code(tid);
        }
        match reason {
            StopReason::Created(creation) => self.thread_created(tid, creation),
            StopReason::Attached => self.thread_attached(tid),
            StopReason::Executed => {
                self.program_executed(tid);
                resume(tid, 0);
            }
            StopReason::Breakpoint => self.breakpoint_hit(tid),
            StopReason::SystemCall => self.call_begins(tid),
            StopReason::CallEnded => self.call_ended(tid),
            StopReason::Stepped => resume(tid, 0),
            StopReason::Watchpoint(_) => return self.watched_access(tid),
            StopReason::Signal(signal) => {
                if FATAL.contains(&signal) {
                    let memory = self.memory_of(tid);
                    self.remove_breakpoints(memory);
                }
                self.record_signal(tid, signal);
                on_signal(stop, signal);
                resume(tid, signal);
            }
            StopReason::Ending => self.thread_ends(tid),
            StopReason::ProcessStopped => stop.resume_thread(),
        }
        None
    }

    /// Forgets a thread that has ended.
    pub fn thread_ended(&mut self, tid: i32) {
        self.threads.remove(&tid);
        self.early.remove(&tid);
        self.forget_program(tid);
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
        self.forget_program(pid);
        self.threads
            .retain(|tid, thread| *tid == pid || thread.pid != pid);
        if let Some(thread) = self.threads.get_mut(&pid) {
            thread.memory = pid;
            thread.activity = ThreadActivity::Running;
            thread.arrived_at = None;
            thread.wanted_watch = None;
            thread.watch = None;
            thread.call = None;
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
        let is_root = rustix::process::geteuid().is_root();
        if !is_root && tracee::has_set_user_id(Path::new(&executable_link(pid))) {
            self.refuse(GAINS_PRIVILEGES.to_owned());
        }
        // The new program may race with other processes, although it has one thread.
        if self.created > 1 || self.recorder.is_some() {
            self.begin_process(pid);
        }
    }

    fn forget_program(&mut self, pid: i32) {
        self.processes.remove(&pid);
        self.loaders.remove(&pid);
        if let Some(recorder) = &mut self.recorder {
            recorder.process_ended(pid);
        }
    }

    /// Sets the options of a stopped thread that this tracer needs.
    fn follow(&self, tid: i32) {
        // The thread may have been killed.
        let _ = match self.recorder {
            Some(_) => tracee::follow_to_end(tid),
            None => tracee::follow_more(tid),
        };
    }

    /// Releases all held threads, and restores the memory of all processes.
    pub fn end(&mut self) {
        for index in 0..self.holds.len() {
            self.release(index);
        }
        for process in self.processes.values_mut() {
            process.remove_all();
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.end_events();
        }
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
                call: None,
            }
        })
    }

    fn thread_created(&mut self, creator: i32, creation: Creation) {
        self.follow(creator);
        let (pid, memory) = (self.pid_of(creator), self.memory_of(creator));
        let is_first_creation = self.begin_process(memory);
        let new_pid = if creation.own_memory || creation.creator_waits {
            creation.tid
        } else {
            process_of(creation.tid).unwrap_or(pid)
        };
        self.thread_mut(creation.tid, new_pid);
        if creation.own_memory {
            self.copy_process(memory, creation.tid, is_first_creation);
            if let Some(loader) = self.loaders.get(&pid).cloned() {
                self.loaders.insert(creation.tid, loader);
            }
        } else {
            self.thread_mut(creation.tid, new_pid).memory = memory;
        }
        self.note_company();
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
        self.follow(tid);
        if self.recorder.is_some() {
            // The first stop of a program comes before its first instruction.
            self.begin_process(self.memory_of(tid));
        }
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
        // Another part of the tracer may have selected the call. The only thread of a trial cannot race.
        if call_name(call).is_some() && self.created > 1 && !self.is_in_loader(tid, pid) {
            self.count_progress(pid);
            let process = self.process_numbers.get(&pid).copied().unwrap_or(u32::MAX);
            let point = HoldPoint::Call { process, call };
            self.learn_event(tid, &point);
            if self.hold_at(tid, &point) {
                return;
            }
        }
        if self.recorder.is_some() {
            self.record_call(tid);
        } else {
            resume(tid, 0);
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
}

/// Returns the system calls that the programs of a trial with this plan must be started with, so that its points are seen.
/// Others do not stop the programs.
pub fn traced_calls(plan: &HoldPlan) -> Vec<u64> {
    let is_progress = |hold: &Hold| matches!(hold.end, HoldEnd::OthersProgressed(_));
    let recorded: Vec<u64> = match plan {
        HoldPlan::Learn(_) => return TRACED_CALLS.into_iter().chain([PTRACE]).collect(),
        HoldPlan::Record(_) => recorded_calls().chain([PTRACE]).collect(),
        HoldPlan::Trace(_) | HoldPlan::Hold { .. } => Vec::new(),
    };
    if recorded.is_empty() && plan.traced_holds().iter().any(is_progress) {
        return TRACED_CALLS.to_vec();
    }
    let calls = plan
        .traced_holds()
        .iter()
        .filter_map(|hold| match hold.point {
            HoldPoint::Call { call, .. } => Some(call),
            // A new process has a copy of the breakpoints, so it must not start without the tracer.
            HoldPoint::Code(_) => Some(CLONE3),
            HoldPoint::Start(_) | HoldPoint::Line { .. } => None,
        });
    let calls: BTreeSet<u64> = recorded.into_iter().chain(calls).collect();
    calls.into_iter().collect()
}

fn resume(tid: i32, signal: i32) {
    // The thread may have been killed meanwhile.
    let _ = tracee::continue_thread(tid, signal);
}

/// Returns the file that a process executes.
fn executable_of(pid: i32) -> Option<PathBuf> {
    fs::read_link(executable_link(pid)).ok()
}

fn executable_link(pid: i32) -> String {
    format!("/proc/{pid}/exe")
}
