//! The order in which the tests of a suite run.

use super::simple::{LEVER, Obstacle, SEARCH};
use super::{Lever, LeverSearch};
use provoke_model::CaseOrder;
use provoke_runners::order_obstacle;

pub(super) static ORDER: Lever = Lever {
    name: "order",
    about: "the order of the tests of a suite: `reverse`, or the seed of a random order, such as `7`; needs --cases",
    parse: |typed| Ok(CaseOrder::parse(typed)?.to_string()),
    apply: |value, start| {
        start.case_order = Some(CaseOrder::parse(value).map_err(std::io::Error::other)?);
        Ok(())
    },
    obstacle: |value, trials| {
        let Some(cases) = &trials.cases else {
            return Some(Obstacle {
                reason: "only the order of the tests of a suite can be set".to_owned(),
                way_out: "add --cases, if the command runs a suite",
            });
        };
        let order = CaseOrder::parse(value).ok()?;
        order_obstacle(&cases.runner, &order).map(Obstacle::of_trials)
    },
    instead_in_containers: Some("run the suite without a container"),
    search: Some(LeverSearch {
        family: "order of tests",
        // It reverses the order of each two tests.
        values: &["reverse"],
        seeds: &[
            "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12",
        ],
        only_in_suites: true,
        cause: "order of tests: it depends on what ran before it",
        ..SEARCH
    }),
    ..LEVER
};
