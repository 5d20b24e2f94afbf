//! Settings of the hosts on which trials run.

use crate::scenario::HostsValue;
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where trials run.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Hosts")]
pub struct HostSettings {
    /// Run the trials on other hosts over ssh, such as ssh:alice,bob
    ///
    /// `ssh` connects without a password. It gets each name as a destination, so its configuration applies. provoke copies
    /// itself to the cache directory of each host. -j is the number of parallel trials on each host.
    /// `local` is this machine.
    #[arg(long, value_name = "ssh:HOST,...", hide_short_help = true)]
    pub on: Option<HostsValue>,
}
