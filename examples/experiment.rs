//! Runs an experiment from a scenario, as `provoke run` does: in processes, with a journal and a report.
//!
//! Every seventh trial fails. The run is stored in `provoke-out`, where `provoke report last` finds it.
//!
//!     cargo run --example experiment

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke::experiment::{Experiment, ExperimentSettings, SilentObserver, serve_if_helper};
use provoke_plan::{PlanContext, Scenario};
use provoke_report::headlines;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // The trials run in processes of this program.
    serve_if_helper();
    let text = "command = ['sh', '-c', 'exit $(( PROVOKE_TRIAL % 7 == 0 ))']\nruns = 100";
    let scenario: Scenario = text.parse()?;
    let plan = provoke_questions::plan(
        &scenario,
        PlanContext::of_this_process(std::env::current_dir()?),
    )?;
    let experiment = Experiment::begin(plan, ExperimentSettings::default(), &mut SilentObserver)?;
    let report = experiment.run_silently()?.run.report;
    let headline = headlines::rate_headline(&report, &report.variants[0]);
    println!("{headline}\n{:?}", report.verdict);
    Ok(())
}
