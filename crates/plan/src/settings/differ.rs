//! Settings of the search for what failing trials do differently.

use clap::Args;
use serde::{Deserialize, Serialize};

/// Which code `differ` observes.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
pub struct DifferSettings {
    /// Observe only code in files whose path contains this [default: the program's own files]
    ///
    /// Executables, shared objects and Python files. By default, interpreters are left out, and so are files of the
    /// system other than the program itself. Can be given several times.
    #[arg(long, value_name = "TEXT")]
    pub observe_in: Vec<String>,
}
