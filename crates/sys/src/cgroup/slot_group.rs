//! The cgroup that provoke creates for a slot.

use super::cpu_group::CpuGroup;
use super::delegated_group::DelegatedGroup;
use super::hierarchy::{CgroupVersion, own_group, usable_groups};
use super::limits::{limit_cpu, limit_memory, limit_processes};
use super::locked_folder::{LockedFolder, PREFIX};
use super::removal::kill_and_remove;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Cgroup of the processes with a memory limit, below that of their slot.
pub(super) const LIMITED: &str = "limited";
/// Cgroup of the slot under version 2, where a cgroup with subgroups that have limits must not have processes.
pub(super) const UNLIMITED: &str = "unlimited";

/// The cgroup that this process created for a slot, in each hierarchy that has a controller for it.
pub struct SlotGroup {
    folders: Vec<LockedFolder>,
    /// The group around it, if this process passes on the controllers of that group.
    _delegated: Option<Arc<DelegatedGroup>>,
}

impl SlotGroup {
    /// Creates a cgroup below the present one; returns `None` if that is not allowed.
    pub fn try_create() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let delegated = enter_delegated_group();
        let folders: Vec<LockedFolder> = usable_groups()
            .iter()
            .filter_map(|parent| LockedFolder::try_create(parent.join(&name)))
            .collect();
        for folder in &folders {
            create_subgroups(&folder.path);
        }
        (!folders.is_empty()).then_some(Self {
            folders,
            _delegated: delegated,
        })
    }

    /// Returns the directories of the cgroup.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(|folder| folder.path.as_path())
    }

    /// Returns whether a cgroup can be created and its memory can be limited.
    pub fn can_limit_memory(bytes: u64) -> bool {
        Self::can_set(|path| limit_memory(&path.join(LIMITED), Some(bytes)))
    }

    /// Returns whether a cgroup can be created and its processes can be limited.
    pub fn can_limit_processes(count: u64) -> bool {
        Self::can_set(|path| limit_processes(path, count))
    }

    /// Returns whether a cgroup can be created and its CPU time can be limited to this percentage of one CPU.
    pub fn can_limit_cpu(percent: u64) -> bool {
        match own_group("cpu") {
            Some((CgroupVersion::One, _)) => CpuGroup::try_create()
                .and_then(|group| limit_cpu(&group.folder.path, Some(percent)))
                .is_ok(),
            _ => Self::can_set(|path| limit_cpu(&path.join(LIMITED), Some(percent))),
        }
    }

    fn can_set(limit: impl Fn(&Path) -> io::Result<()>) -> bool {
        Self::try_create().is_some_and(|group| group.paths().any(|path| limit(path).is_ok()))
    }

    /// Makes the kernel refuse new processes and threads, so that all can be killed.
    pub fn forbid_forks(&self) {
        for path in self.paths() {
            let _ = limit_processes(path, 0);
        }
    }
}

impl Drop for SlotGroup {
    fn drop(&mut self) {
        for path in self.paths() {
            kill_and_remove(path);
        }
    }
}

/// Moves this process into a subgroup of its cgroup, if only then the cgroups of slots can have limits. The last owner of
/// the returned value moves it back.
pub fn enter_delegated_group() -> Option<Arc<DelegatedGroup>> {
    DelegatedGroup::present().or_else(|| match own_group("memory")? {
        (CgroupVersion::Two, group) => DelegatedGroup::enter(&group),
        (CgroupVersion::One, _) => None,
    })
}

/// Creates the groups below the cgroup of a slot, as far as it has the memory controller.
pub(super) fn create_subgroups(group: &Path) {
    if group.join("memory.max").exists() {
        let _ = fs::create_dir(group.join(UNLIMITED));
        for controller in ["+memory", "+cpu"] {
            let _ = fs::write(group.join("cgroup.subtree_control"), controller);
        }
    } else if !group.join("memory.limit_in_bytes").exists() {
        return;
    }
    let _ = fs::create_dir(group.join(LIMITED));
}
