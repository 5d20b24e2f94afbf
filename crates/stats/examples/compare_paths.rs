//! Compares recorded paths: reads what the example `paths` of `provoke-holds` prints, and prints the ranked differences.
//!
//!     cargo run --release -p provoke-stats --example compare_paths -- [OPTION...] paths.jsonl
//!
//! | option | effect |
//! | --- | --- |
//! | `--groups N` | prints so many differences |
//! | `--sample F P` | compares F failing and P passing trials, drawn at random |
//! | `--repeat N` | draws N samples and prints the ranks of the true cause only |
//! | `--truth A+B` | a statement is the true cause if its text contains all parts; may be repeated |
//! | `--halves FILE` | adds trials in which a random half of the points was armed |
//! | `--shuffles N` | also compares N permutations of the outcomes, and prints how many have a lead |
//!
//! `addr2line` names the points.

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::process::Command;

use provoke_model::{BlockKind, PathPart, PathPlace, Text, TrialPath};
use provoke_stats::paths::{
    Arrival, BLOCK_TRIALS, PathComparison, PathEnd, PathGroup, PathPoint, PathStatement, PathTrial,
    PointKind, compare_paths,
};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

/// System calls that a failing program makes to say so.
const OF_THE_FAILURE: [&str; 3] = ["tgkill", "write", "writev"];
/// Signals that end a program: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGTERM.
const FATAL: [i32; 7] = [4, 6, 7, 8, 9, 11, 15];

/// A line of the file.
#[derive(Deserialize)]
struct Line {
    failed: bool,
    path: TrialPath,
}

/// The trials of a file, and the names of their points.
#[derive(Default)]
struct Recorded {
    points: Vec<PathPoint>,
    names: Vec<String>,
    trials: Vec<PathTrial>,
    /// For each point, its file and its place there.
    places: Vec<(Option<Text>, PathPlace)>,
    /// The points, by place.
    numbers: HashMap<(Option<Text>, PathPlace), u32>,
    /// The functions, by name.
    functions: HashMap<String, u32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("an argument is missing");
    let (mut sample, mut shuffles, mut groups) = ((usize::MAX, usize::MAX), 0_u64, 10_usize);
    let (mut truths, mut repeats, mut halves) = (Vec::new(), 0_u64, None);
    let file = loop {
        let argument = next()?;
        match &*argument {
            "--sample" => sample = (next()?.parse()?, next()?.parse()?),
            "--repeat" => repeats = next()?.parse()?,
            "--halves" => halves = Some(next()?),
            "--truth" => truths.push(next()?),
            "--shuffles" => shuffles = next()?.parse()?,
            "--groups" => groups = next()?.parse()?,
            _ => break argument,
        }
    };
    let mut recorded = Recorded::default();
    for (number, line) in (0_u32..).zip(std::fs::read_to_string(file)?.lines()) {
        recorded.add_trial(number, serde_json::from_str(line)?);
    }
    recorded.name_points()?;
    if repeats > 0 {
        recorded.print_ranks(repeats, sample, &truths);
        return Ok(());
    }
    recorded.trials = recorded.draw_trials(0, sample);
    if let Some(halves) = halves {
        recorded.add_halves(&std::fs::read_to_string(halves)?)?;
        recorded.name_points()?;
    }
    let begin = std::time::Instant::now();
    let comparison = compare_paths(&recorded.points, &recorded.trials, 0.05);
    let duration = begin.elapsed();
    recorded.print(&comparison, groups);
    recorded.print_arming(&comparison);
    println!("in {} ms", duration.as_millis());
    if shuffles > 0 {
        let leads = recorded.count_shuffled_leads(shuffles);
        println!("shuffled outcomes: {leads} of {shuffles} have a lead");
    }
    Ok(())
}

impl Recorded {
    fn add_trial(&mut self, number: u32, line: Line) {
        let path = line.path;
        let numbers: Vec<u32> = path
            .points
            .iter()
            .map(|place| self.number_of(place, &path.files))
            .collect();
        let point_of = |point: u32| numbers[index(point)];
        let ends = path.ends.iter().map(|end| PathEnd {
            thread: end.thread,
            active: end.active.iter().map(|point| point_of(*point)).collect(),
        });
        let arrivals = path.events.0.iter().map(|event| Arrival {
            thread: event.thread,
            point: point_of(event.point),
        });
        self.trials.push(PathTrial {
            failed: line.failed,
            ends: ends.collect(),
            arrivals: arrivals.collect(),
            armed: None,
            block: number / BLOCK_TRIALS,
        });
    }

    /// Reads trials in which a random half of the points was armed; their numbers were the seeds.
    fn add_halves(&mut self, text: &str) -> Result<(), Box<dyn Error>> {
        let begin = self.trials.len();
        for (number, line) in (0_u32..).zip(text.lines()) {
            self.add_trial(number, serde_json::from_str(line)?);
        }
        for (seed, trial) in (0_u64..).zip(&mut self.trials[begin..]) {
            let part = PathPart::Half(seed);
            let is_armed = |(file, place): &(Option<Text>, PathPlace)| match (file, place) {
                (Some(file), PathPlace::Code(_, address, _)) => part.includes(file, *address),
                _ => true,
            };
            trial.armed = Some(self.places.iter().map(is_armed).collect());
        }
        Ok(())
    }

    /// Returns the number of a place, a new one if it is new.
    fn number_of(&mut self, place: &PathPlace, files: &[Text]) -> u32 {
        let file = match place {
            PathPlace::Code(file, ..)
            | PathPlace::Line(file, _)
            | PathPlace::Exception(file, ..) => files.get(index(*file)).cloned(),
            PathPlace::Call(..) | PathPlace::Signal(_) => None,
        };
        let place = match place.clone() {
            PathPlace::Code(_, address, kind) => PathPlace::Code(0, address, kind),
            PathPlace::Line(_, line) => PathPlace::Line(0, line),
            PathPlace::Exception(_, line, name) => PathPlace::Exception(0, line, name),
            place => place,
        };
        let number = u32::try_from(self.points.len()).expect("few points");
        let name = serde_json::to_string(&place).expect("a place is JSON");
        match self.numbers.entry((file, place)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.places.push(new.key().clone());
                self.points.push(point_of_place(&new.key().1));
                self.names.push(name);
                *new.insert(number)
            }
        }
    }

    /// Replaces the places of code by function and line.
    fn name_points(&mut self) -> Result<(), Box<dyn Error>> {
        let mut of_files: HashMap<&Text, Vec<(usize, u64)>> = HashMap::new();
        for (number, (file, place)) in self.places.iter().enumerate() {
            if let (Some(file), PathPlace::Code(_, address, kind)) = (file, place) {
                // A call ends the line before the place to which it returns.
                let address = address - u64::from(*kind == BlockKind::Return);
                of_files.entry(file).or_default().push((number, address));
            }
        }
        for (file, places) in of_files {
            let mut command = Command::new("addr2line");
            command.args(["-f", "-s", "-e"]).arg(file.as_os_str());
            command.args(places.iter().map(|(_, address)| format!("{address:x}")));
            let output = String::from_utf8_lossy(&command.output()?.stdout).into_owned();
            let lines: Vec<&str> = output.lines().collect();
            for ((number, address), lines) in places.into_iter().zip(lines.chunks(2)) {
                let function = lines[0].to_owned();
                let kind = self.points[number].kind;
                let count = u32::try_from(self.functions.len() + 1)?;
                self.points[number].function = *self.functions.entry(function).or_insert(count);
                let line = lines[1].split(' ').next().unwrap_or_default();
                self.names[number] = format!("{}() {line} {kind:?} {address:x}", lines[0]);
            }
        }
        Ok(())
    }

    fn print(&self, comparison: &PathComparison, groups: usize) {
        println!(
            "{} failing, {} passing, {} points, {} tests{}, {} groups",
            comparison.failing,
            comparison.passing,
            self.points.len(),
            comparison.tests,
            if comparison.is_limited {
                " (limited)"
            } else {
                ""
            },
            comparison.groups.len(),
        );
        if comparison.lead.is_none() {
            println!("NO LEAD");
        }
        for (rank, group) in (1..).zip(comparison.groups.iter().take(groups)) {
            self.print_group(&format!("{rank:3}."), group);
        }
        if let Some(second) = &comparison.second {
            println!(
                "second cause, of {} and {}:",
                second.failing, second.passing
            );
            self.print_group("   ", &second.group);
        }
        if let Some(path) = comparison.failure_path {
            let callee = path.callee.map(|point| self.name(point));
            println!(
                "failure path in {}: {} calls {callee:?}",
                path.trials,
                self.name(path.point)
            );
        }
    }

    fn print_arming(&self, comparison: &PathComparison) {
        println!(
            "half of the points: {} failing, {} passing, {} tests",
            comparison.half_failing, comparison.half_passing, comparison.arming_tests
        );
        for effect in &comparison.arming {
            println!(
                "    {} with {:?}, without {:?}, adjusted p {:.4}: {}",
                if effect.raises { "raises" } else { "lowers" },
                effect.armed,
                effect.unarmed,
                effect.adjusted_p,
                self.name(effect.points[0]),
            );
        }
    }

    fn print_group(&self, rank: &str, group: &PathGroup) {
        println!(
            "{rank} {} failing, {} passing; score {:.2}, time {:.2}, adjusted p {:.4}{}; {} statements",
            group.failing,
            group.passing,
            group.score,
            group.time,
            group.adjusted_p,
            if group.is_after_failure {
                ", AFTER FAILURE"
            } else {
                ""
            },
            group.size,
        );
        for statement in group.statements.iter().take(3) {
            println!("       {}", self.describe(*statement));
        }
    }

    fn describe(&self, statement: PathStatement) -> String {
        match statement {
            PathStatement::Reached { point, times } => format!("H{times} {}", self.name(point)),
            PathStatement::NotReached { point } => format!("not {}", self.name(point)),
            PathStatement::Together {
                from,
                to,
                other_from,
                other_to,
            } => format!(
                "V {} -> {} & {} -> {}",
                self.name(from),
                self.name(to),
                self.name(other_from),
                self.name(other_to),
            ),
            PathStatement::Between { from, to, other } => format!(
                "X {} -> {} | {}",
                self.name(from),
                self.name(to),
                self.name(other)
            ),
            PathStatement::Before {
                thread,
                point,
                other_thread,
                other_point,
            } => format!(
                "O thread {thread} {} < thread {other_thread} {}",
                self.name(point),
                self.name(other_point)
            ),
        }
    }

    fn name(&self, point: u32) -> &str {
        &self.names[index(point)]
    }

    /// Draws failing and passing trials.
    fn draw_trials(&self, seed: u64, (failing, passing): (usize, usize)) -> Vec<PathTrial> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut order: Vec<usize> = (0..self.trials.len()).collect();
        order.shuffle(&mut random);
        let of_outcome = |failed: bool, count: usize| {
            let chosen = order
                .iter()
                .filter(move |trial| self.trials[**trial].failed == failed);
            chosen.copied().take(count)
        };
        let mut drawn: Vec<usize> = of_outcome(true, failing)
            .chain(of_outcome(false, passing))
            .collect();
        drawn.sort_unstable();
        let mut trials: Vec<PathTrial> = drawn
            .iter()
            .map(|trial| self.trials[*trial].clone())
            .collect();
        for (number, trial) in (0..).zip(&mut trials) {
            trial.block = number / BLOCK_TRIALS;
        }
        trials
    }

    /// Prints the ranks of the true cause in random samples; 0 if it is not among the differences before the failure.
    fn print_ranks(&self, repeats: u64, sample: (usize, usize), truths: &[String]) {
        let is_true = |group: &PathGroup| {
            // Only the first statements are shown.
            group.statements.iter().take(3).any(|statement| {
                let text = self.describe(*statement);
                truths
                    .iter()
                    .any(|truth| truth.split('+').all(|part| text.contains(part)))
            })
        };
        let ranks: Vec<usize> = (0..repeats)
            .map(|seed| {
                let trials = self.draw_trials(seed, sample);
                let comparison = compare_paths(&self.points, &trials, 0.02);
                let mut groups = comparison
                    .groups
                    .iter()
                    .take_while(|group| !group.is_after_failure);
                groups.position(is_true).map_or(0, |rank| rank + 1)
            })
            .collect();
        let count =
            |is_counted: fn(usize) -> bool| ranks.iter().filter(|rank| is_counted(**rank)).count();
        println!(
            "first {}, first three {}, any {} of {repeats}; ranks {ranks:?}",
            count(|rank| rank == 1),
            count(|rank| (1..=3).contains(&rank)),
            count(|rank| rank > 0),
        );
    }

    /// Compares permutations of the outcomes within the blocks, and returns how many have a lead.
    fn count_shuffled_leads(&self, shuffles: u64) -> u64 {
        let mut trials = self.trials.clone();
        (0..shuffles)
            .map(|seed| {
                let mut random = Pcg64Mcg::seed_from_u64(seed);
                for block in trials.chunk_by_mut(|a, b| a.block == b.block) {
                    let mut outcomes: Vec<bool> = block.iter().map(|trial| trial.failed).collect();
                    outcomes.shuffle(&mut random);
                    for (trial, failed) in block.iter_mut().zip(outcomes) {
                        trial.failed = failed;
                    }
                }
                let comparison = compare_paths(&self.points, &trials, 0.05);
                u64::from(comparison.lead.is_some())
            })
            .sum()
    }
}

/// Returns what a point in this place is.
fn point_of_place(place: &PathPlace) -> PathPoint {
    let kind = match place {
        PathPlace::Code(_, _, BlockKind::Function) => PointKind::Entry,
        PathPlace::Code(_, _, BlockKind::Return) => PointKind::Return,
        PathPlace::Code(..) => PointKind::Block,
        PathPlace::Call(..) => PointKind::SystemCall,
        PathPlace::Signal(_) => PointKind::Signal,
        PathPlace::Line(..) => PointKind::Line,
        PathPlace::Exception(..) => PointKind::Exception,
    };
    let is_ignored = match place {
        PathPlace::Call(name, ..) => OF_THE_FAILURE.contains(&&**name),
        PathPlace::Signal(signal) => FATAL.contains(signal),
        _ => false,
    };
    PathPoint {
        kind,
        function: 0,
        is_ignored,
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("an index")
}
