use provoke_stats::cases::{
    CaseCounts, CasePair, FailureSets, OrderDependence, OrderTable, changed_cases,
    runs_to_see_every, selected_intervals,
};
use provoke_stats::clopper_pearson;

use super::chance::{Chance, share};

/// Returns the mean share of selected cases whose interval misses their rate, with and without the correction.
fn missed_shares(
    chance: &mut Chance,
    suites: u32,
    trials: u32,
    rates: &[f64],
    group: usize,
) -> (f64, f64) {
    let mut shares = (0.0, 0.0);
    for _ in 0..suites {
        let mut failures = vec![0_u64; rates.len()];
        for _ in 0..trials {
            // The cases of a group fail together.
            for start in (0..rates.len()).step_by(group) {
                let draw = chance.uniform();
                for case in start..(start + group).min(rates.len()) {
                    failures[case] += u64::from(draw < rates[case]);
                }
            }
        }
        let counts: Vec<CaseCounts> = failures
            .iter()
            .map(|failures| CaseCounts {
                failures: *failures,
                trials: trials.into(),
            })
            .collect();
        let missed = |intervals: Vec<Option<provoke_stats::Interval>>| -> f64 {
            let selected: Vec<bool> = intervals
                .into_iter()
                .zip(rates)
                .filter_map(|(interval, rate)| Some(!interval?.contains(*rate)))
                .collect();
            let missed = selected.iter().filter(|is_missed| **is_missed).count() as u64;
            provoke_stats::real(missed) / provoke_stats::real((selected.len() as u64).max(1))
        };
        let plain = |k, n, _| clopper_pearson(k, n, 0.05);
        shares.0 += missed(selected_intervals(&counts, 0.05, clopper_pearson)) / f64::from(suites);
        shares.1 += missed(selected_intervals(&counts, 0.05, plain)) / f64::from(suites);
    }
    shares
}

#[test]
fn intervals_of_selected_cases_cover_95_percent_of_them() {
    let mut chance = Chance::new(31);
    // Rare failures: without the correction, the interval of every selected case excludes its rate.
    let (corrected, plain) = missed_shares(&mut chance, 20, 50, &[0.0004; 2_000], 1);
    assert!(corrected <= 0.05, "{corrected}");
    assert!(plain > 0.9, "{plain}");
    let mixed: Vec<f64> = (0..2_000)
        .map(|case| match case % 100 {
            0 => 0.5,
            1..5 => 0.05,
            5..20 => 0.005,
            _ => 0.0001,
        })
        .collect();
    let (corrected, plain) = missed_shares(&mut chance, 20, 50, &mixed, 1);
    assert!(
        corrected <= 0.05 && corrected < plain,
        "{corrected} {plain}"
    );
    let (corrected, _) = missed_shares(&mut chance, 200, 50, &[0.002; 400], 10);
    assert!(corrected <= 0.05, "{corrected}");
}

#[test]
fn the_interval_of_a_chosen_case_covers_behind_a_case_that_crashes() {
    const RUNS: u32 = 4_000;
    let mut chance = Chance::new(32);
    for rate in [0.03, 0.3] {
        let mut covered = 0;
        for _ in 0..RUNS {
            let (mut failures, mut trials) = (0, 0);
            for _ in 0..40 {
                let is_first = chance.fails(0.5);
                let crashes = chance.fails(0.3);
                if is_first || !crashes {
                    trials += 1;
                    failures += u64::from(chance.fails(rate));
                }
            }
            covered += u32::from(clopper_pearson(failures, trials, 0.05).contains(rate));
        }
        let (covered, error) = share(covered, RUNS, 0.95);
        assert!(covered >= 0.95 - error, "{rate}: {covered}");
    }
}

/// A suite in which some cases fail.
struct SimulatedSuite {
    cases: u32,
    trials: u32,
    is_shuffled: bool,
    /// The chance that a process crashes at case 1.
    crash_rate: f64,
    /// The cases that fail, and their rates. They have a common cause.
    failing: Vec<(u32, f64)>,
    /// Case 0 fails after this case.
    polluter: Option<u32>,
}

impl SimulatedSuite {
    fn find_dependences(&self, chance: &mut Chance) -> Vec<OrderDependence> {
        let mut table = OrderTable::new();
        for _ in 0..self.trials {
            let mut order: Vec<u32> = (0..self.cases).collect();
            if self.is_shuffled {
                for place in (1..order.len()).rev() {
                    let other = chance.uniform() * provoke_stats::real(place as u64 + 1);
                    let other = usize::try_from(provoke_stats::whole(other.floor())).unwrap();
                    order.swap(place, other);
                }
            }
            if chance.fails(self.crash_rate) {
                let crash = order.iter().position(|case| *case == 1).unwrap();
                order.truncate(crash + 1);
            }
            let draw = chance.uniform();
            let mut failed: Vec<u32> = self
                .failing
                .iter()
                .filter(|(case, rate)| draw < *rate && order.contains(case))
                .map(|(case, _)| *case)
                .collect();
            let victim = order.iter().position(|case| *case == 0);
            if let (Some(polluter), Some(victim)) = (self.polluter, victim)
                && order[..victim].contains(&polluter)
            {
                failed.push(0);
            }
            table.add_trial(&[&order], &failed, &[1]);
        }
        let victims: Vec<u32> = (0..self.cases).collect();
        table.find_dependences(&victims, 0.05)
    }
}

#[test]
fn without_an_effect_of_the_order_a_run_rarely_has_a_finding() {
    const RUNS: u32 = 200;
    let mut chance = Chance::new(33);
    for (is_shuffled, crash_rate) in [(true, 0.0), (true, 0.3), (false, 0.0), (false, 0.3)] {
        let suite = SimulatedSuite {
            cases: 100,
            trials: 40,
            is_shuffled,
            crash_rate,
            failing: vec![(0, 0.3), (7, 0.5), (50, 0.1), (99, 0.4)],
            polluter: None,
        };
        let mut false_findings = 0;
        for _ in 0..RUNS {
            let has_finding = !suite.find_dependences(&mut chance).is_empty();
            false_findings += u32::from(has_finding);
        }
        let (false_findings, error) = share(false_findings, RUNS, 0.05);
        assert!(
            false_findings <= 0.05 + error,
            "{is_shuffled} {crash_rate}: {false_findings}"
        );
        if !is_shuffled {
            assert!(false_findings <= 0.0, "{false_findings}");
        }
    }
}

#[test]
fn a_polluter_is_found_and_no_other_case_is_named() {
    const RUNS: u32 = 200;
    let mut chance = Chance::new(34);
    let suite = SimulatedSuite {
        cases: 200,
        trials: 40,
        is_shuffled: true,
        crash_rate: 0.0,
        failing: vec![(7, 0.5), (50, 0.1)],
        polluter: Some(3),
    };
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..RUNS {
        let findings = suite.find_dependences(&mut chance);
        let is_right = |finding: &&OrderDependence| finding.victim == 0 && finding.other == 3;
        let count = findings.iter().filter(is_right).count();
        right += u32::from(count == 1);
        wrong += u32::from(findings.len() > count);
        let blamed = findings.iter().filter(is_right);
        assert!(blamed.clone().all(|finding| !finding.depends_on_position));
    }
    assert!(right >= 196, "found in {right} of {RUNS} runs");
    let (wrong, error) = share(wrong, RUNS, 0.05);
    assert!(wrong <= 0.05 + error, "{wrong}");
}

#[test]
fn independent_failures_are_rarely_a_cluster() {
    const RUNS: u32 = 100;
    let mut chance = Chance::new(35);
    for (rate, trials) in [(0.03, 200), (0.3, 50)] {
        let mut false_clusters = 0;
        let cases: Vec<u32> = (0..150).collect();
        for _ in 0..RUNS {
            let mut sets = FailureSets::new();
            for _ in 0..trials {
                let mut failed = cases.clone();
                failed.retain(|_| chance.fails(rate));
                sets.add_trial(&cases, &failed);
            }
            false_clusters += u32::from(!sets.find_clusters(0.01).is_empty());
        }
        let (false_clusters, error) = share(false_clusters, RUNS, 0.01);
        assert!(false_clusters <= 0.01 + error, "{rate}: {false_clusters}");
    }
}

#[test]
fn few_of_the_cases_that_became_worse_did_not() {
    const RUNS: u32 = 200;
    let mut chance = Chance::new(36);
    let (mut false_share, mut power) = (0.0, 0.0);
    for _ in 0..RUNS {
        let count = |chance: &mut Chance, rate: f64| CaseCounts {
            failures: (0..100).filter(|_| chance.fails(rate)).count() as u64,
            trials: 100,
        };
        let pairs: Vec<CasePair> = (0..200)
            .map(|case| CasePair {
                before: count(&mut chance, 0.1),
                after: count(&mut chance, if case < 20 { 0.4 } else { 0.1 }),
            })
            .collect();
        let changes = changed_cases(&pairs);
        let worse: Vec<usize> = (0..200)
            .filter(|case| changes[*case].q_worse <= 0.05)
            .collect();
        let right = worse.iter().filter(|case| **case < 20).count() as u64;
        let found = (worse.len() as u64).max(1);
        false_share += (1.0
            - provoke_stats::real(right.max(u64::from(worse.is_empty())))
                / provoke_stats::real(found))
            / f64::from(RUNS);
        power += provoke_stats::real(right) / 20.0 / f64::from(RUNS);
        assert!(changes.iter().all(|change| change.q_better > 1e-6));
    }
    assert!(false_share <= 0.05, "{false_share}");
    assert!(power > 0.9, "{power}");
}

#[test]
fn the_number_of_runs_that_shows_every_case_is_the_smallest() {
    for tests in [1_u64, 2, 50, 5_000] {
        for rate in [0.5, 0.1, 0.001] {
            let runs = runs_to_see_every(tests, rate, 0.95).unwrap();
            let chance = |runs: u64| {
                let missed = (provoke_stats::real(runs) * (-rate).ln_1p()).exp();
                (provoke_stats::real(tests) * (-missed).ln_1p()).exp()
            };
            assert!(chance(runs) >= 0.95 - 1e-12, "{tests} {rate}");
            assert!(runs == 1 || chance(runs - 1) < 0.95, "{tests} {rate}");
        }
    }
    assert_eq!(runs_to_see_every(5, 0.0, 0.95), None);
    assert_eq!(runs_to_see_every(5, 1.0, 0.95), Some(1));
    assert_eq!(runs_to_see_every(5, 0.1, 1.0), None);
}
