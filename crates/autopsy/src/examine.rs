//! Combines all findings of a core into one analysis.

use super::abort;
use super::address_space::{AddressSpace, core_mappings};
use super::dump::{Dump, Segment};
use super::fault;
use super::fault_context::{FaultContext, Registers};
use super::file_cache::{self, FileCache};
use super::modules::LoadedModules;
use super::notes::{ParsedNotes, ThreadNote};
use super::original_fault::{OriginalState, find_origin};
use super::phase::phase_of_stack;
use super::recursion::collapse_repeats;
use super::unwind::{AddressStack, CodeAddress, DEEPEST, Unwinder};
use super::{ExaminerSettings, modules};
use provoke_model::{Autopsy, Crash, Fault, Frame, Module, ProcessPhase, Thread};
use provoke_sys::python::{self, PythonCall};
use provoke_words as words;
use std::path::Path;

/// Function of executable memory outside of any file.
const GENERATED: &str = "(generated code)";
/// Frames in the short form of a crash.
const MAX_CRASH_FRAMES: usize = 40;
/// Frames that are listed of one thread, after recursion has been collapsed.
const MAX_LISTED: usize = 500;
/// Frames that are listed of all threads together.
const MAX_FRAMES: usize = 64_000;
/// Outermost calls that determine the phase of a very deep stack.
const OUTERMOST: usize = 50;
/// Calls that are unwound in all stacks together.
const MAX_FOLLOWED: usize = 2_000_000;

/// Adds the analysis of the crash to an autopsy that contains only the owner.
pub(super) fn examine_crash(
    autopsy: &mut Autopsy,
    dump: &Dump,
    notes: &ParsedNotes,
    settings: &ExaminerSettings,
    file_cache: &mut FileCache,
) {
    let modules = LoadedModules::of_core(notes, dump, file_cache, settings, &mut autopsy.gaps);
    let Some(first) = notes.threads.first() else {
        autopsy.gaps.push("the core contains no threads".to_owned());
        return;
    };
    if notes.unlisted_threads > 0 {
        let threads = words::format_count(notes.unlisted_threads, "further thread");
        autopsy.gaps.push(format!("{threads} not examined"));
    }
    let findings = examine_dump(dump, notes, first, &modules, settings, file_cache);
    autopsy.crash.fault = findings.fault;
    autopsy.crash.abort = findings.abort;
    autopsy.crash.python = findings.python;
    let module_number = modules.number_at(findings.registers.rip);
    autopsy.crash.place =
        module_number.and_then(|number| modules.list[number].file_offset(findings.registers.rip));
    autopsy.registers = named_registers(&findings.registers);
    let earlier = notes.threads.iter().filter(|other| other.tid < first.tid);
    autopsy.crash.thread = u32::try_from(earlier.count() + 1).unwrap_or(u32::MAX);

    let mut namer = AddressResolver {
        dump,
        modules: &modules,
        file_cache,
        room: MAX_FRAMES,
    };
    let crashed = &findings.stacks[0].addresses[findings.skip..];
    autopsy.crash.stackless = crashed.len() == 1 && findings.stacks[0].cut.is_some();
    namer.name_crash(&mut autopsy.crash, crashed);
    for (status, stack) in notes.threads.iter().zip(findings.stacks) {
        autopsy.threads.push(namer.name_thread(status, stack));
    }
    autopsy.modules = modules
        .list
        .iter()
        .map(|module| describe_module(module, file_cache))
        .collect();
    if autopsy.crash.program.is_empty()
        && let Some(program) = modules.program
    {
        autopsy
            .crash
            .program
            .clone_from(&modules.list[program].name);
    }
}

/// Findings before addresses are resolved to names.
struct UnresolvedFindings {
    fault: Fault,
    abort: Option<String>,
    python: Vec<Frame>,
    registers: Registers,
    stacks: Vec<AddressStack>,
    /// Number of places of the first stack that belong to a signal handler.
    skip: usize,
}

fn examine_dump(
    dump: &Dump,
    notes: &ParsedNotes,
    first: &ThreadNote,
    modules: &LoadedModules,
    settings: &ExaminerSettings,
    file_cache: &FileCache,
) -> UnresolvedFindings {
    let space = AddressSpace {
        dump,
        modules,
        file_cache,
    };
    let unwinder = Unwinder::new(&space);
    let mut remaining = MAX_FOLLOWED;
    let mut stacks = Vec::new();
    for thread in &notes.threads {
        let mut stack = unwinder.follow_stack(&thread.registers, DEEPEST.min(remaining));
        if !stacks.is_empty() {
            // Only the signals of the crashed thread are needed.
            stack.signals = Vec::new();
        }
        stack.addresses.shrink_to_fit();
        remaining = remaining.saturating_sub(stack.addresses.len());
        stacks.push(stack);
    }
    let signal = notes.death_signal();
    let code = notes.info.map(|info| info.code);
    let sent = signal > 0 && code.is_none_or(|code| code <= 0);
    let origin = sent
        .then(|| find_origin(&space, &stacks[0], &first.registers, signal))
        .flatten();
    let skip = origin.map_or(0, |origin| origin.skip);
    let registers = origin.map_or(first.registers, |origin| origin.registers);
    let mappings = core_mappings(dump);
    let mut scene = FaultContext {
        signal,
        code,
        address: notes.info.and_then(|info| info.touched_address()),
        trap: None,
        sender: notes.info.and_then(|info| info.sender_pid()),
        registers,
        memory: &space,
        mappings: &mappings,
        processor: settings.processor.as_ref(),
        depth: (stacks[0].addresses.len() - skip) as u64,
    };
    if let Some(OriginalState {
        fault: Some(cause), ..
    }) = origin
    {
        scene.signal = cause.signal;
        scene.code = cause.code;
        scene.address = cause.address;
        scene.trap = Some(cause.trap);
        scene.sender = None;
    }
    UnresolvedFindings {
        fault: if signal > 0 {
            fault::explain_fault(&scene)
        } else {
            Fault::default()
        },
        abort: abort::message_place(modules, file_cache)
            .and_then(|address| abort::read_message(&space, address)),
        python: python_calls(&space, first.tid),
        registers,
        stacks,
        skip,
    }
}

/// Returns the Python calls of a thread, innermost first.
fn python_calls(space: &AddressSpace<'_>, tid: i32) -> Vec<Frame> {
    let modules = space.modules.list.iter();
    let files = modules.map(|module| (module.base, Path::new(&module.path)));
    let threads = python::read_threads(space, files).unwrap_or_default();
    let mut crashed = threads.into_iter().filter(|thread| thread.tid == tid);
    let calls = crashed.next().unwrap_or_default().calls.into_iter();
    let frame = |call: PythonCall| Frame {
        function: Some(call.function),
        line: Some((call.file, call.line)),
        ..Frame::default()
    };
    calls.map(frame).collect()
}

/// Resolves places to functions and lines.
struct AddressResolver<'a> {
    dump: &'a Dump,
    modules: &'a LoadedModules,
    file_cache: &'a mut FileCache,
    /// Number of frames that may still be listed.
    room: usize,
}

impl AddressResolver<'_> {
    fn name_crash(&mut self, crash: &mut Crash, addresses: &[CodeAddress]) {
        let short = collapse_repeats(addresses);
        let innermost = &short[..short.len().min(MAX_LISTED)];
        let outermost = &short[innermost.len().max(short.len().saturating_sub(OUTERMOST))..];
        let mut frames = self.name_frames(innermost);
        let outer = self.name_frames(outermost);
        let mut functions = frames
            .iter()
            .chain(&outer)
            .filter_map(|frame| frame.function.as_deref());
        crash.phase = if crash.signal.is_some() {
            phase_of_stack(functions.by_ref())
        } else {
            ProcessPhase::Run
        };
        frames.truncate(MAX_CRASH_FRAMES);
        crash.frames = frames;
    }

    fn name_thread(&mut self, status: &ThreadNote, stack: AddressStack) -> Thread {
        let short = collapse_repeats(&stack.addresses);
        let listed = &short[..short.len().min(MAX_LISTED).min(self.room)];
        let remaining = short.len() - listed.len();
        let frames = self.name_frames(listed);
        self.room = self.room.saturating_sub(frames.len());
        Thread {
            tid: status.tid,
            name: String::new(),
            frames,
            cut: if remaining > 0 {
                Some(format!("{remaining} further calls are not listed"))
            } else {
                stack.cut
            },
        }
    }

    fn name_frames(&mut self, addresses: &[(CodeAddress, u64)]) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (address, repeated) in addresses {
            let length_before = frames.len();
            self.push_frames(*address, &mut frames);
            for frame in &mut frames[length_before..] {
                frame.repeated = *repeated;
            }
        }
        frames
    }

    fn push_frames(&mut self, address: CodeAddress, frames: &mut Vec<Frame>) {
        let instruction_address = address.instruction_address();
        let module_number = self.modules.number_at(instruction_address);
        let Some(module) = module_number.map(|number| &self.modules.list[number]) else {
            let segment = self.dump.segment_at(instruction_address);
            let is_generated = segment.is_some_and(Segment::is_executable);
            frames.push(Frame {
                offset: address.address,
                function: is_generated.then(|| GENERATED.to_owned()),
                ..Frame::default()
            });
            return;
        };
        let bare = [Frame::default()];
        let known_frames = match module.book {
            Some(book) => {
                let symbols = &mut self.file_cache.book_mut(book).symbols;
                symbols.frames_at(module.link_offset(instruction_address))
            }
            None => &bare,
        };
        frames.extend(known_frames.iter().map(|frame| Frame {
            offset: module.link_offset(address.address),
            module: Some(module.name.clone()),
            ..frame.clone()
        }));
    }
}

fn describe_module(module: &modules::LoadedModule, file_cache: &FileCache) -> Module {
    let book = module.book.map(|book| file_cache.book_at(book));
    Module {
        path: module.path.clone(),
        base: module.base,
        build_id: file_cache::build_identity(&module.layout),
        symbols: book
            .map_or("nothing", |book| book.symbols.naming_quality())
            .to_owned(),
    }
}

fn named_registers(registers: &Registers) -> Vec<(String, u64)> {
    let r = registers;
    let registers = [
        ("rip", r.rip),
        ("rsp", r.rsp),
        ("rbp", r.rbp),
        ("rax", r.rax),
        ("rbx", r.rbx),
        ("rcx", r.rcx),
        ("rdx", r.rdx),
        ("rsi", r.rsi),
        ("rdi", r.rdi),
        ("r8", r.r8),
        ("r9", r.r9),
        ("r10", r.r10),
        ("r11", r.r11),
        ("r12", r.r12),
        ("r13", r.r13),
        ("r14", r.r14),
        ("r15", r.r15),
        ("flags", r.flags),
    ];
    registers
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
}
