use provoke_stats::{
    ComparedCounts, chance_of_difference, clean_runs_needed_effective, find_clumps, fisher,
};

use super::chance::{Chance, share};

const ALPHA: f64 = 0.05;

/// When a baseline ends.
#[derive(Clone, Copy, Debug)]
enum BaselineEnd {
    Trials(u64),
    Failures(usize),
}

/// Blocks of trials: the length, the share of blocks with failures, and the rate in these. A block of one trial has no
/// clumps.
#[derive(Clone, Copy, Debug)]
struct Blocks(u64, f64, f64);

impl Blocks {
    /// Calls `ends` with each trial until it returns true.
    fn run(self, chance: &mut Chance, mut ends: impl FnMut(u64, bool) -> bool) {
        let Self(length, bad, inside) = self;
        let mut is_bad = false;
        for trial in 1.. {
            if (trial - 1) % length == 0 {
                is_bad = chance.fails(bad);
            }
            if ends(trial, is_bad && chance.fails(inside)) {
                return;
            }
        }
    }

    /// Returns the places of failures of a baseline, and the number of its trials.
    fn baseline(self, chance: &mut Chance, end: BaselineEnd) -> (Vec<u64>, u64) {
        let (mut places, mut trials) = (Vec::new(), 0);
        self.run(chance, |trial, failed| {
            trials = trial;
            if failed {
                places.push(trial);
            }
            match end {
                BaselineEnd::Trials(all) => trial == all,
                BaselineEnd::Failures(all) => places.len() == all,
            }
        });
        (places, trials)
    }

    /// Returns the share of baselines with a failure that warn, and the share after which an unchanged program is
    /// called fixed.
    fn shares(self, end: BaselineEnd, repetitions: u32) -> (f64, f64) {
        let mut chance = Chance::new(70);
        let (mut seen, mut warnings, mut fixed) = (0, 0, 0);
        while seen < repetitions {
            let (places, trials) = self.baseline(&mut chance, end);
            if places.is_empty() {
                continue;
            }
            seen += 1;
            let found = find_clumps(&places, trials, matches!(end, BaselineEnd::Failures(_)));
            let warned = found.filter(|found| found.p_value <= 0.01);
            warnings += u32::from(warned.is_some());
            let effect = warned.map_or(1.0, |found| found.design_effect);
            let failures = places.len() as u64;
            let needed = clean_runs_needed_effective(failures, trials, effect, ALPHA).unwrap();
            self.run(&mut chance, |trial, failed| {
                fixed += u32::from(!failed && trial == needed);
                failed || trial >= needed
            });
        }
        (share(warnings, seen, 0.01).0, share(fixed, seen, ALPHA).0)
    }
}

#[test]
fn independent_failures_rarely_cause_a_clump_warning() {
    const REPETITIONS: u32 = 150;
    let room = share(0, REPETITIONS, 0.01).1;
    for (p, end) in [
        (0.03, BaselineEnd::Trials(200)),
        (0.1, BaselineEnd::Trials(100)),
        (0.5, BaselineEnd::Trials(30)),
        (0.03, BaselineEnd::Failures(3)),
        (0.1, BaselineEnd::Failures(5)),
        (0.3, BaselineEnd::Failures(10)),
    ] {
        let (warnings, _) = Blocks(1, 1.0, p).shares(end, REPETITIONS);
        assert!(warnings <= 0.01 + room, "p {p}, {end:?}: {warnings}");
    }
}

#[test]
fn thousands_of_independent_failures_rarely_cause_a_clump_warning() {
    let mut chance = Chance::new(71);
    let warnings = (0..60).map(|_| {
        let (places, trials) = Blocks(1, 1.0, 0.3).baseline(&mut chance, BaselineEnd::Trials(5000));
        u32::from(find_clumps(&places, trials, false).unwrap().p_value <= 0.01)
    });
    assert!(warnings.sum::<u32>() <= 3);
}

#[test]
fn clumps_in_a_long_baseline_rarely_lead_to_a_wrong_fixed() {
    const REPETITIONS: u32 = 60;
    let room = share(0, REPETITIONS, ALPHA).1;
    for (length, trials, least_warned) in [(8, 200, 0.85), (20, 100, 0.9), (50, 200, 0.9)] {
        let (warned, fixed) =
            Blocks(length, 0.1, 0.5).shares(BaselineEnd::Trials(trials), REPETITIONS);
        let what = format!("blocks of {length}, {trials} trials");
        assert!(warned >= least_warned, "{what}: {warned} warned");
        assert!(fixed <= ALPHA + room, "{what}: {fixed} called fixed");
    }
}

#[test]
fn clumps_in_a_baseline_of_three_failures_usually_cause_a_warning() {
    // Measured shares with a margin: a clump at the very beginning looks like a high rate.
    for (length, least_warned, most_fixed) in [(8, 0.55, 0.26), (20, 0.75, 0.21), (50, 0.8, 0.17)] {
        let (warned, fixed) = Blocks(length, 0.1, 0.5).shares(BaselineEnd::Failures(3), 200);
        assert!(
            warned >= least_warned,
            "blocks of {length}: {warned} warned"
        );
        assert!(
            fixed <= most_fixed,
            "blocks of {length}: {fixed} called fixed"
        );
    }
}

#[test]
fn two_runs_of_the_same_program_rarely_differ() {
    const REPETITIONS: u32 = 100;
    let mut chance = Chance::new(75);
    for blocks in [
        Blocks(1, 1.0, 0.05),
        Blocks(8, 0.1, 0.5),
        Blocks(20, 0.1, 0.5),
        Blocks(50, 0.1, 0.5),
    ] {
        for trials in [100, 200, 400] {
            let (mut differ, mut differ_independent) = (0, 0);
            for _ in 0..REPETITIONS {
                let runs =
                    [(); 2].map(|()| blocks.baseline(&mut chance, BaselineEnd::Trials(trials)).0);
                let effects = runs.each_ref().map(|places| {
                    let found = find_clumps(places, trials, false);
                    let warned = found.filter(|found| found.p_value <= 0.01);
                    warned.map_or(1.0, |found| found.design_effect)
                });
                let counts = runs.map(|places| ComparedCounts {
                    failures: places.len() as u64,
                    trials,
                    is_planned: true,
                });
                let p_value = |effect| chance_of_difference(counts, effect);
                differ += u32::from(p_value(effects[0].max(effects[1])) <= ALPHA);
                differ_independent += u32::from(p_value(1.0) <= ALPHA);
            }
            let Blocks(length, ..) = blocks;
            assert!(length == 1 || differ_independent > REPETITIONS / 10);
            let (differ, error) = share(differ, REPETITIONS, ALPHA);
            assert!(differ <= ALPHA + error, "{blocks:?}, {trials}: {differ}");
        }
    }
}

#[test]
fn a_run_that_is_stopped_when_it_looks_different_rarely_differs() {
    const REPETITIONS: u32 = 300;
    let mut chance = Chance::new(76);
    for rate in [0.05, 0.3] {
        let (mut differ, mut differ_as_planned) = (0, 0);
        for _ in 0..REPETITIONS {
            let first = ComparedCounts {
                failures: (0..100).filter(|_| chance.fails(rate)).count() as u64,
                trials: 100,
                is_planned: true,
            };
            let mut second = ComparedCounts {
                failures: 0,
                trials: 0,
                is_planned: false,
            };
            let fisher_of = |second: ComparedCounts| {
                fisher(first.failures, 100, second.failures, second.trials).two_sided
            };
            while second.trials < 200 && (second.trials < 10 || fisher_of(second) > ALPHA) {
                second.trials += 1;
                second.failures += u64::from(chance.fails(rate));
            }
            differ += u32::from(chance_of_difference([first, second], 1.0) <= ALPHA);
            differ_as_planned += u32::from(fisher_of(second) <= ALPHA);
        }
        let (differ, error) = share(differ, REPETITIONS, ALPHA);
        assert!(differ <= ALPHA + error, "{rate}: {differ}");
        assert!(f64::from(differ_as_planned) > 0.1 * f64::from(REPETITIONS));
    }
}
