//! Measures the size of the processes that `setup` left running, between trials.
//!
//! At that moment no trial of the same slot runs; trials of other slots may run, because a moment
//! without any would rarely come.
//!
//! A look takes some 30 to 100 µs a process, most of it to find the children of each thread. So
//! there is at most one in [`PAUSE`], and fewer for a large tree; none at all where nothing lives.

use crate::model::Around;
use crate::sys::process;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two looks at a tree of up to [`CROWD`] processes; as much again for so many more.
const PAUSE: Duration = Duration::from_millis(100);
/// Processes that are looked at within a few milliseconds.
const CROWD: u32 = 32;

/// Looks at the tree below the steward now and then.
#[derive(Default)]
pub(super) struct Watch(Mutex<Option<Next>>);

struct Next {
    steward: i32,
    /// Not before.
    at: Instant,
}

impl Watch {
    /// Says below which process to look from now on; nothing when it is gone.
    pub(super) fn below(&self, steward: Option<i32>) {
        let next = |steward| Next {
            steward,
            at: Instant::now(),
        };
        *self.0.lock().expect("no panic") = steward.map(next);
    }

    /// Looks, if it is time and something lives.
    pub(super) fn look(&self) -> Option<Around> {
        let mut next = self.0.lock().expect("no panic");
        let next = next.as_mut()?;
        if Instant::now() < next.at {
            return None;
        }
        let seen = size_of(&process::descendants(next.steward));
        next.at = Instant::now() + pause_after(seen.processes);
        (seen.threads > 0).then_some(seen)
    }
}

/// Returns how large processes are together.
pub(super) fn size_of(pids: &[i32]) -> Around {
    let sizes: Vec<process::Size> = pids.iter().filter_map(|pid| process::size(*pid)).collect();
    let sum = |part: fn(&process::Size) -> u64| sizes.iter().map(part).sum();
    Around {
        rss_kib: sum(|size| size.rss_kib),
        processes: sizes.len() as u64,
        threads: sum(|size| size.threads),
        descriptors: sum(|size| size.descriptors),
    }
}

/// Returns how long nobody looks after a look at so many processes.
pub(super) fn pause_after(processes: u64) -> Duration {
    let crowds = u32::try_from(processes).unwrap_or(u32::MAX) / CROWD;
    PAUSE.saturating_mul(crowds.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_lives_nothing_is_seen() {
        let watch = Watch::default();
        assert_eq!(watch.look(), None);
        // No process has this number.
        watch.below(Some(i32::MAX));
        assert_eq!(watch.look(), None);
    }
}
