//! Sweeps single holds over the instructions that a program executes, and prints those under which it fails.
//!
//!     cargo run --release -p provoke-holds --example sweep -- ./program [ARGUMENT...]

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke_holds::code::CodeFile;
use provoke_holds::plan::{CodePoint, Hold, HoldEnd, HoldPlan, HoldPoint, Occurrence};
use provoke_holds::run::{HeldRun, run_program};
use provoke_sys::child::become_subreaper;
use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsString;
use std::fs::canonicalize;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(1);
const OCCURRENCES: [u32; 3] = [1, 2, 4];

fn main() -> Result<(), Box<dyn Error>> {
    let command: Vec<OsString> = std::env::args_os().skip(1).collect();
    let path = canonicalize(command.first().ok_or("give a program")?)?;
    become_subreaper()?;
    let files = [CodeFile::read(&path)?];
    let run = |plan: &HoldPlan| run_program(&command, plan, &files, LIMIT);
    let begun = Instant::now();

    let points: Vec<CodePoint> = files[0].all_points().collect();
    let learn = HoldPlan::Learn(points.clone());
    let mut reached = BTreeSet::new();
    for _ in 0..3 {
        reached.extend(run(&learn)?.learned.iter().map(|learned| learned.point));
    }
    println!(
        "{} of {} instructions are reached",
        reached.len(),
        points.len()
    );

    let mut failing = Vec::new();
    for point in reached {
        for occurrence in OCCURRENCES {
            let hold = HoldPlan::Hold {
                holds: vec![hold_at(&points[point], occurrence)],
                total_limit: LIMIT / 5,
            };
            if run(&hold)?.has_failed() {
                failing.push((point, occurrence, hold));
            }
        }
    }
    for (point, occurrence, hold) in failing {
        let again = (0..12)
            .map(|_| run(&hold))
            .collect::<Result<Vec<HeldRun>, _>>()?;
        let failures = again.iter().filter(|run| run.has_failed()).count();
        let races: usize = again.iter().map(|run| run.races.len()).sum();
        if failures > 1 {
            let address = points[point].address;
            println!(
                "{address:#x}, arrival {occurrence}: {failures} of 12 failed, {races} races seen"
            );
        }
    }
    println!("{:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn hold_at(point: &CodePoint, occurrence: u32) -> Hold {
    Hold {
        point: HoldPoint::Code(point.clone()),
        occurrence: Occurrence::Nth(occurrence),
        end: HoldEnd::OthersBlocked,
        limit: Duration::from_millis(50),
        watches: true,
    }
}
