//! Causes a real crash, to prove that a core can be captured.

use provoke_sys::core_pattern::{self, CoreDestination, CorePathTemplate};
use provoke_sys::limits;
use provoke_sys::private_folder::PrivateFolder;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

/// Time limit for a helper to write the core that it received.
const PATIENCE: Duration = Duration::from_secs(3);

/// Result of the crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureProof {
    /// A core was written here.
    Core(PathBuf),
    /// The program crashed, and no core was found; the flag says whether the kernel reported that it dumped one.
    NoCore(bool),
    /// The program was not started, because its core would have overwritten this file.
    InTheWay(PathBuf),
    /// The program did not crash, for this reason.
    NoCrash(String),
}

/// Runs a victim that crashes in a temporary directory, with the limit for cores raised as far as possible, and looks
/// for the core. All files are removed again, except files that a helper keeps. `provoke` is the program that contains
/// the victim.
pub fn crash_victim(provoke: &Path) -> CaptureProof {
    let proof = PrivateFolder::new("doctor").and_then(|folder| crash_in(folder.path(), provoke));
    proof.unwrap_or_else(|error| CaptureProof::NoCrash(error.to_string()))
}

fn crash_in(folder: &Path, provoke: &Path) -> io::Result<CaptureProof> {
    let destination = core_pattern::read_destination()?;
    let destination_folder = destination.core_template().map(|template| {
        let pattern_folder = template.folder.clone();
        (
            pattern_folder.unwrap_or_else(|| folder.to_owned()),
            template,
        )
    });
    let names_before = destination_folder
        .as_ref()
        .map(|(folder, _)| file_names(folder));
    if let Some((folder, template)) = &destination_folder
        && let Some(file) = overwritten_core(folder, template)
    {
        return Ok(CaptureProof::InTheWay(file));
    }
    limits::allow_core_dumps();
    let mut child = Command::new(provoke)
        .args(["victim", "segv"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let pid = child.id();
    let status = child.wait()?;
    if status.signal().is_none() {
        return Ok(CaptureProof::NoCrash(format!(
            "the test program ended with {status}"
        )));
    }
    let (Some((folder, template)), Some(before)) = (destination_folder, names_before) else {
        return Ok(CaptureProof::NoCore(status.core_dumped()));
    };
    let handed_over = matches!(destination, CoreDestination::Helper { .. });
    let started_at = Instant::now();
    let core_path = loop {
        let core = find_core(&folder, template, &before, pid);
        if core.is_some() || !handed_over || started_at.elapsed() > PATIENCE {
            break core;
        }
        sleep(Duration::from_millis(50));
    };
    Ok(match core_path {
        Some(file) => {
            if !handed_over {
                let _ = fs::remove_file(&file);
            }
            CaptureProof::Core(file)
        }
        None => CaptureProof::NoCore(status.core_dumped()),
    })
}

/// Returns an existing core file that the new core would overwrite.
fn overwritten_core(folder: &Path, template: &CorePathTemplate) -> Option<PathBuf> {
    if template.has_pid {
        return None;
    }
    file_names(folder)
        .into_iter()
        .find(|name| template.fits_name(&name.to_string_lossy()))
        .map(|name| folder.join(name))
}

/// Returns the new core file, by its name and the name of the process.
fn find_core(
    folder: &Path,
    template: &CorePathTemplate,
    names_before: &BTreeSet<OsString>,
    pid: u32,
) -> Option<PathBuf> {
    let new_names = file_names(folder)
        .into_iter()
        .filter(|name| !names_before.contains(name));
    let mut core_names = new_names.filter(|name| {
        let name = name.to_string_lossy();
        template.fits_name(&name) && (!template.has_pid || name.contains(&pid.to_string()))
    });
    core_names.next().map(|name| folder.join(name))
}

fn file_names(folder: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_core_that_would_be_overwritten_is_found() {
        let place = tempfile::tempdir().unwrap();
        let template = |pattern| {
            let destination = core_pattern::parse_pattern(pattern, false);
            destination.core_template().cloned().unwrap()
        };
        let file = place.path().join("core");
        assert_eq!(overwritten_core(place.path(), &template("core")), None);
        fs::write(&file, "evidence").unwrap();
        fs::write(place.path().join("core.7"), "evidence").unwrap();
        assert_eq!(
            overwritten_core(place.path(), &template("core")),
            Some(file)
        );
        assert_eq!(overwritten_core(place.path(), &template("core.%p")), None);
    }

    #[test]
    fn only_a_new_file_with_the_pid_is_the_core() {
        let place = tempfile::tempdir().unwrap();
        let destination = core_pattern::parse_pattern("core.%p", false);
        let template = destination.core_template().unwrap();
        fs::write(place.path().join("core.12"), "old").unwrap();
        let before = file_names(place.path());
        assert_eq!(find_core(place.path(), template, &before, 12), None);
        fs::write(place.path().join("core.34"), "another's").unwrap();
        assert_eq!(find_core(place.path(), template, &before, 35), None);
        let ours = place.path().join("core.34");
        assert_eq!(find_core(place.path(), template, &before, 34), Some(ours));
    }
}
