//! Containers: their settings, and what provoke observed about them.

use super::{Ending, Text, is_default};
use serde::{Deserialize, Serialize};

/// A container in which the processes of an actor run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    /// The engine, such as `docker`; empty until it is known which engine is available.
    pub engine: String,
    /// The image; marks such as `{variant}` are filled in.
    pub image: Text,
    /// Mounts as `--volume` takes them; by default the working directory at the same path.
    #[serde(skip_serializing_if = "is_default")]
    pub mounts: Option<Vec<Text>>,
    /// Whether the container starts in the working directory of the plan, not in that of its image.
    pub enters: bool,
    /// The network of the container.
    pub network: String,
    /// A port of this machine that is forwarded to the container.
    #[serde(skip_serializing_if = "is_default")]
    pub port: Option<Text>,
    /// Further options of the engine, each with its value: `memory=1g`.
    #[serde(skip_serializing_if = "is_default")]
    pub options: Vec<Text>,
}

impl Container {
    /// Returns whether the container mounts the working directory.
    pub fn sees_folder(&self) -> bool {
        self.mounts.is_none()
    }
}

/// The end of a container as its engine reported it, and the end of its program as the kernel reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerObservation {
    /// Container ID.
    pub id: String,
    /// Exit code of the first process, 128+n after a signal.
    pub code: i32,
    /// Whether one of its processes was OOM-killed.
    #[serde(skip_serializing_if = "is_default")]
    pub oom: bool,
    /// How the program itself ended, if the kernel reported it.
    #[serde(skip_serializing_if = "is_default")]
    pub ended: Option<Ending>,
    /// Process IDs inside the container, and on this machine.
    #[serde(skip_serializing_if = "is_default")]
    pub numbers: Vec<(i32, i32)>,
}
