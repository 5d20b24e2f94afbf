//! Files with which a process joins a cgroup.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Files with which a thread or a process joins a cgroup, and what it writes there to join it itself.
const JOINING: [&str; 2] = ["tasks", "cgroup.procs"];
pub(crate) const JOIN_SELF: &str = "0";

/// Opens the file with which a process joins a cgroup.
pub(super) fn open_joining(group: &Path) -> io::Result<File> {
    let mut files = JOINING.iter().map(|name| group.join(name));
    let file = files
        .find(|file| file.exists())
        .ok_or(io::ErrorKind::Unsupported)?;
    File::options().write(true).open(file)
}

/// Moves this process into a cgroup. It has only this thread, so the file of threads, which only version 1 has, does the
/// same: to move a process, the kernel waits until no other one starts a thread, which takes 5 to 20 ms.
pub(super) fn move_self(group: &Path) -> io::Result<()> {
    JOINING
        .iter()
        .find(|name| group.join(name).exists())
        .ok_or(io::ErrorKind::Unsupported.into())
        .and_then(|name| fs::write(group.join(name), JOIN_SELF))
}
