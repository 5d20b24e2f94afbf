//! Pauses in which no process of a trial runs.

use super::amount::parse_time;
use super::simple::{LEVER, Obstacle, SEARCH};
use super::{Lever, LeverSearch};
use std::io;
use std::time::Duration;

/// Longer pauses let each trial time out.
const LONGEST: Duration = Duration::from_secs(60);

pub(super) static PAUSES: Lever = Lever {
    name: "pauses",
    about: "pauses of this length, each after half as long a time, in which no process of a trial runs: `100ms`",
    parse: |typed| {
        let time = parse_time(typed)?;
        if time > LONGEST {
            return Err("a pause is at most 60 s long".to_owned());
        }
        Ok(format!("{}ms", time.as_millis()))
    },
    apply: |value, start| {
        start.pauses = Some(parse_time(value).map_err(io::Error::other)?);
        Ok(())
    },
    obstacle: |_, trials| {
        let mut conditions = trials.conditions.all();
        let is_set = conditions.any(|(name, _)| matches!(name, "date" | "clock" | "slow-sync"));
        let is_traced = is_set || trials.settings.traces() || trials.held.is_some();
        is_traced.then(|| Obstacle::of_trials("a tracer stops and continues the processes"))
    },
    instead_in_containers: Some("limit the CPU time of the container: --container cpus=0.1"),
    search: Some(LeverSearch {
        values: &["100ms"],
        sham: Some("0ms"),
        ladder: &["5ms", "20ms", "50ms", "100ms", "200ms", "500ms", "1s"],
        cause: "deadline: it measures time that the process may not get",
        cause_if_removed: Some("timing: it fails less often if it is paused, as a race may"),
        // It cannot be combined with a fake clock.
        is_harsh: true,
        ..SEARCH
    }),
    ..LEVER
};
