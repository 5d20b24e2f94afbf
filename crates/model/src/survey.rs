//! Recorded facts about the environment of a run.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Facts about the environment of trials that may influence the result, each under a dotted name such as
/// `kernel.release` or `library.libc.so.6`. The map is flat, so that it is easy to store and to compare. If several
/// commands run, `program[NAME].path` is that of the command NAME, and is present only if it differs from that of the
/// first command. If a command runs under an emulator, `cpu[NAME].flags` lists the features of the CPU that the command
/// NAME sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Survey(pub BTreeMap<String, String>);

/// Prefix of the names of facts that the user or Slurm gives.
const GIVEN: &str = "fact.";

impl Survey {
    /// Name of the fact that is the commit in the working directory.
    pub const COMMIT: &str = "commit";

    /// Adds a fact that the user or Slurm gives.
    pub fn set_given(&mut self, name: &str, value: impl Into<String>) {
        self.set_fact(format!("{GIVEN}{name}"), value);
    }

    /// Returns the name of a fact that the user or Slurm gave; `None` for any other fact.
    pub fn given_name(name: &str) -> Option<&str> {
        name.strip_prefix(GIVEN)
    }

    /// Adds a fact, unless it is empty.
    pub fn set_fact(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.0.insert(name.into(), value);
        }
    }

    /// Adds a fact if it is known.
    pub fn set_if(&mut self, name: impl Into<String>, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.set_fact(name, value);
        }
    }

    /// Returns a fact.
    pub fn get_fact(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
