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

/// Maximum number of characters of each text about a host that the host sends.
const LONGEST_TEXT: usize = 256;

impl Host {
    /// Shortens the texts that a hostile host may have made long.
    #[must_use]
    pub fn with_short_texts(mut self) -> Self {
        let texts = [
            &mut self.name,
            &mut self.kernel,
            &mut self.arch,
            &mut self.cpu,
        ];
        for text in texts {
            *text = text.chars().take(LONGEST_TEXT).collect();
        }
        self
    }
}

/// The hosts on which the trials of a run are to run, instead of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPlan {
    /// How they are reached.
    #[serde(rename = "engine")]
    pub request: HostRequest,
    /// Number of parallel trials on each.
    pub slots: u32,
    /// Facts that the user gave, by host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facts: HostFacts,
}

/// Facts about hosts, by host.
pub type HostFacts = BTreeMap<String, BTreeMap<String, String>>;

impl HostPlan {
    /// Returns the number of parallel trials on all hosts.
    pub fn jobs(&self) -> u32 {
        self.count().saturating_mul(self.slots)
    }

    /// Returns the number of hosts.
    pub fn count(&self) -> u32 {
        match &self.request.hosts {
            RequestedHosts::Listed(names) | RequestedHosts::ByCommand { names, .. } => {
                u32::try_from(names.len()).unwrap_or(u32::MAX)
            }
            RequestedHosts::Counted { nodes, .. } => *nodes,
        }
    }
}

/// Hosts, and the transport that reaches them. In JSON, it is a table with one entry: `{"ssh": ["alice", "bob"]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RequestTable", into = "RequestTable")]
pub struct HostRequest {
    /// Name of the transport.
    pub transport: String,
    /// The hosts.
    pub hosts: RequestedHosts,
}

type RequestTable = BTreeMap<String, RequestedHosts>;

/// The requested hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestedHosts {
    /// Hosts with these names.
    Listed(Vec<String>),
    /// Hosts that the transport chooses.
    Counted {
        /// Their number.
        nodes: u32,
        /// Features that they must have, as an expression of the transport.
        #[serde(default, skip_serializing_if = "is_default")]
        constraint: Option<String>,
    },
    /// Hosts that a command reaches.
    ByCommand {
        /// The command.
        command: String,
        /// Their names.
        #[serde(rename = "hosts")]
        names: Vec<String>,
    },
}

impl TryFrom<RequestTable> for HostRequest {
    type Error = &'static str;

    fn try_from(mut table: RequestTable) -> Result<Self, Self::Error> {
        match (table.pop_first(), table.is_empty()) {
            (Some((transport, hosts)), true) => Ok(Self { transport, hosts }),
            _ => Err("hosts need one transport"),
        }
    }
}

impl From<HostRequest> for RequestTable {
    fn from(request: HostRequest) -> Self {
        Self::from([(request.transport, request.hosts)])
    }
}

impl fmt::Display for HostRequest {
    /// Writes the transport and the hosts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.transport)?;
        match &self.hosts {
            RequestedHosts::Listed(names) => write!(f, ":{}", names.join(",")),
            RequestedHosts::Counted { constraint, .. } => match constraint {
                None => Ok(()),
                Some(constraint) => write!(f, " ({constraint})"),
            },
            RequestedHosts::ByCommand { command, names } => {
                write!(f, ":{command} ({})", names.join(","))
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_of_a_request_does_not_change() {
        for (json, shown) in [
            (r#"{"ssh":["alice","root@bob"]}"#, "ssh:alice,root@bob"),
            (r#"{"slurm":{"nodes":4}}"#, "slurm"),
            (
                r#"{"slurm":{"nodes":4,"constraint":"avx2"}}"#,
                "slurm (avx2)",
            ),
            (
                r#"{"exec":{"command":"nc {host}","hosts":["a","b"]}}"#,
                "exec:nc {host} (a,b)",
            ),
        ] {
            let request: HostRequest = serde_json::from_str(json).unwrap();
            assert_eq!(request.to_string(), shown);
            assert_eq!(serde_json::to_string(&request).unwrap(), json);
        }
        for json in [
            "{}",
            r#"{"ssh":["a"],"slurm":{"nodes":1}}"#,
            r#"{"ssh":{}}"#,
        ] {
            assert!(serde_json::from_str::<HostRequest>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn long_texts_of_a_host_are_shortened() {
        let host = Host {
            kernel: "ä".repeat(7 << 20),
            ..Host::default()
        };
        assert_eq!(host.with_short_texts().kernel, "ä".repeat(256));
    }
}
