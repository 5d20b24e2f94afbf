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
#[serde(from = "StoredTrial")]
pub struct Trial {
    /// Number in launch order.
    pub id: TrialId,
    /// The variant.
    pub variant: VariantId,
    /// The slot.
    #[serde(rename = "lane")]
    pub slot: SlotId,
    /// Seed for the random choices of the trial; the same in a replay.
    pub seed: u64,
    /// Time after which the trial is hung.
    #[serde(with = "micros")]
    pub timeout: Duration,
    /// Why it runs.
    #[serde(skip_serializing_if = "is_default")]
    pub purpose: TrialPurpose,
    /// The holds of its threads, or the task to learn its points.
    #[serde(skip_serializing_if = "is_default")]
    pub hold: Option<Box<HoldPlan>>,
}

/// Why a trial runs. Each purpose has its own counts, and only `Measure` counts in a failure rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialPurpose {
    /// It measures the failure rate.
    #[default]
    Measure,
    /// It captures evidence, with cores enabled.
    CaptureEvidence,
    /// It explores a schedule of threads.
    ExploreSchedule,
    /// It runs a test of the suite alone.
    RerunTest(Box<CaseName>),
}

/// A trial in a journal. Earlier versions stored its purpose in three fields.
#[derive(Deserialize)]
struct StoredTrial {
    id: TrialId,
    variant: VariantId,
    #[serde(rename = "lane")]
    slot: SlotId,
    seed: u64,
    #[serde(with = "micros")]
    timeout: Duration,
    #[serde(default)]
    purpose: TrialPurpose,
    #[serde(default)]
    hold: Option<Box<HoldPlan>>,
    #[serde(default)]
    capture: bool,
    #[serde(default)]
    explores: bool,
    #[serde(default)]
    alone: Option<Box<CaseName>>,
}

impl From<StoredTrial> for Trial {
    fn from(stored: StoredTrial) -> Self {
        let purpose = match stored.alone {
            Some(case) => TrialPurpose::RerunTest(case),
            None if stored.capture => TrialPurpose::CaptureEvidence,
            None if stored.explores => TrialPurpose::ExploreSchedule,
            None => stored.purpose,
        };
        Self {
            id: stored.id,
            variant: stored.variant,
            slot: stored.slot,
            seed: stored.seed,
            timeout: stored.timeout,
            purpose,
            hold: stored.hold,
        }
    }
}

impl Trial {
    /// Returns whether the trial belongs to the measurement.
    pub fn is_measured(&self) -> bool {
        self.purpose == TrialPurpose::Measure
    }

    /// Returns whether the trial captures evidence, with cores enabled.
    pub fn captures_evidence(&self) -> bool {
        self.purpose == TrialPurpose::CaptureEvidence
    }

    /// Returns whether the trial explores a schedule of threads.
    pub fn explores_schedule(&self) -> bool {
        self.purpose == TrialPurpose::ExploreSchedule
    }

    /// Returns the test that runs alone in this trial.
    pub fn rerun_test(&self) -> Option<&CaseName> {
        match &self.purpose {
            TrialPurpose::RerunTest(case) => Some(case),
            _ => None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn stored(more: &[(&str, Value)]) -> Value {
        let mut trial = json!({"id": 1, "variant": 0, "lane": 0, "seed": 5, "timeout": 1_000_000});
        for (name, value) in more {
            trial[*name] = value.clone();
        }
        trial
    }

    #[test]
    fn the_purpose_is_read_from_the_fields_of_earlier_versions() {
        let case = CaseName::without_suite("test_a");
        for (name, value, purpose) in [
            ("capture", json!(true), TrialPurpose::CaptureEvidence),
            ("explores", json!(true), TrialPurpose::ExploreSchedule),
            (
                "alone",
                json!({"name": "test_a"}),
                TrialPurpose::RerunTest(Box::new(case)),
            ),
            ("capture", json!(false), TrialPurpose::Measure),
        ] {
            let trial: Trial = from_value(stored(&[(name, value)])).unwrap();
            assert_eq!(trial.purpose, purpose, "{name}");
            // It is written in the new form.
            let written = serde_json::to_value(&trial).unwrap();
            assert_eq!(written.get(name), None);
            assert_eq!(from_value::<Trial>(written).unwrap(), trial);
        }
    }
}
