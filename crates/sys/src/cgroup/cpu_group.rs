//! The cgroup of version 1 that limits the CPU time of trials.

use super::hierarchy::{CgroupVersion, own_group};
use super::joining::open_joining;
use super::locked_folder::{LockedFolder, PREFIX};
use std::fs::{self, File};
use std::io;
use std::sync::Arc;

/// A cgroup of version 1 for processes with limited CPU time. It exists only if a trial has this limit, because it changes
/// how the kernel shares the CPUs.
pub(super) struct CpuGroup {
    pub(super) folder: LockedFolder,
    pub(super) joining: Arc<File>,
}

impl CpuGroup {
    pub(super) fn try_create() -> io::Result<Self> {
        let (version, parent) = own_group("cpu").ok_or(io::ErrorKind::Unsupported)?;
        if version != CgroupVersion::One {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let path = parent.join(cpu_group_name(std::process::id().cast_signed()));
        let folder = LockedFolder::try_create(path).ok_or(io::ErrorKind::PermissionDenied)?;
        let joining = open_joining(&folder.path)?.into();
        Ok(Self { folder, joining })
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder.path);
    }
}

fn cpu_group_name(slot: i32) -> String {
    format!("{PREFIX}{slot}-cpu")
}

/// Removes the cgroup for the CPU time of a slot that was killed, and could not remove it itself.
pub fn remove_cpu_group(slot: i32) {
    if let Some((CgroupVersion::One, parent)) = own_group("cpu") {
        let _ = fs::remove_dir(parent.join(cpu_group_name(slot)));
    }
}
