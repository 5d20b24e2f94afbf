//! Settings of the hosts on which trials run.

use crate::HostsValue;
use crate::host_list::{HostList, ListedHost};
use crate::plan::MAX_SLOTS;
use crate::value::hosts_examples;
use clap::Args;
use provoke_model::{HostFacts, HostPlan, HostRequest, RequestedHosts};
use provoke_transports::{HostsShape, TRANSPORTS, Transport, TransportHelp, find_transport};
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
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
    /// Run the trials on the hosts with these names: alice,bob or @FILE
    ///
    /// `@FILE` reads one host per line; facts may follow it, such as `alice gpu=a100`.
    #[arg(long, value_name = "HOST,...", hide_short_help = true)]
    pub hosts: Option<HostList>,
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
        let listed = |names: &[String]| {
            let hosts = names.iter().map(|name| ListedHost {
                name: name.clone(),
                facts: facts.get(name).cloned().unwrap_or_default(),
            });
            HostList::Hosts(hosts.collect())
        };
        match &request.hosts {
            RequestedHosts::Listed(names) => Self {
                on: Some(HostsValue::Listed(transport, listed(names))),
                ..Self::default()
            },
            RequestedHosts::Counted { nodes, constraint } => Self {
                on: Some(HostsValue::Over(transport)),
                nodes: NonZeroU32::new(*nodes),
                constraint: constraint.clone(),
                ..Self::default()
            },
            RequestedHosts::ByCommand { command, names } => Self {
                on: Some(HostsValue::ByCommand(transport, command.clone())),
                hosts: Some(listed(names)),
                ..Self::default()
            },
        }
    }

    /// Removes the settings that another value of `on` replaces.
    pub fn remove_replaced(&mut self, on: Option<&HostsValue>) {
        if let (Some(old), Some(new)) = (&self.on, on) {
            if old.transport() != new.transport() {
                *self = Self::default();
            } else if matches!(new, HostsValue::Listed(..)) {
                self.hosts = None;
            }
        }
    }

    /// Replaces the names of files by the hosts in them. A relative path refers to a directory.
    pub fn read_lists(&mut self, base: &Path) -> Result<(), Diagnostic> {
        if let Some(HostsValue::Listed(_, hosts)) = &mut self.on {
            hosts.read_file(base)?;
        }
        self.hosts
            .as_mut()
            .map_or(Ok(()), |hosts| hosts.read_file(base))
    }

    /// Returns the hosts, with this number of parallel trials on each; `None` for this machine.
    pub fn to_plan(&self, slots: u32) -> Result<Option<HostPlan>, Diagnostic> {
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
            return Err(Diagnostic::of_field("jobs", message, hint));
        }
        Ok(Some(hosts))
    }

    /// Returns the hosts, and the facts that the user gave; `None` for this machine.
    fn to_request(&self) -> Result<Option<(HostRequest, HostFacts)>, Diagnostic> {
        let name = self.on.as_ref().and_then(HostsValue::transport);
        let transport = name.map(transport_of).transpose()?;
        self.check_settings(transport.map(|transport| transport.shape))?;
        let (Some(on), Some(transport)) = (&self.on, transport) else {
            return Ok(None);
        };
        let (hosts, facts) = match on {
            HostsValue::Over(_) if transport.shape == HostsShape::Counted => {
                (self.count_nodes(transport)?, HostFacts::new())
            }
            HostsValue::Listed(_, list) => {
                if self.hosts.is_some() {
                    let message = "`on` and `hosts` both name hosts";
                    return Err(Diagnostic::of_field(
                        "hosts",
                        message,
                        "give one of the two",
                    ));
                }
                let (names, facts) = split_list(Some(list))?;
                (RequestedHosts::Listed(names), facts)
            }
            HostsValue::Local | HostsValue::Over(_) => {
                let (names, facts) = split_list(self.hosts.as_ref())?;
                (RequestedHosts::Listed(names), facts)
            }
            HostsValue::ByCommand(_, command) => {
                let (names, facts) = split_list(self.hosts.as_ref())?;
                let command = command.clone();
                (RequestedHosts::ByCommand { command, names }, facts)
            }
        };
        (transport.check)(&hosts)?;
        let transport = transport.name.to_owned();
        Ok(Some((HostRequest { transport, hosts }, facts)))
    }

    /// Refuses settings that do not fit the transport.
    fn check_settings(&self, shape: Option<HostsShape>) -> Result<(), Diagnostic> {
        let settings = [
            ("hosts", true, self.hosts.is_some()),
            ("nodes", false, self.nodes.is_some()),
            ("where", false, self.constraint.is_some()),
        ];
        for (key, names, is_given) in settings {
            if is_given && shape.map(HostsShape::is_named) != Some(names) {
                return Err(refuse_setting(key, names));
            }
        }
        Ok(())
    }

    /// Returns the requested nodes.
    fn count_nodes(&self, transport: &Transport) -> Result<RequestedHosts, Diagnostic> {
        let Some(nodes) = self.nodes else {
            let hint = format!("add it: --on {} --nodes 4", transport.name);
            let message = "the number of nodes is missing";
            return Err(Diagnostic::of_field("on", message, hint));
        };
        Ok(RequestedHosts::Counted {
            nodes: nodes.get(),
            constraint: self.constraint.clone(),
        })
    }
}

fn transport_of(name: &str) -> Result<&'static Transport, Diagnostic> {
    find_transport(name).ok_or_else(|| {
        let message = format!("there is no transport `{}`", name.to_safe());
        Diagnostic::of_field("on", message, format!("use {}", hosts_examples()))
    })
}

/// Returns the names and the facts of listed hosts.
fn split_list(list: Option<&HostList>) -> Result<(Vec<String>, HostFacts), Diagnostic> {
    let hosts = match list {
        Some(HostList::Hosts(hosts)) => hosts,
        None => {
            let message = "the names of the hosts are missing";
            let hint = "add them: --hosts alice,bob";
            return Err(Diagnostic::of_field("on", message, hint));
        }
        Some(HostList::File(file)) => {
            let message = format!("the list of hosts `{}` was not read", file.to_safe());
            let hint = "name the hosts, separated by commas";
            return Err(Diagnostic::of_field("on", message, hint));
        }
    };
    let names = hosts.iter().map(|host| host.name.clone()).collect();
    let facts = hosts.iter().filter(|host| !host.facts.is_empty());
    let facts = facts.map(|host| (host.name.clone(), host.facts.clone()));
    Ok((names, facts.collect()))
}

/// Refuses a setting that only transports with names have, or only those without.
fn refuse_setting(key: &str, names: bool) -> Diagnostic {
    let transports = TRANSPORTS
        .iter()
        .filter(|transport| transport.shape.is_named() == names);
    let flags: Vec<String> = transports
        .map(|transport| format!("--on {}", transport.name))
        .collect();
    let flags = flags.join(" or ");
    let message = format!("`{key}` is only for {flags}");
    Diagnostic::of_field(key, message, format!("add {flags}, or leave it out"))
}

/// Returns something from the help of each transport.
fn all_values(separator: &str, get: fn(TransportHelp) -> &'static str) -> String {
    let values = TRANSPORTS.iter().map(|transport| get(transport.help));
    values.collect::<Vec<_>>().join(separator)
}

fn on_purpose() -> String {
    let examples = TRANSPORTS.iter().map(|transport| transport.help.example);
    format!(
        "Run the trials on other hosts: {}",
        words::join_names("or", examples)
    )
}

fn on_help() -> String {
    let about = all_values(" ", |help| help.text);
    let purpose = on_purpose();
    format!(
        "{purpose}\n\n{about} provoke copies itself to the cache directory of each host. -j is the number of parallel \
         trials on each host. `local` is this machine."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(on: &str, hosts: Option<&str>) -> HostSettings {
        HostSettings {
            on: Some(on.parse().unwrap()),
            hosts: hosts.map(|hosts| hosts.parse().unwrap()),
            ..HostSettings::default()
        }
    }

    #[test]
    fn hosts_can_be_named_in_a_setting_of_their_own() {
        let short = settings("ssh:a rack=7,b", None).to_plan(2).unwrap();
        let long = settings("ssh", Some("a rack=7,b")).to_plan(2).unwrap();
        assert_eq!(short, long);
        assert_eq!(HostSettings::of_plan(long.as_ref()).to_plan(2), Ok(short));
    }

    #[test]
    fn hosts_without_names_or_with_names_in_two_places_are_refused() {
        for (on, hosts, message) in [
            ("ssh", None, "the names of the hosts are missing"),
            ("ssh:a", Some("b"), "`on` and `hosts` both name hosts"),
            ("local", Some("b"), "`hosts` is only for --on ssh"),
            ("slurm", Some("b"), "`hosts` is only for --on ssh"),
            ("slurm", None, "the number of nodes is missing"),
        ] {
            let error = settings(on, hosts).to_plan(1).unwrap_err();
            assert!(error.message.starts_with(message), "{}", error.message);
        }
    }

    #[test]
    fn another_value_replaces_all_settings_of_hosts() {
        let file = HostSettings {
            nodes: NonZeroU32::new(4),
            ..settings("slurm", None)
        };
        for (on, is_kept) in [
            (None, true),
            (Some("slurm"), true),
            (Some("local"), false),
            (Some("ssh:a"), false),
        ] {
            let mut hosts = file.clone();
            hosts.remove_replaced(on.map(|on| on.parse().unwrap()).as_ref());
            assert_eq!(hosts == file, is_kept, "{on:?}");
        }
        let mut named = settings("ssh", Some("a"));
        named.remove_replaced(Some(&"ssh:b".parse().unwrap()));
        assert_eq!(named.hosts, None);
    }
}
