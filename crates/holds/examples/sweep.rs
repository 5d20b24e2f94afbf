//! Sweeps single holds over the instructions that a program executes, and prints those under which it fails.
//!
//!     cargo run --release -p provoke-holds --example sweep -- ./program [ARGUMENT...]

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke_holds::code::CodeCache;
use provoke_holds::run::{HeldRun, run_program};
use provoke_model::{CodeScope, Hold, HoldEnd, HoldPlan, HoldPoint, Occurrence};
use provoke_sys::child::become_subreaper;
use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsString;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(1);
const OCCURRENCES: [u32; 3] = [1, 2, 4];

fn main() -> Result<(), Box<dyn Error>> {
    let command: Vec<OsString> = std::env::args_os().skip(1).collect();
    become_subreaper()?;
    let mut files = CodeCache::default();
    let mut run = |plan: &HoldPlan| run_program(&command, plan, &mut files, LIMIT);
    let begun = Instant::now();

    let mut reached = BTreeSet::new();
    for _ in 0..3 {
        let learned = run(&HoldPlan::Learn(CodeScope::Own))?.holds.learned;
        reached.extend(learned.into_iter().map(|learned| learned.point));
    }
    println!("{} points are reached", reached.len());

    let mut failing = Vec::new();
    for point in reached {
        for occurrence in OCCURRENCES {
            let hold = HoldPlan::Hold {
                holds: vec![hold_at(&point, occurrence)],
                total_limit: LIMIT / 5,
            };
            if run(&hold)?.has_failed() {
                failing.push((point.clone(), occurrence, hold));
            }
        }
    }
    for (point, occurrence, hold) in failing {
        let again = (0..12)
            .map(|_| run(&hold))
            .collect::<Result<Vec<HeldRun>, _>>()?;
        let failures = again.iter().filter(|run| run.has_failed()).count();
        let races: usize = again.iter().map(|run| run.holds.races.len()).sum();
        if failures > 1 {
            println!(
                "{point:x?}, arrival {occurrence}: {failures} of 12 failed, {races} races seen"
            );
        }
    }
    println!("{:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn hold_at(point: &HoldPoint, occurrence: u32) -> Hold {
    Hold {
        point: point.clone(),
        occurrence: Occurrence::Nth(occurrence),
        end: HoldEnd::OthersBlocked,
        limit: Duration::from_millis(50),
        watches: true,
    }
}
