//! Starts a worker on a host over ssh, and copies this program to the host if it is not there.

use super::binary::OwnBinary;
use super::connection::WorkerConnection;
use super::{COMMAND, HostError};
use crate::sys::tool;
use rustix::process::Signal;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::timeout;

/// Variable with the command for connections.
const SSH_VARIABLE: &str = "PROVOKE_SSH";
/// Time until a host must respond.
const RESPOND_WITHIN: Duration = Duration::from_secs(30);
/// Begins the first line of the script: anything before it comes from the start files of the shell.
const MARK: &str = "provoke-host";
/// Days after which a copy that was not used is removed.
const KEPT_DAYS: u32 = 7;
/// Maximum number of lines before it.
const MAX_LINES: usize = 1000;
/// Starts a worker on a host; returns the connection to it before its first message.
pub(super) async fn start_worker(
    host: &str,
    binary: &OwnBinary,
) -> Result<WorkerConnection, HostError> {
    let io_error = |error: io::Error| HostError::new(host, error.to_string());
    let mut connection = connect(host, binary).map_err(io_error)?;
    let exchange = timeout(RESPOND_WITHIN, exchange_binary(&mut connection, binary)).await;
    let reason = match exchange {
        Ok(Ok(())) => return Ok(connection),
        Ok(Err(error)) if is_closed(&error) => connection.last_message().await,
        Ok(Err(error)) => return Err(io_error(error)),
        Err(_) => None,
    };
    let reason = reason.unwrap_or_else(|| "ssh did not connect".to_owned());
    let hint = format!(
        "`ssh {host} true` must work without a password; {SSH_VARIABLE} sets the command, such as `ssh -i KEY`"
    );
    Err(HostError::new(host, reason).with_hint(hint))
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Starts ssh.
fn connect(host: &str, binary: &OwnBinary) -> io::Result<WorkerConnection> {
    let (own_end, ssh_end) = StdStream::pair()?;
    let (own_messages, ssh_messages) = StdStream::pair()?;
    let mut command = ssh_command(host, &start_script(binary))?;
    command
        .stdin(Stdio::from(OwnedFd::from(ssh_end.try_clone()?)))
        .stdout(Stdio::from(OwnedFd::from(ssh_end)))
        .stderr(Stdio::from(OwnedFd::from(ssh_messages)));
    tool::signal_when_parent_ends(&mut command, Signal::TERM);
    let child = tool::spawn_and_continue(&mut command)
        .map_err(|error| io::Error::other(format!("cannot start ssh: {error}")))?;
    WorkerConnection::new(host, child, own_end, own_messages)
}

/// Returns the command that runs a script on a host.
fn ssh_command(host: &str, script: &str) -> io::Result<Command> {
    let custom = std::env::var(SSH_VARIABLE).unwrap_or_else(|_| "ssh".to_owned());
    let words = shlex::split(&custom).filter(|words| !words.is_empty());
    let words = words
        .ok_or_else(|| io::Error::other(format!("{SSH_VARIABLE} is not a command: {custom}")))?;
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"])
        .args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2"])
        // Any login shell can read this.
        .args(["--", host, &format!("exec /bin/sh -c '{script}'")]);
    Ok(command)
}

/// Returns the script that starts the worker. If this program is not in the cache of the host, the script reads it from
/// its input.
fn start_script(binary: &OwnBinary) -> String {
    let OwnBinary { size, digest, .. } = binary;
    format!(
        "umask 077; echo \"{MARK} $(uname -s) $(uname -m)\"; \
         d=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/provoke\"; f=\"$d/worker-{digest}\"; \
         n=\"$d/new-$(uname -n)-$$\"; \
         if test -x \"$f\"; then echo have; touch \"$f\"; else echo need; \
         mkdir -p \"$d\" && find \"$d\" -name \"worker-*\" -mtime +{KEPT_DAYS} -exec rm -f {{}} +; \
         head -c {size} > \"$n\" && test \"$(wc -c < \"$n\")\" -eq {size} && \
         chmod 700 \"$n\" && mv -f \"$n\" \"$f\" || exit 1; fi; \
         exec \"$f\" {COMMAND}"
    )
}

/// Checks the architecture of the host, and sends this program if the host needs it.
async fn exchange_binary(connection: &mut WorkerConnection, binary: &OwnBinary) -> io::Result<()> {
    let system = read_system(connection).await?;
    let own_system = format!("Linux {}", std::env::consts::ARCH);
    if system != own_system {
        return Err(io::Error::other(format!(
            "it is a {system} machine, and this provoke is for {own_system}"
        )));
    }
    if connection.read_text().await? == "need" {
        connection.send_bytes(&binary.contents()?).await?;
    }
    Ok(())
}

/// Returns the system and the architecture of the host.
async fn read_system(connection: &mut WorkerConnection) -> io::Result<String> {
    for _ in 0..MAX_LINES {
        let text = connection.read_text().await?;
        if let Some(system) = text.strip_prefix(MARK) {
            return Ok(system.trim().to_owned());
        }
    }
    Err(io::Error::other("its login shell prints too much"))
}
