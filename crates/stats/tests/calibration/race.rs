use provoke_stats::{
    chance_to_see, clean_runs_at_known_rate, clean_runs_needed, confirm_mean_runs, race_alpha, real,
};

use super::chance::{Chance, negative_binomial, share};

const ALPHA: f64 = 0.05;
const TRIALS: u32 = 1000;
const VARIANTS: [u64; 3] = [2, 4, 8];
const RATES: [f64; 3] = [0.5, 0.1, 0.03];

/// The result of a race.
struct Ending {
    /// Whether a failing variant was called clean.
    wrong: bool,
    runs: u64,
}

/// Runs a failing variant until it is decided.
fn judge(chance: &mut Chance, p: f64, m: u64, ending: &mut Ending) {
    let first = chance.first_failure(p);
    ending.wrong |= first > m;
    ending.runs += first.min(m);
}

/// Returns the share of wrong endings and the mean runs.
fn races(mut race: impl FnMut() -> Ending) -> (f64, f64) {
    let (mut wrong, mut runs) = (0, 0);
    for _ in 0..TRIALS {
        let ending = race();
        wrong += u32::from(ending.wrong);
        runs += ending.runs;
    }
    let mean = f64::from(u32::try_from(runs).unwrap()) / f64::from(TRIALS);
    (share(wrong, TRIALS, ALPHA).0, mean)
}

fn most_wrong() -> f64 {
    ALPHA + share(0, TRIALS, ALPHA).1
}

#[test]
fn a_race_at_a_known_rate_keeps_its_promise_in_the_stated_number_of_runs() {
    let mut chance = Chance::new(50);
    for (k, totals) in VARIANTS.into_iter().zip([
        [6.9, 38.5, 130.0],
        [11.9, 68.0, 235.0],
        [21.9, 117.0, 396.0],
    ]) {
        for (p, total) in RATES.into_iter().zip(totals) {
            let m = clean_runs_at_known_rate(p, race_alpha(k, ALPHA)).unwrap();
            let (wrong, runs) = races(|| {
                let mut ending = Ending {
                    wrong: false,
                    runs: m, // of the clean variant
                };
                for _ in 1..k {
                    judge(&mut chance, p, m, &mut ending);
                }
                ending
            });
            assert!(wrong <= most_wrong(), "k {k}, p {p}: {wrong}");
            assert!((runs / total - 1.0).abs() < 0.1, "k {k}, p {p}: {runs}");
            let stated = real(m) + real(k - 1) * confirm_mean_runs(p, m);
            assert!((runs / stated - 1.0).abs() < 0.05, "k {k}, p {p}: {runs}");
        }
    }
}

/// Runs a race with a separate baseline that stopped at its third failure.
fn with_baseline(chance: &mut Chance, p: f64, clean: u64, bad: u64, alpha: f64) -> Ending {
    let n0 = chance.runs_until_failures(3, p);
    let m = clean_runs_needed(3, n0, alpha).unwrap();
    let mut ending = Ending {
        wrong: false,
        runs: clean * m,
    };
    for _ in 0..bad {
        judge(chance, p, m, &mut ending);
    }
    ending
}

#[test]
fn a_race_against_a_measured_baseline_keeps_its_promise() {
    let mut chance = Chance::new(51);
    for k in VARIANTS {
        for p in RATES {
            let alpha = race_alpha(k, ALPHA);
            let (wrong, _) = races(|| with_baseline(&mut chance, p, 1, k - 1, alpha));
            assert!(wrong <= most_wrong(), "k {k}, p {p}: {wrong}");
        }
    }
}

/// Returns the exact probability that any of `judged` variants which all fail at the rate `p` passes the clean trials
/// that a baseline of three failures requires at level `alpha`.
fn any_passes(p: f64, judged: i32, alpha: f64) -> f64 {
    negative_binomial(3, p)
        .into_iter()
        .map(|(n0, weight)| {
            let m = clean_runs_needed(3, n0.into(), alpha).unwrap();
            let caught = chance_to_see(p, m);
            weight * (1.0 - caught.powi(judged))
        })
        .sum()
}

#[test]
fn the_level_is_divided_by_all_variants_if_all_may_be_bad() {
    for k in VARIANTS {
        let count = i32::try_from(k).unwrap();
        for p in RATES {
            let wrong = any_passes(p, count, race_alpha(k + 1, ALPHA));
            assert!(wrong <= ALPHA, "k {k}, p {p}: {wrong}");
        }
    }
    // If all are judged, a split over one less is too lax: the level of a race assumes that one variant cannot be
    // wrongly called clean.
    let careless = any_passes(0.03, 2, race_alpha(2, ALPHA));
    assert!((0.08..0.1).contains(&careless), "{careless}");
}

/// Which trials of the others count after the first failing variant becomes the reference.
#[derive(Clone, Copy, PartialEq)]
enum Counts {
    FromTheirStart,
    SinceThereIsAReference,
}

/// Runs a race without a baseline, in which all variants take turns: the first to fail continues until it has failed
/// three more times, and is the reference for the others.
fn without_baseline(
    chance: &mut Chance,
    p: f64,
    (clean, bad): (u64, u64),
    alpha: f64,
    counts: Counts,
) -> Ending {
    // The clean variants come first; a round takes one trial of each.
    let failures: Vec<u64> = (0..bad).map(|_| chance.first_failure(p)).collect();
    let (reference, &round) = failures
        .iter()
        .enumerate()
        .min_by_key(|&(_, first)| first)
        .unwrap();
    let n0 = chance.runs_until_failures(3, p);
    let m = clean_runs_needed(3, n0, alpha).unwrap();
    let enough = |before: u64| match counts {
        Counts::FromTheirStart => m.max(before),
        Counts::SinceThereIsAReference => before + m,
    };
    let mut ending = Ending {
        wrong: false,
        runs: round + n0 + clean * enough(round),
    };
    for (i, &first) in failures.iter().enumerate() {
        if i != reference {
            let enough = enough(round - u64::from(i > reference));
            ending.wrong |= first > enough;
            ending.runs += first.min(enough);
        }
    }
    ending
}

#[test]
fn the_first_failing_variant_can_be_the_reference_if_all_counts_restart() {
    let mut chance = Chance::new(53);
    for k in VARIANTS {
        let (alpha, judged) = (race_alpha(k, ALPHA), i32::try_from(k - 1).unwrap());
        for p in RATES {
            let exactly = any_passes(p, judged, alpha);
            assert!(exactly <= ALPHA, "k {k}, p {p}: {exactly}");
            let (wrong, _) = races(|| {
                let anew = Counts::SinceThereIsAReference;
                without_baseline(&mut chance, p, (0, k), alpha, anew)
            });
            assert!(wrong <= most_wrong(), "k {k}, p {p}: {wrong}");
            assert!((wrong - exactly).abs() < 0.02, "k {k}, p {p}: {wrong}");
        }
    }
}

#[test]
fn counting_trials_before_the_reference_exceeds_the_promised_error() {
    // The first to fail was chosen while the others were still clean. If their earlier trials count, *any* of the k
    // variants that is clean for long enough is called clean, since it is never the first to fail: the error is that of
    // k variants, not of k-1. The exact errors at rates of .5, .1 and .03 are .045, .078 and .085 for two variants,
    // .009, .044 and .049 for four, .004, .031 and .035 for eight. If counting begins anew, they are .023, .044 and
    // .048; .007, .035 and .040; .004, .028 and .032.
    let mut chance = Chance::new(54);
    let mut most = 0.0_f64;
    for k in VARIANTS {
        let (alpha, judged) = (race_alpha(k, ALPHA), i32::try_from(k).unwrap());
        for p in RATES {
            let exactly = any_passes(p, judged, alpha);
            let (wrong, _) = races(|| {
                let start = Counts::FromTheirStart;
                without_baseline(&mut chance, p, (0, k), alpha, start)
            });
            assert!((wrong - exactly).abs() < 0.03, "k {k}, p {p}: {wrong}");
            most = most.max(exactly);
        }
    }
    assert!((0.08..0.1).contains(&most), "{most}");
}

#[test]
fn restarting_the_counts_needs_fewer_runs_than_a_stricter_level() {
    // The alternative with the same error splits the level over k and counts everything. Mean runs of two variants with
    // one clean: counted from the start at the level that is too lax, 88 and 300; counted anew, 99 and 334; at the
    // stricter level, 111 and 373.
    let mut chance = Chance::new(55);
    for p in [0.1, 0.03] {
        let mut mean = |alpha: f64, counts: Counts| {
            races(|| without_baseline(&mut chance, p, (1, 1), alpha, counts)).1
        };
        let anew = mean(race_alpha(2, ALPHA), Counts::SinceThereIsAReference);
        let stricter = mean(race_alpha(3, ALPHA), Counts::FromTheirStart);
        assert!(anew < 0.97 * stricter, "p {p}: {anew}, {stricter}");
    }
}
