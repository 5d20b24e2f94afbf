//! Finds the cgroup of this process, and its controllers.

use super::delegated_group::{self, DelegatedGroup};
use super::locked_folder::CONTROLLERS;
use std::fs;
use std::path::PathBuf;

/// Versions of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Several hierarchies, each with one or more controllers.
    One,
    /// One hierarchy with all controllers.
    Two,
}

/// Returns the memory limit of this process's cgroup, as the kernel formats it.
pub fn memory_limit() -> Option<String> {
    let (version, group) = present_group("memory")?;
    let file = match version {
        CgroupVersion::One => "memory.limit_in_bytes",
        CgroupVersion::Two => "memory.max",
    };
    let limit = fs::read_to_string(group.join(file)).ok()?;
    Some(limit.trim().to_owned())
}

/// Returns the directories of the present cgroup that have one of [`CONTROLLERS`] for their subgroups.
pub(super) fn usable_groups() -> Vec<PathBuf> {
    let groups = CONTROLLERS.iter().filter_map(|controller| {
        let (version, group) = present_group(controller)?;
        let is_usable =
            version == CgroupVersion::One || delegated_group::passes_on(&group, controller);
        is_usable.then_some(group)
    });
    let mut groups: Vec<PathBuf> = groups.collect();
    groups.dedup();
    groups
}

/// Returns the directory of the cgroup in which the cgroups of slots are created: that of this process, or the one around
/// it if this process moved into a subgroup.
pub(super) fn present_group(controller: &str) -> Option<(CgroupVersion, PathBuf)> {
    let (version, group) = own_group(controller)?;
    let around = DelegatedGroup::present().filter(|_| version == CgroupVersion::Two);
    Some((
        version,
        around.map_or(group, |around| around.path().to_owned()),
    ))
}

/// Returns the directory of this process's cgroup in the hierarchy that has a controller, or would have it after
/// delegation.
pub(super) fn own_group(controller: &str) -> Option<(CgroupVersion, PathBuf)> {
    let own_cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let has_controller = |names: &str| names.split(',').any(|name| name == controller);
    own_cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (version, root) = if has_controller(controllers) {
            let root = find_mount(&mounts, "cgroup", has_controller)?;
            (CgroupVersion::One, root)
        } else if controllers.is_empty() {
            let root = find_mount(&mounts, "cgroup2", |_| true)?;
            (CgroupVersion::Two, root)
        } else {
            return None;
        };
        Some((version, root.join(path.trim_start_matches('/'))))
    })
}

/// Returns the mount point of a file system of this type with accepted options.
fn find_mount(mounts: &str, kind: &str, pleases: impl Fn(&str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount_fields, rest) = line.split_once(" - ")?;
        let mut rest = rest.split(' ');
        let right = rest.next()? == kind && pleases(rest.nth(1)?);
        let mut fields = mount_fields.split(' ');
        let (root, point) = (fields.nth(3)?, fields.next()?);
        (right && root == "/").then(|| PathBuf::from(point))
    })
}
