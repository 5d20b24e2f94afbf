//! Starts a worker on a host through the command of a transport, and copies this program to the host if it is not there.

use super::binary::OwnBinary;
use super::connection::WorkerConnection;
use super::{COMMAND, HostError};
use provoke_sys::tool;
use provoke_transports::Launch;
use rustix::process::Signal;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::timeout;

/// Time until a started host must respond, or take a part of this program.
const RESPOND_WITHIN: Duration = Duration::from_secs(30);
/// Begins the first line of the script: anything before it comes from the start files of the shell.
const MARK: &str = "provoke-host";
/// Maximum number of lines before the first line of the script.
const MAX_LINES: usize = 1000;
/// Days after which a copy that was not used is removed when another one is made.
const KEPT_DAYS: u32 = 7;
/// Bytes of this program that are sent at once.
const CHUNK: usize = 64 << 10;

/// Variable with the filter of the trace, which a worker gets as well.
pub const TRACE_VARIABLE: &str = "PROVOKE_LOG";

/// Starts a worker on a host; returns the connection to it before its first message.
pub(super) async fn start_worker(
    launch: &Launch,
    binary: &OwnBinary,
) -> Result<WorkerConnection, HostError> {
    let error = |host: &str, reason: String| HostError::new(host, reason).with_hint(&launch.hint);
    let mut connection = start_process(launch).map_err(|e| error(&launch.host, e.to_string()))?;
    let exchange = exchange_binary(&mut connection, launch, binary);
    let reason = match exchange.await {
        Ok(()) => return Ok(connection),
        Err(failure) if is_closed(&failure) => connection.receiver.last_message().await,
        Err(failure) if failure.kind() == io::ErrorKind::TimedOut => {
            Some("it does not respond".to_owned())
        }
        Err(failure) => {
            return Err(HostError::new(
                &connection.receiver.host,
                failure.to_string(),
            ));
        }
    };
    Err(error(
        &connection.receiver.host,
        reason.unwrap_or_else(|| "the connection was closed".to_owned()),
    ))
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Starts the process that carries the connection.
fn start_process(launch: &Launch) -> io::Result<WorkerConnection> {
    let (own_end, carrier_end) = StdStream::pair()?;
    let (own_messages, carrier_messages) = StdStream::pair()?;
    let mut command = Command::new(&launch.command[0]);
    command
        .args(&launch.command[1..])
        .stdin(Stdio::from(OwnedFd::from(carrier_end.try_clone()?)))
        .stdout(Stdio::from(OwnedFd::from(carrier_end)))
        .stderr(Stdio::from(OwnedFd::from(carrier_messages)));
    // Ctrl-C in the terminal is for provoke alone, which then ends the trials.
    command.process_group(0);
    tool::signal_when_parent_ends(&mut command, Signal::TERM);
    let child = tool::spawn_and_continue(&mut command).map_err(|error| {
        io::Error::other(format!("cannot start {}: {error}", launch.command[0]))
    })?;
    WorkerConnection::new(&launch.host, child, own_end, own_messages)
}

/// Returns the script that starts the worker. It contains no single quote. If this program is not in the cache of the
/// host, or its contents are wrong there, the script reads it from its input.
pub(super) fn start_script(binary: &OwnBinary) -> String {
    let OwnBinary { size, digest, .. } = binary;
    // The filter has no character that is special in a shell.
    let trace = std::env::var_os(TRACE_VARIABLE).map_or(String::new(), |filter| {
        format!("{TRACE_VARIABLE}={}", filter.to_string_lossy())
    });
    // Several nodes may share the cache: a copy that another node made meanwhile is used.
    format!(
        "umask 077; echo \"{MARK} $(uname -s) $(uname -m) ${{SLURMD_NODENAME:-$(uname -n)}}\"; \
         d=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/provoke\"; f=\"$d/worker-{digest}\"; \
         ok() {{ test \"$(sha256sum \"$f\" 2>/dev/null | cut -c 1-64)\" = {digest}; }}; \
         if ok; then echo have; chmod 700 \"$f\"; touch \"$f\"; else echo need; \
         mkdir -p \"$d\"; find \"$d\" -type f -mtime +{KEPT_DAYS} -exec rm -f {{}} + 2>/dev/null; \
         n=$(mktemp \"$d/new-XXXXXX\") && head -c {size} > \"$n\" && test \"$(wc -c < \"$n\")\" -eq {size} && \
         chmod 700 \"$n\" && {{ ln \"$n\" \"$f\" 2>/dev/null || ok || mv -f \"$n\" \"$f\"; }} || exit 1; \
         rm -f \"$n\"; fi; \
         exec env {trace} \"$f\" {COMMAND}"
    )
}

/// Checks the architecture of the host, and sends this program if the host needs it.
async fn exchange_binary(
    connection: &mut WorkerConnection,
    launch: &Launch,
    binary: &OwnBinary,
) -> io::Result<()> {
    let (system, name) = match launch.start_within {
        Some(time) => timeout(time, read_system(connection)).await??,
        None => read_system(connection).await?,
    };
    if launch.names_itself && !name.is_empty() {
        connection.receiver.host = name;
    }
    let own_system = format!("Linux {}", std::env::consts::ARCH);
    if system != own_system {
        return Err(io::Error::other(format!(
            "it is a {system} machine, and this provoke is for {own_system}"
        )));
    }
    if timeout(RESPOND_WITHIN, connection.read_text()).await?? == "need" {
        tracing::debug!(target: "host", size = binary.size, "copy this program to the host");
        let (mut buffer, mut sent) = (vec![0; CHUNK], 0);
        loop {
            let length = binary.read_at(&mut buffer, sent)?;
            if length == 0 {
                break;
            }
            timeout(RESPOND_WITHIN, connection.send_bytes(&buffer[..length])).await??;
            sent += length as u64;
        }
    }
    Ok(())
}

/// Returns the system with the architecture of the host, and its name.
async fn read_system(connection: &mut WorkerConnection) -> io::Result<(String, String)> {
    for _ in 0..MAX_LINES {
        let text = connection.read_text().await?;
        if let Some(line) = text.strip_prefix(MARK) {
            let (system, name) = line.trim().rsplit_once(' ').unwrap_or((line.trim(), ""));
            return Ok((system.to_owned(), name.to_owned()));
        }
    }
    Err(io::Error::other("its login shell prints too much"))
}
