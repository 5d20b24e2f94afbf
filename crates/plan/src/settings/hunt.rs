//! Settings of the search for a schedule.

use clap::Args;
use serde::{Deserialize, Serialize};

/// Where `hunt` holds threads.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
pub struct HuntSettings {
    /// Hold threads only in files whose path contains this [default: the program's own files]
    ///
    /// Executables and shared objects. By default, interpreters are left out, and so are files of the system other
    /// than the program itself. Can be given several times.
    #[arg(long, value_name = "TEXT")]
    pub hold_in: Vec<String>,
}
