//! Settings of the baseline, and of the failures and runs that count.

use crate::RateValue;
use clap::Args;
use serde::{Deserialize, Serialize};

/// The failure rate that `confirm` and `compare` use as the reference.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
pub struct BaselineSettings {
    /// A run, or counts such as 3/30 [default: the newest run with failures]
    ///
    /// `compare` uses it as the failure rate of failing variants [default: the rate of the first variant
    /// that fails].
    #[arg(long, value_name = "RUN|K/N")]
    pub baseline: Option<String>,
    /// Use this variant of the baseline
    #[arg(long, value_name = "VARIANT", hide_short_help = true)]
    pub of: Option<String>,
    /// Accept that conditions such as -j differ from the baseline
    #[arg(long, hide_short_help = true)]
    pub accept_different_conditions: Option<bool>,
}

/// How `confirm` treats its baseline.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
pub struct ConfirmSettings {
    /// Assume this failure rate instead of measuring it
    #[arg(long, value_name = "P", hide_short_help = true)]
    pub assume_rate: Option<RateValue>,
    /// Also rule out a fix that merely halves the failure rate [default: if it takes less than a minute]
    #[arg(
        long, value_name = "true|false", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", hide_possible_values = true,
    )]
    pub exclude_half: Option<bool>,
    /// Assume that trials are independent, although they share what --setup started or failures came in clumps
    #[arg(long, hide_short_help = true)]
    pub independent: Option<bool>,
}

/// Which failures and which earlier runs count.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
pub struct CountSettings {
    /// Count every failure, not only those of the baseline, or the one that a search reproduced first
    #[arg(long, hide_short_help = true)]
    pub any_failure: Option<bool>,
    /// Do not count earlier runs of the same program under the same conditions
    #[arg(long, hide_short_help = true)]
    pub ignore_earlier_runs: Option<bool>,
}
