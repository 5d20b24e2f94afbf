//! Hosts that ssh reaches.

use super::{HostError, HostStarts, HostsShape, Launch, Transport, TransportHelp};
use provoke_model::RequestedHosts;
use provoke_sys::tool;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Variable with the command for connections.
const VARIABLE: &str = "PROVOKE_SSH";
/// Time until a host must respond.
const RESPOND_WITHIN: Duration = Duration::from_secs(30);

/// Time in which ssh shows its configuration.
const SHOW_WITHIN: Duration = Duration::from_secs(10);
/// Number of destinations whose configuration is shown at the same time.
const SHOWN_AT_ONCE: usize = 16;
/// Limit of the configuration in bytes.
const MAX_CONFIGURATION: usize = 1 << 20;

/// Destinations of ssh.
pub(super) static SSH: Transport = Transport {
    name: "ssh",
    shape: HostsShape::Listed,
    help: TransportHelp {
        value: "ssh:HOST,...",
        example: "ssh:alice,bob",
        text: "`ssh` connects without a password. It gets each name as a destination, so its configuration applies. \
                   `ssh:@FILE` reads one host per line; facts may follow it, such as `alice gpu=a100`.",
    },
    check: |_| Ok(()),
    plan_starts,
};

fn plan_starts(hosts: &RequestedHosts, _slots: u32, script: &str) -> Result<HostStarts, HostError> {
    let RequestedHosts::Listed(destinations) = hosts else {
        return Err(HostError::of_other_hosts("ssh"));
    };
    Ok(HostStarts {
        launches: launches(destinations, script)?,
        ..HostStarts::default()
    })
}

/// Returns how each host runs the script.
fn launches(hosts: &[String], script: &str) -> Result<Vec<Launch>, HostError> {
    let custom = std::env::var(VARIABLE).unwrap_or_else(|_| "ssh".to_owned());
    let words = shlex::split(&custom).filter(|words| !words.is_empty());
    let Some(words) = words else {
        let reason = format!("{VARIABLE} is not a command: {custom}");
        return Err(HostError::new(&hosts.join(","), reason));
    };
    check_distinct(&words, hosts)?;
    let launch = |host: &String| {
        let options = ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"];
        let alive = ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2"];
        // Any login shell can read this.
        let command = format!("exec /bin/sh -c '{script}'");
        let rest = ["--", host, &command];
        let arguments = options.iter().chain(&alive).chain(&rest);
        Launch {
            host: host.clone(),
            names_itself: false,
            command: words
                .iter()
                .cloned()
                .chain(arguments.map(ToString::to_string))
                .collect(),
            start_within: Some(RESPOND_WITHIN),
            hint: format!(
                "`ssh {host} true` must work without a password; {VARIABLE} sets the command, such as `ssh -i KEY`"
            ),
        }
    };
    Ok(hosts.iter().map(launch).collect())
}

/// Refuses two destinations of the same machine: they would count as two hosts.
fn check_distinct(words: &[String], hosts: &[String]) -> Result<(), HostError> {
    if hosts.len() < 2 {
        return Ok(());
    }
    let mut known: BTreeMap<Address, &String> = BTreeMap::new();
    let addresses = hosts.chunks(SHOWN_AT_ONCE).flat_map(|hosts| {
        std::thread::scope(|scope| {
            let mut shown = Vec::new();
            for host in hosts {
                shown.push(scope.spawn(move || Address::of_destination(words, host)));
            }
            let shown = shown.into_iter().map(|shown| shown.join().ok().flatten());
            shown.collect::<Vec<_>>()
        })
    });
    for (host, address) in hosts.iter().zip(addresses) {
        let Some(address) = address else { continue };
        let Address { name, port, .. } = &address;
        let place = format!("{name} port {port}");
        if let Some(other) = known.insert(address, host) {
            let reason = format!("it is the same machine as `{other}`: both are {place}");
            let hint = "name each machine once; -j is the number of parallel trials on each host";
            return Err(HostError::new(host, reason).with_hint(hint));
        }
    }
    Ok(())
}

/// Where a destination leads, after the configuration of ssh.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Address {
    name: String,
    port: String,
    /// Through which other hosts or programs.
    through: Vec<String>,
}

impl Address {
    /// Returns the address of a destination; `None` if another command replaces ssh, or does not show it.
    fn of_destination(words: &[String], host: &str) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        if Path::new(program).file_name()? != "ssh" {
            return None;
        }
        let arguments = arguments
            .iter()
            .map(String::as_str)
            .chain(["-G", "--", host]);
        let arguments: Vec<&OsStr> = arguments.map(OsStr::new).collect();
        let deadline = Instant::now() + SHOW_WITHIN;
        let shown = tool::run_program(Path::new(program), &arguments, deadline, MAX_CONFIGURATION);
        let shown = shown.ok()?;
        let settings: Vec<(&str, &str)> = shown
            .lines()
            .filter_map(|line| line.split_once(' '))
            .collect();
        let get = |wanted: &str| {
            let setting = settings.iter().find(|(key, _)| *key == wanted);
            setting.map(|(_, value)| (*value).to_owned())
        };
        Some(Self {
            name: get("hostname")?.to_ascii_lowercase(),
            port: get("port")?,
            through: ["proxyjump", "proxycommand"]
                .into_iter()
                .filter_map(get)
                .collect(),
        })
    }
}
