//! Hosts that a command of the user reaches, such as containers and pods.

use super::{HostError, HostStarts, HostsShape, Launch, Transport, TransportHelp};
use provoke_model::RequestedHosts;
use provoke_words as words;
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use std::ffi::OsStr;
use std::time::Duration;

/// Name of the transport.
const NAME: &str = "exec";
/// An example.
const EXAMPLE: &str = "exec:docker exec -i {host} sh -c {script}";
/// The name of the host in a command.
const HOST: &str = "{host}";
/// The script in a command.
const SCRIPT: &str = "{script}";
/// Time in which a host starts the script.
const START_WITHIN: Duration = Duration::from_secs(60);

/// Hosts that a command reaches.
pub(super) static EXEC: Transport = Transport {
    name: NAME,
    shape: HostsShape::ByCommand,
    help: TransportHelp {
        value: "exec:COMMAND",
        example: "exec:COMMAND",
        text: "`exec` starts a command for each of --hosts that runs a script there and passes on its stdin and \
                   stdout, such as `exec:docker exec -i {host} sh -c {script}`.",
    },
    check,
    plan_starts,
};

fn check(hosts: &RequestedHosts) -> Result<(), Diagnostic> {
    match hosts {
        RequestedHosts::ByCommand { command, names } => {
            CommandTemplate::parse(command, names).map(drop)
        }
        RequestedHosts::Listed(_) | RequestedHosts::Counted { .. } => Ok(()),
    }
}

fn plan_starts(hosts: &RequestedHosts, _slots: u32, script: &str) -> Result<HostStarts, HostError> {
    let RequestedHosts::ByCommand { command, names } = hosts else {
        return Err(HostError::of_other_hosts(NAME));
    };
    let template = CommandTemplate::parse(command, names).map_err(|error| HostError {
        hint: error.hints.into_iter().next(),
        ..HostError::new(NAME, error.message)
    })?;
    let launches = names.iter().map(|name| template.launch(name, script));
    Ok(HostStarts {
        launches: launches.collect(),
        ..HostStarts::default()
    })
}

/// The words of a command with places for a host and a script.
struct CommandTemplate(Vec<String>);

impl CommandTemplate {
    /// Splits a command into words, as a shell does.
    fn parse(command: &str, hosts: &[String]) -> Result<Self, Diagnostic> {
        let refuse = |message: String, hint: String| Err(refuse_at(message, &["on"], hint));
        let Some(words) = shlex::split(command) else {
            let message = "a quote in the command after `exec:` is not closed";
            return refuse(message.to_owned(), format!("write it like '{EXAMPLE}'"));
        };
        let contains = |place: &str| words.iter().any(|word| word.contains(place));
        if !contains(SCRIPT) {
            let message = format!("the command after `exec:` has no `{SCRIPT}`");
            let hint = format!("write it where the shell of the host takes a script: '{EXAMPLE}'");
            return refuse(message, hint);
        }
        if !contains(HOST) && hosts.len() > 1 {
            let message = format!(
                "the command after `exec:` has no `{HOST}`, so it would reach the same host {} times",
                hosts.len()
            );
            let hint = format!(
                "write `{HOST}` where the command takes a name, or name only one host in --hosts"
            );
            return refuse(message, hint);
        }
        Ok(Self(words))
    }

    fn launch(&self, host: &str, script: &str) -> Launch {
        let trial_command = self.fill(host, "true");
        let shown: Vec<String> = trial_command
            .iter()
            .map(|word| words::quote_word(OsStr::new(word)))
            .collect();
        Launch {
            host: host.to_owned(),
            names_itself: false,
            command: self.fill(host, script),
            start_within: Some(START_WITHIN),
            hint: format!(
                "`{}` must work, and the command must forward stdin and stdout, as `docker exec -i` does",
                shown.join(" ")
            ),
        }
    }

    /// Returns the words for a host and a script. Neither is searched for places.
    fn fill(&self, host: &str, script: &str) -> Vec<String> {
        let fill_word = |word: &String| {
            let parts = word.split(SCRIPT).map(|part| part.replace(HOST, host));
            parts.collect::<Vec<_>>().join(script)
        };
        self.0.iter().map(fill_word).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(command: &str, hosts: &[&str]) -> Result<CommandTemplate, Diagnostic> {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        CommandTemplate::parse(command, &hosts)
    }

    #[test]
    fn places_are_words_or_parts_of_words_and_no_shell_sees_them() {
        let command = "run --on={host} 'a \"b' sh -c '{script}; #' {host}{host}";
        let template = parse(command, &["x", "y"]).unwrap();
        let words = [
            "run",
            "--on=$(x)",
            "a \"b",
            "sh",
            "-c",
            "{host} `y`; #",
            "$(x)$(x)",
        ];
        assert_eq!(template.fill("$(x)", "{host} `y`"), words);
        let words = [
            "run",
            "--on={script}",
            "a \"b",
            "sh",
            "-c",
            "s; #",
            "{script}{script}",
        ];
        assert_eq!(template.fill("{script}", "s"), words);
    }

    #[test]
    fn a_command_without_its_places_is_refused() {
        for (command, hosts, message) in [
            ("", &["a"][..], "has no `{script}`"),
            ("ssh {host}", &["a"], "has no `{script}`"),
            ("sh -c {script}", &["a", "b"], "reach the same host 2 times"),
            ("sh -c '{script}", &["a"], "a quote"),
        ] {
            let refusal = parse(command, hosts).err().unwrap();
            assert!(refusal.message.contains(message), "{}", refusal.message);
        }
        assert!(parse("sh -c {script}", &["a"]).is_ok());
    }
}
