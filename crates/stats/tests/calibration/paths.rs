//! Measures the error and the power of comparisons of paths; `cargo bench -p provoke-stats --bench paths` measures more.

use super::chance::share;
use super::simulated_paths::{PathWorld, WITH_CAUSE, WITHOUT_CAUSE};

const ALPHA: f64 = 0.05;
const SEARCHES: u32 = 60;

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
    let worlds: Vec<[f64; 2]> = WITHOUT_CAUSE.into_iter().map(claims).collect();
    for kind in [0, 1] {
        let claimed: f64 = worlds.iter().map(|claims| claims[kind]).sum::<f64>() / 4.0;
        let limit = ALPHA + share(0, 4 * SEARCHES, ALPHA).1;
        assert!(claimed <= limit, "{claimed}: {worlds:?}");
    }
}

#[test]
fn two_stages_without_a_cause_have_a_lead_in_at_most_one_of_twenty_cases() {
    let claims = WITHOUT_CAUSE.into_iter().map(|world| {
        let ends = (0..u64::from(SEARCHES)).map(|seed| world.search_in_stages(seed));
        u32::try_from(ends.filter(|(has_lead, _)| *has_lead).count()).expect("few searches")
    });
    let claims: u32 = claims.sum();
    let claimed = share(claims, 4 * SEARCHES, ALPHA).0;
    let limit = ALPHA + share(0, 4 * SEARCHES, ALPHA).1;
    assert!(claimed <= limit, "{claims} of {}", 4 * SEARCHES);
}

#[test]
fn a_cause_inside_a_function_is_found_in_the_second_stage() {
    let searches = 20;
    for world in [PathWorld::MissingFile, PathWorld::RareBranch] {
        let ends = (0..searches).map(|seed| world.search_in_stages(seed).1);
        let found = ends.filter(|end| {
            let group = end.lead.map(|lead| &end.groups[lead]);
            group.is_some_and(|group| world.is_cause(group.statements[0]))
        });
        let found = found.count();
        assert!(found >= 17, "{world:?}: {found} of {searches}");
    }
}

#[test]
fn most_causes_are_found() {
    let searches = 40;
    for world in WITH_CAUSE {
        let (mut found, mut early) = (0, 0);
        for seed in 0..searches {
            let end = world.search(seed);
            let group = end.comparison.lead.map(|lead| &end.comparison.groups[lead]);
            let is_found = group.is_some_and(|group| world.is_cause(group.statements[0]));
            found += u64::from(is_found);
            early += u64::from(is_found && end.looks == 1);
        }
        assert!(found >= 34, "{world:?}: {found} of {searches}");
        // Each of two causes explains a part of the failures, and few deadlocks show both threads between two points.
        let is_partial = [PathWorld::LockOrder, PathWorld::TwoCauses].contains(&world);
        let least = if is_partial { 10 } else { 30 };
        assert!(
            early >= least,
            "{world:?}: {early} of {searches} by the first comparison"
        );
    }
}
