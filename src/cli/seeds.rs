//! `replay --seeds`: tests whether the seed determines the outcome, by replaying failing and passing trials with their
//! seeds.

use super::error::CliError;
use super::exit::Exit;
use super::rerun::rerun_trial;
use crate::model::{Event, Outcome, Plan, Trial, TrialId, VariantId};
use crate::oracle;
use crate::report::words;
use crate::state::State;
use crate::store::{self, RunFolder, let_through};
use crate::sys::files::PrivateFolder;
use crate::term;
use provoke_stats as stats;
use std::collections::BTreeMap;

/// The seed matters if the probability of the difference by chance is below this.
const SMALL: f64 = 0.05;

/// Trials with one outcome, and the outcomes of their replays.
#[derive(Debug, Default)]
struct ReplayedTrials {
    trials: Vec<Trial>,
    failed: u64,
    passed: u64,
}

impl ReplayedTrials {
    fn runs_done(&self) -> u64 {
        self.failed + self.passed
    }
}

/// Replays up to this many failing and passing trials of a run, and reports whether the seed determines the outcome.
pub(super) fn replay_seeds(folder: &RunFolder, most: usize) -> Result<Exit, CliError> {
    let (state, mut failing, mut passing) = first_trials(folder, most)?;
    if failing.trials.is_empty() || passing.trials.is_empty() {
        let what = format!(
            "the run {} has no variant with both failing and passing trials",
            state.run
        );
        return Err(CliError::usage(anyhow::Error::msg(what))
            .with_hint("run more trials: `provoke run -n 100 -- CMD`"));
    }
    let mut plan = state.plan;
    plan.keep = crate::model::KeepRule::None;
    for (again, before) in [(&mut failing, "failed"), (&mut passing, "passed")] {
        for trial in std::mem::take(&mut again.trials) {
            let outcome = replay_outcome(&plan, &trial)?;
            match outcome {
                Outcome::Fail(_) => again.failed += 1,
                Outcome::Pass => again.passed += 1,
                Outcome::Other(_) | Outcome::Void(_) => {}
            }
            let now = match &outcome {
                Outcome::Fail(failure) => format!("failed again: {}", failure.kind),
                Outcome::Other(failure) => format!("not counted: {}", failure.kind),
                Outcome::Pass => "passed".to_owned(),
                Outcome::Void(void) => format!("not counted: {void}"),
            };
            let id = trial.id;
            term::print_message(&format!("  {id} {before} with seed {}, {now}", trial.seed));
        }
    }
    let (text, exit) = seed_verdict(&failing, &passing);
    term::print_result(&format!("{text}\n")).map_err(CliError::could_not)?;
    Ok(exit)
}

fn replay_outcome(plan: &Plan, trial: &Trial) -> Result<Outcome, CliError> {
    let scratch = PrivateFolder::new("replay").map_err(CliError::could_not)?;
    if plan.user.is_some() {
        let_through(scratch.path()).map_err(CliError::could_not)?;
    }
    let seen = rerun_trial(plan, trial, scratch.path())?;
    Ok(oracle::judge_trial(
        &plan.rules,
        plan.variant_plan(trial.variant),
        &seen,
    ))
}

/// Returns the first failing and the first passing trials of the first variant that has both.
fn first_trials(
    folder: &RunFolder,
    most: usize,
) -> Result<(State, ReplayedTrials, ReplayedTrials), CliError> {
    let mut started: BTreeMap<TrialId, Trial> = BTreeMap::new();
    let mut ended: BTreeMap<VariantId, (ReplayedTrials, ReplayedTrials)> = BTreeMap::new();
    let state = store::read_run(
        &folder.journal_path(),
        |_| false,
        |event, _| match event {
            Event::TrialStarted(trial) if !trial.capture => {
                started.insert(trial.id, trial.clone());
            }
            Event::TrialFinished { trial, outcome, .. } => {
                let Some(trial) = started.remove(trial) else {
                    return;
                };
                let (failing, passing) = ended.entry(trial.variant).or_default();
                let again = match outcome {
                    Outcome::Fail(_) => failing,
                    Outcome::Pass => passing,
                    Outcome::Other(_) | Outcome::Void(_) => return,
                };
                if again.trials.len() < most {
                    again.trials.push(trial);
                }
            }
            _ => {}
        },
    )?;
    let both = |(failing, passing): &(ReplayedTrials, ReplayedTrials)| {
        !failing.trials.is_empty() && !passing.trials.is_empty()
    };
    let (failing, passing) = ended.into_values().find(both).unwrap_or_default();
    Ok((state, failing, passing))
}

/// Describes whether the seed determines the outcome.
fn seed_verdict(failing: &ReplayedTrials, passing: &ReplayedTrials) -> (String, Exit) {
    let seeds = |count| words::format_count(count, "seed");
    let counts = format!(
        "{} of {} from failing trials failed again, {} of {} from passing trials passed again",
        failing.failed,
        seeds(failing.runs_done()),
        passing.passed,
        seeds(passing.runs_done()),
    );
    if failing.runs_done() == 0 || passing.runs_done() == 0 {
        let text =
            format!("not enough conclusive trials to decide whether the seed matters: {counts}");
        return (text, Exit::CouldNotTest);
    }
    let p = stats::fisher(
        failing.failed,
        failing.runs_done(),
        passing.failed,
        passing.runs_done(),
    )
    .greater;
    let p_text = words::p_value(p);
    let always = failing.passed == 0 && passing.failed == 0;
    match (always, p <= SMALL) {
        (true, true) => (
            format!("the seed determines the outcome: {counts} ({p_text})"),
            Exit::Hoped,
        ),
        (false, true) => (
            format!(
                "the outcome depends on the seed, but not on the seed alone: {counts} ({p_text})"
            ),
            Exit::Hoped,
        ),
        (true, false) => (
            format!(
                "not enough trials to decide whether the seed determines the outcome: {counts} ({p_text}); --seeds=N replays more"
            ),
            Exit::Undecided,
        ),
        (false, false) => (
            format!("no evidence that the seed determines the outcome: {counts} ({p_text})"),
            Exit::OtherWay,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(failed: u64, passed: u64) -> ReplayedTrials {
        ReplayedTrials {
            trials: Vec::new(),
            failed,
            passed,
        }
    }

    #[test]
    fn all_of_few_is_not_enough() {
        let said = |a, b| seed_verdict(&a, &b);
        let (text, exit) = said(again(5, 0), again(0, 5));
        assert!(text.starts_with("the seed determines the outcome: 5 of 5 seeds"));
        assert!(
            text.ends_with("(p = 0.0040)") && exit == Exit::Hoped,
            "{text}"
        );
        assert_eq!(said(again(1, 0), again(0, 2)).1, Exit::Undecided);
        assert_eq!(said(again(2, 3), again(2, 3)).1, Exit::OtherWay);
        assert_eq!(said(again(19, 1), again(1, 19)).1, Exit::Hoped);
        assert_eq!(said(again(0, 0), again(0, 5)).1, Exit::CouldNotTest);
    }
}
