//! Measures the error and the power of screens; `cargo bench -p provoke-stats --bench conditions`
//! measures more of them.

use provoke_stats::screen::{
    Condition, ConditionRole, ConditionVerdict, Limits, Next, Outcome, PairTestState, Screen,
    ScreenPhase, SuiteScreen,
};

use super::chance::{Chance, share};
use super::simulated_screen::{Ended, SuiteWorld, World};

const ALPHA: f64 = 0.05;
const SCREENS: u32 = 200;
const COUNT: usize = 25;

fn run_screens(world: &World) -> impl Iterator<Item = Ended> {
    (0..u64::from(SCREENS)).map(|seed| world.run_screen(seed, 300))
}

/// Returns the share of screens with a wrong claim.
fn wrong_share(world: &World) -> f64 {
    let wrong = run_screens(world).filter(|ended| ended.is_wrong).count();
    f64::from(u32::try_from(wrong).unwrap()) / f64::from(SCREENS)
}

fn most_wrong() -> f64 {
    ALPHA + share(0, SCREENS, ALPHA).1
}

/// Returns the share of screens that claim all effects, and the median number of trials at the first claim.
fn power(world: &World) -> (f64, u64) {
    let (mut found, mut first_claims) = (0, Vec::new());
    for ended in run_screens(world) {
        found += u32::from(ended.found >= world.effects.len().max(1));
        first_claims.push(ended.first_claim.unwrap_or(u64::MAX));
    }
    first_claims.sort_unstable();
    (
        f64::from(found) / f64::from(SCREENS),
        first_claims[first_claims.len() / 2],
    )
}

#[test]
fn a_screen_without_an_effect_makes_a_claim_in_at_most_one_of_twenty_cases() {
    for base in [0.0, 0.01, 0.2, 0.5, 0.9, 1.0] {
        let wrong = wrong_share(&World::harmless(base, COUNT));
        assert!(wrong <= most_wrong(), "{base}: {wrong}");
    }
}

#[test]
fn a_rate_that_drifts_makes_no_claims() {
    for base in [[0.1, 0.6], [1.0, 0.5]] {
        let world = World {
            base,
            ..World::harmless(0.0, COUNT).with_seeds()
        };
        let wrong = wrong_share(&world);
        assert!(wrong <= most_wrong(), "{base:?}: {wrong}");
    }
}

#[test]
fn parallel_and_inconclusive_trials_keep_the_error() {
    for parallel in [2, 4] {
        let world = World {
            parallel,
            inconclusive: 0.2,
            ..World::harmless(0.5, COUNT)
        };
        let wrong = wrong_share(&world);
        assert!(wrong <= most_wrong(), "{parallel}: {wrong}");
    }
}

#[test]
fn a_sham_with_the_effect_of_its_conditions_prevents_their_claims() {
    for (base, rate) in [(0.0, 1.0), (0.0, 0.5), (0.2, 0.8)] {
        let wrong = wrong_share(&World::harmless(base, COUNT).with_raising_sham(rate));
        assert!(wrong <= most_wrong(), "{base} to {rate}: {wrong}");
    }
}

#[test]
fn an_effect_that_always_decides_is_claimed_within_80_trials() {
    for (base, rate) in [(0.0, 1.0), (1.0, 0.0)] {
        for condition in [0, 24, 49] {
            let world = World::harmless(base, 50).with_effects(&[(condition, rate)]);
            let ended = world.run_screen(1, 300);
            assert!(ended.first_claim.unwrap() <= 80, "{:?}", ended.first_claim);
            assert_eq!(ended.screen.claimed_conditions(), [condition]);
        }
    }
}

#[test]
fn effects_are_claimed_in_the_stated_number_of_trials() {
    for (base, rate, least_found, most_trials) in [
        (0.0, 0.5, 0.95, 80),
        (0.2, 0.6, 0.8, 140),
        (0.2, 0.95, 0.97, 70),
        (0.5, 0.0, 0.95, 80),
        (0.9, 0.0, 0.97, 70),
    ] {
        let (found, median) = power(&World::harmless(base, COUNT).with_effects(&[(7, rate)]));
        assert!(found >= least_found, "{base} to {rate}: {found}");
        assert!(median <= most_trials, "{base} to {rate}: {median}");
    }
}

#[test]
fn a_harsh_condition_that_often_fails_is_found_although_its_first_trial_passed() {
    let world = World::harmless(0.0, 50)
        .with_effects(&[(7, 0.6)])
        .with_harsh(15);
    let (found, _) = power(&world);
    assert!(found >= 0.85, "{found}");
}

#[test]
fn conditions_that_only_matter_together_are_claimed_together() {
    for (joint, base, rate, least_found, most_trials) in [
        (&[3, 9][..], 0.0, 1.0, 0.97, 100),
        (&[3, 9], 1.0, 0.0, 0.97, 100),
        (&[3, 9, 20], 0.0, 1.0, 0.9, 120),
        (&[3, 9], 0.0, 0.6, 0.85, 160),
    ] {
        let world = World::harmless(base, COUNT).with_joint_effect(joint, rate);
        let (mut found, mut exact, mut trials) = (0, 0, Vec::new());
        for ended in run_screens(&world) {
            assert!(ended.screen.claimed_conditions().is_empty());
            trials.push(ended.trials);
            if let Some(claim) = ended.screen.joint_claim() {
                found += 1;
                exact += u32::from(claim.conditions == joint);
            }
        }
        trials.sort_unstable();
        let median = trials[trials.len() / 2];
        let least = f64::from(SCREENS) * least_found;
        assert!(
            f64::from(found) >= least,
            "{joint:?}: {base} to {rate}: {found}"
        );
        assert!(
            f64::from(exact) >= least * 0.8,
            "{joint:?}: {base} to {rate}: {exact}"
        );
        assert!(
            median <= most_trials,
            "{joint:?}: {base} to {rate}: {median}"
        );
    }
}

#[test]
fn all_of_several_conditions_are_claimed() {
    let world = World::harmless(0.0, COUNT).with_effects(&[(3, 1.0), (9, 1.0), (20, 1.0)]);
    assert_eq!(power(&world).0.to_bits(), 1.0_f64.to_bits());
}

#[test]
fn seeds_that_fix_the_outcome_are_claimed_and_others_are_not() {
    let claims = |world: &World| {
        let ended = run_screens(world);
        u32::try_from(ended.filter(|ended| ended.seed_claim.is_some()).count()).unwrap()
    };
    for base in [0.0, 0.05, 0.2, 0.5, 0.9, 1.0] {
        let count = claims(&World::harmless(base, 2).with_seeds());
        assert!(count <= 6, "{base}: {count}");
    }
    let world = World {
        failing_seeds: Some(6),
        ..World::harmless(0.5, 2).with_seeds()
    };
    // A quarter of the screens sees no difference among the first plain trials, and tests nothing.
    assert!(claims(&world) > SCREENS * 7 / 10);
}

#[test]
fn a_seed_that_alone_fails_or_passes_is_claimed_in_pairs() {
    for (failing, base, others) in [
        (1, 0.08, COUNT),
        (1, 0.08, 0),
        (2, 0.17, COUNT),
        (11, 0.92, COUNT),
    ] {
        let world = World {
            failing_seeds: Some(failing),
            ..World::harmless(base, others).with_seeds()
        };
        let (found, median) = power(&world);
        assert!(found >= 0.75, "{failing}, {others}: {found}");
        assert!(median <= 100, "{failing}, {others}: {median}");
    }
}

#[test]
fn seeds_without_an_effect_are_claimed_in_at_most_one_of_twenty_cases() {
    for base in [0.02, 0.05, 0.1, 0.15, 0.9] {
        let wrong = wrong_share(&World::harmless(base, 2).with_seeds());
        assert!(wrong <= most_wrong(), "{base}: {wrong}");
    }
}

fn condition(family: usize) -> Condition {
    Condition {
        family,
        sham: None,
        is_harsh: false,
        role: ConditionRole::Tried,
    }
}

/// Runs a screen whose outcomes depend on the conditions alone, and returns it with its trials.
fn run_by_rule(
    conditions: &[Condition],
    outcome: impl Fn(&[usize]) -> Outcome,
) -> (Screen, Vec<Vec<usize>>) {
    let mut screen = Screen::new(conditions.to_vec(), ALPHA, Limits::default(), 1);
    let mut sets = Vec::new();
    while let Next::Trial(set) = screen.next(&[]) {
        screen.record(&set, outcome(&set));
        sets.push(set);
    }
    assert_eq!(screen.next(&[]), Next::Done);
    (screen, sets)
}

fn fails_if(fails: bool) -> Outcome {
    if fails {
        Outcome::Failed
    } else {
        Outcome::Passed
    }
}

#[test]
fn other_conditions_of_a_claimed_family_are_not_tested() {
    let conditions = [condition(0), condition(1), condition(1), condition(1)];
    let (screen, sets) = run_by_rule(&conditions, |set| fails_if(set.iter().any(|i| *i > 0)));
    assert_eq!(screen.claimed_conditions(), [1]);
    assert_eq!(screen.result_of(1).verdict, ConditionVerdict::Raises);
    assert_eq!(
        screen.result_of(2).verdict,
        ConditionVerdict::NoDifferenceSeen
    );
    assert!(screen.result_of(2).pairs.is_none());
    assert_eq!(sets.len(), 3 + 4 + 1 + 12);
}

#[test]
fn a_condition_is_compared_with_its_sham_and_not_with_plain_trials() {
    let sham = Condition {
        role: ConditionRole::ShamOnly,
        ..condition(1)
    };
    let tried = Condition {
        sham: Some(1),
        ..condition(0)
    };
    let conditions = [tried, sham];
    let (screen, _) = run_by_rule(&conditions, |set| fails_if(!set.is_empty()));
    let pairs = screen.result_of(0).pairs.unwrap();
    assert_eq!(pairs.state, PairTestState::Futile);
    assert_eq!((pairs.without.failures, pairs.without.trials), (7, 7));
    let (screen, _) = run_by_rule(&conditions, |set| fails_if(set == [0]));
    assert_eq!(screen.result_of(0).verdict, ConditionVerdict::Raises);
}

#[test]
fn the_ladder_of_a_claimed_condition_is_divided() {
    let mut conditions = vec![condition(0)];
    conditions.extend((0..6).map(|_| Condition {
        role: ConditionRole::Step { of: 0 },
        ..condition(0)
    }));
    let (screen, _) = run_by_rule(&conditions, |set| fails_if(set == [0] || set >= &[4][..]));
    let dose = screen.result_of(0).dose.unwrap();
    assert_eq!(
        (dose.mildest_with_effect, dose.harshest_without_effect),
        (4, Some(3))
    );
    assert!(dose.is_monotone);
}

#[test]
fn a_condition_without_a_counted_trial_is_untried_and_its_pairs_are_dropped() {
    let conditions = [condition(0), condition(1)];
    let (screen, sets) = run_by_rule(&conditions, |set| {
        if set.contains(&0) {
            Outcome::NotCounted
        } else {
            Outcome::Passed
        }
    });
    assert_eq!(screen.result_of(0).verdict, ConditionVerdict::Untried);
    assert_eq!(
        screen.result_of(1).verdict,
        ConditionVerdict::NoDifferenceSeen
    );
    // It is not combined with others.
    assert_eq!(sets.iter().filter(|set| set.contains(&0)).count(), 1);
}

#[test]
fn harsh_conditions_are_never_combined() {
    let conditions: Vec<Condition> = (0..6)
        .map(|family| Condition {
            is_harsh: family < 3,
            ..condition(family)
        })
        .collect();
    let mut chance = Chance::new(3);
    let mut screen = Screen::new(conditions, ALPHA, Limits::default(), 1);
    while let Next::Trial(set) = screen.next(&[]) {
        assert!(set.len() == 1 || set.iter().all(|i| *i >= 3), "{set:?}");
        screen.record(&set, fails_if(chance.fails(0.5)));
    }
}

#[test]
fn the_order_in_which_parallel_trials_end_does_not_matter() {
    let world = World {
        parallel: 4,
        ..World::harmless(0.0, 12).with_effects(&[(7, 1.0)])
    };
    let conditions = world.conditions.clone();
    let limits = Limits {
        trials: 300,
        parallel: 4,
    };
    let run = |last_first: bool| {
        let mut screen = Screen::new(conditions.clone(), ALPHA, limits, 9);
        let (mut running, mut launched) = (Vec::new(), Vec::new());
        loop {
            match screen.next(&running) {
                Next::Trial(set) if running.len() < 4 => {
                    launched.push(set.clone());
                    running.push(set);
                }
                Next::Done => return (launched, screen.claimed_conditions()),
                _ => {
                    let set = running.remove(if last_first { running.len() - 1 } else { 0 });
                    screen.record(&set, fails_if(set.contains(&7)));
                }
            }
        }
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn the_limit_of_trials_is_kept() {
    let world = World::harmless(0.5, COUNT);
    for limit in [0, 2, 3, 50, 101] {
        let ended = world.run_screen(1, limit);
        assert!(ended.trials <= limit, "{limit}: {}", ended.trials);
        assert_eq!(*ended.screen.phase(), ScreenPhase::Over);
    }
}

/// Returns a suite of tests with these failure rates.
fn suite(rates: &[f64]) -> SuiteWorld {
    let tests = rates.iter().map(|rate| World::harmless(*rate, COUNT));
    SuiteWorld {
        tests: tests.collect(),
        fail_together: false,
    }
}

/// Returns the share of screens with a wrong claim about any of the tests, and the mean number of effects that are found.
fn suite_shares(suite: &SuiteWorld) -> (f64, f64) {
    let (mut wrong, mut found) = (0, 0);
    for seed in 0..u64::from(SCREENS) {
        let ended = suite.run_screen(seed, 300);
        wrong += u32::from(ended.is_wrong);
        found += u32::try_from(ended.found).unwrap();
    }
    (
        f64::from(wrong) / f64::from(SCREENS),
        f64::from(found) / f64::from(SCREENS),
    )
}

#[test]
fn suites_without_an_effect_make_a_claim_about_any_test_in_at_most_one_of_twenty_cases() {
    for (name, rates) in [
        ("rare", vec![0.02; 20]),
        ("some", vec![0.2; 8]),
        ("half", vec![0.5; 3]),
        ("mixed", vec![0.0, 0.01, 0.05, 0.2, 0.5, 0.9, 1.0]),
    ] {
        for fail_together in [false, true] {
            let (wrong, _) = suite_shares(&SuiteWorld {
                fail_together,
                ..suite(&rates)
            });
            assert!(wrong <= most_wrong(), "{name}, {fail_together}: {wrong}");
        }
    }
}

#[test]
fn effects_on_some_tests_do_not_lead_to_claims_about_others() {
    let mut world = suite(&[0.0, 0.0, 0.1, 0.1, 0.3, 0.02, 0.02, 0.02]);
    for (test, condition) in [(0, 3), (1, 9), (2, 3)] {
        world.tests[test].effects = vec![(condition, 1.0)];
    }
    let (wrong, found) = suite_shares(&world);
    assert!(wrong <= most_wrong(), "{wrong}");
    assert!(found > 2.8, "{found}");
}

#[test]
fn the_condition_of_each_test_of_a_suite_is_found() {
    let mut world = suite(&[0.0; 40]);
    for (test, condition) in [(5, 3), (6, 3), (7, 11), (8, 24)] {
        world.tests[test].effects = vec![(condition, 1.0)];
    }
    let ended = world.run_screen(1, 300);
    let mut claims: Vec<(usize, usize)> = ended
        .screen
        .claims()
        .map(|(test, condition, _)| (test, condition))
        .collect();
    claims.sort_unstable();
    assert_eq!(claims, [(5, 3), (6, 3), (7, 11), (8, 24)]);
    // Tests that never failed are not in the way.
    assert_eq!(ended.screen.failing_tests().count(), 4);
    assert!(ended.trials < 80, "{}", ended.trials);
}

#[test]
fn tests_that_all_fail_under_one_condition_cost_as_much_as_one() {
    let trials = [1, 200].map(|count| {
        let mut world = suite(&vec![0.0; count]);
        for test in &mut world.tests {
            test.effects = vec![(7, 1.0)];
        }
        let ended = world.run_screen(1, 300);
        assert_eq!(ended.found, count);
        ended.trials
    });
    assert_eq!(trials[0], trials[1]);
}

#[test]
fn a_seed_that_decides_about_one_test_is_claimed_for_it_alone() {
    let mut world = suite(&[0.0, 0.0, 0.0]);
    for test in &mut world.tests {
        *test = World::harmless(0.0, 2).with_seeds();
    }
    world.tests[1].base = [0.5; 2];
    world.tests[1].failing_seeds = Some(6);
    let mut found = 0;
    for seed in 0..50 {
        let ended = world.run_screen(seed, 300);
        assert!(!ended.is_wrong);
        found += usize::from(ended.seed_claims == [1]);
    }
    // A quarter of the screens sees no difference among the first plain trials.
    assert!(found > 35, "{found}");
}

#[test]
fn a_seed_that_alone_fails_is_claimed_for_its_test_of_a_suite() {
    let mut world = suite(&[0.0, 0.08, 0.0]);
    for test in &mut world.tests {
        *test = World {
            base: test.base,
            ..World::harmless(0.0, COUNT).with_seeds()
        };
    }
    world.tests[1].failing_seeds = Some(1);
    let (wrong, found) = suite_shares(&world);
    assert!(wrong <= most_wrong(), "{wrong}");
    // In half of the screens, all plain trials of the round pass, so no seed is tried.
    assert!(found > 0.5, "{found}");
}

#[test]
fn a_condition_under_which_no_test_is_counted_is_not_combined_with_others() {
    let conditions = vec![condition(0), condition(1)];
    let mut screen = SuiteScreen::new(conditions, ALPHA, Limits::default(), 1);
    let mut count = 0;
    while let Next::Trial(set) = screen.next(&[]) {
        let is_counted = !set.contains(&0);
        count += u32::from(!is_counted);
        let outcomes = vec![Outcome::Passed; 3];
        screen.record(&set, if is_counted { outcomes } else { Vec::new() });
    }
    assert_eq!(count, 1);
    assert!(!screen.is_tried(0) && screen.is_tried(1));
}
