//! Measures the error and the power of comparisons of paths; `cargo bench -p provoke-stats --bench paths` measures more.

use super::chance::share;
use super::simulated_paths::{PathWorld, WITH_CAUSE, WITHOUT_CAUSE};

const ALPHA: f64 = 0.05;
const SEARCHES: u32 = 100;

/// Returns the shares of searches with a lead and with an effect of arming.
fn claims(world: PathWorld) -> [f64; 2] {
    let ends = (0..u64::from(SEARCHES)).map(|seed| world.search(seed));
    let counts = ends.fold([0, 0], |[leads, effects], end| {
        let has_lead = end.comparison.lead.is_some();
        [
            leads + u32::from(has_lead),
            effects + u32::from(end.has_effect),
        ]
    });
    counts.map(|count| share(count, SEARCHES, ALPHA).0)
}

#[test]
fn three_comparisons_without_a_cause_have_a_lead_in_at_most_one_of_twenty_cases() {
    for world in WITHOUT_CAUSE {
        for claimed in claims(world) {
            let limit = ALPHA + share(0, SEARCHES, ALPHA).1;
            assert!(claimed <= limit, "{world:?}: {claimed}");
        }
    }
}

#[test]
fn most_causes_are_found_by_the_first_comparison() {
    let searches = 40;
    for world in WITH_CAUSE {
        let is_found = |seed: &u64| {
            let end = world.search(*seed);
            let group = end.comparison.lead.map(|lead| &end.comparison.groups[lead]);
            end.looks == 1 && group.is_some_and(|group| world.is_cause(group.statements[0]))
        };
        let found = (0..searches).filter(is_found).count();
        assert!(found >= 32, "{world:?}: {found} of {searches}");
    }
}
