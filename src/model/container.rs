//! Containers: their settings, and what was observed of them.

use super::{Ending, Text, is_default};
use serde::{Deserialize, Serialize};

/// What a process of a trial runs in, when that is a container of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    /// The program that runs it, such as `docker`; empty until it is known which there is.
    pub engine: String,
    /// What it is made of; `{variant}` and the like are filled in.
    pub image: Text,
    /// What it sees of this machine, as `--volume` takes it; where nothing was said, the working
    /// folder at the same path.
    #[serde(skip_serializing_if = "is_default")]
    pub mounts: Option<Vec<Text>>,
    /// It begins in the working folder of the plan, not in that of its image.
    pub enters: bool,
    /// The network it is in.
    pub network: String,
    /// A port of this machine that is passed on to it.
    #[serde(skip_serializing_if = "is_default")]
    pub port: Option<Text>,
    /// Further options of the engine, each with its value: `memory=1g`.
    #[serde(skip_serializing_if = "is_default")]
    pub options: Vec<Text>,
}

impl Container {
    /// True where it sees the working folder.
    pub fn sees_folder(&self) -> bool {
        self.mounts.is_none()
    }
}

/// What the engine said of a container after its end, and the kernel of the program in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSeen {
    /// Its number there.
    pub id: String,
    /// How it ended: the code of its first process, 128+n after a signal.
    pub code: i32,
    /// A process of it was OOM-killed.
    #[serde(skip_serializing_if = "is_default")]
    pub oom: bool,
    /// How the program itself ended, where the kernel told.
    #[serde(skip_serializing_if = "is_default")]
    pub ended: Option<Ending>,
    /// Numbers of its processes inside, and on this machine.
    #[serde(skip_serializing_if = "is_default")]
    pub numbers: Vec<(i32, i32)>,
}
