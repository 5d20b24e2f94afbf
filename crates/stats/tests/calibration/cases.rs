use provoke_stats::cases::{
    CaseCounts, CasePair, FailureSets, OrderDependence, OrderPart, OrderTable, VictimFindings,
    changed_cases, runs_to_see_every, selected_alpha,
};
use provoke_stats::clopper_pearson;

use super::chance::{Chance, share};

/// How often the intervals of selected cases miss their rates.
struct Misses {
    /// Mean share of the selected cases.
    selected: f64,
    /// Share of the suites whose case with the most failures is missed.
    first_row: f64,
    /// The same with the usual interval of a single case.
    first_row_uncorrected: f64,
}

fn measure_misses(
    chance: &mut Chance,
    suites: u32,
    trials: u32,
    rates: &[f64],
    group: usize,
) -> Misses {
    let mut misses = Misses {
        selected: 0.0,
        first_row: 0.0,
        first_row_uncorrected: 0.0,
    };
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
        let alpha = selected_alpha(0.05, rates.len() as u64);
        let is_missed: Vec<bool> = failures
            .iter()
            .zip(rates)
            .filter(|(failures, _)| **failures > 0)
            .map(|(failures, rate)| {
                !clopper_pearson(*failures, trials.into(), alpha).contains(*rate)
            })
            .collect();
        let missed = is_missed.iter().filter(|is_missed| **is_missed).count() as u64;
        let selected = (is_missed.len() as u64).max(1);
        let suites = f64::from(suites);
        misses.selected += provoke_stats::real(missed) / provoke_stats::real(selected) / suites;
        let (first, most) = (0..rates.len())
            .map(|case| (case, failures[case]))
            .max_by_key(|(_, failures)| *failures)
            .unwrap();
        let is_missed = |alpha: f64| {
            f64::from(u8::from(
                !clopper_pearson(most, trials.into(), alpha).contains(rates[first]),
            ))
        };
        misses.first_row += is_missed(alpha) / suites;
        misses.first_row_uncorrected += is_missed(0.05) / suites;
    }
    misses
}

#[test]
fn the_interval_of_the_first_row_covers() {
    let mut chance = Chance::new(39);
    for (cases, rate, trials) in [
        (200, 0.02, 50),
        (200, 0.05, 30),
        (1_000, 0.01, 50),
        (50, 0.1, 30),
    ] {
        let misses = measure_misses(&mut chance, 100, trials, &vec![rate; cases], 1);
        let (first_row, selected) = (misses.first_row, misses.selected);
        assert!(first_row <= 0.05, "{cases}: {first_row}");
        assert!(selected <= 0.05, "{cases}: {selected}");
        assert!(misses.first_row_uncorrected > 0.2, "{cases}");
    }
}

#[test]
fn the_intervals_of_selected_cases_cover() {
    let mut chance = Chance::new(31);
    // Rare failures: the usual interval of every selected case excludes its rate.
    let misses = measure_misses(&mut chance, 20, 50, &[0.0004; 2_000], 1);
    assert!(misses.selected <= 0.05, "{}", misses.selected);
    assert!(misses.first_row_uncorrected > 0.9);
    let mixed: Vec<f64> = (0..2_000)
        .map(|case| match case % 100 {
            0 => 0.5,
            1..5 => 0.05,
            5..20 => 0.005,
            _ => 0.0001,
        })
        .collect();
    let misses = measure_misses(&mut chance, 20, 50, &mixed, 1);
    assert!(misses.selected <= 0.05, "{}", misses.selected);
    let misses = measure_misses(&mut chance, 200, 50, &[0.002; 400], 10);
    assert!(misses.selected <= 0.05, "{}", misses.selected);
    assert!(misses.first_row <= 0.05, "{}", misses.first_row);
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
    shuffle: Shuffle,
    /// The chance that a process crashes at case 1.
    crash_rate: f64,
    /// The cases that fail, and their rates. They have a common cause.
    failing: Vec<(u32, f64)>,
    /// Returns the chance that case 0 fails, by the cases before it and its share of the order, from 0 to 1.
    victim_rate: fn(&[u32], f64) -> f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shuffle {
    None,
    All,
    /// Modules of ten cases, and the cases of each.
    Modules,
}

impl SimulatedSuite {
    fn find_dependences(&self, chance: &mut Chance) -> Vec<VictimFindings> {
        let mut table = OrderTable::new();
        for _ in 0..self.trials {
            let mut order: Vec<u32> = (0..self.cases).collect();
            match self.shuffle {
                Shuffle::None => {}
                Shuffle::All => shuffle(&mut order, chance),
                Shuffle::Modules => {
                    let mut modules: Vec<Vec<u32>> =
                        order.chunks(10).map(<[u32]>::to_vec).collect();
                    for module in &mut modules {
                        shuffle(module, chance);
                    }
                    shuffle(&mut modules, chance);
                    order = modules.concat();
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
            if let Some(place) = order.iter().position(|case| *case == 0) {
                let share = provoke_stats::real(place as u64) / f64::from(self.cases);
                if chance.fails((self.victim_rate)(&order[..place], share)) {
                    failed.push(0);
                }
            }
            table.add_trial(&[&order], &failed, &[1]);
        }
        let victims: Vec<u32> = (0..self.cases).collect();
        table.find_dependences(&victims, 0.05)
    }

    /// Returns the shares of runs that find case 3 for case 0, that name another case, and that find a late place.
    fn measure(&self, runs: u32, chance: &mut Chance) -> [f64; 3] {
        let mut counts = [0_u32; 3];
        for _ in 0..runs {
            let findings = self.find_dependences(chance);
            let blamed = || findings.iter().flat_map(|found| &found.dependences);
            let is_right = |finding: &OrderDependence| (finding.victim, finding.other) == (0, 3);
            let is_late = |found: &VictimFindings| {
                let place = found.place.filter(|place| place.part == OrderPart::Late);
                found.victim == 0 && place.is_some()
            };
            let facts = [
                blamed().any(is_right),
                blamed().any(|finding| !is_right(finding)),
                findings.iter().any(is_late),
            ];
            for (count, is_fact) in counts.iter_mut().zip(facts) {
                *count += u32::from(is_fact);
            }
        }
        counts.map(|count| f64::from(count) / f64::from(runs))
    }
}

fn shuffle<T>(items: &mut [T], chance: &mut Chance) {
    for place in (1..items.len()).rev() {
        let other = chance.uniform() * provoke_stats::real(place as u64 + 1);
        let other = usize::try_from(provoke_stats::whole(other.floor())).unwrap();
        items.swap(place, other);
    }
}

#[test]
fn without_an_effect_of_the_order_a_run_rarely_has_a_finding() {
    const RUNS: u32 = 200;
    let mut chance = Chance::new(33);
    for (shuffle, crash_rate) in [
        (Shuffle::All, 0.0),
        (Shuffle::All, 0.3),
        (Shuffle::None, 0.0),
        (Shuffle::None, 0.3),
    ] {
        let suite = SimulatedSuite {
            cases: 100,
            trials: 40,
            shuffle,
            crash_rate,
            failing: vec![(7, 0.5), (50, 0.1), (99, 0.4)],
            victim_rate: |_, _| 0.3,
        };
        let mut false_findings = 0;
        for _ in 0..RUNS {
            let has_finding = !suite.find_dependences(&mut chance).is_empty();
            false_findings += u32::from(has_finding);
        }
        let (false_findings, error) = share(false_findings, RUNS, 0.05);
        assert!(
            false_findings <= 0.05 + error,
            "{crash_rate}: {false_findings}"
        );
        if shuffle == Shuffle::None {
            assert!(false_findings <= 0.0, "{false_findings}");
        }
    }
}

#[test]
fn a_polluter_is_found_and_no_other_case_is_named() {
    let mut chance = Chance::new(34);
    for (trials, least) in [(20, 0.7), (30, 0.97)] {
        let suite = SimulatedSuite {
            cases: 200,
            trials,
            shuffle: Shuffle::All,
            crash_rate: 0.0,
            failing: vec![(7, 0.5), (50, 0.1)],
            victim_rate: |before, _| f64::from(u8::from(before.contains(&3))),
        };
        let [right, wrong, _] = suite.measure(200, &mut chance);
        assert!(right >= least, "{trials}: {right}");
        assert!(wrong <= 0.05, "{trials}: {wrong}");
    }
}

#[test]
fn no_case_is_blamed_if_only_the_place_matters() {
    const RUNS: u32 = 100;
    let mut chance = Chance::new(37);
    let late: fn(&[u32], f64) -> f64 = |_, share| 0.6 * share;
    let last: fn(&[u32], f64) -> f64 = |_, share| if share >= 0.9 { 0.8 } else { 0.0 };
    let first: fn(&[u32], f64) -> f64 = |_, share| if share < 0.1 { 0.8 } else { 0.0 };
    let half: fn(&[u32], f64) -> f64 = |_, share| f64::from(u8::from(share >= 0.5));
    let two_thirds: fn(&[u32], f64) -> f64 = |_, share| f64::from(u8::from(share >= 0.3));
    let whole: fn(&[u32], f64) -> f64 = |_, share| share;
    for (cell, trials, shuffle, victim_rate) in [
        ("late", 30, Shuffle::All, late),
        ("late", 100, Shuffle::All, late),
        ("late, in modules", 100, Shuffle::Modules, late),
        ("last tenth", 100, Shuffle::All, last),
        ("first tenth", 100, Shuffle::All, first),
        ("second half", 30, Shuffle::All, half),
        ("second half, in modules", 100, Shuffle::Modules, half),
        ("last two thirds", 24, Shuffle::All, two_thirds),
        ("last two thirds", 30, Shuffle::All, two_thirds),
        ("as likely as late", 30, Shuffle::All, whole),
        ("as likely as late", 60, Shuffle::All, whole),
    ] {
        let suite = SimulatedSuite {
            cases: 200,
            trials,
            shuffle,
            crash_rate: 0.0,
            failing: Vec::new(),
            victim_rate,
        };
        let [right, wrong, is_late] = suite.measure(RUNS, &mut chance);
        assert!(right + wrong <= 0.05, "{cell}, {trials}: {right} {wrong}");
        if trials == 100 && shuffle == Shuffle::All && cell != "first tenth" {
            assert!(is_late >= 0.9, "{cell}: {is_late}");
        }
    }
}

#[test]
fn a_polluter_is_found_besides_an_effect_of_the_place() {
    let mut chance = Chance::new(38);
    let suite = SimulatedSuite {
        cases: 200,
        trials: 200,
        shuffle: Shuffle::All,
        crash_rate: 0.0,
        failing: Vec::new(),
        victim_rate: |before, share| {
            let passes = if before.contains(&3) { 0.4 } else { 1.0 };
            1.0 - passes * (1.0 - 0.3 * share)
        },
    };
    let [right, wrong, _] = suite.measure(100, &mut chance);
    assert!(right >= 0.9 && wrong <= 0.05, "{right} {wrong}");
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
