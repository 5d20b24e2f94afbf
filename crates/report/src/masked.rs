//! A run with its secrets replaced: the only form in which exporters get it.

use super::Report;
use provoke_journal as journal;
use provoke_journal::{RunFolder, Secrets, StoreError};
use provoke_questions as questions;
use std::ops::Deref;
use std::path::PathBuf;

/// Data of a run in which its secrets are replaced. Only [`MaskedRun`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct Masked<T>(T);

impl<'a, T> Masked<&'a T> {
    /// Returns the data.
    pub fn get(self) -> &'a T {
        self.0
    }
}

impl<T> Deref for Masked<&T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

/// A run that others may see: its report and its directory, both with the secrets replaced.
pub struct MaskedRun<'a> {
    folder: &'a RunFolder,
    secrets: Secrets,
    report: &'a Report,
    /// The report with the secrets replaced, if the run has any.
    without_secrets: Option<Report>,
}

impl<'a> MaskedRun<'a> {
    /// Replaces the secrets of a run with this report.
    pub fn new(folder: &'a RunFolder, report: &'a Report) -> Result<Self, StoreError> {
        let journal = folder.journal_path();
        let secrets = Secrets::of_run(&journal)?;
        let without_secrets = if secrets.is_empty() {
            None
        } else {
            let state = journal::read_masked(&journal, questions::FOLD)?;
            Some(Report::new(&state, report.journal_complete))
        };
        Ok(Self {
            folder,
            secrets,
            report,
            without_secrets,
        })
    }

    /// Returns the report.
    pub fn report(&self) -> Masked<&Report> {
        Masked(self.without_secrets.as_ref().unwrap_or(self.report))
    }

    pub(super) fn folder(&self) -> &'a RunFolder {
        self.folder
    }

    /// Returns the directory of a trial. What is read from it may contain secrets.
    pub(super) fn trial_folder(&self, trial: u64) -> PathBuf {
        self.folder.trials_path().join(trial.to_string())
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }
}
