//! Recognizes programs by the names of their files.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

/// Suffix of the name of a program that does not exist, or not yet.
pub(super) const NOT_FOUND: &str = " (not found)";
/// Programs that only start another program, which is one of their arguments.
pub(super) const LAUNCHERS: [&str; 12] = [
    "chrt", "env", "ionice", "nice", "nohup", "numactl", "setarch", "setsid", "stdbuf", "taskset",
    "time", "timeout",
];
/// Returns whether a file has one of these names, ignoring a version in its name.
pub(super) fn is_one_of(file: &Path, names: &[&str]) -> bool {
    let name = file
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default()
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    names.contains(&name)
}

/// Returns the names in a folder in alphabetical order, up to `at_most`.
pub(super) fn names_in(folder: &Path, at_most: usize) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name())
        .filter_map(|name: OsString| name.into_string().ok())
        .take(at_most)
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_matches_with_any_version_suffix() {
        for name in ["python", "python3", "/usr/bin/python3.11"] {
            assert!(is_one_of(Path::new(name), &["python"]), "{name}");
        }
        for name in ["pythonw", "ipython3", ""] {
            assert!(!is_one_of(Path::new(name), &["python"]), "{name}");
        }
    }
}
