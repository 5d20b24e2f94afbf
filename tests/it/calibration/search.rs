//! Searches with a known answer: how often they are wrong, and what they cost.

use provoke::stats::search::{
    Bisection, Channel, Costs, Count, Model, Reduction, Slots, Stop, Verdict, bisect_runs,
};

use super::chance::Chance;

/// What really is, and what it may cost.
struct Cell {
    n: usize,
    clean: bool,
    p: f64,
    q: f64,
    trials: u32,
    /// About the mean of a thousand searches.
    runs: f64,
}

struct Ending {
    runs: f64,
    wrong: bool,
    alarm: bool,
}

/// Returns a search after a baseline of five failures of the newest version, or ten of ten.
fn begun(n: usize, clean: bool, rate: f64, chance: &mut Chance) -> Bisection {
    let model = Model {
        clean,
        ..Model::default()
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
    stop: &Stop,
    culprit: usize,
    chance: &mut Chance,
    rate: impl Fn(usize) -> f64,
) -> Ending {
    let mut runs = 0.0;
    let mut alarm = false;
    while let Some(query) = search.choose(stop, &Costs::RUNS) {
        search.observe(query.version, chance.fails(rate(query.version)));
        alarm |= search.contradiction().is_some();
        runs += 1.0;
        assert!(runs < 20_000.0, "a search without an end");
    }
    let wrong = match search.verdict(stop) {
        Verdict::Known(group) => (group.first, group.last) != (culprit, culprit),
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
fn a_search_finds_the_culprit_at_the_stated_price() {
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
        cell(64, false, 0.5, 0.0, 60, 31.7),
    ]) {
        let mut chance = Chance::new(seed);
        let (mut runs, mut wrong) = (0.0, 0);
        for _ in 0..cell.trials {
            let culprit = culprit(cell.n, &mut chance);
            let mut search = begun(cell.n, cell.clean, cell.p, &mut chance);
            let rate = |v: usize| if v >= culprit { cell.p } else { cell.q };
            let ending = finish(&mut search, &Stop::at(0.05), culprit, &mut chance, rate);
            runs += ending.runs;
            wrong += u32::from(ending.wrong);
            alarms += u32::from(ending.alarm);
            searches += 1;
        }
        let mean = runs / f64::from(cell.trials);
        let told = format!(
            "n {}, p {}, q {}: {mean} runs, {wrong} wrong",
            cell.n, cell.p, cell.q
        );
        assert!((mean / cell.runs - 1.0).abs() < 0.2, "{told}");
        assert!(f64::from(wrong) <= 0.1 * f64::from(cell.trials), "{told}");
        let n = u64::try_from(cell.n).unwrap();
        let channel = Channel {
            p: cell.p,
            q: cell.q,
        };
        let planned = bisect_runs(n, &channel, cell.clean, 0.05);
        assert!(
            (planned / cell.runs - 1.0).abs() < 0.25,
            "{told}, planned {planned}"
        );
    }
    assert!(100 * alarms <= searches, "{alarms} of {searches}");
}

#[test]
fn a_guarded_search_stands_rates_that_rise_after_the_culprit() {
    // From .3 of the newest version's rate at the culprit, linear: without the guard two in five are wrong.
    let wrong = |stop: Stop| {
        let mut chance = Chance::new(70);
        let mut wrong = 0;
        for _ in 0..100 {
            let culprit = culprit(64, &mut chance);
            let mut search = begun(64, true, 0.5, &mut chance);
            let real = |v: usize| f64::from(u32::try_from(v).unwrap());
            let way = |v: usize| {
                if culprit == 64 {
                    1.0
                } else {
                    (real(v) - real(culprit)) / (64.0 - real(culprit))
                }
            };
            let rate = |v: usize| {
                if v >= culprit {
                    0.5 * (0.3 + 0.7 * way(v))
                } else {
                    0.0
                }
            };
            wrong += u32::from(finish(&mut search, &stop, culprit, &mut chance, rate).wrong);
        }
        wrong
    };
    let (plain, guarded) = (wrong(Stop::at(0.05)), wrong(Stop::guarded(0.05)));
    assert!(plain > 20 && guarded <= 12, "{plain}, {guarded}");
}

#[test]
fn many_slots_take_few_rounds() {
    let mut chance = Chance::new(71);
    let stop = Stop::at(0.05);
    let (mut rounds, mut runs, mut wrong) = (0, 0, 0);
    for seed in 0..30 {
        let culprit = culprit(64, &mut chance);
        let mut search = begun(64, false, 0.5, &mut chance);
        loop {
            let slots = Slots {
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
                search.observe(version, version >= culprit && chance.fails(0.5));
            }
        }
        let right =
            matches!(search.verdict(&stop), Verdict::Known(group) if group.first == culprit);
        wrong += u32::from(!right);
    }
    // One after the other it takes 32 rounds.
    assert!(
        rounds <= 6 * 30 && wrong <= 3,
        "{rounds} rounds, {runs} runs, {wrong} wrong"
    );
}

#[test]
fn a_reduction_finds_what_is_needed_at_the_stated_price() {
    for (n, needed, p, mean) in [
        (8, vec![5], 0.5, 16.3),
        (32, vec![3, 20], 0.5, 53.0),
        (32, vec![2, 9, 30], 1.0, 19.3),
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
                let set = search.next().expect("a set to run");
                let bad = needed.iter().all(|thing| set.contains(thing));
                search.observe(&set, bad && chance.fails(p));
                runs += 1.0;
            }
            let mut found = search.answer().needed.concat();
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
