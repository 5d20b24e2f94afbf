//! `explain`: shows the analysis of a core, or of a trial.

use super::error::CliError;
use super::exit::Exit;
use crate::autopsy::cpu_features::flags_of_model;
use crate::autopsy::tools::Tool;
use crate::experiment::{CoreAnalysis, StoredTrial, best_trial};
use crate::report::story::crash_story;
use crate::store::{RunFolder, StoreError, default_root};
use crate::term;
use crate::untrusted::safe_json;
use clap::Args;
use std::collections::BTreeSet;
use std::path::PathBuf;

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

impl ExplainArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let name = self.what.to_string_lossy();
        if !self.what.is_file() {
            if name.contains('#') {
                return self.explain_trial(&name);
            }
            return match RunFolder::find_run(&name, &default_root()) {
                Ok(folder) => self.explain_trial(&best_trial(&folder)?),
                Err(no_run @ StoreError::NoRun { .. }) => {
                    let error = anyhow::anyhow!("found neither a core file nor a run `{name}`");
                    let hint = if name.parse::<u64>().is_ok() {
                        format!("for trial {name} of the last run: provoke explain last#{name}")
                    } else {
                        no_run.hint().unwrap_or_default()
                    };
                    Err(CliError::usage(error).with_hint(hint))
                }
                Err(error) => Err(error.into()),
            };
        }
        let autopsy = self.core_analysis().examine_core(&self.what)?;
        self.print_story(&autopsy, || {
            crash_story(&autopsy, self.verbose, term::page_width())
        })
    }

    fn explain_trial(&self, name: &str) -> Result<Exit, CliError> {
        let stored = StoredTrial::read(name)?;
        let autopsies = stored.autopsies(&self.core_analysis())?;
        self.print_story(&autopsies, || {
            stored.to_story(&autopsies, self.verbose, term::page_width())
        })
    }

    fn core_analysis(&self) -> CoreAnalysis {
        CoreAnalysis {
            program: self.program.clone(),
            debug_dirs: self.debug_dir.clone(),
            root: self.root.clone(),
            processor: self.cpu.clone(),
            tools: self.with.clone(),
        }
    }

    fn print_story<T: serde::Serialize>(
        &self,
        content: &T,
        story: impl FnOnce() -> String,
    ) -> Result<Exit, CliError> {
        let printed = if self.json {
            let json = serde_json::to_string_pretty(content).map_err(CliError::could_not)?;
            term::print_result(&format!("{}\n", safe_json(&json)))
        } else {
            term::print_page(&story())
        };
        printed?;
        Ok(Exit::Hoped)
    }
}

fn parse_model(name: &str) -> Result<BTreeSet<String>, String> {
    flags_of_model(name).ok_or_else(|| {
        format!("the processor `{name}` is not known; `qemu-x86_64 -cpu help` lists the processors of QEMU")
    })
}

fn parse_tool(name: &str) -> Result<Tool, String> {
    let known_tool = Tool::ALL.into_iter().find(|tool| tool.name() == name);
    known_tool.ok_or_else(|| "write gdb, eu-stack, pystack or py-spy".to_owned())
}
