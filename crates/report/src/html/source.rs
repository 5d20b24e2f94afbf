//! Collects the data of a page: the report, its trials, and the evidence of its failures.

use super::trials::TrialTotals;
use crate::failure_evidence::FailureEvidence;
use crate::issue::Issue;
use crate::{ExportError, Masked, MaskedRun, Report, group_failures, next_commands};
use provoke_journal as journal;
use provoke_journal::RunFolder;
use provoke_questions as questions;
use provoke_questions::PooledBaseline;
use provoke_words::document::SuggestedCommand;

/// Maximum number of failures with evidence.
pub(super) const FAILURES: usize = 20;

/// Choices for a page.
#[derive(Clone, Debug, Default)]
pub struct PageOptions {
    /// Its title, before that of the run.
    pub title: Option<String>,
    /// Whether the output of trials is left out.
    pub without_output: bool,
    /// Whether the name of the machine is shown.
    pub with_host: bool,
    /// The baseline of a fix together with earlier runs.
    pub pooled: Option<PooledBaseline>,
}

/// How much a page contains, so that its size is limited.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageDetail {
    /// Whether the output of trials is shown.
    pub(super) output: bool,
    /// Number of failures with evidence.
    pub(super) evidence: usize,
    /// Number of rows of a table.
    pub(super) rows: usize,
}

/// The data of a page about one run.
pub(super) struct PageSource<'a> {
    pub(super) report: Masked<&'a Report>,
    pub(super) trials: TrialTotals,
    /// The evidence of the first groups of failures of each variant.
    pub(super) evidence: Vec<Vec<FailureEvidence>>,
    pub(super) issue: Issue,
    pub(super) commands: Vec<SuggestedCommand>,
    /// The home directory of the user who made the run.
    pub(super) home: Option<String>,
    pub(super) options: &'a PageOptions,
}

impl<'a> PageSource<'a> {
    /// Reads the data from the directory of a run; secrets are masked.
    pub(super) fn read_from(
        run: &'a MaskedRun<'_>,
        environment: bool,
        options: &'a PageOptions,
    ) -> Result<Self, ExportError> {
        let (folder, report) = (run.folder(), run.report());
        let mut left = FAILURES;
        let mut read_evidence = |group: &_| {
            left = left.checked_sub(1)?;
            Some(FailureEvidence::read_from(group, run))
        };
        let evidence = report.variants.iter().map(|variant| {
            let groups = group_failures(variant);
            groups.iter().map_while(&mut read_evidence).collect()
        });
        let evidence = evidence.collect();
        let mut trials = TrialTotals::read_from(run)?;
        if !report.hosts.is_empty() {
            // The trials had the environment of the hosts.
            let state = journal::read_masked(&folder.journal_path(), questions::FOLD)?;
            (_, trials.recorded.survey) = state.trial_environment();
        }
        let plan = trials.recorded.plan.as_deref().cloned();
        let issue = plan.map_or_else(Issue::default, |plan| {
            let recorded = (plan, &trials.recorded.survey);
            Issue::of_plan(run, environment, recorded)
        });
        Ok(Self {
            report,
            trials,
            evidence,
            issue,
            commands: next_commands(&report, &report.reference, options.pooled),
            home: home_directory(folder)?,
            options,
        })
    }
}

/// Returns the home directory in the recorded environment of a run.
pub(super) fn home_directory(folder: &RunFolder) -> Result<Option<String>, ExportError> {
    let start = journal::read_start(&folder.journal_path())?;
    let mut variables = start.plan.trials.environment.iter();
    let home = variables.find(|(name, _)| name.as_bytes() == b"HOME");
    let home = home.map(|(_, value)| value.to_string());
    Ok(home.filter(|home| home.starts_with('/') && home.len() > 2 && !home.ends_with('/')))
}
