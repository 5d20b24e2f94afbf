//! A disk that takes longer to keep data.

use super::clock_shift::check_machine;
use super::simple::{LEVER, SEARCH};
use super::{Lever, LeverSearch, parse_time};
use std::io;
use std::time::Duration;

/// Longer delays let each trial time out.
const LONGEST: Duration = Duration::from_secs(60);

/// How much longer each call takes that waits until data is on a disk: `fsync`, `fdatasync`, `sync`, `syncfs`, `msync` and
/// `sync_file_range`. `0ms` changes nothing, but is done in the same way. Writes to files that were opened with `O_SYNC`,
/// and calls in an `io_uring`, are not delayed. As with `date`, the processes are traced.
pub(super) static SLOW_SYNC: Lever = Lever {
    name: "slow-sync",
    about: "fsync and similar calls take this much longer: `100ms`",
    parse: |typed| {
        let time = parse_time(typed)?;
        if time > LONGEST {
            return Err("a call is delayed by at most 60 s".to_owned());
        }
        Ok(format!("{}ms", time.as_millis()))
    },
    instead_in_containers: Some(
        "run the command without a container, because the engine starts its processes",
    ),
    search: Some(LeverSearch {
        family: "slow disk",
        values: &["100ms"],
        sham: Some("0ms"),
        ladder: &["5ms", "20ms", "50ms", "100ms"],
        cause: "slow disk: it assumes that data is on the disk soon",
        cause_if_removed: Some("slow disk: it fails if data is on the disk soon"),
        ..SEARCH
    }),
    prepare: |_, _, trials| check_machine("slow-sync", trials),
    apply: |value, start| {
        start.sync_delay = Some(parse_time(value).map_err(io::Error::other)?);
        Ok(())
    },
    ..LEVER
};
