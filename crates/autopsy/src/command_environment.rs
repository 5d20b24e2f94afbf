//! Environment of a command: its variables and its working directory.

use provoke_model::{ActorPlan, Text};
use provoke_sys::spawn;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Environment of a command, which determines the files that it finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnvironment<'a> {
    /// The variables.
    pub env: BTreeMap<&'a OsStr, &'a OsStr>,
    /// The working directory.
    pub cwd: &'a Path,
}

impl Default for CommandEnvironment<'_> {
    /// Returns an empty environment at the root folder.
    fn default() -> Self {
        Self {
            env: BTreeMap::new(),
            cwd: Path::new("/"),
        }
    }
}

impl<'a> CommandEnvironment<'a> {
    /// Returns the environment of an actor, which changes these variables.
    pub fn of_actor(variables: &'a [(Text, Text)], actor: &'a ActorPlan) -> Self {
        let mut env: BTreeMap<&OsStr, &OsStr> = variables
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
            .collect();
        for (name, value) in &actor.env {
            match value {
                Some(value) => env.insert(name.as_os_str(), value.as_os_str()),
                None => env.remove(name.as_os_str()),
            };
        }
        Self {
            env,
            cwd: Path::new(actor.cwd.as_os_str()),
        }
    }

    /// Returns the value of a variable that is not empty.
    pub fn get_variable(&self, name: &str) -> Option<&'a OsStr> {
        let value = self.env.get(OsStr::new(name)).copied();
        value.filter(|value| !value.is_empty())
    }

    /// Returns the paths in a variable, which are separated by colons.
    pub fn list_paths(&self, name: &str) -> Vec<PathBuf> {
        let value = self.get_variable(name).unwrap_or_default();
        let folders = std::env::split_paths(value).filter(|folder| !folder.as_os_str().is_empty());
        folders.map(|folder| self.cwd.join(folder)).collect()
    }

    /// Returns the file of a program name.
    pub fn find_program(&self, name: &OsStr) -> Option<PathBuf> {
        spawn::find_program(name, self.get_variable("PATH"), self.cwd).ok()
    }
}
