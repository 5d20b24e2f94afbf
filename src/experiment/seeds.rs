//! Tests whether the seed determines the outcome, by replaying failing and passing trials with their seeds.

use super::error::ExperimentError;
use super::rerun::rerun_trial;
use super::selected_trial::scratch_folder;
use provoke_journal as journal;
use provoke_journal::RunFolder;
use provoke_judge as judge;
use provoke_model::{Event, KeepRule, Outcome, Trial, TrialId, TrialsPlan, VariantId};
use provoke_state::{Fold, State};
use provoke_stats as stats;
use provoke_words as words;
use std::collections::BTreeMap;

/// The seed matters if the probability of the difference by chance is below this.
const SMALL: f64 = 0.05;

/// Whether the seed determines the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedEffect {
    /// It determines or changes the outcome.
    Found,
    /// There is no evidence for it.
    NotFound,
    /// There are too few trials to decide.
    Undecided,
    /// Too many replays were inconclusive.
    CouldNotTest,
}

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

/// Replays up to this many failing and passing trials of a run; returns whether the seed determines the outcome, and a
/// sentence about it. `each` receives a line about each replay.
pub async fn replay_seeds(
    folder: &RunFolder,
    max: usize,
    each: impl Fn(&str),
) -> Result<(SeedEffect, String), ExperimentError> {
    let (state, mut failing, mut passing) = first_trials(folder, max)?;
    if failing.trials.is_empty() || passing.trials.is_empty() {
        let message = format!(
            "the run {} has no variant with both failing and passing trials",
            state.origin.run
        );
        return Err(ExperimentError::usage(message)
            .with_hint("run more trials: `provoke run -n 100 -- CMD`"));
    }
    let mut trials = state.trials;
    trials.settings.keep = KeepRule::None;
    for (replayed, verb) in [(&mut failing, "failed"), (&mut passing, "passed")] {
        for trial in std::mem::take(&mut replayed.trials) {
            let outcome = replay_outcome(&trials, &trial).await?;
            match outcome {
                Outcome::Fail(_) => replayed.failed += 1,
                Outcome::Pass => replayed.passed += 1,
                Outcome::Other(_) | Outcome::Inconclusive(_) => {}
            }
            let outcome_text = match &outcome {
                Outcome::Fail(failure) => format!("failed again: {}", failure.kind),
                Outcome::Other(failure) => format!("not counted: {}", failure.kind),
                Outcome::Pass => "passed".to_owned(),
                Outcome::Inconclusive(void) => format!("not counted: {void}"),
            };
            let id = trial.id;
            each(&format!(
                "{id} {verb} with seed {}, {outcome_text}",
                trial.seed
            ));
        }
    }
    Ok(seed_verdict(&failing, &passing))
}

async fn replay_outcome(trials: &TrialsPlan, trial: &Trial) -> Result<Outcome, ExperimentError> {
    let scratch = scratch_folder(trials)?;
    let observation = Box::pin(rerun_trial(trials, trial, scratch.path())).await?;
    Ok(judge::judge_trial(
        &trials.rules,
        trials.variant_plan(trial.variant),
        &observation,
    ))
}

/// Returns the first failing and the first passing trials of the first variant that has both.
fn first_trials(
    folder: &RunFolder,
    max: usize,
) -> Result<(State, ReplayedTrials, ReplayedTrials), ExperimentError> {
    let mut started: BTreeMap<TrialId, Trial> = BTreeMap::new();
    let mut replayed: BTreeMap<VariantId, (ReplayedTrials, ReplayedTrials)> = BTreeMap::new();
    let state = journal::read_run(
        &folder.journal_path(),
        Fold::OF_COUNTS,
        |event, _| match event {
            Event::TrialStarted(trial) if !trial.captures_evidence() => {
                started.insert(trial.id, trial.clone());
            }
            Event::TrialFinished { trial, outcome, .. } => {
                let Some(trial) = started.remove(trial) else {
                    return;
                };
                let (failing, passing) = replayed.entry(trial.variant).or_default();
                let trials = match outcome {
                    Outcome::Fail(_) => failing,
                    Outcome::Pass => passing,
                    Outcome::Other(_) | Outcome::Inconclusive(_) => return,
                };
                if trials.trials.len() < max {
                    trials.trials.push(trial);
                }
            }
            _ => {}
        },
    )?;
    let has_both = |(failing, passing): &(ReplayedTrials, ReplayedTrials)| {
        !failing.trials.is_empty() && !passing.trials.is_empty()
    };
    let (failing, passing) = replayed.into_values().find(has_both).unwrap_or_default();
    Ok((state, failing, passing))
}

/// Describes whether the seed determines the outcome.
fn seed_verdict(failing: &ReplayedTrials, passing: &ReplayedTrials) -> (SeedEffect, String) {
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
        return (SeedEffect::CouldNotTest, text);
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
            SeedEffect::Found,
            format!("the seed determines the outcome: {counts} ({p_text})"),
        ),
        (false, true) => (
            SeedEffect::Found,
            format!(
                "the outcome depends on the seed, but not on the seed alone: {counts} ({p_text})"
            ),
        ),
        (true, false) => (
            SeedEffect::Undecided,
            format!(
                "not enough trials to decide whether the seed determines the outcome: {counts} ({p_text}); --seeds=N replays more"
            ),
        ),
        (false, false) => (
            SeedEffect::NotFound,
            format!("no evidence that the seed determines the outcome: {counts} ({p_text})"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replays(failed: u64, passed: u64) -> ReplayedTrials {
        ReplayedTrials {
            trials: Vec::new(),
            failed,
            passed,
        }
    }

    #[test]
    fn few_replays_do_not_show_that_the_seed_determines_the_outcome() {
        let verdict_of = |a, b| seed_verdict(&a, &b);
        let (effect, text) = verdict_of(replays(5, 0), replays(0, 5));
        assert!(text.starts_with("the seed determines the outcome: 5 of 5 seeds"));
        assert!(
            text.ends_with("(p = 0.0040)") && effect == SeedEffect::Found,
            "{text}"
        );
        assert_eq!(
            verdict_of(replays(1, 0), replays(0, 2)).0,
            SeedEffect::Undecided
        );
        assert_eq!(
            verdict_of(replays(2, 3), replays(2, 3)).0,
            SeedEffect::NotFound
        );
        assert_eq!(
            verdict_of(replays(19, 1), replays(1, 19)).0,
            SeedEffect::Found
        );
        assert_eq!(
            verdict_of(replays(0, 0), replays(0, 5)).0,
            SeedEffect::CouldNotTest
        );
    }
}
