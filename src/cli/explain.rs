//! `explain`: the story of a core.

use super::error::CliError;
use super::exit::Exit;
use crate::autopsy::{Error, Examiner, Settings};
use crate::report::story::story;
use crate::sys::host;
use crate::term;
use clap::Args;
use std::path::PathBuf;

/// Tell what a core file says: who died, where, of what, and how it got there
///
/// The program and its libraries are taken from where they were; for a core from a
/// container or another machine name a copy of its root. No debugger is needed.
#[derive(Args)]
pub(super) struct Explain {
    /// The core file
    core: PathBuf,
    /// The program, if it is no longer where it was
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// A folder of debug files, besides /usr/lib/debug
    #[arg(long, value_name = "DIR")]
    debug_dir: Vec<PathBuf>,
    /// What was / for the program: a container's root, or a copy of one
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Every register, and every thread in full
    #[arg(short, long)]
    verbose: bool,
    /// All of it, as JSON
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        let mut settings = Settings {
            root: self.root,
            program: self.program,
            processor: host::processor_flags(),
            ..Settings::default()
        };
        settings.debug_dirs.splice(0..0, self.debug_dir);
        let autopsy = Examiner::new(settings).examine(&self.core)?;
        let text = if self.json {
            let json = serde_json::to_string_pretty(&autopsy).map_err(CliError::could_not)?;
            format!("{json}\n")
        } else {
            story(&autopsy, self.verbose)
        };
        term::tell(&text).map_err(CliError::could_not)?;
        Ok(Exit::Hoped)
    }
}

impl From<Error> for CliError {
    fn from(error: Error) -> Self {
        match error {
            Error::NoCore { .. } => Self::usage(error).hinted(
                "a core is what the kernel writes when a program crashes: `ulimit -c unlimited`",
            ),
            Error::Unreadable { .. } => Self::usage(error),
            Error::Broken { .. } | Error::Foreign { .. } => Self::could_not(error),
        }
    }
}
