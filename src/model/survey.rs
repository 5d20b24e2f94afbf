//! Recorded facts about the environment of a run.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Facts about where trials ran that may make a difference, each under a dotted name such
/// as `kernel.release` or `library.libc.so.6`. Flat, so that it is simple to store and two
/// of them are simple to compare. Where several commands are run, `program[NAME].path` is
/// that of the command NAME, and is there only where it is another one than the first's. Where one
/// runs under an emulator, `cpu[NAME].flags` is what the processor has that the command NAME sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Survey(pub BTreeMap<String, String>);

impl Survey {
    /// Adds a fact; what is empty says nothing.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.0.insert(name.into(), value);
        }
    }

    /// Adds a fact if it is known.
    pub fn set_if(&mut self, name: impl Into<String>, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Returns a fact.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
