//! Sweeps holds over the instructions and the system calls that programs make, and prints those under which they fail.
//!
//!     cargo run --release -p provoke-holds --example sweep -- [--calls] ./program [ARGUMENT...] [-- ./other [ARGUMENT...]]
//!
//! With `--calls`, it tries system calls only, alone and in pairs.

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke_holds::call_name;
use provoke_holds::code::CodeCache;
use provoke_holds::run::{HeldRun, run_programs};
use provoke_model::{CodeScope, Hold, HoldEnd, HoldPlan, HoldPoint, Occurrence};
use provoke_sys::child::become_subreaper;
use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(1);
const OCCURRENCES: [u32; 3] = [1, 2, 4];
/// Runs per pair of system calls.
const PAIR_RUNS: u64 = 4;
/// Runs of holds that have failed once.
const REPEATED_RUNS: u64 = 40;

/// Runs the programs under plans, and counts the runs.
struct Sweep {
    commands: Vec<Vec<OsString>>,
    files: CodeCache,
    runs: u64,
    cpu: Duration,
}

impl Sweep {
    fn run(&mut self, plan: &HoldPlan) -> io::Result<HeldRun> {
        let run = run_programs(&self.commands, &[], plan, &mut self.files, LIMIT)?;
        self.runs += 1;
        self.cpu += run.cpu;
        Ok(run)
    }

    fn learn_points(&mut self, scope: &CodeScope) -> io::Result<BTreeSet<HoldPoint>> {
        let mut reached = BTreeSet::new();
        for _ in 0..3 {
            let run = self.run(&HoldPlan::Learn(scope.clone()))?;
            if let Some(reason) = run.holds.refused {
                println!("refused: {reason}");
            }
            reached.extend(run.holds.learned.into_iter().map(|learned| learned.point));
        }
        Ok(reached)
    }

    /// Runs the holds that `draw` returns for each number of a run; returns the failures and the runs that reached them.
    fn count_failures(
        &mut self,
        runs: u64,
        draw: impl Fn(u64) -> Vec<Hold>,
    ) -> io::Result<(u64, u64)> {
        let (mut failures, mut reached) = (0, 0);
        for number in 0..runs {
            let plan = HoldPlan::Hold {
                holds: draw(number),
                total_limit: LIMIT / 5,
                evidence: false,
            };
            let run = self.run(&plan)?;
            failures += u64::from(run.has_failed());
            reached += u64::from(run.holds.reached_all(&plan));
        }
        Ok((failures, reached))
    }

    /// Tries holds, and repeats them if they fail.
    fn try_holds(
        &mut self,
        label: &str,
        runs: u64,
        draw: impl Fn(u64) -> Vec<Hold>,
    ) -> io::Result<()> {
        if self.count_failures(runs, &draw)?.0 == 0 {
            return Ok(());
        }
        let (failures, reached) =
            self.count_failures(REPEATED_RUNS, |number| draw(number + runs))?;
        if failures > 1 {
            println!("{failures} of {REPEATED_RUNS} failed, {reached} reached: {label}");
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let calls_only = arguments.first().is_some_and(|first| first == "--calls");
    if calls_only {
        arguments.remove(0);
    }
    let commands = arguments.split(|argument| argument == "--");
    let mut sweep = Sweep {
        commands: commands.map(<[OsString]>::to_vec).collect(),
        files: CodeCache::default(),
        runs: 0,
        cpu: Duration::ZERO,
    };
    become_subreaper()?;
    let started_at = Instant::now();
    let scope = if calls_only {
        CodeScope::Named(Vec::new())
    } else {
        CodeScope::Own
    };
    let points = sweep.learn_points(&scope)?;
    println!("{} points are reached", points.len());
    let (failures, _) = sweep.count_failures(REPEATED_RUNS, |_| Vec::new())?;
    println!("{failures} of {REPEATED_RUNS} failed without a hold");

    let is_call = |point: &HoldPoint| matches!(point, HoldPoint::Call { .. });
    let (calls, others): (Vec<HoldPoint>, Vec<HoldPoint>) = points.into_iter().partition(is_call);
    for point in &others {
        for occurrence in OCCURRENCES {
            let label = format!("{point:x?}, arrival {occurrence}");
            let hold = |_| vec![hold_at(point, occurrence)];
            sweep.try_holds(&label, 1, hold)?;
        }
    }
    for (index, first) in calls.iter().enumerate() {
        let label = name_call(first);
        sweep.try_holds(&label, PAIR_RUNS, |number| vec![hold_half(first, number)])?;
        for second in &calls[index + 1..] {
            let label = format!("{} and {}", name_call(first), name_call(second));
            let draw = |number| vec![hold_half(first, number), hold_half(second, number + 1_000)];
            sweep.try_holds(&label, PAIR_RUNS, draw)?;
        }
    }
    println!(
        "{} runs, {:.1} s, {:.1} s CPU time of the programs",
        sweep.runs,
        started_at.elapsed().as_secs_f64(),
        sweep.cpu.as_secs_f64()
    );
    Ok(())
}

fn hold_at(point: &HoldPoint, occurrence: u32) -> Hold {
    Hold {
        point: point.clone(),
        occurrence: Occurrence::Nth(occurrence),
        end: HoldEnd::OthersBlocked,
        limit: Duration::from_millis(50),
        watches: false,
        anchor: None,
    }
}

/// Returns a hold at about every second arrival, until others have made 1 to 6 system calls.
fn hold_half(point: &HoldPoint, number: u64) -> Hold {
    let calls = u32::try_from(number.wrapping_mul(2_654_435_761) / 7 % 6 + 1).unwrap_or(1);
    Hold {
        occurrence: Occurrence::Half(number),
        end: HoldEnd::OthersProgressed(calls),
        limit: Duration::from_millis(5),
        ..hold_at(point, 1)
    }
}

fn name_call(point: &HoldPoint) -> String {
    match point {
        HoldPoint::Call { process, call } => {
            format!(
                "process {process} before {}",
                call_name(*call).unwrap_or("?")
            )
        }
        _ => format!("{point:x?}"),
    }
}
