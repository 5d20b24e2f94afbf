//! Settings with other numbers of parallel trials and copies than the plan has.

use super::{TrialsPlan, VariantId, VariantPlan, is_default};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Numbers of parallel processes that differ from the plan: with more of them a failure may be more frequent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParallelSetting {
    /// Parallel trials.
    #[serde(skip_serializing_if = "is_default")]
    pub jobs: Option<u32>,
    /// Whether the trials start in groups, each after the one before has ended.
    #[serde(skip_serializing_if = "is_default")]
    pub waves: bool,
    /// Copies of the main command in each trial.
    #[serde(skip_serializing_if = "is_default")]
    pub copies: Option<u32>,
}

/// Maximum number of parallel trials of a setting: a search is too short to gain from more.
const MAX_JOBS: u32 = 8;
/// Maximum number of copies of the command in a trial: each needs memory.
const MAX_COPIES: u32 = 16;

impl ParallelSetting {
    /// Returns whether these are the conditions of the plan itself.
    pub fn is_as_planned(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the settings to try: twice as many processes as CPUs, in each way in which the plan has fewer.
    fn candidate_settings(plan: &TrialsPlan, cpus: u32) -> Vec<Self> {
        let processes = cpus.saturating_mul(2).max(2);
        let (jobs, copies) = (processes.min(MAX_JOBS), processes.min(MAX_COPIES));
        let mut settings = Vec::new();
        if plan.main_copies().is_some_and(|planned| planned < copies) {
            settings.push(Self {
                copies: Some(copies),
                ..Self::default()
            });
        }
        if plan.jobs < jobs && !plan.waves {
            settings.push(Self {
                jobs: Some(jobs),
                ..Self::default()
            });
        }
        if plan.jobs < jobs || !plan.waves {
            settings.push(Self {
                jobs: Some(jobs.max(plan.jobs)),
                waves: true,
                copies: None,
            });
        }
        settings
    }
}

impl fmt::Display for ParallelSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.jobs, self.waves, self.copies) {
            (_, _, Some(copies)) => write!(f, "--copies {copies}"),
            (Some(jobs), true, None) => write!(f, "--wave {jobs}"),
            (Some(jobs), false, None) => write!(f, "-j {jobs}"),
            (None, _, None) => f.write_str("as planned"),
        }
    }
}

impl TrialsPlan {
    /// Adds the failing variant under several settings to a search, first under the conditions of the plan. These
    /// variants run in the directory of the failing variant.
    pub fn add_settings(&mut self, cpus: u32) {
        let Some(failing) = self.variants.first().cloned() else {
            return;
        };
        let candidates = ParallelSetting::candidate_settings(self, cpus);
        if candidates.is_empty() {
            return;
        }
        for setting in [vec![ParallelSetting::default()], candidates].concat() {
            let mut variant = VariantPlan {
                setting: Some(setting),
                choice: None,
                make: None,
                ..failing.clone()
            };
            (variant.hooks.setup, variant.hooks.cleanup) = (None, None);
            set_copies(&mut variant, setting);
            self.variants.push(variant);
        }
    }

    /// Returns the variants that have a setting.
    pub fn variant_settings(&self) -> impl Iterator<Item = (VariantId, ParallelSetting)> {
        let variants = (0..).map(VariantId).zip(&self.variants);
        variants.filter_map(|(id, variant)| Some((id, variant.setting?)))
    }

    /// Applies a setting to the whole plan.
    pub fn use_setting(&mut self, setting: ParallelSetting) {
        if let Some(jobs) = setting.jobs {
            (self.jobs, self.waves) = (jobs, setting.waves);
        }
        let template = self.space.as_mut().map(|space| &mut space.template);
        for variant in self.variants.iter_mut().take(1).chain(template) {
            set_copies(variant, setting);
        }
    }

    /// Returns the parallel trials of a variant.
    pub fn jobs_of(&self, variant: &VariantPlan) -> u32 {
        let setting = variant.setting.and_then(|setting| setting.jobs);
        setting.unwrap_or(self.jobs)
    }

    /// Returns the largest number of parallel trials among the variants.
    pub fn most_jobs(&self) -> u32 {
        let jobs = self.variants.iter().map(|variant| self.jobs_of(variant));
        jobs.max().unwrap_or(self.jobs)
    }

    /// Returns the number of copies of the main command, if the plan has only one main command.
    fn main_copies(&self) -> Option<u32> {
        let mut mains = self.variants.first()?.actors.iter();
        let main = mains.find(|actor| actor.role.decides_outcome())?;
        let several = mains.any(|actor| actor.role.decides_outcome());
        (!several).then_some(main.copies)
    }
}

fn set_copies(variant: &mut VariantPlan, setting: ParallelSetting) {
    let mut actors = variant.actors.iter_mut();
    let main = actors.find(|actor| actor.role.decides_outcome());
    if let (Some(main), Some(copies)) = (main, setting.copies) {
        main.copies = copies;
    }
}

impl VariantPlan {
    /// Returns its name and its setting, if it has one.
    pub fn display_label(&self) -> String {
        match self.setting {
            Some(setting) => format!("{}, {setting}", self.name),
            None => self.name.clone(),
        }
    }
}
