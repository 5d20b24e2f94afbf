//! The cgroup of a slot, as the slot uses it for its trials.

use super::cpu_group::CpuGroup;
use super::event_counter::EventCounter;
use super::hierarchy::own_group;
use super::joining::{move_self, open_joining};
use super::limits::{TrialLimits, limit_cpu, limit_memory, limit_processes};
use super::locked_folder::CONTROLLERS;
use super::removal::remove_group;
use super::slot_group::{LIMITED, UNLIMITED};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Key of the number of OOM-killed processes in the files of both versions.
const OOM_KILLS: &str = "oom_kill ";

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

#[cfg(test)]
mod tests {
    use super::super::limits::PROCESS_LIMIT;
    use super::super::slot_group::create_subgroups;
    use super::*;
    use std::fs;

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
