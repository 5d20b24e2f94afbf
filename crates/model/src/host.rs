//! Machines on which trials run.

use super::{SlotId, Survey, is_default};
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

/// The hosts on which the trials of a run are to run, instead of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPlan {
    /// How they are reached.
    pub engine: HostEngine,
    /// Number of parallel trials on each.
    pub slots: u32,
}

impl HostPlan {
    /// Returns the number of parallel trials on all hosts.
    pub fn jobs(&self) -> u32 {
        self.count().saturating_mul(self.slots)
    }

    /// Returns the number of hosts.
    pub fn count(&self) -> u32 {
        let HostEngine::Ssh(destinations) = &self.engine;
        u32::try_from(destinations.len()).unwrap_or(u32::MAX)
    }
}

/// How hosts are reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostEngine {
    /// Over ssh, by these destinations.
    Ssh(Vec<String>),
}

impl Default for HostEngine {
    fn default() -> Self {
        Self::Ssh(Vec::new())
    }
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
    pub first_lane: SlotId,
    /// Number of its slots.
    pub slots: u32,
}

impl JoinedHost {
    /// Returns its slots.
    pub fn lanes(&self) -> impl Iterator<Item = SlotId> + use<> {
        let first = self.first_lane.0;
        (first..first.saturating_add(self.slots)).map(SlotId)
    }
}
