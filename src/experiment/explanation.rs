//! Explains what a name stands for: a core file, a trial of a run, or the trial of a run with the most evidence.

use super::core_analysis::CoreAnalysis;
use super::stored_trial::StoredTrial;
use provoke_journal::StoreError;
use provoke_model::Autopsy;
use provoke_report::story::crash_story;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::safe_json;
use serde::Serialize;
use std::path::Path;

/// An explained core or trial.
#[derive(Debug)]
pub enum Explanation {
    /// A core file.
    Core(Box<Autopsy>),
    /// A trial, with the analyses of its cores.
    Trial(Box<StoredTrial>, Vec<Autopsy>),
}

impl Explanation {
    /// Analyses a core file, reads a trial such as `last#17`, or reads the failing trial of a run with the most evidence.
    pub fn of_name(name: &Path, analysis: &CoreAnalysis) -> Result<Self, Diagnostic> {
        if name.is_file() {
            return Ok(Self::Core(Box::new(analysis.examine_core(name)?)));
        }
        let name = name.to_string_lossy();
        let no_run = |error: &StoreError| neither_core_nor_run(&name, error);
        let trial = StoredTrial::find_ended(&name, no_run)?;
        let autopsies = trial.autopsies(analysis)?;
        Ok(Self::Trial(Box::new(trial), autopsies))
    }

    /// Returns the analyses as JSON.
    pub fn to_json(&self) -> String {
        match self {
            Self::Core(autopsy) => pretty_json(autopsy),
            Self::Trial(_, autopsies) => pretty_json(autopsies),
        }
    }

    /// Describes the crash or the trial.
    pub fn to_story(&self, verbose: bool, width: usize) -> String {
        match self {
            Self::Core(autopsy) => crash_story(autopsy, verbose, width),
            Self::Trial(trial, autopsies) => trial.to_story(autopsies, verbose, width),
        }
    }
}

fn pretty_json(content: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(content).expect("an analysis is plain data");
    format!("{}\n", safe_json(&json))
}

fn neither_core_nor_run(name: &str, no_run: &StoreError) -> Diagnostic {
    let message = format!("found neither a core file nor a run `{name}`");
    Diagnostic::usage(message).with_hint(if name.parse::<u64>().is_ok() {
        format!("for trial {name} of the last run: provoke explain last#{name}")
    } else {
        no_run.hint()
    })
}
