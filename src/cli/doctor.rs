//! `doctor`: what this machine can capture, and what to change.

use super::error::CliError;
use super::exit::Exit;
use crate::doctor::{Machine, checkup, crash};
use crate::term;
use clap::Args;

/// Say whether this machine can capture crashes and hangs, and what to change
///
/// Looks at limits, at the kernel's settings, at rights and at tools, and has a victim crash to
/// see whether a core comes of it. Changes nothing; where a change would help, it shows the
/// command. It ends with 0 when cores can be captured, and with 1 when not.
#[derive(Args)]
pub(super) struct Doctor {
    /// Print JSON: every check, and what can be captured
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        let here = std::env::current_dir().map_err(CliError::could_not)?;
        let ourselves = std::env::current_exe().map_err(CliError::could_not)?;
        let found = checkup(&Machine::look(&here, crash(&ourselves)));
        let text = if self.json {
            found.json()
        } else {
            term::checkup(&found)
        };
        term::tell(&text).map_err(CliError::could_not)?;
        Ok(if found.can.cores {
            Exit::Hoped
        } else {
            Exit::OtherWay
        })
    }
}
