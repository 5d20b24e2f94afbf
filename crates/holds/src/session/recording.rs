//! Records the points that the threads of a trial reach, in the order of time.
//!
//! A program has breakpoints from its first instruction on, unlike one whose threads are held. While the trial has a single
//! thread, only the first arrival at a point is recorded, because later ones cannot race. When there is a second
//! thread, the points that were reached before are set again.

use super::{HoldSession, executable_of, resume};
use crate::call_result::PendingCall;
use crate::code::{CodeFile, CodeFunction};
use crate::process::MappedCode;
use crate::scope::is_in_scope;
use provoke_model::{
    BlockKind, CodePoint, HoldPlan, MAX_EVENTS, MAX_PLACES, PathDetail, PathEvent, PathPlace,
    PathPlan, ThreadEnd, TrialPath,
};
use provoke_sys::threads::has_in_signal_set;
use provoke_sys::tracee::{self, GeneralRegisters};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

/// Points of a trial from which on only the entries of functions are points: each costs time and memory.
const MAX_POINTS: usize = 200_000;
/// Part of a stack that is searched for return addresses.
const MAX_STACK: usize = 64 << 10;
/// Bytes of a stack that are read at once.
const PAGE: u64 = 4096;
/// Number of the stack pointer in machine code.
const STACK_POINTER: usize = 4;
/// Limit of the threads whose end is recorded.
const MAX_ENDS: usize = 4096;
/// Limit of the calls on a stack that are recorded.
const MAX_ACTIVE: usize = 64;

const SIGSTOP: i32 = 19;
/// Signals that have no effect by default: SIGCHLD, SIGCONT, SIGURG and SIGWINCH.
const WITHOUT_EFFECT: [i32; 4] = [17, 18, 23, 28];

/// The path of a trial so far.
#[derive(Debug)]
pub(super) struct PathRecorder {
    plan: PathPlan,
    files: Vec<RecordedFile>,
    /// The points in the code of all files. A breakpoint has the index of its point.
    points: Vec<RecordedPoint>,
    /// The files that each process has mapped: their indices, with the differences between addresses in memory and in the
    /// file.
    mapped: BTreeMap<i32, Vec<(usize, u64)>>,
    /// Places that are not in the code.
    events: BTreeMap<PathPlace, u32>,
    path: TrialPath,
    /// Whether the trial has had a second thread.
    has_company: bool,
    /// Whether the trial is over, and its processes are about to be killed.
    is_over: bool,
    /// Whether only the entries of functions of some files are points.
    entries_only: bool,
}

#[derive(Debug)]
struct RecordedFile {
    file: Rc<CodeFile>,
    /// Index of its first point. Its points are in the order of their addresses.
    first_point: usize,
    points: usize,
    /// Its index in the path, if a point of it was reached.
    index: Option<u32>,
}

#[derive(Debug)]
struct RecordedPoint {
    address: u64,
    kind: BlockKind,
    /// Index of its file.
    file: usize,
    /// Recorded arrivals since the trial has a second thread.
    arrivals: u32,
    /// Its index in the path, if it was reached.
    place: Option<u32>,
}

impl PathRecorder {
    pub(super) fn of_plan(plan: &HoldPlan) -> Option<Self> {
        let HoldPlan::Record(plan) = plan else {
            return None;
        };
        Some(Self {
            plan: plan.clone(),
            files: Vec::new(),
            points: Vec::new(),
            mapped: BTreeMap::new(),
            events: BTreeMap::new(),
            path: TrialPath::default(),
            has_company: false,
            is_over: false,
            entries_only: false,
        })
    }

    /// Returns the path, and whether only the entries of functions were points.
    pub(super) fn finish(self) -> (TrialPath, bool) {
        (self.path, self.entries_only)
    }

    /// Notes that a process has the memory of another one.
    pub(super) fn copy_process(&mut self, parent: i32, pid: i32) {
        if let Some(files) = self.mapped.get(&parent).cloned() {
            self.mapped.insert(pid, files);
        }
    }

    pub(super) fn process_ended(&mut self, pid: i32) {
        self.mapped.remove(&pid);
    }

    /// Notes the files of a process; returns the addresses of the open points of those that were not noted before.
    fn note_files(&mut self, pid: i32, mapped: &MappedCode) -> Vec<(u64, usize)> {
        let files: Vec<(usize, u64)> = mapped
            .shared_files()
            .map(|(file, bias)| (self.index_of_file(file), bias))
            .collect();
        let known_files = self.mapped.insert(pid, files.clone()).unwrap_or_default();
        let new_files = files.iter().filter(|file| !known_files.contains(file));
        let open_points = new_files.flat_map(|(file, bias)| {
            let RecordedFile {
                first_point,
                points,
                ..
            } = self.files[*file];
            (first_point..first_point + points)
                .filter(|index| self.is_open(&self.points[*index]))
                .map(|index| (bias.wrapping_add(self.points[index].address), index))
        });
        open_points.collect()
    }

    /// Returns whether further arrivals at a point are recorded.
    fn is_open(&self, point: &RecordedPoint) -> bool {
        if self.has_company {
            point.arrivals < self.plan.arrivals
        } else {
            point.place.is_none()
        }
    }

    /// Returns the index of a file, whose points are added when it is mapped for the first time.
    fn index_of_file(&mut self, file: &Rc<CodeFile>) -> usize {
        let known_file = |known: &RecordedFile| Rc::ptr_eq(&known.file, file);
        if let Some(index) = self.files.iter().position(known_file) {
            return index;
        }
        let first_point = self.points.len();
        let index = self.files.len();
        let mut detail = self.plan.detail;
        if detail == PathDetail::Blocks && first_point + file.block_starts().len() > MAX_POINTS {
            self.entries_only = true;
            detail = PathDetail::Functions;
        }
        match detail {
            PathDetail::None => {}
            PathDetail::Functions => {
                let starts = self.entries_and_chosen_blocks(file);
                self.add_points(file, starts.into_iter());
            }
            PathDetail::Blocks => self.add_points(file, file.block_starts().iter().copied()),
        }
        self.files.push(RecordedFile {
            file: Rc::clone(file),
            first_point,
            points: self.points.len() - first_point,
            index: None,
        });
        index
    }

    /// Returns the entries of all functions of a file, and the blocks of the functions that the plan names.
    fn entries_and_chosen_blocks(&self, file: &CodeFile) -> Vec<(u64, BlockKind)> {
        let of_file = |point: &&CodePoint| point.object.as_os_str() == file.path().as_os_str();
        let chosen = self.plan.inside.iter().filter(of_file);
        let chosen: BTreeSet<u64> = chosen.map(|point| point.address).collect();
        let mut starts = Vec::new();
        for function in file.functions() {
            if chosen.contains(&function.range.start) {
                starts.extend_from_slice(&file.blocks_of(function).starts);
            } else {
                starts.push((function.range.start, BlockKind::Function));
            }
        }
        // Functions may overlap.
        starts.sort_by_key(|(address, _)| *address);
        starts.dedup_by_key(|(address, _)| *address);
        starts
    }

    /// Adds the points of a new file that are in the part of the plan.
    fn add_points(&mut self, file: &CodeFile, starts: impl Iterator<Item = (u64, BlockKind)>) {
        let (part, name) = (self.plan.part, file.path().as_os_str().into());
        let index = self.files.len();
        let included = starts.filter(|(address, _)| part.includes(&name, *address));
        self.points
            .extend(included.map(|(address, kind)| RecordedPoint {
                address,
                kind,
                file: index,
                arrivals: 0,
                place: None,
            }));
    }

    /// Records the arrival of a thread at a point in the code; returns whether it was the last one to record.
    fn record_arrival(&mut self, thread: u32, index: usize) -> bool {
        let Some(point) = self.place_of_point(index) else {
            return true;
        };
        self.push_event(PathEvent { thread, point });
        self.points[index].arrivals += u32::from(self.has_company);
        !self.is_open(&self.points[index])
    }

    /// Ends the record, apart from the ends of threads: what follows was not caused by the program.
    pub(super) fn end_events(&mut self) {
        self.is_over = true;
    }

    fn push_event(&mut self, event: PathEvent) {
        if self.is_over {
            return;
        }
        if self.path.events.0.len() < MAX_EVENTS {
            self.path.events.0.push(event);
        } else {
            self.path.is_cut = true;
        }
    }

    /// Returns the index in the path of a point in the code, which is added unless the path has too many places.
    fn place_of_point(&mut self, index: usize) -> Option<u32> {
        let point = &self.points[index];
        if point.place.is_some() {
            return point.place;
        }
        let (address, kind, file) = (point.address, point.kind, point.file);
        let file = self.index_in_path(file)?;
        let place = self.push_place(PathPlace::Code(file, address, kind));
        self.points[index].place = place;
        place
    }

    fn push_place(&mut self, place: PathPlace) -> Option<u32> {
        if self.path.points.len() >= MAX_PLACES {
            self.path.is_cut = true;
            return None;
        }
        self.path.points.push(place);
        u32::try_from(self.path.points.len() - 1).ok()
    }

    fn index_in_path(&mut self, file: usize) -> Option<u32> {
        let file = &mut self.files[file];
        if file.index.is_none() {
            file.index = Some(u32::try_from(self.path.files.len()).ok()?);
            self.path.files.push(file.file.path().as_os_str().into());
        }
        file.index
    }

    /// Records an event that is not in the code.
    pub(super) fn record_event(&mut self, thread: u32, place: PathPlace) {
        let known = self.events.get(&place).copied();
        let Some(point) = known.or_else(|| self.push_place(place.clone())) else {
            return;
        };
        self.events.entry(place).or_insert(point);
        self.push_event(PathEvent { thread, point });
    }

    /// Returns the addresses in a process of the points that were reached.
    fn reached_breakpoints(&self, pid: i32) -> Vec<(u64, usize)> {
        let files = self.mapped.get(&pid).into_iter().flatten();
        let points = files.flat_map(|(file, bias)| {
            let file = &self.files[*file];
            (file.first_point..file.first_point + file.points)
                .map(move |index| (bias.wrapping_add(self.points[index].address), index))
        });
        let is_reached = |(_, index): &(u64, usize)| self.points[*index].place.is_some();
        points.filter(is_reached).collect()
    }

    /// Returns the address of a point in each process that has mapped its file.
    fn addresses_of(&self, index: usize) -> impl Iterator<Item = (i32, u64)> {
        let point = &self.points[index];
        self.mapped.iter().filter_map(|(pid, files)| {
            let (_, bias) = files.iter().find(|(file, _)| *file == point.file)?;
            Some((*pid, bias.wrapping_add(point.address)))
        })
    }

    /// Returns the place behind which a thread was when it executed this instruction, or called a function there.
    fn place_before(&self, pid: i32, address: u64, is_call_end: bool) -> Option<u32> {
        let files = self.mapped.get(&pid)?;
        files.iter().find_map(|(file, bias)| {
            let recorded_file = &self.files[*file];
            let address = address.wrapping_sub(*bias);
            let function = function_around(&recorded_file.file, address, is_call_end)?;
            let points =
                recorded_file.first_point..recorded_file.first_point + recorded_file.points;
            let points = &self.points[points];
            let last = if is_call_end { address - 1 } else { address };
            let before = points.partition_point(|point| point.address <= last);
            points[..before]
                .iter()
                .rev()
                .take_while(|point| point.address >= function.range.start)
                .find_map(|point| point.place)
        })
    }
}

/// Returns the function of an instruction, or of the call that ends at the address.
fn function_around(file: &CodeFile, address: u64, is_call_end: bool) -> Option<&CodeFunction> {
    let function = file.function_before(if is_call_end { address } else { address + 1 })?;
    if is_call_end {
        let blocks = file.blocks_of(function);
        blocks.has_call_before(address).then_some(function)
    } else {
        function.range.contains(&address).then_some(function)
    }
}

impl HoldSession {
    /// Returns the breakpoints of a process whose path is recorded.
    pub(super) fn recorded_breakpoints(&mut self, pid: i32) -> Vec<(u64, usize)> {
        let recorder = self.recorder.as_mut();
        let Some(recorder) = recorder.filter(|recorder| !recorder.is_over) else {
            return Vec::new();
        };
        let program = self.programs.contains(&pid);
        let program = program.then(|| executable_of(pid)).flatten();
        let scope = &recorder.plan.scope;
        let in_scope =
            |path: &Path| is_in_scope(scope, program.as_deref(), path) && !is_loader(path);
        let mapped = MappedCode::of_process(pid, &mut self.files, in_scope);
        recorder.note_files(pid, &mapped)
    }

    /// Notes that the trial has a second thread: the points that were reached before are set again.
    pub(super) fn note_company(&mut self) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if recorder.is_over || std::mem::replace(&mut recorder.has_company, true) {
            return;
        }
        for (pid, process) in &mut self.processes {
            // The process may have ended.
            let _ = process.restore_breakpoints(recorder.reached_breakpoints(*pid));
        }
    }

    /// Records the arrival of a thread at a breakpoint, and continues it.
    pub(super) fn record_arrival(&mut self, tid: i32, address: u64, index: usize) {
        let number = self.number_of(tid);
        let thread = self.threads.get_mut(&tid);
        let arrives_again = thread.and_then(|thread| thread.arrived_at.take()) == Some(address);
        let Some(recorder) = &mut self.recorder else {
            return resume(tid, 0);
        };
        if !arrives_again && recorder.record_arrival(number, index) {
            for (pid, address) in recorder.addresses_of(index) {
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.remove_breakpoint(address);
                }
            }
            return resume(tid, 0);
        }
        self.step_over(tid, address);
    }

    /// Lets a thread make a system call, so that its result is recorded at its end.
    pub(super) fn record_call(&mut self, tid: i32) {
        let pid = self.pid_of(tid);
        let call = if self.is_in_loader(tid, pid) {
            None
        } else {
            PendingCall::of_thread(tid)
        };
        let is_recorded = call.is_some();
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.call = call;
        }
        if is_recorded {
            // The thread may have been killed.
            let _ = tracee::continue_to_call_end(tid);
        } else {
            resume(tid, 0);
        }
    }

    /// Records the result of a system call.
    pub(super) fn call_ended(&mut self, tid: i32) {
        let number = self.number_of(tid);
        let thread = self.threads.get_mut(&tid);
        if let Some(call) = thread.and_then(|thread| thread.call.take())
            && let Some(recorder) = &mut self.recorder
            && let Ok(result) = tracee::call_result(tid)
        {
            recorder.record_event(number, call.end(result));
        }
        resume(tid, 0);
    }

    /// Records a signal that is about to be delivered to a program.
    pub(super) fn record_signal(&mut self, tid: i32, signal: i32) {
        let number = self.number_of(tid);
        if let Some(recorder) = &mut self.recorder
            && signal != SIGSTOP
            && has_effect(tid, signal)
        {
            recorder.record_event(number, PathPlace::Signal(signal));
        }
    }

    /// Records what a thread does that is about to end, and continues it at once: nothing else ends this stop.
    pub(super) fn thread_ends(&mut self, tid: i32) {
        if self.threads.contains_key(&tid) {
            let end = ThreadEnd {
                thread: self.number_of(tid),
                active: self.active_places(tid),
            };
            if let Some(recorder) = &mut self.recorder
                && !end.active.is_empty()
                && recorder.path.ends.len() < MAX_ENDS
            {
                recorder.path.ends.push(end);
            }
        }
        resume(tid, 0);
    }

    /// Returns the places behind which a stopped thread is in calls that have not returned, the innermost first.
    fn active_places(&self, tid: i32) -> Vec<u32> {
        let memory = self.memory_of(tid);
        let (Some(recorder), Some(registers)) = (&self.recorder, GeneralRegisters::of_thread(tid))
        else {
            return Vec::new();
        };
        let instruction = tracee::instruction_pointer(tid).ok();
        let innermost =
            instruction.and_then(|address| recorder.place_before(memory, address, false));
        let stack = registers.numbered(STACK_POINTER).unwrap_or_default();
        let calls = self.read_stack(memory, stack);
        let callers = calls
            .iter()
            .filter_map(|word| recorder.place_before(memory, *word, true));
        innermost
            .into_iter()
            .chain(callers)
            .take(MAX_ACTIVE)
            .collect()
    }

    /// Returns the words of a stack, from an address on.
    fn read_stack(&self, memory: i32, start: u64) -> Vec<u64> {
        let Some(process) = self.processes.get(&memory) else {
            return Vec::new();
        };
        let mut words = Vec::new();
        let mut address = start & !7;
        while words.len() * 8 < MAX_STACK {
            let page_end = (address / PAGE + 1) * PAGE;
            let mut bytes = vec![0; usize::try_from(page_end - address).unwrap_or_default()];
            if process.read_bytes(address, &mut bytes).is_err() {
                break;
            }
            let (of_page, _) = bytes.as_chunks::<8>();
            words.extend(of_page.iter().map(|word| u64::from_ne_bytes(*word)));
            address = page_end;
        }
        words
    }
}

/// Returns whether a file is the dynamic loader, whose code does not belong to the program.
fn is_loader(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b"ld-")
}

/// Returns whether a process handles a signal, or ends or stops because of it.
fn has_effect(tid: i32, signal: i32) -> bool {
    let is_in = |set| has_in_signal_set(tid, set, signal);
    is_in("SigCgt:") || !(is_in("SigIgn:") || WITHOUT_EFFECT.contains(&signal))
}
