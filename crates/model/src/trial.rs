//! Trials: numbers, slots and seeds.

use super::{CaseName, HoldPlan, is_default, micros};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The number of a trial: from 1 in launch order, without gaps, shown as `#17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrialId(pub u64);

/// The index of a variant in its plan.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct VariantId(pub u32);

/// The index of a slot; slots run in parallel, each one trial at a time.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SlotId(pub u32);

/// One execution of one variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Number in launch order.
    pub id: TrialId,
    /// The variant.
    pub variant: VariantId,
    /// The slot.
    pub lane: SlotId,
    /// Seed for the random choices of the trial; the same in a replay.
    pub seed: u64,
    /// Time after which the trial is hung.
    #[serde(with = "micros")]
    pub timeout: Duration,
    /// Whether the trial captures evidence with cores enabled; it is counted separately.
    #[serde(default, skip_serializing_if = "is_default")]
    pub capture: bool,
    /// The holds of its threads, or the task to learn its points.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hold: Option<Box<HoldPlan>>,
    /// Whether its hold explores schedules; it is counted separately.
    #[serde(default, skip_serializing_if = "is_default")]
    pub explores: bool,
    /// The case that runs alone in this trial; it is counted separately.
    #[serde(default, skip_serializing_if = "is_default")]
    pub alone: Option<Box<CaseName>>,
}

impl Trial {
    /// Returns whether the trial belongs to the measurement.
    pub fn is_measured(&self) -> bool {
        !self.capture && !self.explores && self.alone.is_none()
    }
}

impl VariantId {
    /// Returns the index into the plan's list of variants.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl SlotId {
    /// Returns the index into the list of slots.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Returns the seed of a trial: a hash of the plan's seed and the trial's number.
///
/// Every random choice comes from such a hash and none from the state of a generator, so that resuming and replaying
/// draw the same numbers. The hash is `SplitMix64`'s finaliser, reduced to 53 bits so that JSON parsers of all
/// languages read the same number.
pub fn trial_seed(plan_seed: u64, trial: TrialId) -> u64 {
    let mut x = plan_seed.wrapping_add(trial.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) >> 11
}
