//! Finds a trial of a stored run by its reference, such as `last#17`.

use super::stored_runs::read_state;
use provoke_journal as journal;
use provoke_journal::{RunFolder, StoreError, default_root};
use provoke_model::{Event, Failure, Observation, Outcome, Trial, TrialId};
use provoke_questions as questions;
use provoke_report::Report;
use provoke_state::State;
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::shell_word;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Maximum number of trials that are listed.
const LISTED: usize = 12;

/// A trial of a stored run.
#[derive(Debug)]
pub struct StoredTrial {
    folder: RunFolder,
    /// The name by which the run was found.
    pub(super) run_name: String,
    /// The state of the run.
    pub state: State,
    /// The trial.
    pub trial: Trial,
    /// What was seen; empty if the trial did not end.
    pub(super) observation: Box<Observation>,
    /// Its outcome; `None` if it did not end.
    pub outcome: Option<Outcome>,
    /// Whether only the run was named.
    pub(super) stands_for_run: bool,
    /// The trials of the run that ended, with their failures.
    pub(super) ends: Vec<(TrialId, Option<Box<Failure>>)>,
}

impl StoredTrial {
    /// Finds a trial by its reference; for a run without a number, the first trial that failed.
    pub fn find(text: &str) -> Result<Self, Diagnostic> {
        let (run, id) = parse_reference(text)?;
        let folder = RunFolder::find_run(run, &default_root()).map_err(|error| match error {
            StoreError::NoRun { .. } if text.parse::<u64>().is_ok() => {
                Diagnostic::usage(error.to_string())
                    .with_hint(format!("a trial of the last run is written last#{text}"))
            }
            error => error.into(),
        })?;
        Self::read(folder, run, id)
    }

    /// Finds a trial that has ended; for a run without a number, the one with the best evidence of its failure.
    pub(super) fn find_ended(
        text: &str,
        no_run: impl FnOnce(&StoreError) -> Diagnostic,
    ) -> Result<Self, Diagnostic> {
        let (run, id) = parse_reference(text)?;
        let folder = RunFolder::find_run(run, &default_root()).map_err(|error| match error {
            StoreError::NoRun { .. } if id.is_none() => no_run(&error),
            error => error.into(),
        })?;
        let stands_for_run = id.is_none();
        let id = id.map_or_else(|| best_trial(&folder), Ok)?;
        let found = Self::read(folder, run, Some(id))?;
        match found.outcome {
            Some(_) => Ok(Self {
                stands_for_run,
                ..found
            }),
            None => Err(no_trial(&found.state, id, &found.ends)),
        }
    }

    /// Reads a trial of a run, or the first measured trial that failed.
    fn read(folder: RunFolder, run_name: &str, id: Option<TrialId>) -> Result<Self, Diagnostic> {
        let mut started: BTreeMap<TrialId, Trial> = BTreeMap::new();
        let mut ended: Option<(Trial, Box<Observation>, Outcome)> = None;
        let mut ends = Vec::new();
        let state =
            journal::read_run(
                &folder.journal_path(),
                questions::FOLD,
                |event, _| match event {
                    Event::TrialStarted(trial) if id.is_none_or(|id| trial.id == id) => {
                        started.insert(trial.id, trial.clone());
                    }
                    Event::TrialFinished {
                        trial,
                        seen: observation,
                        outcome,
                        ..
                    } => {
                        ends.push((*trial, outcome.any_failure().cloned().map(Box::new)));
                        let Some(trial) = started.remove(trial) else {
                            return;
                        };
                        let is_failing =
                            matches!(outcome, Outcome::Fail(_)) && !trial.captures_evidence();
                        if id.is_some() || ended.is_none() && is_failing {
                            ended = Some((trial, observation.clone(), outcome.clone()));
                        }
                    }
                    _ => {}
                },
            )?;
        // A trial that was started again after its end has not ended.
        let unended = id.and_then(|id| started.remove(&id));
        let (trial, observation, outcome) = match (unended, ended) {
            (Some(trial), _) => (trial, Box::default(), None),
            (None, Some((trial, observation, outcome))) => (trial, observation, Some(outcome)),
            (None, None) => {
                return Err(match id {
                    Some(id) => no_trial(&state, id, &ends),
                    None => no_failure(&state)
                        .with_hint("to repeat one that passed, give its number, such as last#1"),
                });
            }
        };
        Ok(Self {
            folder,
            run_name: run_name.to_owned(),
            state,
            trial,
            observation,
            outcome,
            stands_for_run: id.is_none(),
            ends,
        })
    }

    /// Returns the reference of the trial as a word for a shell: `last#17`.
    pub fn reference(&self) -> String {
        format!("{}#{}", shell_word(self.run_name.as_ref()), self.trial.id.0)
    }

    /// Returns the directory of its evidence.
    pub(super) fn directory(&self) -> PathBuf {
        self.folder.trials_path().join(self.trial.id.0.to_string())
    }

    /// Refuses a run that belongs to another user or was copied, unless `trust` is set.
    pub fn check_trust(self, trust: bool) -> Result<Self, Diagnostic> {
        let folder = self.folder.check_trust(trust)?;
        Ok(Self { folder, ..self })
    }
}

/// Parses `RUN` or `RUN#17`; without a run, the last one is meant.
fn parse_reference(text: &str) -> Result<(&str, Option<TrialId>), Diagnostic> {
    let Some((run, number)) = text.rsplit_once('#') else {
        return Ok((text, None));
    };
    match number.parse() {
        Ok(id) if id > 0 => {
            let run = if run.is_empty() { "last" } else { run };
            Ok((run, Some(TrialId(id))))
        }
        _ => Err(
            Diagnostic::usage(format!("`{text}` is not a trial reference")).with_hint(
                "write RUN#TRIAL, such as last#17; `provoke report` lists failing trials",
            ),
        ),
    }
}

/// Returns the trial of a run with the best evidence of its failure.
fn best_trial(folder: &RunFolder) -> Result<TrialId, Diagnostic> {
    let state = read_state(folder)?;
    let report = Report::new(&state, true);
    // Of other trials, only the exit status and the leaks are known.
    let mut failing = report
        .variants
        .iter()
        .flat_map(|variant| variant.failing_trials.iter().copied());
    let best = report.known_best().or_else(|| failing.next());
    best.map(TrialId).ok_or_else(|| {
        no_failure(&state).with_hint(
            match report.confirmed_run().map(|run| shell_word(run.as_ref())) {
                Some(run) => format!("to explain a failure before the fix: provoke explain {run}"),
                None if !state.untestable.is_empty() => {
                    let run = shell_word(state.origin.run.as_ref());
                    format!("for more about them: provoke report {run}")
                }
                None => "`provoke list` shows which of the stored runs failed".to_owned(),
            },
        )
    })
}

/// Reports that no trial of a run failed, and which variants could not be tested.
fn no_failure(state: &State) -> Diagnostic {
    let message = format!("no trial of the run {} failed", state.origin.run);
    let untestable: Vec<String> = state
        .untestable
        .iter()
        .take(LISTED)
        .map(|(id, reason)| {
            let name = state.trials.variant_plan(*id).display_label();
            format!("cannot test the variant `{name}`: {reason}")
        })
        .collect();
    let error = Diagnostic::usage(message);
    if untestable.is_empty() {
        error
    } else {
        error.because(untestable.join("\n"))
    }
}

/// Reports that a run has no such trial, and lists its trials.
fn no_trial(state: &State, id: TrialId, ends: &[(TrialId, Option<Box<Failure>>)]) -> Diagnostic {
    let list_trials = |only_failed: bool| {
        let listed = ends
            .iter()
            .filter(|(_, failure)| !only_failed || failure.is_some());
        let mut numbers: Vec<u64> = listed.map(|(trial, _)| trial.0).collect();
        numbers.sort_unstable();
        words::trial_list(&numbers, LISTED)
    };
    let (trials, failed) = (list_trials(false), list_trials(true));
    let run = &state.origin.run;
    let message = format!("the run {run} has no finished trial {id}");
    Diagnostic::usage(message).with_hint(match (trials.as_str(), failed.as_str()) {
        ("", _) => "none of its trials finished".to_owned(),
        (_, "") => format!("its trials are {trials}; none of them failed"),
        _ => format!("its trials are {trials}; failed: {failed}"),
    })
}
