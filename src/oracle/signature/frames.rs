//! Which calls of a stack name a failure.
//!
//! The same bug must have the same name with and without debug information, in the next
//! build, and on a machine where other symbols are installed. So only real calls count, not
//! those that were compiled into others; names lose what compilers add; and what is on
//! every stack, or named differently from machine to machine, is passed over.

use crate::model::Frame;
use crate::tells::bare_name;

/// How many calls name a failure.
const COUNT: usize = 3;

/// A call that counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    /// The file, without versions; nothing outside of any file.
    pub(super) module: Option<String>,
    /// The function, or the place in the file.
    pub(super) name: String,
    named: bool,
}

impl Step {
    pub(super) fn new(frame: &Frame) -> Self {
        let module = frame.module.as_deref().map(bare_module);
        let function = frame.function.as_deref().map(bare_name);
        let function = function.filter(|name| !name.is_empty());
        Self {
            named: function.is_some(),
            name: function.unwrap_or_else(|| match module {
                Some(_) => format!("+0x{:x}", frame.offset),
                None => "?unmapped".to_owned(),
            }),
            module,
        }
    }

    /// `module!function`, `module+0x1179`, `?unmapped`.
    pub(super) fn text(&self) -> String {
        match &self.module {
            Some(module) if self.named => format!("{module}!{}", self.name),
            Some(module) => format!("{module}{}", self.name),
            None => self.name.clone(),
        }
    }

    fn is_glue(&self) -> bool {
        let module = self.module.as_deref().unwrap_or_default();
        if LIBC.iter().any(|libc| module.starts_with(libc)) {
            return true;
        }
        if !self.named {
            return PYTHON.contains(&module);
        }
        ANYWHERE.iter().any(|glue| fits(&self.name, glue))
    }

    fn is_messenger(&self) -> bool {
        self.named && AT_THE_TOP.iter().any(|row| fits(&self.name, row))
    }
}

/// The C library is on every stack, and what its inner functions are called depends on the
/// symbols that are installed.
const LIBC: [&str; 6] = [
    "libc.so",
    "libpthread.so",
    "ld-linux",
    "ld-musl",
    "libc.musl",
    "linux-vdso",
];

/// Interpreters whose inner functions have names only where symbols are installed.
const PYTHON: [&str; 2] = ["python", "libpython.so"];

/// What passes a failure on, above the call that failed; `*` stands for the rest of a name.
const AT_THE_TOP: &[&str] = &[
    // The C library's ways to give up, where it is linked into the program.
    "raise",
    "gsignal",
    "tgkill",
    "kill",
    "abort",
    "__abort",
    "__libc_message*",
    "pthread_kill*",
    "__pthread_kill*",
    "__restore_rt",
    "__assert*",
    "__stack_chk_fail*",
    "__fortify_fail*",
    "__chk_fail",
    "__*_chk",
    "___*_chk",
    // Its allocator.
    "malloc_printerr*",
    "_int_free*",
    "_int_malloc",
    "_int_realloc",
    "_int_memalign",
    "malloc",
    "free",
    "cfree",
    "calloc",
    "realloc",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "__libc_malloc*",
    "__libc_free",
    "__libc_calloc*",
    "__libc_realloc",
    "__libc_memalign",
    "sysmalloc*",
    "malloc_consolidate",
    "unlink_chunk*",
    "munmap_chunk",
    "mremap_chunk",
    "tcache_*",
    "systrim*",
    // C++.
    "operator new",
    "operator new[]",
    "operator delete",
    "operator delete[]",
    "std::terminate",
    "__cxxabiv1::__terminate",
    "__cxxabiv1::__unexpected",
    "__cxa_*",
    "__gxx_personality*",
    "_Unwind_*",
    "__gnu_cxx::__verbose_terminate_handler",
    "std::__throw_*",
    "std::__glibcxx_assert_fail",
    "std::__replacement_assert",
    // Rust.
    "rust_begin_unwind",
    "__rustc::rust_begin_unwind",
    "rust_panic*",
    "__rust_start_panic",
    "core::panicking::*",
    "std::panicking::*",
    "panic_abort::*",
    "panic_unwind::*",
    "core::option::unwrap_failed",
    "core::option::expect_failed",
    "core::result::unwrap_failed",
    "core::option::Option::unwrap",
    "core::option::Option::expect",
    "core::result::Result::unwrap*",
    "core::result::Result::expect*",
    "core::slice::index::*",
    "core::str::slice_error_fail*",
    "alloc::alloc::handle_alloc_error*",
    "alloc::raw_vec::*",
    "std::process::abort",
    "std::sys::*abort_internal",
    "std::sys::*signal_handler",
    "__rust_dealloc",
    "__rust_alloc",
    "__rust_realloc",
    "std::sys::backtrace::__rust_end_short_backtrace",
    "std::sys_common::backtrace::__rust_end_short_backtrace",
    // Python, GLib, sanitizers.
    "faulthandler_*",
    "fatal_error*",
    "_Py_FatalError*",
    "Py_FatalError",
    "g_log*",
    "g_assertion_message*",
    "__asan*",
    "__asan::*",
    "__sanitizer*",
    "__interceptor_*",
    "__tsan*",
    "__ubsan*",
];

/// What is on stacks without saying anything of the failure.
const ANYWHERE: &[&str] = &[
    // Beginnings and ends.
    "start_thread",
    "clone",
    "clone3",
    "__clone*",
    "_start",
    "__libc_start*",
    "exit",
    "__run_exit_handlers",
    "__cxa_finalize",
    "__call_tls_dtors",
    "_dl_fini",
    "_dl_init",
    "_dl_start*",
    "call_init",
    "call_fini",
    "_fini",
    "_init",
    "__do_global_dtors_aux",
    "execute_native_thread_routine",
    "std::thread::_*",
    "std::__invoke*",
    // CPython between one function and the next.
    "_PyEval_*",
    "PyEval_Eval*",
    "_PyFunction_Vectorcall",
    "_PyObject_*",
    "PyObject_Call*",
    "PyObject_Vectorcall*",
    "PyVectorcall_*",
    "_PyVectorcall_*",
    "cfunction_*",
    "method_vectorcall*",
    "object_vacall",
    "slot_tp_*",
    "type_call",
    "wrap_*",
    "function_code_fastcall",
    "partial_*",
    "Py_RunMain",
    "Py_BytesMain",
    "Py_Main",
    "pymain_*",
    "PyRun_*",
    "_PyRun_*",
    "pyrun_*",
    "run_mod",
    "run_eval_code_obj",
    "builtin_exec*",
    "thread_run",
    "pythread_wrapper",
    // Rust.
    "std::rt::lang_start*",
    "std::sys::backtrace::__rust_begin_short_backtrace",
    "std::sys_common::backtrace::__rust_begin_short_backtrace",
    "std::panic::catch_unwind",
    "std::panicking::try*",
    "std::panicking::catch_unwind*",
    "__rust_try",
    "core::ops::function::FnOnce::call_once*",
    "core::ops::function::FnMut::call_mut*",
    "core::ops::function::Fn::call*",
    "alloc::boxed::Box::call_once",
    "std::thread::*",
    "std::sys::*thread_start",
    "core::panic::unwind_safe::AssertUnwindSafe::call_once",
];

/// True where a name is what the pattern says; its one `*` stands for anything.
pub(super) fn fits(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => name == pattern,
    }
}

/// Returns the calls that name a failure, innermost first.
pub(super) fn steps(frames: &[Frame]) -> Vec<Step> {
    let real = real(frames);
    let mut steps: Vec<Step> = real
        .iter()
        .filter(|step| !step.is_glue())
        .skip_while(|step| step.is_messenger())
        .cloned()
        .collect();
    if steps.is_empty() {
        steps = real;
    }
    steps.dedup();
    steps.truncate(COUNT);
    steps
}

/// Returns the functions that call each other until the stack is used up.
///
/// Where in the circle it ends is chance, and so is what one of them had just called: only
/// what is there more than once counts, in the order of the names.
pub(super) fn circle(frames: &[Frame]) -> Vec<Step> {
    let counted = frames.iter().filter(|frame| !frame.inlined);
    let mut all: Vec<Step> = Vec::new();
    let mut again: Vec<Step> = Vec::new();
    for frame in counted {
        let step = Step::new(frame);
        if frame.repeated > 0 || all.contains(&step) {
            again.push(step.clone());
        }
        all.push(step);
    }
    again.retain(|step| !step.is_glue());
    again.sort();
    again.dedup();
    again.truncate(COUNT);
    if again.is_empty() {
        return steps(frames);
    }
    again
}

/// Returns the two outermost calls that count, innermost first.
pub(super) fn outermost(frames: &[Frame]) -> Vec<Step> {
    let mut steps = real(frames);
    steps.retain(|step| !step.is_glue());
    steps.dedup();
    steps.split_off(steps.len().saturating_sub(2))
}

/// Returns the calls without those that were compiled into others.
fn real(frames: &[Frame]) -> Vec<Step> {
    let real = frames.iter().filter(|frame| !frame.inlined);
    let mut real: Vec<Step> = real.map(Step::new).collect();
    if real.is_empty() {
        real = frames.last().map(Step::new).into_iter().collect();
    }
    real
}

/// Joins calls as they stand in what an id is made of.
pub(super) fn texts(steps: &[Step]) -> String {
    let texts: Vec<String> = steps.iter().map(Step::text).collect();
    texts.join(" < ")
}

/// Joins calls for people: a file is named where it is not the one before.
pub(super) fn words(steps: &[Step], program: &str) -> String {
    let mut before = Some(bare_module(program));
    let mut words = Vec::new();
    for step in steps {
        let known = step.named && (step.module == before || step.module.is_none());
        words.push(if known {
            step.name.clone()
        } else {
            step.text()
        });
        before.clone_from(&step.module);
    }
    words.join(" < ")
}

/// Returns the name of a file without versions, platforms and hashes: `libfoo-1a2b3c4d.so.1.2` is
/// `libfoo.so`, `ext.cpython-311-x86_64-linux-gnu.so` is `ext.so`.
pub(super) fn bare_module(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    if let Some(at) = name.find(".so").filter(|at| {
        let rest = &name[at + 3..];
        rest.is_empty() || rest.starts_with('.')
    }) {
        let stem = &name[..at];
        let stem = stem.split(".cpython-").next().unwrap_or(stem);
        let stem = stem.split(".abi3").next().unwrap_or(stem);
        return format!("{}.so", bare_stem(stem));
    }
    bare_stem(name).to_owned()
}

fn bare_stem(stem: &str) -> &str {
    // The hash of a wheel's library, or of a Rust test: `x-0123abcd`.
    if let Some((rest, hash)) = stem.rsplit_once('-')
        && hash.len() >= 8
        && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
    {
        return rest;
    }
    // A version has a dot: `python3.11`, `libc-2.31`, and not `x86-64`.
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
    fn a_file_is_the_same_in_every_version() {
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
    fn a_pattern_has_one_hole() {
        assert!(fits("__memcpy_chk", "__*_chk") && !fits("memcpy_chk", "__*_chk"));
        assert!(!fits("__chk", "__*_chk") && fits("abort", "abort") && !fits("aborts", "abort"));
        let one = |row: &&str| row.matches('*').count() <= 1;
        assert!(AT_THE_TOP.iter().all(one) && ANYWHERE.iter().all(one));
    }
}
