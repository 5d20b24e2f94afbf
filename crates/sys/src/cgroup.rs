//! Creates a cgroup for each slot, which counts OOM kills and holds every process of a trial.
//!
//! The slot itself is in the cgroup, so its trials start there: joining has no cost per trial.
//! Under cgroup v1 that needs root; under v2 it needs a parent whose controllers are delegated to
//! its children. Elsewhere there is no such cgroup, and the report says which facts are unknown.

use super::signals;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Files that count OOM kills, in the versions 2 and 1.
const COUNTERS: [&str; 2] = ["memory.events", "memory.oom_control"];
/// Prefix of the names of slot cgroups.
const PREFIX: &str = "provoke-run-";
/// Attempts to create and lock a cgroup: another run may remove a new cgroup just before it is
/// locked.
const ATTEMPTS: u32 = 20;
/// Time limit for killing.
const KILL_WITHIN: Duration = Duration::from_secs(5);

/// A memory cgroup that this process created for a slot.
///
/// Its directory is locked while it is in use. The kernel releases the lock when this process ends,
/// however it ends, so a cgroup that can be locked belongs to a dead run.
pub struct SlotGroup {
    path: PathBuf,
    _lock: File,
}

impl SlotGroup {
    /// Creates a cgroup below the present one; returns `None` if that is not allowed.
    pub fn try_create() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let parent = present_group()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        for _ in 0..ATTEMPTS {
            if let Err(error) = fs::create_dir(&path)
                && error.kind() != io::ErrorKind::AlreadyExists
            {
                return None;
            }
            if let Some(lock) = lock_group(&path) {
                return Some(Self { path, _lock: lock });
            }
            sleep(Duration::from_millis(1));
        }
        None
    }

    /// Returns the directory of the cgroup.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether a cgroup can be created and its memory can be limited.
    pub fn can_limit_memory(bytes: u64) -> bool {
        Self::try_create().is_some_and(|group| limit_memory(&group.path, Some(bytes)).is_ok())
    }
}

impl Drop for SlotGroup {
    fn drop(&mut self) {
        kill_and_remove(&self.path);
    }
}

/// Kills remaining processes in the cgroups of dead runs, and removes these cgroups. Returns the
/// number of killed processes.
pub fn clean_up_after_dead_runs() -> usize {
    let Some(parent) = present_group() else {
        return 0;
    };
    let groups = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            name.to_str().is_some_and(|name| name.starts_with(PREFIX))
        });
    groups
        .map(|entry| match lock_group(&entry.path()) {
            Some(_lock) if !has_slot(&entry.path()) => kill_and_remove(&entry.path()),
            Some(_) | None => 0,
        })
        .sum()
}

/// Returns whether the slot of a cgroup is alive: it then cleans up after its run, also in a
/// container engine, and ends by itself.
fn has_slot(group: &Path) -> bool {
    let argument = [group.as_os_str().as_bytes(), b"\0"].concat();
    let is_slot = |pid: &i32| {
        let command = fs::read(format!("/proc/{pid}/cmdline"));
        command.is_ok_and(|command| command.ends_with(&argument))
    };
    group_members(group).iter().any(is_slot)
}

/// Locks the directory of a cgroup; returns `None` if its run is alive or the cgroup is gone.
fn lock_group(path: &Path) -> Option<File> {
    let folder = File::open(path).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    // Another run may have removed the directory before it was locked.
    let is_there = fs::metadata(path).ok()?.ino() == folder.metadata().ok()?.ino();
    is_there.then_some(folder)
}

/// Kills all processes in a cgroup and below it, and removes the cgroups. Returns the number of
/// killed processes.
fn kill_and_remove(group: &Path) -> usize {
    let deadline = Instant::now() + KILL_WITHIN;
    let mut killed = Vec::new();
    loop {
        remove_group(group);
        if !group.exists() || Instant::now() > deadline {
            return killed.len();
        }
        // This file exists only in version 2.
        let _ = fs::write(group.join("cgroup.kill"), "1");
        for pid in group_members(group) {
            if signals::send_signal(pid, Signal::KILL).is_ok() && !killed.contains(&pid) {
                killed.push(pid);
            }
        }
        sleep(Duration::from_millis(1));
    }
}

/// Removes a cgroup and the cgroups below it, if they are empty.
fn remove_group(group: &Path) {
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

/// Sets the total memory limit of a cgroup, including swap if swap is accounted.
fn limit_memory(group: &Path, bytes: Option<u64>) -> io::Result<()> {
    let set = |file: &str, value: &str| fs::write(group.join(file), value);
    let amount = |unlimited: &str| bytes.map_or(unlimited.to_owned(), |bytes| bytes.to_string());
    if group.join("memory.max").exists() {
        if group.join("memory.swap.max").exists() {
            set("memory.swap.max", if bytes.is_some() { "0" } else { "max" })?;
        }
        return set("memory.max", &amount("max"));
    }
    let with_swap = "memory.memsw.limit_in_bytes";
    let counts_swap = group.join(with_swap).exists();
    if counts_swap {
        // The limit with swap must not be below the limit without it.
        set(with_swap, "-1")?;
    }
    set("memory.limit_in_bytes", &amount("-1"))?;
    if counts_swap {
        set(with_swap, &amount("-1"))?;
    }
    Ok(())
}

/// The memory cgroup of this process.
pub struct MemoryGroup {
    path: PathBuf,
    events: File,
    limit: Option<u64>,
}

impl MemoryGroup {
    /// Moves this process into a cgroup that was created for it.
    pub fn move_into(path: &Path) -> Option<Self> {
        let files = COUNTERS.map(|name| path.join(name));
        let events = files.iter().find_map(|file| File::open(file).ok())?;
        move_self(path).ok()?;
        Some(Self {
            path: path.to_owned(),
            events,
            limit: None,
        })
    }

    /// Sets the total memory limit of the cgroup.
    pub fn set_limit(&mut self, bytes: Option<u64>) -> io::Result<()> {
        if self.limit != bytes {
            limit_memory(&self.path, bytes)?;
            self.limit = bytes;
        }
        Ok(())
    }

    /// Returns the number of OOM-killed processes of this cgroup.
    pub fn oom_kills(&self) -> Option<u64> {
        let mut buffer = [0; 512];
        let length = self.events.read_at(&mut buffer, 0).ok()?;
        let text = str::from_utf8(&buffer[..length]).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Only an empty cgroup can be removed, so move this process out first.
        if let Some(parent) = self.path.parent() {
            let _ = move_self(parent);
        }
        remove_group(&self.path);
    }
}

/// Moves this process into a cgroup. It has only this thread, so the file of threads, which only version 1 has, does the
/// same: to move a process, the kernel waits until no other one starts a thread, which takes 5 to 20 ms.
fn move_self(group: &Path) -> io::Result<()> {
    fs::write(group.join("tasks"), "0").or_else(|_| fs::write(group.join("cgroup.procs"), "0"))
}

/// Returns the directory of the present memory cgroup; `None` if it has no memory controller for its subgroups.
fn present_group() -> Option<PathBuf> {
    let own_cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    for line in own_cgroup.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        if controllers.split(',').any(|name| name == "memory") {
            let root = find_mount(&mounts, "cgroup", |options| {
                options.split(',').any(|o| o == "memory")
            })?;
            return Some(root.join(path.trim_start_matches('/')));
        }
        if controllers.is_empty()
            && let Some(root) = find_mount(&mounts, "cgroup2", |_| true)
        {
            let group = root.join(path.trim_start_matches('/'));
            let passed_on = fs::read_to_string(group.join("cgroup.subtree_control")).ok()?;
            if passed_on
                .split_ascii_whitespace()
                .any(|name| name == "memory")
            {
                return Some(group);
            }
        }
    }
    None
}

/// Versions of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Several hierarchies, each with one or more controllers.
    One,
    /// One hierarchy with all controllers.
    Two,
}

/// Returns the version that accounts memory here, or would account it after delegation.
pub fn memory_version() -> Option<CgroupVersion> {
    let own_cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let memory = |options: &str| options.split(',').any(|o| o == "memory");
    if find_mount(&mounts, "cgroup", memory).is_some() {
        return Some(CgroupVersion::One);
    }
    let two = own_cgroup.lines().any(|line| line.starts_with("0::"));
    (two && find_mount(&mounts, "cgroup2", |_| true).is_some()).then_some(CgroupVersion::Two)
}

/// Returns the memory limit of this process's cgroup, as the kernel formats it.
pub fn memory_limit() -> Option<String> {
    let own_cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    own_cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (root, file) = if controllers.split(',').any(|name| name == "memory") {
            let memory = |options: &str| options.split(',').any(|o| o == "memory");
            (
                find_mount(&mounts, "cgroup", memory)?,
                "memory.limit_in_bytes",
            )
        } else if controllers.is_empty() {
            (find_mount(&mounts, "cgroup2", |_| true)?, "memory.max")
        } else {
            return None;
        };
        let group = root.join(path.trim_start_matches('/'));
        let limit = fs::read_to_string(group.join(file)).ok()?;
        Some(limit.trim().to_owned())
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
