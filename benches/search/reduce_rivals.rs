//! Compares delta debugging with repeated tests and provoke's reduction.
//!
//! Each test runs a set up to K times and stops at the first failure. An oracle chooses the smallest K that finds the
//! right set in 95 % of cases; it uses other seeds than the measurement.

use std::collections::HashMap;

use provoke_stats::search::Count;

use super::chance::{Chance, means, share};
use super::reduce::Cell;

/// Tests of sets, each at most once.
struct Tests<'a> {
    needed: &'a [usize],
    p: f64,
    repeats: u32,
    chance: &'a mut Chance,
    known: HashMap<Vec<usize>, bool>,
    runs: f64,
}

impl Tests<'_> {
    fn fails(&mut self, set: &[usize]) -> bool {
        if let Some(&failed) = self.known.get(set) {
            return failed;
        }
        let bad = self.needed.iter().all(|thing| set.contains(thing));
        let failed = (0..self.repeats).any(|_| {
            self.runs += 1.0;
            bad && self.chance.fails(self.p)
        });
        self.known.insert(set.to_vec(), failed);
        failed
    }
}

/// Returns a set without the items of another.
fn without(set: &[usize], other: &[usize]) -> Vec<usize> {
    let kept = set.iter().filter(|thing| !other.contains(thing));
    kept.copied().collect()
}

/// Zeller and Hildebrandt 2002: try each part, then each complement, then smaller parts.
fn ddmin(n: usize, tests: &mut Tests) -> Vec<usize> {
    let mut set: Vec<usize> = (0..n).collect();
    let mut parts = 2;
    while set.len() > 1 {
        let bounds: Vec<usize> = (0..=parts).map(|i| i * set.len() / parts).collect();
        let slices: Vec<Vec<usize>> = bounds
            .windows(2)
            .map(|w| set[w[0]..w[1]].to_vec())
            .collect();
        if let Some(part) = slices.iter().find(|part| tests.fails(part)) {
            set.clone_from(part);
            parts = 2;
            continue;
        }
        let complements = slices.iter().map(|part| without(&set, part));
        let found = complements.into_iter().find(|rest| tests.fails(rest));
        if let Some(rest) = found {
            set = rest;
            parts = (parts - 1).max(2);
        } else if parts < set.len() {
            parts = (2 * parts).min(set.len());
        } else {
            break;
        }
        parts = parts.min(set.len().max(2));
    }
    set
}

/// Wang et al. 2021: each item has a probability to be needed. The items with the largest expected gain are left out,
/// and become more likely if the failure disappears with them.
fn probdd(n: usize, first: f64, tests: &mut Tests) -> Vec<usize> {
    let mut open: Vec<(f64, usize)> = (0..n).map(|thing| (first, thing)).collect();
    let mut needed: Vec<usize> = Vec::new();
    loop {
        open.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        // The empty set cannot fail.
        let most = if needed.is_empty() {
            open.len().saturating_sub(1)
        } else {
            open.len()
        };
        if most == 0 {
            needed.extend(open.iter().map(|(_, thing)| *thing));
            needed.sort_unstable();
            return needed;
        }
        let (mut best, mut taken, mut all_needless) = (0.0, 1, 1.0);
        for (i, (p, _)) in open[..most].iter().enumerate() {
            all_needless *= 1.0 - p;
            let gain = (i + 1) as f64 * all_needless;
            if gain > best {
                (best, taken) = (gain, i + 1);
            }
        }
        let mut set: Vec<usize> = needed.clone();
        set.extend(open[taken..].iter().map(|(_, thing)| *thing));
        set.sort_unstable();
        if tests.fails(&set) {
            open.drain(..taken);
        } else if taken == 1 {
            needed.push(open.remove(0).1);
        } else {
            let needless: f64 = open[..taken].iter().map(|(p, _)| 1.0 - p).product();
            for (p, _) in &mut open[..taken] {
                *p = (*p / (1.0 - needless)).min(1.0 - 1e-9);
            }
        }
    }
}

/// A rule that reduces n items by tests.
type Rule<'a> = &'a (dyn Fn(usize, &mut Tests) -> Vec<usize> + Sync);

fn measured(cell: &Cell, rule: Rule, repeats: u32, from: u64, trials: u64) -> [f64; 2] {
    means(from, trials, |chance| {
        let needed = chance.things(cell.n, cell.size);
        let mut tests = Tests {
            needed: &needed,
            p: cell.p,
            repeats,
            chance,
            known: HashMap::new(),
            runs: 0.0,
        };
        let mut found = rule(cell.n, &mut tests);
        found.sort_unstable();
        [tests.runs, share(found != needed)]
    })
}

/// Returns runs and error with the smallest K that is wrong in at most 5 % of cases, and that K.
fn tuned(cell: &Cell, rule: Rule, trials: u64) -> ([f64; 2], u32) {
    let is_right = |repeats: u32| measured(cell, rule, repeats, 1_000_000, 2 * trials)[1] <= 0.05;
    let mut most = 1;
    while !is_right(most) {
        most *= 2;
    }
    let (mut least, mut most) = (most / 2, most);
    while most - least > 1 {
        let middle = u32::midpoint(least, most);
        if is_right(middle) {
            most = middle;
        } else {
            least = middle;
        }
    }
    (measured(cell, rule, most, 0, trials), most)
}

pub(crate) fn rivals(trials: u64, only: &str) {
    for n in [8, 32, 128] {
        for size in [1, 2, 3] {
            for p in [1.0, 0.5, 0.1] {
                let cell = Cell::clean(n, size, p);
                let name = format!("N {n:>3} size {size} p {p:<3}");
                if !name.contains(only) {
                    continue;
                }
                let ours = |failures: u64| {
                    let [runs, wrong] = means(0, trials, |chance| {
                        let needed = chance.things(n, size);
                        let mut baseline = cell.baseline(chance);
                        while baseline.failures < failures && p < 1.0 {
                            baseline.runs += 1;
                            baseline.failures += u64::from(chance.fails(p));
                        }
                        if p >= 1.0 && failures > 5 {
                            baseline = Count {
                                failures,
                                runs: failures,
                            };
                        }
                        let one = cell.reduced(&needed, (0..n).collect(), baseline, chance);
                        [one.found, share(one.found_wrong)]
                    });
                    format!("{runs:>6.1} {wrong:.3}")
                };
                let rival = |(of, repeats): ([f64; 2], u32)| {
                    format!("{:>6.1} {:.3} K {repeats}", of[0], of[1])
                };
                let tenth = tuned(&cell, &|n, tests| probdd(n, 0.1, tests), trials);
                let share = size as f64 / n as f64;
                let right = tuned(&cell, &|n, tests| probdd(n, share, tests), trials);
                println!(
                    "{name} ours {} after 100 failures {} ddmin {} ProbDD .1 {} ProbDD size/N {} ({trials} trials)",
                    ours(5),
                    ours(100),
                    rival(tuned(&cell, &ddmin, trials)),
                    rival(tenth),
                    rival(right),
                );
            }
        }
    }
}
