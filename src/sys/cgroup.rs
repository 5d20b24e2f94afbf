//! A memory group of a lane's own, where one can be had: the only witness that
//! tells for certain that a kill was for want of memory.
//!
//! The slot itself lives in the group, so its trials are born there: joining
//! costs nothing per trial. Under cgroup v1 that needs root; under v2 it needs a
//! group whose controllers are passed on to its children. Elsewhere there is
//! none, and the report says what is not known.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A memory group that this process made and lives in.
pub struct MemoryGroup {
    path: PathBuf,
    events: File,
}

impl MemoryGroup {
    /// Makes a group of this name below the present one and moves this process into it.
    pub fn enter(name: &str) -> Option<Self> {
        let (parent, counter) = present()?;
        let path = parent.join(name);
        // One that a killed run left is empty; one that is in use stays.
        let _ = fs::remove_dir(&path);
        fs::create_dir(&path).ok()?;
        let entered = File::open(path.join(counter)).ok().and_then(|events| {
            move_self(&path).ok()?;
            Some(Self {
                path: path.clone(),
                events,
            })
        });
        if entered.is_none() {
            let _ = fs::remove_dir(&path);
        }
        entered
    }

    /// Returns its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns how many processes of this group were killed for want of memory.
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
        // Only an empty group can be removed; ours holds ourselves.
        if let Some(parent) = self.path.parent() {
            let _ = move_self(parent);
        }
        let _ = fs::remove_dir(&self.path);
    }
}

fn move_self(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

/// Returns the folder of the present memory group, and the file that counts its kills.
fn present() -> Option<(PathBuf, &'static str)> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        if controllers.split(',').any(|name| name == "memory") {
            let root = mount(&mounts, "cgroup", |options| {
                options.split(',').any(|o| o == "memory")
            })?;
            return Some((
                root.join(path.trim_start_matches('/')),
                "memory.oom_control",
            ));
        }
        if controllers.is_empty()
            && let Some(root) = mount(&mounts, "cgroup2", |_| true)
        {
            let group = root.join(path.trim_start_matches('/'));
            let passed_on = fs::read_to_string(group.join("cgroup.subtree_control")).ok()?;
            if passed_on
                .split_ascii_whitespace()
                .any(|name| name == "memory")
            {
                return Some((group, "memory.events"));
            }
        }
    }
    None
}

/// The versions of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller, or for some.
    One,
    /// One hierarchy for all.
    Two,
}

/// Returns the version that counts memory here, or would if it were passed on.
pub fn version() -> Option<Version> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let memory = |options: &str| options.split(',').any(|o| o == "memory");
    if mount(&mounts, "cgroup", memory).is_some() {
        return Some(Version::One);
    }
    let two = own.lines().any(|line| line.starts_with("0::"));
    (two && mount(&mounts, "cgroup2", |_| true).is_some()).then_some(Version::Two)
}

/// Returns how much memory the group of this process may use, as the kernel says it.
pub fn memory_limit() -> Option<String> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (root, file) = if controllers.split(',').any(|name| name == "memory") {
            let memory = |options: &str| options.split(',').any(|o| o == "memory");
            (mount(&mounts, "cgroup", memory)?, "memory.limit_in_bytes")
        } else if controllers.is_empty() {
            (mount(&mounts, "cgroup2", |_| true)?, "memory.max")
        } else {
            return None;
        };
        let group = root.join(path.trim_start_matches('/'));
        let limit = fs::read_to_string(group.join(file)).ok()?;
        Some(limit.trim().to_owned())
    })
}

/// Returns where a file system of this type is mounted whose options please.
fn mount(mounts: &str, kind: &str, pleases: impl Fn(&str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (place, rest) = line.split_once(" - ")?;
        let mut rest = rest.split(' ');
        let right = rest.next()? == kind && pleases(rest.nth(1)?);
        let mut place = place.split(' ');
        let (root, point) = (place.nth(3)?, place.next()?);
        (right && root == "/").then(|| PathBuf::from(point))
    })
}
