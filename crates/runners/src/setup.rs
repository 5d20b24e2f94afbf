//! Variables and files that a slot prepares for the cases of its trials.

use provoke_model::{CaseOrder, Text};
use std::path::Path;

/// Stands in arguments, values and files for the folder of the trial's reports.
pub(crate) const CASES_MARK: &str = "{cases}";

/// What a slot prepares for the cases of its trials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseSetup {
    /// Variables of the trial; the values may contain marks.
    pub variables: Vec<(String, String)>,
    /// Files in the folder of the reports; their texts may contain marks.
    pub files: Vec<(String, String)>,
    /// Whether the complete stdout is written to the folder of the reports.
    pub spools_stdout: bool,
}

/// The cases of the trials, their environment, and the folder with their folders.
pub struct TrialPlace<'a> {
    /// The order of the cases, if the runner does not choose it.
    pub(crate) order: Option<&'a CaseOrder>,
    pub(crate) environment: &'a [(Text, Text)],
    pub(crate) trials: &'a Path,
}

impl CaseSetup {
    /// Adds a variable with the path of a file in the folder of the reports.
    pub(crate) fn add_path_variable(&mut self, name: &str, file: &str) {
        self.add_variable(name, &format!("{CASES_MARK}/{file}"));
    }

    pub(crate) fn add_variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }
}
