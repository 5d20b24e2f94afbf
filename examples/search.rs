//! What a search costs, and how often it is wrong: the figures of `stats::search`.
//!
//! `cargo run --release --example search -- <table> [trials]`, where the table is one of those named in
//! `main`.
#![expect(clippy::print_stdout, reason = "a program that prints a table")]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small counts"
)]

use std::thread;

use provoke::stats::search::{Bisection, Costs, Count, Model, Reduction, Slots, Stop, Verdict};
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

struct Chance(Pcg64Mcg);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    fn uniform(&mut self) -> f64 {
        f64::from(self.0.next_u32()) / 4_294_967_296.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }
}

/// What really is.
#[derive(Clone, Copy)]
struct Truth {
    n: usize,
    p: f64,
    q: f64,
    /// The rate at the way from the culprit (0) to the newest version (1), as a share of p.
    shape: fn(f64) -> f64,
}

fn constant(_: f64) -> f64 {
    1.0
}

impl Truth {
    fn rate(&self, version: usize, culprit: usize) -> f64 {
        if version < culprit {
            return self.q;
        }
        let way = if culprit == self.n {
            1.0
        } else {
            (version - culprit) as f64 / (self.n - culprit) as f64
        };
        self.p * (self.shape)(way)
    }
}

#[derive(Clone)]
struct Setup {
    model: Model,
    stop: Stop,
    switch: f64,
    build: f64,
}

#[derive(Default, Clone, Copy)]
struct Sums {
    trials: f64,
    runs: f64,
    wrong: f64,
    switches: f64,
    cost: f64,
    built: f64,
    alarms: f64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.trials += other.trials;
        self.runs += other.runs;
        self.wrong += other.wrong;
        self.switches += other.switches;
        self.cost += other.cost;
        self.built += other.built;
        self.alarms += other.alarms;
    }
}

/// Runs one search after a baseline of five failures of the newest version.
fn search(truth: &Truth, setup: &Setup, chance: &mut Chance) -> Sums {
    let culprit = 1 + chance.below(truth.n);
    let mut search = Bisection::new(truth.n, &setup.model, None);
    let (mut failures, mut runs) = (0, 0);
    let rate = truth.rate(truth.n, culprit);
    while failures < 5 || (failures == runs && runs < 10) {
        runs += 1;
        failures += u64::from(chance.uniform() < rate);
    }
    search.observe_many(truth.n, failures, runs);
    let mut sums = Sums {
        trials: 1.0,
        ..Sums::default()
    };
    let mut current = Some(truth.n);
    let mut built = vec![truth.n];
    while sums.runs < 20_000.0 {
        let costs = Costs {
            run: 1.0,
            switch: setup.switch,
            build: setup.build,
            current,
            built: if setup.build > 0.0 { &built } else { &[] },
        };
        let Some(query) = search.choose(&setup.stop, &costs) else {
            break;
        };
        if current != Some(query.version) {
            sums.switches += 1.0;
            sums.cost += setup.switch;
            current = Some(query.version);
        }
        if !built.contains(&query.version) {
            built.push(query.version);
            sums.built += 1.0;
            sums.cost += setup.build;
        }
        sums.runs += 1.0;
        sums.cost += 1.0;
        let failed = chance.uniform() < truth.rate(query.version, culprit);
        search.observe(query.version, failed);
    }
    let right = match search.verdict(&setup.stop) {
        Verdict::Known(group) => group.first == culprit && group.last == culprit,
        _ => false,
    };
    sums.wrong = f64::from(u8::from(!right));
    sums
}

/// Runs so many searches on two threads.
fn searches(truth: &Truth, setup: &Setup, trials: u64) -> Sums {
    let half = |from: u64| {
        let (truth, setup) = (*truth, setup.clone());
        thread::spawn(move || {
            let mut sums = Sums::default();
            for seed in (from..trials).step_by(2) {
                sums.add(&search(&truth, &setup, &mut Chance::new(seed)));
            }
            sums
        })
    };
    let halves = [half(0), half(1)];
    let mut sums = Sums::default();
    for half in halves {
        sums.add(&half.join().expect("no trial panics"));
    }
    sums
}

fn report(name: &str, truth: &Truth, setup: &Setup, trials: u64, target: Option<f64>) {
    let begun = std::time::Instant::now();
    let sums = searches(truth, setup, trials);
    let mean = |sum: f64| sum / sums.trials;
    let target = target.map_or(String::new(), |target| format!("  target {target}"));
    println!(
        "{name:<46} n {:>5} p {:<5} q {:<5} runs {:>7.1} err {:.3} switches {:>5.1} cost {:>7.1} built {:>5.1}{target}  ({:.1} s)",
        truth.n,
        truth.p,
        truth.q,
        mean(sums.runs),
        mean(sums.wrong),
        mean(sums.switches),
        mean(sums.cost),
        mean(sums.built),
        begun.elapsed().as_secs_f64(),
    );
}

fn setup(clean: bool, switch: f64) -> Setup {
    Setup {
        model: Model {
            clean,
            ..Model::default()
        },
        stop: Stop::at(0.05),
        switch,
        build: 0.0,
    }
}

fn targets(trials: u64) {
    let cell = |n, p, q| Truth {
        n,
        p,
        q,
        shape: constant,
    };
    for (n, p, switch, target) in [
        (8, 1.0, 2.0, 3.5),
        (8, 0.5, 2.0, 14.0),
        (8, 0.1, 2.0, 74.0),
        (8, 0.03, 2.0, 247.0),
        (64, 1.0, 0.0, 7.0),
        (64, 0.5, 0.0, 28.0),
        (64, 0.1, 0.0, 146.0),
        (64, 0.1, 2.0, 146.0),
        (1024, 1.0, 0.0, 11.5),
        (1024, 0.5, 0.0, 44.0),
        (1024, 0.5, 2.0, 44.0),
    ] {
        report(
            "clean",
            &cell(n, p, 0.0),
            &setup(true, switch),
            trials,
            Some(target),
        );
    }
    for (n, p, q, target) in [
        (8, 1.0, 0.0, 4.2),
        (8, 0.5, 0.0, 19.5),
        (8, 0.1, 0.0, 136.0),
        (8, 0.03, 0.0, 508.0),
        (64, 1.0, 0.0, 8.0),
        (64, 0.5, 0.0, 34.0),
        (64, 0.1, 0.0, 218.0),
        (1024, 1.0, 0.0, 12.6),
        (1024, 0.5, 0.0, 49.0),
        (8, 1.0, 0.01, 4.2),
        (8, 0.5, 0.01, 22.0),
        (8, 0.1, 0.01, 245.0),
        (8, 0.03, 0.01, 1640.0),
        (64, 1.0, 0.01, 8.1),
        (64, 0.5, 0.01, 39.0),
        (64, 0.1, 0.01, 417.0),
        (1024, 1.0, 0.01, 12.8),
        (1024, 0.5, 0.01, 60.0),
    ] {
        report(
            "default",
            &cell(n, p, q),
            &setup(false, 0.0),
            trials,
            Some(target),
        );
    }
    let mut dear = setup(true, 1.0);
    dear.build = 20.0;
    report(
        "build 20, switch 1",
        &cell(64, 0.1, 0.0),
        &dear,
        trials,
        Some(355.0),
    );
}

type Shape = fn(f64) -> f64;

const SHAPES: [(&str, Shape); 5] = [
    ("constant", constant),
    ("linear from .3", |way| 0.3 + 0.7 * way),
    ("linear from .1", |way| 0.1 + 0.9 * way),
    (
        "step from .3 half way",
        |way| if way < 0.5 { 0.3 } else { 1.0 },
    ),
    (
        "step from .1 at the end",
        |way| if way < 0.9 { 0.1 } else { 1.0 },
    ),
];

/// Rates that differ between bad versions, and what helps.
fn slopes(trials: u64, clean: bool, n: usize, p: f64) {
    // With a background in the model a steeper rise than that is mistaken for one, for thousands of runs.
    let shapes = if clean { &SHAPES[..] } else { &SHAPES[..2] };
    for (name, guard, alpha) in [
        ("plain", 0, 0.05),
        ("guard 3 at .05", 3, 0.05),
        ("guard 3 at .025", 3, 0.025),
        ("guard 3 at .0125", 3, 0.0125),
    ] {
        for &(shape_name, shape) in shapes {
            let truth = Truth {
                n,
                p,
                q: 0.0,
                shape,
            };
            let mut setup = setup(clean, 0.0);
            setup.stop = Stop::at(0.05).with_guard(guard, alpha);
            report(
                &format!("{name:<22}{shape_name}"),
                &truth,
                &setup,
                trials,
                None,
            );
        }
    }
}

/// Alarms of the check for one boundary: truly one, and a failure that comes and goes.
fn contradictions(trials: u64) {
    for (n, clean, p, q) in [
        (64, true, 0.5, 0.0),
        (64, true, 0.1, 0.0),
        (1024, true, 0.5, 0.0),
        (8, false, 0.5, 0.01),
        (64, false, 0.5, 0.01),
        (64, false, 0.1, 0.01),
        (64, false, 0.1, 0.0),
    ] {
        let truth = Truth {
            n,
            p,
            q,
            shape: constant,
        };
        let (mut alarms, mut gone) = (0_u64, 0_u64);
        let mut after = 0.0;
        for seed in 0..trials {
            let mut chance = Chance::new(seed);
            let culprit = 1 + chance.below(n);
            alarms += u64::from(alarm(&truth, clean, &mut chance, |v| v >= culprit).is_some());
            // Every second version is bad.
            let coming_and_going = |v: usize| v.is_multiple_of(2);
            if let Some(runs) = alarm(&truth, clean, &mut chance, coming_and_going) {
                gone += 1;
                after += runs;
            }
        }
        println!(
            "n {n} clean {clean} p {p} q {q}: alarms {:.4}; if it comes and goes {:.3} after {:.0} runs",
            alarms as f64 / trials as f64,
            gone as f64 / trials as f64,
            after / gone as f64,
        );
    }
}

fn alarm(
    truth: &Truth,
    clean: bool,
    chance: &mut Chance,
    bad: impl Fn(usize) -> bool,
) -> Option<f64> {
    let setup = setup(clean, 2.0);
    let mut search = Bisection::new(truth.n, &setup.model, None);
    let mut failures = 0;
    let mut current = Some(truth.n);
    let mut runs = 0.0;
    while failures < 5 {
        let failed = chance.uniform() < truth.p;
        failures += u64::from(failed);
        search.observe(truth.n, failed);
    }
    while runs < 5000.0 {
        let costs = Costs {
            switch: 2.0,
            current,
            ..Costs::RUNS
        };
        let query = search.choose(&Stop::guarded(0.05), &costs)?;
        let rate = if bad(query.version) { truth.p } else { truth.q };
        search.observe(query.version, chance.uniform() < rate);
        current = Some(query.version);
        runs += 1.0;
        if search.contradiction().is_some() {
            return Some(runs);
        }
    }
    None
}

/// Sets that are needed, all of them: runs until the set is found, and until each is shown to be needed.
fn reduce(trials: u64) {
    for (n, targets) in [
        (
            8,
            [[5.0, 18.0, 99.0], [9.6, 40.0, 233.0], [13.6, 59.0, 349.0]],
        ),
        (
            32,
            [[7.3, 28.0, 160.0], [14.5, 56.0, 321.0], [21.0, 85.0, 495.0]],
        ),
        (
            128,
            [
                [9.6, 37.0, 191.0],
                [19.1, 73.0, 412.0],
                [27.8, 109.0, 657.0],
            ],
        ),
    ] {
        for (size, targets) in (1..).zip(targets) {
            for (p, target) in [1.0, 0.5, 0.1].into_iter().zip(targets) {
                let (mut found, mut checked, mut wrong, mut open) = (0.0, 0.0, 0.0, 0.0);
                for seed in 0..trials {
                    let one = reduction(n, size, p, &mut Chance::new(seed));
                    found += one.0;
                    checked += one.1;
                    wrong += one.2;
                    open += one.3;
                }
                let mean = |sum: f64| sum / trials as f64;
                println!(
                    "N {n:>3} size {size} p {p:<4} found after {:>6.1} err {:.3} target {target:>6}  checked after {:>7.1} err {:.3}",
                    mean(found),
                    mean(wrong),
                    mean(checked),
                    mean(open),
                );
            }
        }
    }
}

/// The guard where a background is possible.
fn guard(trials: u64) {
    for (name, stop) in [("plain", Stop::at(0.05)), ("guarded", Stop::guarded(0.05))] {
        for (shape_name, shape) in &SHAPES[..2] {
            for q in [0.0, 0.01] {
                let truth = Truth {
                    n: 64,
                    p: 0.5,
                    q,
                    shape: *shape,
                };
                let setup = Setup {
                    stop,
                    ..setup(false, 0.0)
                };
                report(
                    &format!("{name:<22}{shape_name}"),
                    &truth,
                    &setup,
                    trials,
                    None,
                );
            }
        }
    }
}

fn reduction(n: usize, size: usize, p: f64, chance: &mut Chance) -> (f64, f64, f64, f64) {
    let mut needed: Vec<usize> = Vec::new();
    while needed.len() < size {
        let thing = chance.below(n);
        if !needed.contains(&thing) {
            needed.push(thing);
        }
    }
    needed.sort_unstable();
    let mut baseline = Count::default();
    while baseline.failures < 5 || (baseline.failures == baseline.runs && baseline.runs < 10) {
        baseline.runs += 1;
        baseline.failures += u64::from(chance.uniform() < p);
    }
    let mut search = Reduction::new((0..n).collect(), true, baseline, 0.05);
    let (mut runs, mut found) = (0.0, None);
    let right = |search: &Reduction| {
        let mut answer: Vec<usize> = search.answer().needed.concat();
        answer.sort_unstable();
        answer == needed
    };
    while let Some(set) = search.next() {
        let bad = needed.iter().all(|thing| set.contains(thing));
        let failed = bad && chance.uniform() < p;
        search.observe(&set, failed);
        runs += 1.0;
        if search.is_found() && found.is_none() {
            found = Some((runs, right(&search)));
        }
        if runs > 50_000.0 {
            break;
        }
    }
    let (at, was_right) = found.unwrap_or((runs, false));
    let wrong = |right: bool| if right { 0.0 } else { 1.0 };
    (at, runs, wrong(was_right), wrong(right(&search)))
}

/// The rule of git-bayesect: both sides have a rate of their own, uniform on the scale of Jeffreys,
/// which need not differ. After the same baseline, until one culprit has .95.
fn independent_rates(truth: &Truth, chance: &mut Chance) -> (f64, bool) {
    let n = truth.n;
    let culprit = 1 + chance.below(n);
    let mut ln = vec![0.0_f64; n + 1];
    let mut counts = vec![(0.0, 0.0); n + 1];
    let mut observe = |version: usize, failed: bool, ln: &mut Vec<f64>| {
        // Failures and runs on both sides of each culprit.
        let total = counts
            .iter()
            .fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let mut good = (0.0, 0.0);
        let mut rates = vec![(0.0, 0.0); n + 1];
        for c in 1..=n {
            good = (good.0 + counts[c - 1].0, good.1 + counts[c - 1].1);
            let bad = (total.0 - good.0, total.1 - good.1);
            let rate = |side: (f64, f64)| (side.0 + 0.5) / (side.1 + 1.0);
            rates[c] = (rate(bad), rate(good));
        }
        if version <= n {
            for c in 1..=n {
                let rate = if version >= c { rates[c].0 } else { rates[c].1 };
                ln[c] += if failed { rate.ln() } else { (1.0 - rate).ln() };
            }
            counts[version].0 += f64::from(u8::from(failed));
            counts[version].1 += 1.0;
        }
        rates
    };
    let (mut failures, mut baseline) = (0, 0);
    while failures < 5 || (failures == baseline && baseline < 10) {
        let failed = chance.uniform() < truth.p;
        observe(n, failed, &mut ln);
        failures += usize::from(failed);
        baseline += 1;
    }
    let entropy = |x: f64| {
        if x > 0.0 && x < 1.0 {
            -x * x.ln() - (1.0 - x) * (1.0 - x).ln()
        } else {
            0.0
        }
    };
    let mut runs = 0.0;
    loop {
        let most = ln[1..].iter().copied().fold(f64::MIN, f64::max);
        let masses: Vec<f64> = ln.iter().map(|ln| (ln - most).exp()).collect();
        let total: f64 = masses[1..].iter().sum();
        let best = (1..=n).fold(1, |a, b| if masses[b] > masses[a] { b } else { a });
        if masses[best] >= 0.95 * total || runs > 20_000.0 {
            return (runs, best == culprit);
        }
        let rates = observe(n + 1, false, &mut ln);
        let mut query = (f64::MIN, 0);
        let mut below = (0.0, 0.0);
        let mut above = (0.0, 0.0);
        for c in 1..=n {
            let mass = masses[c] / total;
            above = (
                above.0 + mass * rates[c].1,
                above.1 + mass * entropy(rates[c].1),
            );
        }
        for v in 0..=n {
            if v > 0 {
                let mass = masses[v] / total;
                above = (
                    above.0 - mass * rates[v].1,
                    above.1 - mass * entropy(rates[v].1),
                );
                below = (
                    below.0 + mass * rates[v].0,
                    below.1 + mass * entropy(rates[v].0),
                );
            }
            let gain = entropy((above.0 + below.0).clamp(0.0, 1.0)) - above.1 - below.1;
            if gain > query.0 {
                query = (gain, v);
            }
        }
        let failed = chance.uniform() < truth.rate(query.1, culprit);
        observe(query.1, failed, &mut ln);
        runs += 1.0;
    }
}

/// Classical bisection that runs each version up to `repeats` times, until it fails.
fn repeated(truth: &Truth, repeats: u32, chance: &mut Chance) -> (f64, bool) {
    let culprit = 1 + chance.below(truth.n);
    let (mut good, mut bad, mut runs) = (0, truth.n, 0.0);
    while bad - good > 1 {
        let middle = usize::midpoint(good, bad);
        let rate = truth.rate(middle, culprit);
        let failed = (0..repeats).any(|_| {
            runs += 1.0;
            chance.uniform() < rate
        });
        if failed {
            bad = middle;
        } else {
            good = middle;
        }
    }
    (runs, bad == culprit)
}

/// Other rules, in the same cells: runs and error.
fn rivals(trials: u64) {
    for (n, p) in [
        (8, 1.0),
        (8, 0.5),
        (8, 0.1),
        (64, 1.0),
        (64, 0.5),
        (64, 0.1),
        (1024, 0.5),
    ] {
        let truth = Truth {
            n,
            p,
            q: 0.0,
            shape: constant,
        };
        let mean = |one: &dyn Fn(&mut Chance) -> (f64, bool)| {
            let (mut runs, mut wrong) = (0.0, 0.0);
            for seed in 0..trials {
                let (took, right) = one(&mut Chance::new(seed));
                runs += took;
                wrong += f64::from(u8::from(!right));
            }
            (runs / trials as f64, wrong / trials as f64)
        };
        let independent = mean(&|chance| independent_rates(&truth, chance));
        let oracle = (1..1000)
            .map(|repeats| (repeats, mean(&|chance| repeated(&truth, repeats, chance))))
            .find(|(_, (_, wrong))| *wrong <= 0.05)
            .expect("enough repeats");
        println!(
            "n {n} p {p}: independent rates {independent:.3?}; repeats chosen by an oracle {oracle:.3?}"
        );
        for (name, clean) in [("clean", true), ("default", false)] {
            report(name, &truth, &setup(clean, 0.0), trials, None);
        }
    }
}

/// How long a choice takes.
fn timings() {
    for n in [64, 1024, 100_000] {
        for clean in [true, false] {
            let mut chance = Chance::new(1);
            let setup = setup(clean, 0.0);
            let mut search = Bisection::new(n, &setup.model, None);
            search.observe_many(n, 5, 50);
            let culprit = n / 3;
            let (mut slowest, mut total, mut runs) = (0.0_f64, 0.0, 0);
            let mut batches = Vec::new();
            loop {
                let begun = std::time::Instant::now();
                let Some(query) = search.choose(&setup.stop, &Costs::RUNS) else {
                    break;
                };
                let bad = query.version >= culprit;
                search.observe(query.version, bad && chance.uniform() < 0.1);
                let took = begun.elapsed().as_secs_f64() * 1e3;
                slowest = slowest.max(took);
                total += took;
                runs += 1;
                if runs % 40 == 1 {
                    let begun = std::time::Instant::now();
                    let slots = |free, in_flight| Slots {
                        free,
                        in_flight,
                        built: &[],
                        builds: usize::MAX,
                        seed: 1,
                    };
                    let mut in_flight = search.choose_batch(&setup.stop, &slots(64, &[]));
                    let all = begun.elapsed().as_secs_f64() * 1e3;
                    in_flight.truncate(63);
                    let begun = std::time::Instant::now();
                    search.choose_batch(&setup.stop, &slots(1, &in_flight));
                    let one = begun.elapsed().as_secs_f64() * 1e3;
                    let mut versions = in_flight.clone();
                    versions.sort_unstable();
                    versions.dedup();
                    batches.push((all, one, versions.len()));
                }
            }
            println!(
                "n {n} clean {clean}: choose and observe {:.3} ms, at most {slowest:.3} ms ({runs} runs); 64 slots, refill, versions: {batches:.2?}",
                total / f64::from(runs)
            );
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let table = arguments.first().map_or("targets", String::as_str);
    let trials = arguments
        .get(1)
        .map_or(1000, |trials| trials.parse().expect("a number of trials"));
    match table {
        "targets" => targets(trials),
        "rivals" => rivals(trials),
        "guard" => guard(trials),
        "timings" => timings(),
        "reduce" => reduce(trials),
        "contradictions" => contradictions(trials),
        "slopes" => {
            for (clean, p) in [(false, 0.5), (true, 0.5), (true, 0.1)] {
                println!("clean {clean}");
                slopes(trials, clean, 64, p);
            }
        }
        other => panic!("no table `{other}`"),
    }
}
