//! Machine on which trials ran.

use serde::{Deserialize, Serialize};

/// The machine on which trials ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Processor architecture.
    pub arch: String,
    /// Processor model as the kernel tells it.
    pub cpu: String,
    /// Processors this process may use.
    pub cpus: u32,
    /// Physical memory in bytes.
    pub memory: u64,
}
