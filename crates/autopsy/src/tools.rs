//! Runs other tools that read cores, such as gdb and py-spy, if they are installed.
//!
//! provoke only reads their output.

use provoke_model::{Autopsy, Frame};
use provoke_sys::{python, spawn, tool};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time limit of a tool: a debugger takes seconds to read the symbols of a large program.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that are read of a tool's output.
const MAX_OUTPUT: usize = 256 << 10;

/// A tool that reads cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// py-spy, which prints Python frames.
    PySpy,
    /// pystack, which prints Python frames among C frames.
    Pystack,
    /// gdb.
    Gdb,
    /// `eu-stack` of elfutils, which prints stacks.
    EuStack,
}

impl Tool {
    /// All tools.
    pub const ALL: [Self; 4] = [Self::PySpy, Self::Pystack, Self::Gdb, Self::EuStack];

    /// Returns the name of the command.
    pub fn name(self) -> &'static str {
        match self {
            Self::PySpy => "py-spy",
            Self::Pystack => "pystack",
            Self::Gdb => "gdb",
            Self::EuStack => "eu-stack",
        }
    }

    /// Returns the path of the tool, if it is installed.
    pub fn find_path(self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH");
        spawn::find_program(self.name().as_ref(), path.as_deref(), Path::new(".")).ok()
    }

    /// Returns the tool's output about a core; `None` if the tool fails.
    pub fn ask_about_core(self, core: &Path, program: &Path, patience: Duration) -> Option<String> {
        let words: Vec<&OsStr> = match self {
            Self::PySpy => vec!["dump".as_ref(), "--core".as_ref(), core.as_ref()],
            Self::Pystack => vec![
                "core".as_ref(),
                "--native".as_ref(),
                "--no-color".as_ref(),
                core.as_ref(),
                program.as_ref(),
            ],
            Self::Gdb => vec![
                "-batch".as_ref(),
                "-nx".as_ref(),
                "-ex".as_ref(),
                "thread apply all bt".as_ref(),
                program.as_ref(),
                core.as_ref(),
            ],
            Self::EuStack => vec![
                "--inlines".as_ref(),
                "--core".as_ref(),
                core.as_ref(),
                "--executable".as_ref(),
                program.as_ref(),
            ],
        };
        let output = tool::run_program(
            &self.find_path()?,
            &words,
            Instant::now() + patience,
            MAX_OUTPUT,
        )
        .ok()?;
        // The kernel pads a command line with zeros.
        let shown_output = output.replace('\0', "");
        Some(shown_output).filter(|output| !output.trim().is_empty())
    }
}

/// Adds the Python frames of the crashed thread, if the program contains Python of a version that the examiner does not
/// read.
pub fn ask_for_python(autopsy: &mut Autopsy, core: &Path, patience: Duration) {
    let mut modules = autopsy.modules.iter();
    let has_python = modules.any(|module| python::is_interpreter(Path::new(&module.path)));
    if !has_python || !autopsy.crash.python.is_empty() {
        return;
    }
    let program = program_path(autopsy);
    let mut tools = [Tool::PySpy, Tool::Pystack].into_iter();
    let answer =
        tools.find_map(|tool| Some((tool, tool.ask_about_core(core, &program, patience)?)));
    let Some((tool, text)) = answer else {
        let is_installed = [Tool::PySpy, Tool::Pystack]
            .iter()
            .any(|tool| tool.find_path().is_some());
        autopsy.gaps.push(if is_installed {
            "no Python calls: py-spy and pystack could not read them; the interpreter is missing or not supported"
                .to_owned()
        } else {
            "no Python calls: `pip install py-spy` to see them".to_owned()
        });
        return;
    };
    if tool == Tool::PySpy {
        let crashed = autopsy.threads.first();
        autopsy.crash.python = crashed.map_or(Vec::new(), |thread| parse_calls(&text, thread.tid));
    }
    autopsy.tools.push((tool.name().to_owned(), text));
}

/// Returns the file of the program, as the core names it.
pub fn program_path(autopsy: &Autopsy) -> PathBuf {
    let lowest = autopsy.modules.iter().min_by_key(|module| module.base);
    lowest
        .map(|module| PathBuf::from(&module.path))
        .unwrap_or_default()
}

/// Python frames that are kept of the crashed thread.
const PYTHON_CALLS: usize = 32;

/// Reads the frames of a thread from the output of py-spy, innermost first: `Thread 4711 (idle):
/// "MainThread"`, then ` f (a.py:3)`.
fn parse_calls(text: &str, tid: i32) -> Vec<Frame> {
    let tid = tid.to_string();
    let is_head = |line: &&str| {
        let rest = line.strip_prefix("Thread ");
        rest.is_some_and(|rest| rest.split(' ').next() == Some(&tid))
    };
    let lines = text.lines().skip_while(|line| !is_head(line)).skip(1);
    lines
        .map_while(|line| Frame::of_python(line.strip_prefix("    ")?))
        .take(PYTHON_CALLS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_the_requested_thread_are_parsed() {
        let text = "Process 7: python x.py\nPython v3.11.7\n\n\
            Thread 7 (idle): \"MainThread\"\n    join (threading.py:1119)\n    <module> (x.py:9)\n\
            Thread 9 (active): \"Thread-1\"\n    g (x.py:3)\n    run (threading.py:982)\n";
        let read = |text: &str, tid| -> Vec<String> {
            let calls = parse_calls(text, tid).into_iter();
            let shown = calls.map(|call| {
                let (file, line) = call.line.unwrap();
                format!("{} {file} {line}", call.function.unwrap())
            });
            shown.collect()
        };
        assert_eq!(read(text, 9), ["g x.py 3", "run threading.py 982"]);
        assert_eq!(read(text, 7), ["join threading.py 1119", "<module> x.py 9"]);
        assert_eq!(read(text, 8), [] as [&str; 0]);
        assert_eq!(read("Thread 8 (idle)", 8), [] as [&str; 0]);
    }
}
