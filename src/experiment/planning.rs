//! Makes plans from settings and from scenario files, with the facts of this place: baselines and candidates.

use super::baseline_run::{BaselineRun, ResolvedBaseline};
use super::hunt_holds::planned_holds;
use super::observer::{ExperimentMessage, ExperimentObserver};
use super::preflight::check_program;
use super::search::find_searched;
use provoke_model::{Plan, VariantId};
use provoke_plan as plan;
use provoke_plan::{Actor, PlanContext, Scenario};
use provoke_questions as questions;
use provoke_report as report;
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::path::Path;

/// Makes a plan from settings, based on the scenario of the baseline's run.
pub fn plan_from_settings(
    overlay: &dyn Fn(&mut Scenario),
    observer: &mut dyn ExperimentObserver,
) -> Result<Plan, Diagnostic> {
    let here = std::env::current_dir()?;
    let mut scenario = Scenario::default();
    overlay(&mut scenario);
    let mut repeated = scenario.clone();
    if repeated.baseline.baseline.is_none() {
        repeated.baseline.baseline = scenario.items.repeated_run().cloned();
    }
    let baseline = ResolvedBaseline::of_scenario(&repeated)?;
    if let Some(again) = baseline.as_ref().and_then(|found| found.scenario.clone()) {
        let typed = scenario.program.command.is_some() || scenario.program.shell.is_some();
        let any_failure = scenario.count.any_failure;
        scenario = again;
        scenario.count.any_failure = any_failure;
        if typed {
            // The typed command belongs to this directory, the other settings to that of the baseline.
            scenario.move_to(&here);
        }
        if scenario.takes_any_failure() {
            scenario.judge.only.0.clear();
        }
        overlay(&mut scenario);
        if typed && !scenario.outline.actors.is_empty() {
            become_main(&mut scenario)?;
        }
    }
    scenario.hosts.read_lists(Path::new(""))?;
    let (measured, chosen) = baseline.map(|found| (found.measured, found.chosen)).unzip();
    let around = PlanContext {
        baseline: measured,
        held: planned_holds(&scenario)?,
        searched: find_searched(&scenario, &here, observer)?,
        ..PlanContext::of_this_process(here)
    };
    let plan = questions::plan(&scenario, around).map_err(|refusal| {
        if scenario.has_command() {
            return refusal;
        }
        Diagnostic::usage("there is no command to run").with_hint(if scenario.load.is_some() {
            "add the command that starts the service: -- ./server; or test a service that runs already: --attach PID"
        } else {
            "add the program and its arguments: -- ./program argument"
        })
    })?;
    // A run that the user named needs no message, unless its command is another one.
    if let Some(run) = chosen.flatten()
        && (run.is_newest || run.command != report::command_line(&plan.trials, VariantId(0)))
    {
        // A program that does not exist has no baseline.
        check_program(&plan.trials)?;
        observer.on_message(ExperimentMessage::Baseline(describe_baseline(&run)));
    }
    Ok(plan)
}

fn describe_baseline(baseline: &BaselineRun) -> String {
    let hint = if baseline.is_newest {
        " (--baseline changes it)"
    } else {
        ""
    };
    let other_runs = match baseline.other_runs {
        0 => String::new(),
        runs => {
            let others = words::format_count(runs, "other run");
            format!(" and {others} of the program")
        }
    };
    let jobs = match baseline.jobs {
        1 => String::new(),
        jobs => format!("-j {jobs} -- "),
    };
    format!(
        "baseline: run {}{other_runs}{hint}\n    {jobs}{}",
        baseline.run.to_safe(),
        baseline.command.to_safe(),
    )
}

/// Replaces the command of the main process by the typed command.
pub(super) fn become_main(scenario: &mut Scenario) -> Result<(), Diagnostic> {
    let is_main = |actor: &&mut Actor| actor.role.decides_outcome();
    let mut mains: Vec<&mut Actor> = scenario.outline.actors.iter_mut().filter(is_main).collect();
    let [main] = mains.as_mut_slice() else {
        let what = format!("the baseline has {} main processes", mains.len());
        return Err(Diagnostic::usage(what).with_hint(
            "leave the command out to run the same processes, or define them in a scenario file: --file FILE",
        ));
    };
    main.command = scenario.program.command.take();
    main.shell = scenario.program.shell.take();
    Ok(())
}

/// Makes a plan from a scenario file, with the settings that `overlay` changes.
pub fn plan_from_file(
    file: &Path,
    overlay: &dyn Fn(&mut Scenario),
    observer: &mut dyn ExperimentObserver,
) -> Result<Plan, Diagnostic> {
    let context = |scenario: &Scenario, base: &Path| context_of_scenario(scenario, base, observer);
    let mut plan = plan::plan_file(file, overlay, context, questions::plan)?;
    plan.goal.scenario = Some(file.into());
    Ok(plan)
}

fn context_of_scenario(
    scenario: &Scenario,
    base: &Path,
    observer: &mut dyn ExperimentObserver,
) -> Result<PlanContext, Diagnostic> {
    let baseline = ResolvedBaseline::of_scenario(scenario)?;
    Ok(PlanContext {
        baseline: baseline.map(|found| found.measured),
        held: planned_holds(scenario)?,
        searched: find_searched(scenario, base, observer)?,
        ..PlanContext::of_this_process(base.to_owned())
    })
}
