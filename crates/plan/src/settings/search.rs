//! Settings of all searches, for candidates and for items.

use crate::{DurationValue, LimitValue};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// How a search prepares its variants, and when it gives up.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Search")]
pub struct SearchSettings {
    /// Create package environments with this interpreter [default: python3]
    #[arg(long, value_name = "PYTHON", hide_short_help = true)]
    pub python: Option<String>,
    /// Build this many variants at a time, while trials run [default: 1; 2 for packages]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub builds: Option<NonZeroU32>,
    /// Give up on a variant if its build takes longer than this [default: 1h]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub build_limit: Option<DurationValue>,
    /// Disk budget for variant directories; the oldest is evicted first [default: 10G]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub disk: Option<LimitValue>,
    /// Assume that good candidates never fail this way
    ///
    /// Use --only to count other failures separately.
    #[arg(long)]
    pub clean: Option<bool>,
    /// Give up if the bad end has not failed after N trials [default: 200]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub reproduce_limit: Option<u64>,
    /// First look for a setting that makes the failure more frequent
    ///
    /// Tries --copies, -j and --wave on the variant that fails, and uses the setting under which failures
    /// are at least twice as frequent, if there is one. A search takes fewer trials at a higher rate.
    #[arg(long, hide_short_help = true)]
    pub raise_rate: Option<bool>,
}
