//! Machines on which trials run.

use super::{SlotId, Survey, is_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The machine on which trials ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// The hosts on which the trials of a run are to run, instead of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPlan {
    /// How they are reached.
    pub engine: HostEngine,
    /// Number of parallel trials on each.
    pub slots: u32,
    /// Facts that the user gave, by destination.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facts: BTreeMap<String, BTreeMap<String, String>>,
}

impl HostPlan {
    /// Returns the number of parallel trials on all hosts.
    pub fn jobs(&self) -> u32 {
        self.count().saturating_mul(self.slots)
    }

    /// Returns the number of hosts.
    pub fn count(&self) -> u32 {
        match &self.engine {
            HostEngine::Ssh(destinations) => u32::try_from(destinations.len()).unwrap_or(u32::MAX),
            HostEngine::Slurm(request) => request.nodes,
        }
    }
}

/// How hosts are reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostEngine {
    /// Over ssh, by these destinations.
    Ssh(Vec<String>),
    /// As nodes of Slurm.
    Slurm(SlurmRequest),
}

impl Default for HostEngine {
    fn default() -> Self {
        Self::Ssh(Vec::new())
    }
}

impl fmt::Display for HostEngine {
    /// Writes the engine and the hosts that were named.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssh(names) => write!(f, "ssh:{}", names.join(",")),
            Self::Slurm(request) => match &request.constraint {
                None => f.write_str("slurm"),
                Some(constraint) => write!(f, "slurm ({constraint})"),
            },
        }
    }
}

/// The requested nodes of Slurm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlurmRequest {
    /// Their number.
    pub nodes: u32,
    /// Features that they must have, as an expression of Slurm.
    #[serde(default, skip_serializing_if = "is_default")]
    pub constraint: Option<String>,
}

/// The number of a host, from 0 in the order in which they joined the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostId(pub u32);

/// A host that is ready for trials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedHost {
    /// Its name in the plan.
    pub destination: String,
    /// The machine.
    pub machine: Host,
    /// Further facts of its environment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub survey: Survey,
    /// Its first slot.
    #[serde(rename = "first_lane")]
    pub first_slot: SlotId,
    /// Number of its slots.
    pub slots: u32,
}

impl JoinedHost {
    /// Returns its slots.
    pub fn slots(&self) -> impl Iterator<Item = SlotId> + use<> {
        let first = self.first_slot.0;
        (first..first.saturating_add(self.slots)).map(SlotId)
    }
}
