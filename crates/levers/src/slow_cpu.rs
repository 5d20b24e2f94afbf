//! A quota of CPU time.

use super::simple::{LEVER, Obstacle, SEARCH, stored_number};
use super::{Lever, LeverSearch};
use provoke_model::ServiceOwner;
use provoke_sys::cgroup::{CgroupObstacle, SlotGroup};
use std::num::NonZeroU64;

/// The greatest percentage: that of a machine with thousands of CPUs.
const MAX_PERCENT: u64 = 1_000_000;

fn percent(value: &str) -> Option<NonZeroU64> {
    let number = value.strip_suffix('%').unwrap_or(value).parse().ok()?;
    NonZeroU64::new(number).filter(|percent| percent.get() <= MAX_PERCENT)
}

pub(super) static SLOW_CPU: Lever = Lever {
    name: "slow-cpu",
    about: "a quota of the CPU time of all processes together, in percent of one CPU: `10%`",
    parse: |typed| match percent(typed) {
        Some(percent) => Ok(format!("{percent}%")),
        None => Err(format!("`{typed}` is not a percentage such as `10%`")),
    },
    apply: |value, start| {
        start.total_limits.cpu_percent = Some(stored_number(value.trim_end_matches('%'))?);
        Ok(())
    },
    obstacle: |value, trials| {
        let load = trials.load.as_ref();
        if load.is_some_and(|load| load.owner != ServiceOwner::Provoke) {
            return Some(Obstacle::of_trials("provoke does not start the service"));
        }
        if percent(value).is_some_and(|percent| SlotGroup::can_limit_cpu(percent.get())) {
            return None;
        }
        let obstacle = CgroupObstacle::find("cpu");
        Some(Obstacle {
            reason: obstacle.describe("cpu"),
            way_out: obstacle.way_out(),
        })
    },
    instead_in_containers: Some("limit it in the container: --container cpus=0.1"),
    search: Some(LeverSearch {
        family: "CPU",
        values: &["10%"],
        sham: Some("100000%"),
        ladder: &["200%", "100%", "50%", "25%", "10%", "5%"],
        cause: "CPU time: it depends on how fast it computes",
        ..SEARCH
    }),
    ..LEVER
};
