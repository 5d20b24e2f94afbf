//! Packages of a Rust program, from its lock file.

use super::file_names::is_one_of;
use provoke_autopsy::CommandEnvironment;
use provoke_model::Survey;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Limit of the bytes of a lock file.
const LARGEST: u64 = 8 << 20;

pub(super) fn survey_cargo(
    survey: &mut Survey,
    chain: &[PathBuf],
    environment: &CommandEnvironment<'_>,
) {
    let Some(folder) = lock_folder(chain, environment) else {
        return;
    };
    let mut locks = folder.ancestors().map(|folder| folder.join("Cargo.lock"));
    let Some(lock) = locks.find(|file| file.is_file()) else {
        return;
    };
    if !fs::metadata(&lock).is_ok_and(|metadata| metadata.len() < LARGEST) {
        return;
    }
    let text = fs::read_to_string(&lock).unwrap_or_default();
    for (name, versions) in parse_packages(&text) {
        survey.set_fact(format!("cargo.{name}"), versions.join(", "));
    }
}

/// Returns the folder at which the search for the lock file starts: where cargo runs, or where it
/// built the program.
fn lock_folder(chain: &[PathBuf], environment: &CommandEnvironment<'_>) -> Option<PathBuf> {
    if chain.iter().any(|file| is_one_of(file, &["cargo"])) {
        return Some(environment.cwd.to_owned());
    }
    let built = |file: &PathBuf| {
        let mut folders = file.ancestors().skip(1);
        folders
            .find(|folder| folder.ends_with("target"))
            .and_then(Path::parent)
            .map(Path::to_owned)
    };
    chain.iter().find_map(built)
}

/// Returns every package of a lock file with its versions.
///
/// cargo writes these files with one field per line, so a TOML parser is not necessary.
fn parse_packages(lock: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut packages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut name = None;
    for line in lock.lines() {
        let field = |key: &str| {
            let value = line.strip_prefix(key)?.strip_prefix(" = \"")?;
            value.strip_suffix('"')
        };
        if line == "[[package]]" {
            name = None;
        } else if let Some(value) = field("name") {
            name = Some(value);
        } else if let (Some(name), Some(version)) = (name, field("version")) {
            packages.entry(name).or_default().push(version);
        }
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_of_every_package_is_read_from_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"rand\"\nversion = \"0.8.5\"\n\n[[package]]\nname = \"rand\"\nversion = \"0.9.0\"\ndependencies = [\n \"libc\",\n]\n\n[[package]]\nname = \"libc\"\nversion = \"0.2.1\"\n";
        let found = parse_packages(lock);
        assert_eq!(found["rand"], ["0.8.5", "0.9.0"]);
        assert_eq!(found["libc"], ["0.2.1"]);
        assert_eq!(found.len(), 2);
    }
}
