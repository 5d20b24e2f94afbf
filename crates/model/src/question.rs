//! Questions that a run answers.

use super::{
    Baseline, CodeScope, ExcludedRun, Failure, HoldPoint, Item, ItemKind, KnownBug,
    MeasuredBaseline, RunCounts, SignatureId, TrialsPlan, VariantChoices, VariantId, is_default,
};
use serde::{Deserialize, Serialize};

/// The question that a run answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// How often does the program fail?
    #[default]
    Rate,
    /// Is the bug fixed?
    Confirm(ConfirmQuestion),
    /// Which variants fail, and do they differ?
    Compare(CompareQuestion),
    /// Which candidate of an ordered list is the first that fails?
    Bisect(BisectQuestion),
    /// Which is the smallest set of items that keeps the failure?
    Reduce(SearchQuestion),
    /// At which concurrency does it fail?
    Ramp(RampQuestion),
    /// Under which schedule does the program fail in most runs?
    Hunt(HuntQuestion),
    /// Under which conditions does it fail?
    Why(WhyQuestion),
    /// What do failing trials do differently?
    Differ(DifferQuestion),
}

/// A search for what failing trials do differently before the failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DifferQuestion {
    /// The files whose code is observed.
    pub scope: CodeScope,
    /// The failure that is looked for, if an earlier run has it.
    #[serde(skip_serializing_if = "is_default")]
    pub known: Option<Box<KnownCrash>>,
}

/// A search for the conditions under which a program fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhyQuestion {
    /// The failure that is looked for, if an earlier run has it.
    #[serde(skip_serializing_if = "is_default")]
    pub known: Option<Box<KnownCrash>>,
    /// Conditions of the plan's space that this machine cannot set.
    #[serde(skip_serializing_if = "is_default")]
    pub untested: Vec<UntestedCondition>,
}

/// A condition that a machine cannot set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntestedCondition {
    /// The item.
    pub item: u32,
    /// Why not, and what would make it available.
    pub reason: String,
}

/// A search for the schedule under which a program fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HuntQuestion {
    /// The files whose instructions are tried.
    pub scope: CodeScope,
    /// Functions that are tried first, because a known crash has them on its stack.
    #[serde(skip_serializing_if = "is_default")]
    pub first: Vec<String>,
    /// Points that are tried before all others, because failing trials differ there.
    #[serde(skip_serializing_if = "is_default")]
    pub leading: Vec<HoldPoint>,
    /// The crash that is looked for, if an earlier run has it.
    #[serde(skip_serializing_if = "is_default")]
    pub known: Option<Box<KnownCrash>>,
}

/// The crashes of an earlier run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownCrash {
    /// Name of the run.
    pub run: String,
    /// Its bugs.
    pub bugs: Vec<KnownBug>,
}

/// What a load finds out about a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LoadGoal {
    /// Whether it dies.
    #[default]
    Death,
    /// Whether it refuses most requests; its death counts as well.
    Refusal,
}

/// A search for the lowest failing load level; the plan's variants are the levels in ascending order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RampQuestion {
    /// The failure rate, in millionths, from which on a level counts as failing.
    pub detect: u32,
    /// Whether a level at twice the answer is tried as well, because more load may not fail more often.
    #[serde(default, skip_serializing_if = "is_default")]
    pub above: bool,
}

/// A search in the plan's space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchQuestion {
    /// Whether a good variant never fails, because other failures are distinguished from the bug.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clean: bool,
    /// Whether every failure is the bug, not only the one that the failing variant shows most often.
    #[serde(default, skip_serializing_if = "is_default")]
    pub any_failure: bool,
    /// Number of trials of the failing variant after which the search gives up reproducing the failure.
    pub reproduce: u64,
    /// How the failure rate of the failing variant becomes known.
    #[serde(flatten)]
    pub failing_rate: FailingRate,
    /// Trials of the failing variant in earlier runs; `None` without such runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub earlier: Option<EarlierTrials>,
}

/// How a search learns the failure rate of the failing variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "FailingRateFlags", into = "FailingRateFlags")]
pub enum FailingRate {
    /// From earlier runs, if there are any, and its own trials.
    #[default]
    EarlierRuns,
    /// Only from its own trials.
    ThisRun,
    /// From its own trials under the setting under which it fails most often; the search looks for this setting first.
    Raised,
}

/// A [`FailingRate`] in a journal.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct FailingRateFlags {
    #[serde(skip_serializing_if = "is_default")]
    raise_rate: bool,
    #[serde(skip_serializing_if = "is_default")]
    ignore_earlier: bool,
}

impl From<FailingRateFlags> for FailingRate {
    fn from(flags: FailingRateFlags) -> Self {
        match flags {
            FailingRateFlags {
                raise_rate: true, ..
            } => Self::Raised,
            FailingRateFlags {
                ignore_earlier: true,
                ..
            } => Self::ThisRun,
            FailingRateFlags { .. } => Self::EarlierRuns,
        }
    }
}

impl From<FailingRate> for FailingRateFlags {
    fn from(rate: FailingRate) -> Self {
        Self {
            raise_rate: rate == FailingRate::Raised,
            ignore_earlier: rate == FailingRate::ThisRun,
        }
    }
}

impl SearchQuestion {
    /// Returns whether it looks for a setting under which the failing variant fails more often.
    pub fn raises_rate(&self) -> bool {
        self.failing_rate == FailingRate::Raised
    }

    fn is_sound(&self) -> bool {
        let earlier = self.earlier.as_ref();
        earlier.is_none_or(|earlier| earlier.failures <= earlier.trials)
    }

    /// Continues under the setting that was found. Earlier runs had another one.
    pub fn keep_setting(&mut self) {
        if self.raises_rate() {
            self.failing_rate = FailingRate::ThisRun;
        }
    }
}

/// A search along a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BisectQuestion {
    /// The settings that all searches have.
    #[serde(flatten)]
    pub search: SearchQuestion,
    /// Whether the list began with the failing end, so that the search finds the last failing candidate before a fix.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fixed: bool,
    /// Whether the search continues for more boundaries after an answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub all: bool,
    /// Number of clean trials that is enough for a candidate between two good ends, if it is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inside: Option<u64>,
}

/// Trials of the failing variant in earlier runs of the same program under the same conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EarlierTrials {
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// One of each of these failures; none if the plan defines which failures are the bug.
    pub failed: Vec<Failure>,
    /// The runs of these trials.
    #[serde(skip_serializing_if = "is_default")]
    pub runs: Vec<RunCounts>,
    /// Runs of the same command that do not count.
    #[serde(skip_serializing_if = "is_default")]
    pub left_out: Vec<ExcludedRun>,
}

impl Question {
    /// Returns whether the question is how often the program fails.
    pub fn is_rate(&self) -> bool {
        matches!(self, Self::Rate)
    }

    /// Returns the search in a space, along a list or among sets.
    pub fn as_search(&self) -> Option<&SearchQuestion> {
        match self {
            Self::Bisect(question) => Some(&question.search),
            Self::Reduce(question) => Some(question),
            _ => None,
        }
    }

    /// Returns the search in a space, to change it.
    pub fn as_search_mut(&mut self) -> Option<&mut SearchQuestion> {
        match self {
            Self::Bisect(question) => Some(&mut question.search),
            Self::Reduce(question) => Some(question),
            _ => None,
        }
    }
}

/// Defines functions that return the question of one variant, to read it and to change it.
macro_rules! accessors {
    ($($variant:ident($question:ident), $meaning:literal: $get:ident $(, $get_mut:ident)?;)*) => {
        impl Question {
            $(
                #[doc = concat!("Returns the ", $meaning, ".")]
                pub fn $get(&self) -> Option<&$question> {
                    match self {
                        Self::$variant(question) => Some(question),
                        _ => None,
                    }
                }

                $(
                    #[doc = concat!("Returns the ", $meaning, ", to change it.")]
                    pub fn $get_mut(&mut self) -> Option<&mut $question> {
                        match self {
                            Self::$variant(question) => Some(question),
                            _ => None,
                        }
                    }
                )?
            )*
        }
    };
}

accessors! {
    Confirm(ConfirmQuestion), "question whether the bug is fixed": as_confirm, as_confirm_mut;
    Compare(CompareQuestion), "comparison of variants": as_compare;
    Bisect(BisectQuestion), "search along a list": as_bisect, as_bisect_mut;
    Reduce(SearchQuestion), "search for the smallest failing set": as_reduce;
    Ramp(RampQuestion), "search for the lowest failing load level": as_ramp;
    Why(WhyQuestion), "search for conditions": as_why, as_why_mut;
    Differ(DifferQuestion), "search for what failing trials do differently": as_differ;
    Hunt(HuntQuestion), "search for a schedule": as_hunt;
}

impl Question {
    /// Returns whether trials are as the question needs them; only a damaged file contains others.
    pub(super) fn fits_trials(&self, plan: &TrialsPlan) -> bool {
        let searches = matches!(self, Self::Bisect(_) | Self::Reduce(_) | Self::Why(_));
        let choices_fit = match &plan.space {
            Some(space) => searches && space.fits_variants(&plan.variants),
            None => !searches && plan.variants.iter().all(|variant| variant.choice.is_none()),
        };
        let choices = plan.space.as_ref().map(|space| &space.choices);
        choices_fit
            && match self {
                Self::Rate | Self::Confirm(_) => true,
                Self::Hunt(_) | Self::Differ(_) => plan.variants.len() == 1,
                Self::Compare(question) => question.reference.index() < plan.variants.len(),
                Self::Bisect(question) => {
                    question.search.is_sound()
                        && matches!(choices, Some(VariantChoices::Candidates(_)))
                }
                Self::Reduce(question) => {
                    question.is_sound() && matches!(choices, Some(VariantChoices::Items(_)))
                }
                Self::Ramp(question) => question.fits_levels(plan),
                Self::Why(_) => {
                    let items = choices.map(VariantChoices::as_items).unwrap_or_default();
                    let is_condition = |item: &Item| matches!(item.what, ItemKind::Condition(_));
                    !items.is_empty() && items.iter().all(is_condition)
                }
            }
    }
}

impl RampQuestion {
    /// Returns whether the variants are load levels in ascending order.
    fn fits_levels(&self, plan: &TrialsPlan) -> bool {
        let levels: Vec<u32> = plan
            .variants
            .iter()
            .map(|variant| variant.clients.unwrap_or(0))
            .collect();
        let ascend = levels.windows(2).all(|pair| pair[0] < pair[1]);
        ascend && levels[0] > 0 && (1..1_000_000).contains(&self.detect)
    }
}

/// The question whether the bug is fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmQuestion {
    /// Failures before the fix.
    pub baseline: Baseline,
    /// Whether differences from the conditions of the baseline are assumed not to change the rate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accept_conditions: bool,
    /// Number of fixes that were tried against this baseline before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub earlier_attempts: u64,
    /// Whether to exclude a fix that only halves the rate; `None` excludes it if the additional trials take little
    /// time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exclude_half: Option<bool>,
    /// Whether trials count as independent, although processes that `setup` started live through all of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub independent: bool,
    /// Signatures by exit status of the bug: a failure with one of these may be the bug under a name that the baseline
    /// does not know.
    #[serde(default, skip_serializing_if = "is_default")]
    pub doubts: Vec<SignatureId>,
    /// Set if the program is the same as in the baseline.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unchanged: Option<UnchangedProgram>,
}

/// The program of a possible fix is the same as in the baseline, so it may not have been rebuilt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnchangedProgram {
    /// Files of the working directory that changed, such as its source.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changed_files: Vec<String>,
}

/// The question which variants fail, and whether they differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompareQuestion {
    /// The goal of the comparison.
    pub find: CompareGoal,
    /// The reference, if rates are compared.
    pub reference: VariantId,
    /// Whether the other variant is a possible fix of the reference.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fixed: bool,
    /// The baseline of the failing variants, if it is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub baseline: Option<Box<MeasuredBaseline>>,
    /// Whether differences from the conditions of the baseline are assumed not to change the rate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accept_conditions: bool,
    /// The rate, in millionths, below which a variant counts as clean.
    #[serde(default, skip_serializing_if = "is_default")]
    pub floor: Option<u32>,
    /// The number of trials of each variant after which the rates are tested a second time. A resumption does not change it.
    /// Unknown in old runs, and if no number was given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub planned_trials: Option<u64>,
}

/// The goal of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CompareGoal {
    /// Which variants fail, and which fail less often or not at all.
    Failing,
    /// Which variants fail at another rate than the reference.
    Different,
}

/// A factor of a matrix: a setting with several levels, each combined with each level of the other factors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// The name of the setting.
    pub name: String,
    /// The values.
    pub levels: Vec<String>,
}
