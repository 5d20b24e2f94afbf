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
pub use trial::{InFlight, Told, trial_story};

use super::source_line;
use super::words::{plural, plural_of, sanitize, sanitize_lines, shortened};
use crate::model::{Autopsy, Crash, Frame, Phase, Site, Thread, class};
use crate::oracle;
use crate::tells;
use lines::Lines;
use std::collections::BTreeMap;

/// Blanks between the columns of a stack.
const GAP: &str = "  ";

/// Maximum number of calls shown of the crashed thread.
const CALLS: usize = 24;

/// Maximum number of calls shown of each other thread, in one line.
const CALLS_OF_OTHERS: usize = 6;

/// Describes a crash; with every register, call and thread if `verbose`.
pub fn story(autopsy: &Autopsy, verbose: bool, width: usize) -> String {
    let mut lines = Lines::new(width);
    headline(&mut lines, "", &autopsy.crash);
    stacks(&mut lines, autopsy, verbose);
    lines.gap();
    lines.line(DETAILS);
    details(&mut lines, autopsy, verbose);
    lines.finish()
}

/// Width of a stack in a report, in columns.
const REPORT_WIDTH: usize = 96;

/// Returns the calls of the crashed thread, one per line, with the base names of source files.
pub fn stack(autopsy: &Autopsy) -> Vec<String> {
    let mut frames = autopsy.crash.frames.clone();
    for (file, _) in frames.iter_mut().filter_map(|frame| frame.line.as_mut()) {
        let name = file.rsplit('/').next().unwrap_or(file).to_owned();
        *file = name;
    }
    let mut lines = Lines::new(REPORT_WIDTH);
    calls(&mut lines, &frames, CALLS);
    lines.finish().lines().map(str::to_owned).collect()
}

const DETAILS: &str = "Details:";

/// Describes the kind and place of a crash, and shows the line of source code.
fn headline(lines: &mut Lines, head: &str, crash: &Crash) {
    let sites = oracle::sites_of_crash(crash);
    let signal = match crash.signal {
        Some(signal) => signal.to_string(),
        None => "examined while it ran".to_owned(),
    };
    let place = match (sites.first(), crash.frames.first()) {
        (Some(site), _) => at(site),
        (None, Some(frame)) => format!(" in {}", place(frame)),
        (None, None) => String::new(),
    };
    let when = match crash.phase {
        Phase::Start => ", before main",
        Phase::Run => "",
        Phase::Shutdown => ", while it was shutting down",
    };
    let why = match reason(crash) {
        why if why.is_empty() => why,
        why => format!(": {why}"),
    };
    lines.prose(head, &format!("{signal}{place}{when}{why}"));
    if let Some((site, python)) = sites.split_first() {
        source(lines, site);
        for site in python {
            lines.line(&format!("  in Python{}", at(site)));
            source(lines, site);
        }
    }
}

/// Returns ` at crash.c:20 in sum`.
fn at(site: &Site) -> String {
    let function = site
        .function
        .as_deref()
        .map(|name| format!(" in {}", sanitize(name)));
    format!(
        " at {}{}",
        sanitize(&site.place()),
        function.unwrap_or_default()
    )
}

/// Shows a line of source code, and its caller.
fn source(lines: &mut Lines, site: &Site) {
    if let Some(text) = source_line(site) {
        lines.quoted(&format!("{:>4} | {}", site.line, sanitize(&text)));
    }
    if let Some(caller) = &site.caller {
        let place = sanitize(&caller.place());
        lines.line(&match &caller.function {
            Some(function) => format!("  called by {} ({place})", sanitize(function)),
            None => format!("  called from {place}"),
        });
    }
}

/// Describes the cause of a crash: its message, or the faulting access.
fn reason(crash: &Crash) -> String {
    let fault = &crash.fault;
    let said = crash
        .abort
        .as_deref()
        .and_then(|said| said.trim().lines().next());
    match (said, fault.address) {
        (Some(said), _) => sanitize(said),
        (None, None) => sanitize(&fault.class),
        (None, Some(address)) => {
            let verb = access(fault.instruction.as_deref().unwrap_or_default());
            let class = match fault.class.as_str() {
                class if class == class::NULL && address > 0 => format!("{class} + 0x{address:x}"),
                class => sanitize(class),
            };
            format!("{verb} address 0x{address:x} ({class})")
        }
    }
}

/// Describes the memory access of an instruction: the first operand is the destination.
fn access(instruction: &str) -> &'static str {
    let (target, others) = instruction.split_once(',').unwrap_or((instruction, ""));
    match (target.contains('['), others.contains('[')) {
        (true, false) if instruction.starts_with("mov") => "wrote to",
        (false, true) => "read from",
        _ => "touched",
    }
}

/// Shows the calls of all threads.
fn stacks(lines: &mut Lines, autopsy: &Autopsy, verbose: bool) {
    crashed(lines, autopsy, verbose);
    others(lines, autopsy, verbose);
    tools(lines, &autopsy.tools);
}

/// Lists the remaining facts.
fn details(lines: &mut Lines, autopsy: &Autopsy, verbose: bool) {
    let crash = &autopsy.crash;
    let fault = &crash.fault;
    let program = match crash.program.as_str() {
        "" => String::new(),
        program => format!(" ({})", sanitize(program)),
    };
    let what = match (crash.signal, fault.class.as_str()) {
        (None, _) => " was examined while it ran".to_owned(),
        (Some(signal), "") => format!(" died of {signal}"),
        (Some(signal), class) => format!(" died of {signal}: {}", sanitize(class)),
    };
    lines.detail(&format!("process {}{program}{what}", crash.pid));
    if !fault.detail.is_empty() {
        lines.detail(&sanitize(&fault.detail));
    }
    if let Some(sender) = fault.sender {
        lines.detail(&if sender == crash.pid {
            "the process sent the signal to itself".to_owned()
        } else {
            format!("process {sender} sent the signal")
        });
    }
    let said = crash.abort.as_deref().map(str::trim);
    let tell = said.and_then(|said| said.lines().find_map(tells::read));
    if let Some(said) = said.filter(|said| !said.is_empty()) {
        lines.detail(&format!("it said: {}", sanitize(said)));
    }
    if let Some(tell) = &tell {
        lines.detail(tell.words);
    }
    instruction(lines, autopsy, verbose);
    if let Some(next) = advice::next(&fault.class, tell.as_ref().map(|tell| tell.kind)) {
        lines.detail(&format!("next: {next}"));
    }
    symbols(lines, autopsy);
    gaps(lines, &autopsy.gaps);
}

// The instruction.

fn instruction(lines: &mut Lines, autopsy: &Autopsy, verbose: bool) {
    let crash = &autopsy.crash;
    let Some(text) = crash.fault.instruction.as_deref() else {
        if verbose {
            registers(lines, &autopsy.registers);
        }
        return;
    };
    let place = crash.frames.first().map_or(String::new(), place);
    lines.detail(&format!("at {place}: {}", sanitize(text)));
    let shown = autopsy.registers.iter();
    let shown = shown.filter(|(name, _)| verbose || mentions(text, name));
    registers(lines, &shown.cloned().collect::<Vec<_>>());
}

fn registers(lines: &mut Lines, registers: &[(String, u64)]) {
    let shown = registers.iter();
    let shown = shown.map(|(name, value)| format!("{} = 0x{value:x}", sanitize(name)));
    for row in shown.collect::<Vec<_>>().chunks(4) {
        lines.line(&format!("    {}", row.join("   ")));
    }
}

/// Returns whether an instruction names a register, or a part of it: `edi` is part of `rdi`.
fn mentions(instruction: &str, register: &str) -> bool {
    let mut words = instruction.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| whole(word) == register)
}

/// Returns the full register of a partial one.
fn whole(part: &str) -> String {
    // r8d, r8w, r8b, r8l
    if let Some(number) = part.strip_prefix('r')
        && number.starts_with(|c: char| c.is_ascii_digit())
    {
        return format!("r{}", number.trim_end_matches(['d', 'w', 'b', 'l']));
    }
    // eax, ax, al, ah; edi, di, dil
    let short = part
        .strip_prefix(['e', 'r'])
        .filter(|rest| rest.len() == 2)
        .unwrap_or(part);
    let short = match short.as_bytes() {
        [_, _, b'l'] => &short[..2],
        _ => short,
    };
    match short.as_bytes() {
        [letter @ b'a'..=b'd', b'l' | b'h' | b'x'] => format!("r{}x", char::from(*letter)),
        [_, _] => format!("r{short}"),
        _ => part.to_owned(),
    }
}

// Threads.

fn crashed(lines: &mut Lines, autopsy: &Autopsy, verbose: bool) {
    let crash = &autopsy.crash;
    let thread = autopsy.threads.first();
    let frames = thread.map_or(crash.frames.as_slice(), |thread| thread.frames.as_slice());
    let all = autopsy.threads.len();
    let mut head = match all {
        0 | 1 => "Calls".to_owned(),
        all => format!("Thread {} of {all}, where it happened", crash.thread),
    };
    if let Some(thread) = thread.filter(|thread| !thread.name.is_empty() && all > 1) {
        head = format!("{head} ({})", sanitize(&thread.name));
    }
    lines.gap();
    if frames.is_empty() {
        lines.line(&format!("{head}: not known"));
    } else {
        lines.line(&format!("{head}, innermost first:"));
        let shown = if verbose { frames.len() } else { CALLS };
        calls(lines, frames, shown);
    }
    if let Some(cut) = thread.and_then(|thread| thread.cut.as_deref()) {
        lines.prose(
            "       ",
            &format!("… the list ends here: {}", sanitize(cut)),
        );
    }
}

fn calls(lines: &mut Lines, frames: &[Frame], shown: usize) {
    let width = frames
        .iter()
        .take(shown)
        .map(|frame| module(frame).chars().count());
    let width = width.max().unwrap_or(0).min(24);
    for (number, frame) in frames.iter().enumerate().take(shown) {
        let inlined = if frame.inlined { " (inlined)" } else { "" };
        let (module, function) = (module(frame), function(frame));
        let call = format!("  {number:>3}  {module:<width$}  {function}{inlined}");
        let call = shortened(&call, lines.width);
        match frame
            .line
            .as_ref()
            .map(|(file, line)| (sanitize(file), format!(":{line}")))
        {
            None => lines.line(&call),
            Some((file, line)) => {
                let name = file.rsplit('/').next().unwrap_or(&file).len();
                let used = call.chars().count() + GAP.len() + line.len();
                if used + name <= lines.width {
                    let file = end_of_path(&file, lines.width - used);
                    lines.line(&format!("{call}{GAP}{file}{line}"));
                } else {
                    lines.line(&call);
                    let indent = " ".repeat(7 + width + 2 + GAP.len());
                    let room = lines.width.saturating_sub(indent.len() + line.len());
                    let file = end_of_path(&file, room);
                    lines.line(&format!("{indent}{file}{line}"));
                }
            }
        }
        if frame.repeated > 0 {
            lines.line(&format!("       (and {} more like this)", frame.repeated));
        }
    }
    if let Some(more) = frames.len().checked_sub(shown).filter(|more| *more > 0) {
        lines.line(&format!(
            "       … {}",
            plural_of(more as u64, "more call", "more calls")
        ));
    }
}

/// Returns the end of a path: its file name, with as many directories as fit.
fn end_of_path(path: &str, room: usize) -> String {
    if path.chars().count() <= room {
        return path.to_owned();
    }
    let ends = path.match_indices('/').map(|(at, _)| &path[at..]);
    let name = path.rsplit('/').next().unwrap_or(path);
    let end = ends.into_iter().find(|end| end.chars().count() < room);
    end.map_or_else(|| name.to_owned(), |end| format!("…{end}"))
}

fn module(frame: &Frame) -> String {
    frame
        .module
        .as_deref()
        .map_or_else(|| "?".to_owned(), sanitize)
}

fn function(frame: &Frame) -> String {
    let function = frame.function.as_deref().map(sanitize);
    function.unwrap_or_else(|| format!("+0x{:x}", frame.offset))
}

/// Returns `libfoo.so!conv`, `boom+0x1179`.
fn place(frame: &Frame) -> String {
    match (&frame.module, &frame.function) {
        (None, None) => format!("0x{:x}, outside of any file", frame.offset),
        (None, Some(function)) => sanitize(function),
        (Some(_), Some(_)) => format!("{}!{}", module(frame), function(frame)),
        (Some(_), None) => format!("{}{}", module(frame), function(frame)),
    }
}

fn others(lines: &mut Lines, autopsy: &Autopsy, verbose: bool) {
    let Some((_, others)) = autopsy
        .threads
        .split_first()
        .filter(|(_, rest)| !rest.is_empty())
    else {
        return;
    };
    lines.gap();
    lines.line(&format!(
        "{}:",
        plural_of(others.len() as u64, "other thread", "other threads")
    ));
    let calls = if verbose { usize::MAX } else { CALLS_OF_OTHERS };
    for (stack, threads) in alike(others.iter().map(|it| (chain(&it.frames, calls), it))) {
        let stack = if stack.is_empty() {
            "no calls known"
        } else {
            &stack
        };
        lines.prose(&format!("  {}: ", who(&threads)), stack);
    }
}

/// Groups equal entries, in the order of first appearance.
fn alike<T>(all: impl Iterator<Item = (String, T)>) -> Vec<(String, Vec<T>)> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<(String, Vec<T>)> = Vec::new();
    for (key, item) in all {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

fn who(threads: &[&Thread]) -> String {
    match threads {
        [one] if one.name.is_empty() => format!("thread {}", one.tid),
        [one] => format!("thread {} ({})", one.tid, sanitize(&one.name)),
        many => plural(many.len() as u64, "thread"),
    }
}

/// Returns the innermost calls in one line.
fn chain(frames: &[Frame], at_most: usize) -> String {
    let mut names = Vec::new();
    let mut before = None;
    for frame in frames.iter().take(at_most) {
        let same = before == Some(&frame.module) && frame.function.is_some();
        names.push(if same { function(frame) } else { place(frame) });
        before = Some(&frame.module);
    }
    if frames.len() > at_most {
        names.push("…".to_owned());
    }
    names.join(" < ")
}

// The rest.

fn tools(lines: &mut Lines, tools: &[(String, String)]) {
    for (tool, words) in tools {
        lines.gap();
        lines.line(&format!("{} says:", sanitize(tool)));
        for line in sanitize_lines(words.trim_end()).lines() {
            lines.quoted(line);
        }
    }
}

/// Lists files on the stack without any symbols, and how to get symbols.
fn symbols(lines: &mut Lines, autopsy: &Autopsy) {
    let nameless = autopsy.modules.iter().filter(|module| {
        let name = module.path.rsplit('/').next();
        let on_stack = |frame: &Frame| frame.module.as_deref() == name && frame.function.is_none();
        let threads = autopsy.threads.iter().take(1);
        let frames = threads
            .flat_map(|thread| &thread.frames)
            .chain(&autopsy.crash.frames);
        ["nothing", "exports"].contains(&module.symbols.as_str())
            && frames.into_iter().any(on_stack)
    });
    let nameless: Vec<_> = nameless.collect();
    if nameless.is_empty() {
        return;
    }
    lines.gap();
    lines.line("Files without symbols:");
    for module in nameless {
        let build = module.build_id.as_deref();
        let build = build.map_or(String::new(), |id| format!(" (build id {})", sanitize(id)));
        lines.line(&format!("  {}{build}", sanitize(&module.path)));
    }
    lines.detail(
        "Build them with -g and do not strip them, or install the package with their debug \
         symbols (-dbgsym, -debuginfo); those in /usr/lib/debug are found by the build id.",
    );
}

fn gaps(lines: &mut Lines, gaps: &[String]) {
    if gaps.is_empty() {
        return;
    }
    lines.gap();
    lines.line("Not known:");
    for gap in gaps {
        lines.prose("  - ", &sanitize(gap));
    }
}
