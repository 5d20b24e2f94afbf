//! Client of a container engine's daemon, over its socket.

use super::ContainerState;
use serde_json::Value;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default path of the socket.
const SOCKET: &str = "/var/run/docker.sock";
/// Time limit of an answer: a busy daemon takes longer than usual.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limit of an answer in bytes.
const MAX_RESPONSE: u64 = 64 << 20;

/// A daemon with the API of Docker.
#[derive(Clone, Debug)]
pub struct Daemon {
    socket: PathBuf,
}

impl Daemon {
    /// Returns the daemon that clients use by default.
    pub fn from_environment() -> Option<Self> {
        let socket = match std::env::var_os("DOCKER_HOST") {
            None => PathBuf::from(SOCKET),
            Some(named) => PathBuf::from(named.to_str()?.strip_prefix("unix://")?),
        };
        Some(Self::at_socket(&socket))
    }

    /// Returns the daemon at a socket.
    pub fn at_socket(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
        }
    }

    /// Sends a request. Returns the status and the body of the response.
    pub fn send_request(&self, method: &str, path: &str) -> io::Result<(u16, Vec<u8>)> {
        let mut line = UnixStream::connect(&self.socket)?;
        line.set_read_timeout(Some(PATIENCE))?;
        // In HTTP/1.0 a response is not chunked, and ends with the connection.
        let request = format!("{method} {path} HTTP/1.0\r\nHost: docker\r\n\r\n");
        line.write_all(request.as_bytes())?;
        let mut response = Vec::new();
        line.take(MAX_RESPONSE).read_to_end(&mut response)?;
        let head = response
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .ok_or(io::ErrorKind::InvalidData)?;
        let status = String::from_utf8_lossy(&response[..head])
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .ok_or(io::ErrorKind::InvalidData)?;
        Ok((status, response.split_off(head + 4)))
    }

    fn request_json(&self, path: &str) -> Option<Value> {
        let (status, body) = self.send_request("GET", path).ok()?;
        (status == 200).then(|| serde_json::from_slice(&body).ok())?
    }

    /// Returns the state of a container; `None` if the container does not exist or the daemon does
    /// not respond.
    pub fn container_state(&self, name: &str) -> Option<ContainerState> {
        parse_state(&self.request_json(&format!("/containers/{name}/json"))?)
    }

    /// Kills a container if necessary, and removes it with its anonymous volumes.
    pub fn remove_container(&self, name: &str) -> bool {
        let response = self.send_request("DELETE", &format!("/containers/{name}?force=1&v=1"));
        response.is_ok_and(|(status, _)| status == 204)
    }
}

fn owned_text(value: &Value) -> Option<String> {
    Some(value.as_str()?.to_owned())
}

/// Parses the daemon's description of a container.
pub(super) fn parse_state(container: &Value) -> Option<ContainerState> {
    let state = &container["State"];
    let number = |name: &str| i32::try_from(state[name].as_i64()?).ok();
    Some(ContainerState {
        id: owned_text(&container["Id"])?,
        status: owned_text(&state["Status"])?,
        code: number("ExitCode")?,
        oom: state["OOMKilled"].as_bool()?,
        pid: number("Pid").filter(|pid| *pid > 0),
        error: owned_text(&state["Error"]).unwrap_or_default(),
    })
}
