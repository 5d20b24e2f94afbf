//! Starts workers over ssh.

use super::HostError;
use super::launch::Launch;
use std::time::Duration;

/// Variable with the command for connections.
const VARIABLE: &str = "PROVOKE_SSH";
/// Time until a host must respond.
const RESPOND_WITHIN: Duration = Duration::from_secs(30);

/// Returns how a worker is started on each host.
pub(super) fn launches(hosts: &[String], script: &str) -> Result<Vec<Launch>, HostError> {
    let custom = std::env::var(VARIABLE).unwrap_or_else(|_| "ssh".to_owned());
    let words = shlex::split(&custom).filter(|words| !words.is_empty());
    let Some(words) = words else {
        let reason = format!("{VARIABLE} is not a command: {custom}");
        return Err(HostError::new(&hosts.join(","), reason));
    };
    let launch = |host: &String| {
        let options = ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"];
        let alive = ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2"];
        // Any login shell can read this.
        let command = format!("exec /bin/sh -c '{script}'");
        let rest = ["--", host, &command];
        let arguments = options.iter().chain(&alive).chain(&rest);
        Launch {
            host: host.clone(),
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
