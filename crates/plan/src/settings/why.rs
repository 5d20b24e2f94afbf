//! Settings of the search for conditions.

use clap::Args;
use serde::{Deserialize, Serialize};

/// Which conditions `why` tries.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
pub struct WhySettings {
    /// Try only these conditions: `date`, or `date=+2y` [default: all of `provoke why --list`]
    ///
    /// A name stands for all values that `provoke why --list` shows. Can be given several times.
    #[arg(long = "try", value_name = "NAME[=VALUE]", value_delimiter = ',')]
    #[serde(rename = "try")]
    pub tried: Vec<String>,
}
