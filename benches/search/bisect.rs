//! Simulates one bisection, and compares all cells with the promised numbers of runs.

use provoke_stats::search::{Bisection, Costs, SearchPrior, SearchVerdict, StopConditions};

use super::chance::{Chance, means, share};

/// Number of runs after which a search counts as wrong.
const MOST: f64 = 20_000.0;

/// The true state.
#[derive(Clone, Copy)]
pub(crate) struct Truth {
    pub(crate) n: usize,
    pub(crate) p: f64,
    pub(crate) q: f64,
}

impl Truth {
    pub(crate) fn rate(&self, version: usize, culprit: usize) -> f64 {
        if version < culprit { self.q } else { self.p }
    }
}

#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) model: SearchPrior,
    pub(crate) stop: StopConditions,
    pub(crate) switch: f64,
    pub(crate) build: f64,
}

/// Runs one search after a baseline; returns runs, wrong answers, switches, the total cost, and built versions.
pub(crate) fn search(truth: &Truth, setup: &Setup, chance: &mut Chance) -> [f64; 5] {
    let culprit = 1 + chance.below(truth.n);
    searched(truth, setup, None, culprit, chance)
}

/// Does the same with a weight for each culprit, if any are given.
pub(crate) fn searched(
    truth: &Truth,
    setup: &Setup,
    weights: Option<&[f64]>,
    culprit: usize,
    chance: &mut Chance,
) -> [f64; 5] {
    let mut search = Bisection::new(truth.n, &setup.model, weights);
    let (failures, baseline) = chance.baseline(truth.rate(truth.n, culprit));
    search.observe_many(truth.n, failures, baseline);
    let (mut runs, mut switches, mut cost) = (0.0, 0.0, 0.0);
    let mut current = Some(truth.n);
    let mut built = vec![truth.n];
    while runs < MOST {
        let costs = Costs {
            run: 1.0,
            switch: setup.switch,
            build: setup.build,
            current,
            built: if setup.build > 0.0 { &built } else { &[] },
        };
        let Some(query) = search.choose_query(&setup.stop, &costs) else {
            break;
        };
        if current != Some(query.version) {
            switches += 1.0;
            cost += setup.switch;
            current = Some(query.version);
        }
        if !built.contains(&query.version) {
            built.push(query.version);
            cost += setup.build;
        }
        runs += 1.0;
        cost += 1.0;
        let failed = chance.fails(truth.rate(query.version, culprit));
        search.observe_run(query.version, failed);
    }
    let wrong = share(!is_found(&search, &setup.stop, culprit));
    [runs, wrong, switches, cost, (built.len() - 1) as f64]
}

/// Returns whether the search has found exactly this culprit.
pub(crate) fn is_found(search: &Bisection, stop: &StopConditions, culprit: usize) -> bool {
    match search.current_verdict(stop) {
        SearchVerdict::Known(group) => group.first == culprit && group.last == culprit,
        _ => false,
    }
}

pub(crate) fn report(name: &str, truth: &Truth, setup: &Setup, trials: u64, target: Option<f64>) {
    let started_at = std::time::Instant::now();
    let sums = means(0, trials, |chance| search(truth, setup, chance));
    let [runs, wrong, switches, cost, built] = sums;
    let target = target.map_or(String::new(), |target| format!("  target {target}"));
    println!(
        "{name:<46} n {:>5} p {:<5} q {:<5} runs {:>7.1} err {:.3} switches {:>5.1} cost {:>7.1} built {:>5.1}{target}  ({trials} trials, {:.1} s)",
        truth.n,
        truth.p,
        truth.q,
        runs,
        wrong,
        switches,
        cost,
        built,
        started_at.elapsed().as_secs_f64(),
    );
}

pub(crate) fn setup(clean: bool, switch: f64) -> Setup {
    Setup {
        model: SearchPrior {
            clean,
            ..SearchPrior::default()
        },
        stop: StopConditions::at_delta(0.05),
        switch,
        build: 0.0,
    }
}

/// Shows runs and errors of the cells with a target; `only` keeps the rows with these words in their name.
pub(crate) fn targets(trials: u64, only: &str) {
    // Long searches are repeated less often: this factor.
    let clean = [
        (8, 1.0, 2.0, 1, 3.5),
        (8, 0.5, 2.0, 1, 14.0),
        (8, 0.1, 2.0, 1, 74.0),
        (8, 0.03, 2.0, 1, 247.0),
        (64, 1.0, 0.0, 1, 7.0),
        (64, 0.5, 0.0, 1, 28.0),
        (64, 0.1, 0.0, 1, 146.0),
        (64, 0.1, 2.0, 1, 146.0),
        (64, 0.03, 0.0, 1, 505.0),
        (1024, 1.0, 0.0, 1, 11.5),
        (1024, 0.5, 0.0, 1, 44.0),
        (1024, 0.5, 2.0, 1, 44.0),
        (1024, 0.1, 0.0, 1, 243.0),
        (1024, 0.03, 0.0, 1, 824.0),
    ];
    let default = [
        (8, 1.0, 0.0, 1, 4.2),
        (8, 0.5, 0.0, 1, 19.5),
        (8, 0.1, 0.0, 1, 136.0),
        (8, 0.03, 0.0, 1, 508.0),
        (64, 1.0, 0.0, 1, 8.0),
        (64, 0.5, 0.0, 1, 34.0),
        (64, 0.1, 0.0, 1, 218.0),
        (64, 0.03, 0.0, 2, 820.0),
        (1024, 1.0, 0.0, 1, 12.6),
        (1024, 0.5, 0.0, 1, 49.0),
        (1024, 0.1, 0.0, 2, 337.0),
        (1024, 0.03, 0.0, 2, 1136.0),
        (8, 1.0, 0.01, 1, 4.2),
        (8, 0.5, 0.01, 1, 22.0),
        (8, 0.1, 0.01, 1, 245.0),
        (8, 0.03, 0.01, 1, 1640.0),
        (64, 1.0, 0.01, 1, 8.1),
        (64, 0.5, 0.01, 1, 39.0),
        (64, 0.1, 0.01, 1, 417.0),
        (64, 0.03, 0.01, 4, 3265.0),
        (1024, 1.0, 0.01, 1, 12.8),
        (1024, 0.5, 0.01, 1, 60.0),
        (1024, 0.1, 0.01, 2, 617.0),
        (1024, 0.03, 0.01, 10, 5236.0),
    ];
    let clean = clean.map(|(n, p, switch, rarer, target)| {
        ("clean", cell(n, p, 0.0), setup(true, switch), rarer, target)
    });
    let default = default.map(|(n, p, q, rarer, target)| {
        ("default", cell(n, p, q), setup(false, 0.0), rarer, target)
    });
    let mut dear = setup(true, 1.0);
    dear.build = 20.0;
    let dear = ("build 20, switch 1", cell(64, 0.1, 0.0), dear, 1, 355.0);
    for (name, truth, setup, rarer, target) in clean.into_iter().chain(default).chain([dear]) {
        let all = format!("{name} n {} p {} q {}", truth.n, truth.p, truth.q);
        if all.contains(only) {
            report(name, &truth, &setup, trials / rarer, Some(target));
        }
    }
}

/// A rate that all bad versions share.
pub(crate) fn cell(n: usize, p: f64, q: f64) -> Truth {
    Truth { n, p, q }
}
