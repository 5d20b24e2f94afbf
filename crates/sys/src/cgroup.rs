//! Creates a cgroup for each slot, which limits memory and processes of a trial, counts OOM kills and refused forks, and
//! holds every process of the trial.
//!
//! The slot itself is in the cgroup, so its trials start there: joining has no cost per trial. Only processes with a memory
//! limit move themselves into a group below it, because the slot could not work while the kernel looks for memory.
//! Under cgroup v1, where each controller has its own hierarchy, that needs root; under v2 it needs a parent that passes
//! its controllers on, or [can be made to](super::delegated_group). Elsewhere there is no such cgroup, and the report says
//! which facts are unknown.

use super::delegated_group::{self, DelegatedGroup, DelegationObstacle};
use super::locked_cgroup::{CONTROLLERS, LockedFolder, PREFIX, lock_group};
use super::{signals, user};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Files with which a thread or a process joins a cgroup, and what it writes there to join it itself.
const JOINING: [&str; 2] = ["tasks", "cgroup.procs"];
pub(super) const JOIN_SELF: &str = "0";
/// Key of the number of OOM-killed processes in the files of both versions.
const OOM_KILLS: &str = "oom_kill ";
const PROCESS_LIMIT: &str = "pids.max";
/// Period of a quota of CPU time, in microseconds.
const CPU_PERIOD: u64 = 100_000;
/// Percentage of the machine's processes and threads that a trial may have by default: the default of systemd for a
/// service.
const DEFAULT_SHARE: u64 = 15;
/// The default limit is never below this number, unless that is more than half of what the machine allows.
const LEAST_DEFAULT: u64 = 1024;
/// Cgroup of the processes with a memory limit, below that of their slot.
const LIMITED: &str = "limited";
/// Cgroup of the slot under version 2, where a cgroup with subgroups that have limits must not have processes.
const UNLIMITED: &str = "unlimited";
/// Time limit for killing.
const KILL_WITHIN: Duration = Duration::from_secs(5);

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

/// Creates the groups below the cgroup of a slot, as far as it has the memory controller.
fn create_subgroups(group: &Path) {
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

/// Kills all processes in a cgroup and below it, and removes the cgroups. Returns the names and
/// the ids of the killed processes.
fn kill_and_remove(group: &Path) -> Vec<String> {
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
    if group.join("memory.max").exists() {
        let amount = bytes.map_or("max".to_owned(), |bytes| bytes.to_string());
        if group.join("memory.swap.max").exists() {
            set("memory.swap.max", "0")?;
        }
        return set("memory.max", &amount);
    }
    let amount = bytes.map_or("-1".to_owned(), |bytes| bytes.to_string());
    let with_swap = "memory.memsw.limit_in_bytes";
    let counts_swap = group.join(with_swap).exists();
    if counts_swap {
        // The limit with swap must not be below the limit without it.
        set(with_swap, "-1")?;
    }
    set("memory.limit_in_bytes", &amount)?;
    if counts_swap {
        set(with_swap, &amount)?;
    }
    Ok(())
}

/// Limits the CPU time of a cgroup to this percentage of one CPU; without one, there is no limit.
fn limit_cpu(group: &Path, percent: Option<u64>) -> io::Result<()> {
    let quota = percent.map(|percent| percent.saturating_mul(CPU_PERIOD / 100).to_string());
    let version_two = group.join("cpu.max");
    if version_two.exists() {
        let quota = quota.unwrap_or_else(|| "max".to_owned());
        return write_existing(&version_two, &format!("{quota} {CPU_PERIOD}"));
    }
    write_existing(&group.join("cpu.cfs_period_us"), &CPU_PERIOD.to_string())?;
    let quota = quota.unwrap_or_else(|| "-1".to_owned());
    write_existing(&group.join("cpu.cfs_quota_us"), &quota)
}

/// A cgroup of version 1 for processes with limited CPU time. It exists only if a trial has this limit, because it changes
/// how the kernel shares the CPUs.
struct CpuGroup {
    folder: LockedFolder,
    joining: Arc<File>,
}

impl CpuGroup {
    fn try_create() -> io::Result<Self> {
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

/// Opens the file with which a process joins a cgroup.
fn open_joining(group: &Path) -> io::Result<File> {
    let mut files = JOINING.iter().map(|name| group.join(name));
    let file = files
        .find(|file| file.exists())
        .ok_or(io::ErrorKind::Unsupported)?;
    File::options().write(true).open(file)
}

/// Sets the limit of processes and threads of a cgroup, which may be below their present number.
fn limit_processes(group: &Path, count: u64) -> io::Result<()> {
    write_existing(&group.join(PROCESS_LIMIT), &count.to_string())
}

fn write_existing(file: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().write(true).truncate(true).open(file)?;
    file.write_all(text.as_bytes())
}

/// Limits of all processes of a trial together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialLimits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// CPU time, in percent of one CPU.
    #[serde(default)]
    pub cpu_percent: Option<u64>,
}

/// The cgroup of this process.
pub struct TrialGroup {
    folders: Vec<PathBuf>,
    /// Cgroups in which this process was before.
    origins: Vec<PathBuf>,
    oom_kills: Vec<EventCounter>,
    refused_forks: Option<EventCounter>,
    /// Bytes of the memory limit, and the file with which a process joins the group that has it.
    limited: Option<(Option<u64>, Arc<File>)>,
    /// Percentage of the limit of CPU time, if one was set.
    cpu_percent: Option<u64>,
    /// The group that has it under version 1.
    cpu_group: Option<CpuGroup>,
    forbids_forks: bool,
    processes: Option<u64>,
}

impl TrialGroup {
    /// Moves this process into a cgroup that was created for it; returns `None` if that is not allowed.
    pub fn move_into(paths: &[PathBuf]) -> Option<Self> {
        let origins = CONTROLLERS.iter().filter_map(|name| own_group(name));
        let origins = origins.map(|(_, group)| group).collect();
        let folders: Vec<PathBuf> = paths
            .iter()
            .filter(|path| {
                move_self(&path.join(UNLIMITED))
                    .or_else(|_| move_self(path))
                    .is_ok()
            })
            .cloned()
            .collect();
        let open = |name: &str, key| {
            let files = folders.iter().map(|folder| folder.join(name));
            files
                .filter_map(|file| EventCounter::open(&file, key))
                .collect::<Vec<_>>()
        };
        // Version 2 also counts the events of the groups below.
        let mut oom_kills = open("memory.events", OOM_KILLS);
        if oom_kills.is_empty() {
            oom_kills = open("memory.oom_control", OOM_KILLS);
            oom_kills.extend(open("limited/memory.oom_control", OOM_KILLS));
        }
        let refused_forks = open("pids.events", "max ").pop();
        (!folders.is_empty()).then_some(Self {
            folders,
            origins,
            oom_kills,
            refused_forks,
            limited: None,
            cpu_percent: None,
            cpu_group: None,
            forbids_forks: false,
            processes: None,
        })
    }

    /// Sets the limits of a trial, and a default limit of processes where that is possible. Returns the files with which its
    /// processes join the groups that have the limits of memory and of CPU time.
    pub fn set_limits(
        &mut self,
        limits: TrialLimits,
        default_processes: u64,
    ) -> io::Result<Vec<Arc<File>>> {
        let set_processes = self.set_processes(limits.processes.unwrap_or(default_processes));
        if limits.processes.is_some() {
            set_processes?;
        }
        let has_cpu_group = self
            .folders
            .iter()
            .all(|folder| !folder.join(LIMITED).join("cpu.max").exists());
        let mut joined = Vec::new();
        if limits.memory.is_some() || (limits.cpu_percent.is_some() && !has_cpu_group) {
            joined.push(self.limit_memory(limits.memory)?);
        }
        if has_cpu_group {
            joined.extend(self.limit_cpu_in_own_group(limits.cpu_percent)?);
        } else if self.cpu_percent != limits.cpu_percent {
            self.set_limit(|folder| limit_cpu(&folder.join(LIMITED), limits.cpu_percent))?;
            self.cpu_percent = limits.cpu_percent;
        }
        Ok(joined)
    }

    /// Limits the CPU time under version 1.
    fn limit_cpu_in_own_group(&mut self, percent: Option<u64>) -> io::Result<Option<Arc<File>>> {
        if percent.is_none() {
            return Ok(None);
        }
        let group = match self.cpu_group.take() {
            Some(group) => group,
            None => CpuGroup::try_create()?,
        };
        if self.cpu_percent != percent {
            limit_cpu(&group.folder.path, percent)?;
            self.cpu_percent = percent;
        }
        let joining = group.joining.clone();
        self.cpu_group = Some(group);
        Ok(Some(joining))
    }

    /// Limits the memory of the group that has limits; without a number, it has no such limit.
    fn limit_memory(&mut self, bytes: Option<u64>) -> io::Result<Arc<File>> {
        let joining = match &self.limited {
            Some((limit, joining)) if *limit == bytes => return Ok(joining.clone()),
            Some((_, joining)) => joining.clone(),
            None => self.open_limited()?.into(),
        };
        if bytes.is_some() || self.limited.is_some() {
            self.set_limit(|folder| limit_memory(&folder.join(LIMITED), bytes))?;
        }
        self.limited = Some((bytes, joining.clone()));
        Ok(joining)
    }

    fn open_limited(&self) -> io::Result<File> {
        let groups = self.folders.iter().map(|folder| folder.join(LIMITED));
        let opened = groups.map(|group| open_joining(&group));
        opened
            .reduce(Result::or)
            .unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()))
    }

    fn set_processes(&mut self, count: u64) -> io::Result<()> {
        if self.processes != Some(count) {
            // This process is in the cgroup, too.
            self.set_limit(|folder| limit_processes(folder, count.saturating_add(1)))?;
            self.processes = Some(count);
        }
        Ok(())
    }

    /// Makes the kernel refuse new processes and threads, so that all can be killed, and so that the kernel stops looking
    /// for their memory: before that, reading the state of such a process may take seconds.
    pub fn forbid_forks(&mut self) {
        let _ = self.set_limit(|folder| limit_processes(folder, 0));
        self.forbids_forks = true;
    }

    /// Undoes [`Self::forbid_forks`].
    pub fn allow_forks(&mut self) {
        if std::mem::take(&mut self.forbids_forks)
            && let Some(count) = self.processes.take()
        {
            // An error is reported when the next trial sets its limits.
            let _ = self.set_processes(count);
        }
    }

    fn set_limit(&self, set: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        let results = self.folders.iter().map(|folder| set(folder));
        results.reduce(Result::or).unwrap_or(Ok(()))
    }

    /// Returns whether processes were OOM-killed or forks refused since the last query of their numbers.
    pub fn has_exceeded_limits(&self) -> bool {
        self.has_oom_kills() || self.refused_forks.iter().any(EventCounter::has_new_events)
    }

    /// Returns whether processes were OOM-killed since the last query of their number.
    pub fn has_oom_kills(&self) -> bool {
        self.oom_kills.iter().any(EventCounter::has_new_events)
    }

    /// Returns the number of OOM-killed processes since the last query.
    pub fn new_oom_kills(&mut self) -> Option<u64> {
        let counters = self.oom_kills.iter_mut();
        counters
            .map(EventCounter::new_events)
            .reduce(|first, second| Some(first? + second?))?
    }

    /// Returns the number of refused forks since the last query.
    pub fn new_refused_forks(&mut self) -> u64 {
        let counter = self.refused_forks.as_mut();
        counter.and_then(EventCounter::new_events).unwrap_or(0)
    }
}

impl Drop for TrialGroup {
    fn drop(&mut self) {
        // Only an empty cgroup can be removed, so move this process out first.
        for origin in &self.origins {
            let _ = move_self(origin);
        }
        for folder in &self.folders {
            remove_group(folder);
        }
    }
}

/// A number that the kernel counts up in a file of a cgroup.
struct EventCounter {
    file: File,
    key: &'static str,
    counted: u64,
}

impl EventCounter {
    fn open(path: &Path, key: &'static str) -> Option<Self> {
        Some(Self {
            file: File::open(path).ok()?,
            key,
            counted: 0,
        })
    }

    fn count(&self) -> Option<u64> {
        let mut buffer = [0; 512];
        let length = self.file.read_at(&mut buffer, 0).ok()?;
        let text = str::from_utf8(&buffer[..length]).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix(self.key)?.parse().ok())
    }

    fn has_new_events(&self) -> bool {
        self.count().is_some_and(|count| count > self.counted)
    }

    /// Returns the number of events since the last query.
    fn new_events(&mut self) -> Option<u64> {
        let count = self.count()?;
        Some(count - std::mem::replace(&mut self.counted, count).min(count))
    }
}

/// Moves this process into a cgroup. It has only this thread, so the file of threads, which only version 1 has, does the
/// same: to move a process, the kernel waits until no other one starts a thread, which takes 5 to 20 ms.
fn move_self(group: &Path) -> io::Result<()> {
    JOINING
        .iter()
        .find(|name| group.join(name).exists())
        .ok_or(io::ErrorKind::Unsupported.into())
        .and_then(|name| fs::write(group.join(name), JOIN_SELF))
}

/// Returns the directories of the present cgroup that have one of [`CONTROLLERS`] for their subgroups.
fn usable_groups() -> Vec<PathBuf> {
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
fn present_group(controller: &str) -> Option<(CgroupVersion, PathBuf)> {
    let (version, group) = own_group(controller)?;
    let around = DelegatedGroup::present().filter(|_| version == CgroupVersion::Two);
    Some((
        version,
        around.map_or(group, |around| around.path().to_owned()),
    ))
}

/// Returns the directory of this process's cgroup in the hierarchy that has a controller, or would have it after
/// delegation.
fn own_group(controller: &str) -> Option<(CgroupVersion, PathBuf)> {
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

/// Returns the default limit of processes and threads of each of several parallel trials: a share of the smallest limit
/// that applies here.
pub fn default_process_limit(jobs: u32) -> u64 {
    let of_kernel = ["threads-max", "pid_max"]
        .iter()
        .filter_map(|name| read_number(&Path::new("/proc/sys/kernel").join(name)));
    let group = present_group("pids").map(|(_, path)| path);
    let of_groups = group
        .iter()
        .flat_map(|group| group.ancestors())
        .filter_map(|group| read_number(&group.join(PROCESS_LIMIT)));
    default_share(of_kernel.chain(of_groups).min().unwrap_or(u64::MAX), jobs)
}

fn read_number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn default_share(machine: u64, jobs: u32) -> u64 {
    let share =
        (machine.saturating_mul(DEFAULT_SHARE) / 100).min(machine / 2 / u64::from(jobs.max(1)));
    share.max(LEAST_DEFAULT.min(machine / 2))
}

/// Versions of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Several hierarchies, each with one or more controllers.
    One,
    /// One hierarchy with all controllers.
    Two,
}

/// Why no cgroup with a controller can be created here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupObstacle {
    /// No file system of cgroups with this controller is mounted.
    NotMounted,
    /// Version 1 needs root.
    NeedsRoot,
    /// The file system of cgroups is read-only, as in most containers.
    NotWritable,
    /// The cgroup of version 2 around provoke cannot pass on the controller.
    Delegation(DelegationObstacle),
}

impl CgroupObstacle {
    /// Returns what prevents a cgroup with this controller, after one could not be created.
    pub fn find(controller: &str) -> Self {
        let Some((version, group)) = present_group(controller) else {
            return Self::NotMounted;
        };
        let is_read_only = access(&group, Access::WRITE_OK) == Err(Errno::ROFS);
        match version {
            CgroupVersion::One if !user::is_root() => Self::NeedsRoot,
            CgroupVersion::Two if !is_read_only => {
                delegated_group::find_obstacle(&group, controller)
                    .map_or(Self::NotWritable, Self::Delegation)
            }
            _ => Self::NotWritable,
        }
    }

    /// Describes it.
    pub fn describe(self, controller: &str) -> String {
        match self {
            Self::NotMounted => {
                format!("no control groups with the {controller} controller are mounted")
            }
            Self::NeedsRoot => "control groups of version 1 need root".to_owned(),
            Self::NotWritable => "this control group cannot be written".to_owned(),
            Self::Delegation(obstacle) => match obstacle {
                DelegationObstacle::RootGroup => {
                    format!("the root control group does not pass on the {controller} controller")
                }
                DelegationObstacle::NoController => {
                    format!("this control group does not have the {controller} controller")
                }
                DelegationObstacle::OtherUser => {
                    "this control group is not delegated to this user".to_owned()
                }
                DelegationObstacle::OtherProcesses => {
                    "this control group has processes other than provoke".to_owned()
                }
            },
        }
    }

    /// Returns what the user can do about it.
    pub fn way_out(self) -> &'static str {
        match self {
            Self::NotMounted => "mount a control group file system with this controller",
            Self::NeedsRoot => "run provoke as root",
            Self::NotWritable => "mount the control group file system read-write",
            Self::Delegation(DelegationObstacle::RootGroup) => {
                "pass it on: echo +memory +pids +cpu > /sys/fs/cgroup/cgroup.subtree_control"
            }
            // The service manager of the user root often does not run.
            Self::Delegation(_) if user::is_root() => {
                "run provoke in its own group: systemd-run --scope -p Delegate=yes provoke ..."
            }
            Self::Delegation(_) => {
                "run provoke in its own group: systemd-run --user --scope -p Delegate=yes provoke ..."
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_limit_is_a_share_of_the_smallest_limit_of_the_machine() {
        // 32,768 processes, as of a kernel with default settings.
        assert_eq!(default_share(32768, 1), 4915);
        assert_eq!(default_share(32768, 8), 2048);
        assert_eq!(default_share(32768, 100), 1024);
        // Containers with a limit of their own.
        assert_eq!(default_share(2000, 2), 1000);
        assert_eq!(default_share(100, 1), 50);
    }

    #[test]
    fn an_event_counter_counts_from_its_last_query() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pids.events");
        fs::write(&path, "other 9\nmax 3\n").unwrap();
        let mut counter = EventCounter::open(&path, "max ").unwrap();
        assert_eq!(counter.new_events(), Some(3));
        assert_eq!(counter.new_events(), Some(0));
        fs::write(&path, "other 9\nmax 5\n").unwrap();
        assert_eq!(counter.new_events(), Some(2));
        assert!(
            EventCounter::open(&path, "none ")
                .unwrap()
                .new_events()
                .is_none()
        );
    }

    /// Files as version 2 has them in a cgroup of a slot.
    #[test]
    fn limits_are_written_to_the_files_of_version_2() {
        let folder = tempfile::tempdir().unwrap();
        let slot = folder.path().join("slot");
        for group in [&slot, &slot.join(LIMITED)] {
            fs::create_dir(group).unwrap();
            for file in [
                "cgroup.procs",
                "cpu.max",
                "memory.max",
                "memory.swap.max",
                PROCESS_LIMIT,
            ] {
                fs::write(group.join(file), "max").unwrap();
            }
        }
        fs::write(slot.join("memory.events"), "oom_kill 0\n").unwrap();
        fs::write(slot.join("pids.events"), "max 0\n").unwrap();
        create_subgroups(&slot);
        fs::write(slot.join(UNLIMITED).join("cgroup.procs"), "").unwrap();
        let read = |file: &str| fs::read_to_string(slot.join(file)).unwrap();
        assert_eq!(read("cgroup.subtree_control"), "+cpu", "the last change");

        let mut group = TrialGroup::move_into(std::slice::from_ref(&slot)).unwrap();
        assert_eq!(read("unlimited/cgroup.procs"), "0", "the slot joined it");
        let limits = TrialLimits {
            memory: Some(1 << 30),
            processes: Some(40),
            cpu_percent: None,
        };
        assert_eq!(group.set_limits(limits, 1000).unwrap().len(), 1);
        assert_eq!(read("limited/memory.max"), "1073741824");
        assert_eq!(read("limited/memory.swap.max"), "0");
        assert_eq!(read(PROCESS_LIMIT), "41");
        group.forbid_forks();
        assert_eq!(read(PROCESS_LIMIT), "0");
        group.allow_forks();
        assert_eq!(read(PROCESS_LIMIT), "41");
        let limits = TrialLimits {
            cpu_percent: Some(25),
            ..TrialLimits::default()
        };
        assert_eq!(group.set_limits(limits, 1000).unwrap().len(), 1);
        assert_eq!(read("limited/cpu.max"), "25000 100000");
        assert_eq!(read("limited/memory.max"), "max");
        let none = TrialLimits::default();
        assert!(group.set_limits(none, 1000).unwrap().is_empty());
        assert_eq!(read(PROCESS_LIMIT), "1001");
        assert!(!group.has_exceeded_limits());
        fs::write(slot.join("pids.events"), "max 2\n").unwrap();
        assert!(group.has_exceeded_limits());
        assert_eq!(
            (group.new_oom_kills(), group.new_refused_forks()),
            (Some(0), 2)
        );
    }
}
