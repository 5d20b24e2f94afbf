//! Analyses a core file, also with other tools.

use super::helper::refuse_helper;
use provoke_autopsy::tools::{self, Tool};
use provoke_autopsy::{ExaminerClient, ExaminerSettings};
use provoke_model::{Autopsy, Text};
use provoke_sys::host;
use provoke_words::diagnostic::Diagnostic;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How to analyse a core.
#[derive(Clone, Debug, Default)]
pub struct CoreAnalysis {
    /// The program, if it is no longer at its original path.
    pub program: Option<PathBuf>,
    /// Directories with debug files, in addition to those of the system.
    pub debug_dirs: Vec<PathBuf>,
    /// Root directory of the program.
    pub root: Option<PathBuf>,
    /// Flags of the CPU that the program ran on; `None` for those of this one.
    pub processor: Option<BTreeSet<String>>,
    /// Tools whose output is added.
    pub tools: Vec<Tool>,
}

impl CoreAnalysis {
    /// Analyses a core.
    pub fn examine_core(&self, core: &Path) -> Result<Autopsy, Diagnostic> {
        let mut settings = ExaminerSettings {
            root: self.root.clone().map(Text::from),
            program: self.program.clone().map(Text::from),
            processor: self.processor.clone().or_else(host::processor_flags),
            ..ExaminerSettings::default()
        };
        settings
            .debug_dirs
            .splice(0..0, self.debug_dirs.iter().map(Text::from));
        refuse_helper()?;
        let binary = std::env::current_exe()?;
        let mut examiner = ExaminerClient::new(&binary, settings, tools::PATIENCE);
        let mut autopsy = examiner.examine_core(core)?;
        tools::ask_for_python(&mut autopsy, core, tools::PATIENCE);
        let program = self
            .program
            .clone()
            .unwrap_or_else(|| tools::program_path(&autopsy));
        for tool in &self.tools {
            let name = tool.name();
            if autopsy.tools.iter().any(|(tool_name, _)| tool_name == name) {
                continue;
            }
            match tool.ask_about_core(core, &program, tools::PATIENCE) {
                Some(output) => autopsy.tools.push((name.to_owned(), output)),
                None => autopsy
                    .gaps
                    .push(format!("{name} is not installed, or printed nothing")),
            }
        }
        Ok(autopsy)
    }
}
