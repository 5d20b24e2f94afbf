//! Measures the size of the processes that `setup` left running, between trials.
//!
//! At that moment no trial of the same slot runs. Trials of other slots may run, because moments
//! without any trial are rare.
//!
//! A measurement takes some 30 to 100 µs per process, most of it to find the children of each
//! thread. So there is at most one in [`PAUSE`], fewer for a large tree, and none if no process
//! runs.

use provoke_model::TotalUsage;
use provoke_sys::process;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Pause between two measurements of a tree of up to [`CROWD`] processes; it grows in proportion to
/// the number of processes.
const PAUSE: Duration = Duration::from_millis(100);
/// Number of processes that are measured within a few milliseconds.
const CROWD: u32 = 32;

/// Measures the tree below the slot of `setup` from time to time.
#[derive(Default)]
pub(super) struct UsageMonitor(Mutex<Option<NextMeasurement>>);

struct NextMeasurement {
    hook_slot: i32,
    /// Earliest time of the next measurement.
    at: Instant,
}

impl UsageMonitor {
    /// Sets the process below which to measure, or `None` if it has ended.
    pub(super) fn set_hook_slot(&self, hook_slot: Option<i32>) {
        let next = |hook_slot| NextMeasurement {
            hook_slot,
            at: Instant::now(),
        };
        *self.0.lock().expect("no panic") = hook_slot.map(next);
    }

    /// Measures if the pause is over and any process runs.
    pub(super) fn sample_size(&self) -> Option<TotalUsage> {
        let mut next = self.0.lock().expect("no panic");
        let next = next.as_mut()?;
        if Instant::now() < next.at {
            return None;
        }
        let usage = size_of(&process::descendant_pids(next.hook_slot));
        next.at = Instant::now() + pause_after(usage.processes);
        (usage.threads > 0).then_some(usage)
    }
}

/// Returns the total size of processes.
pub(super) fn size_of(pids: &[i32]) -> TotalUsage {
    let sizes: Vec<process::ProcessUsage> = pids
        .iter()
        .filter_map(|pid| process::process_size(*pid))
        .collect();
    let sum = |quantity: fn(&process::ProcessUsage) -> u64| sizes.iter().map(quantity).sum();
    TotalUsage {
        rss_kib: sum(|size| size.rss_kib),
        processes: sizes.len() as u64,
        threads: sum(|size| size.threads),
        descriptors: sum(|size| size.descriptors),
    }
}

/// Returns the pause after a measurement of this number of processes.
pub(super) fn pause_after(processes: u64) -> Duration {
    let crowds = u32::try_from(processes).unwrap_or(u32::MAX) / CROWD;
    PAUSE.saturating_mul(crowds.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_processes_no_usage_is_measured() {
        let watch = UsageMonitor::default();
        assert_eq!(watch.sample_size(), None);
        // No process has this id.
        watch.set_hook_slot(Some(i32::MAX));
        assert_eq!(watch.sample_size(), None);
    }
}
