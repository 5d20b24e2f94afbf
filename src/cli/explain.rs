//! `explain`: shows the analysis of a core, or of a trial.

use super::execute::Execute;
use super::exit::Exit;
use crate::experiment::{CoreAnalysis, Explanation};
use crate::term;
use clap::Args;
use provoke_autopsy::tools::Tool;
use provoke_sys::{processor, spawn};
use provoke_words::diagnostic::Diagnostic;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time limit of QEMU.
const PATIENCE: Duration = Duration::from_secs(10);

/// Explain a failing trial or a core file
///
/// Shows the signal, the stack with functions and lines, and the output of the program. The program and
/// its libraries are read from their original paths; for a core from a container or another machine, use
/// --root with a copy of its file system. No debugger is needed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExplainArgs {
    /// A trial (last#17), a run (the failure with the most evidence), or a core file
    #[arg(value_name = "CORE|RUN[#TRIAL]")]
    what: PathBuf,
    /// The program, if it is no longer at its original path
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Directory with debug files, in addition to /usr/lib/debug
    #[arg(long, value_name = "DIR")]
    debug_dir: Vec<PathBuf>,
    /// Root directory of the program: the root of a container, or a copy of it
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// CPU that the program ran on, as a QEMU model such as SandyBridge [default: this CPU]
    #[arg(long, value_name = "MODEL", value_parser = parse_model)]
    cpu: Option<BTreeSet<String>>,
    /// Add the output of these tools: gdb, eu-stack, pystack, py-spy
    #[arg(long, value_name = "TOOL", value_delimiter = ',', value_parser = parse_tool)]
    with: Vec<Tool>,
    /// Show every register and every thread in full
    #[arg(short, long)]
    verbose: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  Explain the failure of the last run with the most evidence:
    provoke explain last
  Explain trial 17 of the last run:
    provoke explain last#17
  Explain a core file:
    provoke explain core.1234";

impl Execute for ExplainArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let analysis = CoreAnalysis {
            program: self.program,
            debug_dirs: self.debug_dir,
            root: self.root,
            processor: self.cpu,
            tools: self.with,
        };
        let explanation = Explanation::of_name(&self.what, &analysis)?;
        if self.json {
            term::print_result(&explanation.to_json())?;
        } else {
            term::print_page(&explanation.to_story(self.verbose, term::page_width()))?;
        }
        Ok(Exit::GoodAnswer)
    }
}

fn parse_model(name: &str) -> Result<BTreeSet<String>, String> {
    let path = std::env::var_os("PATH");
    let emulator = spawn::find_program(OsStr::new("qemu-x86_64"), path.as_deref(), Path::new("/"))
        .map_err(|_| "`qemu-x86_64`, which knows the processors, is not installed".to_owned())?;
    let ourselves = std::env::current_exe().map_err(|error| error.to_string())?;
    let deadline = Instant::now() + PATIENCE;
    processor::flags_of_model(&emulator, name, &ourselves, deadline).ok_or_else(|| {
        format!("the processor `{name}` is not known; `qemu-x86_64 -cpu help` lists the processors of QEMU")
    })
}

fn parse_tool(name: &str) -> Result<Tool, String> {
    let known_tool = Tool::ALL.into_iter().find(|tool| tool.name() == name);
    known_tool.ok_or_else(|| "write gdb, eu-stack, pystack or py-spy".to_owned())
}
