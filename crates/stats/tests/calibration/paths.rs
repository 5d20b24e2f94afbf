//! Measures the error and the power of comparisons of paths; `cargo bench -p provoke-stats --bench paths` measures more.

use provoke_stats::paths::PathStatement;

use super::chance::share;
use super::simulated_paths::{FIRST, FOURTH, PathWorld, SECOND, THIRD, WITH_CAUSE, WITHOUT_CAUSE};

const ALPHA: f64 = 0.05;
const SEARCHES: u32 = 200;

/// Returns the shares of searches with a lead and with an effect of arming.
fn claims(world: PathWorld) -> [f64; 2] {
    let ends = (0..u64::from(SEARCHES)).map(|seed| world.search(seed).comparison);
    let counts = ends.fold([0, 0], |[leads, effects], end| {
        let has_effect = !end.arming.is_empty();
        [
            leads + u32::from(end.lead.is_some()),
            effects + u32::from(has_effect),
        ]
    });
    counts.map(|count| share(count, SEARCHES, ALPHA).0)
}

#[test]
fn three_looks_at_a_program_without_a_cause_claim_one_in_at_most_one_of_twenty_cases() {
    for world in WITHOUT_CAUSE {
        for claimed in claims(world) {
            let limit = ALPHA + share(0, SEARCHES, ALPHA).1;
            assert!(claimed <= limit, "{world:?}: {claimed}");
        }
    }
}

/// Returns whether a statement is the cause.
fn is_cause(world: PathWorld, statement: PathStatement) -> bool {
    let between = |from, to, other| statement == PathStatement::Between { from, to, other };
    let reached = |point| statement == PathStatement::Reached { point, times: 1 };
    let not_reached = |point| statement == PathStatement::NotReached { point };
    match world {
        PathWorld::LostUpdate => {
            matches!(
                statement,
                PathStatement::Together {
                    from: FIRST,
                    to: SECOND,
                    ..
                }
            ) || [FIRST, SECOND]
                .iter()
                .any(|other| between(FIRST, SECOND, *other))
        }
        // After a deadlock the thread does not reach the second point, so only the order of the first locks remains.
        PathWorld::LockOrder => {
            [SECOND, FOURTH].iter().any(|point| not_reached(*point))
                || matches!(
                    statement,
                    PathStatement::Before { .. } | PathStatement::Between { .. }
                )
        }
        PathWorld::MissingFile => reached(SECOND) || not_reached(FIRST),
        PathWorld::RareBranch => reached(FOURTH) || not_reached(THIRD),
        PathWorld::TwoCauses => [SECOND, FOURTH].iter().any(|point| reached(*point)),
        _ => false,
    }
}

#[test]
fn the_first_look_finds_most_causes() {
    for world in WITH_CAUSE {
        let searches: u32 = 40;
        let mut found = 0;
        for seed in 0..u64::from(searches) {
            let end = world.search(seed);
            let lead = end.comparison.lead.map(|lead| &end.comparison.groups[lead]);
            let is_found = lead.is_some_and(|lead| is_cause(world, lead.statements[0]));
            found += u32::from(is_found);
        }
        eprintln!("{world:?} {found}");
    }
}
