//! Settings of the hosts on which trials run.

use crate::host_list::{HostList, ListedHost};
use crate::plan::MAX_SLOTS;
use crate::{HostsValue, PlanError, ScenarioError};
use clap::Args;
use provoke_model::{HostFacts, HostPlan, HostRequest, RequestedHosts};
use provoke_transports::{HostsShape, TRANSPORTS, TransportHelp};
use provoke_words::untrusted::Untrusted as _;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::path::Path;

/// Where trials run.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Hosts")]
pub struct HostSettings {
    #[arg(long, value_name = all_values("|", |help| help.value), help = on_purpose(), long_help = on_help(), hide_short_help = true)]
    #[cfg_attr(test, schemars(description = on_help()))]
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
        let Some(HostPlan { request, facts, .. }) = plan else {
            return Self::default();
        };
        let transport = request.transport.clone();
        match &request.hosts {
            RequestedHosts::Listed(names) => {
                let hosts = names.iter().map(|name| ListedHost {
                    name: name.clone(),
                    facts: facts.get(name).cloned().unwrap_or_default(),
                });
                let hosts = HostList::Hosts(hosts.collect());
                Self {
                    on: Some(HostsValue::Listed(transport, hosts)),
                    ..Self::default()
                }
            }
            RequestedHosts::Counted { nodes, constraint } => Self {
                on: Some(HostsValue::Counted(transport)),
                nodes: NonZeroU32::new(*nodes),
                constraint: constraint.clone(),
            },
        }
    }

    /// Replaces the name of a file by the hosts in it. A relative path refers to a directory.
    pub fn read_list(&mut self, base: &Path) -> Result<(), ScenarioError> {
        match &mut self.on {
            Some(HostsValue::Listed(_, hosts)) => hosts.read_file(base),
            _ => Ok(()),
        }
    }

    /// Returns the hosts, with this number of parallel trials on each; `None` for this machine.
    pub fn to_plan(&self, slots: u32) -> Result<Option<HostPlan>, PlanError> {
        let Some((request, facts)) = self.to_request()? else {
            return Ok(None);
        };
        let hosts = HostPlan {
            request,
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

    /// Returns the hosts, and the facts that the user gave; `None` for this machine.
    fn to_request(&self) -> Result<Option<(HostRequest, HostFacts)>, PlanError> {
        let counted_only = [
            ("nodes", self.nodes.is_some()),
            ("where", self.constraint.is_some()),
        ];
        let is_counted = matches!(self.on, Some(HostsValue::Counted(_)));
        if let Some((key, _)) = counted_only.iter().find(|(_, given)| *given && !is_counted) {
            return Err(refuse_setting(key, HostsShape::Counted));
        }
        let (transport, hosts, facts) = match &self.on {
            None | Some(HostsValue::Local) => return Ok(None),
            Some(HostsValue::Listed(transport, list)) => {
                let (names, facts) = split_list(list)?;
                (transport, RequestedHosts::Listed(names), facts)
            }
            Some(HostsValue::Counted(transport)) => {
                let Some(nodes) = self.nodes else {
                    let hint = format!("add it: --on {transport} --nodes 4");
                    let message = "the number of nodes is missing";
                    return Err(PlanError::of_field("on", message, hint));
                };
                let hosts = RequestedHosts::Counted {
                    nodes: nodes.get(),
                    constraint: self.constraint.clone(),
                };
                (transport, hosts, HostFacts::new())
            }
        };
        let transport = transport.clone();
        Ok(Some((HostRequest { transport, hosts }, facts)))
    }
}

/// Returns the names and the facts of listed hosts.
fn split_list(list: &HostList) -> Result<(Vec<String>, HostFacts), PlanError> {
    let hosts = match list {
        HostList::Hosts(hosts) => hosts,
        HostList::File(file) => {
            let message = format!("the list of hosts `{}` was not read", file.to_safe());
            let hint = "name the hosts, separated by commas";
            return Err(PlanError::of_field("on", message, hint));
        }
    };
    let names = hosts.iter().map(|host| host.name.clone()).collect();
    let facts = hosts.iter().filter(|host| !host.facts.is_empty());
    let facts = facts.map(|host| (host.name.clone(), host.facts.clone()));
    Ok((names, facts.collect()))
}

/// Refuses a setting that only transports with this shape have.
fn refuse_setting(key: &str, shape: HostsShape) -> PlanError {
    let transports = TRANSPORTS.iter().filter(|one| one.shape() == shape);
    let flags: Vec<String> = transports
        .map(|one| format!("--on {}", one.name()))
        .collect();
    let flags = flags.join(" or ");
    let message = format!("`{key}` is only for {flags}");
    PlanError::of_field(key, message, format!("add {flags}, or leave it out"))
}

/// Returns something from the help of each transport.
fn all_values(separator: &str, get: fn(TransportHelp) -> &'static str) -> String {
    let values = TRANSPORTS.iter().map(|transport| get(transport.help()));
    values.collect::<Vec<_>>().join(separator)
}

fn on_purpose() -> String {
    let examples = all_values(" or ", |help| help.example);
    format!("Run the trials on other hosts: {examples}")
}

fn on_help() -> String {
    let about = all_values(" ", |help| help.text);
    let purpose = on_purpose();
    format!(
        "{purpose}\n\n{about} provoke copies itself to the cache directory of each host. -j is the number of parallel \
         trials on each host. `local` is this machine."
    )
}
