//! `load --shrink`: starts the search for the part of a load that a crash needs.

use super::planning::become_main;
use super::trial_reference::parse_trial;
use provoke_journal as journal;
use provoke_journal::{RunFolder, default_root};
use provoke_model::{BugFilter, CaptureMode, Event, FailureKind, Plan, Signal, TrialId, VariantId};
use provoke_plan::{PlanContext, Scenario, shrink_plan};
use provoke_questions as questions;
use provoke_state::{SignatureFailures, State};
use provoke_stats::real;
use provoke_words::diagnostic::Diagnostic;

/// Signals by which a process with damaged memory may die: it depends on chance whether the allocator or the CPU
/// detects the damage.
const DAMAGE: [&str; 3] = ["SIGSEGV", "SIGABRT", "SIGBUS"];

/// Makes a plan that shrinks the load of a run, or of one of its trials: `RUN#17`.
pub fn plan_shrinking(text: &str, overlay: impl Fn(&mut Scenario)) -> Result<Plan, Diagnostic> {
    let (run, trial) = if text.contains('#') {
        parse_trial(text).map(|(run, trial)| (run, Some(trial)))?
    } else {
        (text, None)
    };
    let mut shrink_scenario = Scenario::default();
    overlay(&mut shrink_scenario);
    let folder = RunFolder::find_run(run, &default_root())?.check_trust(shrink_scenario.trust)?;
    let mut crashed_variant = None;
    let state = journal::read_run(
        &folder.journal_path(),
        questions::FOLD,
        |event, _| match event {
            Event::TrialStarted(started) if Some(started.id) == trial => {
                crashed_variant = Some(started.variant);
            }
            _ => {}
        },
    )?;
    if state.trials.load.is_none() {
        let message = format!(
            "the run {} is not a run of `provoke load`",
            state.origin.run
        );
        return Err(Diagnostic::usage(message)
            .with_hint("choose a run of `provoke load`; use `provoke reduce` for other failures"));
    }
    let (variant, kinds) = match trial {
        Some(trial) => of_life(&state, crashed_variant, trial)?,
        None => of_run(&state)?,
    };
    let failing = state.trials.variant_plan(variant);
    let mut scenario = Scenario::of_variant(&state.goal, &state.trials, variant).map_err(|_| {
        let message = "the command of the run is not UTF-8 text";
        Diagnostic::usage(message).with_hint("define the command in a scenario file, and load that")
    })?;
    scenario.loaded = state.trials.load_of(failing);
    // The `only` setting of the earlier run does not apply.
    scenario.judge.only.0.clear();
    overlay(&mut scenario);
    let typed = scenario.program.command.is_some() || scenario.program.shell.is_some();
    if typed && !scenario.outline.actors.is_empty() {
        become_main(&mut scenario)?;
    }
    let cwd = std::env::current_dir()?;
    let bounded = scenario.trials.runs.is_some() || scenario.stop.duration.is_some();
    let plan = questions::plan(&scenario, PlanContext::of_this_process(cwd))?;
    let totals = &state.tally_of(variant).requests;
    let requests = totals.sent.checked_div(totals.trials);
    let mut plan = shrink_plan(plan, requests, bounded)?;
    if plan.trials.rules.only.is_empty() {
        plan.trials.rules.only = meant_failures(&kinds);
    }
    // The evidence of the crash is known from the run; dumping cores makes trials longer.
    plan.trials.settings.capture = CaptureMode::Off;
    Ok(plan)
}

/// Returns the variant of a run that crashes most often, and its kinds of crash.
fn of_run(state: &State) -> Result<(VariantId, Vec<FailureKind>), Diagnostic> {
    let rate = |id: VariantId| {
        let tally = state.tally_of(id);
        real(tally.failures) / real(tally.counted_trials().max(1))
    };
    let failing = state.all_tallies().filter(|(_, tally)| tally.failures > 0);
    let worst = failing.max_by(|(a, _), (b, _)| rate(*a).total_cmp(&rate(*b)));
    let Some((variant, tally)) = worst else {
        let message = format!("no trial of the run {} crashed", state.origin.run);
        return Err(Diagnostic::usage(message).with_hint(
            "choose a run with crashes; more clients or requests make crashes more likely",
        ));
    };
    let bugs = tally.groups.values().filter(|group| group.is_the_bug);
    Ok((variant, bugs.map(|group| group.kind.clone()).collect()))
}

/// Returns the variant of a trial, and its kind of crash.
fn of_life(
    state: &State,
    crashed_variant: Option<VariantId>,
    trial: TrialId,
) -> Result<(VariantId, Vec<FailureKind>), Diagnostic> {
    let Some(variant) = crashed_variant else {
        let last = state.next_id().0 - 1;
        let message = format!("the run {} has no trial {trial}", state.origin.run);
        return Err(
            Diagnostic::usage(message).with_hint(format!("choose a trial from #1 to #{last}"))
        );
    };
    let is_it = |group: &&SignatureFailures| group.trials.contains(&trial);
    let mut groups = state.tally_of(variant).groups.values();
    match groups.find(is_it) {
        Some(group) => Ok((variant, vec![group.kind.clone()])),
        None => {
            let message = format!(
                "trial {trial} of the run {} did not crash",
                state.origin.run
            );
            Err(Diagnostic::usage(message).with_hint("choose a trial that crashed"))
        }
    }
}

/// Returns the rules for the observed failures.
fn meant_failures(kinds: &[FailureKind]) -> Vec<BugFilter> {
    let damage_signals = || DAMAGE.iter().filter_map(|name| Signal::from_name(name));
    let mut filters: Vec<BugFilter> = Vec::new();
    for kind in kinds {
        let mut kind_filters = vec![BugFilter::of_kind(kind)];
        if let FailureKind::Signal { signal, .. } = kind
            && damage_signals().any(|damage| damage == *signal)
        {
            kind_filters.extend(damage_signals().map(BugFilter::Signal));
        }
        for filter in kind_filters {
            if !filters.contains(&filter) {
                filters.push(filter);
            }
        }
    }
    filters
}
