//! Other copies of the main command that run at the same time, and are not judged.

use super::simple::{LEVER, Obstacle, SEARCH, parse_integer, stored_number};
use super::{Lever, LeverSearch};

/// More copies are probably a mistake.
const MAX_COPIES: u32 = 64;

pub(super) static COPIES: Lever = Lever {
    name: "copies",
    about: "copies of the command that run at the same time, of which only one is judged: `2`",
    parse: |typed| parse_integer(typed, 1, MAX_COPIES),
    apply: |count, start| {
        start.other_copies = stored_number::<u32>(count)?.saturating_sub(1);
        Ok(())
    },
    obstacle: |_, trials| {
        if trials.cases.is_some() {
            return Some(Obstacle::of_trials(
                "all copies would write one report of tests",
            ));
        }
        let is_loaded = trials.load.is_some();
        is_loaded.then(|| Obstacle::of_trials("a service under load has no copies"))
    },
    instead_in_containers: Some("run parallel trials: --jobs 2"),
    search: Some(LeverSearch {
        values: &["2"],
        ladder: &["2", "4", "8"],
        cause: "copies: two copies at the same time disturb each other",
        cause_if_removed: Some(
            "copies: it fails less often beside a copy of itself, as a race may",
        ),
        ..SEARCH
    }),
    ..LEVER
};
