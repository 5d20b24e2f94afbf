//! Simulates programs whose threads reach points, and compares their trials in up to three looks.

use provoke_stats::paths::{
    Arrival, BLOCK_TRIALS, LOOKS, LOOKS_AT_FUNCTIONS, LOOKS_INSIDE_FUNCTIONS, Look, PathComparison,
    PathGroup, PathPoint, PathStatement, PathTrial, PointKind, compare_paths, due_look,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Trials after which a search ends.
const MAX_TRIALS: u32 = 400;
/// Failure rate of a program without a cause.
const RATE: f64 = 0.2;

/// The threads of a program, and when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathWorld {
    /// One thread with random branches; failures are random.
    Branches,
    /// Three threads with random branches; failures are random.
    Threads,
    /// Twelve equal threads; failures are random.
    Pool,
    /// Random branches whose rates change with time, and random failures whose rate changes as well.
    Drift,
    /// Two threads read a number before either has written it.
    LostUpdate,
    /// Two threads take two locks in different order, and wait for one another.
    LockOrder,
    /// A file is missing, so that defaults are used.
    MissingFile,
    /// A rare branch is wrong.
    RareBranch,
    /// A rare branch is wrong, and a file is missing.
    TwoCauses,
}

/// Worlds in which nothing on the path is a cause.
pub(crate) const WITHOUT_CAUSE: [PathWorld; 4] = [
    PathWorld::Branches,
    PathWorld::Threads,
    PathWorld::Pool,
    PathWorld::Drift,
];

/// Worlds with causes.
pub(crate) const WITH_CAUSE: [PathWorld; 5] = [
    PathWorld::LostUpdate,
    PathWorld::LockOrder,
    PathWorld::MissingFile,
    PathWorld::RareBranch,
    PathWorld::TwoCauses,
];

/// The points of interest come first, then random ones.
const FIRST: u32 = 0;
const SECOND: u32 = 1;
const THIRD: u32 = 2;
const FOURTH: u32 = 3;
const FIRST_WORK: u32 = 4;
const SECOND_WORK: u32 = 5;
const NOISE: u32 = 8;
/// Number of random branches of a thread.
const BRANCHES: u32 = 24;

/// The end of a search.
pub(crate) struct EndedSearch {
    /// The last comparison.
    pub(crate) comparison: PathComparison,
    /// Number of comparisons.
    pub(crate) looks: usize,
    /// Whether any comparison found an effect of arming.
    pub(crate) has_effect: bool,
}

impl PathWorld {
    /// Returns the points of the program.
    pub(crate) fn points(self) -> Vec<PathPoint> {
        let kind = |point: u32| match (self, point) {
            (Self::MissingFile | Self::TwoCauses, SECOND) => PointKind::SystemCall,
            (_, point) if point >= NOISE && point % 2 == 0 => PointKind::Entry,
            _ => PointKind::Block,
        };
        (0..NOISE + 2 * BRANCHES)
            .map(|point| PathPoint {
                kind: kind(point),
                function: point / 4,
                is_ignored: false,
            })
            .collect()
    }

    /// Runs trials until a comparison has a lead or nothing more is due.
    pub(crate) fn search(self, seed: u64) -> EndedSearch {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let points = self.points();
        let (mut trials, mut counts) = (Vec::new(), [0, 0]);
        let (mut last, mut looks, mut has_effect) = (None, 0, false);
        for number in 0..MAX_TRIALS {
            let trial = self.run_trial(number, &mut random);
            counts[usize::from(trial.failed)] += 1;
            trials.push(trial);
            trials.push(self.run_half(number, &mut random));
            let Some(look) = due_look(&LOOKS, looks, counts[1], counts[0]) else {
                continue;
            };
            looks += 1;
            let comparison = compare_paths(&points, &trials, look.error);
            has_effect |= !comparison.arming.is_empty();
            let has_lead = comparison.lead.is_some();
            last = Some(comparison);
            if has_lead {
                break;
            }
        }
        EndedSearch {
            comparison: last.expect("a comparison"),
            looks,
            has_effect,
        }
    }

    /// Runs trials that record entries of functions, and then trials that also record the other points of the functions
    /// that may differ. Returns whether a comparison of one of the stages has a lead, and the last comparison.
    pub(crate) fn search_in_stages(self, seed: u64) -> (bool, PathComparison) {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let points = self.points();
        let is_entry = |point: u32| points[point as usize].kind == PointKind::Entry;
        let first = self.run_stage(&LOOKS_AT_FUNCTIONS, 0, &mut random, is_entry);
        let groups = first.groups.iter().chain(&first.others);
        let differing = groups.filter_map(PathGroup::first_points).flatten();
        // The function of the points of interest is called near all others.
        let chosen: Vec<u32> = differing
            .map(|point| points[point as usize].function)
            .chain([FIRST / 4])
            .collect();
        let second = self.run_stage(&LOOKS_INSIDE_FUNCTIONS, MAX_TRIALS, &mut random, |point| {
            is_entry(point) || chosen.contains(&points[point as usize].function)
        });
        (first.lead.is_some() || second.lead.is_some(), second)
    }

    /// Runs trials in which some points are recorded, until a comparison has a lead or nothing more is due.
    fn run_stage(
        self,
        planned: &[Look],
        begin: u32,
        random: &mut Pcg64Mcg,
        is_recorded: impl Fn(u32) -> bool,
    ) -> PathComparison {
        let points = self.points();
        let (mut trials, mut counts, mut looks) = (Vec::new(), [0, 0], 0);
        let mut last = None;
        for number in begin..begin + MAX_TRIALS {
            let mut trial = self.run_trial(number, random);
            counts[usize::from(trial.failed)] += 1;
            trial.arrivals.retain(|arrival| is_recorded(arrival.point));
            trials.push(trial);
            let Some(look) = due_look(planned, looks, counts[1], counts[0]) else {
                continue;
            };
            looks += 1;
            let comparison = compare_paths(&points, &trials, look.error);
            let has_lead = comparison.lead.is_some();
            last = Some(comparison);
            if has_lead {
                break;
            }
        }
        last.expect("a comparison")
    }

    /// Runs a trial in which all points are armed.
    pub(crate) fn run_trial(self, number: u32, random: &mut Pcg64Mcg) -> PathTrial {
        // Up and down again.
        let share = f64::from((number % 200).abs_diff(100)) / 100.0;
        let threads: Vec<Vec<u32>> = self.threads(share, random);
        let mut arrivals = merge(&threads, random);
        let failed = self.fails(&mut arrivals, share, random);
        PathTrial {
            failed,
            arrivals,
            ends: Vec::new(),
            armed: None,
            block: number / BLOCK_TRIALS,
        }
    }

    /// Runs a trial in which each point is armed with a probability of one half; only a lost update becomes more likely.
    fn run_half(self, number: u32, random: &mut Pcg64Mcg) -> PathTrial {
        let mut trial = self.run_trial(number, random);
        let armed: Vec<bool> = self
            .points()
            .iter()
            .map(|_| random.random_bool(0.5))
            .collect();
        if self == Self::LostUpdate {
            trial.failed = random.random_bool(if armed[0] { 0.6 } else { 0.1 });
        }
        trial
            .arrivals
            .retain(|arrival| armed[arrival.point as usize]);
        trial.armed = Some(armed);
        trial
    }

    /// Returns whether a statement is the cause.
    pub(crate) fn is_cause(self, statement: PathStatement) -> bool {
        let reached = |point| statement == PathStatement::Reached { point, times: 1 };
        let not_reached = |point| statement == PathStatement::NotReached { point };
        match (self, statement) {
            (
                Self::LostUpdate,
                PathStatement::Together { from, to, .. } | PathStatement::Between { from, to, .. },
            ) => (from, to) == (FIRST, SECOND),
            (Self::LockOrder, statement) => {
                let points = match statement {
                    PathStatement::Together {
                        from, other_from, ..
                    } => [from, other_from],
                    PathStatement::Between { from, other, .. } => [from, other],
                    PathStatement::Before {
                        point, other_point, ..
                    } => [point, other_point],
                    PathStatement::Reached { .. } | PathStatement::NotReached { .. } => {
                        return false;
                    }
                };
                points.iter().any(|point| [FIRST, THIRD].contains(point))
            }
            (Self::MissingFile, _) => reached(SECOND) || not_reached(FIRST),
            (Self::RareBranch, _) => reached(FOURTH) || not_reached(THIRD),
            (Self::TwoCauses, _) => reached(SECOND) || reached(FOURTH),
            _ => false,
        }
    }

    /// Returns the points of each thread in order.
    fn threads(self, share: f64, random: &mut Pcg64Mcg) -> Vec<Vec<u32>> {
        let rate = if self == Self::Drift {
            0.1 + 0.8 * share
        } else {
            0.5
        };
        let mut noise = |begin: u32, end: u32| -> Vec<u32> {
            let branches =
                (begin..end).map(|branch| NOISE + 2 * branch + u32::from(random.random_bool(rate)));
            branches.collect()
        };
        let half = BRANCHES / 2;
        match self {
            Self::Branches | Self::Drift => vec![noise(0, BRANCHES)],
            Self::Threads => (0..3)
                .map(|thread| noise(5 * thread, 5 * thread + 5))
                .collect(),
            Self::Pool => (0..12)
                .map(|_| [noise(0, 4), noise(4, 8)].concat())
                .collect(),
            Self::LostUpdate => vec![
                noise(0, 4),
                [noise(4, 12), vec![FIRST, SECOND], noise(12, 16)].concat(),
                [noise(4, 12), vec![FIRST, SECOND], noise(12, 16)].concat(),
            ],
            Self::LockOrder => vec![
                [noise(0, half), vec![FIRST, FIRST_WORK, SECOND], noise(0, 4)].concat(),
                [
                    noise(half, BRANCHES),
                    vec![THIRD, SECOND_WORK, FOURTH],
                    noise(4, 8),
                ]
                .concat(),
            ],
            Self::MissingFile | Self::RareBranch | Self::TwoCauses => {
                let choose = |point: u32, rate: f64, random: &mut Pcg64Mcg| {
                    point + u32::from(random.random_bool(rate))
                };
                let (before, behind) = (noise(0, half), noise(half, BRANCHES));
                let branch = choose(THIRD, 0.12, random);
                let file = choose(
                    FIRST,
                    if self == Self::RareBranch { 0.0 } else { 0.2 },
                    random,
                );
                let branch = if self == Self::MissingFile {
                    THIRD
                } else {
                    branch
                };
                vec![[before, vec![branch, file], behind].concat()]
            }
        }
    }

    /// Returns whether a trial fails; a deadlock cuts its arrivals.
    fn fails(self, arrivals: &mut Vec<Arrival>, share: f64, random: &mut Pcg64Mcg) -> bool {
        let first = |arrivals: &[Arrival], point: u32, thread: u32| {
            arrivals
                .iter()
                .position(|arrival| *arrival == Arrival { thread, point })
        };
        match self {
            Self::Branches | Self::Threads | Self::Pool => random.random_bool(RATE),
            Self::Drift => random.random_bool(0.05 + 0.5 * share),
            Self::LostUpdate => {
                let [a1, b1] = [FIRST, SECOND].map(|point| first(arrivals, point, 1));
                let [a2, b2] = [FIRST, SECOND].map(|point| first(arrivals, point, 2));
                a1 < b2 && a2 < b1
            }
            Self::LockOrder => {
                let [a1, b1] = [FIRST, SECOND].map(|point| first(arrivals, point, 0));
                let [a2, b2] = [THIRD, FOURTH].map(|point| first(arrivals, point, 1));
                let is_deadlock = a1 < b2 && a2 < b1;
                if is_deadlock {
                    // Both threads wait for their second lock.
                    let ends = [b1, b2].map(|end| end.unwrap_or(0));
                    let mut moments = 0..;
                    arrivals.retain(|arrival| {
                        let moment = moments.next().unwrap_or(0);
                        moment < ends[arrival.thread as usize]
                    });
                }
                is_deadlock
            }
            Self::MissingFile => first(arrivals, SECOND, 0).is_some(),
            Self::RareBranch => first(arrivals, FOURTH, 0).is_some(),
            Self::TwoCauses => [SECOND, FOURTH]
                .iter()
                .any(|point| first(arrivals, *point, 0).is_some()),
        }
    }
}

/// Merges the threads by random times.
fn merge(threads: &[Vec<u32>], random: &mut Pcg64Mcg) -> Vec<Arrival> {
    let mut timed = Vec::new();
    for (thread, points) in (0_u32..).zip(threads) {
        let mut time: f64 = random.random_range(0.0..6.0);
        for point in points {
            time += random.random_range(0.1..1.9);
            timed.push((
                time,
                Arrival {
                    thread,
                    point: *point,
                },
            ));
        }
    }
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    timed.into_iter().map(|(_, arrival)| arrival).collect()
}
