//! Settings of a comparison of variants.

use super::parse_name;
use crate::RateValue;
use clap::Args;
use provoke_model::CompareGoal;
use serde::{Deserialize, Serialize};

/// What `compare` finds out about the variants.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Comparison")]
pub struct ComparisonSettings {
    /// Find the variants that fail, or find out whether the rates differ
    ///
    /// [default: different for two variants, failing for three or more]
    #[arg(
        long, value_name = "failing|different", value_parser = parse_name::<CompareGoal>(["failing", "different"]),
        hide_possible_values = true,
    )]
    pub find: Option<CompareGoal>,
    /// Compare the other variants with this one [default: the first]
    #[arg(long, value_name = "VARIANT")]
    pub reference: Option<String>,
    /// Call a variant clean only if it fails in fewer than this share of its trials
    ///
    /// 5% takes about 60 to 100 trials of each clean variant.
    #[arg(long, value_name = "RATE", hide_short_help = true)]
    pub floor: Option<RateValue>,
}
