//! Keeps the trials that were launched and are not counted yet.

use super::early_trials::EarlyTrials;
use super::trial_facts::TrialFacts;
use provoke_model::{Trial, TrialId, VariantId};
use std::collections::{BTreeMap, BTreeSet};

/// Trials that were launched and did not enter the tally yet.
#[derive(Debug, Default)]
pub(super) struct TrialQueue {
    /// All trials from the first uncounted one on.
    pub(super) open: BTreeMap<TrialId, OpenTrial>,
    /// Open trials that must be retried: a hanging trial can make `open` long, so they have their own set.
    pub(super) retries: BTreeSet<TrialId>,
    pub(super) launched: u64,
    /// The variant that was launched last.
    pub(super) last_launched: Option<VariantId>,
    pub(super) early_trials: EarlyTrials,
    /// The open trials of the measurement, while it is paused.
    pub(super) paused: Option<PausedTrials>,
}

/// The uncounted trials of the measurement; they continue when the run is resumed.
#[derive(Debug)]
pub(super) struct PausedTrials {
    pub(super) open: BTreeMap<TrialId, OpenTrial>,
    pub(super) retries: BTreeSet<TrialId>,
    pub(super) last_counted: TrialId,
}

#[derive(Debug)]
pub(super) enum OpenTrial {
    /// The trial, and how often it was lost.
    Running(Trial, u32),
    /// To be retried under the same number.
    Again(Trial, u32),
    Finished(Trial, TrialFacts),
}

impl OpenTrial {
    pub(super) fn trial(&self) -> &Trial {
        match self {
            Self::Running(trial, _) | Self::Again(trial, _) | Self::Finished(trial, _) => trial,
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        matches!(self, Self::Finished(..))
    }
}
