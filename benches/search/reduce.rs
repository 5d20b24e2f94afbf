//! Measures the cost of finding needed sets.

use provoke_stats::search::{Count, Reduction};

use super::chance::{Chance, means, share};

/// Number of runs after which a search counts as wrong.
const MOST: f64 = 50_000.0;

/// The true state, and the inputs of the search.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) n: usize,
    pub(crate) size: usize,
    pub(crate) p: f64,
    /// The failure rate of sets that lack a needed item.
    pub(crate) q: f64,
    pub(crate) clean: bool,
    /// The share of sets that cannot be run.
    pub(crate) refused: f64,
}

/// The result of a reduction.
pub(crate) struct Ending {
    /// Number of runs until the set was found, and until the end of the check.
    pub(crate) found: f64,
    pub(crate) checked: f64,
    /// Whether the set was wrong: when found, and at the end.
    pub(crate) found_wrong: bool,
    pub(crate) wrong: bool,
    /// Whether the answer lacks a needed item, or calls an item needed that is not.
    pub(crate) untrue: bool,
    /// Number of items beyond the needed set.
    pub(crate) excess: usize,
    /// Whether the reduction ended.
    pub(crate) ended: bool,
}

impl Cell {
    pub(crate) fn clean(n: usize, size: usize, p: f64) -> Self {
        Self {
            n,
            size,
            p,
            q: 0.0,
            clean: true,
            refused: 0.0,
        }
    }

    /// Returns a baseline of five failures.
    pub(crate) fn baseline(&self, chance: &mut Chance) -> Count {
        let (failures, runs) = chance.baseline(self.p);
        Count { failures, runs }
    }

    /// Reduces with the items in this order.
    pub(crate) fn reduced(
        &self,
        needed: &[usize],
        order: Vec<usize>,
        baseline: Count,
        chance: &mut Chance,
    ) -> Ending {
        let mut search = Reduction::new(order, self.clean, baseline, 0.05);
        let salt = chance.below(1 << 30);
        let refused = |set: &[usize]| {
            let hash = |sum: usize, thing: &usize| {
                (sum ^ thing)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(29)
            };
            self.refused > 0.0
                && set.len() < self.n
                && Chance::new(set.iter().fold(salt, hash) as u64).fails(self.refused)
        };
        let mut known = Vec::new();
        let (mut runs, mut found) = (0.0, None);
        let is_right = |search: &Reduction| {
            let mut answer: Vec<usize> = search.current_answer().needed.concat();
            answer.sort_unstable();
            answer == needed
        };
        let mut ended = false;
        while runs < MOST {
            let Some(set) = search.next_set() else {
                ended = true;
                break;
            };
            if refused(&set) {
                assert!(
                    !known.contains(&set),
                    "a set that cannot be run, again: {set:?}"
                );
                search.mark_untestable(&set);
                known.push(set);
            } else {
                let rate = if needed.iter().all(|thing| set.contains(thing)) {
                    self.p
                } else {
                    self.q
                };
                search.observe_run(&set, chance.fails(rate));
                runs += 1.0;
            }
            if search.is_found() && found.is_none() {
                found = Some((runs, !is_right(&search)));
            }
        }
        let (at, found_wrong) = found.unwrap_or((runs, true));
        let answer = search.current_answer();
        let parts = answer.needed.concat();
        let lacks = needed.iter().any(|thing| !parts.contains(thing));
        let needless = answer.needed.iter().enumerate().any(|(i, group)| {
            !answer.open.contains(&i) && group.iter().all(|thing| !needed.contains(thing))
        });
        Ending {
            found: at,
            checked: runs,
            found_wrong,
            wrong: !is_right(&search),
            untrue: lacks || needless,
            excess: parts.iter().filter(|thing| !needed.contains(thing)).count(),
            ended,
        }
    }

    /// Reduces after a baseline of five failures.
    fn reduction(&self, chance: &mut Chance) -> Ending {
        let needed = chance.things(self.n, self.size);
        let baseline = self.baseline(chance);
        self.reduced(&needed, (0..self.n).collect(), baseline, chance)
    }
}

pub(crate) fn targets(trials: u64) {
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
                let told = told(&Cell::clean(n, size, p), trials);
                println!("{told} target {target}");
            }
        }
    }
}

/// Runs `trials` reductions of a kind.
fn told(cell: &Cell, trials: u64) -> String {
    let [found, found_wrong, checked, wrong, untrue, excess, ended] = means(0, trials, |chance| {
        let one = cell.reduction(chance);
        [
            one.found,
            share(one.found_wrong),
            one.checked,
            share(one.wrong),
            share(one.untrue),
            one.excess as f64,
            share(one.ended),
        ]
    });
    format!(
        "N {:>3} size {} p {:<3} q {:<4} clean {:<5} refused {:<3} found after {found:>6.1} err {found_wrong:.3}  checked after {checked:>7.1} err {wrong:.3} untrue {untrue:.3} excess {excess:.2} ended {ended:.3} ({trials} trials)",
        cell.n, cell.size, cell.p, cell.q, cell.clean, cell.refused
    )
}

/// Measures failures that cannot be distinguished from the bug.
pub(crate) fn background(trials: u64) {
    for q in [0.0, 0.01] {
        for n in [8, 32] {
            for size in [1, 2] {
                for p in [0.5, 0.1] {
                    let cell = Cell {
                        q,
                        clean: false,
                        ..Cell::clean(n, size, p)
                    };
                    println!("{}", told(&cell, trials));
                }
            }
        }
    }
}

/// Measures sets that cannot be run, for example because one item needs another.
pub(crate) fn untestable(trials: u64) {
    for (n, size, p) in [
        (8, 1, 0.5),
        (8, 2, 0.5),
        (32, 1, 0.5),
        (32, 2, 0.5),
        (32, 3, 1.0),
        (32, 2, 0.1),
    ] {
        for refused in [0.0, 0.1, 0.3] {
            let cell = Cell {
                refused,
                ..Cell::clean(n, size, p)
            };
            println!("{}", told(&cell, trials));
        }
    }
}

/// Measures orders of suspicion: the needed items are among the first quarter, or among the last.
pub(crate) fn order(trials: u64) {
    for (n, size, p) in [
        (32, 1, 0.5),
        (32, 2, 0.5),
        (128, 1, 0.5),
        (128, 2, 0.5),
        (128, 2, 1.0),
    ] {
        let cell = Cell::clean(n, size, p);
        for (name, from, of) in [
            ("anywhere", 0, n),
            ("first quarter", 0, n / 4),
            ("last quarter", n - n / 4, n / 4),
        ] {
            let [found, wrong] = means(0, trials, |chance| {
                let things = chance.things(of, size);
                let needed: Vec<usize> = things.iter().map(|thing| from + thing).collect();
                let baseline = cell.baseline(chance);
                let one = cell.reduced(&needed, (0..n).collect(), baseline, chance);
                [one.found, share(one.found_wrong)]
            });
            println!(
                "N {n:>3} size {size} p {p:<3} needed {name:<13} found after {found:>6.1} err {wrong:.3} ({trials} trials)"
            );
        }
    }
}
