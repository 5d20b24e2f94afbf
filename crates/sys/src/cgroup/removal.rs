//! Kills the processes in cgroups, and removes the cgroups.

use super::delegated_group;
use super::hierarchy::{CgroupVersion, present_group};
use super::limits::{limit_processes, write_existing};
use super::locked_folder::{CONTROLLERS, PREFIX, lock_group};
use crate::signals;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit for killing.
const KILL_WITHIN: Duration = Duration::from_secs(5);

/// Kills remaining processes in the cgroups of dead runs, and removes these cgroups. Returns the
/// names and the ids of the killed processes.
pub fn clean_up_after_dead_runs() -> Vec<String> {
    let groups = CONTROLLERS
        .iter()
        .chain(&["cpu"])
        .filter_map(|controller| present_group(controller));
    let parents: BTreeSet<PathBuf> = groups.flat_map(groups_of_runs).collect();
    parents
        .iter()
        .flat_map(|parent| clean_up_below(parent))
        .collect()
}

/// Returns the cgroups in which dead runs may have created cgroups: this one, and under version 2 its siblings of the same
/// user, because systemd creates another one for each run.
fn groups_of_runs((version, group): (CgroupVersion, PathBuf)) -> Vec<PathBuf> {
    let mut groups = Vec::new();
    if version == CgroupVersion::Two
        && let Some(parent) = group.parent()
        && parent.join("cgroup.procs").exists()
    {
        let user = rustix::process::geteuid().as_raw();
        let is_own = |path: &PathBuf| fs::metadata(path).is_ok_and(|folder| folder.uid() == user);
        groups.extend(subgroups(parent).into_iter().filter(is_own));
    }
    groups.push(group);
    groups
}

pub(super) fn clean_up_below(parent: &Path) -> Vec<String> {
    let groups = || {
        let mut groups = subgroups(parent);
        groups.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(PREFIX))
        });
        groups
    };
    let (own, of_slots): (Vec<_>, Vec<_>) = groups()
        .into_iter()
        .partition(|path| delegated_group::is_own_group(path));
    let mut killed: Vec<String> = of_slots
        .iter()
        .flat_map(|path| clean_up_dead(path))
        .collect();
    // A slot that ends moves to the group of its run, so that one is removed last.
    if !own.is_empty() && groups().len() == own.len() {
        killed.extend(own.iter().flat_map(|path| clean_up_dead(path)));
        if groups().is_empty() {
            delegated_group::stop_passing_on(parent);
        }
    }
    killed
}

fn clean_up_dead(group: &Path) -> Vec<String> {
    match lock_group(group) {
        Some(_lock) if !has_slot(group) => kill_and_remove(group),
        Some(_) | None => Vec::new(),
    }
}

/// Returns whether the slot of a cgroup is alive: it then cleans up after its run, also in a
/// container engine, and ends by itself.
fn has_slot(group: &Path) -> bool {
    let is_slot = |pid: &i32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut arguments = command.split(|byte| *byte == 0);
        arguments.any(|argument| argument == group.as_os_str().as_bytes())
    };
    group_members(group).iter().any(is_slot)
}

/// Kills all processes in a cgroup and below it, and removes the cgroups. Returns the names and
/// the ids of the killed processes.
pub(super) fn kill_and_remove(group: &Path) -> Vec<String> {
    let deadline = Instant::now() + KILL_WITHIN;
    let mut killed: BTreeMap<i32, String> = BTreeMap::new();
    let _ = limit_processes(group, 0);
    loop {
        remove_group(group);
        if !group.exists() || Instant::now() > deadline {
            return killed.into_values().collect();
        }
        let members = group_members(group);
        let names: Vec<String> = members.iter().map(|pid| name_process(*pid)).collect();
        // This file exists only in version 2.
        let _ = write_existing(&group.join("cgroup.kill"), "1");
        for (pid, name) in members.into_iter().zip(names) {
            if signals::send_signal(pid, Signal::KILL).is_ok() {
                killed.entry(pid).or_insert(name);
            }
        }
        sleep(Duration::from_millis(1));
    }
}

fn name_process(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} ({pid})", name.trim_end())
}

/// Removes a cgroup and the cgroups below it, if they are empty.
pub(super) fn remove_group(group: &Path) {
    for subgroup in subgroups(group) {
        remove_group(&subgroup);
    }
    let _ = fs::remove_dir(group);
}

/// Returns the processes in a cgroup and below it, except for those without a pid in this pid
/// namespace.
fn group_members(group: &Path) -> Vec<i32> {
    let list = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let own_pids = list
        .lines()
        .filter_map(|pid| pid.parse().ok())
        .filter(|pid| *pid > 0);
    let subgroups_of_group = subgroups(group);
    own_pids
        .chain(
            subgroups_of_group
                .iter()
                .flat_map(|subgroup| group_members(subgroup)),
        )
        .collect()
}

fn subgroups(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}
