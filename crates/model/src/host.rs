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
    /// Processor model as reported by the kernel.
    pub cpu: String,
    /// Number of processors that provoke may use.
    pub cpus: u32,
    /// Physical memory in bytes.
    pub memory: u64,
}
