//! Recognizes stored runs that are given as programs, and programs that are given as stored runs.

use super::Correction;
use super::command_line::shell_line;
use crate::words::quote_word;
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

/// Explains that programs are not stored runs to compare.
pub fn programs_as_runs(names: &[&str], is_program: impl Fn(&OsStr) -> bool) -> Option<Correction> {
    if !names.iter().all(|name| is_program(name.as_ref())) {
        return None;
    }
    let values = quote_word(names.join(",").as_ref());
    Some(Correction {
        what: "`provoke diff` compares stored runs, and these are programs".to_owned(),
        hint: format!("to compare programs: provoke compare -L bin={values} -- {{bin}}"),
    })
}
