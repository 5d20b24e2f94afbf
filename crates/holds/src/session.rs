//! Holds the threads of a traced process tree, driven by their stops.
//!
//! Nothing is changed until the program creates its first thread or process: before, no schedule can be provoked.

use crate::access::{LONGEST, accessed_memory};
use crate::code::CodeFile;
use crate::plan::{CodePoint, CreationSide, Hold, HoldEnd, HoldPlan, HoldPoint};
use crate::process::{TracedProcess, load_bias_of};
use provoke_sys::ptrace::ThreadStop;
use provoke_sys::tracee::{self, Creation, GeneralRegisters, StopReason, WatchedAccess};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Interval between two looks at the other threads.
pub const LOOK_INTERVAL: Duration = Duration::from_micros(100);
/// Number of looks in a row at which the other threads must be blocked.
const LOOKS: u32 = 2;
/// Signals that usually end a process: its memory must be unchanged then.
const FATAL: [i32; 9] = [3, 4, 5, 6, 7, 8, 11, 24, 31];
const SIGTRAP: i32 = 5;

/// A point that the program reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedPoint {
    /// Index of the point in the plan.
    pub point: usize,
    /// Number of the thread that reached it first: 0 for the first thread of the program, 1 for the next new one.
    pub thread: u32,
}

/// An access of another thread to the memory that a held thread is about to access: a data race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RacingAccess {
    /// Index of the hold.
    pub hold: usize,
    /// The held thread.
    pub held: i32,
    /// The other thread.
    pub other: i32,
    /// Address of the memory.
    pub memory: u64,
    /// Address behind the instruction of the other thread.
    pub behind: u64,
}

/// Holds threads of one trial.
#[derive(Debug)]
pub struct HoldSession<'a> {
    plan: &'a HoldPlan,
    files: &'a [CodeFile],
    processes: BTreeMap<i32, TracedProcess>,
    /// Numbers of the processes in the order of creation.
    process_numbers: BTreeMap<i32, u32>,
    threads: BTreeMap<i32, TracedThread>,
    /// New threads that stopped before their creators reported them. They stay stopped until then, because the memory
    /// of a new process may contain breakpoints.
    early: BTreeSet<i32>,
    created: u32,
    holds: Vec<HoldProgress>,
    learned: Vec<LearnedPoint>,
    /// Total time of the holds that are over.
    held_for: Duration,
}

#[derive(Debug)]
struct TracedThread {
    pid: i32,
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
    held: Option<HeldThread>,
    /// Number of threads that were held.
    times: u32,
}

#[derive(Debug)]
struct HeldThread {
    tid: i32,
    pid: i32,
    since: Instant,
    last_look: Instant,
    blocked_looks: u32,
    /// System calls of other processes since.
    progress: u32,
}

impl<'a> HoldSession<'a> {
    /// Begins a trial whose first process is traced.
    pub fn begin(plan: &'a HoldPlan, files: &'a [CodeFile], first: i32) -> Self {
        let count = match plan {
            HoldPlan::Learn(_) => 0,
            HoldPlan::Hold { holds, .. } => holds.len(),
        };
        let mut session = Self {
            plan,
            files,
            processes: BTreeMap::new(),
            process_numbers: BTreeMap::new(),
            threads: BTreeMap::new(),
            early: BTreeSet::new(),
            created: 0,
            holds: (0..count).map(|_| HoldProgress::default()).collect(),
            learned: Vec::new(),
            held_for: Duration::ZERO,
        };
        session.thread_mut(first, first).is_attached = true;
        session
    }

    /// Returns the points that were reached, in this order.
    pub fn learned_points(&self) -> &[LearnedPoint] {
        &self.learned
    }

    /// Returns, for every hold, how many threads were held.
    pub fn times_held(&self) -> Vec<u32> {
        self.holds.iter().map(|hold| hold.times).collect()
    }

    /// Returns whether a thread is held now, so that [`Self::look`] must be called after [`LOOK_INTERVAL`].
    pub fn holds_a_thread(&self) -> bool {
        self.holds.iter().any(|hold| hold.held.is_some())
    }

    /// Handles the stop of a thread. After a racing access, the thread stays stopped until
    /// [`Self::continue_after_race`].
    pub fn handle_stop(&mut self, stop: ThreadStop) -> Option<RacingAccess> {
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
                self.processes.remove(&tid);
                resume(tid, 0);
            }
            StopReason::Breakpoint => self.breakpoint_hit(tid),
            StopReason::SystemCall => self.call_begins(tid),
            StopReason::Stepped => resume(tid, 0),
            StopReason::Watchpoint(_) => return self.watched_access(tid),
            StopReason::Signal(signal) => {
                if FATAL.contains(&signal) {
                    let pid = self.pid_of(tid);
                    self.remove_breakpoints(pid);
                }
                resume(tid, signal);
            }
            StopReason::ProcessStopped => stop.resume_thread(),
        }
        None
    }

    /// Continues a thread after its racing access was recorded.
    pub fn continue_after_race(&self, access: RacingAccess) {
        resume(access.other, 0);
    }

    /// Forgets a thread that has ended.
    pub fn thread_ended(&mut self, tid: i32) {
        self.threads.remove(&tid);
        self.early.remove(&tid);
        self.processes.remove(&tid);
        for hold in &mut self.holds {
            if hold.held.as_ref().is_some_and(|held| held.tid == tid) {
                hold.held = None;
            }
        }
    }

    /// Looks at the other threads, and releases a held thread if its hold is over.
    pub fn look(&mut self) {
        let HoldPlan::Hold { holds: plan, .. } = self.plan else {
            return;
        };
        let now = Instant::now();
        let mut blocked = None;
        for (index, hold) in plan.iter().enumerate() {
            let Some(held) = &self.holds[index].held else {
                continue;
            };
            let is_over = match hold.end {
                _ if now.duration_since(held.since) >= hold.limit => true,
                HoldEnd::Time => false,
                HoldEnd::OthersProgressed(calls) if held.progress >= calls => true,
                HoldEnd::OthersBlocked | HoldEnd::OthersProgressed(_) => {
                    now.duration_since(held.last_look) >= LOOK_INTERVAL && {
                        let blocked = *blocked.get_or_insert_with(|| self.others_are_blocked());
                        self.note_look(index, now, blocked)
                    }
                }
            };
            if is_over {
                self.release(index);
                // The released thread runs: the others are looked at anew.
                for other in self.holds.iter_mut().filter_map(|hold| hold.held.as_mut()) {
                    other.blocked_looks = 0;
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
        let Some(held) = &mut self.holds[index].held else {
            return false;
        };
        held.last_look = now;
        held.blocked_looks = if blocked { held.blocked_looks + 1 } else { 0 };
        held.blocked_looks >= LOOKS
    }

    fn release(&mut self, index: usize) {
        let Some(held) = self.holds[index].held.take() else {
            return;
        };
        self.held_for += held.since.elapsed();
        if let Some(thread) = self.threads.get_mut(&held.tid) {
            thread.activity = ThreadActivity::Running;
        }
        resume(held.tid, 0);
    }

    /// Returns whether the time for all holds is not used up.
    fn has_time(&self) -> bool {
        match self.plan {
            HoldPlan::Learn(_) => false,
            HoldPlan::Hold { total_limit, .. } => self.held_for < *total_limit,
        }
    }

    /// Returns whether a thread may be held at an arrival.
    fn may_hold(&self, index: usize, hold: &Hold) -> bool {
        let progress = &self.holds[index];
        self.has_time() && progress.held.is_none() && hold.occurrence.includes(progress.arrivals)
    }

    /// Returns whether no thread that is not held can run.
    fn others_are_blocked(&self) -> bool {
        let others = self.threads.iter();
        let mut others = others.filter(|(_, thread)| thread.activity != ThreadActivity::Held);
        // A stop that is not handled yet counts as running.
        others.all(|(tid, _)| !matches!(thread_state(*tid), Some('R' | 't' | 'D')))
    }

    fn pid_of(&self, tid: i32) -> i32 {
        self.threads.get(&tid).map_or(tid, |thread| thread.pid)
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
        let pid = self.pid_of(creator);
        self.begin_process(pid);
        let new_pid = if creation.own_memory || creation.creator_waits {
            creation.tid
        } else {
            process_of(creation.tid).unwrap_or(pid)
        };
        self.thread_mut(creation.tid, new_pid);
        if creation.own_memory {
            self.copy_process(pid, creation.tid);
        }
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
        let _ = tracee::follow_more(tid);
        if !(is_new && self.hold_at(tid, &HoldPoint::Start(CreationSide::Created))) {
            resume(tid, 0);
        }
    }

    fn call_begins(&mut self, tid: i32) {
        let pid = self.pid_of(tid);
        for held in self.holds.iter_mut().filter_map(|hold| hold.held.as_mut()) {
            held.progress += u32::from(held.pid != pid);
        }
        let call = tracee::system_call(tid).unwrap_or(u64::MAX);
        let process = self.process_numbers.get(&pid).copied().unwrap_or(u32::MAX);
        if !self.hold_at(tid, &HoldPoint::Call { process, call }) {
            resume(tid, 0);
        }
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
            || tracee::instruction_pointer(tid).is_ok_and(|at| at != address);
        thread.arrived_at = (!has_run).then_some(address);
        if let Some(process) = self.processes.get(&thread.pid) {
            process.rearm_breakpoint(address);
        }
    }

    fn breakpoint_hit(&mut self, tid: i32) {
        let pid = self.pid_of(tid);
        let Ok(address) = tracee::instruction_pointer(tid).map(|behind| behind - 1) else {
            return resume(tid, 0);
        };
        let process = self.processes.get(&pid);
        let Some(point) = process.and_then(|process| process.point_at(address)) else {
            return pass_unknown_breakpoint(tid, pid, address);
        };
        let _ = tracee::set_instruction_pointer(tid, address);
        match self.plan {
            HoldPlan::Learn(_) => {
                let thread = self.threads.get(&tid).map_or(0, |thread| thread.number);
                self.learned.push(LearnedPoint { point, thread });
                self.remove_everywhere(address);
                resume(tid, 0);
            }
            HoldPlan::Hold { holds, .. } => {
                self.arrive_at(tid, pid, address, (point, &holds[point]));
            }
        }
    }

    /// Holds a thread before an instruction, or lets it run the instruction.
    fn arrive_at(&mut self, tid: i32, pid: i32, address: u64, (index, hold): (usize, &Hold)) {
        let thread = self.threads.get_mut(&tid);
        let arrives_again = thread.and_then(|thread| thread.arrived_at.take()) == Some(address);
        let progress = &mut self.holds[index];
        progress.arrivals += u32::from(!arrives_again);
        if hold.occurrence.is_over(progress.arrivals) || !self.has_time() {
            self.remove_everywhere(address);
        }
        let is_held = !arrives_again && self.may_hold(index, hold);
        if !is_held {
            return self.step_over(tid, pid, address);
        }
        if hold.watches {
            self.watch_others(index, tid, pid, address);
        }
        // With a later arrival in view, the breakpoint stays: the thread steps over it when it is released.
        self.keep_held(index, tid, pid);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.arrived_at = Some(address);
        }
    }

    fn step_over(&mut self, tid: i32, pid: i32, address: u64) {
        let process = self.processes.get(&pid);
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
        let HoldPlan::Hold { holds, .. } = self.plan else {
            return false;
        };
        let pid = self.pid_of(tid);
        for (index, hold) in holds.iter().enumerate() {
            if hold.point != *point {
                continue;
            }
            self.holds[index].arrivals += 1;
            if self.may_hold(index, hold) {
                self.keep_held(index, tid, pid);
                return true;
            }
        }
        false
    }

    fn keep_held(&mut self, index: usize, tid: i32, pid: i32) {
        let now = Instant::now();
        let progress = &mut self.holds[index];
        progress.times += 1;
        progress.held = Some(HeldThread {
            tid,
            pid,
            since: now,
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
    fn watch_others(&mut self, hold: usize, held: i32, pid: i32, address: u64) {
        let mut code = [0; LONGEST];
        let process = self.processes.get(&pid);
        let is_read = process.is_some_and(|process| process.read_code(address, &mut code).is_ok());
        let registers = GeneralRegisters::of_thread(held);
        let access = registers
            .filter(|_| is_read)
            .and_then(|registers| accessed_memory(&code, address, &registers));
        let Some(access) = access else {
            return;
        };
        let others = self.threads.iter_mut();
        for (tid, thread) in others.filter(|(tid, thread)| **tid != held && thread.pid == pid) {
            thread.wanted_watch = Some((hold, access));
            if thread.activity != ThreadActivity::Held {
                let _ = tracee::interrupt_thread(*tid);
            }
        }
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
        let watch = self
            .threads
            .get_mut(&tid)
            .and_then(|thread| thread.watch.take());
        let _ = tracee::watch(tid, None);
        let race = watch.and_then(|(hold, access)| {
            let held = self.holds[hold].held.as_ref()?;
            Some(RacingAccess {
                hold,
                held: held.tid,
                other: tid,
                memory: access.address,
                behind: tracee::instruction_pointer(tid).ok()?,
            })
        });
        if race.is_none() {
            resume(tid, 0);
        }
        race
    }

    /// Sets the breakpoints of a process when it creates its first thread or process.
    fn begin_process(&mut self, pid: i32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        let Ok(mut process) = TracedProcess::open(pid) else {
            return;
        };
        let _ = process.set_breakpoints(self.wanted_breakpoints(pid));
        self.processes.insert(pid, process);
    }

    /// Adds a process that was copied from another one, with or without its breakpoints.
    fn copy_process(&mut self, from: i32, pid: i32) {
        let original = self.processes.get(&from);
        if let Some(copy) = original.and_then(|process| process.copy_to(pid).ok()) {
            copy.rearm_all();
            self.processes.insert(pid, copy);
        }
    }

    /// Returns the addresses of the open points in a process.
    fn wanted_breakpoints(&self, pid: i32) -> Vec<(u64, usize)> {
        let mut biases: BTreeMap<PathBuf, Option<u64>> = BTreeMap::new();
        let mut address_of = |point: &CodePoint| {
            let bias = biases.entry(point.object.clone()).or_insert_with(|| {
                let file = self.files.iter().find(|file| file.path() == point.object)?;
                load_bias_of(pid, file)
            });
            Some((*bias)?.wrapping_add(point.address))
        };
        match self.plan {
            HoldPlan::Learn(points) => {
                let points = points.iter().enumerate();
                points
                    .filter_map(|(index, point)| Some((address_of(point)?, index)))
                    .collect()
            }
            HoldPlan::Hold { holds, .. } => {
                let holds = holds.iter().enumerate().zip(&self.holds);
                holds
                    .filter(|((_, hold), progress)| !hold.occurrence.is_over(progress.arrivals))
                    .filter_map(|((index, hold), _)| match &hold.point {
                        HoldPoint::Code(point) => Some((address_of(point)?, index)),
                        HoldPoint::Call { .. } | HoldPoint::Start(_) => None,
                    })
                    .collect()
            }
        }
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

/// Returns the state of a thread: `R` if it can run, `S` if it waits.
fn thread_state(tid: i32) -> Option<char> {
    let stat = fs::read(format!("/proc/{tid}/stat")).ok()?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(name_end + 2).map(|byte| char::from(*byte))
}

/// Returns the process of a thread.
fn process_of(tid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}
