//! What exactly is executed for an actor in a trial.

use crate::model::{ActorPlan, Text, Trial};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// A command with everything filled in.
#[derive(Clone, Debug)]
pub struct CommandLine {
    /// The program's name and its arguments.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory.
    pub cwd: PathBuf,
    /// A file for standard input.
    pub stdin: Option<PathBuf>,
}

/// The values that a command line and the environment may refer to.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    values: Vec<(&'static str, &'static str, OsString)>,
    scratch: Option<PathBuf>,
}

impl Numbers {
    /// Returns the numbers of a trial; outside of any, the default has none.
    pub fn new(trial: &Trial, variant: &str, scratch: Option<&Path>) -> Self {
        let text = |value: u64| OsString::from(value.to_string());
        let values = vec![
            ("{trial}", "PROVOKE_TRIAL", text(trial.id.0)),
            ("{slot}", "PROVOKE_SLOT", text(u64::from(trial.lane.0))),
            ("{seed}", "PROVOKE_SEED", text(trial.seed)),
            ("{variant}", "PROVOKE_VARIANT", variant.into()),
            (
                "{dir}",
                "PROVOKE_DIR",
                scratch.unwrap_or(Path::new("")).into(),
            ),
        ];
        Self {
            values,
            scratch: scratch.map(Path::to_owned),
        }
    }

    fn fill(&self, text: &Text) -> OsString {
        let mut bytes = text.as_bytes().to_vec();
        if bytes.contains(&b'{') {
            for (mark, _, value) in &self.values {
                bytes = replace(&bytes, mark.as_bytes(), value.as_bytes());
            }
        }
        OsString::from_vec(bytes)
    }

    fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let own = self
            .values
            .iter()
            .map(|(_, name, value)| (OsStr::new(*name), value.as_os_str()));
        let own = own.filter(|(_, value)| !value.is_empty());
        own.chain(
            self.scratch
                .iter()
                .map(|dir| (OsStr::new("TMPDIR"), dir.as_os_str())),
        )
    }
}

impl CommandLine {
    /// Fills in what an actor's command refers to. Its own variables win over ours, and
    /// ours over those of the environment.
    pub fn new(environment: &[(Text, Text)], actor: &ActorPlan, numbers: &Numbers) -> Self {
        let mut all: Vec<(&OsStr, &OsStr)> = environment
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
            .collect();
        let own = actor.env.iter();
        let own = own.map(|(name, value)| (name.as_os_str(), value.as_ref().map(Text::as_os_str)));
        let ours = numbers.variables().map(|(name, value)| (name, Some(value)));
        for (name, value) in ours.chain(own) {
            all.retain(|(known, _)| *known != name);
            all.extend(value.map(|value| (name, value)));
        }
        Self {
            argv: actor
                .command
                .iter()
                .map(|word| numbers.fill(word))
                .collect(),
            environment: all
                .into_iter()
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
                .collect(),
            cwd: actor.cwd.as_os_str().into(),
            stdin: actor.stdin.as_ref().map(|file| file.as_os_str().into()),
        }
    }

    /// Returns the variable of this name.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_os_str())
    }
}

fn replace(text: &[u8], mark: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(mark.len()).position(|window| window == mark) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(value);
        rest = &rest[at + mark.len()..];
    }
    out.extend_from_slice(rest);
    out
}
