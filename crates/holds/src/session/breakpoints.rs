//! Sets breakpoints at the points of a plan that are in the code, and handles the arrivals of threads at them.

use super::{HoldSession, ThreadActivity, executable_of, resume};
use crate::loader::find_load_event;
use crate::process::{MappedCode, TracedProcess};
use crate::scope::{is_in_scope, left_out_module, may_have_point};
use provoke_model::{CodePoint, CodeScope, Hold, HoldPlan, HoldPoint, LearnedPoint, PathDetail};
use provoke_sys::memory::read_mappings;
use provoke_sys::tracee::{self, StopReason};
use std::ops::Range;
use std::path::Path;

const SIGTRAP: i32 = 5;
/// Index of the breakpoint at which the loader reports that it has loaded files.
const LOAD_EVENT: usize = usize::MAX;
/// Index of the breakpoint of the first hold in a trial whose path is recorded.
const HOLDS: usize = usize::MAX / 2;
/// Bytes of code from which on only the entries of its functions are points: each point costs time and memory.
const MAX_CODE: u64 = 8 << 20;

impl HoldSession {
    /// Sets the breakpoints of a process when it creates its first thread or process, or when it starts if its path is
    /// recorded. Returns whether it had none before.
    pub(super) fn begin_process(&mut self, pid: i32) -> bool {
        if self.processes.contains_key(&pid) {
            return false;
        }
        let Ok(mut process) = TracedProcess::open(pid) else {
            return false;
        };
        let mut breakpoints = self.wanted_breakpoints(pid);
        if self.has_code_points() {
            let load_event = find_load_event(pid, &mut self.files);
            breakpoints.extend(load_event.map(|address| (address, LOAD_EVENT)));
        }
        let _ = process.set_breakpoints(breakpoints);
        self.processes.insert(pid, process);
        true
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
            HoldPlan::Record(plan) => plan.detail != PathDetail::None || self.holds_in_code(),
            HoldPlan::Trace(_) => false,
            HoldPlan::Hold { .. } => self.holds_in_code(),
        }
    }

    fn holds_in_code(&self) -> bool {
        let mut holds = self.plan.holds().iter();
        holds.any(|hold| hold.point.as_code().is_some())
    }

    /// Adds a process that was copied from another one, before that had breakpoints or later. Breakpoints that threads were
    /// stepping over are set in the copy.
    pub(super) fn copy_process(&mut self, parent: i32, pid: i32, was_copied_before: bool) {
        let original = self.processes.get(&parent);
        if let Some(copy) = original.and_then(|process| process.copy_to(pid).ok()) {
            if was_copied_before {
                copy.rearm_all();
            }
            let threads = self.threads.values();
            for thread in threads.filter(|thread| thread.memory == parent) {
                if let ThreadActivity::Stepping(address) = thread.activity {
                    copy.rearm_breakpoint(address);
                }
            }
            self.processes.insert(pid, copy);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.copy_process(parent, pid);
        }
    }

    /// Returns the addresses of the open points in a process, each with the index of its point.
    fn wanted_breakpoints(&mut self, pid: i32) -> Vec<(u64, usize)> {
        match &self.plan {
            HoldPlan::Learn(scope) => {
                let scope = scope.clone();
                let program = self.programs.contains(&pid);
                let program = program.then(|| executable_of(pid)).flatten();
                let in_scope = |path: &Path| is_in_scope(&scope, program.as_deref(), path);
                let mapped = MappedCode::of_process(pid, &mut self.files, in_scope);
                self.note_left_out_modules(pid, &scope);
                let known_addresses = match &scope {
                    CodeScope::Own | CodeScope::Named(_) => None,
                    CodeScope::Around(holds) => Some(mapped.addresses_of_holds(holds)),
                };
                self.learnable_breakpoints(&mapped, known_addresses.as_deref())
            }
            HoldPlan::Record(_) => {
                let held = self.hold_breakpoints(pid, false);
                let mut breakpoints = self.recorded_breakpoints(pid);
                breakpoints.retain(|(address, _)| !held.iter().any(|(held, _)| held == address));
                let held = held.into_iter();
                breakpoints.extend(held.map(|(address, index)| (address, HOLDS + index)));
                breakpoints
            }
            HoldPlan::Trace(_) => Vec::new(),
            HoldPlan::Hold { evidence, .. } => self.hold_breakpoints(pid, *evidence),
        }
    }

    /// Returns the addresses at which threads may still be held, each with the index of its hold.
    fn hold_breakpoints(&mut self, pid: i32, evidence: bool) -> Vec<(u64, usize)> {
        let holds = self.plan.holds();
        if !self.holds_in_code() {
            return Vec::new();
        }
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

    /// Notes the extension modules of a process that have no points.
    fn note_left_out_modules(&mut self, pid: i32, scope: &CodeScope) {
        let left_out = &mut self.observation.left_out;
        for mapping in read_mappings(pid).unwrap_or_default() {
            if let Some(module) = left_out_module(scope, Path::new(&mapping.name))
                && !left_out.contains(&module)
            {
                left_out.push(module);
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

    fn remove_everywhere(&mut self, address: u64) {
        for process in self.processes.values_mut() {
            process.remove_breakpoint(address);
        }
    }

    pub(super) fn remove_breakpoints(&mut self, pid: i32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.remove_all();
        }
    }

    pub(super) fn breakpoint_hit(&mut self, tid: i32) {
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
            // No other thread is here: the loader has a lock.
            return self.step_without_breakpoint(tid, address);
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
            HoldPlan::Record(_) => match point.checked_sub(HOLDS) {
                None => self.record_arrival(tid, address, point),
                Some(hold) if self.created > 1 => self.arrive_at(tid, address, hold),
                // The only thread of a trial cannot race.
                Some(_) => self.step_over(tid, address),
            },
            HoldPlan::Trace(_) => resume(tid, 0),
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

    /// Lets a thread run the instruction at a breakpoint: at another place if it can be moved, else by itself without the
    /// breakpoint, which other threads may pass meanwhile.
    pub(super) fn step_over(&mut self, tid: i32, address: u64) {
        let memory = self.memory_of(tid);
        let Some(process) = self.processes.get_mut(&memory) else {
            return resume(tid, 0);
        };
        if process.point_at(address).is_some()
            && let Some(place) = process.moved_instruction(tid, address)
        {
            let _ = tracee::set_instruction_pointer(tid, place);
            return resume(tid, 0);
        }
        self.step_without_breakpoint(tid, address);
    }

    fn step_without_breakpoint(&mut self, tid: i32, address: u64) {
        let process = self.processes.get(&self.memory_of(tid));
        let Some(process) = process.filter(|process| process.point_at(address).is_some()) else {
            return resume(tid, 0);
        };
        process.disarm_breakpoint(address);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.activity = ThreadActivity::Stepping(address);
        }
        let _ = tracee::step_thread(tid);
    }

    /// Gives a thread that runs moved code the position that it would have without it.
    pub(super) fn leave_moved_code(&mut self, tid: i32) {
        let Ok(pointer) = tracee::instruction_pointer(tid) else {
            return;
        };
        let process = self.processes.get(&self.memory_of(tid));
        let position = process.and_then(|process| process.original_position(pointer));
        let Some(position) = position else {
            return;
        };
        // The thread may have been killed.
        let _ = tracee::set_instruction_pointer(tid, position.instruction);
        let _ = tracee::pop_bytes(tid, position.pushed);
        if position.is_before
            && let Some(thread) = self.threads.get_mut(&tid)
        {
            thread.arrived_at = Some(position.instruction);
        }
    }

    /// Puts back the breakpoint that a thread stepped over.
    pub(super) fn end_step(&mut self, tid: i32, reason: StopReason) {
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
