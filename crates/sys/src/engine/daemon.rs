//! Client of a container engine's daemon, over its socket.

use super::{ContainerState, is_gone};
use crate::files;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsStr;
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
/// Limit of a list of volumes in bytes.
const MAX_VOLUMES: u64 = 1 << 20;
/// A label: name and value.
pub type Label = (&'static str, String);

/// A daemon with the API of Docker.
#[derive(Clone, Debug)]
pub struct Daemon {
    socket: PathBuf,
}

/// Types of objects that a daemon stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DaemonObjectKind {
    Container,
    Volume,
    Network,
}

/// An object of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonObject {
    /// Type of the object.
    pub sort: DaemonObjectKind,
    /// Id of the object.
    pub id: String,
    /// Name of the object.
    pub name: String,
    /// Image, if the object is a container.
    pub image: String,
    /// Status, if the object is a container: `running`, `exited` ...
    pub status: String,
    /// Owner of the object; see [`super::mark`].
    mark: String,
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

    /// Returns the path of the socket.
    pub fn socket_path(&self) -> &Path {
        &self.socket
    }

    /// Returns whether the daemon responds.
    pub fn answers_ping(&self) -> io::Result<bool> {
        Ok(self.send_request("GET", "/_ping")?.0 == 200)
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

    /// Returns the names of all volumes.
    pub fn volume_names(&self) -> Option<Vec<String>> {
        let volumes = self.request_json("/volumes")?;
        let names = volumes["Volumes"].as_array().into_iter().flatten();
        Some(
            names
                .filter_map(|volume| owned_text(&volume["Name"]))
                .collect(),
        )
    }

    /// Returns the names of the volumes that a container uses.
    pub fn volumes_of(&self, container: &str) -> Vec<String> {
        let container_state = self.request_json(&format!("/containers/{container}/json"));
        let mounts = container_state
            .as_ref()
            .and_then(|container| container["Mounts"].as_array());
        let volumes = mounts
            .into_iter()
            .flatten()
            .filter(|mount| mount["Type"] == "volume");
        volumes
            .filter_map(|mount| owned_text(&mount["Name"]))
            .collect()
    }

    /// Returns the objects with all of these labels, containers first, because objects in use
    /// cannot be removed.
    pub fn labelled_objects(&self, labels: &[Label]) -> Vec<DaemonObject> {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let filter = encode_path(&json!({ "label": labels }).to_string());
        let list = |path: String| self.request_json(&path).unwrap_or_default();
        let containers = list(format!("/containers/json?all=1&filters={filter}"));
        let volumes = list(format!("/volumes?filters={filter}"));
        let networks = list(format!("/networks?filters={filter}"));
        [
            (DaemonObjectKind::Container, &containers),
            (DaemonObjectKind::Volume, &volumes["Volumes"]),
            (DaemonObjectKind::Network, &networks),
        ]
        .into_iter()
        .flat_map(|(sort, objects)| {
            objects
                .as_array()
                .into_iter()
                .flatten()
                .map(move |object| (sort, object))
        })
        .filter_map(|(sort, object)| parse_object(sort, object))
        .collect()
    }

    /// Returns the existing volumes that a file lists, each once.
    pub fn volumes_in(&self, file: &Path) -> Vec<DaemonObject> {
        let text = files::read_itself(file, MAX_VOLUMES).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let names: BTreeSet<&str> = text.lines().collect();
        names
            .iter()
            .filter_map(|name| self.find_volume(name))
            .collect()
    }

    /// Returns the volume with this name.
    fn find_volume(&self, name: &str) -> Option<DaemonObject> {
        parse_object(
            DaemonObjectKind::Volume,
            &self.request_json(&format!("/volumes/{}", encode_path(name)))?,
        )
    }

    /// Kills an object if necessary, and removes it. Returns whether it is gone.
    pub fn remove_object(&self, object: &DaemonObject) -> bool {
        let id = encode_path(&object.id);
        let path = match object.sort {
            DaemonObjectKind::Container => format!("/containers/{id}?force=1&v=1"),
            DaemonObjectKind::Volume => format!("/volumes/{id}?force=1"),
            DaemonObjectKind::Network => format!("/networks/{id}"),
        };
        let response = self.send_request("DELETE", &path);
        response.is_ok_and(|(status, _)| matches!(status, 200 | 204 | 404))
    }

    /// Removes the objects that trials of ended provoke processes created. Returns their number.
    pub fn remove_orphans(&self) -> usize {
        let objects = self.labelled_objects(&[provoke_label()]);
        let orphans = objects.iter().filter(|object| is_gone(&object.mark));
        orphans.filter(|object| self.remove_object(object)).count()
    }
}

/// Returns the labels of the objects of one trial, or of all trials of a provoke process.
pub fn trial_labels(mark: &str, trial: Option<u64>) -> Vec<Label> {
    let trial = trial.map(|trial| ("provoke.trial", trial.to_string()));
    let labels = [provoke_label(), ("provoke.pid", mark.to_owned())];
    labels.into_iter().chain(trial).collect()
}

/// Returns the label of every object that provoke created, or a trial through its proxy.
fn provoke_label() -> Label {
    ("provoke", "1".to_owned())
}

/// Returns the socket of a slot in a folder of sockets.
pub fn slot_socket(folder: &OsStr, slot: u32) -> PathBuf {
    Path::new(folder).join(format!("{slot}.sock"))
}

/// Returns the file beside the socket of a slot that lists volumes without labels.
pub fn unlabelled_file(folder: &OsStr, slot: u32) -> PathBuf {
    slot_socket(folder, slot).with_extension("volumes")
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

fn parse_object(sort: DaemonObjectKind, object: &Value) -> Option<DaemonObject> {
    let name = match sort {
        DaemonObjectKind::Container => owned_text(&object["Names"][0])?,
        DaemonObjectKind::Volume | DaemonObjectKind::Network => owned_text(&object["Name"])?,
    };
    Some(DaemonObject {
        sort,
        id: owned_text(&object["Id"]).unwrap_or_else(|| name.clone()),
        name: name.trim_start_matches('/').to_owned(),
        image: owned_text(&object["Image"]).unwrap_or_default(),
        status: owned_text(&object["State"]).unwrap_or_default(),
        mark: owned_text(&object["Labels"]["provoke.pid"]).unwrap_or_default(),
    })
}

/// Percent-encodes a text for the path of a request.
fn encode_path(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let word = |byte: u8| match byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_a_path_are_percent_encoded() {
        assert_eq!(
            encode_path(r#"{"a":["b=1"]}"#),
            "%7B%22a%22%3A%5B%22b%3D1%22%5D%7D"
        );
    }

    #[test]
    fn a_container_has_its_name_without_the_slash() {
        let container = json!({
            "Id": "4f", "Names": ["/db"], "Image": "app:1", "State": "running",
            "Labels": { "provoke.pid": "m" },
        });
        let seen = parse_object(DaemonObjectKind::Container, &container).unwrap();
        assert_eq!(
            (&*seen.id, &*seen.name, &*seen.image, &*seen.mark),
            ("4f", "db", "app:1", "m")
        );
        let volume = parse_object(
            DaemonObjectKind::Volume,
            &json!({ "Name": "data", "Labels": null }),
        )
        .unwrap();
        assert_eq!(
            (&*volume.id, &*volume.name, &*volume.mark),
            ("data", "data", "")
        );
    }
}
