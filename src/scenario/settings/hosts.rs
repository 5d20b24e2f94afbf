//! Settings of the hosts on which trials run.

use crate::model::{HostEngine, SlurmRequest};
use crate::scenario::HostsValue;
use crate::scenario::PlanError;
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// Where trials run.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Hosts")]
pub struct HostSettings {
    /// Run the trials on other hosts: ssh:alice,bob or slurm
    ///
    /// `ssh` connects without a password. It gets each name as a destination, so its configuration applies. `slurm` needs
    /// --nodes. provoke copies itself to the cache directory of each host. -j is the number of parallel trials on each
    /// host. `local` is this machine.
    #[arg(long, value_name = "ssh:HOST,...|slurm", hide_short_help = true)]
    pub on: Option<HostsValue>,
    /// Use this number of nodes of Slurm
    ///
    /// In an allocation, they are its first nodes. Otherwise, each is a job with a whole node.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub nodes: Option<NonZeroU32>,
    /// Use only nodes of Slurm with these features, such as avx2
    #[arg(long = "where", value_name = "FEATURES", hide_short_help = true)]
    #[serde(rename = "where")]
    pub constraint: Option<String>,
}

impl HostSettings {
    /// Returns the settings of these hosts; `None` for this machine.
    pub fn of_engine(engine: Option<&HostEngine>) -> Self {
        match engine {
            None => Self::default(),
            Some(HostEngine::Ssh(names)) => Self {
                on: Some(HostsValue::Ssh(names.clone())),
                ..Self::default()
            },
            Some(HostEngine::Slurm(request)) => Self {
                on: Some(HostsValue::Slurm),
                nodes: NonZeroU32::new(request.nodes),
                constraint: request.constraint.clone(),
            },
        }
    }

    /// Returns the hosts; `None` for this machine.
    pub fn to_engine(&self) -> Result<Option<HostEngine>, PlanError> {
        let is_slurm = self.on == Some(HostsValue::Slurm);
        let slurm_only = [
            ("nodes", self.nodes.is_some()),
            ("where", self.constraint.is_some()),
        ];
        if let Some((key, _)) = slurm_only.iter().find(|(_, given)| *given && !is_slurm) {
            let message = format!("`{key}` is for nodes of Slurm");
            return Err(PlanError::of_field(
                key,
                message,
                "add --on slurm, or leave it out",
            ));
        }
        Ok(match &self.on {
            None | Some(HostsValue::Local) => None,
            Some(HostsValue::Ssh(names)) => Some(HostEngine::Ssh(names.clone())),
            Some(HostsValue::Slurm) => {
                let Some(nodes) = self.nodes else {
                    let message = "the number of nodes is missing";
                    return Err(PlanError::of_field(
                        "on",
                        message,
                        "add it: --on slurm --nodes 4",
                    ));
                };
                Some(HostEngine::Slurm(SlurmRequest {
                    nodes: nodes.get(),
                    constraint: self.constraint.clone(),
                }))
            }
        })
    }
}
