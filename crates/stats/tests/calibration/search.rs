//! Tests searches with a known answer: their error rate and their cost.

use provoke_stats::search::{
    BatchOptions, Bisection, Channel, Costs, Count, Features, Reduction, ReductionAnswer,
    SearchPrior, SearchVerdict, StopConditions, bisect_runs, hedge_weights,
};

use super::chance::Chance;

/// A true state, and the limits of the cost.
struct Cell {
    n: usize,
    clean: bool,
    p: f64,
    q: f64,
    trials: u32,
    /// The approximate mean of a thousand searches.
    runs: f64,
}

struct Ending {
    runs: f64,
    wrong: bool,
    alarm: bool,
}

/// Returns a search after a baseline of five failures of the newest version, or of ten if all of ten runs failed.
fn search_with_failures(n: usize, clean: bool, rate: f64, chance: &mut Chance) -> Bisection {
    let model = SearchPrior {
        clean,
        ..SearchPrior::default()
    };
    let mut search = Bisection::new(n, &model, None);
    let (mut failures, mut runs) = (0, 0);
    while failures < 5 || (failures == runs && runs < 10) {
        runs += 1;
        failures += u64::from(chance.fails(rate));
    }
    search.observe_many(n, failures, runs);
    search
}

fn finish(
    search: &mut Bisection,
    stop: &StopConditions,
    culprit: usize,
    chance: &mut Chance,
    rate: impl Fn(usize) -> f64,
) -> Ending {
    let mut runs = 0.0;
    let mut alarm = false;
    while let Some(query) = search.choose_query(stop, &Costs::RUNS) {
        search.observe_run(query.version, chance.fails(rate(query.version)));
        alarm |= search.find_contradiction().is_some();
        runs += 1.0;
        assert!(runs < 20_000.0, "a search without an end");
    }
    let wrong = match search.current_verdict(stop) {
        SearchVerdict::Known(group) => (group.first, group.last) != (culprit, culprit),
        _ => true,
    };
    Ending { runs, wrong, alarm }
}

fn culprit(n: usize, chance: &mut Chance) -> usize {
    (1..n)
        .find(|v| chance.uniform() < 1.0 / f64::from(u32::try_from(n - v + 1).unwrap()))
        .unwrap_or(n)
}

#[test]
fn a_search_finds_the_culprit_in_the_stated_number_of_runs() {
    let cell = |n, clean, p, q, trials, runs| Cell {
        n,
        clean,
        p,
        q,
        trials,
        runs,
    };
    let mut alarms = 0;
    let mut searches = 0;
    for (seed, cell) in (60..).zip([
        cell(8, true, 1.0, 0.0, 60, 3.4),
        cell(8, true, 0.5, 0.0, 100, 13.0),
        cell(8, true, 0.1, 0.0, 60, 71.0),
        cell(64, true, 0.5, 0.0, 80, 23.6),
        cell(8, false, 0.5, 0.01, 80, 21.3),
        cell(64, false, 1.0, 0.01, 60, 7.6),
        cell(64, false, 0.5, 0.0, 60, 30.9),
    ]) {
        let mut chance = Chance::new(seed);
        let (mut runs, mut wrong) = (0.0, 0);
        for _ in 0..cell.trials {
            let culprit = culprit(cell.n, &mut chance);
            let mut search = search_with_failures(cell.n, cell.clean, cell.p, &mut chance);
            let rate = |v: usize| if v >= culprit { cell.p } else { cell.q };
            let ending = finish(
                &mut search,
                &StopConditions::at_delta(0.05),
                culprit,
                &mut chance,
                rate,
            );
            runs += ending.runs;
            wrong += u32::from(ending.wrong);
            alarms += u32::from(ending.alarm);
            searches += 1;
        }
        let mean = runs / f64::from(cell.trials);
        let description = format!(
            "n {}, p {}, q {}: {mean} runs, {wrong} wrong",
            cell.n, cell.p, cell.q
        );
        assert!((mean / cell.runs - 1.0).abs() < 0.2, "{description}");
        assert!(
            f64::from(wrong) <= 0.1 * f64::from(cell.trials),
            "{description}"
        );
        let n = u64::try_from(cell.n).unwrap();
        let channel = Channel {
            p: cell.p,
            q: cell.q,
        };
        let planned = bisect_runs(n, &channel, cell.clean, 0.05);
        assert!(
            (planned / cell.runs - 1.0).abs() < 0.25,
            "{description}, planned {planned}"
        );
    }
    assert!(100 * alarms <= searches, "{alarms} of {searches}");
}

/// Returns the mean runs of 100 checked searches at 30 % with a background of 5 %, and how many were wrong without a
/// warning. Some of the background failures have the signature of the bug, the others have another one.
fn with_signatures(share_alike: f64) -> (f64, u32) {
    let mut chance = Chance::new(75);
    let stop = StopConditions::with_check(0.05);
    let (mut runs, mut unsaid) = (0, 0);
    for _ in 0..100 {
        let culprit = culprit(64, &mut chance);
        let mut search = Bisection::new(64, &SearchPrior::default(), None);
        let mut next = Some(64);
        while let Some(version) = next {
            let is_bad = version >= culprit;
            let failed = chance.fails(if is_bad { 0.3 } else { 0.05 });
            let is_alike = is_bad || chance.fails(share_alike);
            let features = Features {
                signature: failed.then_some(usize::from(!is_alike)),
                time: None,
            };
            search.observe_with_features(version, failed, features);
            runs += 1;
            next = if search.failures_and_runs(64).0 < 3 {
                Some(64)
            } else {
                let query = search.choose_query(&stop, &Costs::RUNS);
                query.map(|query| query.version)
            };
        }
        let SearchVerdict::Known(group) = search.current_verdict(&stop) else {
            panic!("{:?}", search.current_verdict(&stop));
        };
        let is_wrong = (group.first, group.last) != (culprit, culprit);
        let warns = search.earlier_failing(&group).is_some()
            || search.find_contradiction().is_some()
            || search.newest_fails_more_often(&stop, &group);
        unsaid += u32::from(is_wrong && !warns);
    }
    (f64::from(runs) / 100.0, unsaid)
}

#[test]
fn distinct_signatures_save_runs_and_equal_signatures_do_not_mislead() {
    let (alike, wrong_alike) = with_signatures(1.0);
    let (differing, wrong_differing) = with_signatures(0.1);
    assert!(differing < 0.85 * alike, "{differing}, {alike}");
    assert!(
        wrong_alike <= 5 && wrong_differing <= 5,
        "{wrong_alike}, {wrong_differing}"
    );
}

#[test]
fn a_search_with_many_slots_takes_few_rounds() {
    let mut chance = Chance::new(71);
    let stop = StopConditions::at_delta(0.05);
    let (mut rounds, mut runs, mut wrong) = (0, 0, 0);
    for seed in 0..30 {
        let culprit = culprit(64, &mut chance);
        let mut search = search_with_failures(64, false, 0.5, &mut chance);
        loop {
            let slots = BatchOptions {
                free: 16,
                in_flight: &[],
                built: &[],
                builds: usize::MAX,
                seed,
            };
            let chosen = search.choose_batch(&stop, &slots);
            if chosen.is_empty() {
                break;
            }
            rounds += 1;
            runs += chosen.len();
            for version in chosen {
                search.observe_run(version, version >= culprit && chance.fails(0.5));
            }
        }
        let right = matches!(search.current_verdict(&stop), SearchVerdict::Known(group) if group.first == culprit);
        wrong += u32::from(!right);
    }
    // One run at a time takes 32 rounds.
    assert!(
        rounds <= 6 * 30 && wrong <= 3,
        "{rounds} rounds, {runs} runs, {wrong} wrong"
    );
}

/// Returns the mean runs and the wrong answers of searches that get these weights, if the culprit is drawn from
/// the weights `real`.
fn weighted(weights: Option<&[f64]>, real: &[f64]) -> (f64, u32) {
    let mut chance = Chance::new(73);
    let n = real.len();
    let trials = 80;
    let (mut runs, mut wrong) = (0.0, 0);
    for _ in 0..trials {
        let mut left = chance.uniform() * real.iter().sum::<f64>();
        let reached = real.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let culprit = 1 + reached.unwrap_or(n - 1);
        let model = SearchPrior {
            clean: true,
            ..SearchPrior::default()
        };
        let mut search = Bisection::new(n, &model, weights);
        search.observe_many(n, 5, chance.runs_until_failures(5, 0.5));
        let rate = |v: usize| if v >= culprit { 0.5 } else { 0.0 };
        let ending = finish(
            &mut search,
            &StopConditions::at_delta(0.05),
            culprit,
            &mut chance,
            rate,
        );
        runs += ending.runs;
        wrong += u32::from(ending.wrong);
    }
    (runs / f64::from(trials), wrong)
}

#[test]
fn correct_weights_save_runs_and_wrong_weights_cost_few_runs() {
    // A few weights hold most of the total, as when commits differ in size.
    let weights: Vec<f64> = (0..64_u32)
        .map(|i| f64::from(37 * i % 64 + 1).powi(-3))
        .collect();
    let even = vec![1.0; 64];
    let hedged = hedge_weights(&weights);
    let (usual, _) = weighted(None, &even);
    let (right, _) = weighted(Some(&hedged), &weights);
    let (wrong, of_them) = weighted(Some(&hedged), &even);
    let (_, trusted) = weighted(Some(&weights), &even);
    assert!(right < 0.75 * usual, "{right} of {usual}");
    assert!(wrong < 1.25 * usual, "{wrong} of {usual}");
    assert!(
        of_them <= 6 && trusted >= 8,
        "{of_them}, {trusted}; {usual} {right} {wrong}"
    );
}

/// Returns the mean runs and the answers of complete reductions, if sets that lack a needed item fail at rate `q` and
/// some sets are refused.
fn reduced(
    n: usize,
    needed: &[usize],
    (p, q): (f64, f64),
    refuses: impl Fn(&[usize], u64) -> bool,
) -> (f64, Vec<ReductionAnswer>) {
    let mut chance = Chance::new(74);
    let trials = 60;
    let mut runs = 0.0;
    let mut answers = Vec::new();
    for trial in 0..trials {
        let baseline = Count {
            failures: 5,
            runs: chance.runs_until_failures(5, p),
        };
        let clean = q <= 0.0;
        let mut search = Reduction::new((0..n).collect(), clean, baseline, 0.05);
        while let Some(set) = search.next_set() {
            if refuses(&set, trial) {
                search.mark_untestable(&set);
                continue;
            }
            let bad = needed.iter().all(|thing| set.contains(thing));
            search.observe_run(&set, chance.fails(if bad { p } else { q }));
            runs += 1.0;
            assert!(runs < 1e5, "a reduction without an end");
        }
        answers.push(search.current_answer());
    }
    (runs / f64::from(u32::try_from(trials).unwrap()), answers)
}

#[test]
fn a_reduction_finds_the_needed_items_despite_a_background() {
    for (n, needed, p, mean) in [(8, vec![5], 0.5, 38.0), (32, vec![3, 20], 0.5, 95.0)] {
        let (runs, answers) = reduced(n, &needed, (p, 0.01), |_, _| false);
        let wrong = answers
            .iter()
            .filter(|answer| {
                let mut found = answer.needed.concat();
                found.sort_unstable();
                found != needed
            })
            .count();
        assert!((runs / mean - 1.0).abs() < 0.3, "{n}: {runs} runs");
        assert!(wrong <= 5, "{n}: {wrong} wrong");
    }
}

#[test]
fn a_reduction_with_untestable_sets_ends_with_all_needed_items() {
    // Three in ten sets are refused, others in every trial; never the set of all items, nor the needed ones alone.
    let needed = [3, 20];
    let refuses = |set: &[usize], trial: u64| {
        let mix = |sum: u64, thing: &usize| {
            (sum ^ *thing as u64)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        };
        set.len() < 32 && set != needed && set.iter().fold(trial, mix) % 10 < 3
    };
    let (_, answers) = reduced(32, &needed, (0.5, 0.0), refuses);
    let lacking = answers.iter().filter(|answer| {
        let found = answer.needed.concat();
        !needed.iter().all(|thing| found.contains(thing))
    });
    let exact = answers.iter().filter(|answer| {
        let mut found = answer.needed.concat();
        found.sort_unstable();
        found == needed
    });
    let (lacking, exact) = (lacking.count(), exact.count());
    assert!(lacking <= 2 && exact >= 54, "{lacking}, {exact} of 60");
}

#[test]
fn a_reduction_finds_the_needed_items_in_the_stated_number_of_runs() {
    for (n, needed, p, mean) in [
        (8, vec![5], 0.5, 12.5),
        (32, vec![3, 20], 0.5, 50.0),
        (32, vec![2, 9, 30], 1.0, 19.5),
    ] {
        let mut chance = Chance::new(72);
        let trials = 60;
        let (mut runs, mut wrong) = (0.0, 0);
        for _ in 0..trials {
            let baseline = if p < 1.0 {
                Count {
                    failures: 5,
                    runs: chance.runs_until_failures(5, p),
                }
            } else {
                Count {
                    failures: 10,
                    runs: 10,
                }
            };
            let mut search = Reduction::new((0..n).collect(), true, baseline, 0.05);
            while !search.is_found() {
                let set = search.next_set().expect("a set to run");
                let bad = needed.iter().all(|thing| set.contains(thing));
                search.observe_run(&set, bad && chance.fails(p));
                runs += 1.0;
            }
            let mut found = search.current_answer().needed.concat();
            found.sort_unstable();
            wrong += u32::from(found != needed);
        }
        let cost = runs / f64::from(trials);
        assert!(
            (cost / mean - 1.0).abs() < 0.3 && wrong <= 7,
            "{n}: {cost} runs, {wrong} wrong"
        );
    }
}
