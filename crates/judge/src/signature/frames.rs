//! Selects the calls of a stack that name a failure.
//!
//! The same bug must have the same name with and without debug information, in the next build, and
//! on a machine with other symbols. So inlined calls do not count, and names lose the suffixes that
//! compilers add. Calls that are on every stack, or whose names differ between machines, are
//! skipped.

use super::skipped::{ANYWHERE, AT_THE_TOP, CLOSURE_CALLS, COMPILED_IN, PYTHON, RUNTIME};
use provoke_messages::{SourceOwner, bare_name};
use provoke_model::Frame;
use std::path::Path;

/// Number of calls that name a failure.
const COUNT: usize = 3;

/// A counted call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StackCall {
    /// File name without versions; `None` outside of any file.
    pub(super) module: Option<String>,
    /// Function, or offset in the file.
    pub(super) name: String,
    named: bool,
}

impl StackCall {
    pub(super) fn new(frame: &Frame) -> Self {
        let module = frame.module.as_deref().map(bare_module);
        let function = frame
            .function
            .as_deref()
            .map(bare_name)
            .filter(|name| !name.is_empty());
        Self {
            named: function.is_some(),
            name: function.unwrap_or_else(|| match module {
                Some(_) => format!("+0x{:x}", frame.offset),
                None => "?unmapped".to_owned(),
            }),
            module,
        }
    }

    /// Formats the call as `module!function`, `module+0x1179` or `?unmapped`.
    pub(super) fn module_and_function(&self) -> String {
        match &self.module {
            Some(module) if self.named => format!("{module}!{}", self.name),
            Some(module) => format!("{module}{}", self.name),
            None => self.name.clone(),
        }
    }

    pub(super) fn is_glue(&self) -> bool {
        let module = self.module.as_deref().unwrap_or_default();
        if RUNTIME.iter().any(|prefix| module.starts_with(prefix)) {
            return true;
        }
        if !self.named {
            return PYTHON.contains(&module);
        }
        let mut glue = ANYWHERE.iter().chain(COMPILED_IN);
        glue.any(|glue| fits_pattern(&self.name, glue))
    }

    /// Returns whether the call is glue code that is compiled into every program together with the
    /// function that it calls.
    fn is_shared_glue(&self) -> bool {
        let mut glue = COMPILED_IN.iter().chain([&CLOSURE_CALLS]);
        self.named && glue.any(|glue| fits_pattern(&self.name, glue))
    }

    /// Returns whether the call has a function name, not only an offset.
    pub(super) fn is_named(&self) -> bool {
        self.named
    }

    /// Returns whether the function is in a library that an interpreter has loaded.
    pub(super) fn is_of_extension(&self) -> bool {
        let module = self.module.as_deref().unwrap_or_default();
        self.named && is_library(module) && !module.starts_with("libpython")
    }

    fn is_messenger(&self) -> bool {
        self.named && AT_THE_TOP.iter().any(|row| fits_pattern(&self.name, row))
    }
}

/// Returns whether a name matches the pattern, which may contain one `*`.
pub(super) fn fits_pattern(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => name == pattern,
    }
}

/// Returns the calls that name a failure, innermost first. If none counts, returns calls that do
/// not.
pub(super) fn naming_steps(frames: &[Frame]) -> Vec<StackCall> {
    let mut steps = counted_steps(frames);
    if steps.is_empty() {
        steps = real_steps(frames);
    }
    steps.dedup();
    steps.truncate(COUNT);
    steps
}

/// Returns the calls for a title. It also names the functions of the user that were inlined into the first of these calls.
pub(super) fn title_steps(frames: &[Frame], steps: Vec<StackCall>) -> Vec<StackCall> {
    let caller = frames.iter().find(|frame| !frame.inlined);
    if caller.map(StackCall::new).as_ref() != steps.first() {
        return steps;
    }
    let is_own = |frame: &&Frame| {
        let line = frame.line.as_ref();
        line.is_some_and(|(file, _)| SourceOwner::of_file(file) == SourceOwner::User)
    };
    let inlined = frames.iter().take_while(|frame| frame.inlined);
    let inlined = inlined.filter(is_own).map(StackCall::new);
    let mut titled: Vec<StackCall> = inlined.chain(steps).collect();
    titled.dedup();
    titled.truncate(COUNT);
    titled
}

/// Returns the innermost counted calls, up to the number that names a failure.
pub(super) fn counted_steps(frames: &[Frame]) -> Vec<StackCall> {
    let mut steps = all_counted(frames);
    steps.truncate(COUNT);
    steps
}

/// Returns all counted calls, innermost first.
pub(super) fn all_counted(frames: &[Frame]) -> Vec<StackCall> {
    let mut real = real_steps(frames);
    // A function that is inlined into glue code, such as the closure of a thread, has no symbol. If
    // it crashed, the offset distinguishes it.
    if let (Some(first), Some(frame)) =
        (real.first_mut(), frames.iter().find(|frame| !frame.inlined))
        && first.is_shared_glue()
    {
        *first = StackCall::new(&Frame {
            function: None,
            ..frame.clone()
        });
    }
    let counted = real.into_iter().filter(|step| !step.is_glue());
    let mut steps: Vec<StackCall> = counted.skip_while(StackCall::is_messenger).collect();
    steps.dedup();
    steps
}

/// Returns the functions of an endless recursion.
///
/// The call at which the stack ends is random, and so are the last calls outside of the cycle. So
/// only repeated functions count, in the order of their names.
pub(super) fn recursion_circle(frames: &[Frame]) -> Vec<StackCall> {
    let collapsed = frames.iter().any(|frame| frame.repeated > 0);
    let counted = frames.iter().filter(|frame| !frame.inlined);
    let mut circle: Vec<StackCall> = Vec::new();
    let mut repeated: Vec<StackCall> = Vec::new();
    for frame in counted {
        let step = StackCall::new(frame);
        // A function that is called twice outside of the cycle is not part of it.
        if frame.repeated > 0 || (!collapsed && circle.contains(&step)) {
            repeated.push(step.clone());
        }
        circle.push(step);
    }
    repeated.retain(|step| !step.is_glue());
    repeated.sort();
    repeated.dedup();
    repeated.truncate(COUNT);
    if repeated.is_empty() {
        return naming_steps(frames);
    }
    repeated
}

/// Returns the two outermost counted calls, innermost first.
pub(super) fn outermost_steps(frames: &[Frame]) -> Vec<StackCall> {
    let mut steps = real_steps(frames);
    steps.retain(|step| !step.is_glue());
    steps.dedup();
    steps.split_off(steps.len().saturating_sub(2))
}

/// Returns the calls that are not inlined.
fn real_steps(frames: &[Frame]) -> Vec<StackCall> {
    let mut real: Vec<StackCall> = frames
        .iter()
        .filter(|frame| !frame.inlined)
        .map(StackCall::new)
        .collect();
    if real.is_empty() {
        real = frames.last().map(StackCall::new).into_iter().collect();
    }
    real
}

/// Returns whether any call has only an offset.
pub(super) fn any_placed(steps: &[StackCall]) -> bool {
    steps.iter().any(|step| !step.named)
}

/// Joins calls for the text of an id. The name of the program itself is left out, because it may
/// change in the next build.
pub(super) fn join_texts(steps: &[StackCall], program: &str) -> String {
    let text = |step: &StackCall| match &step.module {
        Some(module) if is_named(module, program) => step.name.clone(),
        _ => step.module_and_function(),
    };
    let texts: Vec<String> = steps.iter().map(text).collect();
    texts.join(" < ")
}

/// Joins calls for a title: a file is named if it differs from the previous one.
pub(super) fn join_words(steps: &[StackCall], program: &str) -> String {
    word_list(steps, program).join(" < ")
}

/// Formats each call for a title.
pub(super) fn word_list(steps: &[StackCall], program: &str) -> Vec<String> {
    let mut previous_module = None;
    let mut words = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let module = step.module.as_deref();
        let is_own = index == 0 && module.is_some_and(|module| is_named(module, program));
        let is_known =
            step.named && (is_own || step.module == previous_module || step.module.is_none());
        words.push(if step.module.is_none() && !step.named {
            "unknown code".to_owned()
        } else if is_known {
            step.name.clone()
        } else {
            step.module_and_function()
        });
        previous_module.clone_from(&step.module);
    }
    words
}

/// Returns whether the name without version belongs to a library.
pub(super) fn is_library(module: &str) -> bool {
    Path::new(module).extension().is_some_and(|end| end == "so")
}

/// Returns whether a file is the program with this name, which the kernel truncates to 15 bytes.
pub(super) fn is_named(module: &str, program: &str) -> bool {
    let program_module = bare_module(program);
    module == program_module || program.len() == KERNEL_NAME && module.starts_with(&program_module)
}

/// Bytes of a process name that the kernel keeps.
const KERNEL_NAME: usize = 15;

/// Returns the name of a file without versions, platforms and hashes: `libfoo-1a2b3c4d.so.1.2`
/// becomes `libfoo.so`, `ext.cpython-311-x86_64-linux-gnu.so` becomes `ext.so`.
pub fn bare_module(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    if let Some(position) = name.find(".so").filter(|position| {
        let rest = &name[position + 3..];
        rest.is_empty() || rest.starts_with('.')
    }) {
        let stem = &name[..position];
        let stem = stem.split(".cpython-").next().unwrap_or(stem);
        let stem = stem.split(".abi3").next().unwrap_or(stem);
        return format!("{}.so", bare_stem(stem));
    }
    bare_stem(name).to_owned()
}

fn bare_stem(stem: &str) -> &str {
    // Libraries of a wheel and Rust tests have a hash: `x-0123abcd`.
    if let Some((rest, hash)) = stem.rsplit_once('-')
        && hash.len() >= 8
        && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
    {
        return rest;
    }
    // A version contains a dot: `python3.11`, `libc-2.31`, but not `x86-64`.
    let start = stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let version = &stem[start.len()..];
    if version.contains('.') && !start.is_empty() {
        return start.trim_end_matches(['-', '_']);
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_names_are_equal_in_every_version() {
        let same = [
            ("libfoo.so.1.2.3", "libfoo.so"),
            ("libfoo.so", "libfoo.so"),
            ("libc-2.31.so", "libc.so"),
            ("libcudart-0123abcd.so.11.0", "libcudart.so"),
            ("ext.cpython-311-x86_64-linux-gnu.so", "ext.so"),
            ("ext.abi3.so", "ext.so"),
            ("libpython3.11.so.1.0", "libpython.so"),
            ("python3.11", "python"),
            ("ld-linux-x86-64.so.2", "ld-linux-x86-64.so"),
            ("it-0123456789abcdef", "it"),
            ("/usr/bin/tool", "tool"),
            ("tool2", "tool2"),
            ("a.software", "a.software"),
            ("1.2", "1.2"),
        ];
        for (name, bare) in same {
            assert_eq!(bare_module(name), bare, "{name}");
        }
    }

    #[test]
    fn a_pattern_has_at_most_one_wildcard() {
        assert!(fits_pattern("__memcpy_chk", "__*_chk") && !fits_pattern("memcpy_chk", "__*_chk"));
        assert!(
            !fits_pattern("__chk", "__*_chk")
                && fits_pattern("abort", "abort")
                && !fits_pattern("aborts", "abort")
        );
        let has_one_wildcard = |row: &&str| row.matches('*').count() <= 1;
        assert!(AT_THE_TOP.iter().all(has_one_wildcard) && ANYWHERE.iter().all(has_one_wildcard));
    }
}
