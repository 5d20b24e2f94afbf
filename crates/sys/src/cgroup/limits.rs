//! Limits of cgroups, in the files of both versions.

use super::hierarchy::present_group;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

pub(super) const PROCESS_LIMIT: &str = "pids.max";
/// Period of a quota of CPU time, in microseconds.
const CPU_PERIOD: u64 = 100_000;
/// Percentage of the machine's processes and threads that a trial may have by default: the default of systemd for a
/// service.
const DEFAULT_SHARE: u64 = 15;
/// The default limit is never below this number, unless that is more than half of what the machine allows.
const LEAST_DEFAULT: u64 = 1024;

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

fn default_share(machine: u64, jobs: u32) -> u64 {
    let share =
        (machine.saturating_mul(DEFAULT_SHARE) / 100).min(machine / 2 / u64::from(jobs.max(1)));
    share.max(LEAST_DEFAULT.min(machine / 2))
}

fn read_number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Sets the total memory limit of a cgroup, including swap if swap is accounted.
pub(super) fn limit_memory(group: &Path, bytes: Option<u64>) -> io::Result<()> {
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

/// Limits the CPU time of a cgroup to this percentage of one CPU; `None` removes the limit.
pub(super) fn limit_cpu(group: &Path, percent: Option<u64>) -> io::Result<()> {
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

/// Sets the limit of processes and threads of a cgroup, which may be below their present number.
pub(super) fn limit_processes(group: &Path, count: u64) -> io::Result<()> {
    write_existing(&group.join(PROCESS_LIMIT), &count.to_string())
}

pub(super) fn write_existing(file: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().write(true).truncate(true).open(file)?;
    file.write_all(text.as_bytes())
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
        // Containers with their own limit.
        assert_eq!(default_share(2000, 2), 1000);
        assert_eq!(default_share(100, 1), 50);
    }
}
