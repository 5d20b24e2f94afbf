use provoke_stats::{ComparisonLevels, Contrast, EProcess, fisher, pairs_to_tell};

use super::chance::{Chance, share};

const ALPHA: f64 = 0.05;
const TRIALS: u32 = 1000;
const PAIRS: u32 = 300;

/// Asserts that a wrong "different" is at most as frequent as promised, in 1000 trials.
#[track_caller]
fn assert_rarely_wrong(what: &str, trial: impl FnMut() -> bool) {
    let wrong = share_of(trial);
    let (_, error) = share(0, TRIALS, ALPHA);
    assert!(wrong <= ALPHA + error, "{what}: {wrong}");
}

fn share_of(mut trial: impl FnMut() -> bool) -> f64 {
    let hits = (0..TRIALS).filter(|_| trial()).count();
    share(u32::try_from(hits).unwrap(), TRIALS, ALPHA).0
}

#[test]
fn equal_rates_are_rarely_called_different_when_checked_after_every_pair() {
    let mut chance = Chance::new(40);
    for p in [0.5, 0.1, 0.03, 0.01] {
        assert_rarely_wrong(&format!("p {p}"), || {
            let mut process = EProcess::new();
            (0..PAIRS).any(|_| {
                process.push_a(chance.fails(p));
                process.push_b(chance.fails(p));
                process.ln_e() >= -ALPHA.ln()
            })
        });
    }
}

/// Runs batches of eight trials of each variant; the trials of a batch end in the given order.
fn bursts_differ(chance: &mut Chance, p: f64, arrive: fn(&mut [bool])) -> bool {
    let mut process = EProcess::new();
    for _ in 0..PAIRS / 8 {
        let mut burst = |push: fn(&mut EProcess, bool)| {
            let mut outcomes: Vec<bool> = (0..8).map(|_| chance.fails(p)).collect();
            arrive(&mut outcomes);
            for failed in outcomes {
                push(&mut process, failed);
            }
        };
        burst(EProcess::push_a);
        burst(EProcess::push_b);
    }
    process.ln_e_max() >= -ALPHA.ln()
}

#[test]
fn equal_rates_are_rarely_called_different_if_trials_end_in_bursts() {
    let mut chance = Chance::new(41);
    for p in [0.5, 0.1, 0.03, 0.01] {
        assert_rarely_wrong(&format!("p {p}"), || bursts_differ(&mut chance, p, |_| ()));
    }
}

#[test]
fn equal_rates_are_rarely_called_different_if_failures_end_first_or_last() {
    // This error is not bounded: crashes end before or after the passes that were started with them. Therefore trials
    // are pushed in the order of their starts.
    let mut chance = Chance::new(42);
    for p in [0.5, 0.1, 0.03] {
        assert_rarely_wrong(&format!("p {p}, failures first"), || {
            bursts_differ(&mut chance, p, |outcomes| {
                outcomes.sort_by_key(|failed| !failed);
            })
        });
        assert_rarely_wrong(&format!("p {p}, failures last"), || {
            bursts_differ(&mut chance, p, <[bool]>::sort)
        });
    }
}

#[test]
fn equal_rates_in_each_stratum_are_rarely_called_different() {
    let mut chance = Chance::new(43);
    assert_rarely_wrong("alike within each of four strata", || {
        let mut contrast = Contrast::new();
        for pair in 0..PAIRS {
            let (stratum, p) = [(0, 0.5), (1, 0.1), (2, 0.03), (3, 0.9)][pair as usize % 4];
            contrast.push_reference(stratum, chance.fails(p));
            contrast.push_other(stratum, chance.fails(p));
        }
        contrast.ln_e_max() >= -ALPHA.ln()
    });
    // The same trials in one stratum, if one side has more trials under failing conditions.
    let heap = share_of(|| {
        let mut process = EProcess::new();
        for pair in 0..PAIRS {
            process.push_a(chance.fails([0.5, 0.5, 0.1][pair as usize % 3]));
            process.push_b(chance.fails([0.5, 0.1, 0.1][pair as usize % 3]));
        }
        process.ln_e_max() >= -ALPHA.ln()
    });
    assert!(heap > 0.5, "strata would be idle: {heap}");
}

#[test]
fn strata_together_detect_more_than_each_stratum_alone() {
    let mut chance = Chance::new(44);
    let (mut together, mut alone) = (0, 0);
    for _ in 0..200 {
        let mut contrast = Contrast::new();
        for pair in 0..120 {
            contrast.push_reference(pair % 3, chance.fails(0.5));
            contrast.push_other(pair % 3, chance.fails(0.2));
        }
        together += u32::from(contrast.ln_e_max() >= -ALPHA.ln());
        let tells = |process: &EProcess| process.ln_e_max() >= -(ALPHA / 3.0).ln();
        alone += u32::from(contrast.strata().iter().any(tells));
    }
    assert!(together > alone + 10, "{together}, {alone}");
}

#[test]
fn several_variants_equal_to_one_reference_are_rarely_called_different() {
    let mut chance = Chance::new(45);
    for p in [0.5, 0.1, 0.03] {
        assert_rarely_wrong(&format!("p {p}"), || {
            let mut others = [EProcess::new(), EProcess::new(), EProcess::new()];
            for _ in 0..PAIRS {
                let reference = chance.fails(p);
                for process in &mut others {
                    process.push_a(reference);
                    process.push_b(chance.fails(p));
                }
            }
            let limit = -(ALPHA / 3.0).ln();
            others.iter().any(|process| process.ln_e_max() >= limit)
        });
    }
}

/// Returns the number of pairs that distinguishes the rates, or `None` if none of the pairs does.
fn first_distinguishing_pair(
    chance: &mut Chance,
    a: f64,
    b: f64,
    alpha: f64,
    pairs: u64,
) -> Option<u64> {
    let mut process = EProcess::new();
    (1..=pairs).find(|_| {
        process.push_a(chance.fails(a));
        process.push_b(chance.fails(b));
        process.ln_e() >= -alpha.ln()
    })
}

#[test]
fn different_rates_are_distinguished_within_the_measured_number_of_pairs() {
    let mut chance = Chance::new(46);
    for (a, b, most) in [
        (0.5, 0.0, 13.5),
        (0.1, 0.0, 68.0),
        (0.1, 0.01, 110.0),
        (0.5, 0.1, 27.0),
    ] {
        let mut pair =
            || first_distinguishing_pair(&mut chance, a, b, ALPHA, 100_000).expect("ends");
        let sum: u64 = (0..TRIALS).map(|_| pair()).sum();
        let mean = f64::from(u32::try_from(sum).unwrap()) / f64::from(TRIALS);
        assert!(mean <= most, "{a}, {b}: {mean}");
    }
}

#[test]
fn repeated_fisher_tests_exceed_the_promised_error() {
    let mut chance = Chance::new(48);
    for (p, least) in [(0.5, 0.15), (0.1, 0.1), (0.03, 0.04)] {
        let share = share_of(|| {
            let (mut a, mut b) = (0, 0);
            (1..=200_u64).any(|pair| {
                a += u64::from(chance.fails(p));
                b += u64::from(chance.fails(p));
                pair % 10 == 0 && fisher(a, pair, b, pair).two_sided <= ALPHA
            })
        });
        assert!(share > least, "{p}: {share}");
    }
}

/// Returns whether a comparison distinguishes the rates, after any pair or by the planned look after the last one.
fn distinguishes(
    chance: &mut Chance,
    a: f64,
    b: f64,
    levels: ComparisonLevels,
    pairs: u64,
) -> bool {
    let mut process = EProcess::new();
    for _ in 0..pairs {
        process.push_a(chance.fails(a));
        process.push_b(chance.fails(b));
    }
    let (failures_a, failures_b) = process.failure_counts();
    process.ln_e_max() >= -levels.every_pair.ln() || levels.look(failures_a, failures_b, pairs)
}

#[test]
fn equal_rates_are_rarely_called_different_with_a_planned_look() {
    let mut chance = Chance::new(147);
    let levels = ComparisonLevels::with_planned_look(ALPHA);
    for p in [0.5, 0.1, 0.03, 0.01] {
        assert_rarely_wrong(&format!("p {p}"), || {
            distinguishes(&mut chance, p, p, levels, u64::from(PAIRS))
        });
    }
}

#[test]
fn the_stated_number_of_pairs_has_the_stated_power_with_a_planned_look() {
    let mut chance = Chance::new(148);
    let levels = ComparisonLevels::with_planned_look(ALPHA);
    for (a, b) in [
        (0.5, 0.1),
        (0.1, 0.01),
        (0.5, 0.3),
        (0.12, 0.06),
        (0.1, 0.05),
    ] {
        let pairs = pairs_to_tell(a, b, levels, 0.8).unwrap();
        let power = share_of(|| distinguishes(&mut chance, a, b, levels, pairs));
        assert!(
            (0.765..0.85).contains(&power),
            "{a}, {b}, {pairs} pairs: {power}"
        );
    }
}

#[test]
fn the_stated_number_of_pairs_has_the_stated_power() {
    let mut chance = Chance::new(47);
    let levels = ComparisonLevels::at_any_time;
    let mut power = |a: f64, b: f64, alpha: f64, pairs: u64| {
        share_of(|| first_distinguishing_pair(&mut chance, a, b, alpha, pairs).is_some())
    };
    for (a, b, most) in [
        (0.5, 0.1, 0.85),
        (0.1, 0.0, 0.85),
        (0.1, 0.01, 0.85),
        (0.5, 0.3, 0.85),
        (0.03, 0.0, 0.85),
        (0.9, 0.8, 0.85),
        (0.1, 0.05, 0.85),
        (0.3, 0.9, 0.87),
        (0.5, 0.0, 0.92), // 17 pairs; 16 would be too few
    ] {
        let pairs = pairs_to_tell(a, b, levels(ALPHA), 0.8).unwrap();
        let power = power(a, b, ALPHA, pairs);
        assert!(power >= 0.765, "{a}, {b}, {pairs} pairs: {power}");
        assert!(power <= most, "{a}, {b}, {pairs} pairs: {power}");
    }
    let pairs = pairs_to_tell(0.3, 0.1, levels(0.005), 0.95).unwrap();
    let power = power(0.3, 0.1, 0.005, pairs);
    assert!((0.93..0.97).contains(&power), "{pairs} pairs: {power}");
}
