//! Finds the cores of a trial's processes.
//!
//! A core is only taken if its process and session show that it belongs to this trial, never because of its name or path.

use provoke_model::{ActorObservation, Ending, Observation, VariantPlan};
use provoke_sys::core_pattern::{CoreDestination, CorePathTemplate};
use provoke_sys::held_folder::check_place;
use provoke_sys::{files, tool};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Limit of cores that are taken of one trial.
const MAX_CORES: usize = 8;
/// Time limit for the decompression of a large core.
const UNPACKED_WITHIN: Duration = Duration::from_secs(60);
/// Tolerance of file times, which are coarser than the clock.
const COARSE: Duration = Duration::from_secs(2);

/// Returns the cores of this trial's processes, with their owners and the pid that each core
/// contains.
pub(super) fn find_cores(
    destination: &CoreDestination,
    variant: &VariantPlan,
    scratch: &Path,
    (began, seed): (SystemTime, u64),
    observation: &Observation,
) -> Vec<(PathBuf, provoke_autopsy::CoreOwner, i32)> {
    let actor_pids: Vec<i32> = observation.actors.iter().map(|actor| actor.pid).collect();
    let dead = observation
        .crashed_children
        .iter()
        .map(|casualty| casualty.pid);
    let pids: Vec<i32> = actor_pids.iter().copied().chain(dead).collect();
    let contained = observation
        .actors
        .iter()
        .filter_map(|actor| actor.container.as_ref());
    let is_contained = contained.clone().next().is_some();
    let numbers: Vec<(i32, i32)> = contained
        .flat_map(|observation| observation.numbers.clone())
        .collect();
    let unnumbered = unnumbered_processes(observation, &numbers);
    let of_this_trial = |owner: &provoke_autopsy::CoreOwner| {
        pids.contains(&owner.pid)
            || actor_pids.contains(&owner.session)
            || pids.contains(&owner.ppid)
    };
    let (template, packed) = match destination {
        CoreDestination::File(template) => (template, false),
        CoreDestination::Helper {
            leaves: Some(template),
            ..
        } => (template, true),
        CoreDestination::Helper { leaves: None, .. } => return Vec::new(),
    };
    let mut cores: Vec<(PathBuf, provoke_autopsy::CoreOwner, i32)> = Vec::new();
    // Only provoke can create files or symlinks in this folder.
    let folder = scratch.with_file_name("");
    let copied = folder.join("container");
    for path in candidate_files(template, variant, scratch, began, observation) {
        let path = match packed.then(|| unpack_core(&path, &pids, &folder)).flatten() {
            Some(path) => path,
            None => path,
        };
        let Ok(mut owner) = provoke_autopsy::core_owner(&path) else {
            continue;
        };
        // A core from a container contains the pids inside the container.
        let inside = numbers.iter().find(|(inside, _)| *inside == owner.pid);
        let is_own = of_this_trial(&owner);
        let read_seed = || provoke_autopsy::start_variable(&path, "PROVOKE_SEED");
        let core_seed = is_contained.then(read_seed).flatten();
        let is_said = core_seed.as_ref().map(|text| *text == seed.to_string());
        if is_said == Some(false) && !path.starts_with(&copied) {
            // Every container has a process with this pid, and other slots may use this folder.
            continue;
        }
        // A process without a known pid gets a core that belongs to no other process.
        let unnumbered_pid = unnumbered
            .iter()
            .find(|(pid, dumped)| {
                let sure = *dumped || is_said == Some(true) || path.starts_with(&copied);
                !is_own && sure && cores.iter().all(|(_, owner, _)| owner.pid != *pid)
            })
            .map(|(pid, _)| pid);
        let of_container =
            path.starts_with(&copied) || inside.is_some() || unnumbered_pid.is_some();
        if (is_contained && of_container || is_own) && cores.len() < MAX_CORES {
            let pid_in_core = owner.pid;
            owner.pid = inside
                .map(|(_, host_pid)| host_pid)
                .or(unnumbered_pid)
                .copied()
                .unwrap_or(pid_in_core);
            cores.push((path, owner, pid_in_core));
        }
    }
    // The core of an emulated program is more useful than that of its emulator, and comes first.
    cores.sort_by_key(|(path, ..)| {
        !path
            .file_name()
            .and_then(|n| n.to_str())
            .is_some_and(is_of_emulator)
    });
    cores
}

/// Returns the crashed processes in containers whose pid inside the container is unknown, because
/// they ended too early.
///
/// Each has a flag: true if the kernel reported a core dump, false if only the engine reported a
/// signal. The pid of a container's first process may be known nevertheless.
fn unnumbered_processes(observation: &Observation, numbers: &[(i32, i32)]) -> Vec<(i32, bool)> {
    if observation
        .actors
        .iter()
        .all(|actor| actor.container.is_none())
    {
        return Vec::new();
    }
    let actors = observation.actors.iter().filter_map(|actor| {
        let container = actor.container.as_ref()?;
        let silent = container.ended.is_none() && container.code > 128;
        let dumped = has_dumped(actor);
        (dumped || silent).then_some((actor.pid, dumped))
    });
    let crashed = observation
        .crashed_children
        .iter()
        .filter(|casualty| casualty.core)
        .map(|casualty| (casualty.pid, true));
    let is_numbered = |pid: i32| numbers.iter().any(|(_, host_pid)| *host_pid == pid);
    actors
        .chain(crashed)
        .filter(|(pid, _)| !is_numbered(*pid))
        .collect()
}

/// Returns whether the kernel dumped a core of the actor's program in its container.
pub(super) fn has_dumped(actor: &ActorObservation) -> bool {
    let ending = actor
        .container
        .as_ref()
        .and_then(|observation| observation.ended.as_ref());
    matches!(ending, Some(Ending::Signaled(_, true)))
}

/// Returns the files whose path, name and time fit cores of this trial.
pub(super) fn candidate_files(
    template: &CorePathTemplate,
    variant: &VariantPlan,
    scratch: &Path,
    began: SystemTime,
    observation: &Observation,
) -> Vec<PathBuf> {
    let actors = observation.actors.iter();
    let plans = actors.filter_map(|actor| variant.actors.get(actor.actor as usize));
    let cwds = plans.map(|plan| PathBuf::from(plan.cwd.as_os_str()));
    let mut folders: Vec<PathBuf> = cwds.chain([scratch.to_owned()]).collect();
    if let Some(folder) = &template.folder {
        // A relative folder is below the working directory of the process.
        let folders_below: Vec<PathBuf> = folders.iter().map(|cwd| cwd.join(folder)).collect();
        folders.extend(folders_below);
    }
    // Each core that was copied out of a container is in a separate folder.
    let copied = files::folder_entries(&scratch.with_file_name("container"));
    folders.extend(copied.into_iter().flatten());
    folders.sort();
    folders.dedup();
    let fresh = |path: &PathBuf| {
        let modified = files::metadata_itself(path).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|time| time + COARSE >= began)
    };
    let entries = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok());
    let names = entries.flatten().flatten();
    let fits = |name: &str| template.fits_name(name) || is_of_emulator(name);
    let fitting = names.filter(|entry| entry.file_name().to_str().is_some_and(fits));
    fitting.map(|entry| entry.path()).filter(fresh).collect()
}

/// Returns whether a file exists that the user may not read.
pub(super) fn is_of_another(path: &Path) -> bool {
    files::regular_itself(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Returns whether QEMU's user mode wrote the core: `qemu_NAME_DATE-TIME_PID.core`.
///
/// That core is of the emulated program; the kernel also writes a core of QEMU itself.
fn is_of_emulator(name: &str) -> bool {
    let extension = Path::new(name).extension();
    name.starts_with("qemu_") && extension.is_some_and(|extension| extension == "core")
}

/// Writes a core that systemd has stored compressed to a file.
fn unpack_core(path: &Path, pids: &[i32], into: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let pid = pids.iter().find(|pid| name.contains(&format!(".{pid}.")))?;
    files::create_folders(into).ok()?;
    check_place(into).ok()?;
    let target = into.join(format!("unpacked.{pid}"));
    let filter = format!("COREDUMP_PID={pid}");
    let words = [
        "dump".as_ref(),
        filter.as_ref(),
        "-o".as_ref(),
        target.as_os_str(),
    ];
    let deadline = Instant::now() + UNPACKED_WITHIN;
    let result = tool::run_program(Path::new("coredumpctl"), &words, deadline, 0);
    result.is_ok().then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::ActorPlan;
    use provoke_sys::core_pattern;
    use std::process::Command;

    /// Returns pid and core of a shell that crashed in its own folder, if the core pattern of the
    /// machine puts cores there.
    fn crash_shell(folder: &Path) -> (i32, PathBuf) {
        let line = "ulimit -c unlimited; kill -SEGV $$";
        let mut shell = Command::new("sh")
            .args(["-c", line])
            .env("PROVOKE_SEED", "7")
            .current_dir(folder)
            .spawn()
            .unwrap();
        let pid = shell.id().cast_signed();
        shell.wait().unwrap();
        let left = fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        let core = left.filter(|path| path.is_file()).collect::<Vec<_>>();
        let [core] = core.as_slice() else {
            panic!("cores do not land in the working directory here: {core:?}");
        };
        (pid, core.clone())
    }

    fn variant(cwd: &Path) -> VariantPlan {
        let actor = ActorPlan {
            name: String::new(),
            role: provoke_model::ActorRole::Main,
            command: vec!["sh".into()],
            copies: 1,
            env: Vec::new(),
            cwd: cwd.into(),
            stdin: None,
            container: None,
        };
        VariantPlan {
            actors: vec![actor],
            ..VariantPlan::default()
        }
    }

    #[test]
    fn a_core_is_found_for_every_pattern_and_only_for_its_process() {
        let place = tempfile::tempdir().unwrap();
        let cwd = place.path().join("cwd");
        let cores = place.path().join("cores");
        fs::create_dir_all(&cwd).unwrap();
        fs::create_dir_all(&cores).unwrap();
        let began = SystemTime::now();
        let (pid, core) = crash_shell(&cwd);
        let seed = provoke_autopsy::start_variable(&core, "PROVOKE_SEED");
        assert_eq!(seed.as_deref(), Some("7"), "whose it is, it says itself");
        assert_eq!(provoke_autopsy::start_variable(&core, "PROVOKE_SEE"), None);
        let observation_of = |pid| Observation {
            actors: vec![ActorObservation {
                pid,
                ..ActorObservation::default()
            }],
            ..Observation::default()
        };
        let absolute = format!("{}/%e-%p-%t.core", cores.display());
        for (setting, uses_pid, folder, name) in [
            ("core", false, &cwd, "core".to_owned()),
            ("core", true, &cwd, format!("core.{pid}")),
            (
                "%e.p%p.i%i.P%P",
                false,
                &cwd,
                format!("sh.p{pid}.i{pid}.P{pid}"),
            ),
            (
                &absolute,
                false,
                &cores,
                format!("sh-{pid}-1763704800.core"),
            ),
        ] {
            let there = folder.join(name);
            fs::copy(&core, place.path().join("kept")).unwrap();
            fs::rename(&core, &there).unwrap();
            let destination = core_pattern::parse_pattern(setting, uses_pid);
            let found = |seen: &Observation| {
                find_cores(&destination, &variant(&cwd), &cwd, (began, 0), seen)
            };
            let mine = found(&observation_of(pid));
            assert_eq!(mine.len(), 1, "{setting}");
            assert_eq!((&mine[0].0, mine[0].1.pid), (&there, pid));
            assert!(
                found(&observation_of(pid + 1)).is_empty(),
                "{setting}: it is another's"
            );
            fs::remove_file(there).unwrap();
            fs::copy(place.path().join("kept"), &core).unwrap();
        }
    }
}
