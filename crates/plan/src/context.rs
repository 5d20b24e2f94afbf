//! Facts that a plan takes from the place where provoke runs.

use provoke_model::{
    CandidateFacts, HeldPlan, MeasuredBaseline, Preparation, ReducedSource, Text, VariantChoices,
};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;

/// Facts that the plan takes from the place where provoke runs.
#[derive(Clone, Debug)]
pub struct PlanContext {
    /// The environment variables.
    pub environment: Vec<(Text, Text)>,
    /// The directory to which relative paths refer.
    pub base: PathBuf,
    /// The seed, unless the scenario gives one.
    pub seed: u64,
    /// The candidates or items, if the scenario alone does not define them.
    pub searched: Option<SearchSources>,
    /// The counts of the baseline, if one was named.
    pub baseline: Option<MeasuredBaseline>,
    /// The holds of every trial.
    pub held: Option<HeldPlan>,
}

impl PlanContext {
    /// Returns the environment of this process, and a random seed.
    pub fn of_this_process(base: PathBuf) -> Self {
        let environment = std::env::vars_os().map(|(name, value)| (name.into(), value.into()));
        // As random as the keys of the standard library's maps; 53 bits, as for trials.
        let seed = RandomState::new().build_hasher().finish() >> 11;
        Self {
            environment: environment.collect(),
            base,
            seed,
            baseline: None,
            held: None,
            searched: None,
        }
    }
}

/// The candidates or items that a scenario refers to: commits, packages, parts of files.
#[derive(Clone, Debug)]
pub struct SearchSources {
    /// The set of possible choices.
    pub choices: VariantChoices,
    /// The files of which pieces are left out.
    pub sources: Vec<ReducedSource>,
    /// How a variant is prepared.
    pub make: Option<Preparation>,
    /// A directory, and its replacement for a variant, which contains `{made}`.
    pub moved: Option<(PathBuf, String)>,
    /// The repository of the commits.
    pub repository: Option<Text>,
    /// Directories that are put before PATH.
    pub path: Vec<String>,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Default number of variants that are prepared at the same time.
    pub parallel_builds: Option<u32>,
    /// Weight of each candidate as the first that fails.
    pub weights: Vec<u64>,
    /// Known counts of candidates.
    pub known: Vec<CandidateFacts>,
}

impl From<VariantChoices> for SearchSources {
    fn from(choices: VariantChoices) -> Self {
        Self {
            choices,
            sources: Vec::new(),
            make: None,
            moved: None,
            repository: None,
            path: Vec::new(),
            env: Vec::new(),
            parallel_builds: None,
            weights: Vec::new(),
            known: Vec::new(),
        }
    }
}

impl SearchSources {
    /// Reverses a list whose first candidate is bad, so that the first is always good.
    pub(super) fn reverse_list(&mut self) {
        if let VariantChoices::Candidates(candidates) = &mut self.choices {
            candidates.reverse();
            let last = u32::try_from(candidates.len())
                .unwrap_or(u32::MAX)
                .saturating_sub(1);
            for facts in &mut self.known {
                facts.place = last - facts.place.min(last);
            }
        }
        // The weights are for the fix: in this order, for the candidate before the one that fails.
        self.weights.reverse();
        if !self.weights.is_empty() {
            self.weights.rotate_right(1);
        }
    }
}
