//! Recognizes stored runs that are given as programs.

use super::Correction;
use super::command_line::shell_line;
use std::ffi::{OsStr, OsString};

/// Explains that stored runs are not programs to compare.
pub fn runs_as_programs(
    command: &[OsString],
    is_run: impl Fn(&OsStr) -> bool,
) -> Option<Correction> {
    if command.len() < 2 || !command.iter().all(|word| is_run(word)) {
        return None;
    }
    Some(Correction {
        what: "`provoke compare` compares programs, and these are stored runs".to_owned(),
        hint: format!(
            "to compare stored runs: provoke diff {}",
            shell_line(command)
        ),
    })
}
