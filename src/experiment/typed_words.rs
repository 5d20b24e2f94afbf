//! Finds out what a word of the command line names: a program, or a stored run.

use super::stored_runs::StoredReport;
use crate::suggest::WordKind;
use provoke_journal::{RunFolder, default_root};
use provoke_sys::spawn;
use std::ffi::OsStr;

/// Returns whether a word names a program, here or in `PATH`.
pub fn is_program(word: &OsStr) -> bool {
    let path = std::env::var_os("PATH");
    let cwd = std::env::current_dir();
    cwd.is_ok_and(|cwd| spawn::find_program(word, path.as_deref(), &cwd).is_ok())
}

/// Returns whether a word names a stored run.
pub fn is_run(word: &OsStr) -> bool {
    let name = word.to_str();
    name.is_some_and(|name| RunFolder::find_run(name, &default_root()).is_ok())
}

/// Finds out what a word names.
pub fn kind_of_word(word: &OsStr) -> WordKind {
    let has_hold = |name: &str| {
        let stored = StoredReport::read(name).ok();
        let answer = stored.and_then(|stored| stored.report.answer);
        answer.is_some_and(|answer| !answer.text().held_places().is_empty())
    };
    WordKind {
        is_program: is_program(word),
        is_run: is_run(word),
        is_hunt: word.to_str().is_some_and(has_hold),
    }
}
