//! Records the paths of a program's threads: prints one line of JSON per run, `{"failed": BOOL, "path": TrialPath}`.
//!
//!     cargo run --release -p provoke-holds --example paths -- [--functions | --none] [--arrivals N] [--half] [--in NAME] RUNS SECONDS ./program [ARGUMENT...]
//!
//! A run that takes longer than `SECONDS` fails. With `--half`, each run records another half of the points. With `--in`,
//! only files whose path contains this text have points.

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke_holds::code::CodeCache;
use provoke_holds::run::run_program;
use provoke_model::{CodeScope, HoldPlan, PathDetail, PathPart, PathPlan};
use provoke_sys::child::become_subreaper;
use std::error::Error;
use std::ffi::OsString;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let mut next = || arguments.next().ok_or("an argument is missing");
    let mut plan = PathPlan {
        scope: CodeScope::Own,
        detail: PathDetail::Blocks,
        arrivals: 4,
        part: PathPart::All,
        inside: Vec::new(),
        holds: Vec::new(),
        total_limit: Duration::ZERO,
    };
    let mut uses_halves = false;
    let runs: u64 = loop {
        let argument = next()?.into_string().map_err(|_| "not UTF-8")?;
        match &*argument {
            "--functions" => plan.detail = PathDetail::Functions,
            "--none" => plan.detail = PathDetail::None,
            "--arrivals" => plan.arrivals = next()?.to_string_lossy().parse()?,
            "--half" => uses_halves = true,
            "--in" => {
                plan.scope = CodeScope::Named(vec![next()?.to_string_lossy().into_owned()]);
            }
            runs => break runs.parse()?,
        }
    };
    let limit = Duration::from_secs_f64(next()?.to_string_lossy().parse()?);
    let command: Vec<OsString> = arguments.collect();
    become_subreaper()?;
    let mut files = CodeCache::default();
    for seed in 0..runs {
        if uses_halves {
            plan.part = PathPart::Half(seed);
        }
        let plan = HoldPlan::Record(plan.clone());
        let run = run_program(&command, &plan, &mut files, limit)?;
        if let Some(reason) = &run.holds.refused {
            return Err(reason.clone().into());
        }
        let failed = run.has_failed();
        let path = run.holds.path;
        println!("{}", serde_json::json!({ "failed": failed, "path": path }));
    }
    Ok(())
}
