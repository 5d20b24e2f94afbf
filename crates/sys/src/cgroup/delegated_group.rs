//! Passes the controllers of a cgroup that was delegated to this user on to the cgroups of slots.
//!
//! Under cgroup v2, a cgroup that has processes cannot pass them on. So this process first moves into a subgroup, and
//! back when the last slot has ended.

use super::locked_folder::{LockedFolder, PREFIX, has_word};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// End of the name of the subgroup into which this process moves.
const OWN: &str = "-own";
const PASSED_ON: &str = "cgroup.subtree_control";
const MEMBERS: &str = "cgroup.procs";

/// Controllers that slots use, or trials with limited CPU time.
const PASSED_ON_CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// The cgroup whose controllers this process passes on.
static PRESENT: Mutex<Weak<DelegatedGroup>> = Mutex::new(Weak::new());

/// A cgroup whose controllers this process passes on to the subgroups, until this is dropped.
#[derive(Debug)]
pub struct DelegatedGroup {
    path: PathBuf,
    own: LockedFolder,
    controllers: Vec<&'static str>,
}

/// Why a cgroup of version 2 does not pass on a controller, and cannot be made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegationObstacle {
    /// It does not have the controller.
    NoController,
    /// It belongs to another user.
    OtherUser,
    /// It is the root group of the machine.
    RootGroup,
    /// It has other processes.
    OtherProcesses,
}

impl DelegatedGroup {
    /// Returns the cgroup whose controllers this process passes on.
    pub(super) fn present() -> Option<Arc<Self>> {
        lock_present().upgrade()
    }

    /// Passes on the controllers of the cgroup of this process, if that is allowed and necessary.
    pub(super) fn enter(path: &Path) -> Option<Arc<Self>> {
        let mut present = lock_present();
        if let Some(group) = present.upgrade() {
            return Some(group);
        }
        let group = Arc::new(Self::try_enter(path)?);
        *present = Arc::downgrade(&group);
        Some(group)
    }

    fn try_enter(path: &Path) -> Option<Self> {
        let is_missing = |name: &&str| !passes_on(path, name);
        let possible = |name: &&str| find_obstacle(path, name).is_none();
        let controllers: Vec<&str> = PASSED_ON_CONTROLLERS
            .into_iter()
            .filter(is_missing)
            .filter(possible)
            .collect();
        if controllers.is_empty() {
            return None;
        }
        let own = path.join(format!("{PREFIX}{}{OWN}", std::process::id()));
        let own = LockedFolder::try_create(own)?;
        // If this fails, the new value moves this process back, too.
        let group = Self {
            path: path.to_owned(),
            own,
            controllers,
        };
        fs::write(group.own.path.join(MEMBERS), "0").ok()?;
        set_passed_on(path, '+', &group.controllers).ok()?;
        Some(group)
    }

    /// Returns the path of the cgroup.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DelegatedGroup {
    fn drop(&mut self) {
        // If a process that cannot be killed is left in a slot's cgroup, the next run removes the groups.
        let _ = set_passed_on(&self.path, '-', &self.controllers);
        let members = fs::read_to_string(self.own.path.join(MEMBERS)).unwrap_or_default();
        for pid in members.lines() {
            let _ = fs::write(self.path.join(MEMBERS), pid);
        }
        let _ = fs::remove_dir(&self.own.path);
    }
}

fn lock_present() -> std::sync::MutexGuard<'static, Weak<DelegatedGroup>> {
    PRESENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a cgroup passes a controller on to its subgroups.
pub(super) fn passes_on(group: &Path, controller: &str) -> bool {
    has_word(&group.join(PASSED_ON), controller)
}

/// Returns why this process cannot make a cgroup pass on a controller; `None` if it can.
pub(super) fn find_obstacle(group: &Path, controller: &str) -> Option<DelegationObstacle> {
    let user = rustix::process::geteuid().as_raw();
    if !has_word(&group.join("cgroup.controllers"), controller) {
        Some(DelegationObstacle::NoController)
    } else if fs::metadata(group.join(PASSED_ON)).map_or(true, |file| file.uid() != user) {
        Some(DelegationObstacle::OtherUser)
    } else if !group.join("cgroup.events").exists() {
        // Only the root group of a machine does not have this file.
        Some(DelegationObstacle::RootGroup)
    } else {
        let members = fs::read_to_string(group.join(MEMBERS)).unwrap_or_default();
        let only_this = members.trim() == std::process::id().to_string();
        (!only_this).then_some(DelegationObstacle::OtherProcesses)
    }
}

/// Returns whether a cgroup is one into which a process moved to pass on controllers.
pub(super) fn is_own_group(group: &Path) -> bool {
    let name = group.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(OWN))
}

/// Makes a cgroup pass on no controller, after the process that changed this ended without undoing it.
pub(super) fn stop_passing_on(group: &Path) {
    for controller in PASSED_ON_CONTROLLERS {
        let _ = set_passed_on(group, '-', &[controller]);
    }
}

fn set_passed_on(group: &Path, sign: char, controllers: &[&str]) -> io::Result<()> {
    let changes: Vec<String> = controllers
        .iter()
        .map(|name| format!("{sign}{name}"))
        .collect();
    fs::write(group.join(PASSED_ON), changes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::removal;
    use super::*;

    /// Files as version 2 has them in a cgroup that only this process is in.
    fn delegated_folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        write("cgroup.controllers", "cpu memory pids\n");
        write("cgroup.events", "populated 1\n");
        write(MEMBERS, &format!("{}\n", std::process::id()));
        write(PASSED_ON, "");
        folder
    }

    #[test]
    fn a_process_moves_into_a_subgroup_before_it_passes_on_controllers_and_back_afterwards() {
        let folder = delegated_folder();
        let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
        let group = DelegatedGroup::try_enter(folder.path()).unwrap();
        let own = group.own.path.clone();
        assert!(is_own_group(&own), "{own:?}");
        assert_eq!(own.parent(), Some(folder.path()));
        assert_eq!(fs::read_to_string(own.join(MEMBERS)).unwrap(), "0");
        assert_eq!(read(PASSED_ON), "+memory +pids +cpu");
        fs::write(own.join(MEMBERS), "71\n72\n").unwrap();
        drop(group);
        assert_eq!(read(PASSED_ON), "-memory -pids -cpu");
        assert_eq!(read(MEMBERS), "72", "the last process that moved back");
    }

    #[test]
    fn only_controllers_that_are_there_and_not_passed_on_are_passed_on() {
        let folder = delegated_folder();
        let path = folder.path();
        fs::write(path.join("cgroup.controllers"), "pids").unwrap();
        let obstacle = find_obstacle(path, "memory");
        assert_eq!(obstacle, Some(DelegationObstacle::NoController));
        let group = DelegatedGroup::try_enter(path).unwrap();
        assert_eq!(fs::read_to_string(path.join(PASSED_ON)).unwrap(), "+pids");
        drop(group);
        fs::write(path.join(PASSED_ON), "pids").unwrap();
        assert!(DelegatedGroup::try_enter(path).is_none());
    }

    #[test]
    fn a_process_stays_in_a_group_that_it_may_not_change() {
        let folder = delegated_folder();
        let path = folder.path();
        let stays_because = |obstacle| {
            assert_eq!(find_obstacle(path, "pids"), Some(obstacle));
            assert!(DelegatedGroup::try_enter(path).is_none());
            assert_eq!(fs::read_to_string(path.join(PASSED_ON)).unwrap(), "");
            let folders = fs::read_dir(path).unwrap().flatten();
            assert!(!folders.into_iter().any(|entry| entry.path().is_dir()));
        };
        let this = std::process::id();
        // A process outside of the PID namespace has the number 0.
        for members in [format!("{this}\n1\n"), format!("0\n{this}\n")] {
            fs::write(path.join(MEMBERS), members).unwrap();
            stays_because(DelegationObstacle::OtherProcesses);
        }
        fs::remove_file(path.join("cgroup.events")).unwrap();
        stays_because(DelegationObstacle::RootGroup);
        if crate::user::is_root() {
            std::os::unix::fs::chown(path.join(PASSED_ON), Some(1), None).unwrap();
            stays_because(DelegationObstacle::OtherUser);
        }
    }

    /// Groups as a run leaves them when it and its slots are killed.
    #[test]
    fn the_groups_of_a_dead_run_are_removed_and_the_group_around_them_passes_on_nothing() {
        let folder = delegated_folder();
        let path = folder.path();
        fs::write(path.join(PASSED_ON), "memory pids").unwrap();
        let slot = path.join(format!("{PREFIX}999-0"));
        let own = path.join(format!("{PREFIX}999{OWN}"));
        for group in [&own, &slot, &slot.join("limited"), &path.join("other")] {
            fs::create_dir(group).unwrap();
        }
        let of_live_run = LockedFolder::try_create(path.join(format!("{PREFIX}998-0"))).unwrap();
        removal::clean_up_below(path);
        assert!(own.exists(), "a slot of this run may still move there");
        let read = || fs::read_to_string(path.join(PASSED_ON)).unwrap();
        assert_eq!(read(), "memory pids");
        fs::remove_dir(&of_live_run.path).unwrap();
        removal::clean_up_below(path);
        assert!(!own.exists() && !slot.exists() && path.join("other").exists());
        assert_eq!(read(), "-cpu", "the last change");
    }
}
