//! Describes one crash, or one hang, as plain text.
//!
//! The kind and place of the failure come first, then the source line, the stack, the output, and the details; unknown
//! facts come last. All text from programs is escaped.

mod advice;
mod hang;
mod lines;
#[cfg(test)]
mod tests;
mod trial;

use hang::hang_story;
pub use trial::{BetterTrial, RequestInFlight, TrialDetails, trial_story};

use super::source_line;
use lines::WrappedText;
use provoke_judge as judge;
use provoke_messages as messages;
use provoke_model::{Autopsy, Crash, Frame, ProcessPhase, Site, Thread, fault_class};
use provoke_words::{format_count, plural_of, sanitize_line, sanitize_lines, shorten_text};
use std::collections::BTreeMap;

/// Blanks between the columns of a stack.
const GAP: &str = "  ";

/// Maximum number of calls shown of the crashed thread.
const CALLS: usize = 24;

/// Maximum number of calls shown of each other thread, in one line.
const CALLS_OF_OTHERS: usize = 6;

/// Describes a crash; with every register, call and thread if `verbose`.
pub fn crash_story(autopsy: &Autopsy, verbose: bool, width: usize) -> String {
    let mut lines = WrappedText::new(width);
    push_headline(&mut lines, "", &autopsy.crash);
    push_stacks(&mut lines, autopsy, verbose);
    lines.push_gap();
    lines.push_line(DETAILS);
    push_details(&mut lines, autopsy, verbose);
    lines.into_text()
}

/// Width of a stack in a report, in columns.
const REPORT_WIDTH: usize = 96;

/// Returns the calls of the crashed thread, one per line, with the base names of source files.
pub(crate) fn stack_lines(autopsy: &Autopsy) -> Vec<String> {
    let mut frames = autopsy.crash.frames.clone();
    for (file, _) in frames.iter_mut().filter_map(|frame| frame.line.as_mut()) {
        let name = file.rsplit('/').next().unwrap_or(file).to_owned();
        *file = name;
    }
    let mut lines = WrappedText::new(REPORT_WIDTH);
    push_calls(&mut lines, &frames, CALLS);
    lines.into_text().lines().map(str::to_owned).collect()
}

const DETAILS: &str = "Details:";

/// Describes the kind and place of a crash, and shows the line of source code.
fn push_headline(lines: &mut WrappedText, head: &str, crash: &Crash) {
    let sites = judge::sites_of_crash(crash);
    let signal = match crash.signal {
        Some(signal) => signal.to_string(),
        None => "examined while it ran".to_owned(),
    };
    let location = match (sites.first(), crash.frames.first()) {
        (Some(site), _) => describe_site(site),
        (None, Some(frame)) => format!(" in {}", frame_place(frame)),
        (None, None) => String::new(),
    };
    let when = match crash.phase {
        ProcessPhase::Start => ", before main",
        ProcessPhase::Run => "",
        ProcessPhase::Shutdown => ", while it was shutting down",
    };
    let explanation = match crash_reason(crash) {
        reason if reason.is_empty() => reason,
        reason => format!(": {reason}"),
    };
    lines.push_prose(head, &format!("{signal}{location}{when}{explanation}"));
    if let Some((site, python)) = sites.split_first() {
        push_source_line(lines, site);
        for site in python {
            lines.push_line(&format!("  in Python{}", describe_site(site)));
            push_source_line(lines, site);
        }
    }
}

/// Returns ` at crash.c:20 in sum`.
fn describe_site(site: &Site) -> String {
    let function = site
        .function
        .as_deref()
        .map(|name| format!(" in {}", sanitize_line(name)));
    format!(
        " at {}{}",
        sanitize_line(&site.file_and_line()),
        function.unwrap_or_default()
    )
}

/// Shows a line of source code, and its caller.
fn push_source_line(lines: &mut WrappedText, site: &Site) {
    if let Some(text) = source_line(site) {
        lines.push_quoted(&format!("{:>4} | {}", site.line, sanitize_line(&text)));
    }
    if let Some(caller) = &site.caller {
        let location = sanitize_line(&caller.file_and_line());
        lines.push_line(&match &caller.function {
            Some(function) => format!("  called by {} ({location})", sanitize_line(function)),
            None => format!("  called from {location}"),
        });
    }
}

/// Describes the cause of a crash: its message, or the faulting access.
fn crash_reason(crash: &Crash) -> String {
    let fault = &crash.fault;
    let message = crash
        .abort
        .as_deref()
        .and_then(|message| message.trim().lines().next());
    match (message, fault.address) {
        (Some(message), _) => sanitize_line(message),
        (None, None) => sanitize_line(&fault.class),
        (None, Some(address)) => {
            let verb = memory_access(fault.instruction.as_deref().unwrap_or_default());
            let class = match fault.class.as_str() {
                class if class == fault_class::NULL && address > 0 => {
                    format!("{class} + 0x{address:x}")
                }
                class => sanitize_line(class),
            };
            format!("{verb} address 0x{address:x} ({class})")
        }
    }
}

/// Describes the memory access of an instruction: the first operand is the destination.
fn memory_access(instruction: &str) -> &'static str {
    let (target, other_operands) = instruction.split_once(',').unwrap_or((instruction, ""));
    match (target.contains('['), other_operands.contains('[')) {
        (true, false) if instruction.starts_with("mov") => "wrote to",
        (false, true) => "read from",
        _ => "touched",
    }
}

/// Shows the calls of all threads.
fn push_stacks(lines: &mut WrappedText, autopsy: &Autopsy, verbose: bool) {
    push_crashed_thread(lines, autopsy, verbose);
    push_other_threads(lines, autopsy, verbose);
    push_tool_output(lines, &autopsy.tools);
}

/// Lists the remaining facts.
fn push_details(lines: &mut WrappedText, autopsy: &Autopsy, verbose: bool) {
    let crash = &autopsy.crash;
    let fault = &crash.fault;
    let program = match crash.program.as_str() {
        "" => String::new(),
        program => format!(" ({})", sanitize_line(program)),
    };
    let failure_text = match (crash.signal, fault.class.as_str()) {
        (None, _) => " was examined while it ran".to_owned(),
        (Some(signal), "") => format!(" died of {signal}"),
        (Some(signal), class) => format!(" died of {signal}: {}", sanitize_line(class)),
    };
    lines.push_detail(&format!("process {}{program}{failure_text}", crash.pid));
    if !fault.detail.is_empty() {
        lines.push_detail(&sanitize_line(&fault.detail));
    }
    if let Some(sender) = fault.sender {
        lines.push_detail(&if sender == crash.pid {
            "the process sent the signal to itself".to_owned()
        } else {
            format!("process {sender} sent the signal")
        });
    }
    let abort_message = crash.abort.as_deref().map(str::trim);
    let tell = abort_message.and_then(|message| message.lines().find_map(messages::read_tell));
    if let Some(message) = abort_message.filter(|message| !message.is_empty()) {
        lines.push_detail(&format!("it said: {}", sanitize_line(message)));
    }
    if let Some(tell) = &tell {
        lines.push_detail(tell.words);
    }
    push_instruction(lines, autopsy, verbose);
    if let Some(next) = advice::next_step(&fault.class, tell.as_ref().map(|tell| tell.kind)) {
        lines.push_detail(&format!("next: {next}"));
    }
    push_symbol_hints(lines, autopsy);
    push_unknowns(lines, &autopsy.gaps);
}

// The instruction.

fn push_instruction(lines: &mut WrappedText, autopsy: &Autopsy, verbose: bool) {
    let crash = &autopsy.crash;
    let Some(text) = crash.fault.instruction.as_deref() else {
        if verbose {
            push_registers(lines, &autopsy.registers);
        }
        return;
    };
    let location = crash.frames.first().map_or(String::new(), frame_place);
    lines.push_detail(&format!("at {location}: {}", sanitize_line(text)));
    let register_values = autopsy
        .registers
        .iter()
        .filter(|(name, _)| verbose || mentions_register(text, name));
    push_registers(lines, &register_values.cloned().collect::<Vec<_>>());
}

fn push_registers(lines: &mut WrappedText, registers: &[(String, u64)]) {
    let shown = registers
        .iter()
        .map(|(name, value)| format!("{} = 0x{value:x}", sanitize_line(name)));
    for row in shown.collect::<Vec<_>>().chunks(4) {
        lines.push_line(&format!("    {}", row.join("   ")));
    }
}

/// Returns whether an instruction names a register, or a part of it: `edi` is part of `rdi`.
fn mentions_register(instruction: &str, register: &str) -> bool {
    let mut words = instruction.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| full_register(word) == register)
}

/// Returns the full register of a partial one.
fn full_register(name: &str) -> String {
    // r8d, r8w, r8b, r8l
    if let Some(number) = name.strip_prefix('r')
        && number.starts_with(|c: char| c.is_ascii_digit())
    {
        return format!("r{}", number.trim_end_matches(['d', 'w', 'b', 'l']));
    }
    // eax, ax, al, ah; edi, di, dil
    let short = name
        .strip_prefix(['e', 'r'])
        .filter(|rest| rest.len() == 2)
        .unwrap_or(name);
    let short = match short.as_bytes() {
        [_, _, b'l'] => &short[..2],
        _ => short,
    };
    match short.as_bytes() {
        [letter @ b'a'..=b'd', b'l' | b'h' | b'x'] => format!("r{}x", char::from(*letter)),
        [_, _] => format!("r{short}"),
        _ => name.to_owned(),
    }
}

// Threads.

fn push_crashed_thread(lines: &mut WrappedText, autopsy: &Autopsy, verbose: bool) {
    let crash = &autopsy.crash;
    let thread = autopsy.threads.first();
    let frames = thread.map_or(crash.frames.as_slice(), |thread| thread.frames.as_slice());
    let thread_count = autopsy.threads.len();
    let mut head = match thread_count {
        0 | 1 => "Calls".to_owned(),
        count => format!("Thread {} of {count}, where it happened", crash.thread),
    };
    if let Some(thread) = thread.filter(|thread| !thread.name.is_empty() && thread_count > 1) {
        head = format!("{head} ({})", sanitize_line(&thread.name));
    }
    lines.push_gap();
    if frames.is_empty() {
        lines.push_line(&format!("{head}: not known"));
    } else {
        lines.push_line(&format!("{head}, innermost first:"));
        let shown_calls = if verbose { frames.len() } else { CALLS };
        push_calls(lines, frames, shown_calls);
    }
    let python = hang::list_calls("Python", &crash.python);
    if !python.is_empty() {
        lines.push_prose("  ", &python);
    }
    if let Some(cut) = thread.and_then(|thread| thread.cut.as_deref()) {
        lines.push_prose(
            "       ",
            &format!("… the list ends here: {}", sanitize_line(cut)),
        );
    }
}

fn push_calls(lines: &mut WrappedText, frames: &[Frame], shown_calls: usize) {
    let width = frames
        .iter()
        .take(shown_calls)
        .map(|frame| module_name(frame).chars().count())
        .max()
        .unwrap_or(0)
        .min(24);
    for (number, frame) in frames.iter().enumerate().take(shown_calls) {
        let inlined = if frame.inlined { " (inlined)" } else { "" };
        let (module, function) = (module_name(frame), function_name(frame));
        let call = format!("  {number:>3}  {module:<width$}  {function}{inlined}");
        let call = shorten_text(&call, lines.width);
        match frame
            .line
            .as_ref()
            .map(|(file, line)| (sanitize_line(file), format!(":{line}")))
        {
            None => lines.push_line(&call),
            Some((file, line)) => {
                let name = file.rsplit('/').next().unwrap_or(&file).len();
                let used_width = call.chars().count() + GAP.len() + line.len();
                if used_width + name <= lines.width {
                    let file = end_of_path(&file, lines.width - used_width);
                    lines.push_line(&format!("{call}{GAP}{file}{line}"));
                } else {
                    lines.push_line(&call);
                    let indent = " ".repeat(7 + width + 2 + GAP.len());
                    let room = lines.width.saturating_sub(indent.len() + line.len());
                    let file = end_of_path(&file, room);
                    lines.push_line(&format!("{indent}{file}{line}"));
                }
            }
        }
        if frame.repeated > 0 {
            lines.push_line(&format!("       (and {} more like this)", frame.repeated));
        }
    }
    if let Some(unshown) = frames
        .len()
        .checked_sub(shown_calls)
        .filter(|more| *more > 0)
    {
        lines.push_line(&format!(
            "       … {}",
            plural_of(unshown as u64, "more call", "more calls")
        ));
    }
}

/// Returns the end of a path: its file name, with as many directories as fit.
fn end_of_path(path: &str, room: usize) -> String {
    if path.chars().count() <= room {
        return path.to_owned();
    }
    let ends = path
        .match_indices('/')
        .map(|(position, _)| &path[position..]);
    let name = path.rsplit('/').next().unwrap_or(path);
    let end = ends.into_iter().find(|end| end.chars().count() < room);
    end.map_or_else(|| name.to_owned(), |end| format!("…{end}"))
}

fn module_name(frame: &Frame) -> String {
    frame
        .module
        .as_deref()
        .map_or_else(|| "?".to_owned(), sanitize_line)
}

fn function_name(frame: &Frame) -> String {
    let function = frame.function.as_deref().map(sanitize_line);
    function.unwrap_or_else(|| format!("+0x{:x}", frame.offset))
}

/// Returns `libfoo.so!conv`, `boom+0x1179`.
fn frame_place(frame: &Frame) -> String {
    match (&frame.module, &frame.function) {
        (None, None) => format!("0x{:x}, outside of any file", frame.offset),
        (None, Some(function)) => sanitize_line(function),
        (Some(_), Some(_)) => format!("{}!{}", module_name(frame), function_name(frame)),
        (Some(_), None) => format!("{}{}", module_name(frame), function_name(frame)),
    }
}

fn push_other_threads(lines: &mut WrappedText, autopsy: &Autopsy, verbose: bool) {
    let Some((_, other_threads)) = autopsy
        .threads
        .split_first()
        .filter(|(_, rest)| !rest.is_empty())
    else {
        return;
    };
    lines.push_gap();
    lines.push_line(&format!(
        "{}:",
        plural_of(other_threads.len() as u64, "other thread", "other threads")
    ));
    let calls = if verbose { usize::MAX } else { CALLS_OF_OTHERS };
    for (stack, threads) in group_equal(
        other_threads
            .iter()
            .map(|thread| (call_chain(&thread.frames, calls), thread)),
    ) {
        let stack = if stack.is_empty() {
            "no calls known"
        } else {
            &stack
        };
        lines.push_prose(&format!("  {}: ", describe_threads(&threads)), stack);
    }
}

/// Groups equal entries, in the order of first appearance.
fn group_equal<T>(threads: impl Iterator<Item = (String, T)>) -> Vec<(String, Vec<T>)> {
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<(String, Vec<T>)> = Vec::new();
    for (key, item) in threads {
        let position = *positions.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(position) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

fn describe_threads(threads: &[&Thread]) -> String {
    match threads {
        [thread] if thread.name.is_empty() => format!("thread {}", thread.tid),
        [thread] => format!("thread {} ({})", thread.tid, sanitize_line(&thread.name)),
        many => format_count(many.len() as u64, "thread"),
    }
}

/// Returns the innermost calls in one line.
fn call_chain(frames: &[Frame], at_most: usize) -> String {
    let mut names = Vec::new();
    let mut previous_module = None;
    for frame in frames.iter().take(at_most) {
        let is_same_module = previous_module == Some(&frame.module) && frame.function.is_some();
        names.push(if is_same_module {
            function_name(frame)
        } else {
            frame_place(frame)
        });
        previous_module = Some(&frame.module);
    }
    if frames.len() > at_most {
        names.push("…".to_owned());
    }
    names.join(" < ")
}

// The rest.

fn push_tool_output(lines: &mut WrappedText, tools: &[(String, String)]) {
    for (tool, words) in tools {
        lines.push_gap();
        lines.push_line(&format!("{} says:", sanitize_line(tool)));
        for line in sanitize_lines(words.trim_end()).lines() {
            lines.push_quoted(line);
        }
    }
}

/// Lists files on the stack without any symbols, and how to get symbols.
fn push_symbol_hints(lines: &mut WrappedText, autopsy: &Autopsy) {
    let nameless: Vec<_> = autopsy
        .modules
        .iter()
        .filter(|module| {
            let name = module.path.rsplit('/').next();
            let on_stack =
                |frame: &Frame| frame.module.as_deref() == name && frame.function.is_none();
            let threads = autopsy.threads.iter().take(1);
            let frames = threads
                .flat_map(|thread| &thread.frames)
                .chain(&autopsy.crash.frames);
            ["nothing", "exports"].contains(&module.symbols.as_str())
                && frames.into_iter().any(on_stack)
        })
        .collect();
    if nameless.is_empty() {
        return;
    }
    lines.push_gap();
    lines.push_line("Files without symbols:");
    for module in nameless {
        let build = module.build_id.as_deref();
        let build_text = build.map_or(String::new(), |id| {
            format!(" (build id {})", sanitize_line(id))
        });
        lines.push_line(&format!("  {}{build_text}", sanitize_line(&module.path)));
    }
    lines.push_detail(
        "Build them with -g and do not strip them, or install the package with their debug \
         symbols (-dbgsym, -debuginfo); those in /usr/lib/debug are found by the build id.",
    );
}

fn push_unknowns(lines: &mut WrappedText, gaps: &[String]) {
    if gaps.is_empty() {
        return;
    }
    lines.push_gap();
    lines.push_line("Not known:");
    for gap in gaps {
        lines.push_prose("  - ", &sanitize_line(gap));
    }
}
