//! A disk that takes longer to keep data.

use super::clock_shift::check_machine;
use super::simple::SEARCH;
use super::{Lever, LeverSearch, TrialStart, parse_time};
use provoke_model::TrialsPlan;
use provoke_words::diagnostic::Diagnostic;
use std::io;
use std::time::Duration;

/// Longer delays let each trial time out.
const LONGEST: Duration = Duration::from_secs(60);

/// How much longer each call takes that waits until data is on a disk: `fsync`, `fdatasync`, `sync`, `syncfs`, `msync` and
/// `sync_file_range`. `0ms` changes nothing, but is done in the same way. Writes to files that were opened with `O_SYNC`,
/// and calls in an `io_uring`, are not delayed. As with `date`, the processes are traced.
pub(super) struct SlowSync;

impl Lever for SlowSync {
    fn name(&self) -> &'static str {
        "slow-sync"
    }

    fn about(&self) -> &'static str {
        "fsync and similar calls take this much longer: `100ms`"
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        let time = parse_time(typed)?;
        if time > LONGEST {
            return Err("a call is delayed by at most 60 s".to_owned());
        }
        Ok(format!("{}ms", time.as_millis()))
    }

    fn instead_in_containers(&self) -> Option<&'static str> {
        Some("run the command without a container, because the engine starts its processes")
    }

    fn search(&self) -> Option<LeverSearch> {
        Some(LeverSearch {
            family: "slow disk",
            values: &["100ms"],
            sham: Some("0ms"),
            ladder: &["5ms", "20ms", "50ms", "100ms"],
            cause: "slow disk: it assumes that data is on the disk soon",
            cause_if_removed: Some("slow disk: it fails if data is on the disk soon"),
            ..SEARCH
        })
    }

    fn prepare(&self, _: &str, trials: &mut TrialsPlan) -> Result<(), Diagnostic> {
        check_machine(self.name(), trials)
    }

    fn apply(&self, value: &str, start: &mut TrialStart) -> io::Result<()> {
        start.sync_delay = Some(parse_time(value).map_err(io::Error::other)?);
        Ok(())
    }
}
