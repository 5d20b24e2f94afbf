//! Settings of the hosts on which trials run.

use crate::host_list::read_host_file;
use crate::plan::MAX_SLOTS;
use crate::{HostsValue, ListedHost, PlanError, ScenarioError};
use clap::Args;
use provoke_model::{HostEngine, HostPlan, SlurmRequest};
use provoke_words::untrusted::Untrusted as _;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;

/// Where trials run.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Hosts")]
pub struct HostSettings {
    /// Run the trials on other hosts: ssh:alice,bob or slurm
    ///
    /// `ssh` connects without a password. It gets each name as a destination, so its configuration applies. `ssh:@FILE`
    /// reads one host per line; facts may follow it, such as `alice gpu=a100`. `slurm` needs --nodes. provoke copies itself to the cache directory of each host. -j is the number of parallel trials on each
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
    pub fn of_plan(plan: Option<&HostPlan>) -> Self {
        let Some(HostPlan { engine, facts, .. }) = plan else {
            return Self::default();
        };
        let listed = |destination: &String| ListedHost {
            destination: destination.clone(),
            facts: facts.get(destination).cloned().unwrap_or_default(),
        };
        match engine {
            HostEngine::Ssh(names) => Self {
                on: Some(HostsValue::Ssh(names.iter().map(listed).collect())),
                ..Self::default()
            },
            HostEngine::Slurm(request) => Self {
                on: Some(HostsValue::Slurm),
                nodes: NonZeroU32::new(request.nodes),
                constraint: request.constraint.clone(),
            },
        }
    }

    /// Replaces the name of a file by the hosts in it. A relative path refers to a directory.
    pub fn read_list(&mut self, base: &Path) -> Result<(), ScenarioError> {
        if let Some(HostsValue::SshFile(file)) = &self.on {
            let hosts = read_host_file(&base.join(file))?;
            self.on = Some(HostsValue::Ssh(hosts));
        }
        Ok(())
    }

    /// Returns the hosts, with this number of parallel trials on each; `None` for this machine.
    pub fn to_plan(&self, slots: u32) -> Result<Option<HostPlan>, PlanError> {
        let Some(engine) = self.to_engine()? else {
            return Ok(None);
        };
        let facts = match &self.on {
            Some(HostsValue::Ssh(hosts)) => hosts
                .iter()
                .filter(|host| !host.facts.is_empty())
                .map(|host| (host.destination.clone(), host.facts.clone()))
                .collect(),
            _ => BTreeMap::new(),
        };
        let hosts = HostPlan {
            engine,
            slots,
            facts,
        };
        if hosts.jobs() > MAX_SLOTS {
            let count = hosts.count();
            let message = format!(
                "at most {MAX_SLOTS} trials can run in parallel, and {slots} on each of {count} hosts are {}",
                hosts.jobs()
            );
            let hint = "use fewer hosts or fewer `jobs`, which is the number on each host";
            return Err(PlanError::of_field("jobs", message, hint));
        }
        Ok(Some(hosts))
    }

    /// Returns how the hosts are reached; `None` for this machine.
    fn to_engine(&self) -> Result<Option<HostEngine>, PlanError> {
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
            Some(HostsValue::Ssh(hosts)) => {
                let names = hosts.iter().map(|host| host.destination.clone());
                Some(HostEngine::Ssh(names.collect()))
            }
            Some(HostsValue::SshFile(file)) => {
                let message = format!("the list of hosts `{}` was not read", file.to_safe());
                let hint = "name the hosts: ssh:alice,bob";
                return Err(PlanError::of_field("on", message, hint));
            }
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
