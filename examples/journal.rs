//! Reads a journal: lists the failures of a run, and their durations compared with passing trials.
//!
//!     cargo run --example journal -- provoke-out/last

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke_journal as journal;
use provoke_journal::{RunFolder, default_root};
use provoke_model::{Event, Outcome};
use provoke_questions as questions;
use std::collections::BTreeMap;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "last".to_owned());
    let folder = RunFolder::find_run(&name, &default_root())?;
    let mut took: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    let state = journal::read_run(&folder.journal_path(), questions::FOLD, |event, state| {
        let Event::TrialFinished { seen, outcome, .. } = event else {
            return;
        };
        if state.stage.runs_extra_trials() {
            // A captured trial, which is not part of the measurement.
            return;
        }
        let what = match outcome {
            Outcome::Pass => "pass".to_owned(),
            Outcome::Fail(failure) | Outcome::Other(failure) => failure.signature.title.clone(),
            Outcome::Inconclusive(why) => why.to_string(),
        };
        took.entry(what).or_default().push(seen.elapsed);
    })?;
    println!("{}", state.origin.run);
    for (what, mut times) in took {
        times.sort_unstable();
        println!(
            "{:>6}  {:>9.1?}  {what}",
            times.len(),
            times[times.len() / 2]
        );
    }
    Ok(())
}
