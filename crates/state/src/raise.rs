//! Trials of the failing variant under several settings, before a search.

use super::{State, TrialFacts};
use provoke_model::{Failure, Outcome, TrialsPlan, VariantId};
use std::time::Duration;

/// The settings that are tried before a search.
#[derive(Debug)]
pub struct TriedSettings {
    /// The conditions of the plan first, then the settings.
    pub settings: Vec<TriedSetting>,
    /// The setting that the search uses, once it is chosen.
    pub chosen: Option<VariantId>,
}

/// The failing variant under one setting.
#[derive(Debug)]
pub struct TriedSetting {
    /// The variant of the plan with this setting.
    pub variant: VariantId,
    /// Number of parallel trials.
    pub jobs: u32,
    /// Trials in launch order: the number of the batch of parallel trials, and the outcome.
    pub outcomes: Vec<(u64, TriedOutcome)>,
    /// Working time of all of them.
    pub time: Duration,
}

/// How a trial under a setting ended.
#[derive(Debug)]
pub enum TriedOutcome {
    /// It passed.
    Passed,
    /// It failed after this time, probably by the bug.
    Failed(Box<Failure>, Duration),
    /// It failed in another way.
    Otherwise,
}

impl TriedSettings {
    pub(super) fn new(plan: &TrialsPlan) -> Option<Self> {
        let settings: Vec<TriedSetting> = plan
            .variant_settings()
            .map(|(variant, _)| TriedSetting {
                variant,
                jobs: plan.jobs_of(plan.variant_plan(variant)),
                outcomes: Vec::new(),
                time: Duration::ZERO,
            })
            .collect();
        (settings.len() > 1).then_some(Self {
            settings,
            chosen: None,
        })
    }

    /// Returns the trials under the conditions of the plan.
    pub fn natural_trials(&self) -> &TriedSetting {
        &self.settings[0]
    }

    /// Returns the trials under each setting.
    pub fn tried_settings(&self) -> &[TriedSetting] {
        &self.settings[1..]
    }

    pub(super) fn add_time(&mut self, variant: VariantId, time: Duration) {
        if let Some(tried) = self
            .settings
            .iter_mut()
            .find(|setting| setting.variant == variant)
        {
            tried.time = tried.time.saturating_add(time);
        }
    }

    /// Adds the next trial of a variant, in launch order.
    pub(super) fn add_trial(&mut self, variant: VariantId, facts: &TrialFacts) {
        let Some(tried) = self
            .settings
            .iter_mut()
            .find(|setting| setting.variant == variant)
        else {
            return;
        };
        let batch = tried.outcomes.len() as u64 / u64::from(tried.jobs.max(1));
        let outcome = match &facts.outcome {
            Outcome::Pass => TriedOutcome::Passed,
            Outcome::Fail(failure) => TriedOutcome::Failed(failure.clone(), facts.elapsed),
            Outcome::Other(_) => TriedOutcome::Otherwise,
            Outcome::Inconclusive(_) => return,
        };
        tried.outcomes.push((batch, outcome));
    }
}

impl State {
    /// Returns the settings that are being tried, until one is chosen.
    pub fn undecided_raise(&self) -> Option<&TriedSettings> {
        self.raise.as_ref().filter(|raise| raise.chosen.is_none())
    }

    /// Returns the variant whose failures define the bug: the failing variant under the conditions of the plan.
    pub fn shows_the_bug(&self) -> VariantId {
        let raise = self.raise.as_ref();
        let natural = raise.map(|raise| raise.natural_trials().variant);
        natural
            .filter(|natural| raise.is_some_and(|raise| raise.chosen != Some(*natural)))
            .unwrap_or(Self::FAILING)
    }
}
